"""Searching events by text, kind, author and time."""

from typing import Any

import orjson
import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.event_query import EventQuery, parse_kind, parse_query
from hutch.domain.events import (
    CallMade,
    CommandStarted,
    Entry,
    ErasedEvent,
    Event,
    FileChanged,
    MessageSent,
    ModelReplied,
    TerminalPrinted,
    UnknownEvent,
    to_json,
)
from hutch.domain.ids import new_session_id
from hutch.domain.log_entry_audience import OWNER_SIDE, PUBLIC, WHOLE, VisibleEntry, filter_entry

SESSION = new_session_id()
ADA, BOB = "usr_ada", "usr_bob"


def entry(event: Event | UnknownEvent, at_ms: int = 1000) -> VisibleEntry:
    return filter_entry(Entry(SESSION, 1, at_ms, event, "", to_json(event)), WHOLE)


def message_event(text: str, **more: Any) -> MessageSent:
    return MessageSent(author="user", text=text, **more)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (message_event("Make the Login test pass"), "login TEST"),
        (message_event("Straße"), "STRASSE"),
        (message_event('a "quoted" \\ word\nand a line'), '"QUOTED" \\ word\nand'),
        (TerminalPrinted(terminal="1", text="\x1b[1;31mred \x1b[0malert"), "red alert"),
        (
            ModelReplied(
                run_id="r", turn=1, calls=(CallMade(id="c", tool="bash", arguments='{"a":"deep"}'),)
            ),
            "deep",
        ),
        (UnknownEvent("note.written", orjson.dumps({"type": "note.written", "text": "Newer"})), "newer"),
    ],
)
def test_text_is_found_in_every_readable_field(event: Event | UnknownEvent, text: str) -> None:
    query, found = EventQuery(text), entry(event)
    assert query.may_match_text(found.payload)
    assert query.matches(found)
    assert not EventQuery(f"{text}?").matches(found)


def test_the_type_the_audience_and_opaque_data_are_no_text() -> None:
    replied = ModelReplied(run_id="r", turn=1, opaque={"signature": "hidden"}, audience=OWNER_SIDE)
    assert not any(EventQuery(text).matches(entry(replied)) for text in ("model.replied", "owner", "hidden"))


def test_a_kind_is_a_type_or_a_group_of_types() -> None:
    started = entry(CommandStarted(shell="main", command="ls", cwd="/"))
    for kind, is_match in (("command.started", True), ("command.", True), ("command", True), ("run", False)):
        assert EventQuery(kinds=(parse_kind(kind),)).matches(started) is is_match
    assert parse_kind("approval.asked") == "approval.requested"  # its old name
    for unknown in ("comand", "command.begun", "", ".", "commands."):
        with pytest.raises(BadRequest, match="There are no events of the kind"):
            parse_kind(unknown)


def test_an_author_is_a_user_the_agent_or_hutch() -> None:
    def by(author: str, event: Event) -> bool:
        return EventQuery(authors={author}).matches(entry(event))

    assert by(ADA, message_event("x", by=ADA)) and not by(BOB, message_event("x", by=ADA))
    assert by("agent", MessageSent(author="agent", text="x"))
    assert by("hutch", MessageSent(author="hutch", text="x"))
    shared = FileChanged(path="a", kind="modified", possible_authors=(ADA, "agent"))
    assert by(ADA, shared) and by("agent", shared) and not by(BOB, shared)
    assert not EventQuery(authors=frozenset()).matches(entry(message_event("x", by=ADA)))


def test_both_moments_are_included() -> None:
    query = EventQuery(since_ms=1000, until_ms=2000)
    assert [query.matches(entry(message_event("x"), at)) for at in (999, 1000, 2000, 2001)] == [
        False,
        True,
        True,
        False,
    ]


def test_withheld_and_erased_entries_match_nothing() -> None:
    private = message_event("a private word", audience=OWNER_SIDE)
    withheld = filter_entry(Entry(SESSION, 1, 1000, private, "", to_json(private)), PUBLIC)
    erased = filter_entry(Entry(SESSION, 1, 1000, ErasedEvent("message.sent", 0, "a reason"), ""), WHOLE)
    for query in (EventQuery(), EventQuery("private"), EventQuery("reason"), EventQuery(kinds=("message.",))):
        assert not query.matches(withheld)
        assert not query.matches(erased)


def test_a_search_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadRequest, match="at most 1000 characters"):
        parse_query(text="x" * 1001, now_ms=0)
    with pytest.raises(BadRequest, match="at most 20 kinds"):
        parse_query(kinds=["command"] * 21, now_ms=0)
