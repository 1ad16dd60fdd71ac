"""A real `hutch mcp serve` with a real jail, and official clients of it."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import Implementation
from mcp_types import jsonrpc_message_adapter

from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, Forked, run
from tests.gateway.api_server import serving  # noqa: F401  (a whole server, with its REST API)
from tests.new_database import place_database

LEGACY, MODERN = "legacy", "2026-07-28"  # the first is 2025-11-25, with its handshake
TIMEOUT_S = DEADLINE_S
_times = itertools.count()


@dataclass(frozen=True)
class Place:
    """A directory to work on, and a home for Hutch beside it."""

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HUTCH_HOME": str(self.root / "home"), **more}

    def argv(self, *args: str) -> list[str]:
        return [HUTCH, "mcp", "serve", "--workspace", str(self.work), "--plain-directory", *args]

    def events(self) -> list[dict[str, Any]]:
        """The log of the newest session."""
        sessions = self.hutch("log", "--json").splitlines()
        newest = max(json.loads(line)["session"] for line in sessions)
        return [json.loads(line)["event"] for line in self.hutch("log", newest, "--json").splitlines()]

    def hutch(self, *args: str, stdin: str = "") -> str:
        done = run(
            [HUTCH, *args],
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def new_place() -> Iterator[Place]:
    root = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    root.chmod(0o755)
    (root / "work").mkdir()
    place_database(root / "home" / "data")
    yield Place(root)
    shutil.rmtree(root)


@asynccontextmanager
async def by_pipes(
    place: Place, *args: str, mode: str = MODERN, forked: bool = True, **environment: str
) -> AsyncIterator[Client]:
    """A client that starts a server of its own; one that is not forked is started by the client itself."""
    words, env = place.argv(*args), place.environment(**environment)
    started = StdioServerParameters(command=words[0], args=words[1:], env=env)
    async with Client(forked_server(words, env) if forked else started, mode=mode) as client:
        yield client


@asynccontextmanager
async def forked_server(words: list[str], env: dict[str, str]) -> AsyncIterator[TransportStreams]:
    """The stdio transport of a client that starts the server: one line per message, in both directions."""
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    with Forked(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        lines_in, lines_out = server.stdin, server.stdout

        async def receive() -> None:
            async with to_session:
                while line := await asyncio.to_thread(lines_out.readline):
                    with contextlib.suppress(anyio.BrokenResourceError):  # nobody listens any more
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                        await to_session.send(SessionMessage(message))

        async def send() -> None:
            async with from_session:
                async for each in from_session:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    lines_in.write(text.encode() + b"\n")
                    lines_in.flush()

        async with anyio.create_task_group() as talking:
            talking.start_soon(receive)
            sending = asyncio.ensure_future(send())
            try:
                yield read, write
            finally:
                read.close()
                write.close()
                await sending
                lines_in.close()  # which ends it


@dataclass(frozen=True)
class Listening:
    """A server by HTTP."""

    process: "subprocess.Popen[str]"
    url: str
    token: str

    @asynccontextmanager
    async def client(self, mode: str = MODERN, name: str = "test") -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http,
            Client(
                streamable_http_client(self.url, http_client=http),
                mode=mode,
                client_info=Implementation(name=name, version="1"),
            ) as client,
        ):
            yield client


@contextmanager
def by_http(place: Place, *args: str, token: str | None = None, code: int = 143) -> Iterator[Listening]:
    """A server that listens on a port of its own, until the block ends; it prints its token."""
    process = Forked(
        place.argv("--http", "127.0.0.1:0", *args),
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        url = re.search(r"serving MCP at (\S+)", said)
        assert url, said + process.stderr.read()
        result = process.stderr.readline().split()[-1] if token is None else token
        yield Listening(process, url[1], result)
    finally:
        process.terminate()
        printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, printed) == (code, "")


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    until = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < until, "it never came to be so"
        time.sleep(0.02)


def long_time() -> str:
    """Seconds for a `sleep` that no other command on this machine has: tests look for it by that."""
    return f"5432.{os.getpid():07}{next(_times):04}"


def runs(word: str) -> bool:
    """True if a process on this machine has that word in its command line."""
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if directory.name.isdigit() and word.encode() in (directory / "cmdline").read_bytes():
                return True
    return False


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)
