"""What people do with a change: read it, merge it, or close it."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict, HutchError, LimitReached, MergeConflict, NotFound
from hutch.domain.review import AGENT, Review
from hutch.flows import repository_git
from hutch.flows.commit_text import message, one_line, parse_author
from hutch.flows.repository_git import MOST_OUTPUT_BYTES, OpenJail
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.seam import Jail
from hutch.store.comments import Reviews
from hutch.store.rows import Rows
from hutch.store.users import Users

SHOWN_PATHS = 20
SHOWN_LETTERS = 200  # of what somebody asked for
Strategy = Literal["fast-forward", "merge", "squash", "rebase"]


@dataclass(frozen=True, slots=True)
class Merged:
    """A change that is in its base branch."""

    commit: str  # that the base is at now
    branch_stays: str = ""  # why the change's own branch was not deleted; empty when it was


@asynccontextmanager
async def reviewing(change: Change, open_jail: OpenJail) -> AsyncIterator[Jail]:
    """A jail on the repository of a change, which must be of this machine."""
    path = parse_repo_url(change.repository).path
    if path is None:
        raise BadRequest(
            f"{change.repository} is not on this machine, and no pull request was opened for {change.branch} "
            "there. Open one there, or fetch the branch into a clone and merge it by hand."
        )
    async with open_jail(path) as jail:
        yield jail


async def diff(change: Change, open_jail: OpenJail) -> bytes:
    """The change as a patch."""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--find-renames", change.base_commit, change.commit)
    async with reviewing(change, open_jail) as jail:
        ran = await repository_git.run(jail, *words)
    if ran.truncated:
        raise LimitReached(
            f"The patch is larger than {MOST_OUTPUT_BYTES} bytes. Look at it in the repository: "
            f"git diff {change.base_commit[:12]} {change.commit[:12]}",
            limit="output_bytes",
        )
    return ran.stdout


async def objections(rows: Rows, change: Change, there: Collection[str] = ()) -> list[str]:
    """What speaks against merging a change: its tests, and who asked for changes and has not approved since.

    A later commit does not answer a request by itself: who asked for changes says whether it does. The agent,
    which never approves, does so by a later review that finds no blocker. `there` are the addresses of
    verdicts that count where they were posted, and not here: their authors may take them back there.
    """
    found = [f"its tests fail ({change.tests})"] if change.tests_fail else []
    last: dict[str, Review] = {}
    for given in await Reviews(rows).of_change(change.id):
        if given.verdict != "commented" or given.author == AGENT:
            last[given.author] = given
    asked = [given for given in last.values() if given.verdict == "changes_requested"]
    asked = [given for given in asked if given.author == AGENT or given.url not in there]
    names = {str(user.id): user.name for user in await Users(rows).list()} if asked else {}
    for given in asked:
        who = "the agent's review" if given.author == AGENT else names.get(given.author, given.author)
        what = one_line(given.title or given.body)[:SHOWN_LETTERS] if given.title or given.body else ""
        found.append(f"{who} asked for changes at {given.commit[:12]}" + (f": {what}" if what else ""))
    return found


async def must_be_fit(
    rows: Rows, change: Change, *, force: bool, also: Sequence[str] = (), there: Collection[str] = ()
) -> list[str]:
    """Refuse what something speaks against, unless somebody insists; what is overridden by that. `also` is
    what others object to where the change is, and `there` which verdicts count there."""
    found = [*await objections(rows, change, there), *also]
    if found and not force:
        raise Conflict(
            f"The change {change.id} is not merged: {'; '.join(found)}. Mend it and have it approved, or "
            f'merge it all the same: hutch changes merge {change.id} --force, or "force": true over the API.'
        )
    return found


async def merge(
    change: Change, open_jail: OpenJail, *, author: str, strategy: Strategy | None = None
) -> Merged:
    """Bring a change into its base branch, and delete its own when nothing is lost by that.

    Without a strategy, the base is moved forward if it can be, and gets a merge commit if not.
    """
    by_hand = f"Merge it where that is: git merge {change.branch}"
    if strategy == "rebase":
        raise BadRequest(
            "Only a pull request can be rebased; a change of this machine is merged as the commit that was "
            "tested. Choose fast-forward, merge or squash."
        )
    async with reviewing(change, open_jail) as jail:
        tip = await _tip(jail, change.base)
        out = await _checked_out(jail, change.base)
        if out == "elsewhere":
            raise Conflict(f"{change.base} is checked out in a linked worktree. {by_hand}")
        made = await _merged(jail, change, tip, strategy=strategy, author=author)
        if made == tip:  # somebody was here before: there is nothing to bring
            return Merged(tip, await _left(jail, change, strategy))
        if out == "nowhere":
            moved = await repository_git.attempt(jail, "update-ref", f"refs/heads/{change.base}", made, tip)
        else:  # people see it in their files too, unless it would run over what they have changed
            # In the directory of the repository, wherever core.worktree points.
            here = ("--git-dir=.git", "--work-tree=.")
            moved = await repository_git.attempt(jail, *here, "merge", "--ff-only", "--quiet", made)
        if moved.exit_code != 0:
            raise Conflict(f"{change.base} was left as it was. git says: {repository_git.said(moved)}")
        return Merged(made, await _left(jail, change, strategy))


async def _left(jail: Jail, change: Change, strategy: Strategy | None) -> str:
    """Delete the branch of a change that is merged; why it stays, if it does."""
    if strategy == "squash":  # its commit is in no other branch
        return f"{change.branch} stays as it is: git branch -D {change.branch}"
    try:
        await _delete(jail, change)
    except HutchError as error:  # it is merged all the same
        return str(error)
    return ""


async def delete_branch(change: Change, open_jail: OpenJail) -> None:
    """Delete the branch of a change, unless somebody has worked on it since; one that is gone is fine."""
    async with reviewing(change, open_jail) as jail:
        await _delete(jail, change)


async def _delete(jail: Jail, change: Change) -> None:
    ref = f"refs/heads/{change.branch}"
    found = await repository_git.attempt(jail, "rev-parse", "--verify", "--quiet", ref)
    if found.exit_code != 0:
        return
    if found.stdout.decode(errors="replace").strip() != change.commit:
        raise Conflict(
            f"{change.branch} has moved since it was proposed. Look at what is new there, then delete it "
            f"by hand: git branch -D {change.branch}"
        )
    if await _checked_out(jail, change.branch) != "nowhere":
        raise Conflict(f"{change.branch} is checked out. Switch to another branch there, and try again.")
    await repository_git.run(jail, "update-ref", "-d", ref, change.commit)


async def _checked_out(jail: Jail, branch: str) -> Literal["here", "elsewhere", "nowhere"]:
    """Where a branch lies in files: in the repository's own, in those of a linked worktree, or in none."""
    listed = (await repository_git.run(jail, "worktree", "list", "--porcelain")).stdout.decode(
        errors="replace"
    )
    for number, about in enumerate(listed.strip().split("\n\n")):
        lines = about.split("\n")
        if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
            return "elsewhere" if number else "here"
    return "nowhere"


