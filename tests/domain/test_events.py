"""The JSON of events is stable; events of a newer version are not lost."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hutch.domain.events import (
    EVENT_TYPES,
    CommandEnded,
    CommandStarted,
    CommandYielded,
    EgressAttempted,
    Event,
    MessageSent,
    SessionEnded,
    SessionOpened,
    UnknownEvent,
    from_json,
    json_schema,
    to_json,
)

EXAMPLES: dict[str, tuple[Event, bytes]] = {
    "session.opened": (
        SessionOpened(purpose="fix it", owner="ada"),
        b'{"company":"","expectations":"","owner":"ada","purpose":"fix it","role":"",'
        b'"secrets":[],"type":"session.opened","v":1,"variables":[]}',
    ),
    "message.sent": (
        MessageSent(author="user", text='say "hé"\n'),
        '{"author":"user","by":"","input":0,"text":"say \\"hé\\"\\n","type":"message.sent","v":1}'.encode(),
    ),
    "command.started": (
        CommandStarted(shell="main", command="make test", cwd="/workspace", by="usr_1"),
        b'{"by":"usr_1","call_id":"","command":"make test","cwd":"/workspace","shell":"main","terminal":"",'
        b'"type":"command.started","v":1}',
    ),
    "command.yielded": (
        CommandYielded(shell="main", command="make serve", background_id="bg_1"),
        b'{"background_id":"bg_1","by":"","command":"make serve","shell":"main","terminal":"",'
        b'"type":"command.yielded","v":1}',
    ),
    "command.ended": (
        CommandEnded(shell="main", command="make test", cwd="/workspace", exit_code=2, duration_s=1.5),
        b'{"background_id":null,"by":"","command":"make test","cwd":"/workspace","duration_s":1.5,'
        b'"exit_code":2,"shell":"main","signal":null,"terminal":"","timed_out":false,'
        b'"type":"command.ended","v":1}',
    ),
    "egress.attempted": (
        EgressAttempted(method="CONNECT", host="example.com", port=443, allowed=False, reason="not listed"),
        b'{"allowed":false,"host":"example.com","method":"CONNECT","port":443,"reason":"not listed",'
        b'"type":"egress.attempted","v":1}',
    ),
    "session.ended": (
        SessionEnded(outcome="done"),
        b'{"outcome":"done","reason":"","type":"session.ended","v":1}',
    ),
}


PAGE = (Path(__file__).resolve().parents[2] / "docs/events.md").read_text()
PAGE_EXAMPLES = dict(re.findall(r"^### `(\S+)`\n.*?^```json\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL))


def test_there_is_an_example_of_every_event() -> None:
    assert PAGE_EXAMPLES.keys() == EVENT_TYPES.keys()


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_examples_of_the_page_come_back_to_the_byte(type_: str) -> None:
    event = from_json(PAGE_EXAMPLES[type_].encode(), type_)
    assert isinstance(event, EVENT_TYPES[type_])
    assert event.__pydantic_extra__ == {}
    assert to_json(event).decode() == PAGE_EXAMPLES[type_]


@pytest.mark.parametrize("type_", EXAMPLES)
def test_the_json_of_an_event_stays_as_it_is(type_: str) -> None:
    event, payload = EXAMPLES[type_]
    assert to_json(event) == payload
    assert from_json(payload, type_) == event


@pytest.mark.parametrize("type_", EVENT_TYPES)
def test_event_types_are_noun_and_past_verb(type_: str) -> None:
    noun, verb = type_.split(".")
    assert noun.isidentifier() and verb.endswith(("ed", "ent", "un", "en", "ound", "one", "uilt"))


def test_an_unknown_type_is_carried_through() -> None:
    payload = b'{"type": "moon.landed", "odd":   "spacing"}'
    event = from_json(payload, "moon.landed")
    assert event == UnknownEvent("moon.landed", payload)
    assert to_json(event) == payload


def test_a_known_type_with_a_new_meaning_is_carried_through() -> None:
    payload = b'{"author":"a committee","text":["not","a","string"],"type":"message.sent","v":2}'
    assert from_json(payload, "message.sent") == UnknownEvent("message.sent", payload)


def test_new_fields_of_a_known_type_survive_a_round_trip() -> None:
    payload = (
        b'{"author":"user","by":"","input":0,"mood":{"a":1,"b":[true,null]},"text":"hi",'
        b'"type":"message.sent","v":1}'
    )
    assert to_json(from_json(payload, "message.sent")) == payload


@given(st.text())
def test_any_text_survives_a_round_trip(text: str) -> None:
    event = MessageSent(author="agent", text=text)
    assert from_json(to_json(event), "message.sent") == event


def test_events_are_frozen_and_checked() -> None:
    event = MessageSent(author="user", text="hi")
    with pytest.raises(ValidationError):
        event.text = "changed"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        MessageSent(author="stranger", text="hi")  # type: ignore[arg-type]


def test_the_schema_names_every_event() -> None:
    assert set(json_schema()["discriminator"]["mapping"]) == set(EVENT_TYPES)
