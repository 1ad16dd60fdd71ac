"""Ids, arguments and tokens of calls."""

import pytest

from hutch.llm.interface import Call, FromModel, FromUser, Request, Usage
from hutch.llm.reply_normalization import CallIds, Meter, json_arguments, json_object


def test_ids_occur_once_in_a_conversation() -> None:
    ids = CallIds(Request("", (FromUser("go"), FromModel("", (Call("a", "bash", "{}"),)))))
    assert [
        ids.take(result) for result in ("b", "a", "a", None, "", "b", "no blanks", "functions.bash:0")
    ] == [
        "b",
        "a_2",
        "a_3",
        "call_4",
        "call_5",
        "b_6",
        "call_7",
        "functions.bash:0",
    ]


def test_a_meter_returns_increments() -> None:
    meter = Meter()
    totals = [Usage(10, 2), Usage(10, 2), Usage(10, 2, 0, 5)]
    assert [meter.read(total) for total in totals] == [Usage(10, 2), None, Usage(output=5)]


def test_a_meter_never_runs_backwards() -> None:
    meter = Meter()
    totals = [Usage(10, 2), Usage(3, 0), Usage(11, 2, 0, 5)]
    assert [meter.read(total) for total in totals] == [Usage(10, 2), None, Usage(1, output=5)]


@pytest.mark.parametrize(
    ("arguments", "value", "text"),
    [
        ('{"a":  1}', {"a": 1}, '{"a":  1}'),
        ("", {}, "{}"),
        ("{oops", {"invalid": "{oops"}, '{"invalid": "{oops"}'),
        ("[1]", {"invalid": "[1]"}, '{"invalid": "[1]"}'),
        ("[" * 100_000, {"invalid": "[" * 100_000}, None),
    ],
)
def test_arguments_are_sent_back_as_an_object(
    arguments: str, value: dict[str, object], text: str | None
) -> None:
    call = Call("a", "bash", arguments)
    assert json_object(call) == value
    assert text is None or json_arguments(call) == text
