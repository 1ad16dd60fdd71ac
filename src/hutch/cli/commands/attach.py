"""`hutch attach`: watch a session, send messages to its agent and answer its questions."""

import sys
from typing import Annotated

import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.closed_terminal_watchdog import exit_when_terminal_closes
from hutch.cli.interactive_terminal_check import can_prompt
from hutch.cli.run_wait_and_output import show_all
from hutch.cli.screens.attach_prompt import AttachPrompt
from hutch.cli.server_requests import SessionName, ask, find_session, short
from hutch.cli.session_client import ServedSessions


def attach_command(
    session: SessionName = "last",
    after: Annotated[
        int | None, typer.Option(min=0, metavar="SEQ", help="Start after this event; 0 shows all.")
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Only watch, and end when the session has nothing to do.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> int:
    """Watch a session live, and talk to its agent.

    On a terminal, type at the prompt; /help lists the commands. Ctrl-C detaches; the session continues.
    Without a terminal, or with --json, events are printed until the session ends. A line on standard error
    says when the session has nothing to do; with --until-idle, the command ends then.
    """

    async def work(client: Client) -> int | None:
        return await attach(client, session, after=after, as_json=as_json, until_idle=until_idle)

    return ask(work, as_json=as_json)


async def attach(
    client: Client, name: str, *, after: int | None, as_json: bool, until_idle: bool = False
) -> int:
    """Attach to a session by name; return the exit code."""
    found = await find_session(client, name)
    if until_idle or as_json or not can_prompt(settings.terminal_type()):
        await show_all(client, found, after=after or 0, as_json=as_json, until_idle=until_idle)
        return exit_codes.OK
    attached = AttachPrompt(ServedSessions(client), found, after=after)
    with exit_when_terminal_closes():
        await attached.run()
        if attached.left:
            also = " and waits for your answer" if attached.conversation.question else ""
            sys.stdout.write(
                f"Detached; the session continues{also}. Return with: hutch attach {short(found['id'])}\n"
            )
    return exit_codes.OK
