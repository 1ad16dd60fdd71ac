"""Runs git on a repository of this machine inside a jail, which contains its hooks and settings."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from hutch.domain.commit_text import strip_controls
from hutch.domain.errors import Unavailable
from hutch.domain.truncation_before_redaction import last_words
from hutch.system.lazy_dataclass import dataclass

SETTINGS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "safe.directory=*")
ENVIRONMENT = {"LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_OUTPUT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitResult:
    """A git command that has ended."""

    exit_code: int | None  # None when a signal ended it
    stdout: bytes
    stderr: bytes
    truncated: bool  # it printed more than MAX_OUTPUT_BYTES


RunGit = Callable[[Sequence[str], bytes | None, Mapping[str, str]], Awaitable[GitResult]]  # words, stdin, env
# Opens git for a repository, in a jail without network. The flag lifts the limit to repositories that members
# may name.
OpenGit = Callable[[Path, bool], AbstractAsyncContextManager[RunGit]]


def commit_id(ran: GitResult) -> str:
    """The commit id that git printed."""
    printed = ran.stdout.decode(errors="replace").strip()
    if not COMMIT.fullmatch(printed):
        raise Unavailable(f"git printed no commit id: '{ascii(printed[:100])[1:-1]}'.")
    return printed


async def run(
    git: RunGit, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> GitResult:
    """Run a git command that must succeed."""
    ran = await run_unchecked(git, *words, stdin=stdin, env=env)
    if ran.exit_code != 0:
        raise to_error(words[0], ran)
    return ran


async def run_unchecked(
    git: RunGit, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> GitResult:
    return await git([*SETTINGS, *words], stdin, {**ENVIRONMENT, **(env or {})})


def to_error(command: str, ran: GitResult) -> Unavailable:
    return Unavailable(f"git {command} failed in the repository: {failure_reason(ran)}")


def failure_reason(ran: GitResult) -> str:
    """The end of git's standard error."""
    printed = last_words(strip_controls(ran.stderr.decode(errors="replace")), 1000)
    return printed or f"exit code {ran.exit_code}"
