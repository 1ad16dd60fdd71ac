"""The promises of a `Forge`: on this machine, on a plain git server, and on GitHub.

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

from hutch.app.forges import forges_of
from hutch.domain.errors import BadRequest, Conflict, HutchError
from hutch.domain.proposed_change import Change
from hutch.domain.review import Comment, Review
from hutch.flows.delivery.snapshot_commit_and_proposal import Proposal, propose
from hutch.forge.gh_command import Gh, RetryPolicy
from hutch.forge.github_forge import GitHubForge
from hutch.forge.github_repository_api import USER, GitHub
from hutch.forge.interface import Commits, Forge, Merge, Objections, Statement
from hutch.forge.local_forge import LocalRepository
from hutch.forge.plain_git_forge import PlainGit
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.snapshots.git_storage import Snapshot
from hutch.workspace.workspace import Workspace
from tests.flows.delivery_fixtures import PROPOSAL, Delivering, bare, branches, push, tip
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
    forge: Forge
    hub: Hub | None = None

    async def propose(
        self, text: str, proposal: Proposal = PROPOSAL, *, before: Change | None = None, also: str = ""
    ) -> tuple[Change | None, list[str]]:
        """Propose a file from a new workspace; returns the reported steps too."""
        steps: list[str] = []

        async def note(step: str, message: str) -> None:
            steps.append(step)

        async with self.hutch.workspace(str(self.remote)) as workspace:
            if also:
                await workspace.write("src/main.py", also.encode())
                first = await workspace.snapshot("first")
                before = await self.in_workspace(workspace, first, proposal)
            await workspace.write("src/main.py", text.encode())
            last = await workspace.snapshot("done")
            made = await propose(
                workspace,
                last,
                replace(proposal, run_id="run_2") if before else proposal,
                forge=self.forge,
                before=before,
                on_step=note,
            )
        return made, steps

    async def in_workspace(self, workspace: Workspace, snapshot: Snapshot, proposal: Proposal) -> Change:
        made = await propose(
            workspace,
            snapshot,
            proposal,
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
            forge: Forge = LocalRepository(origin, forges_of(hutch.loaded).open_git)
            yield Somewhere(hutch, place, origin, parse_repo_url(str(origin)), forge)
        elif request.param == "git":
            (place / "served").mkdir()
            origin = bare(place, name="served/origin.git")
            git(origin, "config", "http.receivepack", "true")
            server = stack.enter_context(serving(place / "served"))
            remote = parse_repo_url(server.url("origin.git"))
            yield Somewhere(hutch, place, origin, remote, PlainGit(remote))
        else:
            bare(place)
            hub = stack.enter_context(github(place))
            made = hub.state.add("acme/project", place / "origin.git", permissions={"ada": "write"})
            hub.state.tokens[TOKEN] = "ada"

            async def token() -> str:
                return TOKEN

            remote = replace(parse_repo_url(hub.url("acme/project")), credentials=(USER, TOKEN))
            gh = Gh(HOST, token, {"PATH": os.defpath}, str(hub.socket), RetryPolicy(first_delay_s=0.01))
            yield Somewhere(hutch, place, made.path, remote, GitHubForge(GitHub(gh, remote)), hub)


async def test_a_change_is_one_commit_on_a_new_branch_and_reports_each_step(there: Somewhere) -> None:
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


async def test_a_branch_that_another_user_moved_is_not_overwritten(there: Somewhere) -> None:
    async with there.hutch.workspace(str(there.remote)) as workspace:
        await workspace.write("src/main.py", b"print('more')\n")
        one = await there.in_workspace(workspace, await workspace.snapshot("one"), PROPOSAL)
        git(there.origin, "branch", "-D", one.branch)
        theirs = push(there.place, there.origin, {"other": "1"}, one.branch)
        await workspace.write("src/main.py", b"print('most')\n")
        with pytest.raises(Conflict, match="has new commits that Hutch did not push"):
            await propose(
                workspace,
                await workspace.snapshot("two"),
                replace(PROPOSAL, run_id="run_2"),
                forge=there.forge,
                before=one,
            )
    assert tip(there.origin, one.branch) == theirs


async def test_a_name_that_is_taken_gets_a_number(there: Somewhere) -> None:
    theirs = push(there.place, there.origin, {"other": "1"}, "hutch/say-more")
    made, _ = await there.propose("print('more')\n")
    assert made is not None and made.branch == "hutch/say-more-2"
    assert tip(there.origin, "hutch/say-more") == theirs


async def test_a_refusal_of_the_repository_has_its_reason_and_nothing_is_half_done(
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


async def test_a_check_pushes_nothing(there: Somewhere) -> None:
    async with there.hutch.workspace(str(there.remote)) as workspace:
        assert workspace.record.commit is not None
        commits = Commits(workspace.git, workspace.snapshots.storage.git_dir)
        await there.forge.check(commits, workspace.record.commit)
    assert (branches(there.origin), there.pulls) == (["main"], 0)


async def test_a_change_is_open_until_it_is_decided(there: Somewhere) -> None:
    made, _ = await there.propose("print('more')\n")
    assert made is not None and made.forge == there.forge.name
    standing = await there.forge.read(made)
    assert (standing.state, standing.commit, standing.base) == ("open", made.commit, "main")
    assert (standing.title, bool(standing.pull_url)) == (made.title, there.hub is not None)


async def test_a_merge_is_made_when_nothing_speaks_against_it(there: Somewhere) -> None:
    made, _ = await there.propose("print('more')\n")
    assert made is not None

    async def refuse(objections: Objections) -> None:
        raise Conflict(f"not yet: {objections.reasons}")

    async def agree(objections: Objections) -> None:
        assert objections == Objections()

    with pytest.raises(Conflict, match=r"not yet: \(\)"):
        await there.forge.merge(made, Merge(PROPOSAL.author, None, refuse))
    assert made.commit not in git(there.origin, "rev-list", "main").split()
    if there.forge.name == "git":
        with pytest.raises(BadRequest, match="is not on this machine"):
            await there.forge.merge(made, Merge(PROPOSAL.author, None, agree))
        return
    assert b"+print('more')" in await there.forge.diff(made)
    merged = await there.forge.merge(made, Merge(PROPOSAL.author, None, agree))
    assert merged.branch_stays == "" and tip(there.origin, "main") == merged.commit
    assert made.commit in git(there.origin, "rev-list", "main").split()
    assert branches(there.origin) == ["main"]
    again = await there.forge.merge(made, Merge(PROPOSAL.author, None, agree))
    assert again.commit == merged.commit


async def test_a_change_that_is_closed_loses_its_branch(there: Somewhere) -> None:
    made, _ = await there.propose("print('more')\n")
    assert made is not None
    if there.forge.name == "git":
        with pytest.raises(BadRequest, match="is not on this machine"):
            await there.forge.close(made)
        return
    assert await there.forge.close(made) == ""
    assert branches(there.origin) == ["main"]


async def test_a_comment_is_taken_on_a_line_that_exists_alone(there: Somewhere) -> None:
    made, _ = await there.propose("print('more')\n")
    assert made is not None
    on_line = Comment(
        id="cmt_1",
        change_id=made.id,
        author="ada",
        path="src/main.py",
        line=1,
        side="new",
        severity="",
        body="Why?",
        commit=made.commit,
        created_ms=1,
    )
    with pytest.raises(BadRequest):
        await there.forge.post(made, Statement(content=replace(on_line, line=999)))
    if there.forge.name != "git":
        url = await there.forge.post(made, Statement(content=on_line))
        assert bool(url) == (there.hub is not None)


async def test_a_review_by_the_agent_is_posted_once(there: Somewhere) -> None:
    made, _ = await there.propose("print('more')\n")
    assert made is not None
    given = Review(
        id="rev_1",
        author="hutch",
        verdict="commented",
        title="Good",
        body="All of it.",
        commit=made.commit,
        run_id="run_1",
        created_ms=1,
    )
    assert await there.forge.find(made, given) is None
    first, second = [await there.forge.post(made, Statement(content=given)) for _ in range(2)]
    assert first == second and bool(first) == (there.hub is not None)
    assert (await there.forge.find(made, given) or "") == first
