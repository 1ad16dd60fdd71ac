"""All that goes to a session host and comes from it survives as bytes."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.errors import Conflict, EventsMissing, HutchError, LimitReached, TooManyRequests
from hutch.domain.events import Entry, ErasedEvent, MessageSent, UnknownEvent, to_json
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import OWNER_SIDE, PUBLIC, filter_entry
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.interface import Delta
from hutch.snapshots.git_storage import Snapshot
from hutch.workspace.ripgrep_search import GrepResult
from tests.sessions.host_message_codec import (
    REQUESTS,
    _answer_type,
    decode_answer,
    decode_request,
    decode_update,
    encode_answer,
    encode_error,
    encode_request,
    encode_update,
)

SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")
odd_text = st.text(max_size=20) | st.sampled_from(["$bytes", "$map", "\udcff.txt", ""])
st.register_type_strategy(datetime, st.datetimes())
st.register_type_strategy(str, odd_text)
small = st.integers(-(2**53), 2**53)
st.register_type_strategy(int, small)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))

json_objects = st.dictionaries(odd_text, odd_text | small | st.lists(odd_text, max_size=3), max_size=3)
tool_answers = st.builds(requests.ToolAnswer, text=odd_text, ok=st.booleans(), data=json_objects)
st.register_type_strategy(requests.ToolAnswer, tool_answers)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_and_its_answer_come_through_equal(name: str) -> None:
    kind = REQUESTS[name]
    answer = _answer_type(kind)
    special = {
        "edits": st.lists(st.dictionaries(odd_text, odd_text, max_size=3), max_size=3),
        "arguments": json_objects,
    }
    given_fields = {key: value for key, value in special.items() if key in kind.__annotations__}

    @given(st.builds(kind, **given_fields), st.from_type(answer))
    def check(request: Any, answered: Any) -> None:
        assert decode_request(encode_request(request)) == request
        assert _listed(decode_answer(request, encode_answer(answered))) == _listed(answered)

    check()


def _listed(answer: Any) -> Any:
    """A sequence comes back as a list, whichever it was."""
    return list(answer) if isinstance(answer, list | tuple) else answer


def test_answers_keep_what_json_has_no_word_for() -> None:
    request = requests.SearchFiles.__new__(requests.SearchFiles)
    found = GrepResult(
        lines=[], counts={"$bytes": 1, "\udcff": 2}, paths=["\udcff"], total=2, cut=False, next=None
    )
    assert decode_answer(request, encode_answer(found)) == found
    taken = Snapshot(1, "a", "b", datetime.fromisoformat("2026-01-02T03:04:05.678+00:00"), "r", 1, 2, 0)
    assert decode_answer(requests.TakeSnapshot("r"), encode_answer(taken)) == taken


@pytest.mark.parametrize(
    "error",
    [
        Conflict("It has ended."),
        LimitReached("Too many.", limit="sessions.open"),
        TooManyRequests("Slowly.", limit="x", retry_after_s=3),
        EventsMissing(SESSION, 3, 5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_raised_on_the_other_side_as_it_was(error: HutchError) -> None:
    with pytest.raises(type(error)) as raised:
        decode_answer(requests.ListPorts(), encode_error(error))
    assert type(raised.value) is type(error)
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


@pytest.mark.parametrize(
    "event",
    [
        MessageSent(author="user", text="one"),
        MessageSent(author="user", text="private", audience=OWNER_SIDE),
        UnknownEvent("note.written", b'{"text":"x","type":"note.written"}'),
        ErasedEvent("message.sent", 5, "asked for"),
    ],
    ids=["known", "withheld", "unknown", "erased"],
)
def test_an_entry_comes_through_as_its_reader_may_see_it(event: Any) -> None:
    payload = b"" if isinstance(event, ErasedEvent) else to_json(event)
    shown = filter_entry(Entry(SESSION, 7, 1000, event, "ab", payload), PUBLIC)
    sent = encode_update(shown)
    read = decode_update(sent)
    assert isinstance(read, Entry) and (read, read.payload) == (shown, shown.payload)
    assert b"private" not in sent


def test_a_delta_comes_through() -> None:
    delta = Delta("run_1", 2, "text", "Hel\nlo", audience=OWNER_SIDE)
    assert decode_update(encode_update(delta)) == delta


def test_nothing_else_can_be_sent_or_made() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        encode_answer(object())
    with pytest.raises(KeyError):
        decode_request(b'{"$map":[["request","Request"],["fields",{}]]}')
