"""Parsing of git's progress output."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hutch.forge.git_progress import MAX_MESSAGE_BYTES, Progress, StderrParser

PRINTED = (
    b"remote: Enumerating objects: 5, done.        \n"
    b"remote: Counting objects:  20% (1/5)\rremote: Counting objects: 100% (5/5), done.\n"
    b"Receiving objects:  66% (200/300), 1.20 MiB | 3.00 MiB/s\rReceiving objects: 100% (300/300)\n"
    b"warning: something else\nfatal: the end\n"
)
EXPECTED = [
    Progress("Enumerating objects", 5),
    Progress("Counting objects", 1, 5),
    Progress("Counting objects", 5, 5),
    Progress("Receiving objects", 200, 300),
    Progress("Receiving objects", 300, 300),
]


@given(st.lists(st.integers(0, len(PRINTED)), max_size=8))
def test_progress_is_reported_and_the_rest_stored_in_any_chunks(cuts: list[int]) -> None:
    result: list[Progress] = []
    listener = StderrParser(result.append)
    places = [0, *sorted(cuts), len(PRINTED)]
    for start, end in pairwise(places):
        listener.feed(PRINTED[start:end])
    assert result == EXPECTED
    assert listener.messages() == "warning: something else\nfatal: the end"


def test_a_server_that_talks_without_end_fills_no_memory() -> None:
    listener = StderrParser(None)
    for _ in range(200):
        listener.feed(b"x" * MAX_MESSAGE_BYTES)
    for _ in range(2000):
        listener.feed(b"y" * 1000 + b"\n")
    assert len(listener.messages()) < 3 * MAX_MESSAGE_BYTES
    assert listener.messages().endswith("y")


@given(st.binary(max_size=400))
def test_anything_can_be_said(data: bytes) -> None:
    listener = StderrParser(lambda progress: None)
    listener.feed(data)
    listener.messages()
