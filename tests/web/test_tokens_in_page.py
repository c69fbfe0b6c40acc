"""Tokens in a page, by the twin of the package tokenizers, are those of the package itself."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import published
from text.test_hostile_files import HOSTILE, hostile
from text.test_tokenizers import CHATS, SPECIAL, TEMPLATES, TEXTS, by_pieces, byte_level

from pyframe import serve
from pyframe.text import AutoModel
from pyframe.text.gguf import GGUF

from .conftest import Tab, files

playwright: Any = pytest.importorskip("playwright.sync_api")

PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="module" src="pyframe.js"></script>"""
ADD = """([src, files, packages]) => new Promise((resolve, reject) => {
    const el = document.createElement("py-frame");
    Object.assign(el, { src, files, packages, loading: "eager", device: "cpu" });
    document.body.replaceChildren(el);
    el.ready.then(() => resolve(null), reject);
})"""
# How a program answers: the text of a question, and maybe that of the answer, is JSON.
SHOWN = """

if __name__ != "__main__":
    from pyframe.web import Demo, Text

    demo = Demo(ask, Text(most=10**6), Text())
"""
# What both Pythons are asked.
ASKED = """
import json
import random
import tempfile
from pathlib import Path
from pyframe.text import Tokenizer


def ask(question):
    name, texts = json.loads(question)
    try:
        t = Tokenizer.from_pretrained(name)
        t.save_pretrained(place := tempfile.mkdtemp())
        t = Tokenizer.from_pretrained(place)
    except Exception as error:
        return json.dumps(f"{type(error).__name__}: {error}")
    found = [len(t), t.backend.token_to_id("<s>"), t.backend.token_to_id("no such")]
    for text in texts:
        for special in (True, False):
            ids = t.encode(text, add_special_tokens=special)
            found += [ids, t.decode(ids), t.decode(ids, skip_special_tokens=True)]
        found += [t.encode(text[:200], "one two"), list(t.stream(t.encode(text[:99])))]
    draws = random.Random(0)
    torn = [[draws.randrange(len(t) + 1) for _ in range(20)] for _ in range(40)]
    found += [t.decode(ids, skip) for ids in torn for skip in (True, False)]
    short = [text[:200] for text in texts]
    for side in ("right", "left"):
        for most in (None, 7, 8, 30):
            for pairs in (None, short[::-1]):
                rows = t(short, pairs, max_length=most, padding_side=side)
                found.append({name: rows[name].tolist() for name in rows})
    return json.dumps(found)
"""


def like_llama(t: Any) -> Any:
    """As Llama 3's: its own way to cut, and a token before each text."""
    made, regex = byte_level(t), r"(?i:'s|'t|'re|'ve)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    regex += r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    made.pre_tokenizer = t.pre_tokenizers.Sequence([
        t.pre_tokenizers.Split(t.Regex(regex), "isolated"),
        t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])  # fmt: skip
    template = t.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    made.post_processor = t.processors.Sequence([t.processors.ByteLevel(), template])
    return made


def unigram(t: Any) -> Any:
    """As T5's: the likeliest pieces."""
    made = t.Tokenizer(t.models.Unigram())
    made.normalizer = t.normalizers.Sequence([
        t.normalizers.NFKC(), t.normalizers.Replace(t.Regex(" {2,}"), " ")])  # fmt: skip
    made.pre_tokenizer, made.decoder = t.pre_tokenizers.Metaspace(), t.decoders.Metaspace()
    special = ["<unk>", "</s>", *SPECIAL.values()]
    made.train_from_iterator(TEXTS * 3, t.trainers.UnigramTrainer(
        vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False,
    ))  # fmt: skip
    made.post_processor = t.processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return made


def word_pieces(t: Any) -> Any:
    """As BERT's: words, and pieces of those."""
    made = t.Tokenizer(t.models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = t.normalizers.BertNormalizer(), (
        t.pre_tokenizers.BertPreTokenizer())  # fmt: skip
    made.decoder = t.decoders.WordPiece()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    made.train_from_iterator(TEXTS * 3, t.trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=special, show_progress=False))  # fmt: skip
    made.post_processor = t.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def like_roberta(t: Any) -> Any:
    """As RoBERTa's: two tokens between a pair."""
    made = byte_level(t)
    ends = (made.token_to_id(name) for name in ("<|end|>", "<s>"))
    made.post_processor = t.processors.RobertaProcessing(
        *zip(("<|end|>", "<s>"), ends, strict=True), trim_offsets=False, add_prefix_space=False
    )
    return made


KINDS = [byte_level, like_llama, like_roberta, by_pieces, unigram, word_pieces]
GGUFS = {"byte_level.gguf": "gpt2", "by_pieces.gguf": "llama"}


