"""Jails on local repositories, to run git in."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.app import jails
from hutch.app.allowed_repositories import repositories_of
from hutch.domain.errors import NotFound
from hutch.forge.jailed_git import MAX_OUTPUT_BYTES, GitResult, RunGit
from hutch.jail.interface import Jail
from hutch.settings import LoadedSettings

GIT_TIMEOUT_S = 300


@asynccontextmanager
async def repository_jail(
    loaded: LoadedSettings, path: Path, *, unrestricted: bool = True
) -> AsyncIterator[Jail]:
    """Open a jail without network on a local repository, to run git in.

    A linked worktree has its branches in the main repository, so the jail is on that. Without
    `unrestricted`, members must be allowed to name the repository. No link in the path is followed: there was
    none when the work started.
    """
    gone = NotFound(f"The repository at '{path}' no longer exists.")
    async with AsyncExitStack() as stack:
        try:
            opening = repositories_of(loaded).open(path, unrestricted=unrestricted)
            pinned = await stack.enter_async_context(opening)
        except NotFound:
            raise gone from None
        if pinned.layout is None:
            raise gone
        policy = replace(jails.jail_policy(loaded.settings), network=())
        async with jails.open_jail(await asyncio.to_thread(pinned.main), policy) as jail:
            yield jail


@asynccontextmanager
async def open_git(loaded: LoadedSettings, path: Path, unrestricted: bool) -> AsyncIterator[RunGit]:
    """Yield a function that runs git in such a jail."""
    async with repository_jail(loaded, path, unrestricted=unrestricted) as jail:
        limits = replace(jail.policy.limits, output_bytes=MAX_OUTPUT_BYTES)

        async def run(words: Sequence[str], stdin: bytes | None, env: Mapping[str, str]) -> GitResult:
            command = ["git", *words]
            ran = await jail.run(command, stdin=stdin, timeout_s=GIT_TIMEOUT_S, env=env, limits=limits)
            return GitResult(ran.exit_code, ran.stdout, ran.stderr, ran.truncated)

        yield run
