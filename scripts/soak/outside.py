"""Attacks from outside: machine code that others planted, malformed requests, mistakes of users."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import re
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from jobs import SOON, Work, must

import pyframe as pf
from pyframe import nn, optim
from pyframe.backend.cache import DiskCache
from pyframe.nn import functional as F
from pyframe.serve import Handler, Server


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, cut off, doubled or put in."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(5):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.choice(b'0123456789{}[]",:-.eNI \\\xff\x00')
            case 2:
                del out[at : at + rng.choice([1, 4, 40, len(out)])]
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 9))
            case _:
                out[at:at] = out[: rng.randrange(64)]
    return bytes(out)


# --- the cache of machine code


def keys_of(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if len(p.name) == 64)


def planted(rng: random.Random, folder: Path, name: str, theirs: Path) -> bool:
    """Do something to a file of the cache, or to its folder; whether others can write it now."""
    path = folder / name
    data = path.read_bytes()
    match rng.randrange(9):
        case 0:
            path.write_bytes(damaged(rng, data))
        case 1:  # with a checksum that anyone can make
            junk = rng.randbytes(rng.randrange(200))
            path.write_bytes(
                hashlib.sha256(rng.choice([b"", name.encode()]) + junk).digest() + junk
            )
        case 2:
            shutil.copy(theirs / rng.choice(keys_of(theirs)), path)
        case 3:
            shutil.copy(rng.choice(sorted(folder.iterdir())), theirs / "moved")
            os.replace(theirs / "moved", path)
        case 4:
            path.chmod(rng.choice([0o606, 0o620, 0o666, 0o777]))
            return True
        case 5:
            path.rename(theirs / "real")
            path.symlink_to(theirs / "real")
            return True
        case 6:
            path.unlink()
            os.mkfifo(path)
        case 7:
            os.truncate(path, 1 << 33)
        case _:
            folder.chmod(rng.choice([0o702, 0o770, 0o777]))
            return True
    return False


def cache(rng: random.Random, device: str) -> None:
    """Machine code that is read is what was kept under its key, by this user, where nobody else
    could write; what others planted is not read, and made anew unless the folder is theirs."""
    keys = [rng.randbytes(32).hex() for _ in range(3)]
    files = {key: rng.randbytes(rng.randrange(300)) for key in keys}
    with tempfile.TemporaryDirectory() as top:
        ours, theirs = Path(top) / "ours" / "kernels", Path(top) / "theirs"
        before = os.umask(rng.choice([0, 0o002, 0o022, 0o077]))
        try:
            DiskCache(theirs).write(dict.fromkeys(keys, b"their code"))
            DiskCache(ours).write(files)
            assert {stat.S_IMODE(p.stat().st_mode) for p in ours.iterdir()} == {0o600}
            assert {stat.S_IMODE(p.stat().st_mode) for p in (ours, ours.parent)} == {0o700}
            for name in rng.choices([*keys, "secret"], k=rng.randint(1, 3)):
                lost = {name} if planted(rng, ours, name, theirs) else set()
                found = DiskCache(ours).read(keys)
                assert found.items() <= files.items(), "what was planted is read"
                assert not lost & {*found}, "what others can write is read"
                DiskCache(ours).write(files)
                found = DiskCache(ours).read(keys)
                theirs_now = ours.stat().st_mode & 0o022
                assert found == ({} if theirs_now else files), "it is not made anew"
                if theirs_now:
                    break
        finally:
            os.umask(before)


# --- serve

GOOD = b"GET /config.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEADS = [
    b"Host: localhost", b"Host: 127.0.0.1:80", b"Host: evil.example", b"Host:", b"Host: a\0b",
    b"Host: [::1", b"Content-Length: -5", b"Content-Length: 99999999999", b"Connection: keep-alive",
    b"Transfer-Encoding: chunked", b": empty", b"no colon", b"X: " + b"a" * 70_000,
    b"\xff\xfe: \x80", b"If-Modified-Since: Mon, 99 Foo 99999 99:99:99 GMT", b"Range: x",
    b"If-Modified-Since: \0", b"Expect: 100-continue",
]  # fmt: skip
PATHS = [
    b"/", b"/config.json", b"/../../../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"*", b"",
    b"//etc/passwd", b"/data/mnist10k/../../pyproject.toml", b"http://evil.example/", b"/%", b"/\0",
    b"http://localhost/config.json", b"/%00", b"/" + b"a" * 70_000, b"/%ff%fe", b"/CON", b"/.",
    b"/index.html?" + b"&" * 5000, b"/web\\..\\x", b"/pyodide/../digits.py", b"/con/nul",
    b"/examples/digits.py", b"/runtime.js/", b"file:///etc/passwd",
]  # fmt: skip
STATUS = {200, 301, 304, 400, 403, 404, 408, 414, 431, 501, 505}


class Quiet(Handler):
    """Writes no lines about errors."""

    def log_message(self, *_: Any) -> None:
        pass


class Watched(Server):
    """A server that keeps what its threads raise."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []
        super().__init__("127.0.0.1", 0)
        self.RequestHandlerClass = Quiet

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            self.errors.append(sys.exception())