def gguf_file(path: Path, tokenizer: Any) -> None:
    """A tokenizer as llama.cpp writes it, and a tensor in Q8_0."""
    package = pytest.importorskip("gguf")
    writer, kind = package.GGUFWriter(path, "llama"), package.GGMLQuantizationType.Q8_0
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    added = {t.content for t in tokenizer.get_added_tokens_decoder().values()}
    writer.add_tokenizer_model(GGUFS[path.name])
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([3 if t in added else 1 for t in tokens])
    writer.add_token_merges([" ".join(m) for m in
                             json.loads(tokenizer.to_str())["model"]["merges"]])  # fmt: skip
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_add_bos_token(True)
    values = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    writer.add_tensor("some", package.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each kind, and one that is none."""
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("tokens")
    for kind in KINDS:
        kind(tokenizers).save(str(path / f"{kind.__name__}.json"))
    for kind in (byte_level, by_pieces):
        gguf_file(path / f"{kind.__name__}.gguf", kind(tokenizers))
    (path / "broken.json").write_text('{"model": {"type": "BPE", "vocab": {}}}')
    for i, name in enumerate(HOSTILE):
        (path / f"hostile{i}.json").write_text(hostile(name))
    return path


class Asked:
    """An empty page, in which one Python after the other runs programs."""

    def __init__(self, tab: Tab) -> None:
        html = {"body": PAGE, "content_type": "text/html"}
        tab.page.route("**/asked", lambda route: route.fulfill(**html))
        self.tab, self.page, self.now = tab, tab.open("asked"), ""

    def run(self, name: str, program: str, *given: Path | str, packages: str = "") -> Any:
        """What asks a program, which has files beside it, those by name from the server."""
        if self.now != name:
            names = [each if isinstance(each, str) else each.name for each in given]
            for path in (each for each in given if isinstance(each, Path)):
                answer = functools.partial(lambda path, route: route.fulfill(path=path), path)
                self.tab.page.route(f"**/{path.name}", answer)
            self.tab.page.route(f"**/{name}.py", lambda route: route.fulfill(body=program + SHOWN))
            self.page.evaluate(ADD, [f"{name}.py", " ".join(names), packages])
            self.now = name
        ask = "(text) => document.querySelector('py-frame').predict(text)"
        return lambda *question: self.page.evaluate(ask, json.dumps(question))


def plain_wheel(name: str) -> bytes:
    """The installed package as Pyodide installs it, without what is compiled."""
    about = distribution(name)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for file in about.files or []:
            if file.suffix == ".py" or file.parent.name.endswith(".dist-info"):
                archive.writestr(file.as_posix(), Path(str(about.locate_file(file))).read_bytes())
    return data.getvalue()


@pytest.fixture(scope="module")
def page(browser: Any, server: serve.Server, pyodide_files: None) -> Iterator[Asked]:
    """One whose jinja2 comes as Pyodide's does, but is the one that is installed here."""
    lock = json.loads((Path(str(serve.pyodide_folder())) / "pyodide-lock.json").read_text())
    tab = Tab(browser, server)
    for name in ("jinja2", "markupsafe"):
        pytest.importorskip(name)
        about, wheel = lock["packages"][name], plain_wheel(name)
        about["sha256"] = hashlib.sha256(wheel).hexdigest()
        tab.page.route(f"**/{about['file_name']}", functools.partial(
            lambda wheel, route: route.fulfill(body=wheel), wheel))  # fmt: skip
    tab.page.route("**/pyodide-lock.json", lambda route: route.fulfill(json=lock))
    yield Asked(tab)
    tab.close()


@pytest.fixture
def ask(page: Asked, folder: Path) -> Any:
    """Asks ASKED about one of the folder's files."""
    return page.run("tokens", ASKED, *folder.iterdir())


NAMELESS = """
import pyframe as pf


def ask(question):
    try:
        return str(getattr(pf.text, "Token" "izer").from_pretrained("byte_level.json"))
    except ImportError as error:
        return str(error)
"""


def test_a_page_without_what_makes_tokens(page: Asked, folder: Path) -> None:
    """It comes with a program that names it; where it did not the page says how to get it."""
    said = page.run("nameless", NAMELESS, folder / "byte_level.json")()
    assert "needs tokenizers.js, which this page does not have" in said
    assert "extra `text`" in said


@pytest.mark.parametrize("name", [*(f"{kind.__name__}.json" for kind in KINDS), *GGUFS])
def test_tokens_are_those_of_the_package(ask: Any, folder: Path, name: str) -> None:
    plays = serve.ROOT / "examples" / "data" / "tinyshakespeare.txt.gz"
    texts = [*TEXTS, "I'LL they'd 1234567 3.14 __a_b", "\n\n\n  x", "   ", "<pad><pad> <s>",
             gzip.decompress(plays.read_bytes()).decode()[:4_000]]  # fmt: skip
    known: dict[str, Any] = {}
    exec(ASKED, known)
    want = json.loads(known["ask"](json.dumps([str(folder / name), texts])))
    found = json.loads(ask(name, texts))
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        assert a == b


def test_a_file_that_is_none(ask: Any) -> None:
    said = json.loads(ask("broken.json", []))
    assert said.startswith("ValueError: Tokenizer: ")
    assert "broken.json is no tokenizer's file" in said


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_hostile(ask: Any, name: str) -> None:
    """They are refused, or what they say is done, in bounded time."""
    try:
        said = json.loads(ask(f"hostile{[*HOSTILE].index(name)}.json", ["aab" * 100]))
    except playwright.Error as error:  # not when it is read, but when a text is cut
        said = str(error).partition("line 20: ")[2]
    if "much" in name or name in ("a regex without end", "no regex", "many times", "no model"):
        assert isinstance(said, str)
    assert isinstance(said, list) or said.startswith("ValueError: Tokenizer: "), said


CHATTED = """
import json
from pyframe.text import Tokenizer


def ask(question):
    messages, template = json.loads(question)
    try:
        return Tokenizer.from_pretrained("byte_level.json").chat(messages, template=template)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""

SAID = """
import json
import pyframe as pf
from pyframe.text import CausalLM, Chat, Config, Tokenizer


def conversation(place, template, device):
    tokenizer = Tokenizer.from_pretrained(place)
    tokenizer.template = template
    model = CausalLM(Config.from_dict({
        "model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": 32,
        "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 512}))
    pf.manual_seed(0)
    for p in model.parameters():
        pf.nn.init.normal_(p, float(p.ndim == 1), 0.3)
    chat = Chat(model.to(device), tokenizer, max_new_tokens=6, eos_token_id=())
    return ["".join(chat.say(text)) for text in ("Hi there", "and now?")]


def ask(question):
    chats, templates = json.loads(question)
    tokenizer = Tokenizer.from_pretrained("byte_level.json")
    found = [conversation("byte_level.json", templates[0], "cpu")]
    for template in templates:
        for messages in chats:
            try:
                found.append(tokenizer.chat(messages, template=template))
            except ValueError as error:
                found.append(str(error))
    return json.dumps(found)
"""


def test_chats_in_a_page_without_their_package(page: Asked, folder: Path) -> None:
    """Pyodide's jinja2 is looked for by itself; where it can't be had that is said on use."""
    missing = re.compile("jinja2-", re.IGNORECASE)
    page.tab.page.route(missing, lambda route: route.fulfill(status=404))
    said = page.run("chatted", CHATTED, folder / "byte_level.json")(CHATS[1], TEMPLATES["chatml"])
    assert said.startswith("ImportError: chat: templates need the package jinja2")
    page.tab.page.unroute(missing)
    page.tab.errors[:] = [e for e in page.tab.errors if "404" not in e]


def test_chats_in_a_page(page: Asked, folder: Path) -> None:
    """Templates give what they give natively, refusals too, and a model answers."""
    templates = [t for n, t in TEMPLATES.items() if n != "dates"]
    templates += [
        "{{ ''.__class__.__mro__ }}", "{{ range(10000000) | list }}", "{% for %}",
        "{% for i in range(1000) %}{{ 'a' * 1000000 }}{% endfor %}",
    ]  # fmt: skip
    path = folder / "byte_level.json"
    found = json.loads(page.run("said", SAID, path, packages="jinja2")(CHATS, templates))
    known: dict[str, Any] = {}
    exec(SAID.replace('"byte_level.json"', repr(str(path))), known)
    assert found == json.loads(known["ask"](json.dumps([CHATS, templates])))


VECTORS = """
import json
import pyframe as pf
from pyframe.text import AutoModel, Tokenizer


def ask(question):
    return json.dumps(AutoModel.from_pretrained("minilm").embed(json.loads(question)).tolist())
"""


def test_sentences_have_their_vectors_in_a_page(page: Asked) -> None:
    """all-MiniLM-L6-v2 in WebAssembly gives the vectors that it has natively."""
    folder = published("minilm")
    names = [p.relative_to(folder.parent).as_posix() for p in folder.rglob("*") if p.is_file()]
    texts = ["It rains all day.", "The weather is wet and grey.", "Naïve café, Ümläute 😀"]
    with files(folder.parent) as url:  # too large for a route's own answer
        page.tab.page.route("**/minilm/**", lambda route: route.continue_(
            url=url + route.request.url.split("/", 3)[3]))  # fmt: skip
        vectors = json.loads(page.run("vectors", VECTORS, *names)(*texts))
    np.testing.assert_allclose(vectors, AutoModel.from_pretrained(folder).embed(texts), 0, 1e-4)


PACKED = """
import json
from pyframe.text.gguf import GGUF


def ask(question):
    file = GGUF("byte_level.gguf")
    try:
        file.tensor("some")
    except ImportError as error:
        why = str(error)
    bits, ints, scale = file.packed("some")
    return json.dumps([bits, ints.tolist(), scale.tolist(), why])
"""


def test_what_is_packed_in_a_gguf_file(page: Asked, folder: Path) -> None:
    """It needs no package beside, but to unpack it."""
    *found, why = json.loads(page.run("packed", PACKED, folder / "byte_level.gguf")())
    bits, ints, scale = GGUF(folder / "byte_level.gguf").packed("some")
    assert found == [bits, ints.tolist(), scale.tolist()]
    assert "needs the package gguf" in why
