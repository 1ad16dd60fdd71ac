"""What a command prints is shown as it comes, each line once, and no more of them than fit."""

from typing import Any

from hutch.cli.live import SHOWN_LINES, Live
from hutch.cli.transcript import Line, Transcript


def test_lines_come_when_they_have_ended_and_once() -> None:
    live = Live()
    live.begin()
    assert live.add("stdout", "one\ntw") == ["one"]
    assert live.add("stderr", "oops\n") == ["oops"]
    assert live.add("stdout", "o\n10%\r100%\nthr") == ["two", "100%"]
    assert live.rest("one\ntwo\n100%\nthree\noops\n[exit code 3]") == (["three", "[exit code 3]"], 0)
    assert live.rest("of another") == (["of another"], 0)


def test_no_more_are_shown_than_fit_and_the_rest_is_counted() -> None:
    live, many = Live(), [f"line {number}" for number in range(SHOWN_LINES + 30)]
    assert live.add("stdout", "\n".join(many)) == many[:SHOWN_LINES]
    assert live.rest("\n".join([*many, "[exit code 1]"])) == (["[exit code 1]"], 30)
    assert live.rest("\n".join(many)) == (many[:SHOWN_LINES], 30)


def entry(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "event": {"type": kind, **fields}}


def test_a_session_shows_what_its_agent_runs_before_it_has_ended() -> None:
    transcript = Transcript()
    transcript.entry(entry(1, "tool.called", tool="bash", arguments="{}"))
    printed = {"shell": "agent", "stream": "stdout"}
    assert transcript.entry(entry(2, "shell.printed", text="a\x1b[2J\n", **printed)) == [
        Line("  a\\x1b[2J", "dim")
    ]
    assert transcript.entry(entry(3, "shell.printed", text="mine\n", shell="main", stream="stdout")) == []
    assert transcript.entry(entry(4, "tool.returned", tool="bash", ok=True, text="a\x1b[2J\nb")) == [
        Line("  b", "dim")
    ]
