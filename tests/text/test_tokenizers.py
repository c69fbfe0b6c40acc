"""Texts to tokens and back, and chats, as the package transformers has them."""

from __future__ import annotations

import asyncio
import importlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyframe.text import Tokenizer

TEXTS = [
    "Hello world, it's 12 o'clock.", "", " two  spaces ", "Ünïcödé ﷽ 漢字かな 한국어",
    "👩‍👩‍👧 flags 🇩🇪 and 😀",
    "<s>not</s> <|end|>special", "tabs\tand\nlines\r\n", "e\u0301 combining", "\u200d\ufffd odd",
]  # fmt: skip
SPECIAL = {"bos_token": "<s>", "eos_token": "<|end|>", "pad_token": "<pad>"}


def byte_level(
    tokenizers: Any, texts: list[str] = TEXTS, special: tuple[str, ...] = (*SPECIAL.values(),),
    size: int = 400,
) -> Any:  # fmt: skip
    """As GPT-2's: pairs of bytes."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=[*special], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts * 3, trainer)
    return made


def by_pieces(tokenizers: Any) -> Any:
    """As Llama 2's: pieces, and bytes for what is none."""
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    letters = ["▁", *"Helowrditscknma"]
    merges = [("▁", "H"), ("l", "l"), ("o", "w"), ("▁", "w")]
    names = ["<unk>", *SPECIAL.values(), *bytes_, *letters, *("".join(m) for m in merges)]
    model = tokenizers.models.BPE(
        {t: i for i, t in enumerate(names)}, merges, unk_token="<unk>", byte_fallback=True,
        fuse_unk=True,
    )  # fmt: skip
    made = tokenizers.Tokenizer(model)
    made.normalizer = tokenizers.normalizers.Sequence([
        tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")])  # fmt: skip
    made.decoder = tokenizers.decoders.Sequence([
        tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(),
        tokenizers.decoders.Fuse(), tokenizers.decoders.Strip(" ", 1, 0)])  # fmt: skip
    made.add_special_tokens([*SPECIAL.values()])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return made


@pytest.fixture(params=[byte_level, by_pieces])
def both(request: Any, transformers: Any, tmp_path: Path) -> tuple[Tokenizer, Any]:
    """A tokenizer of ours and of transformers', of the same folder."""
    made = request.param(pytest.importorskip("tokenizers"))
    made.enable_truncation(3)  # which a file may say, and nobody wants
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)
    theirs.save_pretrained(tmp_path)
    return Tokenizer.from_pretrained(tmp_path), theirs


def test_tokens_and_texts(both: tuple[Tokenizer, Any]) -> None:
    mine, theirs = both
    for text in TEXTS:
        for special in (True, False):
            ids = theirs.encode(text, add_special_tokens=special)
            assert mine.encode(text, add_special_tokens=special) == ids
            for skip in (True, False):
                assert mine.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
    for side in ("right", "left"):
        theirs.padding_side = side
        want = theirs(TEXTS, padding=True, truncation=True, max_length=12)
        found = mine(TEXTS, max_length=12, padding_side=side)
        assert all(found[n].tolist() == want[n] for n in ("input_ids", "attention_mask"))
    pair = theirs("one", "two", return_token_type_ids=True)
    assert mine(["one"], ["two"])["token_type_ids"].tolist() == [pair["token_type_ids"]]
    assert mine.encode("one", "two") == pair["input_ids"]
    assert mine.id("eos_token") == mine.id("<|end|>") == theirs.eos_token_id
    assert (len(mine), mine.pad_id) == (len(theirs), theirs.pad_token_id)
    with pytest.raises(KeyError, match="'no such' is no token"):
        mine.id("no such")
    with pytest.raises(ValueError, match="padding_side is 'left' or 'right'"):
        mine("text", padding_side="up")


def test_what_is_streamed_is_the_text(both: tuple[Tokenizer, Any]) -> None:
    """In pieces of whole characters, whatever the tokens are."""
    mine, _ = both
    whole = [mine.encode(text) for text in TEXTS]
    draws = random.Random(0)
    torn = [[draws.randrange(4, len(mine)) for _ in range(30)] for _ in range(20)]
    if mine.backend.token_to_id("<0x00>"):  # of broken bytes its decoder unsays letters
        torn = []
    for ids in whole + torn:
        pieces = list(mine.stream(ids))
        assert "".join(pieces) == mine.decode(ids, True)
        assert all(pieces)
        if ids in whole and "\ufffd" not in mine.decode(ids):
            assert not any("\ufffd" in piece for piece in pieces)
    assert len(list(mine.stream(whole[0]))) > 3

    async def rows() -> AsyncIterator[list[int]]:
        for i in whole[4]:
            yield [i]

    async def read() -> str:
        return "".join([piece async for piece in mine.stream(rows())])

    assert asyncio.run(read()) == mine.decode(whole[4], True)


CHATML = (
    "{%- for m in messages %}\n{{- '<|im_start|>' + m['role'] + '\\n' + m['content'] }}\n"
    "{%- if loop.last %}{% break %}{% endif %}\n<|im_end|>\n{%- endfor %}\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "dates": "{{ bos_token }}{% if not date is defined %}{% set date = strftime_now('%Y') %}"
    "{% endif %}Today {{ date }}.\n{% for m in messages %}{{ m.role | trim }}: {{ m.content }}"
    "{{ eos_token }}{% endfor %}",
    "alternating": "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}"
    "{% generation %}{{ m['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}",
    "tools": "{%- set ns = namespace(n=0) %}{%- if tools %}{{- 'Tools:' }}{%- for t in tools %}"
    "{{- '\\n' }}{{- t | tojson }}{%- endfor %}{%- endif %}{%- for m in messages %}"
    "{%- set ns.n = ns.n + 1 %}{{ ns.n }} {{ m.content if m.content is string else "
    "m.content[0].text }}"
    "{%- if m.tool_calls is defined %}{{ m.tool_calls | tojson(indent=2) }}{%- endif %}"
    "{%- endfor %}",
    "lines": "\n{% for m in messages %}\n  {# a comment #}\n  {{ m.content.split('a')[-1] }}\n"
    "{% endfor %}\n\n",
}  # fmt: skip
CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi <b> & \"ü\" 😀"}],
    [{"role": "user", "content": "a b a c "}, {"role": "assistant", "content": "\nline\n"},
     {"role": "user", "content": "more", "name": None}],
    [{"role": "assistant", "content": "x", "tool_calls": [{"f": "add", "args": {"é": [1, 2.5]}}]}],
    [{"role": "user", "content": [{"type": "text", "text": "part"}]}],
]  # fmt: skip
TOOLS = [{"type": "function", "function": {"name": "add", "description": "a<b & 'ü'"}}]


