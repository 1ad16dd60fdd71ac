"""Git on a repository of this machine, inside a jail: its settings and hooks act in there."""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.domain.words import last_words
from hutch.flows.commit_text import plain
from hutch.jail.seam import Finished, Jail

OpenJail = Callable[[Path], AbstractAsyncContextManager[Jail]]  # on a repository of this machine
SETTINGS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "safe.directory=*")
ENVIRONMENT = {"LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_OUTPUT_BYTES = 16 * 1024 * 1024


def commit_id(ran: Finished) -> str:
    """The commit that git has printed."""
    told = ran.stdout.decode(errors="replace").strip()
    if not COMMIT.fullmatch(told):
        raise Unavailable(f"git in the repository named no commit: '{ascii(told[:100])[1:-1]}'.")
    return told


async def run(
    jail: Jail, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> Finished:
    """Let git do something that must succeed."""
    ran = await attempt(jail, *words, stdin=stdin, env=env)
    if ran.exit_code != 0:
        raise failed(words[0], ran)
    return ran


async def attempt(
    jail: Jail, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
) -> Finished:
    """Let git do something, and see what came of it."""
    return await jail.run(
        ["git", *SETTINGS, *words],
        stdin=stdin,
        timeout_s=300,
        env={**ENVIRONMENT, **(env or {})},
        limits=replace(jail.policy.limits, output_bytes=MOST_OUTPUT_BYTES),
    )


def failed(command: str, ran: Finished) -> Unavailable:
    return Unavailable(f"git {command} failed in the repository: {said(ran)}")


def said(ran: Finished) -> str:
    """Why git failed, by its own words."""
    told = last_words(plain(ran.stderr.decode(errors="replace")), 1000)
    return told or f"exit code {ran.exit_code}"
