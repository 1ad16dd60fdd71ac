"""One file of a branch in a repository of this machine: read, and changed by a commit.

Everything runs in the jail of the repository. The branch moves only if it is still where it was read.
"""

from hutch.domain.commit_text import parse_author
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.one_line_text import echo
from hutch.forge import local_repository_jailed_git as jailed_git
from hutch.forge.local_merge import advance_branch
from hutch.forge.local_repository_jailed_git import RunGit
from hutch.system.lazy_dataclass import dataclass

INDEX = {"GIT_INDEX_FILE": "/tmp/hutch-index"}  # private to the jail
FILE_MODES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class BranchFile:
    """A file at the tip of a branch; `content` is None if there is none."""

    branch: str
    tip: str
    path: str
    content: bytes | None
    mode: str = "100644"


async def current_branch(git: RunGit) -> str:
    """The branch that HEAD names."""
    found = await jailed_git.run_unchecked(git, "symbolic-ref", "--quiet", "--short", "HEAD")
    if found.exit_code != 0:
        raise BadRequest("The repository is not on a branch. Name one.")
    return found.stdout.decode(errors="replace").strip()


async def read_branch_file(git: RunGit, branch: str, path: str) -> BranchFile:
    """The file at the tip of a branch. Links and directories are refused."""
    valid = await jailed_git.run_unchecked(git, "check-ref-format", "--branch", branch)
    ref = f"refs/heads/{branch}"
    found = await jailed_git.run_unchecked(git, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if valid.exit_code != 0 or found.exit_code != 0:
        raise NotFound(f"The repository has no branch {echo(branch)}.")
    tip = jailed_git.commit_id(found)
    listed = await jailed_git.run(git, "ls-tree", "-z", tip, "--", path)
    entry = listed.stdout.rstrip(b"\0").decode(errors="replace")
    if not entry:
        return BranchFile(branch, tip, path, None)
    mode, _, rest = entry.partition(" ")
    if mode not in FILE_MODES:
        raise BadRequest(f"{echo(path)} is not a file on the branch {echo(branch)}.")
    blob = await jailed_git.run(git, "cat-file", "blob", rest.split()[1])
    if blob.truncated:
        raise BadRequest(f"{echo(path)} is too large.")
    return BranchFile(branch, tip, path, blob.stdout, mode)


async def commit_file(git: RunGit, file: BranchFile, content: bytes, *, message: str, author: str) -> str:
    """A commit on top of the file's branch in which the file has this content. No branch moves."""
    blob = jailed_git.commit_id(await jailed_git.run(git, "hash-object", "-w", "--stdin", stdin=content))
    # One process each: the index is a file of the jail.
    await jailed_git.run(git, "read-tree", file.tip, env=INDEX)
    entry = f"{file.mode},{blob},{file.path}"
    added = await jailed_git.run_unchecked(git, "update-index", "--add", "--cacheinfo", entry, env=INDEX)
    if added.exit_code != 0:
        raise BadRequest(f"{echo(file.path)} cannot be written: {jailed_git.failure_reason(added)}")
    tree = jailed_git.commit_id(await jailed_git.run(git, "write-tree", env=INDEX))
    name, address = parse_author(author)
    identity = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
    identity |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address}
    made = await jailed_git.run(
        git, "commit-tree", tree, "-p", file.tip, "-F", "-", stdin=message.encode(), env=identity
    )
    return jailed_git.commit_id(made)


async def move_branch(git: RunGit, file: BranchFile, commit: str) -> None:
    """Move the branch of a file to a commit on top of it, with its checked-out files."""
    await advance_branch(git, file.branch, commit, file.tip)


async def set_branch(git: RunGit, branch: str, commit: str, old: str) -> None:
    """Create a branch, or move one that is still at `old`; an empty text for a new one."""
    ref = f"refs/heads/{branch}"
    moved = await jailed_git.run_unchecked(git, "update-ref", ref, commit, old or "0" * 40)
    if moved.exit_code != 0:
        raise Conflict(f"{branch} was not changed. git says: {jailed_git.failure_reason(moved)}")


async def branch_tip(git: RunGit, branch: str) -> str:
    """The commit of a branch; empty if there is none."""
    ref = f"refs/heads/{branch}^{{commit}}"
    found = await jailed_git.run_unchecked(git, "rev-parse", "--verify", "--quiet", ref)
    return jailed_git.commit_id(found) if found.exit_code == 0 else ""