def talk(port: int, data: bytes, patient: bool) -> bytes:
    """What the server answers until it closes; who is not patient goes at once."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), SOON) as s:
        try:
            s.sendall(data)
            if patient:
                s.shutdown(socket.SHUT_WR)
                while chunk := s.recv(1 << 16):
                    got += chunk
        except OSError:  # it may be gone before us
            pass
    return re.sub(rb"(?s)\A(HTTP/1.1 100 .*?\r\n\r\n)+(?=HTTP)", b"", got)


def request(rng: random.Random) -> bytes:
    """A request that may be one, and what is wrong with it."""
    method = rng.choice([b"GET", b"GET", b"HEAD", b"POST", b"get", b"", b"G\0T", b"A" * 70_000])
    version = rng.choice(b"HTTP/1.1,HTTP/1.1,HTTP/1.0,HTTP/0.9,HTTP/9.9,,HTTP/1.1 x".split(b","))
    heads = rng.choices(HEADS, k=rng.choice([0, 1, 2, 150]) if rng.random() < 0.3 else 1)
    end = rng.choice([b"\r\n", b"\r\n", b"\n"])
    first, body = b" ".join([method, rng.choice(PATHS), version]), rng.randbytes(rng.choice([0, 9]))
    data = end.join([first, *heads, b"", body])
    return damaged(rng, data) if rng.random() < 0.3 else data * rng.choice([1, 1, 1, 3])


def ask(server: Watched, data: bytes, patient: bool) -> None:
    """One request, whose answer has a status, and a good one after it, which is served."""
    port, shown = server.server_address[1], f"{data[:200]!r} ({len(data)} bytes)"
    answer = talk(port, data, patient)
    assert not server.errors, f"{server.errors[0]!r} for {shown}"
    for text in (b"root:x:0", b"[build-system]"):
        assert text not in answer, f"a file from outside for {shown}"
    if answer:
        status = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
        assert status, f"{answer[:80]!r} for {shown}"
        assert int(status[1]) in STATUS, f"status {status[1]!r} for {shown}"
    good = talk(port, GOOD, True)
    assert good.startswith(b"HTTP/1.1 200 "), f"{good[:80]!r} after {shown}"
    assert "pyodide" in json.loads(good.partition(b"\r\n\r\n")[2])


def serve(rng: random.Random, device: str) -> None:
    """Malformed requests get a status and no more; the server goes on, and no thread is left."""
    before = threading.active_count()
    with Watched() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            for _ in range(12):
                ask(server, request(rng), rng.random() < 0.8)
        finally:
            server.shutdown()
            thread.join(SOON)
    end = time.monotonic() + SOON
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= before, "threads of the server are left"
    assert not server.errors, repr(server.errors[0])


# --- mistakes

# Calls that go well; a mistake puts one of the junk in the place of one argument.
CALLS = """
pf.cat([x, x], 0); pf.stack([x, x], 0); pf.matmul(x, x); pf.add(x, y); pf.where(b, x, y)
pf.sum(x, 0); pf.mean(x, 0); pf.softmax(x, 0); pf.reshape(x, (16,)); pf.permute(x, (1, 0))
pf.transpose(x, 0, 1); pf.gather(x, 0, i); pf.topk(x, 2, 0); pf.sort(x, 0); pf.argmax(x, 0)
pf.cumsum(x, 0); pf.var(x, 0); pf.clamp(x, 0, 1); pf.linspace(0, 1, 5); pf.arange(0, 9, 2)
pf.zeros((2, 3)); pf.full((2,), 3.0); pf.eye(3); pf.randint(0, 5, (2,)); pf.flatten(x, 0, 1)
pf.einsum('ij,jk->ik', x, x); pf.index_select(x, 0, i[0]); pf.split(x, 2, 0); pf.roll(x, 1, 0)
pf.tril(x, 1); pf.outer(x[0], x[1]); pf.norm(x, 2, 0); F.one_hot(i, 4); F.linear(x, x, x[0])
F.conv2d(m, k, k[0, 0, 0], 1, 1); F.pad(x, (1, 1), 'constant', 0); F.max_pool2d(m, 2, 1)
F.cross_entropy(x, i[0]); F.mse_loss(x, y); F.nll_loss(x, i[0]); F.layer_norm(x, (4,))
F.embedding(i, x); F.dropout(x, 0.5, True); F.binary_cross_entropy(x.sigmoid(), y.sigmoid())
F.scaled_dot_product_attention(m, m, m); F.interpolate(m, (2, 2)); nn.Linear(4, 4)
nn.Conv2d(1, 2, 3); nn.Embedding(4, 2); nn.LayerNorm(4); nn.Dropout(0.5); optim.SGD([w], 0.1, 0.9)
optim.Adam([w], 0.1, (0.9, 0.99)); pf.data.TensorDataset(x, y); pf.data.DataLoader(data, 2, True)
model.fit(data, 1, batch_size=2, verbose=0, callbacks=[stop]); model.evaluate(data, batch_size=2)
model.predict(data.x, batch_size=3); pf.io.save({'a': x}, path); pf.Model(net, loss, opt)
"""
JUNK = """
None; 'a'; object(); -7; 10**6; 1.5; [None]; {}; pf.ones(3, 5); pf.ones(0); nn.Linear; -i; b; ...
pf.ones(2, 2).bool(); pf.tensor(1.0); np.array(['a']); (1, 2, 3); [[1], [2, 3]]; float('nan'); True
print; pf.float32; 'cpu'; [x, 'a']; x[:0]; 10**30; 1j; set(); range(3)
"""
ALSO = {"DataLoader": "|batch_size|num_samples", "fit": "|linear", "predict": "|linear",
        "evaluate": "|linear"}  # fmt: skip
KINDS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, OverflowError, AssertionError,
         AttributeError, NotImplementedError, MemoryError)  # fmt: skip
RAW = re.compile(
    "object has no attribute|^(list|tuple|string) index out of range|not subscriptable|internal|"
    "cannot unpack|values to unpack|could not be broadcast together"
)


class Stop(pf.train.callbacks.Callback):
    """Ends a fit after an epoch, however many it is to have."""

    def on_epoch(self, model: pf.Model, epoch: int, logs: Any) -> None:
        model.stop_training = True


def parts(text: str) -> list[str]:
    return [part for line in text.strip().splitlines() for part in line.split("; ")]


def arguments(call: str) -> tuple[str, list[str]]:
    """A call's function and arguments, as text."""
    node: Any = ast.parse(call, mode="eval").body
    given = [ast.unparse(a) for a in node.args]
    given += [f"{k.arg}={ast.unparse(k.value)}" for k in node.keywords]
    return ast.unparse(node.func), given


