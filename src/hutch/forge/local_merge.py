"""Merges a change in a repository on this machine, and deletes its branch."""

from typing import Literal

from hutch.domain.commit_text import commit_message, parse_author
from hutch.domain.errors import BadRequest, Conflict, HutchError, MergeConflict, NotFound
from hutch.domain.proposed_change import Change
from hutch.forge import local_repository_jailed_git as jailed_git
from hutch.forge.interface import MergeResult, Strategy
from hutch.forge.local_repository_jailed_git import RunGit

MAX_PATHS = 20


def check_strategy(strategy: Strategy | None) -> None:
    if strategy == "rebase":
        raise BadRequest(
            "Only a pull request can be rebased. A change on this machine is merged as the commit that was "
            "tested. Choose fast-forward, merge or squash."
        )


async def merge(git: RunGit, change: Change, *, author: str, strategy: Strategy | None) -> MergeResult:
    """Merge a change into its base branch and delete its own branch if no commit is lost.

    Without a strategy, the base is fast-forwarded if possible, and gets a merge commit otherwise.
    """
    if change.base == "HEAD":
        raise NotFound(
            f"The change {change.id} began at a commit without a branch (a detached HEAD), so there is no "
            "branch to merge it into. Check out the branch that should get it, then: "
            f"git merge {change.branch}"
        )
    tip = await _tip(git, change.base)
    out = await _checked_out(git, change.base)
    if out == "elsewhere":
        by_hand = f"Merge it there: git merge {change.branch}"
        raise Conflict(f"{change.base} is checked out in a linked worktree. {by_hand}")
    made = await _make_merge(git, change, tip, strategy=strategy, author=author)
    if made == tip:  # already merged
        return MergeResult(tip, await _delete_merged_branch(git, change, strategy))
    await advance_branch(git, change.base, made, tip)
    return MergeResult(made, await _delete_merged_branch(git, change, strategy))


async def advance_branch(git: RunGit, branch: str, commit: str, tip: str) -> None:
    """Move a branch that is at `tip` to a commit on top of it, with the files where it is checked out."""
    out = await _checked_out(git, branch)
    if out == "elsewhere":
        raise Conflict(f"{branch} is checked out in a linked worktree. Switch to another branch there.")
    if out == "nowhere":
        moved = await jailed_git.run_unchecked(git, "update-ref", f"refs/heads/{branch}", commit, tip)
    else:  # this updates the checked-out files too, and fails if it would overwrite changes
        # In the directory of the repository, whatever core.worktree says.
        here = ("--git-dir=.git", "--work-tree=.")
        moved = await jailed_git.run_unchecked(git, *here, "merge", "--ff-only", "--quiet", commit)
    if moved.exit_code != 0:
        raise Conflict(f"{branch} was not changed. git says: {jailed_git.failure_reason(moved)}")


async def _delete_merged_branch(git: RunGit, change: Change, strategy: Strategy | None) -> str:
    """Delete the branch of a merged change. Returns why it was not deleted, if so."""
    if strategy == "squash":  # its commit is in no other branch
        return f"{change.branch} was not deleted. Delete it: git branch -D {change.branch}"
    try:
        await delete_branch(git, change)
    except HutchError as error:  # it is merged nevertheless
        return str(error)
    return ""


async def delete_branch(git: RunGit, change: Change) -> None:
    """Delete the branch of a change, unless it has new commits. It may already be deleted."""
    ref = f"refs/heads/{change.branch}"
    found = await jailed_git.run_unchecked(git, "rev-parse", "--verify", "--quiet", ref)
    if found.exit_code != 0:
        return
    if found.stdout.decode(errors="replace").strip() != change.commit:
        raise Conflict(
            f"{change.branch} has moved since it was proposed. Check its new commits, then delete it "
            f"by hand: git branch -D {change.branch}"
        )
    if await _checked_out(git, change.branch) != "nowhere":
        raise Conflict(f"{change.branch} is checked out. Switch to another branch there and retry.")
    await jailed_git.run(git, "update-ref", "-d", ref, change.commit)


