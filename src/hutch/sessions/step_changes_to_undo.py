"""Finds the changes of one step: a tool call, a command, a change of files, or an earlier run or undo."""

from collections.abc import Sequence

from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.events import (
    ChangesUndone,
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Entry,
    FileChanged,
    FilesChanged,
    RunEnded,
    RunStarted,
    SessionRedone,
    SessionRewound,
    SnapshotTaken,
    ToolCalled,
    ToolReturned,
)
from hutch.sessions.changes_to_undo import (
    SNAPSHOTS_AFTER,
    RunReading,
    TargetChange,
    UndoTarget,
    changes_of_undo,
    quoted,
)

CAUSES = ("command", "terminal", "job")  # of changes by a command


def find_step(entries: Sequence[Entry], seq: int) -> UndoTarget:
    """The changes of the step that an event belongs to: a change, a call, a command, a run or an undo."""
    index = next((index for index, entry in enumerate(entries) if entry.seq == seq), None)
    if index is None:
        raise NotFound(f"There is no event {seq} in this session.")
    later = entries[index:]
    match entries[index].event:
        case FileChanged() as event:
            return UndoTarget(f"the change of {event.path}", (TargetChange(seq, event),))
        case FilesChanged() as event:
            return UndoTarget("a change of many files", (TargetChange(seq, event),))
        case ToolCalled() as called:
            changes = _of_call(later, called.call_id)
            return UndoTarget(f"the call of {called.tool}", changes)
        case ToolReturned() as returned:
            start = _find_start(entries[:index], returned)
            return find_step(entries, start) if start else UndoTarget("a tool call", ())
        case CommandStarted() as started:
            changes = _of_command(later, started)
            return UndoTarget(f"the command {quoted(started.command)}", changes, author=started.by)
        case CommandEnded() | CommandYielded() as ended:
            start = _find_start(entries[:index], ended)
            return find_step(entries, start) if start else UndoTarget("a command", ())
        case RunStarted() | RunEnded() as run:
            reading = RunReading.of(entries, run.run_id)
            changes = tuple(reading.changes)
            return UndoTarget(f"the run of {quoted(reading.prompt)}", changes, author=AGENT)
        case SessionRewound() | ChangesUndone() as undone if undone.input:
            return UndoTarget(f"the undo of {undone.title}", changes_of_undo(entries, undone))
        case SessionRedone() as redone if redone.input:
            return UndoTarget(f"the redo after {redone.title}", changes_of_undo(entries, redone))
    kind = entries[index].event.type
    raise BadRequest(
        f"Event {seq} is {kind}, which changes no files. Name a file.changed, tool.called, command.started, "
        "run.started or an earlier undo."
    )


def _of_call(later: Sequence[Entry], call_id: str) -> tuple[TargetChange, ...]:
    """The changes of the tool call that the first entry starts."""
    found = []
    for entry in later[1:]:
        match entry.event:
            case ToolCalled(call_id=id) if id == call_id:  # models may use an id again
                break
            case FileChanged() | FilesChanged() as event if event.call_id == call_id:
                found.append(TargetChange(entry.seq, event))
    return tuple(found)


def _of_command(later: Sequence[Entry], started: CommandStarted) -> tuple[TargetChange, ...]:
    """The changes of the command that the first entry starts, and of jobs that it leaves running."""
    if started.call_id:
        return _of_call(later, started.call_id)
    source, is_last = started.terminal or started.shell, True
    sources, working = {source}, {source}  # those whose changes are its own, and of these the ones at work
    snapshots_left = 0  # that may still show its changes after its end
    found = []
    for entry in later[1:]:
        match entry.event:
            case CommandStarted() as next_one if _is_same_shell(next_one, started):
                sources.discard(source)
                working.discard(source)
                is_last = False
            case CommandYielded() as yielded if is_last and _is_same_shell(yielded, started):
                sources.add(yielded.background_id)
                working.add(yielded.background_id)
                working.discard(source)
            case CommandEnded() as ended if _is_same_shell(ended, started):
                ended_source = ended.background_id or source
                if ended_source in working:
                    working.discard(ended_source)
                    snapshots_left = SNAPSHOTS_AFTER
            case SnapshotTaken():
                snapshots_left = max(0, snapshots_left - 1)
            case FileChanged() | FilesChanged() as event:
                if event.by == started.by and event.source in sources and event.cause in CAUSES:
                    found.append(TargetChange(entry.seq, event))
                elif started.by in event.possible_authors and (working or snapshots_left):
                    found.append(TargetChange(entry.seq, event, is_clear=False))
    return tuple(found)


def _is_same_shell(
    one: CommandStarted | CommandYielded | CommandEnded, other: CommandStarted | CommandYielded | CommandEnded
) -> bool:
    return (one.shell, one.terminal) == (other.shell, other.terminal)


def _find_start(earlier: Sequence[Entry], ended: CommandEnded | CommandYielded | ToolReturned) -> int:
    """The number of the event that started a command or a tool call; 0 if the log does not have it."""
    for entry in reversed(earlier):
        match entry.event:
            case ToolCalled(call_id=id) if isinstance(ended, ToolReturned) and id == ended.call_id:
                return entry.seq
            case CommandStarted() as started if not isinstance(ended, ToolReturned):
                if _is_same_shell(started, ended) and started.command == ended.command:
                    return entry.seq
    return 0
