"""Serves the agent to one editor on standard input and output."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from acp.agent.connection import AgentSideConnection
from acp.interfaces import Agent

from hutch import settings
from hutch.app import configure_logs
from hutch.app.allowed_local_repositories import check_directory, settings_root
from hutch.app.vault_secrets_and_redactor import redactor
from hutch.app.workspaces import workspaces_of
from hutch.cli import exit_codes
from hutch.cli.acp.editor_agent import EditorAgent
from hutch.cli.acp.message_lines import MessageLines
from hutch.cli.acp.session_options import SessionOptions
from hutch.cli.local_session_client import LocalSessions
from hutch.cli.session_client import SessionClient, open_sessions
from hutch.cli.signals_and_closed_output import ended_by
from hutch.domain.errors import HutchError
from hutch.domain.session import NewSession
from hutch.flows.in_place_workspaces import InPlaceDirectories
from hutch.system.signals_that_stay_ignored import TERMINATION_SIGNALS

STOP_TIMEOUT_S = 20.0


async def serve(stdin: int, stdout: int, new: NewSession, persona: str, model: str) -> int:
    """Serve one editor until its input ends or a signal comes; return the exit code."""
    with ended_by(*TERMINATION_SIGNALS) as ended:
        try:
            async with _open(new) as sessions:
                options = SessionOptions(sessions, persona, model)
                agent = EditorAgent(sessions, options, partial(_new_session_in, new))
                lines = MessageLines(stdin, stdout)
                connection = AgentSideConnection(
                    cast(Agent, agent), lines, listening=False, use_unstable_protocol=True
                )
                try:
                    await connection.listen()
                finally:
                    await _stop(agent)
                    await connection.close()
        except asyncio.CancelledError:
            if not ended:
                raise
    return 128 + ended[0] if ended else exit_codes.OK


@asynccontextmanager
async def _open(new: NewSession) -> AsyncIterator[SessionClient]:
    """The sessions: in this process for directories in place; for copies, of the server if one runs."""
    if not new.delivery.in_place:
        async with open_sessions(here=False, jobs=4) as sessions:
            yield sessions
        return
    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    check = partial(check_directory, loaded, plain=new.plain_directory, unsafe=False)
    async with (
        InPlaceDirectories(workspaces_of(loaded), check, redactor(loaded).redact) as directories,
        LocalSessions.opened(loaded, jobs=8, in_place=directories) as local,
    ):
        yield local


def _new_session_in(new: NewSession, directory: Path) -> NewSession:
    """The request for a session on a directory, after the checks of a directory that a client sees."""
    loaded = settings.load(repo=settings_root(settings.find_paths(), directory))
    if new.delivery.in_place:
        check_directory(loaded, directory, plain=new.plain_directory, unsafe=False)
    return replace(new, repository=str(directory))


async def _stop(agent: EditorAgent) -> None:
    """The editor has gone: stop its runs, so that no unwatched work costs money."""
    turns = [session.turn for session in agent.opened.values() if session.turn is not None]
    with suppress(HutchError, TimeoutError):
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await asyncio.gather(*(turn.cancel() for turn in turns))
            await asyncio.gather(*(turn.done.wait() for turn in turns))
