"""Changes reach real repositories, of every layout, and nothing of theirs runs outside a jail."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hutch.app.allowed_local_repositories import repositories_of
from hutch.app.jails import jail_policy
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound
from hutch.flows.delivery.snapshot_commit_and_proposal import propose
from hutch.forge.branch_push import MAX_NAMES
from hutch.workspace.admission.local_repository_git_jail import open_repository_jail
from tests.flows.delivery_fixtures import ADA, FILES, MORE, PROPOSAL, Delivering, bare, branches, made, tip
from tests.forge.repositories import git, make_repository, serving

pytestmark = pytest.mark.anyio


# --- proposing ---


async def test_a_bare_repository_gets_a_branch_with_one_commit(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    assert (change.branch, change.base, change.state) == ("hutch/say-more", "main", "open")
    assert tip(origin, "hutch/say-more") == change.commit
    assert git(origin, "rev-parse", f"{change.commit}^") == tip(origin, "main") == change.base_commit
    assert git(origin, "show", f"{change.commit}:src/main.py") == "print('hello, world')"
    git(origin, "fsck", "--strict")


async def test_the_commit_names_author_content_and_origin(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    shown = git(origin, "show", "-s", "--format=%an <%ae>|%cn <%ce>|%B", change.commit)
    assert shown == f"{ADA}|{ADA}|Say more\n\nIt greets.\n\nHutch-Session: ses_1\nHutch-Run: run_1"
    trailers = git(origin, "show", "-s", "--format=%(trailers:key=Hutch-Run,valueonly)", change.commit)
    assert trailers == "run_1"


async def test_a_title_of_several_lines_and_characters_that_git_refuses(
    place: Path, hutch: Delivering
) -> None:
    origin = bare(place)
    change = await made(
        hutch, origin, title="One\n\ntwo\x1b[2J\0 three ", summary="a\0b\r\n\x1b]0;x\x07c\ud800"
    )
    assert change.title == "One two[2J three"
    assert git(origin, "show", "-s", "--format=%s", change.commit) == change.title
    body = git(origin, "show", "-s", "--format=%b", change.commit)
    assert body == "ab\n]0;xc?\n\nHutch-Session: ses_1\nHutch-Run: run_1"


@pytest.mark.parametrize("author", ["", "Ada", "<a@b>", "A <a@b", "A\n <a@b>", "A <a b>", "A <a@b>\nx"])
async def test_an_invalid_author_is_refused_before_anything_is_written(
    place: Path, hutch: Delivering, author: str
) -> None:
    origin = bare(place)
    with pytest.raises(BadRequest, match="is not an author"):
        await made(hutch, origin, author=author)
    assert branches(origin) == ["main"]


async def test_nothing_changed_is_no_change(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    assert await hutch.change(origin, {"README.md": FILES["README.md"]}) is None
    assert branches(origin) == ["main"]


async def test_a_workspace_from_no_repository_has_nowhere_to_deliver_to(hutch: Delivering) -> None:
    async with hutch.workspace({"a": b"1"}) as workspace:
        await workspace.write("a", b"2")
        snapshot = await workspace.snapshot("done")
        with pytest.raises(BadRequest, match="does not come from a repository"):
            await propose(workspace, snapshot, PROPOSAL, forge=await hutch.forge("/nowhere"))


async def test_what_was_pushed_already_is_found_and_not_pushed_again(place: Path, hutch: Delivering) -> None:
    """As after a crash between the push of the branch and its record; by a path and by an address."""
    (place / "served").mkdir()
    origin = bare(place, name="served/origin.git")
    git(origin, "config", "http.receivepack", "true")
    with serving(place / "served") as server:
        for number, source in enumerate((str(origin), server.url("origin.git"))):
            proposal = replace(PROPOSAL, run_id=f"run_{number}")
            async with hutch.workspace(source) as workspace:
                await workspace.write("new", b"1\n")
                last = await workspace.snapshot("done")
                forge = await hutch.forge(source)
                one, two = [await propose(workspace, last, proposal, forge=forge) for _ in range(2)]
            assert one and two
            assert (one.branch, one.commit) == (two.branch, two.commit)
            assert len(branches(origin)) == 2 + number


async def test_a_name_that_is_taken_gets_a_number(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    before = [await made(hutch, origin, run_id=f"run_{number}") for number in range(3)]
    assert [each.branch for each in before] == ["hutch/say-more", "hutch/say-more-2", "hutch/say-more-3"]
    assert branches(origin) == [*(each.branch for each in before), "main"]


async def test_the_reported_branch_is_the_one_that_is_made(place: Path, hutch: Delivering) -> None:
    origin, result = bare(place), []
    git(origin, "branch", "hutch/say-more", "main")

    async def on_step(step: str, message: str) -> None:
        result.append(message)
        if message.startswith("Pushing hutch/say-more-2 "):
            git(origin, "branch", "hutch/say-more-2", "main")  # somebody is faster

    async with hutch.workspace(str(origin)) as workspace:
        await workspace.write("new", b"1\n")
        last = await workspace.snapshot("done")
        change = await propose(workspace, last, PROPOSAL, forge=await hutch.forge(origin), on_step=on_step)
    assert change is not None and change.branch == "hutch/say-more-3"
    assert result == [
        "Creating branch hutch/say-more-2...",
        "Committing changes...",
        f"Pushing hutch/say-more-2 to {origin}...",
        f"Pushing hutch/say-more-3 to {origin}...",
        "Opening hutch/say-more-3 for review...",
    ]


@pytest.mark.parametrize(
    ("there", "gets"),
    [("hutch", "hutch-say-more"), ("hutch/say-more/x", "hutch/say-more-2")],
)
async def test_a_branch_in_the_way_of_the_name(place: Path, hutch: Delivering, there: str, gets: str) -> None:
    origin = bare(place)
    git(origin, "branch", there, "main")
    assert (await made(hutch, origin)).branch == gets
    assert sorted(branches(origin)) == sorted(["main", there, gets])


async def test_names_that_are_all_taken(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    for name in ("hutch/say-more", "hutch-say-more"):
        for number in ("", *(f"-{each}" for each in range(2, MAX_NAMES + 1))):
            git(origin, "branch", name + number, "main")
    with pytest.raises(Conflict, match="Delete some"):
        await made(hutch, origin)


async def test_a_repository_in_use_keeps_its_files_and_its_branch(place: Path, hutch: Delivering) -> None:
    make_repository(place / "used", FILES)
    (place / "used" / "README.md").write_text("not committed\n")
    change = await made(hutch, place / "used")
    assert tip(place / "used", change.branch) == change.commit
    assert git(place / "used", "status", "--porcelain") == "M README.md"
    assert git(place / "used", "symbolic-ref", "HEAD") == "refs/heads/main"
    assert (place / "used" / "src/main.py").read_text() == FILES["src/main.py"]


@pytest.mark.parametrize("branch", ["trunk", "release/1.x", "größe"])
async def test_another_default_branch(place: Path, hutch: Delivering, branch: str) -> None:
    origin = bare(place, branch=branch)
    change = await made(hutch, origin)
    assert change.base == branch
    assert (await hutch.merge(change)).commit == change.commit == tip(origin, branch)


async def test_what_began_at_a_commit_has_no_branch_to_merge_into(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await hutch.change(origin, MORE, revision=tip(origin, "main"))
    assert change is not None
    with pytest.raises(NotFound, match="git merge hutch"):
        await hutch.merge(change)


# --- addresses ---


async def test_an_address_gets_the_branch_by_push(place: Path, hutch: Delivering) -> None:
    (place / "served").mkdir()
    origin = bare(place, name="served/origin.git")
    git(origin, "config", "http.receivepack", "true")
    with serving(place / "served", "ada:secret-word") as server:
        url = server.url("origin.git", user="ada:secret-word")
        change, again = await made(hutch, url), await made(hutch, url, run_id="run_2")
    assert (change.branch, again.branch) == ("hutch/say-more", "hutch/say-more-2")
    assert tip(origin, change.branch) == change.commit
    assert "secret-word" not in repr(change)
    with pytest.raises(BadRequest, match="is not on this machine"):
        await hutch.merge(change)


async def test_an_address_that_takes_no_push_is_refused(place: Path, hutch: Delivering) -> None:
    (place / "served").mkdir()
    origin = bare(place, name="served/origin.git")
    with serving(place / "served") as server, pytest.raises(HutchError):
        await made(hutch, server.url("origin.git"))
    assert branches(origin) == ["main"]


# --- linked worktrees ---


async def test_a_linked_worktree_delivers_into_the_main_repository(place: Path, hutch: Delivering) -> None:
    make_repository(place / "main", FILES)
    git(place / "main", "worktree", "add", "--quiet", "-b", "feature", str(place / "linked"))
    change = await made(hutch, place / "linked")
    assert (change.base, tip(place / "main", change.branch)) == ("feature", change.commit)
    assert b"+print('hello, world')" in await hutch.local(change).diff(change)
    before = tip(place / "main", "feature")
    with pytest.raises(Conflict, match=r"linked worktree.*git merge hutch/say-more"):
        await hutch.merge(change)
    assert tip(place / "main", "feature") == before
    assert git(place / "linked", "status", "--porcelain") == ""
    await hutch.local(change).close(change)
    assert branches(place / "main") == ["feature", "main"]


# --- what a repository would like to run ---


async def test_hooks_and_settings_of_a_repository_run_inside_the_jail_only(
    place: Path, hutch: Delivering
) -> None:
    make_repository(place / "used", FILES)
    outside = place / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    script = f"#!/bin/sh\necho x > {outside}/escaped\necho x >> /workspace/.git/hook-ran\n"
    for name in ("reference-transaction", "post-merge", "post-checkout", "pre-receive", "update"):
        hook = place / "used/.git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(script + ("cat > /dev/null\n" if name == "reference-transaction" else ""))
        hook.chmod(0o755)
    evil = place / "used/.git/evil.sh"
    evil.write_text(script)
    evil.chmod(0o755)
    for setting in ("core.fsmonitor", "core.sshCommand", "diff.external", "core.pager"):
        git(place / "used", "config", setting, "/workspace/.git/evil.sh")
    change = await made(hutch, place / "used")
    await hutch.local(change).diff(change)
    await hutch.merge(change)
    assert list(outside.iterdir()) == []
    assert (place / "used/.git/hook-ran").exists()  # so it would have, had it been able to


async def test_a_hook_can_refuse_a_delivery(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    hook = origin / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on my watch >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(HutchError, match="not on my watch"):
        await made(hutch, origin)
    assert branches(origin) == ["main"]


async def test_the_jail_on_a_repository_reaches_no_network(place: Path, hutch: Delivering) -> None:
    jail_settings = hutch.loaded.settings.jail.model_copy(update={"network": ("example.com",)})
    settings = hutch.loaded.settings.model_copy(update={"jail": jail_settings})
    hutch.loaded = replace(hutch.loaded, settings=settings)
    repositories, build_policy = repositories_of(hutch.loaded), partial(jail_policy, hutch.loaded.settings)
    async with open_repository_jail(repositories, build_policy, bare(place)) as jail:
        assert jail.policy.network == ()
