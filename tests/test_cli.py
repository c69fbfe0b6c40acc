"""The command line, in this process: what each command prints, writes and refuses."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn, serve
from pyframe.backend.native import NativeGPU
from pyframe.backend.properties import DeviceProperties
from pyframe.cli import drivers, main
from pyframe.cli.command import size_text
from pyframe.cli.drivers import System, advice
from pyframe.core.limits import Limits
from pyframe.io import safetensors
from pyframe.tools.bench import workloads

COMMANDS = ["info", "train", "launch", "serve", "export", "summary", "convert", "bench"]


class Done:
    """What a command left behind."""

    def __init__(self, *argv: object) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                self.status = main([str(arg) for arg in argv])
            except SystemExit as end:
                self.status = int(end.code or 0)
        self.out, self.err = out.getvalue(), err.getvalue()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pf.Tensor]:
    """Files of weights in all formats, in the current folder; gives those of net.safetensors."""
    monkeypatch.chdir(tmp_path)
    pf.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 300), nn.BatchNorm1d(300), nn.Linear(300, 2))
    weights: dict[str, pf.Tensor] = net.state_dict()
    safetensors.save_file(weights, "net.safetensors", {"author": "me", "format": "pt"})
    pf.save(weights, "net.pt")
    pf.save({n: x.numpy() for n, x in weights.items()}, "net.npz")
    pf.save({"epoch": 3, "model": weights, "ema": {"deep": weights}, "notes": ["a", 1]}, "run.pt")
    pf.save({"w": pf.tensor([1.0, 1e9]), "n": pf.arange(3)}, "big.pt")
    pf.save({"a": pf.ones(2), "lr": 0.1}, "mixed.pt")
    pf.save({"w": pf.ones(1).expand(10**9)}, "endless.pt")
    pf.save([pf.ones(2)], "list.pt")
    Path("other.pt").write_bytes(Path("net.safetensors").read_bytes())  # as Model.save
    Path("hostile.pt").write_bytes(hostile())
    Path("cut.safetensors").write_bytes(Path("net.safetensors").read_bytes()[:-1])
    Path("cut.pt").write_bytes(Path("net.pt").read_bytes()[:200])
    Path("noise").write_bytes(b"what is this, then")
    Path("empty").mkdir()
    return weights


def hostile() -> bytes:
    """A file as PyTorch's whose pickle would make a folder."""
    import pickle
    import zipfile

    class Bad:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, ("was-run",)

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"w": Bad()}, 2))
        archive.writestr("archive/version", "3\n")
    return out.getvalue()


