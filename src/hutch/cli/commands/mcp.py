"""`hutch mcp`: serve the agent's tools to editors and other agents with the Model Context Protocol."""

import asyncio
import os
import secrets
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.app.allowed_local_repositories import check_directory, settings_root
from hutch.cli import exit_codes
from hutch.cli.async_stdio import Inlet, Outlet
from hutch.cli.signals_and_closed_output import ended_by
from hutch.cli.stdio_of_protocol_commands import take_stdio
from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.gateway.mcp.early_handshake import MAX_BYTES, Greeting, NextMessages, greet, instructions, refuse
from hutch.jail.policy import WORKSPACE
from hutch.system.fast_imports import load_structlog, without_gc
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS

if TYPE_CHECKING:
    from hutch.flows.external_tool_calls import Tools

app = typer.Typer(
    help="Serve the jailed tools to editors and other agents.", no_args_is_help=True, add_completion=False
)

Loaded = settings.LoadedSettings
NEXT_MESSAGE_TIMEOUT_S = 0.05
FIRST_REQUEST_TIMEOUT_S = 2.0  # of a client that gets no service
ServeStream = Callable[..., Awaitable[None]]
Write = Callable[[bytes], Coroutine[None, None, None]]


class ServeOptions(NamedTuple):
    directory: Path
    network: tuple[str, ...]
    plain: bool
    unsafe_workspace: bool


@app.callback()
def _group() -> None:
    """Keep `serve` a subcommand although it is the only one."""


@app.command()
def serve(
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", metavar="DIR", help="The directory to work on, in place.")
    ] = Path(),
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Listen on this local address instead of using pipes."
        ),
    ] = None,
    net: Annotated[
        list[str] | None,
        typer.Option("--net", metavar="HOST", help="A host that commands may reach; may be repeated."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="With --http: accept every local client without a token.")
    ] = False,
    plain: Annotated[
        bool,
        typer.Option("--plain-directory", help="Allow a directory without git, with everything in it."),
    ] = False,
    unsafe_workspace: Annotated[
        bool,
        typer.Option("--unsafe-workspace", help="Allow system and home directories, and Hutch's own."),
    ] = False,
) -> int:
    """Serve the tools on a directory to MCP clients.

    MCP clients start it themselves and connect through standard input and output; with --http, one
    server accepts several clients. Commands run in a jail, in one shell that lives as long as the server.
    """
    if no_token and http is None:
        raise BadRequest("--no-token needs --http: pipes require no token.")
    wire = take_stdio("Start it from an MCP client, or use --http.") if http is None else None
    options = ServeOptions(workspace, tuple(net or ()), plain, unsafe_workspace)
    try:
        loaded = _load(options)
    except HutchError as error:
        if wire:
            _answer_refused(*wire, str(error))
        raise
    return asyncio.run(
        _by_pipes(loaded, options, *wire) if wire else _by_http(loaded, options, http or "", no_token)
    )


def _load(options: ServeOptions) -> Loaded:
    """The settings for a directory, after all checks that need no library."""
    if not options.directory.is_dir():
        wrong = "is not a directory" if options.directory.exists() else "does not exist"
        raise NotFound(
            f"The workspace '{options.directory}' {wrong}. Create it first, or choose another: -w DIR."
        )
    loaded = settings.load(repo=settings_root(settings.find_paths(), options.directory))
    check_directory(loaded, options.directory, plain=options.plain, unsafe=options.unsafe_workspace)
    for sentence in loaded.refused:
        _say(f"warning: {sentence}")
    if hosts := _network(loaded, options):
        from hutch.jail.egress import check_reachable  # before a client is answered

        check_reachable(hosts, loaded.settings.jail.private_networks)
    return loaded


def _answer_refused(stdin: int, stdout: int, reason: str) -> None:
    """Answer the first request with the reason why nothing is served. Many clients show that, and not what
    is printed on standard error."""
    received, deadline = b"", time.monotonic() + FIRST_REQUEST_TIMEOUT_S
    while not os.isatty(stdin) and b"\n" not in received and len(received) <= MAX_BYTES:
        is_readable = select.select([stdin], [], [], max(0, deadline - time.monotonic()))[0]
        if not is_readable or not (data := os.read(stdin, MAX_BYTES)):
            break
        received += data
    if answer := refuse(received.partition(b"\n")[0], reason):
        with suppress(OSError):  # the client has gone
            os.write(stdout, answer.answer)


