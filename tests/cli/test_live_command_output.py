"""The output of a command is shown as it comes, each line once, up to the height of the screen."""

from typing import Any

from hutch.agent.tools.bash import STDERR
from hutch.cli.render.live_command_output import FIRST_LINES, LAST_LINES, LiveOutput, Window
from hutch.cli.render.transcript import Line, Transcript


def test_finished_lines_are_shown_once() -> None:
    live = LiveOutput()
    live.begin()
    assert live.add("stdout", "one\ntw") == ["one"]
    assert live.add("stderr", "oops\n") == ["oops"]
    assert live.add("stdout", "o\n10%\r100%\nthr") == ["two", "100%"]
    assert live.rest("one\ntwo\n100%\nthree\noops\n[exit code 3]") == (["three", "[exit code 3]"], 0)
    assert live.rest("of another") == (["of another"], 0)


def test_the_mark_of_standard_error_is_not_left_alone() -> None:
    live = LiveOutput()
    live.add("stdout", "out\n")
    live.add("stderr", "oops\n")
    assert live.rest(f"out\n{STDERR}\noops\n[exit code 3]") == (["[exit code 3]"], 0)
    live.add("stdout", "out\n")
    assert live.rest(f"out\n{STDERR}\noops") == ([STDERR, "oops"], 0)
    assert live.rest(f"{STDERR}\noops") == ([STDERR, "oops"], 0)


def test_the_first_and_last_lines_are_shown_and_the_others_counted() -> None:
    live, many = LiveOutput(), [f"line {number}" for number in range(FIRST_LINES + 30)]
    assert live.add("stdout", "\n".join(many)) == many[:FIRST_LINES]
    result = ["… 27 more lines", *many[-3:], "[exit code 1]"]
    assert live.rest("\n".join([*many, "[exit code 1]"])) == (result, 0)
    assert live.rest("\n".join(many)) == (many[:FIRST_LINES], 30)  # nobody saw them come


def test_lines_cut_from_a_result_are_counted() -> None:
    live, many = LiveOutput(), [f"line {number}" for number in range(FIRST_LINES + 5000)]
    live.add("stdout", "\n".join([*many, ""]))
    cut = [*many[:20], "[... 60,000 characters omitted ...]", *many[-20:]]
    assert live.rest("\n".join(cut)) == (["… 4,996 more lines", *many[-LAST_LINES:]], 0)


def test_the_window_follows_the_output() -> None:
    live, many = LiveOutput(), [f"line {number}" for number in range(FIRST_LINES + 5)]
    for line in many[: FIRST_LINES + 1]:
        assert live.window() == []
        live.add("stdout", f"{line}\n")
    assert live.window() == many[FIRST_LINES : FIRST_LINES + 1]
    for line in many[FIRST_LINES + 1 :]:
        live.add("stderr", f"10%\r{line}\r\n")
    assert live.window() == ["… 1 more line", *many[-LAST_LINES:]]
    live.add("stdout", "x" * 10_000_000 + "\n")
    assert len("".join(live.window())) < 5000
    live.begin()
    assert live.window() == []


def test_a_window_is_redrawn_and_cleared() -> None:
    window = Window()
    assert window.clear() == ""
    assert window.draw(["one"]) == "one\n"
    assert window.draw(["two", "three"]) == "\x1b[1A\r\x1b[Jtwo\nthree\n"
    assert (window.clear(), window.clear()) == ("\x1b[2A\r\x1b[J", "")


def entry(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "event": {"type": kind, **fields}}


def test_output_is_shown_while_the_command_runs() -> None:
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
