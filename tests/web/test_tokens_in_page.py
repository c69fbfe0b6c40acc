"""Tokens in a page, by the twin of the package tokenizers, are those of the package itself."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text.test_hostile_files import HOSTILE, hostile
from text.test_tokenizers import CHATS, SPECIAL, TEMPLATES, TEXTS, by_pieces, byte_level

from pyframe import serve
from pyframe.__main__ import main
from pyframe.text import AutoModel

from .conftest import Tab, files

playwright: Any = pytest.importorskip("playwright.sync_api")

PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="module" src="pyframe.js"></script>
<py-frame loading="eager" device="cpu" {}></py-frame>"""
# What both are asked: the text of a question is JSON.
ASKED = """
import json
import random
from pathlib import Path
from pyframe.text import Tokenizer


def ask(question):
    name, texts = json.loads(question)
    try:
        t = Tokenizer.from_pretrained(name)
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


if __name__ != "__main__":
    from pyframe.web import Demo, Text

    demo = Demo(ask, Text(most=10**6), Text())
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each kind, and one that is none."""
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("tokens")
    for kind in KINDS:
        kind(tokenizers).save(str(path / f"{kind.__name__}.json"))
    (path / "broken.json").write_text('{"model": {"type": "BPE", "vocab": {}}}')
    for i, name in enumerate(HOSTILE):
        (path / f"hostile{i}.json").write_text(hostile(name))
    return path


@pytest.fixture(scope="module")
def page(visited: Any, server: serve.Server, folder: Path, pyodide_files: None) -> Any:
    tab = Tab(visited, server)
    names = [path.name for path in folder.glob("*.json")]
    for name in names:
        tab.page.route(f"**/{name}", lambda route: route.fulfill(
            path=folder / route.request.url.rpartition("/")[2]))  # fmt: skip
    tab.page.route("**/asked.py", lambda route: route.fulfill(body=ASKED))
    html = PAGE.format(f'src="asked.py" files="{" ".join(names)}"')
    tab.page.route("**/tokens", lambda route: route.fulfill(body=html, content_type="text/html"))
    found = tab.open("tokens")
    found.evaluate("() => document.querySelector('py-frame').ready.then(() => {})")
    yield found
    tab.close()


def asked(page: Any, name: str, texts: list[str]) -> Any:
    call = "(text) => document.querySelector('py-frame').predict(text)"
    return json.loads(page.evaluate(call, json.dumps([name, texts])))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_package(page: Any, folder: Path, kind: Any) -> None:
    plays = serve.ROOT / "examples" / "data" / "tinyshakespeare.txt.gz"
    texts = [*TEXTS, "I'LL they'd 1234567 3.14 __a_b", "\n\n\n  x", "   ", "<pad><pad> <s>",
             gzip.decompress(plays.read_bytes()).decode()[:20_000]]  # fmt: skip
    known: dict[str, Any] = {}
    exec(ASKED.replace('__name__ != "__main__"', "False"), known)
    name = f"{kind.__name__}.json"
    want = json.loads(known["ask"](json.dumps([str(folder / name), texts])))
    found = asked(page, name, texts)
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        assert a == b


def test_a_file_that_is_none(page: Any) -> None:
    said = asked(page, "broken.json", [])
    assert said.startswith("ValueError: Tokenizer: ")
    assert "broken.json is no tokenizer's file" in said


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_hostile(page: Any, name: str) -> None:
    """They are refused, or what they say is done, in bounded time."""
    try:
        said = asked(page, f"hostile{[*HOSTILE].index(name)}.json", ["aab" * 100])
    except playwright.Error as error:  # not when it is read, but when a text is cut
        said = str(error).partition("line 17: ")[2]
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


from pyframe.web import Demo, Text

demo = Demo(ask, Text(most=10**6), Text())
"""


def test_chats_in_a_page_without_their_package(tab: Tab, folder: Path, pyodide_files: None) -> None:
    """Pyodide's jinja2 is looked for by itself; where it can't be had that is said on use."""
    tab.page.route(re.compile("jinja2-", re.IGNORECASE), lambda route: route.fulfill(status=404))
    path = folder / "byte_level.json"
    tab.page.route("**/byte_level.json", lambda route: route.fulfill(path=path))
    tab.page.route("**/chatted.py", lambda route: route.fulfill(body=CHATTED))
    html = PAGE.format('src="chatted.py" files="byte_level.json"')
    tab.page.route("**/chats", lambda route: route.fulfill(body=html, content_type="text/html"))
    page = tab.open("chats")
    page.evaluate("() => document.querySelector('py-frame').ready.then(() => {})")
    ask = "(text) => document.querySelector('py-frame').predict(text)"
    said = page.evaluate(ask, json.dumps([CHATS[1], TEMPLATES["chatml"]]))
    assert said.startswith("ImportError: chat: templates need the package jinja2")


VECTORS = """
import json
import pyframe as pf
from pyframe.text import AutoModel, Tokenizer

models = []


def embed(text):
    if not models:
        models.append(AutoModel.from_pretrained("minilm"))
    return json.dumps(models[0].embed(json.loads(text)).tolist())


from pyframe.web import Demo, Text

demo = Demo(embed, Text(most=10**6), Text())
"""


def test_sentences_have_their_vectors_in_a_page(
    tab: Tab, tmp_path: Path, pyodide_files: None
) -> None:
    """all-MiniLM-L6-v2 in WebAssembly gives the vectors that it has natively."""
    script = [sys.executable, str(serve.ROOT / "scripts" / "get_models"), "minilm"]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"the model can't be had here: {found.stderr.strip()[-200:]}")
    folder = serve.ROOT / "build" / "minilm"
    names = [p.relative_to(folder.parent).as_posix() for p in folder.rglob("*") if p.is_file()]
    assert main(["export", "--python", "--to", str(tmp_path / "pyframe")]) == 0
    (tmp_path / "minilm").symlink_to(folder)
    (tmp_path / "vectors.py").write_text(VECTORS)
    tag = f'src="vectors.py" files="{" ".join(names)}"'
    page = PAGE.replace("pyframe.js", "pyframe/pyframe.js").format(tag)
    (tmp_path / "index.html").write_text(page)
    with files(tmp_path) as url:
        tab.page.goto(url)
        tab.page.evaluate("() => document.querySelector('py-frame').ready.then(() => {})")
        texts = ["It rains all day.", "The weather is wet and grey.", "Naïve café, Ümläute 😀"]
        call = "(text) => document.querySelector('py-frame').predict(text)"
        vectors = json.loads(tab.page.evaluate(call, json.dumps(texts)))
    np.testing.assert_allclose(vectors, AutoModel.from_pretrained(folder).embed(texts), 0, 1e-4)


FILE = '{"model": {"type": "BPE", "vocab": {}, "merges": []}}'


def test_a_page_without_what_makes_tokens(tab: Tab, pyodide_files: None) -> None:
    """It says what is missing, and how to get it."""
    config = {**serve.config(), "tokenizers": None}
    tab.page.route("**/config.json", lambda route: route.fulfill(json=config))
    tab.page.route("**/some.json", lambda route: route.fulfill(body=FILE))
    tab.page.route("**/asked.py", lambda route: route.fulfill(body=ASKED))
    html = PAGE.format('src="asked.py" files="some.json"')
    tab.page.route("**/tokens", lambda route: route.fulfill(body=html, content_type="text/html"))
    page = tab.open("tokens")
    page.evaluate("() => document.querySelector('py-frame').ready.then(() => {})")
    assert "extra `text`" in asked(page, "some.json", [])
