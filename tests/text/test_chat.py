"""Texts that go on from what was read before, and conversations."""

from __future__ import annotations

import asyncio
from typing import Any

import families
import pytest
from test_tokenizers import byte_level

from pyframe.text import CausalLM, Chat, Tokenizer, Writer

TEMPLATE = """{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""


def small() -> CausalLM:
    """A Llama with random weights, and places for conversations."""
    return families.small(vocab_size=300, num_hidden_layers=2, max_position_embeddings=512)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Of bytes."""
    package = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    roles = "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
    made = byte_level(package, ["what is it that is there"], roles, 300)
    return Tokenizer(made, {"eos_token": "<|end|>"}, TEMPLATE)


def test_a_writer_goes_on() -> None:
    """It reads what is new, writes what a new one writes, and compiles nothing more."""
    model = small()
    writer, sizes = Writer(model, 1, 128), []
    read = writer.read
    writer.read = lambda ids, *more: sizes.append(ids.shape[1]) or read(ids, *more)
    ids: list[int] = [*range(5, 45)]
    for new in ([7], [1, 2, 3], [9] * 17):
        ids += new
        expected = model.generate(ids, 6, eos_token_id=())
        found = model.generate(ids, 6, eos_token_id=(), writer=writer)
        assert found.tolist() == expected.tolist()
        assert writer.ids == found[0, :-1].tolist()  # the last one is in no slot yet
        ids = found[0].tolist()
    assert sizes == [64, 16, 32]
    assert (writer.write.captured, writer.write.eager) == (1, "")
    for start in (3, len(ids)):  # another text from there on, and the same once more
        other = [*ids[:start], 11, 12][: len(ids)]
        expected = model.generate(other, 3, eos_token_id=())
        assert model.generate(other, 3, eos_token_id=(), writer=writer).equal(expected)
    full = [*range(100), *range(20)]
    expected = model.generate(full, 8, eos_token_id=())
    assert model.generate(full, 8, eos_token_id=(), writer=writer).equal(expected)
    full[-1] = 99  # there is no room for a prompt's least size behind what is known
    expected = model.generate(full, 8, eos_token_id=())
    assert model.generate(full, 8, eos_token_id=(), writer=writer).equal(expected)
    with pytest.raises(ValueError, match=r"120 tokens and 9 new ones are more .*128 slots"):
        model.generate(full, 9, writer=writer)
    with pytest.raises(ValueError, match="one text, got 2"):
        model.generate([[1], [2]], writer=writer)


def test_streams_side_by_side() -> None:
    """Each has a cache of its own; one that is left gives it back."""
    model = small()
    texts = [[5, 6, 7], [8, 9, 10]]
    alone = [[row[0] for row in model.stream(ids, 10, eos_token_id=())] for ids in texts]
    streams = [model.stream(ids, 10, eos_token_id=()) for ids in texts]
    together = [[a[0], b[0]] for a, b in zip(*streams, strict=True)]
    assert [list(column) for column in zip(*together, strict=True)] == alone
    for _ in model.stream(texts[0], 10):
        break
    assert [row[0] for row in model.stream(texts[1], 10, eos_token_id=())] == alone[1]
    assert len(model.__dict__["_writers"]) == 1


def test_a_conversation(tokenizer: Tokenizer) -> None:
    """Each answer is what the model writes to all that was said."""
    model = small()
    chat, read = Chat(model, tokenizer, system="it is there", eos_token_id=()), []
    inner = chat.writer.read
    chat.writer.read = lambda ids, *more: read.append(ids.shape[1]) or inner(ids, *more)

    def expected(new: int) -> str:
        text = tokenizer.chat(chat.messages[:-1])
        ids = tokenizer.encode(text, add_special_tokens=False)
        out = model.generate(ids, new, eos_token_id=())[0, len(ids) :]
        return tokenizer.decode(out, skip_special_tokens=True)

    said = "".join(chat.say("what is it that is there " * 8, max_new_tokens=12))
    assert chat.messages[-1] == {"role": "assistant", "content": said}
    assert said == expected(12)

    async def asked() -> str:
        return "".join([piece async for piece in chat.say("that?", max_new_tokens=9)])

    said = asyncio.run(asked())
    assert said == expected(9)
    assert read[1] < read[0]
    assert [m["role"] for m in chat.messages] == ["system", *["user", "assistant"] * 2]
    piece = next(iter(chat.say("is", max_new_tokens=20)))
    assert chat.messages[-1]["content"] == piece
    left, before = iter(chat.say("is", max_new_tokens=90)), chat.messages
    piece = next(left)
    chat.clear()
    assert chat.messages == before[:1]
    assert "".join(chat.say("again", max_new_tokens=5)) == expected(5)
    assert len(piece + "".join(left)) <= len(before[-1]["content"])
    assert "".join(chat.say("more", max_new_tokens=5)) == expected(5)  # the left one wrote nothing
    with pytest.raises(ValueError, match="room for"):
        chat.say("it " * 2000)
    assert chat.messages[-1]["role"] == "assistant"


@pytest.mark.parametrize("stop", ["END", ["STOP", "END", "E!"]])
def test_stops(tokenizer: Tokenizer, stop: Any) -> None:
    """What may be the beginning of one is held back until it is known."""
    ids = tokenizer.encode("An ENCORE, EN. The END of it")
    pieces = list(tokenizer.stream(ids, stop=stop))
    assert "".join(pieces) == "An ENCORE, EN. The "
    assert not any(piece.endswith("EN") for piece in pieces)
    assert "".join(tokenizer.stream(tokenizer.encode("An EN"), stop=stop)) == "An EN"
    left: list[int] = []
    assert "".join(tokenizer.stream((left.append(i) or i for i in ids), stop=stop))
    assert len(left) < len(ids)


@pytest.mark.parametrize("stop", ["", ["a", ""], [3], [None]])
def test_what_is_no_stop(tokenizer: Tokenizer, stop: Any) -> None:
    """It is told at once, and nothing was said."""
    with pytest.raises(
        ValueError, match="stop is a text, or several, of a character at least, got"
    ):
        tokenizer.stream([1], stop=stop)
    chat = Chat(small(), tokenizer)
    for how, message in (({"stop": stop}, "stop is a text"), ({"num_beams": 2}, "beam search")):
        with pytest.raises((TypeError, ValueError), match=message):
            chat.say("it", **how)
        assert chat.messages == []


def test_how_long_an_answer_is(tokenizer: Tokenizer) -> None:
    """The chat says it, or the question, or the room."""
    chat = Chat(small(), tokenizer, length=64, max_new_tokens=5, eos_token_id=())
    asked = tokenizer.encode(tokenizer.chat([{"role": "user", "content": "it"}]), None, False)
    for most, new in ((None, 5), (3, 3), (900, 64 - len(asked))):
        chat.clear()
        assert "".join(chat.say("it", most))
        assert len(chat.writer.ids) == len(asked) + new - 1  # the last one is in no slot