# --- what holds for all commands


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_enough(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = Done(command, "--help")
    assert done.status == 0
    assert done.err == ""
    usage, _, rest = done.out.partition("\n\n")
    assert usage.startswith(f"usage: pyframe {command} ")
    description, _, rest = rest.partition("\npositional arguments:\n")
    if not rest:
        description, _, rest = description.partition("\noptions:\n")
    assert len(description) > 60
    options, _, examples = rest.partition("\nexamples:\n")
    assert len(re.findall(rf"^  pyframe {command}\b", examples, re.MULTILINE)) >= 2
    described = re.split(r"\n  (?=-)", "\n" + options.partition("options:\n")[2])[1:]
    for option in described:
        if not option.startswith(("-h", "--to ")):  # --to has to be given
            assert "(default" in " ".join(option.split()), option
    assert max(map(len, done.out.splitlines())) <= 100


def test_the_whole_of_it_is_listed() -> None:
    done = Done("--help")
    assert done.status == 0
    listed = re.findall(r"^    (\w+)  ", done.out, re.MULTILINE)
    assert listed == COMMANDS
    assert Done("--version").out == f"pyframe {pf.__version__}\n"


REFUSED = [  # a command line, its status, and what it says
    ("", 2, "required: COMMAND"),
    ("fly", 2, "invalid choice: 'fly'"),
    ("summary", 2, "required: FILE"),
    ("summary x --depth 0", 2, "'0' is no number from 1 on"),
    ("bench --repeats x", 2, "'x' is no number from 1 on"),
    ("convert net.pt", 2, "required: OUT"),
    ("convert net.pt x.pt --dtype int8", 2, "invalid choice: 'int8'"),
    ("train digits --bogus", 2, "pyframe train digits: error: unrecognized arguments: --bogus"),
    ("train digtis", 1, "pyframe train: no example 'digtis': did you mean digits?"),
    ("train photo", 1, "no example 'photo': the examples are digits, finetune, gpt"),
    ("train playground --device tpu", 1, "pyframe train: playground: device: unknown device 'tpu'"),
    ("bench --device tpu", 1, "pyframe bench: device: unknown device 'tpu'"),
    ("bench --only W1,W9", 1, "pyframe bench: --only W9: expected some of W1, W2, W3"),
    ("summary none.pt", 1, "pyframe summary: none.pt: No such file or directory"),
    ("summary none", 1, "pyframe summary: none: No such file or directory"),
    ("summary empty", 1, "empty: expected one .safetensors"),
    ("summary hostile.pt", 1, "hostile.pt: the file names "),
    ("summary cut.safetensors", 1, "truncated"),
    ("summary cut.pt", 1, "cut.pt"),
    ("summary noise", 1, "the file is truncated or is not safetensors"),
    ("convert none.pt x.pt", 1, "pyframe convert: none.pt: No such file or directory"),
    ("convert hostile.pt x.pt", 1, "nothing was run. Save the state_dict() alone"),
    ("convert cut.safetensors x.pt", 1, "truncated"),
    ("convert net.pt x.bin", 1, "x.bin: expected a name that ends in .safetensors, .pt, .pth"),
    ("convert net.pt net.npz", 1, "net.npz exists; --force replaces it"),
    ("convert net.pt net.pt", 1, "net.pt exists; --force replaces it"),
    ("convert net.pt none/x.pt", 1, "none"),
    ("convert net.pt x.pt --shard-size 2GB", 1, "--shard-size is for .safetensors"),
    ("convert net.pt x.safetensors --shard-size 2Q", 1, "x.safetensors: max_shard_size is bytes"),
    ("convert net.pt x.npz --dtype bfloat16", 1, "NumPy has no bfloat16, as 0.weight is"),
    ("convert mixed.pt x.pt", 1, "expected tensors by name, got float at 'lr'"),
    ("convert endless.pt x.pt", 1, "show elements of theirs over and over (a stride of 0)"),
    ("convert list.pt x.pt", 1, "list.pt: expected tensors by name, got list"),
    ("convert run.pt x.pt --key ema.shallow", 1, "no 'shallow' (of --key ema.shallow): there are"),
    ("convert run.pt x.pt --key notes.a", 1, "has no 'a' (of --key notes.a): no dict"),
    ("convert run.pt x.pt --key ema", 1, "got OrderedDict at 'deep'; take --key with one of ema."),
]  # fmt: skip


def test_what_can_not_be_done_is_told_in_a_line(files: Any) -> None:
    before = sorted(Path().iterdir())
    for line, status, said in REFUSED:
        done = Done(*line.split())
        assert (done.status, done.out) == (status, ""), line
        assert said in done.err, f"{line}: {done.err}"
        assert "Traceback" not in done.err
        if status == 1:
            assert len(done.err.splitlines()) == 1, done.err
    assert sorted(Path().iterdir()) == before, "and nothing was written or run"


def test_export_of_a_program_that_ends_in_an_error(tmp_path: Path) -> None:
    guard = 'belongs under if __name__ == "__main__":'
    parser = "import argparse\np = argparse.ArgumentParser()\n"
    for text, said in (
        ("import sys\n\nint(sys.argv[0])", ["train.py:3: ValueError: invalid literal", guard]),
        (f"{parser}p.add_argument('--to', required=True)\np.parse_args()",
         ["train.py:4: SystemExit: 2. The program runs as it is loaded", guard]),
        ("x = 1\ndef f(:", ["train.py:2: SyntaxError: invalid syntax"]),
        ("from pyframe import Model, nn\nmodel = Model(nn.Linear(2, 1))",
         ["the page has no input, no output and nothing to learn from: let the program define"]),
    ):  # fmt: skip
        (tmp_path / "train.py").write_text(text + "\n")
        done = Done("export", tmp_path / "train.py", "--to", tmp_path / "out")
        assert all(part in done.err for part in said), done.err
        assert (guard in done.err) == (guard in said)


def test_an_interrupt_ends_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyframe.cli.info.facts", interrupted)
    done = Done("info")
    assert (done.status, done.out, done.err) == (130, "", "")


@pytest.mark.skipif(os.name == "nt", reason="needs a Unix pipe")
def test_a_closed_pipe_ends_quietly(files: Any) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "pyframe", "summary", "net.pt"], stdout=pipe,
            stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(serve.PACKAGE.parent)},
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_letters_that_a_pipe_lacks(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of Windows do, which are in an old encoding of its own."""
    safetensors.save_file({"w": pf.ones(1)}, "o.safetensors", {"author": "Ångström, μ"})
    pipe = io.TextIOWrapper(io.BytesIO(), "cp1252")
    monkeypatch.setattr(sys, "stdout", pipe)
    assert main(["summary", "o.safetensors"]) == 0
    assert "author: Ångström, ?" in pipe.buffer.getvalue().decode("cp1252")


def test_sizes_are_for_people() -> None:
    sizes = {0: "0 B", 999: "999 B", 1500: "1.5 kB", 999_900: "1 MB", 2.5e9: "2.5 GB", 5e12: "5 TB"}
    assert {nbytes: size_text(nbytes) for nbytes in sizes} == sizes


# --- train


def test_examples_are_listed() -> None:
    lines = Done("train").out.splitlines()
    names = [line.split()[0] for line in lines[: lines.index("")]]
    trained = {p.stem for p in (serve.ROOT / "examples").glob("*.py")} - {"photo"}
    assert names == sorted(trained)
    assert all(len(line.split()) > 5 for line in lines if line)


def test_an_example_trains_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sys.modules["__main__"], sys.argv, sys.path[:]
    options = "--epochs 2 --images 128 --device cpu"
    done = Done("train", "vae", "--", *options.split())
    assert done.status == 0, done.err
    first, second = map(float, done.out.splitlines()[0].split()[-2:])
    assert second < first
    assert {p.name for p in tmp_path.iterdir()} == {"vae.png", "vae.safetensors"}
    assert (sys.modules["__main__"], sys.argv, sys.path) == before
    assert "usage: pyframe train vae [-h] [--epochs" in Done("train", "vae.py", "--help").out


def test_an_example_of_a_wheel_is_never_stale() -> None:
    """Its code lies within the package, and what it reads is looked at as users' code is."""
    text = "import pyframe as pf\nscale = 2\n@pf.compile\ndef f(x):\n    return x * scale\n"
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(serve.PACKAGE / "examples" / "mine.py"), "exec"), space)
    x = pf.ones(2)
    assert [space["f"](x).tolist() for _ in range(3)] == [[2, 2]] * 3
    space["scale"] = 3
    assert space["f"](x).tolist() == [3, 3]


