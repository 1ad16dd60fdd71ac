"""Text that users type in terminals, in the log: passwords are only counted."""

import asyncio
import re
from pathlib import Path

import pytest

from hutch.domain.events import Event, TerminalPrinted, TerminalTyped
from hutch.sessions.command_and_terminal_recorder import QUIET_DELAY_S
from hutch.sessions.file_and_command_requests import TerminalProgram
from tests.sessions.test_commands_typed_in_terminal import ADA, BEN, PROMPT, Typist, commands, terminal

pytestmark = pytest.mark.anyio


def typed(events: list[Event]) -> list[tuple[str, int, str]]:
    """The typed text; neighbours of one user are joined."""
    found: list[tuple[str, int, str]] = []
    for event in events:
        if isinstance(event, TerminalTyped):
            if found and found[-1][2] == event.by and bool(found[-1][1]) == bool(event.hidden_chars):
                text, hidden, by = found.pop()
                found.append((text + event.text, hidden + event.hidden_chars, by))
            else:
                found.append((event.text, event.hidden_chars, event.by))
    return found


async def test_what_each_user_types_is_recorded_with_any_program(tmp_path: Path) -> None:
    async with terminal(tmp_path) as at:
        await at.type("", PROMPT)
        await at.type("cat\r", "133;C")
        await at.type("Grüße\r", "Grüße\r\nGrüße", by=BEN)
        await at.type("\x04", PROMPT)
        events = await at.close()
    assert typed(events) == [("cat\r", 0, ADA), ("Grüße\r", 0, BEN), ("\x04", 0, ADA)]


PASSWORD = "korrekt-hörse"


@pytest.mark.parametrize(
    "command",
    [
        "stty -echo; echo Ke''y:; read -r answer; stty echo",
        "python3 -c \"import getpass; getpass.getpass('Ke' + 'y:')\"",
    ],
)
async def test_a_password_is_only_counted(tmp_path: Path, command: str) -> None:
    async with terminal(tmp_path) as at:
        await at.type("", PROMPT)
        await at.type(f"{command}; echo go''t\r", "Key:")
        await at.type(f"{PASSWORD}\r", rf"got\r\n.*{PROMPT}")
        await at.type("echo af''ter\r", rf"after\r\n.*{PROMPT}")
        events = await at.close()
    assert typed(events)[1] == ("", len(PASSWORD) + 1, ADA)
    assert "hörse" not in "".join(str(event) for event in events)
    assert commands(events)[-2:] == [
        ("start", "echo af''ter", "/workspace", ADA),
        ("end", "echo af''ter", "0", ADA),
    ]


async def omits_output(at: Typist) -> bool:
    last = 0
    while page := await at.server.log.read(at.session_id, after=last):
        if any(isinstance(each.event, TerminalPrinted) and each.event.skipped_bytes for each in page):
            return True
        last = page[-1].seq
    return False


async def test_a_flood_of_output_does_not_hide_what_is_typed(tmp_path: Path) -> None:
    async with terminal(tmp_path) as at:
        await at.type("", PROMPT)
        await at.type("timeout 300 yes & cat > /dev/null\r", "y\r\ny\r\n")
        lines = [f"line-{number}\r" for number in range(20)]
        for line in lines:
            await at.type(line, "y")
        # On a busy machine it takes a while until there is more output than is recorded.
        while not await omits_output(at):
            lines.append(f"line-{len(lines)}\r")
            await at.type(lines[-1], "y")
        await at.type("\x04", "y")
        events = await at.close()
    text = "".join(event.text for event in events if isinstance(event, TerminalTyped))
    assert text == "timeout 300 yes & cat > /dev/null\r" + "".join(lines) + "\x04"


SECRET = "corr3ct-h0rse-battery"


@pytest.mark.parametrize("program", ["bash", "sh"])
@pytest.mark.parametrize(
    "keys",
    [
        ("corr3ct-h0rX\x7f", "se-battery"),
        ("corr3ct-h0r", "XYZ\x7f\x7f\x7f", "se-battery"),
        ("corX\x7fr3ct-h0rse-bat", "t", "eX\x7f", "ry"),
        ("wrong-word\x17corr3ct-h0rse-", "b\x7fbattery"),
    ],
)
async def test_a_secret_typed_with_mistakes_is_not_in_the_log(
    tmp_path: Path, program: TerminalProgram, keys: tuple[str, ...]
) -> None:
    async with terminal(tmp_path, program) as at:
        at.server.redactor.add_values([SECRET])
        await at.type("", PROMPT)
        await at.type("echo ", "echo ")
        for part in keys:
            await at.type(part, re.escape(part[-1]) if part[-1] != "\x7f" else "\x08")
            await asyncio.sleep(QUIET_DELAY_S * 2)  # a pause, after which text is written
        await at.type(" | tr a-z A-Z\r", rf"BATTERY\r\n.*{PROMPT}")
        events = await at.close()
    logged = "".join(str(event) for event in events)
    assert not [SECRET[at : at + 5] for at in range(len(SECRET) - 4) if SECRET[at : at + 5] in logged]
    assert "[redacted:secret]" in logged
    assert [each[1] for each in commands(events) if each[0] == "start"] == [
        "echo [redacted:secret] | tr a-z A-Z"
    ]
