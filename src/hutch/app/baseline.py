"""Whether tests that fail did so before: the same command, on what the session began with."""

from collections.abc import Sequence
from dataclasses import dataclass

from hutch.agent.testing.report import Report
from hutch.agent.tools.run_tests import run as run_tests
from hutch.agent.tools.seam import Context
from hutch.app import workspaces
from hutch.app.changes import count_tests
from hutch.app.desks import open_desk
from hutch.domain.errors import HutchError, NotFound
from hutch.settings import Loaded

__all__ = ["Compared", "tests_on_the_base"]

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """Which of the tests that fail are the fault of the work, as far as can be told."""

    new: bool  # something fails that did not, or nobody can say
    told: str
    before: str = ""  # what the tests said of the base


async def tests_on_the_base(
    loaded: Loaded,
    workspace: workspaces.Workspace,
    *,
    base: int,
    now: int,
    command: str = "",
    network: Sequence[str] = (),
    name: str,
) -> Compared:
    """Run the tests on two snapshots, each in a workspace and a jail of its own, and compare what fails."""
    try:
        first = await _ran(loaded, workspace, base, f"before-{name}", command, network)
    except NotFound:
        return Compared(new=True, told="There were no tests before.")
    except HutchError as error:
        return Compared(new=True, told=f"Whether they failed before is not known: {error}")
    if first.ok:
        return Compared(new=True, told="They passed before.")
    if first.counts is None or not first.counts.failures:
        return Compared(new=True, told="They failed before, too, but which of them did is not told.")
    second = await _ran(loaded, workspace, now, f"after-{name}", command, network)
    said = count_tests(first.counts.failed, first.counts.passed, first.counts.skipped)
    if second.counts is None or second.timed_out or second.limit:
        return Compared(new=True, told="Which tests fail is not told.", before=said)
    known = {failure.name for failure in first.counts.failures}
    new = [failure.name for failure in second.counts.failures if failure.name not in known]
    if new or second.counts.failed > first.counts.failed:
        listed = ", ".join(new[:SHOWN]) or "some"
        return Compared(new=True, told=f"These passed before: {listed}.", before=said)
    count = second.counts.failed
    words = f"{count} tests fail, as they did before." if count != 1 else "1 test fails, as it did before."
    return Compared(new=False, told=words if count else "", before=said)


async def _ran(
    loaded: Loaded,
    workspace: workspaces.Workspace,
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
