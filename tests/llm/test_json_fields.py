"""Fields of JSON are read by name at any depth, and a missing one is None."""

import json

import pytest

from hutch.llm.json_fields import Fields, as_json, count, fields


def test_objects_are_read_by_name_at_any_depth() -> None:
    piece = fields({"choices": [{"delta": {"content": "a"}}], "usage": None, "n": 0})
    assert piece.choices[0].delta.content == "a"
    assert (piece.usage, piece.model, piece.choices[0].finish_reason, piece.n) == (None, None, None, 0)


def test_values_other_than_objects_are_returned_unchanged() -> None:
    assert [fields(value) for value in ("x", 1, None, True, [1, "y"])] == ["x", 1, None, True, [1, "y"]]


def test_an_object_can_be_read_as_it_was_sent() -> None:
    item = Fields({"id": "rs", "content": None, "summary": [{"text": "hm"}]})
    assert item.without_nulls() == {"id": "rs", "summary": [{"text": "hm"}]}
    assert item.as_sent("summary") == [{"text": "hm"}]
    assert item.as_sent("missing") is None


def test_only_numbers_count_as_tokens() -> None:
    values = [0, 7, None, "7", -1, 1.5, True, [], Fields({}), 10**30]
    assert [count(value) for value in values] == [0, 7, *[None] * 8]


def test_a_body_is_written_as_json_in_its_order() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "é\n\u2028"}], "stream": True, "a": None}
    assert as_json(body) == json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    assert as_json({"n": 10**30}) == b'{"n":%d}' % 10**30


def test_a_lone_surrogate_raises_an_encoding_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        as_json({"text": "\ud800"})
