"""What tests change while they run: then what they leave behind is not what was tested."""

import re
from dataclasses import dataclass, field

from hutch.snapshots.storage import Snapshot
from hutch.workspace.workspace import Workspace

# What runners write for themselves, and nobody means to keep.
LEFT_BEHIND = re.compile(
    r"(?:^|/)(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.hypothesis|\.nyc_output|\.tox)/"
    r"|(?:^|/)\.coverage(?:\.[^/]*)?$|\.pyc$"
)


@dataclass(slots=True)
class Altered:
    """Tells what tests have changed, run after run.

    A file that they have made themselves, such as a report with the time in it, may be another each time.
    """

    _made: set[str] = field(default_factory=set)

    async def between(self, workspace: Workspace, before: Snapshot, after: Snapshot) -> list[str]:
        """The files that differ before and after the tests."""
        if before.tree == after.tree:
            return []
        changes = await workspace.changes(before.id, after.id)
        told = [each for each in changes if not LEFT_BEHIND.search(each.path) and each.path not in self._made]
        self._made |= {each.path for each in told if each.kind == "added"}
        return [each.path for each in told]

    async def since(self, workspace: Workspace, tested: Snapshot, now: Snapshot) -> bool:
        """Whether anything else differs from what was tested."""
        if tested.tree == now.tree:
            return False
        changes = await workspace.changes(tested.id, now.id)
        return any(not LEFT_BEHIND.search(each.path) for each in changes)
