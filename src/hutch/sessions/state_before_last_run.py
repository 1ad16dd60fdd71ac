"""Finds the state of a session before its last run."""

from collections.abc import Sequence

from hutch.domain.events import Entry, RunStarted, SessionRedone, SessionRewound, SnapshotTaken


def before_last_run(entries: Sequence[Entry]) -> tuple[int, int, str] | None:
    """The number of the last event before that run, the snapshot of the files at that time, and the run's id.

    None when there is no run, or all of them were undone already.
    """
    snapshot, found = 0, None
    last_snapshot_seq = 0
    for entry in effective_entries(entries):
        if isinstance(entry.event, SnapshotTaken):
            snapshot, last_snapshot_seq = entry.event.snapshot, entry.seq
        elif isinstance(entry.event, RunStarted):
            # The run's own first snapshot is recorded just before it.
            upto = last_snapshot_seq if last_snapshot_seq == entry.seq - 1 else entry.seq
            found = (upto - 1, snapshot, entry.event.run_id)
    return found


def effective_entries(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that count, without those that were undone and not redone."""
    effective: list[Entry] = []
    removed: dict[int, list[Entry]] = {}  # by the number of the undo
    for entry in entries:
        if isinstance(entry.event, SessionRewound):
            to_seq = entry.event.to_seq
            removed[entry.seq] = [each for each in effective if each.seq > to_seq]
            effective = [each for each in effective if each.seq <= to_seq]
        elif isinstance(entry.event, SessionRedone) and entry.event.undone in removed:
            restored = removed.pop(entry.event.undone)
            effective = sorted([*effective, *restored], key=lambda each: each.seq)
        else:
            effective.append(entry)
    return effective
