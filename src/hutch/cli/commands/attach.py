"""`hutch attach`: watch a session, speak with its agent, and answer what it asks."""

import sys
from typing import Annotated

import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.client import Client
from hutch.cli.hangup import ended_with_terminal
from hutch.cli.run_wait import show_all
from hutch.cli.screens.attach_prompt import Attached
from hutch.cli.server_requests import SessionName, ask, find_session, short
from hutch.cli.session_client import ServedSessions
from hutch.cli.terminal_check import can_prompt


def attach_command(
    session: SessionName = "last",
    after: Annotated[
        int | None, typer.Option(min=0, metavar="SEQ", help="Begin after this event; 0 shows all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> int:
    """Watch a session live, type messages to its agent, and answer what it asks.

    On a terminal there is a line to type on; /help there tells more. Ctrl-C leaves, and the session goes on.
    Elsewhere, and with --json, everything is printed until the session has ended.
    """

    async def work(client: Client) -> int | None:
        return await attach(client, session, after=after, as_json=as_json)

    return ask(work, as_json=as_json)


async def attach(client: Client, name: str, *, after: int | None, as_json: bool) -> int:
    """To the session of this name; the exit code."""
    found = await find_session(client, name)
    if as_json or not can_prompt(settings.terminal_type()):
        await show_all(client, found, after=after or 0, as_json=as_json)
        return exit_codes.OK
    attached = Attached(ServedSessions(client), found, after=after)
    with ended_with_terminal():
        await attached.run()
        if attached.left:
            also = ", and it waits for you" if attached.talk.asked else ""
            sys.stdout.write(f"You left; it goes on{also}. Come back: hutch attach {short(found['id'])}\n")
    return exit_codes.OK
