"""What was done in a workspace, put on a branch of the repository that it came from.

The commit is made here, of the snapshot on top of the commit that the workspace
began with, by a git that has never seen the workspace. A repository of this
machine gets it through a jail of its own: its hooks and settings are as little to
be trusted as its code.
"""

import re
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound, Unavailable
from hutch.domain.ids import new_change_id
from hutch.forge.git import Git
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.jail.seam import Finished, Jail
from hutch.workspace.workspace import Workspace

OpenJail = Callable[[Path], AbstractAsyncContextManager[Jail]]  # on a repository of this machine
BRANCHES = "hutch/"
TRIES = 20
SETTINGS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "safe.directory=*")
ENVIRONMENT = {"LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
NOWHERE = "0" * 40
COMMIT = re.compile(r"[0-9a-f]{40}")
AUTHOR = re.compile(r" *([^<>\x00-\x1f]*[^<>\x00-\x20]) *<([^<>\x00-\x20]+)> *")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MOST_PATCH_BYTES = 16 * 1024 * 1024
SHOWN_PATHS = 20


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is to be said about a change."""

    session_id: str
    run_id: str
    title: str
    summary: str
    tests: str
    author: str  # Name <address>
    branch: str | None = None


async def propose(
    workspace: Workspace, tree: str, proposal: Proposal, *, open_jail: OpenJail, address: str = ""
) -> Change | None:
    """Commit a snapshot's tree and push it as a new branch; None when it is what the branch began with.

    `address` is the repository as it was named, with the credentials that no record keeps.
    """
    record = workspace.record
    if record.commit is None or not record.source:
        raise BadRequest("This workspace came from no repository, so there is nowhere to deliver to.")
    remote = parse_repo_url(record.source)
    if remote.path is None and address and parse_repo_url(address).shown == remote.shown:
        remote = parse_repo_url(address)
    git_dir = workspace.snapshots.storage.git_dir
    began = await workspace.git.run("rev-parse", "--verify", f"{record.commit}^{{tree}}", git_dir=git_dir)
    if began.decode().strip() == tree:
        return None
    proposal = replace(proposal, title=one_line(proposal.title), summary=plain(proposal.summary))
    commit = await _commit(workspace, tree, record.commit, proposal)
    wanted = proposal.branch or BRANCHES + slug(proposal.title)
    if remote.path is not None:
        pack = await _pack(workspace.git, git_dir, commit, record.commit)
        async with open_jail(remote.path) as jail:
            branch = await _receive(jail, pack, commit, wanted)
    else:
        branch = await _push(workspace.git, git_dir, commit, wanted, remote)
    return Change(
        id=new_change_id(),
        session_id=proposal.session_id,
        run_id=proposal.run_id,
        repository=record.source,
        branch=branch,
        base=record.branch or "HEAD",
        base_commit=record.commit,
        commit=commit,
        title=proposal.title,
        body=proposal.summary,
        tests=proposal.tests,
        created_ms=time.time_ns() // 1_000_000,
    )


def slug(title: str) -> str:
    """A title as part of a branch's name."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:50].strip("-") or "change"


def one_line(title: str) -> str:
    """A title that is one line, whatever a model made of it."""
    return " ".join(CONTROL.sub("", title).split()) or "A change"


def plain(text: str) -> str:
    """A text of many lines without what drives terminals, or what git refuses in a message."""
    return CONTROL.sub("", text.replace("\r\n", "\n")).strip()


def message(title: str, body: str, session_id: str, run_id: str) -> str:
    """What a commit says: last, in a paragraph of its own, where it comes from."""
    parts = [title, body.strip(), f"Hutch-Session: {session_id}\nHutch-Run: {run_id}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def parse_author(text: str) -> tuple[str, str]:
    """The name and the address of an author."""
    found = AUTHOR.fullmatch(text)
    if not found:
        raise BadRequest(f"'{ascii(text)[1:-1]}' is no author. Write it as: Name <address>.")
    return found[1], found[2]


async def _commit(workspace: Workspace, tree: str, parent: str, proposal: Proposal) -> str:
    name, address = parse_author(proposal.author)
    said = message(proposal.title, proposal.summary, proposal.session_id, proposal.run_id)
    printed = await workspace.git.run(
        *("commit-tree", tree, "-p", parent, "-F", "-"),
        git_dir=workspace.snapshots.storage.git_dir,
        settings={"user.name": name, "user.email": address, "i18n.commitEncoding": "UTF-8"},
        stdin=said.encode(errors="replace"),
    )
    return printed.decode().strip()


async def _pack(git: Git, git_dir: Path, commit: str, base: str) -> bytes:
    return await git.run(
        *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
        git_dir=git_dir,
        stdin=f"{commit}\n^{base}\n".encode(),
    )


async def _receive(jail: Jail, pack: bytes, commit: str, wanted: str) -> str:
    """Put a commit into the repository that a jail is on, under the first name that is free."""
    await _git(jail, "index-pack", "--stdin", "--strict", stdin=pack)
    listed = await _git(jail, "for-each-ref", "--format=%(refname)", "refs/heads/")
    taken = {line.removeprefix("refs/heads/") for line in listed.stdout.decode(errors="replace").split("\n")}
    while branch := _free(wanted, taken):
        made = await _try(jail, "update-ref", f"refs/heads/{branch}", commit, NOWHERE)
        if made.exit_code == 0:
            return branch
        if b"already exists" not in made.stderr and b"cannot create" not in made.stderr:
            raise _failed("update-ref", made)
        taken.add(branch)  # somebody was faster
    raise _too_many(wanted)


async def _push(git: Git, git_dir: Path, commit: str, wanted: str, remote: RepoUrl) -> str:
    listed = await git.run("ls-remote", "--heads", "--", remote.shown, remote=remote)
    lines = listed.decode(errors="replace").splitlines()
    branch = _free(wanted, {line.partition("\trefs/heads/")[2] for line in lines})
    if branch is None:
        raise _too_many(wanted)
    ref = f"refs/heads/{branch}"
    words = ("push", f"--force-with-lease={ref}:", "--", remote.shown, f"{commit}:{ref}")  # only if it is new
    await git.run(*words, git_dir=git_dir, remote=remote)
    return branch


def _free(wanted: str, taken: Set[str]) -> str | None:
    """A name that no branch has; nor may one be a directory on the way to another."""
    above = {branch[:place] for branch in taken for place, letter in enumerate(branch) if letter == "/"}
    for name in (wanted, wanted.replace("/", "-")):
        parents = {name[:place] for place, letter in enumerate(name) if letter == "/"}
        if parents & taken:
            continue
        for number in range(1, TRIES + 1):
            branch = name if number == 1 else f"{name}-{number}"
            if branch not in taken and branch not in above:
                return branch
    return None


def _too_many(wanted: str) -> Conflict:
    return Conflict(f"There are {TRIES} branches named as '{wanted}' already. Delete some of them.")


@asynccontextmanager
async def reviewing(change: Change, open_jail: OpenJail) -> AsyncIterator[Jail]:
    """A jail on the repository of a change, which must be of this machine."""
    path = parse_repo_url(change.repository).path
    if path is None:
        raise BadRequest(f"{change.repository} is not on this machine. Review and merge the branch there.")
    async with open_jail(path) as jail:
        yield jail


async def diff(change: Change, open_jail: OpenJail) -> bytes:
    """The change as a patch."""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--find-renames", change.base_commit, change.commit)
    async with reviewing(change, open_jail) as jail:
        ran = await _git(jail, *words)
    if ran.truncated:
        raise LimitReached(
            f"The patch is larger than {MOST_PATCH_BYTES} bytes. Look at it in the repository: "
            f"git diff {change.base_commit[:12]} {change.commit[:12]}",
            limit="output_bytes",
        )
    return ran.stdout


async def merge(change: Change, open_jail: OpenJail, *, squash: bool, author: str) -> str:
    """Bring a change into its base branch; the commit that this is at afterwards."""
    by_hand = f"Merge it where that is: git merge {change.branch}"
    async with reviewing(change, open_jail) as jail:
        tip = await _tip(jail, change.base)
        out = await _checked_out(jail, change.base)
        if out == "elsewhere":
            raise Conflict(f"{change.base} is checked out in a linked worktree. {by_hand}")
        made = await _merged(jail, change, tip, squash=squash, author=author)
        if out == "nowhere":
            moved = await _try(jail, "update-ref", f"refs/heads/{change.base}", made, tip)
        else:  # people see it in their files too, unless it would run over what they have changed
            moved = await _try(jail, "merge", "--ff-only", "--quiet", made)
        if moved.exit_code != 0:
            raise Conflict(f"{change.base} was left as it was. git says: {_said(moved)}")
    return made


async def delete_branch(change: Change, open_jail: OpenJail) -> None:
    """Delete the branch of a change, unless somebody has worked on it since; one that is gone is fine."""
    ref = f"refs/heads/{change.branch}"
    async with reviewing(change, open_jail) as jail:
        found = await _try(jail, "rev-parse", "--verify", "--quiet", ref)
        if found.exit_code != 0:
            return
        if found.stdout.decode(errors="replace").strip() != change.commit:
            raise Conflict(
                f"{change.branch} has moved since it was proposed. Look at what is new there, then delete it "
                f"by hand: git branch -D {change.branch}"
            )
        if await _checked_out(jail, change.branch) != "nowhere":
            raise Conflict(f"{change.branch} is checked out. Switch to another branch there, and try again.")
        await _git(jail, "update-ref", "-d", ref, change.commit)


async def _checked_out(jail: Jail, branch: str) -> Literal["here", "elsewhere", "nowhere"]:
    """Where a branch lies in files: in the repository's own, in those of a linked worktree, or in none."""
    listed = (await _git(jail, "worktree", "list", "--porcelain")).stdout.decode(errors="replace")
    for number, about in enumerate(listed.strip().split("\n\n")):
        lines = about.split("\n")
        if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
            return "elsewhere" if number else "here"
    return "nowhere"


async def _merged(jail: Jail, change: Change, tip: str, *, squash: bool, author: str) -> str:
    ancestor = await _try(jail, "merge-base", "--is-ancestor", tip, change.commit)
    if ancestor.exit_code == 0 and not squash:
        return change.commit
    merged = await _try(
        jail, "merge-tree", "--write-tree", "--name-only", "--no-messages", tip, change.commit
    )
    lines = merged.stdout.decode(errors="replace").split("\n")
    if merged.exit_code == 1:
        paths = [line for line in lines[1:] if line.strip()]
        more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
        raise Conflict(
            f"{change.branch} and {change.base} have both changed {', '.join(paths[:SHOWN_PATHS])}{more}. "
            f"Merge by hand, or run the task again on {change.base} as it is now."
        )
    if merged.exit_code != 0:
        raise _failed("merge-tree", merged)
    name, address = parse_author(author)
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
    who |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address}
    parents = ["-p", tip] if squash else ["-p", tip, "-p", change.commit]
    title = change.title if squash else f"Merge {change.branch}: {change.title}"
    said = message(title, change.body, change.session_id, change.run_id).encode(errors="replace")
    made = await _git(jail, "commit-tree", lines[0].strip(), *parents, "-F", "-", stdin=said, env=who)
    return _id(made)


async def _tip(jail: Jail, branch: str) -> str:
    found = await _try(jail, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
    if found.exit_code != 0:
        raise NotFound(
            f"The repository has no branch '{branch}' to merge into. Merge by hand where you want."
        )
    return _id(found)


def _id(ran: Finished) -> str:
    told = ran.stdout.decode(errors="replace").strip()
    if not COMMIT.fullmatch(told):
        raise Unavailable(f"git in the repository named no commit: '{ascii(told[:100])[1:-1]}'.")
    return told


async def _git(
    jail: Jail, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> Finished:
    ran = await _try(jail, *words, stdin=stdin, env=env)
    if ran.exit_code != 0:
        raise _failed(words[0], ran)
    return ran


async def _try(
    jail: Jail, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> Finished:
    return await jail.run(
        ["git", *SETTINGS, *words],
        stdin=stdin,
        timeout_s=300,
        env={**ENVIRONMENT, **(env or {})},
        limits=replace(jail.policy.limits, output_bytes=MOST_PATCH_BYTES),
    )


def _failed(command: str, ran: Finished) -> Unavailable:
    return Unavailable(f"git {command} failed in the repository: {_said(ran)}")


def _said(ran: Finished) -> str:
    said = plain(ran.stderr.decode(errors="replace"))[-1000:]
    return said or f"exit code {ran.exit_code}"