def mistakes(rng: random.Random, device: str) -> None:
    """A wrong argument raises an error of a user's kind that names the function, or is right."""
    work = Work(device, 0)
    names: dict[str, Any] = {
        "pf": pf, "F": F, "nn": nn, "optim": optim, "np": np, "net": work.net, "loss": work.loss,
        "data": work.data, "model": work.model, "opt": work.optimizer,
        "x": pf.rand(4, 4).to(device), "y": pf.rand(4, 4).to(device),
        "b": pf.ones(4, 4).bool().to(device), "i": pf.ones(4, 4).long().to(device),
        "m": pf.rand(1, 1, 4, 4).to(device), "k": pf.rand(1, 1, 3, 3).to(device),
        "w": pf.rand(2, device=device, requires_grad=True), "stop": Stop(),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        names["path"] = f"{folder}/file"
        for good in rng.sample(parts(CALLS), 5):
            function, given = arguments(good)
            name, place = function.rpartition(".")[2], rng.randrange(len(given))
            keyword = given[place].rpartition("=")[0]
            given[place] = keyword + "=" * bool(keyword) + rng.choice(parts(JUNK))
            call = f"{function}({', '.join(given)})"
            try:
                out = eval(call, names)
                if isinstance(out, pf.Tensor):
                    out.detach().cpu().numpy()
            except KINDS as error:
                said = "".join(traceback.format_exception_only(error))  # with its notes
                named = re.search(rf"(?i)\b{name}{ALSO.get(name, '')}", said)
                must(named, f"{call}: no word of {name}: {error!r}")
                must(not RAW.search(str(error)), f"{call}: {error!r}")
            except Exception as error:
                raise AssertionError(f"{call}: {error!r}") from error
