"""`hutch edit`: open a file of a session in one's own editor, synchronized both ways while it is open."""

import asyncio
from typing import Annotated

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli import local_session_lookup
from hutch.cli.api_client import Client
from hutch.cli.editing.editing_lifecycle import EditSession
from hutch.cli.editing.editor import choose_editor
from hutch.cli.editing.file_sync import FileSync
from hutch.cli.editing.local_copy import LocalCopy
from hutch.cli.editing.session_file_access import LocalFile, ServedFile, SessionFile
from hutch.cli.local_session_client import LocalSessions
from hutch.cli.server_address_and_token import uses_no_server
from hutch.cli.server_requests import SessionName, find_session
from hutch.domain.errors import Conflict
from hutch.domain.relative_path import parse_path
from hutch.forge.host_git import Git


def edit_command(
    session: SessionName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file of the session; it need not exist.")],
    editor: Annotated[
        str, typer.Option(metavar="COMMAND", help="The editor; by default $VISUAL or $EDITOR.")
    ] = "",
) -> int:
    """Edit a file of a session in your own editor.

    While the editor is open, each save goes to the session, and changes by others come into the
    file on disk. Changes of the same file are merged line by line; what cannot be merged or sent is
    kept, and `hutch edit` of the same file continues there. An editor with windows must wait until
    the file is closed: --editor "code --wait".
    """
    cleaned = parse_path(path.removeprefix("/workspace/"))
    if uses_no_server(loaded := settings.load()):
        return asyncio.run(_edit_in_process(loaded, session, cleaned, editor))
    return asyncio.run(_edit_on_server(session, cleaned, editor))


async def _edit_on_server(name: str, path: str, editor: str) -> int:
    async with Client() as client:
        found = await find_session(client, name)
        words = await choose_editor(editor, client)
        return await _edit(ServedFile(client, found, path), found["id"], found["state"], path, words)


async def _edit_in_process(loaded: settings.LoadedSettings, name: str, path: str, editor: str) -> int:
    async with local_session_lookup.open_sessions(loaded) as log:
        session_id = await local_session_lookup.find_session(log, name)
    words = await choose_editor(editor, None)
    configure_logs(loaded, quiet=True)
    async with LocalSessions.opened(loaded) as sessions:
        found = await sessions.get(session_id)
        return await _edit(LocalFile(sessions, found, path), session_id, found["state"], path, words)


async def _edit(remote: SessionFile, session_id: str, state: str, path: str, editor: list[str]) -> int:
    if state == "ended":
        raise Conflict(
            f"The session {session_id} has ended, so its files cannot be changed. Fork it first: "
            f"hutch sessions fork {session_id}"
        )
    copy = LocalCopy.of(settings.find_paths().edits, session_id, path)
    sync = FileSync(remote, copy, Git(settings.user_environment()))
    return await EditSession(sync, session_id, path, editor).run()