# --- summary


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt", "net.npz", "other.pt"])
def test_summary(files: dict[str, pf.Tensor], name: str) -> None:
    found = json.loads(Done("summary", name, "--json").out)
    assert found["format"] == {"other.pt": "safetensors"}.get(name, name.partition(".")[2])
    assert found["files"] == {name: os.path.getsize(name)}
    kept = {"author": "me", "format": "pt"} if found["format"] == "safetensors" else {}
    assert found["metadata"] == kept
    want = {n: (list(x.shape), x.dtype.name, x.nbytes) for n, x in files.items()}
    assert {t["name"]: (t["shape"], t["dtype"], t["bytes"]) for t in found["tensors"]} == want
    assert found["parameters"] == sum(x.numel() for x in files.values()) == 3303
    assert found["dtypes"]["int64"] == {"tensors": 1, "parameters": 1, "bytes": 8}
    told = Done("summary", name).out.splitlines()
    assert [line.split()[0] for line in told[4:7]] == ["0", "bias", "weight"]
    assert told[6].split() == ["weight", "[300,", "4]", "float32", "1,200", "4.8", "kB"]
    (total,) = (line for line in told if line.startswith("total"))
    assert total.split() == ["total", "3,303", "13.2", "kB"]
    levels = Done("summary", name, "--depth", "1").out.splitlines()
    assert [line.split()[0] for line in levels[4:7]] == ["0", "1", "2"]
    assert levels[5].split() == ["1", "float32,", "int64", "1,201", "4.81", "kB"]


