"""What the claims about the agent share: a server that plays a provider, `hutch` beside it, and a clock.

The server answers on a socket of this machine with the very bytes that the provider would send. It keeps
every request as it came, and the moments at which a request had come and a reply was out.
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

from bench.claim_prepare import make_repository

from tests.llm.dialects import Dialect

HUTCH = str(Path(sys.executable).with_name("hutch"))
KEY = "key-of-a-bench-1234567890"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LONGEST_S = 120.0
LARGEST_BYTES = 64 * 1024 * 1024


@contextmanager
def a_place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hutch-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the jail's user may be another
        yield Path(name)


class Provider:
    """Plays replies in turn; when they are over it says no more, but keeps the line open."""

    def __init__(self, replies: Iterable[list[bytes]], pace_s: float) -> None:
        self._replies = iter(replies)
        self._pace_s = pace_s
        self.url = ""
        self.bodies: list[bytes] = []
        self.asked_at: list[float] = []
        self.answered_at: list[float] = []
        self.was_asked = asyncio.Event()
        self.all_asked = asyncio.Event()  # for more than there is to say

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                self.bodies.append(await reader.readexactly(int(length.partition(b":")[2])))
                self.asked_at.append(time.perf_counter())
                self.was_asked.set()
                reply = next(self._replies, None)
                if reply is None:
                    self.all_asked.set()
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
    server = await asyncio.start_server(plays.serve, "127.0.0.1", 0, limit=LARGEST_BYTES)
    plays.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield plays
    finally:
        server.close()


def bash(dialect: Dialect, number: int, command: str) -> list[bytes]:
    """A reply that wants a command. No two are alike: an agent that goes in circles is stopped."""
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
            limit=LARGEST_BYTES,
        )

    def _environment(self) -> dict[str, str]:
        """Nothing but this: bytecode is written, as on any machine."""
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
    """Wait for it; it must have gone well."""
    async with asyncio.timeout(LONGEST_S):
        out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"hutch ended with {process.returncode}: {err.decode()}{(out or b'').decode()}")