async def _merged(jail: Jail, change: Change, tip: str, *, strategy: Strategy | None, author: str) -> str:
    squash = strategy == "squash"
    if await _is_there(jail, change) and await _contains(jail, tip, change.commit):
        return tip
    await _must_be_as_proposed(jail, change)
    if strategy in (None, "fast-forward"):
        if await _contains(jail, change.commit, tip):
            return change.commit
        if strategy == "fast-forward":
            raise Conflict(
                f"{change.base} has moved since {change.branch} began, so that it cannot be moved forward. "
                f"Merge or squash it."
            )
    merged = await repository_git.attempt(
        jail, "merge-tree", "--write-tree", "--name-only", "--no-messages", tip, change.commit
    )
    lines = merged.stdout.decode(errors="replace").split("\n")
    if merged.exit_code == 1:
        paths = [line for line in lines[1:] if line.strip()]
        more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
        raise MergeConflict(
            f"{change.branch} and {change.base} have both changed {', '.join(paths[:SHOWN_PATHS])}{more}. "
            f"Merge by hand, or run the task again on {change.base} as it is now.",
            paths=tuple(paths),
        )
    if merged.exit_code != 0:
        raise repository_git.failed("merge-tree", merged)
    if lines[0].strip() == await _tree(jail, tip):
        return tip  # all of it is there already, by other commits
    name, address = parse_author(author)
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
    who |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address}
    parents = ["-p", tip] if squash else ["-p", tip, "-p", change.commit]
    title = change.title if squash else f"Merge {change.branch}: {change.title}"
    said = message(title, change.body, change.session_id, change.run_id).encode(errors="replace")
    made = await repository_git.run(
        jail, "commit-tree", lines[0].strip(), *parents, "-F", "-", stdin=said, env=who
    )
    return repository_git.commit_id(made)


async def _contains(jail: Jail, commit: str, other: str) -> bool:
    found = await repository_git.attempt(jail, "merge-base", "--is-ancestor", other, commit)
    return found.exit_code == 0


async def _tree(jail: Jail, commit: str) -> str:
    found = await repository_git.run(jail, "rev-parse", "--verify", f"{commit}^{{tree}}")
    return found.stdout.decode(errors="replace").strip()


async def _is_there(jail: Jail, change: Change) -> bool:
    found = await repository_git.attempt(jail, "cat-file", "-e", f"{change.commit}^{{commit}}")
    return found.exit_code == 0


async def _must_be_as_proposed(jail: Jail, change: Change) -> None:
    """What is merged is what people have looked at: the commit that was proposed, last of its branch."""
    ref = f"refs/heads/{change.branch}"
    found = await repository_git.attempt(jail, "rev-parse", "--verify", "--quiet", ref)
    now = found.stdout.decode(errors="replace").strip() if found.exit_code == 0 else ""
    if not await _is_there(jail, change):
        raise NotFound(
            f"The commit {change.commit[:12]} of {change.branch} is gone from the repository"
            f"{', and so is the branch' if not now else ''}. Run the task again, or close the change."
        )
    if now and now != change.commit:
        raise Conflict(
            f"{change.branch} has moved since it was proposed: it is at {now[:12]}, what was proposed and "
            f"tested is {change.commit[:12]}. Merge what it holds now by hand: git merge {change.branch}. Or "
            f"put it back: git branch -f {change.branch} {change.commit[:12]}"
        )


async def _tip(jail: Jail, branch: str) -> str:
    found = await repository_git.attempt(
        jail, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}"
    )
    if found.exit_code != 0:
        raise NotFound(
            f"The repository has no branch '{branch}' to merge into. Merge by hand where you want."
        )
    return repository_git.commit_id(found)
