"""Jails on local repositories, to run git in."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.forge.local_repository_jailed_git import MAX_OUTPUT_BYTES, GitResult, RunGit
from hutch.jail.interface import Jail
from hutch.jail.policy import Policy
from hutch.workspace.admission.jail_on_checked_directory import open_checked_jail
from hutch.workspace.admission.local_repository_access import Repositories

GIT_TIMEOUT_S = 300
BuildPolicy = Callable[[], Policy]  # of a jail by the settings


@asynccontextmanager
async def open_repository_jail(
    repositories: Repositories, build_policy: BuildPolicy, path: Path, unrestricted: bool = True
) -> AsyncIterator[Jail]:
    """Open a jail without network on a local repository, to run git in.

    A linked worktree has its branches in the main repository, so the jail is on that. Without
    `unrestricted`, members must be allowed to name the repository. No link in the path is followed: there was
    none when the work started.
    """
    gone = NotFound(f"The repository at '{path}' no longer exists.")
    async with AsyncExitStack() as stack:
        try:
            opening = repositories.open(path, unrestricted=unrestricted)
            pinned = await stack.enter_async_context(opening)
        except NotFound:
            raise gone from None
        if pinned.layout is None:
            raise gone
        policy = replace(build_policy(), network=(), environment=(), readonly=())
        async with open_checked_jail(await asyncio.to_thread(pinned.main), policy, repositories.own) as jail:
            yield jail


@asynccontextmanager
async def open_git(
    repositories: Repositories, build_policy: BuildPolicy, path: Path, unrestricted: bool
) -> AsyncIterator[RunGit]:
    """Yield a function that runs git in such a jail."""
    async with open_repository_jail(repositories, build_policy, path, unrestricted) as jail:
        limits = replace(jail.policy.limits, output_bytes=MAX_OUTPUT_BYTES)

        async def run(words: Sequence[str], stdin: bytes | None, env: Mapping[str, str]) -> GitResult:
            command = ["git", *words]
            ran = await jail.run(command, stdin=stdin, timeout_s=GIT_TIMEOUT_S, env=env, limits=limits)
            return GitResult(ran.exit_code, ran.stdout, ran.stderr, ran.truncated)

        yield run
