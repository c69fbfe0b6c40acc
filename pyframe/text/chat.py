"""A conversation with a language model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from pyframe.text.decoder import CausalLM
from pyframe.text.generate import Writer
from pyframe.text.tokenizer import TextStream, Tokenizer

__all__ = ["Chat"]

MAX_SLOTS = 4096  # slots, unless more are asked for


class Chat:
    """A conversation, of which the model keeps what it has read: each answer costs what is new.

    Args:
        model: what answers.
        tokenizer: its own, with a chat's template.
        system: what the model is told before all else.
        length: tokens that the conversation may have (those of the model, 4,096 at most).
        how: of each answer, as `CausalLM.generate` takes it: do_sample, temperature, seed …

    Attributes:
        messages: {"role": …, "content": …} of what was said; it may be changed.

    >>> chat = pf.text.Chat(model, tokenizer, system="Answer in one sentence.")
    >>> for piece in chat.say("Why is the sky blue?"):
    ...     print(piece, end="", flush=True)
    """

    def __init__(
        self, model: CausalLM, tokenizer: Tokenizer, system: str | None = None,
        length: int | None = None, **how: Any,
    ) -> None:  # fmt: skip
        most = model.config.max_position_embeddings
        self.tokenizer, self.model, self.how = tokenizer, model, how
        self.writer = Writer(model, 1, min(length or MAX_SLOTS, most))
        self.messages: list[dict[str, Any]] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})

    def say(
        self, text: str, max_new_tokens: int | None = None, stop: str | Sequence[str] = (),
        **how: Any,
    ) -> Answer:  # fmt: skip
        """The model's answer, in pieces: `for` and `async for`. What was said before it ended, or
        before it was left, becomes a message.

        Args:
            text: what is said to the model.
            max_new_tokens: of the answer (those of the chat, or as many as there is room for).
            stop: texts that end it, and are not part of it.
            how: of this answer, in place of the chat's.

        ValueError where the conversation has no room for an answer.
        """
        asked: list[Mapping[str, Any]] = [*self.messages, {"role": "user", "content": text}]
        ids = self.tokenizer.encode(self.tokenizer.chat(asked), add_special_tokens=False)
        room = self.writer.cache.length - len(ids)
        if room < 1:
            raise ValueError(
                f"Chat: the conversation has {len(ids)} tokens, and room for {len(ids) + room}; "
                "take something out of chat.messages, or make one of another length"
            )
        how = {**self.how, **how}
        most = how.pop("max_new_tokens", None) if max_new_tokens is None else max_new_tokens
        how["max_new_tokens"] = room if most is None else min(most, room)
        tokens = self.model.stream(ids, writer=self.writer, **how)
        pieces = self.tokenizer.stream(tokens, stop=stop)
        self.messages = [dict(m) for m in asked]
        return Answer(pieces, self.messages)

    def clear(self) -> None:
        """Begin another conversation, of which nothing but the system's message is said."""
        self.messages = [m for m in self.messages[:1] if m["role"] == "system"]


class Answer:
    """See `Chat.say`."""

    def __init__(self, pieces: TextStream, messages: list[dict[str, Any]]) -> None:
        self._pieces, self._messages = pieces, messages

    def _begun(self) -> dict[str, Any]:
        self._messages.append({"role": "assistant", "content": ""})
        return self._messages[-1]

    def __iter__(self) -> Iterator[str]:
        message = self._begun()
        for piece in self._pieces:
            message["content"] += piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[str]:
        message = self._begun()
        async for piece in self._pieces:
            message["content"] += piece
            yield piece
