"""What a page has in place of the package tokenizers: its twin in JavaScript.

That one cuts texts into tokens and joins tokens to texts. What stands around them, and where they
are cut off, is done here, on numbers: it is the same for all kinds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyframe.io.regexes import see_that_it_ends

__all__ = ["Twin"]

_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass
class Encoding:
    """The tokens of a text, or of a pair."""

    ids: list[int]
    type_ids: list[int]
    attention_mask: list[int]

    def pad(self, length: int, direction: str, pad_id: int) -> None:
        """Fill up to `length`."""
        more = length - len(self.ids)
        for of, fill in ((self.ids, pad_id), (self.type_ids, 0), (self.attention_mask, 0)):
            at = len(of) if direction == "right" else 0
            of[at:at] = [fill] * more


class Twin:
    """A tokenizer of the text of a `tokenizer.json`, as `tokenizers.Tokenizer` is one."""

    def __init__(self, text: str) -> None:
        import js
        from pyodide.ffi import to_js

        module = getattr(js, "pyframeTokenizers", None)
        if module is None:
            raise ImportError(
                "pf.text.Tokenizer needs tokenizers.js, which this page does not have: it comes "
                "with pyframe's extra `text`, and is loaded for a program that names Tokenizer"
            )
        said = json.loads(text)
        _see_that_regexes_end(said)
        self._js = to_js
        self._plain = js.JSON.parse('{"add_special_tokens": false}')
        self._made = module.Tokenizer.new(
            js.JSON.parse(text), js.JSON.parse('{"clean_up_tokenization_spaces": false}')
        )
        vocab, added = said["model"]["vocab"], said["added_tokens"]
        known = set(vocab if isinstance(vocab, dict) else (token for token, _ in vocab))
        self._size = len(vocab) + sum(a["content"] not in known for a in added)
        self._special = {a["content"] for a in added if a["special"]}
        self._bytes = "ByteFallback" in json.dumps(said["decoder"])
        self._around = said["post_processor"]
        self._most: int | None = None

    def no_padding(self) -> None:
        """Texts stay as long as they are."""

    def no_truncation(self) -> None:
        """Texts are whole."""
        self._most = None

    def enable_truncation(self, max_length: int) -> None:
        """Cut texts after so many tokens, of a pair the longer one first."""
        self._most = max_length

    def to_str(self) -> str:
        """The text of its file."""
        import js

        return str(js.JSON.stringify(self._made.tokenizer))

    def get_vocab_size(self) -> int:
        """How many tokens there are."""
        return self._size

    def token_to_id(self, token: str) -> int | None:
        """A token's number."""
        return None if (found := self._made.token_to_id(token)) is None else int(found)

    def encode(
        self, text: str, pair: str | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """The tokens of a text, or of a pair."""
        form = list(self._form(self._around, pair is not None))
        if not add_special_tokens:
            form = [(part, kind) for part, kind in form if isinstance(part, str)]
        texts = [self._ids(t) for t in (text, pair) if t is not None]
        if self._most is not None:
            room = self._most - sum(len(part) for part, _ in form if not isinstance(part, str))
            texts = _cut(texts, max(room, 0))
        parts = dict(zip("AB", texts, strict=False))
        rows = [(parts[p] if isinstance(p, str) else p, kind) for p, kind in form]
        ids = [i for part, _ in rows for i in part]
        return Encoding(ids, [kind for part, kind in rows for _ in part], [1] * len(ids))

    def encode_batch(
        self, texts: Iterable[str | tuple[str, str]], add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Those of several texts or pairs."""
        pairs = ((t, None) if isinstance(t, str) else t for t in texts)
        return [self.encode(a, b, add_special_tokens) for a, b in pairs]

    def _ids(self, text: str) -> list[int]:
        return [int(i) for i in self._made.encode(text, self._plain).ids.to_py()]

    def _form(self, said: Any, pair: bool) -> Iterable[tuple[str | list[int], int]]:
        """What stands around texts: "A", "B" and special tokens, each with its type."""
        kind = said and said["type"]
        if kind == "Sequence":  # the others change offsets alone
            said = next((p for p in said["processors"] if p["type"] != "ByteLevel"), None)
            yield from self._form(said, pair)
        elif kind == "TemplateProcessing":
            for item in said["pair" if pair else "single"]:
                ((what, of),) = item.items()
                special = what == "SpecialToken"
                part = said["special_tokens"][of["id"]]["ids"] if special else of["id"]
                yield part, of["type_id"]
        elif kind in ("BertProcessing", "RobertaProcessing"):
            (_, first), (_, last) = said["cls"], said["sep"]
            yield from (([first], 0), ("A", 0), ([last], 0))
            if pair and kind == "BertProcessing":
                yield from (("B", 1), ([last], 1))
            elif pair:
                yield from (([last], 0), ("B", 0), ([last], 0))
        else:
            yield "A", 0
            if pair:
                yield "B", 1

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        tokens = [(i, token) for i in ids if (token := self._made.id_to_token(i)) is not None]
        if skip_special_tokens:
            tokens = [(i, token) for i, token in tokens if token not in self._special]
        if not tokens:
            return ""
        if self._bytes:
            return str(self._made.decoder(self._js(_whole([token for _, token in tokens]))))
        return str(self._made.decode(self._js([i for i, _ in tokens])))


def _see_that_regexes_end(said: dict[str, Any]) -> None:
    """ValueError for a regex that has too many ways to be read: browsers would try them all."""
    todo = [part for name, part in said.items() if name != "model"]
    while todo:
        part = todo.pop()
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        pattern = part.get("Regex") if isinstance(part, dict) else None
        if isinstance(pattern, str):
            see_that_it_ends(pattern)


def _cut(texts: list[list[int]], most: int) -> list[list[int]]:
    """Texts of `most` tokens together: the longer one loses first, then both."""
    if sum(map(len, texts)) <= most:
        return texts
    short, *others = sorted(map(len, texts))
    if not others:
        return [texts[0][:most]]
    long = short if short > most else max(short, most - short)
    if short + long > most:
        short, long = most // 2, most // 2 + most % 2
    first_is_long = len(texts[0]) > len(texts[1])
    lengths = (long, short) if first_is_long else (short, long)
    return [text[:n] for text, n in zip(texts, lengths, strict=True)]


def _whole(tokens: list[str]) -> list[str]:
    """Tokens that stand for bytes as they are where these are characters; else a sign for each."""
    found: list[str] = []
    run: list[str] = []
    for token in [*tokens, ""]:
        if _BYTE.fullmatch(token):
            run.append(token)
            continue
        try:
            bytes(int(t[3:5], 16) for t in run).decode()
        except UnicodeDecodeError:
            run = ["\N{REPLACEMENT CHARACTER}"] * len(run)
        found += [*run, token]
        run = []
    return found[:-1]
