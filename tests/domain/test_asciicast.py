"""Recordings of terminals, line by line, as the specification of asciicast version 3 has them."""

import json

from hutch.domain.asciicast import TerminalRecording
from hutch.domain.events import (
    AnyEvent,
    CommandEnded,
    CommandStarted,
    Entry,
    ErasedEvent,
    EventsOmitted,
    TerminalEnded,
    TerminalOpened,
    TerminalPrinted,
    TerminalResized,
    TerminalTyped,
    WithheldEvent,
)
from hutch.domain.ids import SessionId

SESSION = SessionId("ses_01")
OPENED = TerminalOpened(terminal="1", columns=80, rows=24)


def recorded(*events: tuple[int, AnyEvent]) -> list[str]:
    """The lines for events at these milliseconds."""
    recording = TerminalRecording("1")
    entries = [Entry(SESSION, seq, at_ms, event, "") for seq, (at_ms, event) in enumerate(events, 1)]
    return [line.decode() for entry in entries for line in recording.lines(entry)]


def test_a_whole_recording() -> None:
    lines = recorded(
        (1_000_000, TerminalPrinted(terminal="1", text="before")),
        (1_504_467_315_250, OPENED),
        (1_504_467_315_500, TerminalPrinted(terminal="1", text="\x1b[1m$ é\r\n")),
        (1_504_467_315_501, TerminalPrinted(terminal="2", text="another terminal")),
        (1_504_467_316_500, TerminalTyped(terminal="1", text="ls\r")),
        (1_504_467_316_501, TerminalTyped(terminal="1", text="", hidden_chars=5)),
        (1_504_467_316_600, CommandStarted(terminal="1", command="ls\n  -l", cwd="/")),
        (1_504_467_316_700, CommandStarted(shell="main", command="make", cwd="/")),
        (1_504_467_316_400, TerminalResized(terminal="1", columns=90, rows=30)),
        (1_504_467_317_600, CommandEnded(terminal="1", command="ls", cwd="/", exit_code=0, duration_s=1)),
        (1_504_467_318_100, TerminalEnded(terminal="1", exit_code=3)),
        (1_504_467_319_000, TerminalPrinted(terminal="1", text="after")),
    )
    header, *events = [json.loads(line) for line in lines]
    assert header == {
        "version": 3,
        "term": {"cols": 80, "rows": 24, "type": "xterm-256color"},
        "timestamp": 1_504_467_315,
        "title": "Terminal 1 of ses_01",
    }
    assert events == [
        [0.25, "o", "\x1b[1m$ é\r\n"],
        [1.0, "i", "ls\r"],
        [0.1, "m", "ls -l"],
        [0.0, "r", "90x30"],
        [1.5, "x", "3"],
    ]
    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)


def test_what_is_missing_is_named() -> None:
    omitted = EventsOmitted(
        cause="limit",
        reason="The log is full.",
        since_ms=0,
        until_ms=0,
        count=1,
        types={"terminal.printed": 1},
    )
    assert recorded(
        (0, OPENED),
        (0, TerminalPrinted(terminal="1", text="end", skipped_bytes=12345)),
        (0, omitted),
        (0, ErasedEvent("terminal.printed", 0, "a name")),
        (0, WithheldEvent("terminal.typed")),
        (0, WithheldEvent("message.sent")),
    )[1:] == [
        '[0.0,"m","12,345 bytes of output are not recorded"]\n',
        '[0.0,"o","end"]\n',
        '[0.0,"m","Events are missing here: The log is full."]\n',
        "# event 4 (terminal.printed) is erased\n",
        "# event 5 (terminal.typed) is withheld\n",
    ]


def test_a_recording_ends_where_another_terminal_has_its_id() -> None:
    lines = recorded(
        (0, OPENED),
        (0, TerminalPrinted(terminal="1", text="a")),
        (0, OPENED),
        (0, TerminalEnded(terminal="1")),
    )
    assert [json.loads(line)[1] for line in lines[1:]] == ["o"]
