"""Two versions of a text are merged line by line, or both are shown between markers."""

import os

import pytest

from hutch.edit.text_merge import MAX_MERGE_BYTES, Labels, MergedText, merge_texts
from hutch.forge.host_git import Git

pytestmark = pytest.mark.anyio

GIT = Git({"PATH": os.defpath})
LABELS = Labels("now", "after run 1", "before run 1")
BASE = b"one\ntwo\nthree\nfour\nfive\n"


async def merge(ours: bytes, base: bytes, theirs: bytes, labels: Labels = LABELS) -> MergedText | None:
    return await merge_texts(GIT, ours=ours, base=base, theirs=theirs, labels=labels)


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (BASE, b"new\n", b"new\n"),
        (b"new\n", BASE, b"new\n"),
        (b"new\n", b"new\n", b"new\n"),
        (BASE.replace(b"one", b"ONE"), BASE.replace(b"five", b"FIVE"), b"ONE\ntwo\nthree\nfour\nFIVE\n"),
        (b"zero\n" + BASE, BASE.replace(b"four\n", b""), b"zero\none\ntwo\nthree\nfive\n"),
    ],
)
async def test_lines_that_one_side_changed_are_taken_from_it(
    ours: bytes, theirs: bytes, merged: bytes
) -> None:
    assert await merge(ours, BASE, theirs) == MergedText(merged, 0)


async def test_lines_that_both_sides_changed_are_shown_between_markers() -> None:
    found = await merge(BASE.replace(b"three", b"mine"), BASE, BASE.replace(b"three", b"theirs"))
    expected = b"one\ntwo\n<<<<<<< now\nmine\n=======\ntheirs\n>>>>>>> before run 1\nfour\nfive\n"
    assert found == MergedText(expected, 1)


async def test_each_conflict_is_counted() -> None:
    base = b"".join(b"line %d\n" % number for number in range(60))
    ours = base.replace(b"line 5\n", b"a\n").replace(b"line 40\n", b"a\n")
    theirs = base.replace(b"line 5\n", b"b\n").replace(b"line 40\n", b"b\n")
    found = await merge(ours, base, theirs)
    assert found is not None
    assert (found.conflicts, found.data.count(b"<<<<<<<")) == (2, 2)


async def test_windows_line_ends_stay() -> None:
    base, ours, theirs = (
        text.replace(b"\n", b"\r\n")
        for text in (BASE, BASE.replace(b"one", b"ONE"), BASE.replace(b"one", b"1"))
    )
    assert await merge(ours, base, base.replace(b"five", b"FIVE")) == MergedText(
        b"ONE\r\ntwo\r\nthree\r\nfour\r\nFIVE\r\n", 0
    )
    found = await merge(ours, base, theirs)
    assert found is not None
    assert found.conflicts == 1
    assert found.data.count(b"\n") == found.data.count(b"\r\n")


async def test_a_missing_last_line_end_is_a_change_of_the_last_line() -> None:
    kept = BASE.removesuffix(b"\n")
    assert await merge(BASE.replace(b"one", b"ONE"), BASE, kept) == MergedText(
        b"ONE\ntwo\nthree\nfour\nfive", 0
    )
    found = await merge(BASE.replace(b"five", b"FIVE"), BASE, kept)
    assert found is not None
    assert found.conflicts == 1
    assert b"=======\nfive\n>>>>>>>" in found.data


async def test_texts_without_a_common_version_conflict() -> None:
    found = await merge(b"mine\n", b"", b"theirs\n")
    assert found == MergedText(b"<<<<<<< now\nmine\n=======\ntheirs\n>>>>>>> before run 1\n", 1)


@pytest.mark.parametrize("odd", [b"\0" + BASE, b"x\n" * (MAX_MERGE_BYTES // 2 + 1)])
async def test_binary_and_large_files_are_not_merged(odd: bytes) -> None:
    assert await merge(odd, BASE, b"new\n") is None
    assert await merge(b"new\n", odd, BASE) is None


async def test_a_label_stays_on_its_line() -> None:
    labels = Labels("Ada\n=======\nx", "", "--help\x1b[31m")
    found = await merge(b"a\n", b"b\n", b"c\n", labels)
    assert found is not None
    assert found.data.splitlines() == [
        b"<<<<<<< Ada ======= x",
        b"a",
        b"=======",
        b"c",
        rb">>>>>>> --help\x1b[31m",
    ]
