"""Processes the inputs `undo` and `redo` of a session.

An undo of a run moves files and conversation together. An undo of one step changes only files; the
agent reads about it before its next reply. A redo takes back the last undo by the same merge.
"""

from hutch.domain.current_actor_and_author import Actor
from hutch.domain.errors import BadRequest, Denied
from hutch.domain.events import ChangesUndone, SessionRedone, SessionRewound
from hutch.domain.inputs import Redo, Undo
from hutch.domain.session import SessionInput
from hutch.sessions.changes_to_undo import UndoTarget
from hutch.sessions.file_and_command_requests import CheckUndo
from hutch.sessions.live_session import LiveSession
from hutch.sessions.undo import UndoResult
from hutch.sessions.waiting_run_cancellation import UNDONE, abandon
from hutch.workspace.files.file_reads_and_changes import CheckPath

BUSY = "A run is at work. Cancel or pause it first."


async def process_undo(live: LiveSession, submitted: SessionInput, asked: Undo | Redo) -> str:
    """Undo or redo. Returns why it was refused; then nothing was changed."""
    if live.run is not None:
        return BUSY
    await live.runs.hold_all(live.id)  # else a worker claims one while the files are written
    try:
        if any(run.state == "running" for run in await live.runs.unfinished(live.id)):
            return BUSY  # one was claimed just now
        async with live.guarded(_request(asked), submitted.by) as check:
            await _undo(live, submitted, asked, check)
        return ""
    except (BadRequest, Denied) as error:
        return live.dependencies.redactor.redact(str(error))
    finally:
        await _release_runs(live)


def _request(asked: Undo | Redo) -> CheckUndo:
    if isinstance(asked, Redo):
        return CheckUndo(is_redo=True)
    return CheckUndo(asked.step)


async def _undo(
    live: LiveSession, submitted: SessionInput, asked: Undo | Redo, check: CheckPath | None
) -> None:
    async with live.used() as sandbox:
        prepared = await live.prepare_undo(sandbox.workspace, asked, check)
        target = prepared.target
        await prepared.check_paths()
        if asked.mode == "refuse":
            await prepared.check()
        for run in await live.runs.unfinished(live.id):
            if run.id == target.run_id:  # it was to continue or deliver the work that is undone
                await abandon(live, run, UNDONE)
        with live.activity.working(Actor(submitted.by, "undo", str(submitted.seq))):
            result = await prepared.files.perform(prepared.snapshot, asked.mode)
        await live.append([_event(live, submitted, asked, target, result)])


def _event(
    live: LiveSession, submitted: SessionInput, asked: Undo | Redo, target: UndoTarget, result: UndoResult
) -> SessionRewound | ChangesUndone | SessionRedone:
    changed = result.fields(live.recorder.clean_path)
    fields = {"title": target.title, "by": submitted.by, "input": submitted.seq, **changed}
    if isinstance(asked, Redo):
        return SessionRedone(undone=target.seq, **fields)
    if target.is_run:
        return SessionRewound(to_seq=target.to_seq, snapshot=target.first, **fields)
    return ChangesUndone(step=asked.step, **fields)


async def _release_runs(live: LiveSession) -> None:
    """Requeue the runs that were held."""
    if (await live.sessions.get(live.id)).state == "paused":
        return
    if live.run is None:
        await live.set_state("queued" if await live.runs.unfinished(live.id) else live.state)
    await live.runs.requeue(live.id, worker=live.dependencies.reserved_for)