async def _by_pipes(loaded: Loaded, options: ServeOptions, stdin: int, stdout: int) -> int:
    if os.isatty(stdin):
        _say("serving MCP on standard input and output; an MCP client should start this, or use --http")
    inlet, outlet = Inlet(stdin), Outlet(stdout)

    writing = asyncio.Lock()

    async def write(data: bytes) -> None:
        with suppress(OSError):  # the client closed its end; the end of input follows
            async with writing:
                await outlet.write(data)

    with ended_by(*TERMINATION_SIGNALS) as ended:
        try:
            received, greeting = await _receive_first(inlet, loaded, options)
            if greeting is not None:
                await write(greeting.answer)
                if received.endswith(b"\n") and received.count(b"\n") == 1:
                    if not (more := await inlet.read()):  # nothing else is requested
                        return exit_codes.OK
                    received += more
            parts, answered = [received], {greeting.id} if greeting else set()

            async def chunks() -> AsyncIterator[bytes]:
                await _end(answering)  # the library answers from here on
                for part in parts:
                    yield part
                while data := await inlet.read():
                    yield data

            is_known = greeting is not None and not _network(loaded, options)
            answering = asyncio.ensure_future(_answer_early(inlet, parts, write, answered, is_known=is_known))
            # Imports block the event loop, and a client asks for the tools right away.
            await asyncio.wait([answering], timeout=NEXT_MESSAGE_TIMEOUT_S)
            while not answering.done() and inlet.is_ready():  # on a busy machine
                await asyncio.wait([answering], timeout=NEXT_MESSAGE_TIMEOUT_S)
            if answering.done() and answering.result():
                return exit_codes.OK
            load_structlog()  # before the thread: other modules may need what structlog must not find
            loading = asyncio.ensure_future(asyncio.to_thread(_load_library))
            try:
                async with _open(loaded, options) as opened:
                    serve_stream = await loading
                    await serve_stream(opened, chunks(), write, answered=answered)
            except (HutchError, OSError) as error:
                await _end(answering)
                for line in b"".join(parts).split(b"\n"):
                    if (
                        refused := refuse(line, f"Hutch cannot start: {error}")
                    ) and refused.id not in answered:
                        await write(refused.answer)
                raise
        except asyncio.CancelledError:
            if not ended:
                raise
    return 128 + ended[0] if ended else exit_codes.OK


async def _answer_early(
    inlet: Inlet, parts: list[bytes], write: Write, answered: set[str | int], *, is_known: bool
) -> bool:
    """Answer what needs no library, while it is loaded. All that is read is added to `parts` for it. True if
    the input has ended, and all of it was answered here."""
    following = NextMessages()
    data = parts[0].partition(b"\n")[2]
    while is_known:
        answer = following.add(data)
        if answer:
            answered.add(answer.id)
            await asyncio.shield(write(answer.answer))
        if following.is_over and (answer is None or following.has_rest):
            return False
        if not (data := await inlet.read()):
            return not following.has_rest
        parts.append(data)
        if following.is_over:
            return False
    return False


async def _end(task: "asyncio.Future[bool]") -> None:
    task.cancel()
    await asyncio.wait([task])


def _load_library() -> ServeStream:
    """Import the library, which takes about a second, while the jail is opened."""
    with without_gc():
        from hutch.gateway.mcp.directory_tool_server import serve_stream

    return serve_stream


async def _receive_first(
    inlet: Inlet, loaded: Loaded, options: ServeOptions
) -> tuple[bytes, Greeting | None]:
    """The first bytes of a client, and the answer to its first message if that needs no library."""
    received = b""
    while b"\n" not in received and len(received) <= MAX_BYTES and (data := await inlet.read()):
        received += data
    line, newline, _ = received.partition(b"\n")
    text = instructions(str(options.directory.resolve()), WORKSPACE, _network(loaded, options))
    return received, greet(line, text) if newline else None


def _network(loaded: Loaded, options: ServeOptions) -> tuple[str, ...]:
    """The hosts that commands may reach."""
    return tuple(dict.fromkeys((*loaded.settings.jail.network, *options.network)))


async def _by_http(loaded: Loaded, options: ServeOptions, address: str, no_token: bool) -> int:
    from hutch.app import user_directory_tools
    from hutch.gateway.mcp import loopback_http_server as mcp_http

    with mcp_http.listen(address) as listener, ended_by(*TERMINATION_SIGNALS) as ended:
        stored = None if no_token else user_directory_tools.find_mcp_token(loaded)
        token = None if no_token else stored or secrets.token_urlsafe(32)
        try:
            async with _open(loaded, options) as opened:
                _say(f"serving MCP at {mcp_http.address_of(listener)}")
                if token and not stored:
                    _say(f"clients must send the header Authorization: Bearer {token}")
                await mcp_http.serve_http(opened, listener, token)
        except asyncio.CancelledError:
            if not ended:
                raise
    return 128 + ended[0] if ended else exit_codes.OK


def _open(loaded: Loaded, options: ServeOptions) -> "AbstractAsyncContextManager[Tools]":
    with without_gc():
        from hutch.app import user_directory_tools

    configure_logs(loaded)
    wired = user_directory_tools.directory_tools(
        loaded, network=options.network, plain=options.plain, unsafe_workspace=options.unsafe_workspace
    )
    return wired.open(options.directory)


def _say(sentence: str) -> None:
    typer.echo(f"hutch: {sentence}", err=True)
