"""`hutch acp`: let an editor use the agent, with the Agent Client Protocol."""

import asyncio
import os
from typing import Annotated

import typer

from hutch.cli.stdio_of_protocol_commands import take_stdio
from hutch.domain.session import Delivery, NewSession
from hutch.system.fast_imports import load_structlog, without_gc


def acp_command(
    copy: Annotated[
        bool,
        typer.Option(
            "--copy", help="Work on a copy; the result of each prompt arrives as a branch of the repository."
        ),
    ] = False,
    persona: Annotated[
        str, typer.Option(metavar="PERSONA", help="The persona of new sessions; editors show it as the mode.")
    ] = "",
    model: Annotated[str, typer.Option(metavar="PROVIDER:NAME", help="The model of new sessions.")] = "",
    net: Annotated[
        list[str] | None,
        typer.Option("--net", metavar="HOST", help="A host that commands may reach; may be repeated."),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option("--plain-directory", help="Allow a directory without git, with everything in it."),
    ] = False,
) -> int:
    """Serve the agent to an editor that speaks the Agent Client Protocol (ACP).

    The editor starts it, and talks to it on standard input and output. The agent works on the directory that
    the editor names, in place; commands run in a jail. With --copy it works on a copy, on the server if one
    runs.
    """
    stdin, stdout = take_stdio("Start it from an editor.")
    if os.isatty(stdin):
        typer.echo("hutch: serving ACP on standard input and output; an editor should start this", err=True)
    new = NewSession(
        network=tuple(net or ()), plain_directory=plain, deliver=copy, delivery=Delivery(in_place=not copy)
    )
    with without_gc():
        load_structlog()
        from hutch.cli.acp.stdio_server import serve  # the protocol's library, the jail and the agent

    return asyncio.run(serve(stdin, stdout, new, persona, model))
