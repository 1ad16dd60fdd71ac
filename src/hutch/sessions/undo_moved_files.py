"""Follows files that others have moved since a change, so that an undo finds them where they are now."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from hutch.domain.events import Entry, FileChanged
from hutch.sessions.undo_file_version_reader import Version
from hutch.sessions.undo_planning import Reversal


def moved_paths(
    changes: Iterable[Reversal[Version]],
    entries: Sequence[Entry],
    mine: Collection[int],
    clean: Callable[[str], str],
) -> dict[tuple[str, int], str]:
    """The last paths of files that others have moved, by their path and the number of the change.

    `mine` are the numbers of the changes that are undone; `clean` gives a path as the log has it.
    """
    moves = [
        (entry.seq, event.moved_from, event.path)
        for entry in entries
        if isinstance(event := entry.event, FileChanged) and event.moved_from and entry.seq not in mine
    ]
    found = {}
    for change in changes if moves else ():
        path = clean(change.path)
        for seq, source, target in moves:
            if seq > change.seq > 0 and f"{path}/".startswith(f"{source}/"):
                path = target + path[len(source) :]
        if path != clean(change.path) and change.moved_from is None:
            found[(change.path, change.seq)] = path
    return found


def follow(
    changes: Sequence[Reversal[Version]],
    moved: Mapping[tuple[str, int], str],
    current: Mapping[str, Version],
) -> list[Reversal[Version]]:
    """The changes, of files that are elsewhere now with their present paths."""
    followed = []
    for change in changes:
        path = moved.get((change.path, change.seq))
        if path is not None and path in current and change.path not in current:
            change = replace(change, path=path, is_moved=True)
        followed.append(change)
    return followed
