"""Workspaces of an installation: prepared, opened, forked and removed."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from hutch.app import models
from hutch.app.repositories import repositories_of
from hutch.domain.errors import NotFound
from hutch.forge.git import Git
from hutch.forge.progress import OnProgress
from hutch.forge.repo_url import RepoUrl
from hutch.settings import Loaded, user_environment
from hutch.workspace.fork import fork
from hutch.workspace.prepare.fill import Options
from hutch.workspace.prepare.in_place import IN_PLACE, open_in_place
from hutch.workspace.prepare.overlay import open_place
from hutch.workspace.prepare.prepare import prepare
from hutch.workspace.prepare.record import Home, Record
from hutch.workspace.prepare.removal import collect, remove_workspace, sweep
from hutch.workspace.workspace import Keep, Workspace, use

SESSION_PART = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")


def host_git() -> Git:
    """The host's git; to the network with the account's own credentials, where an address allows that."""
    return Git(user_environment())


def home_of(loaded: Loaded) -> Home:
    return Home(loaded.paths.data)


async def prepare_workspace(
    loaded: Loaded,
    source: RepoUrl,
    *,
    id: str | None = None,
    revision: str | None = None,
    uncommitted: bool = False,
    plain: bool = False,
    on_progress: OnProgress | None = None,
) -> Record:
    """Make a workspace of a directory or an address, from `forges.reachable`; then drop what is too old.

    `plain` says that it may be a directory without git, which is copied whole.
    """
    home, settings = home_of(loaded), loaded.settings.workspace
    await asyncio.to_thread(home.make)
    options = Options(
        mode=settings.mode,
        storage=settings.storage,
        quota_bytes=settings.quota_bytes,
        quota_files=settings.quota_files,
    )
    pin = partial(repositories_of(loaded).pin, anywhere=source.account, plain=plain)
    record = await prepare(
        home,
        id or new_name(source.name),
        source,
        git=replace(host_git(), file_bytes=int(settings.bases_bytes)),
        revision=revision,
        uncommitted=uncommitted,
        options=options,
        on_progress=on_progress,
        pin=pin,
    )
    await collect_bases(loaded)
    return record


async def collect_bases(loaded: Loaded) -> None:
    """Drop copies of repositories that are too old or too many, and what dead processes left."""
    home, settings = home_of(loaded), loaded.settings.workspace
    await asyncio.to_thread(sweep, home)
    await asyncio.to_thread(
        collect, home, most_bytes=settings.bases_bytes, most_days=float(settings.bases_days)
    )


async def prepare_empty(loaded: Loaded, *, id: str | None = None) -> Record:
    """A workspace with nothing in it."""
    home, settings = home_of(loaded), loaded.settings.workspace
    await asyncio.to_thread(home.make)
    options = Options(quota_bytes=settings.quota_bytes, quota_files=settings.quota_files)
    return await prepare(home, id or new_name("empty"), {}, git=host_git(), options=options)


@asynccontextmanager
async def open_workspace(loaded: Loaded, id: str) -> AsyncIterator[Workspace]:
    """A workspace by its id, for this process alone."""
    home, clean = home_of(loaded), models.redactor(loaded).clean
    opened = await open_place(home, id)
    async with use(
        home, opened, home.workspace(id), host_git(), keep=_keep(loaded), clean=clean
    ) as workspace:
        yield workspace


@asynccontextmanager
async def open_directory(loaded: Loaded, directory: Path) -> AsyncIterator[Workspace]:
    """A person's own directory, worked on in place."""
    home, settings = home_of(loaded), loaded.settings.workspace
    await asyncio.to_thread(home.make)
    opened, place = await open_in_place(
        home, directory, quota_bytes=settings.quota_bytes, quota_files=settings.quota_files
    )
    clean = models.redactor(loaded).clean
    async with use(home, opened, place, host_git(), keep=_keep(loaded), clean=clean) as workspace:
        yield workspace


def _keep(loaded: Loaded) -> Keep:
    settings = loaded.settings.workspace
    return Keep(snapshots=settings.snapshots, bytes=settings.snapshots_bytes)


async def fork_workspace(workspace: Workspace, number: int, id: str | None = None) -> Record:
    """A new workspace as this one was in a snapshot."""
    record = workspace.record
    about = Path(record.source or "").name if record.mode_reason == IN_PLACE else record.id.rsplit("-", 1)[0]
    return await fork(workspace, number, id or new_name(about))


async def list_workspaces(loaded: Loaded) -> list[Record]:
    return await asyncio.to_thread(home_of(loaded).records)


async def remove(loaded: Loaded, id: str) -> None:
    """Remove a workspace with its snapshots."""
    home = home_of(loaded)
    if not home.workspace(id).exists():
        known = [record.id for record in await list_workspaces(loaded)]
        raise NotFound(f"There is no workspace '{id}'. There are: {', '.join(known) or 'none'}.")
    await remove_workspace(home, id)


async def find(loaded: Loaded, id: str) -> Record | None:
    """A workspace that may have been made already."""
    try:
        return await asyncio.to_thread(Record.read, home_of(loaded).workspace(id))
    except NotFound:
        return None


def session_name(session_id: str) -> str:
    """The id of the workspace of a server's session, which is the same after a crash."""
    return f"session-{session_id.removeprefix('ses_')}"


def session_of(id: str) -> str:
    """The session that a workspace was made for; empty when it was for none."""
    kind, _, rest = id.partition("-")
    return f"ses_{rest}" if kind == "session" and SESSION_PART.fullmatch(rest) else ""


def new_name(about: str) -> str:
    """An id that tells people what it is of."""
    words = re.sub(r"[^a-zA-Z0-9]+", "-", about).strip("-").lower()[:40] or "workspace"
    return f"{words}-{secrets.token_hex(3)}"
