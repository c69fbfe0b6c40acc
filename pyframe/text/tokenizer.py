"""Texts to tokens and back, by Hugging Face's package tokenizers, in a page by its twin in
JavaScript; and chats as one text."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyframe as pf
from pyframe import hub
from pyframe.io.files import head, replacing
from pyframe.io.kinds import mistaken
from pyframe.tensor import Tensor
from pyframe.text import gguf

__all__ = ["Tokenizer"]

SPECIAL = "bos", "eos", "unk", "sep", "pad", "cls", "mask"


class Tokenizer:
    """What makes tokens of texts, as `tokenizer.json` says.

    Args:
        backend: of the package tokenizers.
        special: "bos_token", "eos_token", "pad_token" … and the texts that are they.
        template: of chats, in Jinja's language; several by their names.
    """

    def __init__(
        self, backend: Any, special: Mapping[str, str] | None = None,
        template: str | Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.backend, self.special, self.template = backend, dict(special or {}), template
        backend.no_padding()
        backend.no_truncation()

    @classmethod
    def from_pretrained(
        cls, source: str | os.PathLike[str], revision: str = "main"
    ) -> Tokenizer:  # fmt: skip
        """Of a folder with `tokenizer.json`, and `tokenizer_config.json` if it has special tokens
        and a chat's template; of a GGUF file; or of what `pf.hub.model` takes.

        Args:
            source: a path, or a name on the hub; FileNotFoundError where it has no tokenizer.
            revision: a branch, tag or commit of the hub.
        """
        folder = hub.model(source, revision)
        if folder.is_file() and folder.suffix == ".gguf":
            told, names, chats = gguf.tokenizer(gguf.GGUF(folder).metadata)
            with _of_the_file(f"{folder} has no tokenizer's tokens"):
                return cls(_backend(json.dumps(told)), names, chats)
        path = folder / "tokenizer.json" if folder.is_dir() else folder
        if not path.is_file():
            raise FileNotFoundError(f"Tokenizer: {path} is not there")
        with _of_the_file(f"{path} is no tokenizer's file"):
            text = path.read_text("utf-8")
            if other := mistaken(text[:100].encode()):
                raise ValueError(f"it is {other}")
            _see_that_it_is_bounded(json.loads(text))
            made = _backend(text)
        said: dict[str, Any] = {}
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            said |= _read(path.with_name(name))
        special: dict[str, Any] = {
            name: value.get("content") if isinstance(value, dict) else value
            for name in (f"{s}_token" for s in SPECIAL)
            if (value := said.get(name))
        }
        template = said.get("chat_template")
        if isinstance(template, list):
            pairs = [(t.get("name"), t.get("template")) if isinstance(t, dict) else (t, None)
                     for t in template]  # fmt: skip
        else:
            pairs = [("default", template)] if template else []
        texts = [*special.items(), *(("chat_template", x) for x in itertools.chain(*pairs))]
        for name, x in texts:
            if not isinstance(x, str):
                raise ValueError(
                    f"Tokenizer: tokenizer_config.json in {path.parent} has {x!r:.80} where the "
                    f"text of a special token or of a chat's template was expected: {name}"
                )
        template = dict(pairs) if isinstance(template, list) else template
        if path.with_name("chat_template.jinja").is_file():
            path = path.with_name("chat_template.jinja")
            with _of_the_file(f"{path} is no text"):
                template = path.read_text("utf-8")
        return cls(made, special, template)

    def files(self) -> dict[str, bytes]:
        """What lies in a folder that it is read from, by the files' names."""
        template: Any = self.template
        if isinstance(template, Mapping):
            template = [{"name": n, "template": t} for n, t in template.items()]
        said = {**self.special, **({"chat_template": template} if template else {})}
        return {
            "tokenizer.json": self.backend.to_str().encode(),
            "tokenizer_config.json": json.dumps(said, ensure_ascii=False).encode(),
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, which `from_pretrained` and Hugging
        Face's packages read.

        Args:
            folder: where; it is made if it isn't there.
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, data in self.files().items():
            with replacing(Path(folder) / name) as file:
                file.write(data)

    def __len__(self) -> int:
        return int(self.backend.get_vocab_size())

    def id(self, token: str) -> int:
        """The number of a token; "bos_token" and the like are those of this tokenizer.

        Args:
            token: its text; KeyError for what is none.
        """
        text = self.special.get(token, token)
        found = self.backend.token_to_id(text)
        if found is None:
            raise KeyError(f"Tokenizer: {text!r} is no token")
        return int(found)

    @property
    def pad_id(self) -> int:
        """What fills up shorter texts: its own token, or the one that ends texts, or 0."""
        names = (self.special.get(n) for n in ("pad_token", "eos_token"))
        ids = (self.backend.token_to_id(n) for n in names if n is not None)
        return next((int(i) for i in ids if i is not None), 0)

    def encode(
        self, text: str, pair: str | None = None, add_special_tokens: bool = True
    ) -> list[int]:
        """The tokens of a text, or of a pair of them.

        Args:
            text: the first, or the only one.
            pair: the second one.
            add_special_tokens: whether those that begin and end texts are among them.
        """
        with _of_the_file():
            return list(self.backend.encode(text, pair, add_special_tokens=add_special_tokens).ids)

    def __call__(
        self, texts: str | Sequence[str], pairs: Sequence[str] | None = None,
        max_length: int | None = None, padding_side: str = "right",
        add_special_tokens: bool = True, device: Any = None,
    ) -> dict[str, Tensor]:  # fmt: skip
        """What a model takes: "input_ids", "attention_mask" and "token_type_ids" (texts, tokens).

        Args:
            pairs: the second text of each, for models that compare two.
            max_length: tokens, special ones included, after which texts are cut.
            padding_side: "right", or "left" as `generate` wants it.
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        if padding_side not in ("left", "right"):
            raise ValueError(f"padding_side is 'left' or 'right', got {padding_side!r}")
        if max_length is not None:
            self.backend.enable_truncation(max_length)
        try:
            both = many if pairs is None else list(zip(many, pairs, strict=True))
            with _of_the_file():
                found = self.backend.encode_batch(both, add_special_tokens=add_special_tokens)
        finally:
            self.backend.no_truncation()
        length = max((len(e.ids) for e in found), default=0)
        for e in found:
            e.pad(length, direction=padding_side, pad_id=self.pad_id)
        columns = {"input_ids": "ids", "attention_mask": "attention_mask",
                   "token_type_ids": "type_ids"}  # fmt: skip
        return {
            name: pf.tensor([getattr(e, a) for e in found], dtype=pf.int64, device=device)
            for name, a in columns.items()
        }

    def decode(self, ids: int | Sequence[int] | Tensor, skip_special_tokens: bool = False) -> str:
        """The text of tokens.

        Args:
            ids: an int, a sequence or a vector of them.
            skip_special_tokens: whether special tokens are left out.
        """
        ids = ids.tolist() if isinstance(ids, Tensor) else ids
        ids = [ids] if isinstance(ids, int) else list(ids)
        with _of_the_file():
            return str(self.backend.decode(ids, skip_special_tokens=skip_special_tokens))

    def stream(
        self, tokens: Iterable[Any] | AsyncIterable[Any], skip_special_tokens: bool = True,
        stop: str | Sequence[str] = (),
    ) -> TextStream:  # fmt: skip
        """The text of tokens as they come, of `CausalLM.stream` too (its first text), piece by
        piece: `for` and `async for`. No piece ends within a character; the text ends before the
        first of the texts `stop`.

        Args:
            tokens: an iterable, which may be awaited, of tokens or of lists that begin with one.
            skip_special_tokens: whether special tokens are left out.
        """
        return TextStream(self, tokens, skip_special_tokens, stop)

    def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = True, template: str | None = None, **more: Any,
    ) -> str:  # fmt: skip
        """A conversation as one text, as the model's template says; encode it without special
        tokens, which it has.

        Args:
            messages: such as {"role": "user", "content": "Hello!"}.
            tools: JSON schemas of functions that the model may ask for.
            add_generation_prompt: whether the model's answer begins at the end.
            template: the name of one of several, or a template.
            more: what else the template knows.

        ValueError for what the template refuses, and for one that asks for more than texts.
        """
        known = self.template if isinstance(self.template, Mapping) else {"default": self.template}
        name = template or ("tool_use" if tools and "tool_use" in known else "default")
        text = known.get(name, template)
        if text is None:
            raise ValueError(
                f"chat: this tokenizer has no template {name!r}; give one as template="
            )
        plain = [{k: v for k, v in m.items() if v is not None} for m in messages]
        given = json.loads(json.dumps({"messages": plain, "tools": tools, "more": more}))
        try:
            from pyframe.text.templates import render  # which few need, and jinja2 with it
        except ImportError:
            raise ImportError(
                "chat: templates need the package jinja2: pip install 'pyframe-webgpu[text]'; in a "
                "page it comes with Pyodide, for a program that names chat, from the site or the "
                'CDN that Pyodide is from: packages="jinja2" tells why it can\'t be had'
            ) from None

        own = {"documents": None, "add_generation_prompt": add_generation_prompt, **self.special}
        return render(text, {"messages": given["messages"], "tools": given["tools"], **own,
                             **given["more"]})  # fmt: skip


class TextStream:
    """See `Tokenizer.stream`."""

    def __init__(
        self, tokenizer: Tokenizer, tokens: Any, skip: bool, stop: str | Sequence[str]
    ) -> None:
        self._tokens = tokens
        self._text = functools.partial(tokenizer.decode, skip_special_tokens=skip)
        self._stop = [stop] if isinstance(stop, str) else list(stop)
        if wrong := [x for x in self._stop if not isinstance(x, str) or not x]:
            raise ValueError(
                f"stop is a text, or several, of a character at least, got {wrong[0]!r}"
            )
        self._ids: list[int] = []
        self._begin = self._told = 0  # ids from `_begin` on are decoded, those up to `_told` known
        self._held = ""  # what may be the beginning of a stop
        self._ended = False

    def _decoded(self, last: bool) -> str:
        """What the last token adds: nothing while a character is not whole."""
        known = self._text(self._ids[self._begin : self._told])
        now = self._text(self._ids[self._begin :])
        if len(now) <= len(known) or (now.endswith("\N{REPLACEMENT CHARACTER}") and not last):
            return ""
        self._begin, self._told = self._told, len(self._ids)
        return now[len(known) :]

    def _more(self, *tokens: Any) -> str:
        """What a token lets be told; without one, what is left."""
        self._ids += [t[0] if isinstance(t, Sequence) else int(t) for t in tokens]
        text = self._held + self._decoded(not tokens)
        found = [at for s in self._stop if (at := text.find(s)) >= 0]
        if found:
            self._ended = True
            return text[: min(found)]
        begun = [n for s in self._stop for n in range(1, len(s)) if text.endswith(s[:n])]
        told = len(text) - (max(begun, default=0) if tokens else 0)
        self._held = text[told:]
        return text[:told]

    def __iter__(self) -> Iterator[str]:
        for token in self._tokens:
            if piece := self._more(token):
                yield piece
            if self._ended:
                return
        if piece := self._more():
            yield piece

    async def __aiter__(self) -> AsyncIterator[str]:
        async for token in self._tokens:
            if piece := self._more(token):
                yield piece
            if self._ended:
                return
        if piece := self._more():
            yield piece


@contextlib.contextmanager
def _of_the_file(what: str = "its file can't do this text") -> Iterator[None]:
    """Name as a ValueError what a file is wrong about: the package raises no class of its own, and
    some of it as what is no Exception (PanicException, of Rust)."""
    try:
        yield
    except BaseException as error:
        kind = type(error).__name__
        if kind in ("Exception", "PanicException", "JsException") or isinstance(
            error, (ValueError, LookupError, AttributeError, RecursionError)
        ):
            why = f"a {error} is missing" if kind == "KeyError" else f"{error}"
            raise ValueError(f"Tokenizer: {what}: {why:.500}") from None
        raise


# Characters that one becomes, or has put before it; special tokens around a text
MAX_EXPANSION = 256
LONGEST_WORD = 4096  # characters, of which WordPiece tries all parts


def _see_that_it_is_bounded(said: Any) -> None:
    """See that a `tokenizer.json` makes tokens in a time that is in proportion to a text.

    ValueError for one whose parts are missing, and for one that makes much of little.
    """
    model = said.get("model") if isinstance(said, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), (dict, list)):
        raise ValueError("it has no model with a vocab")
    for name in ("normalizer", "pre_tokenizer", "decoder", "post_processor"):
        growth, todo = 1.0, [said.get(name)]
        while todo:
            part = todo.pop()
            if isinstance(part, list):
                todo += part
            if not isinstance(part, dict):
                continue
            kind, pattern = part.get("type"), part.get("pattern")
            content = part.get("content") or part.get("prepend") or part.get("replacement") or ""
            if isinstance(content, str) and kind in ("Replace", "Prepend", "Metaspace"):
                found = pattern.get("String") if isinstance(pattern, dict) else None
                length = len(found) if isinstance(found, str) else 0
                growth *= max(1, len(content) / length if length else 1 + len(content))
            if growth > MAX_EXPANSION or any(isinstance(part.get(n),
            list) and len(part[n]) > MAX_EXPANSION
                                    for n in ("single", "pair")):  # fmt: skip
                raise ValueError(
                    f"its {name} makes more than {MAX_EXPANSION} characters or tokens of one"
                )
            lists = "normalizers", "pretokenizers", "decoders", "processors"
            todo += [part.get(n) for n in lists]
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token"):
        if isinstance(model.get(name), str) and len(model[name]) > MAX_EXPANSION:
            raise ValueError(f"its {name} has more than {MAX_EXPANSION} characters")
    most = model.get("max_input_chars_per_word", 0)
    if isinstance(most, (int, float)) and most > LONGEST_WORD:
        raise ValueError(f"max_input_chars_per_word is {LONGEST_WORD} at most, got {most}")


def _backend(text: str) -> Any:
    """The tokenizer of a `tokenizer.json`."""
    if sys.platform == "emscripten":
        from pyframe.text.twin import Twin

        return Twin(text)
    try:
        from tokenizers import Tokenizer as Made
    except ImportError:
        raise ImportError(
            "pf.text.Tokenizer needs the package tokenizers: pip install 'pyframe-webgpu[text]'"
        ) from None
    return Made.from_str(text)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"Tokenizer: {path} is {mistaken(head(path)) or f'no JSON: {error}'}"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(
            f"Tokenizer: {path} holds a {type(found).__name__}, where fields by name were expected"
        )
    return found
