"""Fixtures for tests of delivery: a home, a workspace of a repository, and a change from it."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.app.forges import forges_of
from hutch.domain.proposed_change import Change
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.delivery.snapshot_commit_and_proposal import Proposal, propose
from hutch.forge.forge_and_credential_selection import COMMAND_LINE
from hutch.forge.host_git import Git
from hutch.forge.interface import Forge, Merge, MergeResult, Objections, Strategy
from hutch.forge.repo_url import parse_repo_url
from hutch.settings import LoadedSettings, load
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import Workspace
from tests.forge.repositories import commit, git, make_repository

HOST = Git({"PATH": os.defpath})
ADA = "Ada Lovelace <ada@example.org>"
MORE = {"src/main.py": "print('hello, world')\n"}
FILES = {"README.md": "# A project\n", "src/main.py": "print('hello')\n"}
PROPOSAL = Proposal(
    session_id="ses_1", run_id="run_1", title="Say more", summary="It greets.", tests="1 passed", author=ADA
)


class Delivering:
    """A home of Hutch, from which changes are delivered."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory / "home" / "data")
        self.loaded: LoadedSettings = load(
            environ={"HUTCH_HOME": str(directory / "home"), "PATH": os.defpath}
        )
        self._count = 0

    async def forge(self, source: str | Path) -> Forge:
        """The forge of a repository, as a command opens it."""
        return await forges_of(self.loaded).for_delivery(str(source), str(source), COMMAND_LINE)

    @asynccontextmanager
    async def workspace(
        self, source: str | Mapping[str, bytes], revision: str | None = None
    ) -> AsyncIterator[Workspace]:
        self._count += 1
        name = f"ws{self._count}"
        files = {} if isinstance(source, str) else {path: StarterFile(source[path]) for path in source}
        wanted = parse_repo_url(source) if isinstance(source, str) else files
        await prepare(self.home, name, wanted, git=HOST, revision=revision)
        opened = await open_workspace(self.home, name)
        async with open_mounted(self.home, opened, self.home.workspace(name), HOST) as workspace:
            yield workspace

    async def change(
        self,
        source: str | Path,
        files: Mapping[str, str],
        proposal: Proposal = PROPOSAL,
        *,
        revision: str | None = None,
    ) -> Change | None:
        """Write these files in a new workspace, and propose that."""
        async with self.workspace(str(source), revision) as workspace:
            for path, text in files.items():
                await workspace.write(path, text.encode())
            snapshot = await workspace.snapshot("done")
            return await propose(workspace, snapshot, proposal, forge=await self.forge(source))

    async def merge(self, change: Change, *, strategy: Strategy | None = None) -> MergeResult:

        async def consent(objections: Objections) -> None:
            assert objections == Objections()

        return await self.local(change).merge(change, Merge(ADA, strategy, consent))

    def local(self, change: Change) -> Forge:
        return forges_of(self.loaded).for_change(change, unrestricted=True)


def bare(place: Path, *, branch: str = "main", name: str = "origin.git") -> Path:
    make_repository(place / "made", FILES, branch=branch)
    git(place, "clone", "--quiet", "--bare", str(place / "made"), name)
    return place / name


def push(place: Path, repository: Path, files: dict[str, str], branch: str = "main") -> str:
    """Another author's commit on a branch."""
    made = commit(place / "made", files, "by somebody else")
    git(place / "made", "push", "--quiet", str(repository), f"HEAD:{branch}")
    return made


async def made(hutch: Delivering, source: str | Path, **given: str) -> Change:
    change = await hutch.change(source, MORE, replace(PROPOSAL, **given))
    assert change is not None
    return change


def tip(repository: Path, branch: str) -> str:
    return git(repository, "rev-parse", f"refs/heads/{branch}")


def branches(repository: Path) -> list[str]:
    return git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