def test_summary_of_a_checkpoint_and_of_a_set(files: Any) -> None:
    found = json.loads(Done("summary", "run.pt", "--json").out)
    assert found["others"] == {"epoch": "3", "notes.0": "'a'", "notes.1": "1"}
    assert found["parameters"] == 2 * 3303
    assert Done("convert", "net.pt", "set.safetensors", "--shard-size", "5kB").status == 0
    found = json.loads(Done("summary", "set.safetensors.index.json", "--json").out)
    assert len(found["files"]) == 3
    assert {t["file"] for t in found["tensors"]} == set(found["files"])
    for name in list(found["files"])[:2]:
        assert name in Done("summary", "set.safetensors").out


def test_summary_reads_no_tensor(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of 8 GB neither, that has nothing but its header on the disk."""
    info = {"dtype": "BF16", "shape": [2**16, 2**16], "data_offsets": [0, 2**33]}
    header = json.dumps({"w": info}).encode()
    with open("huge.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2**33)
    found = json.loads(Done("summary", "huge.safetensors", "--json").out)
    assert found["dtypes"] == {"bfloat16": {"tensors": 1, "parameters": 2**32, "bytes": 2**33}}
    monkeypatch.delattr("pyframe.io.raw.read")
    monkeypatch.delattr("pyframe.io.raw.pages")
    for name in ("net.safetensors", "net.pt", "net.npz"):
        assert Done("summary", name).status == 0


def test_files_of_before_pytorch_1_6(files: dict[str, pf.Tensor], torch: Any) -> None:
    weights = {name: torch.from_numpy(x.numpy()) for name, x in files.items()}
    torch.save(weights, "old.pt", _use_new_zipfile_serialization=False)
    assert json.loads(Done("summary", "old.pt", "--json").out)["parameters"] == 3303
    assert Done("convert", "old.pt", "a.safetensors").status == 0
    same("a.safetensors", files)


# --- convert


def same(path: str, weights: dict[str, pf.Tensor]) -> None:
    loaded = pf.load(path)
    assert set(loaded) == set(weights)
    for name, x in weights.items():
        assert loaded[name].dtype == x.dtype
        assert loaded[name].equal(x)


CONVERTED = [  # from, to, options, what is said on stderr, what is told in the end
    ("net.pt", "a.safetensors", "", "", "9 tensors, 3,303 parameters, 13.2 kB (float32, int64)"),
    ("net.npz", "a.pth", "", "", "9 tensors"),
    ("other.pt", "other.pt", "--force", ".pt has no place for metadata: left out author", ""),
    ("net.safetensors", "a.npz", "", ".npz has no place for metadata: left out author", ""),
    ("net.safetensors", "a.safetensors", "", "", "9 tensors"),
    ("net.safetensors", "a.safetensors", "--shard-size 5kB", "", "9 tensors"),
    ("net.pt", "net.npz", "--force", "", "9 tensors"),
    ("net.pt", "net.pt", "--force", "", "9 tensors"),
    ("run.pt", "a.pt", "", "takes 'model' of run.pt, and leaves out epoch, ema, notes", ""),
    ("run.pt", "a.pt", "--key ema.deep", "", "9 tensors"),
]


def test_convert(files: dict[str, pf.Tensor]) -> None:
    """Each from the files as they were."""
    kept = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    for source, target, options, said, told in CONVERTED:
        done = Done("convert", source, target, *options.split())
        assert done.status == 0, done.err
        assert done.err == (f"pyframe convert: {said}\n" if said else "")
        assert done.out.startswith(f"wrote {target}: {told}")
        same(target, files)
        if target.endswith(".safetensors"):
            metadata = {"author": "me"} if source == "net.safetensors" else {}
            assert safetensors.load_metadata(target) == {**metadata, "format": "pt"}
        assert [path for path in Path().iterdir() if path.suffix == ".part"] == []
        for path in (path for path in Path().iterdir() if path.is_file()):
            path.unlink()
        for path, data in kept.items():
            path.write_bytes(data)


def test_convert_to_another_dtype(files: dict[str, pf.Tensor]) -> None:
    """Values that it lacks are told."""
    for to in (pf.float16, pf.bfloat16, pf.float64):
        assert Done("convert", "net.pt", "small.pt", "--dtype", to.name, "--force").status == 0
        same("small.pt", {n: x.to(to) if x.is_floating_point() else x for n, x in files.items()})
    done = Done("convert", "big.pt", "big16.pt", "--dtype", "float16")
    told = "pyframe convert: w: 1 of 2 values are too large for float16: now infinite\n"
    assert done.err == told
    assert pf.load("big16.pt")["w"].tolist() == [1.0, float("inf")]


# --- bench


def test_bench(gpu: str, tmp_path: Path) -> None:
    out = tmp_path / "bench.md"
    options = f"--quick --repeats 1 --only w1 --device cpu,gpu,gpu:0 --out {out}"
    done = Done("bench", *options.split())
    assert done.status == 0, done.err
    assert out.read_text() == done.out
    rows = [line.strip("| ").split(" | ") for line in done.out.splitlines() if "|" in line]
    assert [row[0] for row in rows] == ["device", "---", "cpu", "gpu", "step", "---",
                                        "W1 mlp", "W1 mlp"]  # fmt: skip
    for row in (*rows[2:4], *(row[1:] for row in rows[6:])):
        assert row[0] in ("cpu", "gpu")
        assert all(float(cell) >= 0 for cell in row[1:])
    assert rows[6][-1] == "1.00"
    assert "measuring W1 mlp ...\n" in done.err


def test_bench_refuses_a_device_that_computes_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value, seen = workloads.value, []

    def broken(x: Any) -> np.ndarray:
        seen.append(x)
        return value(x) + (len(seen) > 1)

    monkeypatch.setattr("pyframe.tools.bench.measure.value", broken)
    done = Done("bench", "--quick", "--repeats", "1", "--only", "W1", "--device", "cpu")
    assert (done.status, done.out) == (1, "")
    assert "pyframe bench: mlp: cpu compiled differs from cpu eager by " in done.err


# --- info


def test_info_tells_the_gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYFRAME_THREADS", "3")
    found = json.loads(Done("info", "--json").out)
    backend = pf.device(gpu).backend
    first = found["gpus"][0]
    assert f"{first['name']} through {first['api']}" == backend.adapter
    for name, value in first["limits"].items():
        assert value == getattr(backend.limits, name)
    assert first["float16"] == backend.limits.float16
    assert found["cpu"]["threads"] == 3
    assert found["cpu"]["computes"] == pf.device_name("cpu")
    assert found["environment"]["PYFRAME_THREADS"] == "3"
    assert found["auto"] == pf.device("auto").type
    assert found["pyframe"] == pf.__version__
    assert found["numpy"] == np.__version__
    assert bool(found["advice"]) == (found["auto"] == "cpu")
    told = Done("info", "--all").out
    for text in (first["name"], "3 threads", found["why"], f"is {found['auto']}: ",
                 f"  {pf.device_name('cpu')}\n", f"made on {pf.get_default_device()}",
                 *first["features"][:3]):  # fmt: skip
        assert text in told


def test_info_takes_a_real_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    about = DeviceProperties(
        name="Radeon", vendor="AMD", type="discrete", api="Vulkan", driver="RADV 25",
        limits=Limits(storage_buffers=16, buffer_bytes=1 << 32, float16=True),
        features=("shader-f16", "timestamp-query"), total_memory=16 << 30,
    )  # fmt: skip
    monkeypatch.setattr(NativeGPU, "adapters", lambda software: [about])
    monkeypatch.setattr(pf.gpu, "get_device_properties", lambda index: about)
    monkeypatch.setattr("pyframe.core.devices._auto", lambda: True)
    told = Done("info").out
    for text in ("gpu:0    Radeon (AMD, 17.2 GB)", "discrete, Vulkan, driver RADV 25",
                 "float16: yes, subgroups: no, timestamps: yes", "4.29 GB", ", 16 in a kernel",
                 "is gpu: Radeon is the first real GPU."):  # fmt: skip
        assert text in told, told
    assert "To compute on a GPU" not in told


def test_info_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    monkeypatch.setattr("pyframe.core.devices._auto", lambda: False)
    found = json.loads(Done("info", "--json").out)
    assert (found["gpus"], found["auto"]) == ([], "cpu")
    assert "wgpu is not installed" in found["why"]
    assert found["advice"] == advice(drivers.look())
    told = Done("info").out
    assert "To compute on a GPU:" in told
    assert "pip install wgpu" in told


DEBIAN, FEDORA = ("debian",), ("rocky", "rhel", "centos", "fedora")
HAS = {"nodes": ("/dev/dri/renderD128",), "icds": ("radeon_icd.json", "lvp_icd.json")}
ADVICE: list[tuple[System, str]] = [
    (System("Linux", wgpu="No module named 'wgpu'"), "No module named 'wgpu'.*pip install wgpu"),
    (System("Darwin"), "Metal comes with macOS"),
    (System("Windows"), "newest graphics driver"),
    (System("FreeBSD"), "Vulkan driver"),
    (System("Linux", wsl=True, nodes=("/dev/dxg",)), "^This is WSL.*D3D12[^\n]*$"),
    (System("Linux", wsl=True), "/dev/dxg is missing.*wsl --update"),
    (System("Linux", distributions=DEBIAN, container=True, icds=HAS["icds"]),
     "^This is a container[^\n]*--device /dev/dri[^\n]*NVIDIA_DRIVER_CAPABILITIES=all[^\n]*$"),
    (System("Linux", distributions=DEBIAN, vendors=("AMD",), icds=HAS["icds"]),
     "^No GPU's device[^\n]*AMD on the bus[^\n]*$"),
    (System("Linux", distributions=DEBIAN, closed=HAS["nodes"], **HAS),
     r"^You may not open /dev/dri/renderD128[^\n]*usermod -aG render,video[^\n]*$"),
    (System("Linux", distributions=DEBIAN, nodes=HAS["nodes"], vendors=("Intel",), loader=False),
     "^Vulkan's loader[^\n]*apt install libvulkan1 mesa-vulkan-drivers.$"),
    (System("Linux", distributions=("linuxmint", "ubuntu"), nodes=HAS["nodes"], vendors=("AMD",)),
     "^Mesa's Vulkan drivers for AMD[^\n]*apt install[^\n]*$"),
    (System("Linux", distributions=DEBIAN, nodes=HAS["nodes"], icds=("lvp_icd.json",)),
     "^Mesa's Vulkan drivers are missing[^\n]*$"),
    (System("Linux", distributions=DEBIAN, nodes=HAS["nodes"], icds=("broadcom_icd.json",)),
     "^The parts of Vulkan are there[^\n]*$"),
    (System("Linux", distributions=FEDORA, nodes=HAS["nodes"], vendors=("AMD",)), "dnf install"),
    (System("Linux", distributions=("arch",), nodes=HAS["nodes"], vendors=("Intel",)), "pacman -S"),
    (System("Linux", distributions=("opensuse-leap", "suse"), nodes=HAS["nodes"],
            vendors=("Intel",)), "zypper install libvulkan1"),
    (System("Linux", distributions=("plan9",), nodes=HAS["nodes"], vendors=("Intel",)),
     "your distribution's Vulkan loader"),
    (System("Linux", distributions=("ubuntu", "debian"), nodes=("/dev/nvidia0",),
            vendors=("NVIDIA",)), "^NVIDIA's Vulkan driver[^\n]*ubuntu-drivers install[^\n]*$"),
    (System("Linux", distributions=DEBIAN, nodes=("/dev/nvidia0",), container=True),
     "^NVIDIA's Vulkan driver[^\n]*start the container[^\n]*$"),
    (System("Linux", distributions=DEBIAN, vendors=("NVIDIA",), nodes=("/dev/nvidia0",),
            icds=("nvidia_icd.json",)), "^The parts[^\n]*vulkaninfo --summary[^\n]*nvidia-driver"),
    (System("Linux", distributions=DEBIAN, vendors=("AMD",), **HAS), "^The parts of Vulkan are"),
]  # fmt: skip


@pytest.mark.parametrize(("system", "said"), ADVICE)
def test_advice_names_what_is_missing(system: System, said: str) -> None:
    assert re.search(said, "\n".join(advice(system)), re.DOTALL)


def test_this_system_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(["/x/radeon_icd.json", "/y/a.json"]))
    seen = drivers.look()
    assert advice(seen)
    if seen.name == "Linux":
        assert seen.icds == ("radeon_icd.json", "a.json")
        assert set(seen.closed) <= set(seen.nodes)
    release = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'
    assert drivers.distributions(release) == FEDORA
    assert drivers.distributions("") == ()
