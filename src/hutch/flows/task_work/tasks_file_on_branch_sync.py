"""Keeps a TASKS.md on a branch of a local repository in step with the tasks, by commits or by a change.

With commits, the branch has the text of the last sync, and what people commit to it later is what they
changed. With a change, the branch stays behind until the change is merged; so what people changed is merged
into the text of the change first.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from hutch.domain.commit_text import DEFAULT_AUTHOR
from hutch.domain.errors import BadRequest, Conflict, HutchError
from hutch.domain.ids import new_change_id
from hutch.domain.one_line_text import echo
from hutch.domain.proposed_change import Change
from hutch.domain.relative_path import parse_path
from hutch.domain.tasks_file_on_branch import TasksFileMode, TasksFileOnBranch
from hutch.domain.user import Caller
from hutch.edit.text_merge import Labels, merge_texts
from hutch.flows.task_work.task_work_services import TaskWorkServices
from hutch.flows.tasks.task_requests import (
    TaskServices,
    check_reader,
    check_repository,
    check_writer,
    task_repository,
    viewer_of,
)
from hutch.flows.tasks.tasks_file_sync_and_import import MAX_FILE_CHARS, sync_text
from hutch.flows.tasks_file.file_and_stored_task_merge import SyncOutcome
from hutch.flows.tasks_file.sync_commit_message import sync_message
from hutch.forge.local_branch_file import (
    BranchFile,
    branch_tip,
    commit_file,
    current_branch,
    move_branch,
    read_branch_file,
    set_branch,
)
from hutch.forge.local_repository_jailed_git import RunGit
from hutch.store.proposed_changes import Changes
from hutch.store.tasks_files_on_branches import TasksFiles
from hutch.system.clock_without_jumps import wall_ms

DEFAULT_PATH = "docs/TASKS.md"
CHANGE_BRANCH = "hutch/tasks"
INTERVAL_S = 2.0
ALL_EVERY = 15  # rounds
logger = structlog.get_logger()


async def connect_file(
    work: TaskWorkServices,
    services: TaskServices,
    who: Caller,
    *,
    repository: str,
    branch: str = "",
    path: str = "",
    mode: TasksFileMode = "commit",
    allow_removals: bool = False,
) -> tuple[TasksFileOnBranch, SyncOutcome]:
    """Sync the file of a branch from now on, and at once."""
    check_writer(who)
    check_repository(services, who, name := task_repository(repository))
    if not name.startswith("/"):
        raise BadRequest(
            f"{echo(repository)} is not a directory on the server. The server syncs only branches of "
            "such repositories. Sync the file of a clone with `hutch tasks sync`, and push it."
        )
    parsed = parse_path(path or DEFAULT_PATH)
    local = Path(repository)
    root = await asyncio.to_thread(work.services.find_repository, local, who.is_owner, False)
    repository = str(root.root)
    before = await TasksFiles(services.rows).get(name)
    file = TasksFileOnBranch(
        repository=name, address=repository, branch=branch, path=str(parsed), mode=mode, set_by=who.user.id
    )
    if before and not branch:
        file = replace(file, branch=before.branch)
    async with _locked(work, who, file) as git:
        file = file if file.branch else replace(file, branch=await current_branch(git))
        before = await TasksFiles(services.rows).get(name)
        if before and (before.branch, before.path, before.mode) == (file.branch, file.path, mode):
            file = replace(before, set_by=who.user.id, address=repository)
        return await _sync_file(work, services, who, git, file, allow_removals=allow_removals)


async def disconnect_file(services: TaskServices, who: Caller, repository: str) -> bool:
    """Stop syncing the file of a repository; False if it was not synced."""
    check_writer(who)
    name = task_repository(repository)
    check_repository(services, who, name)
    return await TasksFiles(services.rows).remove(name)


async def list_files(services: TaskServices, who: Caller) -> list[TasksFileOnBranch]:
    """The files of repositories whose tasks the caller may see."""
    check_reader(who)
    viewer = viewer_of(services, who)
    found = await TasksFiles(services.rows).list()
    return [each for each in found if viewer is None or viewer.sees_repository(each.repository)]


@asynccontextmanager
async def _locked(work: TaskWorkServices, who: Caller, file: TasksFileOnBranch) -> AsyncIterator[RunGit]:
    """Git of a file's repository. The lock keeps merges of changes and other syncs away.

    An earlier reading is old: another sync may have stored its result meanwhile.
    """
    forges = work.services.forges()
    async with (
        work.changes.lock(_digest(file.address)),
        forges.open_git(Path(file.address), who.is_owner) as git,
    ):
        yield git


async def _sync_file(
    work: TaskWorkServices,
    services: TaskServices,
    who: Caller,
    git: RunGit,
    file: TasksFileOnBranch,
    *,
    allow_removals: bool = False,
) -> tuple[TasksFileOnBranch, SyncOutcome]:
    there = await read_branch_file(git, file.branch, file.path)
    text = (there.content or b"").decode("utf-8", "surrogateescape")
    if len(text) > MAX_FILE_CHARS:
        raise BadRequest(f"{file.path} is too large.")
    file, base, mine = await _to_merge(work, file, None if there.content is None else text)
    outcome = await sync_text(
        services,
        who,
        repository=file.address,
        base=base,
        text=mine,
        allow_removals=allow_removals,
    )
    if outcome.text != text and file.mode == "commit":
        await _commit(git, there, outcome.text, work.changes.author)
        text = outcome.text
    elif outcome.text != text and not _is_proposed(file, outcome.text, text):
        file = await _propose(work, git, file, there, outcome.text)
    synced = replace(file, base_text=outcome.text, branch_text=text, synced_ms=wall_ms(), problem="")
    await TasksFiles(services.rows).set(synced)
    return synced, outcome


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]


async def _to_merge(
    work: TaskWorkServices, file: TasksFileOnBranch, on_branch: str | None
) -> tuple[TasksFileOnBranch, str, str]:
    """The file, the text that both sides began from, and that of the branch with an open change.

    A file that was deleted is written again; its tasks are not archived.
    """
    change = await Changes(work.services.rows).get(file.change_id) if file.change_id else None
    if change is not None and change.state == "closed":  # so the branch never got the text of the change
        return file, file.branch_text, file.branch_text if on_branch is None else on_branch
    text = file.base_text if on_branch is None else on_branch
    if change is None or change.state == "merged":
        return replace(file, change_id=""), file.base_text, text
    ours, base, theirs = (
        each.encode("utf-8", "surrogateescape") for each in (file.base_text, file.branch_text, text)
    )
    merged = await merge_texts(
        work.services.git, ours=ours, base=base, theirs=theirs, labels=Labels("change", "base", "branch")
    )
    if merged is None or merged.conflicts:
        raise Conflict(
            f"{file.branch} and the change {change.id} changed the same lines of {file.path}. Merge or close "
            "the change first."
        )
    return file, file.base_text, merged.data.decode("utf-8", "surrogateescape")


def _message(there: BranchFile, text: str) -> str:
    return sync_message((there.content or b"").decode("utf-8", "replace"), text)


async def _commit(git: RunGit, there: BranchFile, text: str, author: str) -> str:
    content = text.encode("utf-8", "surrogateescape")
    message = _message(there, text)
    made = await commit_file(git, there, content, message=message, author=author or DEFAULT_AUTHOR)
    await move_branch(git, there, made)
    return made


def _is_proposed(file: TasksFileOnBranch, text: str, on_branch: str) -> bool:
    """True if the change has the text already.

    A new commit would take the reviews of an open change away. One that was closed was not wanted.
    """
    return bool(file.change_id) and (text, on_branch) == (file.base_text, file.branch_text)


async def _propose(
    work: TaskWorkServices, git: RunGit, file: TasksFileOnBranch, there: BranchFile, text: str
) -> TasksFileOnBranch:
    """Propose the text as a change for the branch, or update the open change."""
    changes = Changes(work.services.rows)
    content = text.encode("utf-8", "surrogateescape")
    author = work.changes.author or DEFAULT_AUTHOR
    commit = await commit_file(git, there, content, message=_message(there, text), author=author)
    old = await branch_tip(git, CHANGE_BRANCH)
    before = await changes.get(file.change_id) if file.change_id else None
    if before is not None and before.state == "closed":
        before = None
    if before is None and old:
        raise Conflict(f"The repository has a branch {CHANGE_BRANCH} already. Delete it.")
    if before is not None and old != before.commit:
        raise Conflict(f"{CHANGE_BRANCH} has moved since it was proposed. Merge or close {before.id}.")
    await set_branch(git, CHANGE_BRANCH, commit, old)
    if before is not None:
        await changes.replace_commit(before, commit=commit, base_commit=there.tip)
        return file
    change = Change(
        id=new_change_id(),
        session_id="",
        run_id="",
        repository=file.address,
        branch=CHANGE_BRANCH,
        base=file.branch,
        base_commit=there.tip,
        commit=commit,
        title="Sync TASKS.md",
        body="Made by the sync of tasks.",
        tests="",
        created_ms=wall_ms(),
    )
    await changes.add(change)
    return replace(file, change_id=change.id)


async def keep_files_synced(work: TaskWorkServices, services: TaskServices) -> None:
    """Sync all files when their tasks change, and periodically, because people commit; until cancelled."""
    seen: dict[str, tuple[int, int]] = {}
    rounds = 0
    while True:
        try:
            await _sync_files(work, services, {} if rounds % ALL_EVERY == 0 else seen, seen)
        except HutchError as error:
            logger.warning("tasks_files.not_read", problem=str(error))
        rounds += 1
        await asyncio.sleep(INTERVAL_S)


async def _sync_files(
    work: TaskWorkServices,
    services: TaskServices,
    known: Mapping[str, tuple[int, int]],
    seen: dict[str, tuple[int, int]],
) -> None:
    """Sync the files whose tasks are not in a known state, and note the states."""
    for file in await TasksFiles(services.rows).list():
        if known.get(file.repository) == await services.tasks.newest_change(file.repository):
            continue
        try:
            who = await work.caller(file.set_by, from_forge=False)
            async with _locked(work, who, file) as git:
                stored = await TasksFiles(services.rows).get(file.repository)
                if stored is not None and stored.address == file.address:
                    await _sync_file(work, services, who, git, stored)
        except HutchError as error:
            problem = services.redactor.redact(str(error))
            if problem != file.problem:
                logger.warning("tasks_file.not_synced", repository=file.repository, problem=problem)
                await TasksFiles(services.rows).set_problem(file.repository, problem)
        seen[file.repository] = await services.tasks.newest_change(file.repository)
