"""The results of the last scan, in memory and on disk."""

import gc
import marshal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hutch.snapshots.snapshot_tree_layout import EMPTY_BRANCH, FILES, Item, Leaf, OmittedEntry
from hutch.snapshots.stat_cache import (
    MAGIC,
    MIN_REWRITE_BYTES,
    Items,
    Listing,
    StatCache,
    decode_listing,
    read_frame,
)
from hutch.system.chunked_collection_operations import CHUNK_SIZE

ANCHOR = (1, "a" * 40)


def listing(number: int, *, names: int = 1) -> Listing:
    items: dict[str, Item] = {f"f{each}": Leaf(0o100644, bytes(20), FILES, number) for each in range(names)}
    items |= {
        "pipe": OmittedEntry("fifo", 0),
        "below": EMPTY_BRANCH,
        "\udcff\n": Leaf(0o100600, bytes(20), FILES, 0),
    }
    return Listing(
        keys={f"f{each}": (number, 2, 3, 4) for each in range(names)},
        items=Items(items),
        branch=EMPTY_BRANCH._replace(files=b"\1" * 20),
        context=b"context",
        children=frozenset({"below"}),
        unsettled=True,
        whiteouts=frozenset({"gone"}),
        opaque=True,
        below=EMPTY_BRANCH,
    )


def always(number: int, commit: str) -> bool:
    return True


@pytest.fixture
def cache(tmp_path: Path) -> StatCache:
    cache = StatCache(tmp_path / "cache")
    cache.refresh(always)
    return cache


def reread(cache: StatCache) -> StatCache:
    other = StatCache(cache.path)
    other.refresh(always)
    return other


def test_noted_listings_outlive_the_process(cache: StatCache) -> None:
    cache.update({"": listing(1), "a": listing(2), "a/b": listing(3)}, ANCHOR)
    cache.update({"a": listing(4), "a/b": None}, (2, "b" * 40))
    other = reread(cache)
    assert other.listings == cache.listings == {"": listing(1), "a": listing(4)}
    assert other.anchor == (2, "b" * 40)


def test_writes_of_another_process_are_seen(cache: StatCache) -> None:
    cache.update({"": listing(1)}, ANCHOR)
    other = reread(cache)
    other.update({"": listing(2)}, (2, "b" * 40))
    cache.refresh(always)
    assert cache.listings == {"": listing(2)}


def test_nothing_is_valid_after_its_snapshot_is_deleted(cache: StatCache) -> None:
    cache.update({"": listing(1)}, ANCHOR)
    cache.refresh(lambda number, commit: (number, commit) != ANCHOR)
    assert (cache.listings, cache.anchor) == ({}, None)
    cache.update({"a": listing(2)}, (2, "b" * 40))
    assert reread(cache).listings == {"a": listing(2)}


def test_a_torn_end_is_as_if_it_had_not_been_written(cache: StatCache) -> None:
    cache.update({"": listing(1)}, ANCHOR)
    whole = cache.path.stat().st_size
    cache.update({"": listing(2), "a": listing(3)}, (2, "b" * 40))
    data = cache.path.read_bytes()
    for cut in range(whole, len(data)):
        cache.path.write_bytes(data[:cut])
        other = reread(cache)
        assert (other.listings, other.anchor) == ({"": listing(1)}, ANCHOR)
        other.update({"b": listing(4)}, (3, "c" * 40))
        assert reread(cache).listings.keys() == {"", "b"}
    cache.path.write_bytes(data[:whole] + bytes([data[whole] ^ 1]) + data[whole + 1 :])
    assert reread(cache).listings == {"": listing(1)}


def test_the_file_is_written_anew_when_most_of_it_is_old(cache: StatCache) -> None:
    cache.update({"": listing(0, names=1000)}, ANCHOR)
    sizes = []
    for number in range(100):
        cache.update({"": listing(number, names=1000)}, (number, "b" * 40))
        sizes.append(cache.path.stat().st_size)
    assert max(sizes) < 2 * MIN_REWRITE_BYTES and any(now < then for then, now in pairwise(sizes))
    assert reread(cache).listings == {"": listing(99, names=1000)}


def test_another_object_at_its_path_is_moved_aside(cache: StatCache) -> None:
    cache.path.write_bytes(b"something else")
    assert reread(cache).listings == {}


def test_a_very_large_directory_is_written_in_pieces(cache: StatCache) -> None:
    large = listing(1, names=2 * CHUNK_SIZE + 1)
    names = [f"d{each}" for each in range(CHUNK_SIZE + 1)]
    large.children = large.whiteouts = frozenset(names)
    cache.update({"": large}, ANCHOR)
    assert reread(cache).listings == {"": large}
    (_, written), _ = read_frame(cache.path.read_bytes(), len(MAGIC))
    fields = [field for number, field in enumerate(written) if number in (0, 1, 4, 6)]
    pieces = [marshal.loads(piece) for field in fields for piece in field]
    assert [len(piece) for piece in pieces] == [
        CHUNK_SIZE,
        CHUNK_SIZE,
        1,
        CHUNK_SIZE,
        CHUNK_SIZE,
        4,
        CHUNK_SIZE,
        1,
        CHUNK_SIZE,
        1,
    ]


def test_a_listing_from_before_is_read(cache: StatCache) -> None:
    """Indexes of bases outlive versions of Hutch: leaves were tuples, and nothing was in pieces."""
    found = listing(1)
    items = {"leaf": (0, 0o100644, bytes(20), FILES, 7), "pipe": (2, "fifo", 0), "below": (1, *EMPTY_BRANCH)}
    rest = (
        tuple(EMPTY_BRANCH),
        b"context",
        frozenset({"below"}),
        True,
        frozenset({"gone"}),
        True,
        tuple(EMPTY_BRANCH),
    )
    read = decode_listing((found.keys, items, *rest))
    assert dict(read.items) == {
        "leaf": Leaf(0o100644, bytes(20), FILES, 7),
        "pipe": OmittedEntry("fifo", 0),
        "below": EMPTY_BRANCH,
    }
    assert (read.children, read.whiteouts) == (frozenset({"below"}), frozenset({"gone"}))


def test_cached_entries_are_not_visited_by_the_garbage_collector(cache: StatCache) -> None:
    cache.update({"": listing(1, names=100)}, ANCHOR)
    found = reread(cache).listings[""]
    gc.collect()
    files = [value for name, value in found.items.packed.items() if name not in ("pipe", "below")]
    assert len(files) == 101 and not any(map(gc.is_tracked, (*files, *found.keys.values())))


def test_released_listings_stay_in_the_cache(cache: StatCache) -> None:
    before = listing(1)
    cache.update({"": before}, ANCHOR)
    again = replace(before, items=Items(before.items))  # as after a scan in which only a directory changed
    cache.release({"": again, "new": listing(2), "gone": None})
    assert (len(again.items), cache.listings[""]) == (0, listing(1))
