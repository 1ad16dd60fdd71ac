"""Few files are listed, many are counted, and memory does not grow with their number."""

import tracemalloc
from dataclasses import replace

from hutch.domain.current_actor_and_author import Actor
from hutch.domain.events import FileChanged, FilesChanged
from hutch.sessions.snapshot_change_events import (
    LISTED_PER_S,
    MAX_DIRECTORIES,
    MAX_LISTED,
    Attribution,
    ChangeBatch,
    Changed,
    ListingBudget,
)
from hutch.snapshots.snapshot_tree_layout import FILES, IGNORED, Item, Leaf

ADA, BEN = Attribution(Actor("u1", "command", "main")), Attribution(Actor("u2", "request"))


def leaf(name: bytes = b"1", section: int = FILES) -> Leaf:
    return Leaf(0o100644, name, section, 1)


def name_of(item: Item | None) -> str | None:
    return item.name.decode() if isinstance(item, Leaf) else None


def test_changes_are_listed_with_their_author() -> None:
    batch = ChangeBatch(3, 4, ListingBudget())
    batch.add(Changed("a", None, leaf(b"1")), ADA)
    batch.add(Changed("b", leaf(b"1"), leaf(b"2")), BEN)
    batch.add(Changed("c", leaf(b"1"), None), ADA)
    numbers = {"previous_snapshot": 3, "snapshot": 4}
    ada = {"by": "u1", "cause": "command", "source": "main", **numbers}
    assert list(batch.events(name_of, str.upper)) == [
        FileChanged(path="A", kind="created", after="1", **ada),
        FileChanged(path="C", kind="deleted", before="1", **ada),
        FileChanged(path="B", kind="modified", before="1", after="2", by="u2", cause="request", **numbers),
    ]


def test_too_many_files_of_one_author_are_counted_and_others_are_listed() -> None:
    batch = ChangeBatch(1, 2, ListingBudget())
    for number in range(MAX_LISTED + 1):
        batch.add(Changed(f"build/{number % 2}/deep/{number}", None, leaf()), ADA)
    batch.add(Changed("mine", None, leaf()), BEN)
    listed, counted = batch.events(name_of, str)
    assert isinstance(listed, FileChanged) and (listed.path, listed.by) == ("mine", "u2")
    assert isinstance(counted, FilesChanged)
    assert (counted.created, counted.by, counted.ignored) == (MAX_LISTED + 1, "u1", False)
    assert counted.directories == {"build/0": 501, "build/1": 500}


def test_a_build_is_counted_though_each_snapshot_shows_few_of_its_files() -> None:
    now = 0.0
    budget = ListingBudget(lambda: now)

    def changed(count: int, attribution: Attribution) -> tuple[int, int]:
        """How many files of a snapshot are listed, and how many counted."""
        batch = ChangeBatch(1, 2, budget)
        for number in range(count):
            batch.add(Changed(str(number), None, leaf()), attribution)
        events = list(batch.events(name_of, str))
        listed = [event for event in events if isinstance(event, FileChanged)]
        return len(listed), sum(event.created for event in events if isinstance(event, FilesChanged))

    build = [changed(600, replace(ADA, alone=number % 2 == 0)) for number in range(100)]
    assert build == [(600, 0), *[(0, 600)] * 99]
    assert changed(600, BEN) == (600, 0)
    now = 200 / LISTED_PER_S
    assert changed(600, ADA) == (600, 0)


def test_ignored_files_are_counted() -> None:
    batch = ChangeBatch(1, 2, ListingBudget())
    batch.add(Changed("out/a", None, leaf(section=IGNORED)), ADA)
    batch.add(Changed("was-ignored", leaf(section=IGNORED), leaf()), ADA)
    listed, counted = batch.events(name_of, str)
    assert isinstance(listed, FileChanged) and listed.path == "was-ignored"
    assert isinstance(counted, FilesChanged) and counted.ignored and counted.directories == {"out": 1}


def test_memory_does_not_depend_on_the_number_of_changes() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        batch = ChangeBatch(1, 2, ListingBudget())
        for number in range(count):
            batch.add(Changed(f"{number}/x/{number}", None, leaf()), ADA)
        (counted,) = batch.events(name_of, str)
        assert isinstance(counted, FilesChanged) and counted.created == count
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(100_000) < 2 * peak(2 * max(MAX_DIRECTORIES, MAX_LISTED))