async def _checked_out(git: RunGit, branch: str) -> Literal["here", "elsewhere", "nowhere"]:
    """Where a branch is checked out: in the repository, in a linked worktree, or nowhere."""
    listed = (await jailed_git.run(git, "worktree", "list", "--porcelain")).stdout.decode(errors="replace")
    for number, about in enumerate(listed.strip().split("\n\n")):
        lines = about.split("\n")
        if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
            return "elsewhere" if number else "here"
    return "nowhere"


async def _make_merge(
    git: RunGit, change: Change, tip: str, *, strategy: Strategy | None, author: str
) -> str:
    squash = strategy == "squash"
    if await _has_commit(git, change) and await _contains(git, tip, change.commit):
        return tip
    await _check_as_proposed(git, change)
    if strategy in (None, "fast-forward"):
        if await _contains(git, change.commit, tip):
            return change.commit
        if strategy == "fast-forward":
            raise Conflict(
                f"{change.base} has new commits since {change.branch} started, so it cannot be "
                "fast-forwarded. Choose merge or squash."
            )
    merged = await jailed_git.run_unchecked(
        git, "merge-tree", "--write-tree", "--name-only", "--no-messages", tip, change.commit
    )
    lines = merged.stdout.decode(errors="replace").split("\n")
    if merged.exit_code == 1:
        paths = [line for line in lines[1:] if line.strip()]
        more = f" and {len(paths) - MAX_PATHS} more" if len(paths) > MAX_PATHS else ""
        raise MergeConflict(
            f"{change.branch} and {change.base} have both changed {', '.join(paths[:MAX_PATHS])}{more}. "
            f"Merge by hand, or run the task again on {change.base} as it is now.",
            paths=tuple(paths),
        )
    if merged.exit_code != 0:
        raise jailed_git.to_error("merge-tree", merged)
    if lines[0].strip() == await _tree(git, tip):
        return tip  # already merged by other commits
    name, address = parse_author(author)
    identity = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
    identity |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address}
    parents = ["-p", tip] if squash else ["-p", tip, "-p", change.commit]
    title = change.title if squash else f"Merge {change.branch}: {change.title}"
    text = commit_message(title, change.body, change.session_id, change.run_id).encode(errors="replace")
    made = await jailed_git.run(
        git, "commit-tree", lines[0].strip(), *parents, "-F", "-", stdin=text, env=identity
    )
    return jailed_git.commit_id(made)


async def _contains(git: RunGit, commit: str, other: str) -> bool:
    found = await jailed_git.run_unchecked(git, "merge-base", "--is-ancestor", other, commit)
    return found.exit_code == 0


async def _tree(git: RunGit, commit: str) -> str:
    found = await jailed_git.run(git, "rev-parse", "--verify", f"{commit}^{{tree}}")
    return found.stdout.decode(errors="replace").strip()


async def _has_commit(git: RunGit, change: Change) -> bool:
    found = await jailed_git.run_unchecked(git, "cat-file", "-e", f"{change.commit}^{{commit}}")
    return found.exit_code == 0


async def _check_as_proposed(git: RunGit, change: Change) -> None:
    """Raise an error unless the branch is at the commit that was proposed and reviewed."""
    ref = f"refs/heads/{change.branch}"
    found = await jailed_git.run_unchecked(git, "rev-parse", "--verify", "--quiet", ref)
    now = found.stdout.decode(errors="replace").strip() if found.exit_code == 0 else ""
    if not await _has_commit(git, change):
        raise NotFound(
            f"The commit {change.commit[:12]} of {change.branch} is gone from the repository"
            f"{', and so is the branch' if not now else ''}. Run the task again, or close the change."
        )
    if now and now != change.commit:
        raise Conflict(
            f"{change.branch} has moved since it was proposed: it is at {now[:12]}, but {change.commit[:12]} "
            f"was proposed and tested. Merge the new state by hand: git merge {change.branch}. Or reset the "
            f"branch: git branch -f {change.branch} {change.commit[:12]}"
        )


async def _tip(git: RunGit, branch: str) -> str:
    found = await jailed_git.run_unchecked(
        git, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}"
    )
    if found.exit_code != 0:
        raise NotFound(
            f"The repository has no branch '{branch}' to merge into. Merge by hand where you want."
        )
    return jailed_git.commit_id(found)
