"""A real model's replies, kept as a cassette that can be played without it."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from hutch.llm.reply import Gathering, Reply
from hutch.llm.seam import Delta, Finish, Model, Request


class RecordingModel:
    """Passes everything on and writes each finished reply down; see `seam.Model`."""

    def __init__(self, model: Model, path: Path, *, clean: Callable[[str], str]) -> None:
        self.name = model.name
        self.context_tokens = model.context_tokens
        self._model = model
        self._path = path
        self._clean = clean
        self._replies: list[dict[str, Any]] = []

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        gathering = Gathering()
        async with aclosing(self._model.stream(request)) as pieces:
            async for piece in pieces:
                gathering.add(piece)
                if isinstance(piece, Finish):
                    self._replies.append(as_scripted(gathering.reply()))
                    await asyncio.to_thread(self._write)
                yield piece

    async def close(self) -> None:
        await self._model.close()

    def _write(self) -> None:
        """Whole or not at all: a cassette can be played at any moment."""
        text = json.dumps({"model": self.name, "replies": self._replies}, indent=1, ensure_ascii=False)
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        fresh.write_text(self._clean(text) + "\n")
        fresh.replace(self._path)


def as_scripted(reply: Reply) -> dict[str, Any]:
    """A reply in the words of a cassette."""
    calls = [{"id": call.id, "tool": call.tool, "args": _arguments(call.arguments)} for call in reply.calls]
    usage = {"input": reply.usage.input, "cached": reply.usage.cached, "output": reply.usage.output}
    said = {"text": reply.text, "thinking": reply.thinking, "calls": calls}
    return {name: value for name, value in said.items() if value} | {"usage": usage, "finish": reply.finish}


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
