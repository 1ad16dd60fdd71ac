"""What a person sees of a run."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hutch.agent.approval import Answer, Scope
from hutch.agent.policy import Rule
from hutch.cli.live import LAST_LINES, SHOWN_LINES
from hutch.cli.run_screen import Screen
from hutch.domain.events import ApprovalAsked, Event, ModelReplied, RunEnded, ToolCalled, ToolReturned
from hutch.llm.seam import Again

pytestmark = pytest.mark.anyio


def test_that_money_is_no_limit_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.event(ModelReplied(run_id="run_1", turn=1, cost_usd=0.1))
    assert capsys.readouterr().out == ""
    for turn in (2, 3):
        screen.event(ModelReplied(run_id="run_1", turn=turn, cost_usd=None))
    assert capsys.readouterr().out.count("is not known, so money cannot be a limit") == 1


EVIL = "\x1b[2J\x1b]0;title\x07\n\u202eforged"


@pytest.mark.parametrize(
    "event",
    [
        ToolCalled(run_id="run_1", call_id="a", tool=EVIL, arguments=EVIL),
        ToolReturned(run_id="run_1", call_id="a", tool=EVIL, ok=False, text=EVIL),
        RunEnded(run_id="run_1", outcome="failed", reason=EVIL),
    ],
    ids=lambda event: event.type,
)
def test_nothing_that_comes_from_elsewhere_drives_the_terminal(
    event: Event, capsys: pytest.CaptureFixture[str]
) -> None:
    Screen().event(event)
    Screen().delta(Again(attempt=2, wait_s=0.0, reason=EVIL))
    shown = capsys.readouterr().out
    assert all(sign.isprintable() or sign == "\n" for sign in shown)
    assert "\nforged" not in shown


async def answered(line: bytes) -> Answer:
    """The answer that `hutch run` takes from this line on its standard input."""
    read, write = os.pipe()
    os.write(write, line)
    os.close(write)
    kept = os.dup(0)
    os.dup2(read, 0)
    try:
        asked = ApprovalAsked(call_id="a", tool=EVIL, summary=EVIL, rule=EVIL)
        return await Screen().approve(asked, (Rule("allow", EVIL, EVIL),))
    finally:
        os.dup2(kept, 0)
        for fd in (read, kept):
            os.close(fd)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"absolutely not\n", "absolutely not"),
        (b"stop it\n", "stop it"),
        (b"yes, but not now\n", "yes, but not now"),
        (b"no\n", ""),
        (b"\n", ""),
        (b"", ""),
    ],
)
async def test_only_a_whole_word_is_consent(line: bytes, reason: str) -> None:
    assert await answered(line) == Answer(allowed=False, reason=reason, by="terminal")


@pytest.mark.parametrize(
    ("line", "scope"), [(b"Y\n", "once"), (b"yes\n", "once"), (b"s\n", "session"), (b"always\n", "always")]
)
async def test_a_whole_word_allows(line: bytes, scope: Scope) -> None:
    assert await answered(line) == Answer(allowed=True, scope=scope, by="terminal")


async def test_a_line_typed_before_the_question_does_not_answer_it() -> None:
    terminal, other = pty.openpty()
    kept = os.dup(0)
    os.dup2(other, 0)
    try:
        os.write(terminal, b"yes\n")
        asked = ApprovalAsked(call_id="a", tool="bash", summary="git push", rule="ask bash")
        approving = asyncio.ensure_future(Screen().approve(asked, ()))
        await asyncio.sleep(0)  # the question is asked
        os.write(terminal, b"not now\n")
        assert await approving == Answer(allowed=False, reason="not now", by="terminal")
    finally:
        os.dup2(kept, 0)
        for fd in (terminal, other, kept):
            os.close(fd)


async def test_the_question_for_an_approval_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    answer = await answered(b"n\n")
    shown = capsys.readouterr().out
    assert not answer.allowed
    assert all(sign.isprintable() or sign == "\n" for sign in shown) and shown.count("\n") == 1


@contextmanager
def on_terminal(rows: int, columns: int) -> Iterator[None]:
    """Our standard output is a terminal of this size."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    kept = os.dup(1)
    os.dup2(other, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        for fd in (main, other, kept):
            os.close(fd)


def seen(written: str, columns: int) -> list[str]:
    """What a terminal shows of this: it knows colours, lines, going up and wiping what is below."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9]*[A-Za-z]|[\n\r]|[^\x1b\n\r]+", written):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[J":
            del lines[row + 1 :]
            lines[row] = ""
        elif part.startswith("\x1b[") and part.endswith("A"):
            row -= int(part[2:-1])
            assert row >= 0
        elif not part.startswith("\x1b[") and part != "\r":
            lines[row] += part
            assert len(lines[row]) < columns
    return [line for line in lines if line]


WIDE = "wide\t" * 3


def run_long(screen: Screen, numbers: range) -> Iterator[None]:
    screen.event(ToolCalled(run_id="run_1", call_id="a", tool="bash", arguments='{"command": "long"}'))
    for number in numbers:
        screen.output("agent", "stdout", f"line {number} {WIDE}\x1b[2J\n".encode())
        yield


def test_a_long_command_moves_in_a_window_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    written, columns = "", 70
    with on_terminal(24, columns):
        screen = Screen()
        for number, _ in enumerate(run_long(screen, range(200))):
            written += capsys.readouterr().out
            lines = seen(written, columns)
            assert f"line {number} " in lines[-1]
            assert len(lines) == min(number + 2, 1 + SHOWN_LINES + 1 + LAST_LINES)
        assert lines[1 + SHOWN_LINES] == f"  … {200 - SHOWN_LINES - LAST_LINES} more lines"
        printed = "\n".join(f"line {number} {WIDE}\x1b[2J" for number in range(200))
        text = f"{printed}\n[exit code 3]"
        screen.event(ToolReturned(run_id="run_1", call_id="a", tool="bash", ok=False, text=text))
        screen.event(RunEnded(run_id="run_1", outcome="failed", reason="It failed."))
    after = seen(written + capsys.readouterr().out, 200)
    assert after[: 1 + SHOWN_LINES] == lines[: 1 + SHOWN_LINES]
    assert after[1 + SHOWN_LINES].endswith(f"… {201 - SHOWN_LINES - LAST_LINES} more lines")
    assert "line 199" in after[-3] and after[-2].endswith("[exit code 3]") and "It failed." in after[-1]


def test_no_window_where_it_would_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    with on_terminal(LAST_LINES + 2, 70):
        for _ in run_long(Screen(), range(50)):
            pass
    assert "\x1b[J" not in capsys.readouterr().out


def test_elsewhere_the_first_lines_come_at_once_and_the_last_with_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read, write = os.pipe()
    kept = os.dup(1)
    os.dup2(write, 1)
    try:
        screen = Screen()
        for _ in run_long(screen, range(50)):
            pass
        before = capsys.readouterr().out
        text = "\n".join(f"line {number} {WIDE}\x1b[2J" for number in range(50))
        screen.event(ToolReturned(run_id="run_1", call_id="a", tool="bash", ok=True, text=text))
    finally:
        os.dup2(kept, 1)
        for fd in (read, write, kept):
            os.close(fd)
    after = capsys.readouterr().out
    assert "\x1b" not in before + after
    assert before.count("\n") == 1 + SHOWN_LINES and f"line {SHOWN_LINES - 1} " in before
    assert after.splitlines()[0] == f"  … {50 - SHOWN_LINES - LAST_LINES} more lines"
    assert len(after.splitlines()) == 1 + LAST_LINES and "line 49 " in after
