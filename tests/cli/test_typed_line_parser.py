"""The meaning of a typed line."""

import pytest

from hutch.cli.screens.typed_line_parser import TypedInput, answer_to, parse_line, reason_of_no


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", TypedInput("message", {"text": "hello"})),
        ("//etc is not a command", TypedInput("message", {"text": "/etc is not a command"})),
        ("/cancel", TypedInput("cancel")),
        ("/end it is merged", TypedInput("end", {"reason": "it is merged"})),
        ("/undo", TypedInput("undo")),
        ("/undo 12 merge", TypedInput("undo", {"step": 12, "merge": True})),
        ("/redo keep", TypedInput("redo", {"keep": True})),
        (
            "/redo 12",
            TypedInput("unknown", {"why": "'12' is no option here. Type /redo [merge|keep|discard]."}),
        ),
        ("/quit", TypedInput("leave")),
        (
            "/nonsense",
            TypedInput(
                "unknown",
                {
                    "why": "There is no command /nonsense. /help lists them. "
                    "A command of the repository needs two: //"
                },
            ),
        ),
    ],
)
def test_a_line_is_a_message_or_a_command(line: str, said: TypedInput) -> None:
    assert parse_line(line) == said


def test_only_exact_answers_count() -> None:
    given = {line: answer_to(line) for line in ("Yes", " y ", "s", "session", "ALWAYS", "n", "no")}
    assert list(given.values()) == ["once", "once", "session", "session", "always", "no", "no"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "a",
        "absolutely not",
        "stop it",
        "yes, but not now",
        "yesterday",
        "an",
        "sure",
        "yes\nno",
        "\u017f",
        "\uff59",
    ],
)
def test_a_similar_line_is_no_answer(line: str) -> None:
    assert answer_to(line) is None


def test_a_no_may_have_a_reason() -> None:
    assert reason_of_no("no, not to this remote") == "not to this remote"
    assert reason_of_no(" N: never") == "never"
    for line in ("no", "not now", "nothing", "yes no"):
        assert reason_of_no(line) is None
