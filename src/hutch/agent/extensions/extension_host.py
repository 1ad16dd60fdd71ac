"""The extensions of one run: each is checked and started at its first call, and ended with the run.

Every extension has a jail of its own: neither the session's commands nor other extensions can touch its
processes, and it has no network, file or variable but those of its manifest.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hutch.agent.extensions.extension_approvals import Approvals, Trial, check_tools
from hutch.agent.extensions.extension_manifest import Manifest
from hutch.agent.extensions.extension_policy import extension_policy
from hutch.agent.extensions.extension_reply import MAX_MESSAGE_BYTES, ServerReply, parse_program_reply
from hutch.agent.extensions.program_digest import find_program, program_digest
from hutch.agent.text_for_model import shortened, strip_escapes
from hutch.domain.errors import Denied, HutchError, LimitReached, Unavailable
from hutch.domain.signal_names import signal_name
from hutch.jail.interface import PIPE, Exit, Process
from hutch.jail.policy import MIB, Policy
from hutch.jail.running_jail import Jailed
from hutch.system.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hutch.agent.extensions.mcp_client import Session

START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 10.0
EXIT_TIMEOUT_S = 1.0  # of a server that has closed its output
MAX_STARTS = 3  # of one server in a run
MAX_SERVERS = 8  # that run at the same time
SHOWN_CHARS = 600  # of a server's complaints
MAX_STDERR_BYTES = 4096

OpenJail = Callable[[Policy, str], AbstractAsyncContextManager[Jailed]]  # a policy, the use of the workspace
ReadSecrets = Callable[[Sequence[str]], Awaitable[tuple[tuple[str, str], ...]]]
AllowedHosts = Callable[[Sequence[str]], Awaitable[tuple[str, ...]]]  # those of them that policies leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything that extensions get from their session."""

    open_jail: OpenJail
    policy: Callable[[], Policy]  # of the session's jail
    read_secrets: ReadSecrets
    allowed_hosts: AllowedHosts


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A connected server in its jail."""

    session: "Session"
    jail: Jailed
    process: Process | None  # None for one elsewhere


class ExtensionHost:
    """Runs extensions. The caller closes it."""

    def __init__(self, approvals: Approvals, surroundings: Surroundings) -> None:
        self._approvals = approvals
        self._surroundings = surroundings
        self._servers: dict[str, _Server] = {}
        self._starts: dict[str, int] = {}
        self._starting = asyncio.Lock()

    async def call(self, manifest: Manifest, tool: str, arguments: dict[str, Any]) -> ServerReply:
        """Call a tool of an approved extension."""
        if manifest.kind == "program":
            return await self._run_program(manifest, tool, arguments)
        server = await self._server(manifest)
        try:
            async with asyncio.timeout(manifest.timeout_s):
                return await server.session.call(tool, arguments, manifest.timeout_s)
        except TimeoutError:
            await self._drop(manifest.name)
            raise LimitReached(
                f"The extension {manifest.name} did not answer in {manifest.timeout_s:g} s. It was ended.",
                limit="extension_timeout",
            ) from None
        except ConnectionError:
            await self._drop(manifest.name)
            problem = (
                f"The extension {manifest.name} ended during the call, or sent more than "
                f"{MAX_MESSAGE_BYTES // MIB} MiB. {server.complaint}"
            )
            raise Unavailable(problem.strip()) from None

    async def close(self) -> None:
        """End all servers."""
        for name in list(self._servers):
            await self._drop(name)

    async def _check(self, manifest: Manifest) -> Trial:
        """The approved trial. Computed anew each time: the program may have changed a moment ago."""
        digest = await asyncio.to_thread(program_digest, manifest)
        return (await asyncio.to_thread(self._approvals.check, manifest, digest)).trial

    async def _server(self, manifest: Manifest) -> "_Server":
        async with self._starting:
            found = self._servers.get(manifest.name)
            if found is not None and not found.ended.is_set():
                return found
            if found is not None:
                await self._drop(manifest.name)
            if self._starts.get(manifest.name, 0) >= MAX_STARTS:
                raise Unavailable(
                    f"The extension {manifest.name} ended {MAX_STARTS} times. Continue without it."
                )
            if len(self._servers) >= MAX_SERVERS:
                raise LimitReached(f"{MAX_SERVERS} extensions run already.", limit="extensions")
            trial = await self._check(manifest)
            self._starts[manifest.name] = self._starts.get(manifest.name, 0) + 1
            server = _Server(manifest, self._surroundings)
            await server.start()
            try:
                check_tools(manifest, trial, server.session.tools)
            except Denied:
                await server.close()
                raise
            self._servers[manifest.name] = server
            return server

    async def _drop(self, name: str) -> None:
        if (server := self._servers.pop(name, None)) is not None:
            await server.close()

    async def _run_program(self, manifest: Manifest, tool: str, arguments: dict[str, Any]) -> ServerReply:
        await self._check(manifest)
        async with open_extension_jail(manifest, self._surroundings) as jail:
            return await run_program(jail, manifest, tool, arguments)


async def run_program(jail: Jailed, manifest: Manifest, tool: str, arguments: dict[str, Any]) -> ServerReply:
    """Run a program for one call: it reads one JSON object, and writes one."""
    request = json.dumps({"tool": tool, "arguments": arguments}).encode()
    argv, timeout_s = [find_program(manifest), *manifest.argv[1:]], jail.policy.limits.command_timeout_s
    ended = await jail.run(argv, stdin=request, timeout_s=timeout_s)
    if ended.timed_out or ended.limit_hit:
        limit = str(ended.limit_hit or f"{manifest.timeout_s:g} s")
        raise LimitReached(f"The extension {manifest.name} was stopped: {limit}.", limit="extension_timeout")
    if ended.exit_code != 0:
        said = shortened(strip_escapes(ended.stderr.decode(errors="replace")).strip(), SHOWN_CHARS)
        return ServerReply(f"The program ended with exit code {ended.exit_code}. {said}".strip(), ok=False)
    if ended.truncated:
        return ServerReply("The program's output is too long to be read.", ok=False)
    return parse_program_reply(ended.stdout)


@asynccontextmanager
async def open_extension_jail(manifest: Manifest, surroundings: Surroundings) -> AsyncIterator[Jailed]:
    """Open the jail of an extension."""
    hosts = await surroundings.allowed_hosts(manifest.network)
    secrets = await surroundings.read_secrets(manifest.secrets) if manifest.secrets else ()
    policy = extension_policy(manifest, surroundings.policy(), network=hosts, secrets=secrets)
    async with surroundings.open_jail(policy, manifest.workspace) as jail:
        yield jail


@asynccontextmanager
async def open_session(
    manifest: Manifest, surroundings: Surroundings, complaint: "Complaint"
) -> AsyncIterator["OpenSession"]:
    """Start a server and connect to it. The block must be left in the task that entered it."""
    try:
        async with _open_session(manifest, surroundings, complaint) as opened:
            yield opened
    except (ExceptionGroup, OSError, ValueError, RuntimeError) as error:  # of the library
        raise complaint.explain(error) from None


@asynccontextmanager
async def _open_session(
    manifest: Manifest, surroundings: Surroundings, complaint: "Complaint"
) -> AsyncIterator["OpenSession"]:
    client = await asyncio.to_thread(_load_client)
    timeout_s = max(START_TIMEOUT_S, manifest.timeout_s)
    async with open_extension_jail(manifest, surroundings) as jail:
        if manifest.kind == "http":
            http = await asyncio.to_thread(_load_http_client)
            secrets = dict(await surroundings.read_secrets(manifest.secrets)) if manifest.secrets else {}
            async with (
                http.client_through(jail, manifest, secrets) as http_client,
                client.connect(http.transport(manifest.url, http_client), timeout_s=timeout_s) as session,
            ):
                yield OpenSession(session, jail, None)
            return
        process = await jail.spawn([find_program(manifest), *manifest.argv[1:]], stdin=PIPE)
        try:
            async with client.connect(client.pipes(process, complaint.add), timeout_s=timeout_s) as session:
                yield OpenSession(session, jail, process)
        except Exception:
            complaint.exit = await _exit_of(process)
            raise
        finally:
            process.close()


async def _exit_of(process: Process) -> Exit | None:
    """How a process ended; None if it did not."""
    try:
        async with asyncio.timeout(EXIT_TIMEOUT_S):
            return await process.wait()
    except TimeoutError:
        return None


def _load_client() -> ModuleType:
    """The client of the protocol, whose library takes a second to load."""
    from hutch.agent.extensions import mcp_client

    return mcp_client


def _load_http_client() -> ModuleType:
    from hutch.agent.extensions import http_through_proxy

    return http_through_proxy


class Complaint:
    """The end of what a server writes to standard error, for the message of its failure."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._written = bytearray()
        self.exit: Exit | None = None  # of a server that failed

    def add(self, data: bytes) -> None:
        self._written += data
        del self._written[:-MAX_STDERR_BYTES]

    @property
    def text(self) -> str:
        text = strip_escapes(bytes(self._written).decode(errors="replace")).strip()
        return f"It wrote: {text[-SHOWN_CHARS:]}" if text else ""

    def explain(self, error: Exception) -> HutchError:
        """The error for people and models; the library raises groups of its own errors."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, HutchError):
            return error
        if self.exit is not None:
            why = f"it ended, {_describe(self.exit)}"
        else:
            why = f"{type(error).__name__}: {shortened(strip_escapes(str(error)), SHOWN_CHARS)}"
        return Unavailable(f"The extension {self._name} cannot be used: {why}. {self.text}".strip())


def _describe(ended: Exit) -> str:
    if ended.code is None:
        return f"by SIG{signal_name(ended.signal or 0)}"
    return f"with exit code {ended.code}"


class _Server:
    """A running server, in a task of its own: the library wants to be left where it was entered."""

    def __init__(self, manifest: Manifest, surroundings: Surroundings) -> None:
        self._manifest, self._surroundings = manifest, surroundings
        self.ended = asyncio.Event()
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._complaint = Complaint(manifest.name)
        self._task: asyncio.Task[None] | None = None

    @property
    def session(self) -> "Session":
        return self._ready.result()

    @property
    def complaint(self) -> str:
        return self._complaint.text

    async def start(self) -> None:
        """Wait until the server has listed its tools."""
        self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise LimitReached(
                f"The extension {self._manifest.name} did not start in {START_TIMEOUT_S:g} s. "
                f"{self.complaint}".strip(),
                limit="extension_timeout",
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the server; closing its jail kills whatever it started."""
        self._stop.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT_S)
            if not done:
                self._task.cancel()
                await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            async with open_session(self._manifest, self._surroundings, self._complaint) as opened:
                self._ready.set_result(opened.session)
                await self._wait(opened.process)
        except asyncio.CancelledError:
            self._fail(Unavailable(f"The extension {self._manifest.name} was ended."))
            raise
        except HutchError as error:
            self._fail(error)
        finally:
            self.ended.set()

    async def _wait(self, process: Process | None) -> None:
        """Wait until the server is stopped or ends."""
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._stop.wait())]
        if process is not None:
            waits.append(asyncio.ensure_future(process.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _fail(self, error: HutchError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # a closed server is nobody's error
