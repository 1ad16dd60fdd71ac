"""Shared by the benchmarks of the agent: a server that imitates a provider, and a Hutch installation.

The server sends the same bytes as the provider would. It stores every request, and the times at which
requests arrived and replies were sent.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.claim_workspace_preparation import make_repository

from tests.llm.provider_formats import Dialect

HUTCH = str(Path(sys.executable).with_name("hutch"))
KEY = "key-of-a-bench-1234567890"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TIMEOUT_S = 120.0
MAX_BYTES = 64 * 1024 * 1024


@contextmanager
def a_place(above: Path | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hutch-bench-", dir=above, ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the jail may have another user
        yield Path(name)


class Provider:
    """Sends the replies in order. After the last it sends nothing, but keeps the connection open."""

    def __init__(self, replies: Iterable[list[bytes]], pace_s: float) -> None:
        self._replies = iter(replies)
        self._pace_s = pace_s
        self.url = ""
        self.bodies: list[bytes] = []
        self.requested_at: list[float] = []
        self.answered_at: list[float] = []
        self.was_called = asyncio.Event()
        self.has_no_reply = asyncio.Event()  # set by a request after the last reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                self.bodies.append(await reader.readexactly(int(length.partition(b":")[2])))
                self.requested_at.append(time.perf_counter())
                self.was_called.set()
                reply = next(self._replies, None)
                if reply is None:
                    self.has_no_reply.set()
                    await reader.read(1)
                    break
                await self._answer(writer, reply)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, reply: list[bytes]) -> None:
        writer.write(HEAD)
        began = time.perf_counter()
        for number, piece in enumerate(reply):
            if self._pace_s and (early_s := began + number * self._pace_s - time.perf_counter()) > 0:
                await asyncio.sleep(early_s)
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        self.answered_at.append(time.perf_counter())


@asynccontextmanager
async def provider(replies: Iterable[list[bytes]], *, pace_s: float = 0.0) -> AsyncIterator[Provider]:
    plays = Provider(replies, pace_s)
    server = await asyncio.start_server(plays.serve, "127.0.0.1", 0, limit=MAX_BYTES)
    plays.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield plays
    finally:
        server.close()


def bash(dialect: Dialect, number: int, command: str) -> list[bytes]:
    """A reply that calls bash. Each is different, because an agent that repeats itself is stopped."""
    arguments = json.dumps({"command": f"{command} #{number}"})
    return dialect.reply("I look.", [(f"call_{number}", "bash", arguments)])


class Office:
    """A repository, and an installation of Hutch beside it."""

    def __init__(self, place: Path, *, files: int = 200) -> None:
        self.place = place
        self.work = place / "work"
        make_repository(self.work, files=files, size=2_000)

    def cassette(self, *replies: Mapping[str, Any]) -> str:
        path = self.place / "cassette.json"
        path.write_text(json.dumps({"replies": replies}))
        return f"scripted:{path}"

    async def hutch(
        self,
        *words: str,
        dialect: Dialect | None = None,
        url: str = "",
        stdout: int = asyncio.subprocess.PIPE,
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            HUTCH,
            *words,
            cwd=self.work,
            env=self._environment() | (asking(dialect, url) if dialect else {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_BYTES,
        )

    def _environment(self) -> dict[str, str]:
        """The whole environment. Bytecode is written, as on any machine."""
        home = {
            "HOME": str(self.place),
            "HUTCH_HOME": str(self.place / "home"),
            "HUTCH_SERVER__PORT": "18588",
        }
        return {"PATH": os.environ["PATH"], "HUTCH_SERVER__PORT": "18588", **home}


def asking(dialect: Dialect, url: str) -> dict[str, str]:
    name = dialect.provider.upper()
    return {
        f"{name}_API_KEY": KEY,
        f"HUTCH_MODELS__{name}_BASE_URL": f"{url}{dialect.path}",
        "HUTCH_MODELS__OPENAI_PROTOCOL": dialect.protocol,
    }


async def ended(process: asyncio.subprocess.Process) -> None:
    """Wait for a process, which must succeed."""
    async with asyncio.timeout(TIMEOUT_S):
        out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"hutch ended with {process.returncode}: {err.decode()}{(out or b'').decode()}")
