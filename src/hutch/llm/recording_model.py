"""Records the replies of a real model as a cassette that can be played without it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hutch.domain.errors import Unavailable
from hutch.llm.interface import Delta, Finish, FromModel, Model, Request
from hutch.llm.reply_builder import Reply, ReplyBuilder
from hutch.llm.scripted_reply_file import load_cassette
from hutch.system.atomic_file import replace_file


class RecordingModel:
    """Passes requests to a model and records each finished reply; implements `interface.Model`."""

    def __init__(self, model: Model, path: Path, *, clean: Callable[[str], str]) -> None:
        self.name = model.name
        self.context_tokens = model.context_tokens
        self._model = model
        self._path = path
        self._clean = clean
        self._replies: list[dict[str, Any]] | None = None

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        if self._replies is None:
            before = (*request.compacted, *request.messages)
            is_resumed = any(isinstance(message, FromModel) for message in before)
            self._replies = await asyncio.to_thread(self._recorded) if is_resumed else []
        builder = ReplyBuilder()
        async with aclosing(self._model.stream(request)) as deltas:
            async for delta in deltas:
                builder.add(delta)
                if isinstance(delta, Finish) and not request.summary:
                    self._replies.append(as_scripted(builder.reply()))
                    await asyncio.to_thread(self._write, list(self._replies))
                yield delta

    async def close(self) -> None:
        await self._model.close()

    def _recorded(self) -> list[dict[str, Any]]:
        """The replies recorded before the session was resumed."""
        if not self._path.exists():
            return []
        return [reply.model_dump(exclude_defaults=True) for reply in load_cassette(self._path).replies]

    def _write(self, replies: list[dict[str, Any]]) -> None:
        text = json.dumps({"model": self.name, "replies": replies}, indent=1, ensure_ascii=False)
        try:
            replace_file(self._path, f"{self._clean(text)}\n")  # atomic: it can be played at any moment
        except OSError as error:
            raise Unavailable(f"The recording {self._path} cannot be written: {error.strerror}.") from None


def as_scripted(reply: Reply) -> dict[str, Any]:
    """A reply in the format of a cassette."""
    calls = [{"id": call.id, "tool": call.tool, "args": _arguments(call.arguments)} for call in reply.calls]
    usage = {name: value for name, value in asdict(reply.usage).items() if value}
    content = {"text": reply.text, "thinking": reply.thinking, "calls": calls}
    filled = {name: value for name, value in content.items() if value}
    return filled | {"usage": usage, "finish": reply.finish}


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
