"""Limits by name."""

from hutch.jail.limits.hits import Hits, hit_by_signal, size
from hutch.jail.policy import GIB, MIB, Limits
from hutch.jail.seam import Exit, LimitHit

FULL = LimitHit("processes", "60")


def test_what_is_seen_again_is_noted_once_for_each_who_asks() -> None:
    hits = Hits()
    hits.note_once(FULL)
    hits.note_once(FULL)
    assert hits.noted == [FULL]
    hits.ask()
    hits.note_once(FULL)
    hits.note_once(FULL)
    assert hits.noted == [FULL, FULL]


def test_a_signal_tells_its_limit() -> None:
    limits = Limits(cpu_s=3, file_bytes=5 * MIB)
    assert hit_by_signal(Exit(None, 24), limits) == LimitHit("cpu_s", "3 s")
    assert hit_by_signal(Exit(None, 25), limits) == LimitHit("file_bytes", "5 MiB")
    assert hit_by_signal(Exit(128 + 25, None), limits) is None  # anybody can say that
    assert hit_by_signal(Exit(None, 24), Limits()) is None
    assert hit_by_signal(Exit(1, None), limits) is None


def test_sizes_are_for_people() -> None:
    assert [size(count) for count in (12, 1536, 200 * MIB, 5 * GIB // 2)] == [
        "12 bytes",
        "1.5 KiB",
        "200 MiB",
        "2.5 GiB",
    ]
