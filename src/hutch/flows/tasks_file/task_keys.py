"""Keys for the lines of a file: for lines without one, and for one of two lines with the same."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from hutch.flows.tasks_file.hidden_task_comment import revision_in
from hutch.flows.tasks_file.tasks_file_parser import FileTask
from hutch.system.lazy_dataclass import dataclass

MAX_NUMBER = 10**8  # larger ones do not count as the newest
_NUMBERED = re.compile(r"(?P<prefix>[A-Z][A-Z0-9]*-|T)(?P<number>\d+)(?:\.\d+)*")


class KnownTask(NamedTuple):  # made faster than a dataclass
    """A task of the last sync or of the store, by its key."""

    title: str
    synced: bool  # it was in the file when that was last synced
    listed: bool  # it is stored and not archived


@dataclass(frozen=True, slots=True)
class RenumberedTask:
    """A line of the file whose key belongs to another task, and its new key."""

    title: str
    old_key: str
    new_key: str


class KeySequence:
    """New keys in the style of those that there are: `T-13`, `T014` or `BACK-8`."""

    def __init__(self, used: Collection[str]) -> None:
        self._used = set(used)
        self._is_ready = False  # most syncs need no new key

    def _read_style(self) -> None:
        self._is_ready = True
        found = [match for match in map(_NUMBERED.fullmatch, self._used) if match]
        styles = Counter(match["prefix"] for match in found)
        self._prefix = (
            min(styles, key=lambda prefix: (-styles[prefix], prefix != "T-", prefix)) if styles else "T-"
        )
        same = [match["number"] for match in found if match["prefix"] == self._prefix]
        self._width = max(map(len, same), default=0) if self._prefix == "T" else 0
        self._number = max((number for number in map(int, same) if number < MAX_NUMBER), default=0)

    def next(self) -> str:
        if not self._is_ready:
            self._read_style()
        while True:
            self._number += 1
            key = f"{self._prefix}{self._number:0{max(self._width, 1)}d}"
            if key not in self._used:
                self._used.add(key)
                return key


def assign_keys(
    tasks: Iterable[FileTask], known: Mapping[str, KnownTask]
) -> tuple[dict[int, str], list[RenumberedTask]]:
    """The key of each task by the number of its line, and the lines that get another key."""
    lines = list(tasks)
    by_key: defaultdict[str, list[FileTask]] = defaultdict(list)
    for task in lines:
        by_key[task.line.key].append(task)
    keyless = by_key.pop("", [])
    sequence = KeySequence({*by_key, *known})
    keys: dict[int, str] = {}
    clashing = []
    for key, same in by_key.items():
        holder = _holder(same, known.get(key))
        for task in same:
            if task is holder:
                keys[task.number] = key
            else:
                clashing.append(task)
    keys |= _keys_by_title(keyless, {key: task for key, task in known.items() if key not in by_key})
    for task in lines:
        if task.number not in keys:
            keys[task.number] = sequence.next()
    renumbered = [RenumberedTask(task.line.title, task.line.key, keys[task.number]) for task in clashing]
    return keys, renumbered


def _holder(same: list[FileTask], known: KnownTask | None) -> FileTask | None:
    """The line that a key belongs to; None if it belongs to a stored task that is not in the file."""
    if known is None:
        return same[0]
    if alike := next((task for task in same if task.line.title == known.title), None):
        return alike
    # Hutch wrote a line with a revision, so it belongs to the task even if it was renamed since.
    written = next((task for task in same if revision_in(task.line.pairs)), None)
    return written or (same[0] if known.synced else None)


def _keys_by_title(keyless: Iterable[FileTask], missing: Mapping[str, KnownTask]) -> dict[int, str]:
    """Keys for lines that have lost theirs, if only one task has the title."""
    keys_of: defaultdict[str, list[str]] = defaultdict(list)
    for key, task in missing.items():
        if task.listed:
            keys_of[task.title].append(key)
    lines_of: defaultdict[str, list[int]] = defaultdict(list)
    for line in keyless:
        lines_of[line.line.title].append(line.number)
    return {
        numbers[0]: keys_of[title][0]
        for title, numbers in lines_of.items()
        if len(numbers) == 1 and len(keys_of.get(title, ())) == 1
    }
