"""Finds files that tests change while they run: then the final files are not the tested ones."""

import re
from dataclasses import field

from hutch.snapshots.git_storage import Snapshot
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

# Caches that runners write; they are no part of the change.
RUNNER_CACHES = re.compile(
    r"(?:^|/)(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis|\.nyc_output|\.tox)/"
    r"|(?:^|/)\.coverage(?:\.[^/]*)?$|\.pyc$"
)


@dataclass(slots=True)
class ChangedFiles:
    """Finds the files that tests have changed, run after run.

    A file that the tests have created, such as a report with the time in it, may differ after each run.
    """

    _created: set[str] = field(default_factory=set)

    async def between(self, workspace: Workspace, before: Snapshot, after: Snapshot) -> list[str]:
        """The files that differ before and after the tests."""
        if before.tree == after.tree:
            return []
        changes = await workspace.changes(before.id, after.id)
        relevant = [
            each for each in changes if not RUNNER_CACHES.search(each.path) and each.path not in self._created
        ]
        self._created |= {each.path for each in relevant if each.kind == "added"}
        return [each.path for each in relevant]

    async def since(self, workspace: Workspace, tested: Snapshot, now: Snapshot) -> bool:
        """True if any file differs from the tested ones."""
        if tested.tree == now.tree:
            return False
        changes = await workspace.changes(tested.id, now.id)
        return any(not RUNNER_CACHES.search(each.path) for each in changes)
