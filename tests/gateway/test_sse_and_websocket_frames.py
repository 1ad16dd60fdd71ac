"""The frames of streams, byte for byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, TooManyRequests
from hutch.domain.events import Entry, ErasedEvent, MessageSent, UnknownEvent, to_json
from hutch.domain.ids import SessionId
from hutch.gateway.stream.sse_and_websocket_frames import (
    control_frame,
    error_frame,
    parse_frame,
    parse_number,
    parse_position,
    sse,
    sse_control,
    update_frame,
)
from hutch.sessions.interface import Delta

SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")
DELTA = Delta("run_1", 2, "text", "Hel\nlo")


def entry(event: object, seq: int = 7) -> Entry:
    payload = b"" if isinstance(event, ErasedEvent) else to_json(event)
    return Entry(SESSION, seq, 1000, event, "ab", payload)  # type: ignore[arg-type]


def test_an_entry_over_sse_has_its_number_and_type() -> None:
    erased = ErasedEvent("message.sent", 5, "asked for")
    assert sse(entry(erased)) == (
        b'id: 7\nevent: message.sent\ndata: {"seq":7,"at_ms":1000,"hash":"ab","event":'
        b'{"type":"message.sent","erased":true,"erased_at_ms":5,"reason":"asked for"}}\n\n'
    )


def test_a_delta_has_no_number() -> None:
    assert sse(DELTA) == (
        b'event: delta\ndata: {"run_id":"run_1","turn":2,"kind":"text","text":"Hel\\nlo",'
        b'"call_id":"","tool":""}\n\n'
    )
    assert json.loads(update_frame(DELTA))["type"] == "delta"


def test_a_type_cannot_break_out_of_its_line() -> None:
    strange = UnknownEvent("new\nid: 99\nevent: x", b'{"type":"new"}')
    assert sse(entry(strange)).splitlines()[:2] == [b"id: 7", b"event: message"]


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_one_line_of_data(text: str) -> None:
    event = MessageSent(author="user", text=text)
    lines = sse(entry(event)).split(b"\n")
    assert [line.partition(b":")[0] for line in lines] == [b"id", b"event", b"data", b"", b""]
    result = json.loads(lines[2].removeprefix(b"data: "))
    assert result == {"seq": 7, "at_ms": 1000, "hash": "ab", "event": json.loads(to_json(event))}
    assert json.loads(update_frame(entry(event))) == {"type": "entry", **result}


def test_words() -> None:
    assert sse_control("end", seq=3) == b'event: end\ndata: {"seq":3}\n\n'
    assert json.loads(control_frame("pong", id=1)) == {"type": "pong", "id": 1}
    busy = TooManyRequests("Slowly.", limit="x", retry_after_s=3)
    assert json.loads(error_frame(busy, id="a")) == {
        "type": "error",
        "code": "too_many_requests",
        "detail": "Slowly.",
        "retry_after_s": 3,
        "id": "a",
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"ping"', "{}", '{"type":3}', "[" * 100_000, "\ud800"])
def test_invalid_frames(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_frame(text)


@pytest.mark.parametrize("value", [None, -1, 11, 1.0, True, "3", [], 10**400])
def test_invalid_numbers(value: object) -> None:
    with pytest.raises(BadRequest):
        parse_number({"type": "ack", "bytes": value}, "bytes", 0, 10)


def test_places() -> None:
    assert (parse_position(None, "after"), parse_position("", "after"), parse_position("0012", "after")) == (
        None,
        None,
        12,
    )
    for text in ("-1", "1.5", "٣", "9" * 19, "9" * 400, "x", " 1"):
        with pytest.raises(BadRequest):
            parse_position(text, "after")
