"""Whether tests that fail did so before: the same command, on what the session began with."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hutch.agent.testing.report import Report, is_missing
from hutch.agent.tools.run_tests import run as run_tests
from hutch.agent.tools.seam import Context
from hutch.app import workspaces
from hutch.app.changes import count_tests
from hutch.app.desks import open_desk
from hutch.domain.errors import HutchError, NotFound
from hutch.domain.events import RanTests
from hutch.settings import Loaded
from hutch.workspace.workspace import Workspace

SHOWN = 5
# How runners that leave no report name what failed: unittest, go, TAP, pytest.
NAMED = re.compile(
    r"^(?:(?:FAIL|ERROR): |--- FAIL: |not ok \d+ - |FAILED (?!\())"
    r"(?P<name>[^\n]{1,300}?)(?: \(\d[^)]*\)| - .*)?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Compared:
    """Which of the tests that fail are the fault of the work, as far as can be told."""

    new: bool  # something fails that did not, or nobody can say
    told: str
    before: str = ""  # what the tests said of the base


async def tests_on_the_base(
    loaded: Loaded,
    workspace: Workspace,
    *,
    base: int,
    now: int,
    ran: RanTests | None,
    command: str = "",
    network: Sequence[str] = (),
    name: str,
) -> Compared:
    """Run the tests on two snapshots, each in a workspace and a jail of its own, and compare what fails.

    `ran` is how they went: where there is nothing to run them with, there was nothing before.
    """
    if ran is not None and is_missing(ran.reason):
        return Compared(new=True, told="")
    try:
        first = await _ran(loaded, workspace, base, f"before-{name}", command, network)
    except NotFound:
        return Compared(new=True, told="There were no tests before.")
    except HutchError as error:
        return Compared(new=True, told=f"Whether they failed before is not known: {error}")
    if first.ok:
        return Compared(new=True, told="They passed before.")
    known = _failing(first)
    if known is None:
        return Compared(new=True, told="They failed before, too, but which of them did is not told.")
    second = await _ran(loaded, workspace, now, f"after-{name}", command, network)
    said = _count(first)
    failing = _failing(second)
    if failing is None or second.timed_out or second.limit:
        return Compared(new=True, told="Which of them fail is not told.", before=said)
    if new := sorted(failing - known):
        listed = ", ".join(new[:SHOWN])
        return Compared(new=True, told=f"These did not fail before: {listed}.", before=said)
    count = len(failing)
    words = f"{count} tests fail, as they did before." if count != 1 else "1 test fails, as it did before."
    return Compared(new=False, told=words if count else "", before=said)


def _failing(report: Report) -> set[str] | None:
    """The names of the tests that failed; None when not all of them are told."""
    counts = report.counts
    if counts is None:
        return None
    names = {failure.name for failure in counts.failures}
    names = names or {found.group("name").strip() for found in NAMED.finditer(report.output)}
    return names if len(names) == counts.failed else None


def _count(report: Report) -> str:
    counts = report.counts
    return count_tests(counts.failed, counts.passed, counts.skipped) if counts else ""


async def _ran(
    loaded: Loaded,
    workspace: Workspace,
    number: int,
    id: str,
    command: str,
    network: Sequence[str],
) -> Report:
    if any(record.id == id for record in await workspaces.list_workspaces(loaded)):
        await workspaces.remove(loaded, id)  # of somebody who was killed
    record = await workspaces.fork_workspace(workspace, number, id)
    try:
        async with open_desk(loaded, record.id, network=network) as desk:
            tests = loaded.settings.tests
            context = Context(
                desk.workspace,
                desk.jail,
                desk.shells,
                ignore=loaded.settings.ignore,
                test_command=command or tests.command,
                test_timeout_s=tests.timeout_s,
            )
            return await run_tests(context, [])
    finally:
        await workspaces.remove(loaded, record.id)
