"""The toolchain of an interview's workspace: the same that runs its hidden tests.

It may lie outside of /usr, in a package beside Hutch. Without it, the lobby would report a language as
available that the candidate cannot run.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.domain.given_code_test_case import LANGUAGES
from hutch.domain.ids import SessionId
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.jail.launch.idmapped_mount import in_private_directory
from hutch.store.interviews import Interviews
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShownToolchain:
    """The directories that a jail is shown for a toolchain, and the variables of its programs."""

    directories: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


GO_CACHE = "GOCACHE"
NO_TOOLCHAIN = ShownToolchain()


class WorkspaceToolchains:
    """Finds the toolchain of a session. Sessions outside of interviews have that of the settings only."""

    def __init__(self, rows: Rows, executor: CodeExecutor) -> None:
        self._rows, self._executor = Interviews(rows), executor

    async def find(self, session_id: SessionId) -> ShownToolchain:
        """The toolchain for a session's jail; none if the language is missing, which the lobby reports.

        Nobody waits until Go's library is compiled: that begins when the candidate comes to the lobby.
        """
        interview = await self._rows.of_workspace(session_id)
        if interview is None:
            return NO_TOOLCHAIN
        workspaces = await self._rows.workspaces(interview)
        name = next((each.language for each in workspaces if each.session_id == session_id), "")
        language = next((each for each in LANGUAGES if each == name), None)
        if language is None:
            return NO_TOOLCHAIN
        try:
            directories, variables = await self._executor.shown_without_waiting(language)
        except Unavailable:
            return NO_TOOLCHAIN
        cache = variables.get(GO_CACHE, "")
        if os.geteuid() == 0 and await asyncio.to_thread(in_private_directory, Path(cache)):
            # Its files are private too. The candidate's first test run compiles Go's library instead.
            directories = tuple(each for each in directories if str(each) != cache)
            variables = {name: value for name, value in variables.items() if name != GO_CACHE}
        return ShownToolchain(tuple(map(str, directories)), variables)
