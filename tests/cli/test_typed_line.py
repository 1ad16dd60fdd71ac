"""What a line means."""

import pytest

from hutch.cli.screens.typed_line import Said, answer_to, parse_line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", Said("message", {"text": "hello"})),
        ("//etc is not a command", Said("message", {"text": "/etc is not a command"})),
        ("/cancel", Said("cancel")),
        ("/end it is merged", Said("end", {"reason": "it is merged"})),
        ("/quit", Said("leave")),
        ("/nonsense", Said("unknown", {"why": "There is no /nonsense. /help tells what there is."})),
    ],
)
def test_a_line_is_a_message_or_a_command(line: str, said: Said) -> None:
    assert parse_line(line) == said


def test_only_a_plain_answer_is_one() -> None:
    given = {line: answer_to(line) for line in ("Yes", " y ", "s", "session", "a", "ALWAYS", "n", "no")}
    assert list(given.values()) == ["once", "once", "session", "session", "always", "always", "no", "no"]


@pytest.mark.parametrize(
    "line",
    [
        "",
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
def test_a_line_that_only_resembles_an_answer_is_none(line: str) -> None:
    assert answer_to(line) is None
