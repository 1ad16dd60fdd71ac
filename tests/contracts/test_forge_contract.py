"""What delivery promises wherever a repository is: on this machine, on a plain git server, or on GitHub.

The three are different forges to people; a change arrives at each in the same way, once.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hutch.domain.change import Change
from hutch.domain.errors import Conflict, HutchError
from hutch.flows import delivery
from hutch.flows.delivery import Proposal
from hutch.forge.gh import Gh, Patience
from hutch.forge.github import USER, GitHub
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.forge.seam import Forge
from hutch.snapshots.storage import Snapshot
from hutch.workspace.workspace import Workspace
from tests.flows.delivering import PROPOSAL, Delivering, bare, branches, push, tip
from tests.forge.github_server import HOST, Hub, github
from tests.forge.repositories import git, serving

pytestmark = pytest.mark.anyio
TOKEN = "tok_ada_0123456789"
STEPS = ["branching", "committing", "pushing", "opening"]


@dataclass
class Somewhere:
    """A repository, how it is reached, and what is really in it."""

    hutch: Delivering
    place: Path
    origin: Path
    remote: RepoUrl
    forge: Forge | None = None
    hub: Hub | None = None

    async def propose(
        self, text: str, proposal: Proposal = PROPOSAL, *, before: Change | None = None, also: str = ""
    ) -> tuple[Change | None, list[str]]:
        """Write a file in a workspace of its own, and propose that; and the steps that were told."""
        steps: list[str] = []

        async def told(step: str, message: str) -> None:
            steps.append(step)

        async with self.hutch.workspace(str(self.remote)) as workspace:
            if also:
                await workspace.write("src/main.py", also.encode())
                first = await workspace.snapshot("first")
                before = await self.in_workspace(workspace, first, proposal)
            await workspace.write("src/main.py", text.encode())
            last = await workspace.snapshot("done")
            made = await delivery.propose(
                workspace,
                last,
                replace(proposal, run_id="run_2") if before else proposal,
                open_jail=self.hutch.jail,
                address=self.remote,
                forge=self.forge,
                before=before,
                on_step=told,
            )
        return made, steps

    async def in_workspace(self, workspace: Workspace, snapshot: Snapshot, proposal: Proposal) -> Change:
        made = await delivery.propose(
            workspace,
            snapshot,
            proposal,
            open_jail=self.hutch.jail,
            address=self.remote,
            forge=self.forge,
        )
        assert made is not None
        return made

    @property
    def pulls(self) -> int:
        return len(self.hub.repository("acme/project").pulls) if self.hub else 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(params=["local", "git", "github"])
def there(request: pytest.FixtureRequest, place: Path) -> Iterator[Somewhere]:
    hutch = Delivering(place)
    with ExitStack() as stack:
        if request.param == "local":
            origin = bare(place)
            yield Somewhere(hutch, place, origin, parse_repo_url(str(origin)))
        elif request.param == "git":
            (place / "served").mkdir()
            origin = bare(place, name="served/origin.git")
            git(origin, "config", "http.receivepack", "true")
            server = stack.enter_context(serving(place / "served"))
            yield Somewhere(hutch, place, origin, parse_repo_url(server.url("origin.git")))
        else:
            bare(place)
            hub = stack.enter_context(github(place))
            made = hub.state.add("acme/project", place / "origin.git", permissions={"ada": "write"})
            hub.state.tokens[TOKEN] = "ada"

            async def token() -> str:
                return TOKEN

            remote = replace(parse_repo_url(hub.url("acme/project")), credentials=(USER, TOKEN))
            gh = Gh(HOST, token, {"PATH": os.defpath}, str(hub.socket), Patience(first_pause_s=0.01))
            yield Somewhere(hutch, place, made.path, remote, GitHub(gh, remote), hub)


async def test_a_change_is_one_commit_on_a_new_branch_and_told_step_by_step(there: Somewhere) -> None:
    base = tip(there.origin, "main")
    made, steps = await there.propose("print('more')\n")
    assert made is not None and steps == STEPS
    assert branches(there.origin) == ["hutch/say-more", "main"]
    assert tip(there.origin, "hutch/say-more") == made.commit
    assert git(there.origin, "rev-list", "--parents", "-n1", made.commit).split()[1:] == [base]
    assert (made.branch, made.base, made.base_commit) == ("hutch/say-more", "main", base)
    said = git(there.origin, "show", "-s", "--format=%an <%ae>%n%B", made.commit)
    assert said.startswith(PROPOSAL.author) and "Hutch-Session: ses_1" in said and "Hutch-Run: run_1" in said
    assert tip(there.origin, "main") == base
    assert there.pulls == (1 if there.hub else 0)


async def test_nothing_that_was_changed_is_nothing_that_is_proposed(there: Somewhere) -> None:
    made, steps = await there.propose("print('hello')\n")
    assert (made, steps, branches(there.origin), there.pulls) == (None, [], ["main"], 0)


async def test_what_was_proposed_already_is_found_and_not_made_again(there: Somewhere) -> None:
    async with there.hutch.workspace(str(there.remote)) as workspace:
        await workspace.write("src/main.py", b"print('more')\n")
        last = await workspace.snapshot("done")
        one = await there.in_workspace(workspace, last, PROPOSAL)
        two = await there.in_workspace(workspace, last, PROPOSAL)
    assert (one.commit, one.branch, one.number) == (two.commit, two.branch, two.number)
    assert branches(there.origin) == ["hutch/say-more", "main"]
    assert there.pulls == (1 if there.hub else 0)


async def test_what_follows_goes_on_top_of_the_same_branch(there: Somewhere) -> None:
    made, steps = await there.propose("print('most')\n", also="print('more')\n")
    assert made is not None and steps == STEPS
    assert branches(there.origin) == ["hutch/say-more", "main"]
    assert git(there.origin, "rev-list", "--count", "main..hutch/say-more") == "2"
    assert tip(there.origin, "hutch/say-more") == made.commit
    assert there.pulls == (1 if there.hub else 0)


async def test_a_branch_that_somebody_else_moved_is_not_run_over(there: Somewhere) -> None:
    async with there.hutch.workspace(str(there.remote)) as workspace:
        await workspace.write("src/main.py", b"print('more')\n")
        one = await there.in_workspace(workspace, await workspace.snapshot("one"), PROPOSAL)
        git(there.origin, "branch", "-D", one.branch)
        theirs = push(there.place, there.origin, {"other": "1"}, one.branch)
        await workspace.write("src/main.py", b"print('most')\n")
        with pytest.raises(Conflict, match="Somebody has pushed"):
            await delivery.propose(
                workspace,
                await workspace.snapshot("two"),
                replace(PROPOSAL, run_id="run_2"),
                open_jail=there.hutch.jail,
                address=there.remote,
                forge=there.forge,
                before=one,
            )
    assert tip(there.origin, one.branch) == theirs


async def test_a_name_that_is_taken_gets_a_number(there: Somewhere) -> None:
    theirs = push(there.place, there.origin, {"other": "1"}, "hutch/say-more")
    made, _ = await there.propose("print('more')\n")
    assert made is not None and made.branch == "hutch/say-more-2"
    assert tip(there.origin, "hutch/say-more") == theirs


async def test_a_repository_that_refuses_is_told_with_its_reason_and_nothing_is_half_done(
    there: Somewhere,
) -> None:
    async with there.hutch.workspace(str(there.remote)) as workspace:
        await workspace.write("src/main.py", b"print('more')\n")
        last = await workspace.snapshot("done")
        there.origin.rename(there.origin.with_name("gone"))
        with pytest.raises(HutchError) as refused:
            await there.in_workspace(workspace, last, PROPOSAL)
        there.origin.with_name("gone").rename(there.origin)
        assert TOKEN not in str(refused.value)
        assert (branches(there.origin), there.pulls) == (["main"], 0)
        made = await there.in_workspace(workspace, last, PROPOSAL)
    assert branches(there.origin) == [made.branch, "main"]
