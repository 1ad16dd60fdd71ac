"""Updates of documents come from clients: hostile ones are refused before the library decodes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Map, Text

from hutch.domain.errors import BadRequest, LimitReached
from hutch.sessions.collaborative_editing.shared_text import ROOT, SharedText
from hutch.sessions.collaborative_editing.text_difference import find_replacements
from hutch.sessions.collaborative_editing.yjs_update_validation import count_parts

NAME = bytes([1, len(ROOT)]) + ROOT.encode()
EDITS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(["", "a", "é", "😀", "two\nlines\n"])), max_size=30
)


def number(value: int) -> bytes:
    """A whole number as Yjs writes it."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def update(*structs: bytes, client: int = 1) -> bytes:
    return b"\x01" + number(len(structs)) + number(client) + b"\x00" + b"".join(structs) + b"\x00"


@given(EDITS, EDITS)
def test_all_that_editors_of_a_text_send_is_taken(
    mine: list[tuple[int, str]], theirs: list[tuple[int, str]]
) -> None:
    shared = SharedText.of("one\ntwo\n")
    for edits in (mine, theirs):
        doc: Doc[Text] = Doc()
        doc[ROOT] = text = Text()
        doc.apply_update(shared.updates_since())
        for at, typed in edits:
            before, size = doc.get_state(), len(str(text).encode())
            if typed:
                text.insert(0 if at > size else size, typed)
            elif size:
                text.clear()
            shared.apply(doc.get_update(before))
        assert shared.text == str(text)
    assert count_parts(shared.updates_since(), ROOT).structs >= 1


@pytest.mark.parametrize(
    "hostile",
    [
        update(
            b"\x08" + NAME + b"\x01" + b"\x75\x01" * 400_000 + b"\x00"
        ),  # lists in lists: the library overflows
        update(b"\x07" + NAME + b"\x01"),  # a map
        update(b"\x05" + NAME + b"\x02{}"),  # an object in the text
        update(b"\x06" + NAME + b"\x04bold\x04true"),  # a format
        update(b"\x04\x01\x05other\x01a"),  # another text
        update(b"\x24" + NAME + b"\x01k\x01a"),  # a string at a key
        update(b"\x04" + NAME + number(2**31) + b"a"),  # a string that is longer than the update
        update(b"\x04" + NAME + b"\x01a") + b"more",
        number(2**40) + b"\x00",  # a count that the library cuts
        b"\x80\x00\x00",  # a zero in two bytes
        b"",
    ],
    ids=lambda each: each[:16].hex(),
)
def test_what_no_editor_of_a_text_sends_is_refused(hostile: bytes) -> None:
    shared = SharedText.of("one\n")
    with pytest.raises(BadRequest):
        shared.apply(hostile)
    assert shared.text == "one\n"


def test_another_type_beside_the_text_is_refused() -> None:
    doc: Doc[Map[str]] = Doc()
    doc["more"] = Map({"key": "x" * 1000})
    with pytest.raises(BadRequest):
        SharedText.of("one\n").apply(doc.get_update())


def test_an_update_that_would_take_the_library_minutes_is_refused() -> None:
    """Items at one place are compared with each other: twice as many take four times as long."""
    chain = [b"\x04" + NAME + b"\x01a", *(b"\x84\x01" + number(at) + b"\x01a" for at in range(40_000))]
    ranges = b"".join(number(at) + b"\x01" for at in range(0, 80_000, 2))
    deletions = b"\x00\x01\x01" + number(40_000) + ranges
    for costly in (update(*chain), deletions):
        with pytest.raises(LimitReached, match="parts"):
            SharedText.of("").apply(costly)


def test_a_document_with_many_parts_takes_only_small_updates() -> None:
    shared = SharedText.of("")
    chain = [b"\x04" + NAME + b"\x01a", *(b"\x84\x01" + number(at) + b"\x01a" for at in range(3000))]
    shared.apply(update(*chain[:3000]))
    for _ in range(3):  # what is joined to one struct does not count
        shared.apply(update(*chain[:3000]))
    items = [b"\x04" + NAME + b"\x01b"] * 4000
    for each in range(2, 40):
        shared.apply(update(*items[:100], client=each))
    with pytest.raises(LimitReached):
        shared.apply(update(*items, client=50))
    shared.apply(update(items[0], client=51))
    assert shared.text.count("b") == 38 * 100 + 1


def test_a_program_that_writes_the_same_line_often_is_not_compared_line_by_line() -> None:
    old = "".join(f"same\nold {at}\n" for at in range(300))
    new = "".join(f"new {at}\nsame\n" for at in range(300))
    assert len(find_replacements(old, new)) == 1
    lines = [f"line {at}\n" if at % 3 else "\n" for at in range(900)]
    changed = ["first\n", *lines[1:450], "inserted\n", *lines[450:-1], "last\n"]
    assert len(find_replacements("".join(lines), "".join(changed))) == 3
