"""Functions that time snapshots of a large workspace.

Each creates its files, measures several times and returns the median in milliseconds.
It waits after a change, as during a model call: the time stamps of files that were
just written are not conclusive yet.
"""

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.prebuilt_base_file_index import BaseIndex, index_base
from hutch.snapshots.snapshot import Content, Snapshots

TIMES = 15
SETTLE_S = 0.03
PER_DIRECTORY = 20


def make_tree(tree: Path, *, files: int, total_bytes: int) -> None:
    """Files of one size in directories of twenty, three levels deep; half of each compresses."""
    half = total_bytes // files // 2
    text = b"def answer() -> int:\n    return 42\n" * (half // 35 + 1)
    for number in range(files):
        group = number // PER_DIRECTORY
        path = tree / f"package{group % 10}" / f"module{group}" / f"file{number % PER_DIRECTORY}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(half) + text[:half])


def change(tree: Path, count: int) -> None:
    for number in range(count):
        path = tree / f"package{number}" / f"module{number}" / "file3.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(10_000) + b"text\n" * 2_000)


def copy_ms(place: Path, tree: Path, *, changed: int) -> float:
    """Take a snapshot of a plain directory, with `changed` files changed since the last one."""
    place.mkdir()
    snapshots = Snapshots(place)
    with Directory.at(tree) as directory:
        return _take_ms(snapshots, Content(directory), lambda: change(tree, changed))


def overlay_ms(place: Path, base: BaseIndex, *, changed: int) -> float:
    """The same on an overlay, where only the upper directory is read."""
    upper = place / "upper"
    upper.mkdir(parents=True)
    snapshots = Snapshots(place, base=base)
    with Directory.at(upper) as directory:
        return _take_ms(snapshots, Content(directory, directory), lambda: change(upper, changed))


def fork_ms(place: Path, base: BaseIndex) -> float:
    """Fork the snapshots of a workspace with four changed files, without mounting or filling it."""
    upper = place / "upper"
    upper.mkdir(parents=True)
    snapshots = Snapshots(place, base=base)
    change(upper, 4)
    with Directory.at(upper) as directory:
        snapshots.take(Content(directory, directory), "to be forked")
    taken = []
    for number in range(TIMES):
        other = place / f"fork{number}"
        other.mkdir()
        started = time.perf_counter()
        snapshots.fork(1, other)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


def indexed(place: Path, tree: Path) -> BaseIndex:
    """The index of a base; made once per base, so it is not measured."""
    shutil.rmtree(place, ignore_errors=True)
    return index_base(tree, place)


def _take_ms(snapshots: Snapshots, content: Content, prepare: Callable[[], None]) -> float:
    snapshots.take(content, "first")
    time.sleep(SETTLE_S)
    snapshots.take(content, "settled")
    taken = []
    for _ in range(TIMES):
        prepare()
        time.sleep(SETTLE_S)
        started = time.perf_counter()
        snapshots.take(content, "timed")
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000