@pytest.mark.parametrize("name", TEMPLATES)
def test_chats_are_as_in_transformers(both: tuple[Tokenizer, Any], name: str) -> None:
    """Character by character, and what a template refuses."""
    mine, theirs = both
    for chat in CHATS:
        for prompt in (True, False):
            for tools in (None, TOOLS):
                how = {"tools": tools, "add_generation_prompt": prompt}
                try:
                    want = theirs.apply_chat_template(
                        chat, chat_template=TEMPLATES[name], tokenize=False, **how
                    )
                except (TypeError, importlib.import_module("jinja2").TemplateError):
                    with pytest.raises(ValueError, match="the template refuses"):
                        mine.chat(chat, template=TEMPLATES[name], **how)
                else:
                    assert mine.chat(chat, template=TEMPLATES[name], **how) == want


def test_files(tmp_path: Path, both: tuple[Tokenizer, Any]) -> None:
    """Where a chat's template lies, and files that are none."""
    mine, _ = both
    with pytest.raises(ValueError, match="this tokenizer has no template 'default'"):
        mine.chat(CHATS[0])
    said = json.loads((tmp_path / "tokenizer_config.json").read_text())
    several = [{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}]
    said |= {"chat_template": several, "eos_token": {"content": "<|end|>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    mine = Tokenizer.from_pretrained(tmp_path)
    assert (mine.chat(CHATS[0]), mine.chat(CHATS[0], TOOLS)) == ("one", "two")
    assert mine.special["eos_token"] == "<|end|>"
    mine.save_pretrained(tmp_path / "saved")
    again = Tokenizer.from_pretrained(tmp_path / "saved")
    assert (again.chat(CHATS[0]), again.chat(CHATS[0], TOOLS)) == ("one", "two")
    assert again.special == mine.special
    assert [again.encode(text) for text in TEXTS] == [mine.encode(text) for text in TEXTS]
    (tmp_path / "chat_template.jinja").write_text("three")
    assert Tokenizer.from_pretrained(tmp_path).chat(CHATS[0]) == "three"
    with pytest.raises(ValueError, match="the template is no Jinja"):
        mine.chat(CHATS[0], template="{% for %}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is no tokenizer's file"):
        Tokenizer.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is not there"):
        Tokenizer.from_pretrained(tmp_path)
