"""`hutch mcp`: serve the agent's tools to editors and other agents with the Model Context Protocol."""

import asyncio
import fcntl
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hutch import app as wiring
from hutch import settings
from hutch.app import tools
from hutch.cli import exit_codes
from hutch.cli.descriptor_io import Inlet, Outlet
from hutch.cli.signals import ended_by
from hutch.domain.errors import BadRequest, NotFound
from hutch.flows.tool_calls import Tools
from hutch.system.signals import TERMINATION_SIGNALS

app = typer.Typer(
    help="Serve the jailed tools to editors and other agents.", no_args_is_help=True, add_completion=False
)

Loaded = settings.LoadedSettings


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
    wire = _take_stdio() if http is None else None
    if not workspace.is_dir():
        wrong = "is not a directory" if workspace.exists() else "does not exist"
        raise NotFound(f"The workspace '{workspace}' {wrong}. Create it first, or choose another: -w DIR.")
    loaded = settings.load(repo=workspace)
    wiring.configure_logs(loaded)
    for sentence in loaded.refused:
        _say(f"warning: {sentence}")
    options = ServeOptions(workspace, tuple(net or ()), plain, unsafe_workspace)
    return asyncio.run(
        _by_pipes(loaded, options, *wire) if wire else _by_http(loaded, options, http or "", no_token)
    )


async def _by_pipes(loaded: Loaded, options: ServeOptions, stdin: int, stdout: int) -> int:
    from hutch.gateway.mcp.server import serve_stream

    if os.isatty(stdin):
        _say("serving MCP on standard input and output; an MCP client should start this, or use --http")
    inlet, outlet = Inlet(stdin), Outlet(stdout)

    async def chunks() -> AsyncIterator[bytes]:
        while data := await inlet.read():
            yield data

    async def write(data: bytes) -> None:
        with suppress(OSError):  # the client closed its end; the end of input follows
            await outlet.write(data)

    with ended_by(*TERMINATION_SIGNALS) as ended:
        try:
            async with _open(loaded, options) as opened:
                await serve_stream(opened, chunks(), write)
        except asyncio.CancelledError:
            if not ended:
                raise
    return 128 + ended[0] if ended else exit_codes.OK


async def _by_http(loaded: Loaded, options: ServeOptions, address: str, no_token: bool) -> int:
    from hutch.gateway.mcp import http as mcp_http

    with mcp_http.listen(address) as listener, ended_by(*TERMINATION_SIGNALS) as ended:
        stored = None if no_token else tools.find_mcp_token(loaded)
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


def _open(loaded: Loaded, options: ServeOptions) -> AbstractAsyncContextManager[Tools]:
    wired = tools.directory_tools(
        loaded, network=options.network, plain=options.plain, unsafe_workspace=options.unsafe_workspace
    )
    return wired.open(options.directory)


def _take_stdio() -> tuple[int, int]:
    """Reserve standard input and output for the protocol; other output goes to standard error."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        stdin, stdout = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    except OSError:
        raise BadRequest(
            "Standard input or output is closed. Start it from an MCP client, or use --http."
        ) from None
    os.dup2(nowhere, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nowhere, 1)
    return stdin, stdout


def _say(sentence: str) -> None:
    typer.echo(f"hutch: {sentence}", err=True)
