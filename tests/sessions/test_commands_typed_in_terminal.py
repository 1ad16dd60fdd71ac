"""Commands typed in terminals, as events: real shells in real jails, and programs that print false marks."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.domain.events import CommandEnded, CommandStarted, Event, TerminalPrinted, TerminalTyped
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions.file_and_command_requests import (
    CloseTerminal,
    OpenTerminal,
    RunCommand,
    TakeSnapshot,
    TerminalProgram,
)
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import owner, serving, state, until

pytestmark = pytest.mark.anyio

SHELLS: tuple[TerminalProgram, ...] = ("bash", "zsh", "sh")
PROMPT = "133;B"
PRINT_KEY = (
    "echo \"${__hutch_key-$PS1}\" | sed 's/.*hutch=//; s/;.*//'"  # prints the key of the shell's marks
)
ADA, BEN = "usr_ada", "usr_ben"


class Typist:
    """A session with one terminal, at which users type."""

    def __init__(self, server: Server, session_id: SessionId, terminal: str) -> None:
        self.server, self.session_id, self.terminal = server, session_id, terminal
        self.seen = b""

    async def type(self, text: str, shown: str, by: str = ADA) -> None:
        """Type as a user, and wait until the output matches."""
        watched = self.server.host.terminal(
            self.session_id, self.terminal, resume=len(self.seen), masked=False, by=by
        )
        async with asyncio.timeout(DEADLINE_S), watched as viewer:
            await viewer.write(text.encode())
            start = len(self.seen)
            async for _, data in viewer:
                self.seen += data
                viewer.acknowledge(len(data))
                if re.search(shown.encode(), self.seen[start:], re.DOTALL):
                    return

    async def learn_key(self) -> bytes:
        """The key of the shell's marks, which only code in the shell itself can print."""
        await self.type(f"{PRINT_KEY} | sed 's/./&_/g'\n", rf"([0-9a-f]_){{32}}\r\n.*{PROMPT}")
        [found] = re.findall(rb"(?:[0-9a-f]_){32}", self.seen)
        return bytes(found.replace(b"_", b""))

    async def close(self) -> list[Event]:
        """Close the terminal; all events of the session."""
        await self.server.host.call(self.session_id, CloseTerminal(self.terminal))
        return await until(self.server, self.session_id, "terminal.ended")


@asynccontextmanager
async def terminal(
    tmp_path: Path, program: TerminalProgram = "bash", setup: str = ""
) -> AsyncIterator[Typist]:
    async with serving(tmp_path) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        if setup:
            await server.host.call(session.id, RunCommand(setup))
        opened = await server.host.call(session.id, OpenTerminal(program=program), by=ADA)
        yield Typist(server, session.id, opened.id)


def commands(events: list[Event]) -> list[tuple[str, ...]]:
    """The starts and ends of commands in terminals."""
    return [
        ("start", event.command, event.cwd, event.by)
        if isinstance(event, CommandStarted)
        else ("end", event.command, str(event.exit_code), event.by)
        for event in events
        if isinstance(event, CommandStarted | CommandEnded) and event.terminal
    ]


@pytest.mark.parametrize("program", SHELLS)
async def test_each_command_is_an_event_with_the_user_who_typed_it(
    tmp_path: Path, program: TerminalProgram
) -> None:
    async with terminal(tmp_path, program) as at:
        await at.type("", PROMPT)
        await at.type("echo one-$((1 + 1)); false\n", rf"one-2\r\n.*{PROMPT}")
        await at.type("cd /tmp\n", rf"cwd=/tmp.*{PROMPT}", by=BEN)
        await at.type("echo two-$((2 + 2))\n", rf"two-4\r\n.*{PROMPT}")
        events = await at.close()
    assert commands(events) == [
        ("start", "echo one-$((1 + 1)); false", "/workspace", ADA),
        ("end", "echo one-$((1 + 1)); false", "1", ADA),
        ("start", "cd /tmp", "/workspace", BEN),
        ("end", "cd /tmp", "0", BEN),
        ("start", "echo two-$((2 + 2))", "/tmp", ADA),
        ("end", "echo two-$((2 + 2))", "0", ADA),
    ]


READS = "echo re''ady; read x; echo g''ot:$x; until test -e go; do sleep 0.02; done"


@pytest.mark.parametrize(("ahead", "author"), [(ADA, ""), (BEN, BEN)])
@pytest.mark.parametrize("program", SHELLS)
async def test_an_answer_to_a_program_is_not_taken_for_the_line_of_another_user(
    tmp_path: Path, program: TerminalProgram, ahead: str, author: str
) -> None:
    """Which of two equal lines the program has read is not known, so the command has no author."""
    async with terminal(tmp_path, program) as at:
        await at.type("", PROMPT)
        await at.type(f"{READS}\n", r"ready\r\n")  # before that, zsh itself would read the answer
        await at.type("echo h''i\n", "got:echo h''i\r\n", by=BEN)  # the answer
        await at.type("echo h''i\n", "echo h''i\r\n", by=ahead)
        await at.server.host.call(at.session_id, RunCommand("touch go"))
        await at.type("", rf"hi\r\n.*{PROMPT}")
        await at.type("echo la''st\n", rf"last\r\n.*{PROMPT}")
        events = await at.close()
    assert [each for each in commands(events) if each[0] == "start"] == [
        ("start", READS, "/workspace", ADA),
        ("start", "echo h''i", "/workspace", author),
        ("start", "echo la''st", "/workspace", ADA),
    ]


@pytest.mark.parametrize("program", SHELLS)
async def test_a_program_that_prints_marks_reports_no_command(
    tmp_path: Path, program: TerminalProgram
) -> None:
    forged = (
        r"printf '\033]133;D;0;cwd=/\007\033]133;C;command=evil\007\033]133;C;hutch=%032d;command=evil\007"
        r"\033]133;C;hutch=;command=evil\033\\\\\033]133;D;0;hutch=%032d;typed=1;cwd=/evil\007' 0 0"
    )
    async with terminal(tmp_path, program) as at:
        await at.type("", PROMPT)
        await at.type(f"{forged}; echo done-$((1 + 1))\n", rf"done-2\r\n.*{PROMPT}")
        await at.type("pwd\n", rf"/workspace\r\n.*{PROMPT}")
        events = await at.close()
    result = commands(events)
    assert [each for each in result if "evil" in each[1] and "printf" not in each[1]] == []
    assert [each[0] for each in result] == ["start", "end", "start", "end"]
    assert result[2:] == [("start", "pwd", "/workspace", ADA), ("end", "pwd", "0", ADA)]


STEAL = r"""
for place in /proc/[0-9]*; do
    tr '\0' '\n' < $place/environ; tr '\0' '\n' < $place/cmdline
    for fd in $place/fd/*; do case $(readlink $fd) in socket:*) timeout 1 cat $fd;; esac; done
done 2> /dev/null
cat /run/hutch/shell/* ~/.* 2> /dev/null
"""


@pytest.mark.parametrize("program", SHELLS)
async def test_the_key_is_in_no_environment_file_log_or_view(
    tmp_path: Path, program: TerminalProgram
) -> None:
    async with terminal(tmp_path, program) as at:
        await at.type("", PROMPT)
        await at.type("echo one-$((1 + 1))\n", rf"one-2\r\n.*{PROMPT}")
        key = await at.learn_key()
        found = await at.server.host.call(at.session_id, RunCommand(STEAL))
        await at.type("env; echo two-$((2 + 2))\n", rf"two-4\r\n.*{PROMPT}")
        events = await at.close()
    assert len(found.stdout) > 1000
    assert key.decode() not in found.stdout
    assert key.decode() not in "".join(str(event) for event in events)
    shown = re.sub(rb"\x1b\].*?(\x07|\x1b\\)", b"", at.seen)
    assert key not in at.seen and b"hutch=" + 32 * b"*" in at.seen
    assert b"HUTCH_" not in shown and b"/run/hutch" not in shown


async def test_output_of_a_command_is_between_its_start_and_its_end(tmp_path: Path) -> None:
    async with terminal(tmp_path) as at:
        await at.type("seq 1000; echo last-$((1 + 1))\n", rf"last-2\r\n.*{PROMPT}")
        await at.type("echo next-$((1 + 2))\n", rf"next-3\r\n.*{PROMPT}")
        events = await at.close()
    kinds = [event.type for event in events]
    start, end = kinds.index("command.started"), kinds.index("command.ended")
    texts = [each.text if isinstance(each, TerminalPrinted) else "" for each in events]
    during = "".join(texts[start:end])
    assert "1000\r\nlast-2\r\n" in during
    assert "last-2" not in "".join(texts[:start]) + "".join(texts[end:])
    assert "next-3" not in "".join(texts[:end])
    typed = [number for number, event in enumerate(events) if isinstance(event, TerminalTyped)]
    assert typed[0] < start


@pytest.mark.parametrize("program", ["bash", "zsh"])
async def test_lines_history_and_typing_ahead(tmp_path: Path, program: TerminalProgram) -> None:
    setup = "echo HISTCONTROL=ignoreboth > ~/.bashrc; echo setopt histignorespace histignoredups > ~/.zshrc"
    async with terminal(tmp_path, program, setup) as at:
        await at.type("", PROMPT)
        await at.type("echo 'a\nb' one-$((1 + 1))\n", rf"one-2\r\n.*{PROMPT}")
        await at.type(" echo hid-$((1 + 1))\n", rf"hid-2\r\n.*{PROMPT}")
        await at.type("echo x;#\n", rf"x\r\n.*{PROMPT}")
        await at.type("\x1b[A\n", rf"x\r\n.*{PROMPT}", by=BEN)
        await at.type("cat\n", "133;C")
        await at.type("in-program\n", r"in-program\r\nin-program\r\n")
        await at.type("\x04", PROMPT)
        await at.type("sleep 0.5\necho ahead-$((1 + 1))\n", rf"ahead-2\r\n.*{PROMPT}")
        events = await at.close()
    result = [each[1:] for each in commands(events) if each[0] == "start"]
    assert [each[0] for each in result] == [
        "echo 'a\nb' one-$((1 + 1))",
        " echo hid-$((1 + 1))",
        "echo x;#",
        "echo x;#",
        "cat",
        "sleep 0.5",
        "echo ahead-$((1 + 1))",
    ]
    assert [each[2] for each in result] == [ADA, ADA, ADA, BEN, ADA, ADA, ADA]


async def test_sh_commands_are_the_lines_that_were_typed(tmp_path: Path) -> None:
    async with terminal(tmp_path, "sh") as at:
        await at.type("", PROMPT)
        await at.type("echo oops\x7f\x7f\x7f\x7fone-$((1 + 1))\n\n", rf"one-2\r\n.*{PROMPT}.*{PROMPT}")
        await at.type("for i in 1 2\n", "k=s")
        await at.type("do echo $i; done\n", rf"\n2\r\n.*{PROMPT}")
        await at.type("for i in 3 4\ndo\necho $i\ndone\n", rf"\n4\r\n.*{PROMPT}")  # pasted
        # The mark follows the output of `cat`, and not the echo of the lines that are typed ahead.
        await at.type("sleep 0.5\ncat <<E\na\n\nb\nE\n", rf"b\r\n\x1b]133;D.*{PROMPT}")
        await at.type("cat\n", "cat\r\n")
        await at.type("in-program\n", r"in-program\r\nin-program\r\n", by=BEN)
        await at.type("\x04", PROMPT)
        await at.type("sleep 0.5\necho ahead-$((1 + 1))\n", rf"ahead-2\r\n.*{PROMPT}")
        events = await at.close()
    result = commands(events)
    assert result == [
        ("start", "echo one-$((1 + 1))", "/workspace", ADA),
        ("end", "echo one-$((1 + 1))", "0", ADA),
        ("start", "for i in 1 2", "/workspace", ADA),
        ("end", "for i in 1 2\ndo echo $i; done", "0", ADA),
        ("start", "for i in 3 4", "/workspace", ADA),
        ("end", "for i in 3 4\ndo\necho $i\ndone", "0", ADA),
        ("start", "sleep 0.5", "/workspace", ADA),
        ("end", "sleep 0.5", "0", ADA),
        ("start", "cat <<E", "/workspace", ADA),
        ("end", "cat <<E\na\n\nb\nE", "0", ADA),
        ("start", "cat", "/workspace", ADA),
        ("end", "cat", "0", ADA),
        ("start", "sleep 0.5", "/workspace", ADA),
        ("end", "sleep 0.5", "0", ADA),
        ("start", "echo ahead-$((1 + 1))", "/workspace", ADA),
        ("end", "echo ahead-$((1 + 1))", "0", ADA),
    ]


@pytest.mark.parametrize("program", SHELLS)
async def test_every_event_of_a_terminal_names_its_author(tmp_path: Path, program: TerminalProgram) -> None:
    async with terminal(tmp_path, program) as at:
        await at.type("", PROMPT)
        watched = at.server.host.terminal(at.session_id, at.terminal, by=BEN)
        async with watched as viewer:
            viewer.resize(90, 20)
        await at.type("for i in 1 2\ndo\necho $i\ndone\n", rf"\n2\r\n.*{PROMPT}")
        await at.server.host.call(at.session_id, TakeSnapshot("mine"), by=BEN)
        await at.type("sleep 1000 &\n", PROMPT)
        await until(at.server, at.session_id, "jobs.detached")
        await at.server.host.call(at.session_id, CloseTerminal(at.terminal), by=BEN)
        events = await until(at.server, at.session_id, "jobs.ended")
    authors = [
        (event.type, getattr(event, "by", ""))
        for event in events
        if event.type.startswith(("terminal.resized", "terminal.ended", "jobs", "snapshot"))
    ]
    assert authors == [
        ("terminal.resized", BEN),
        ("snapshot.taken", BEN),
        ("jobs.detached", ADA),  # and none after the commands before: these left nothing
        ("terminal.ended", BEN),
        ("jobs.ended", ""),
    ]


SLEEP = "sh -c 'echo $((1 + 1)); exec sleep 1000'"  # it prints when it is in the foreground


@pytest.mark.parametrize("program", ["bash", "zsh"])
async def test_jobs_interrupts_and_other_shells_work_as_usual(
    tmp_path: Path, program: TerminalProgram
) -> None:
    async with terminal(tmp_path, program) as at:
        await at.type("", PROMPT)
        await at.type(f"{SLEEP}\n", r"\n.*2\r\n")
        await at.type("\x1a", rf"(Stopped|suspended).*{PROMPT}")
        await at.type("kill %1; wait; echo gone\n", rf"[^ ]gone\r\n.*{PROMPT}")
        await at.type("half a line\x03", PROMPT)
        await at.type(f"{SLEEP}\n", r"\n.*2\r\n")
        await at.type("\x03", rf"133;D;130.*{PROMPT}")
        await at.type("(exit 7)\n", rf"133;D;7.*{PROMPT}")
        await at.type("PS1=$'\\e[31mred\\e[0m> '\n", rf"133;A.*\x1b\[31mred\x1b\[0m> .*{PROMPT}")
        await at.type("sh -i\n", r"133;C.*[$] ")
        await at.type("echo inner-$((1 + 1))\n", r"inner-2\r\n[$] ")
        await at.type("exit\n", PROMPT)
        await at.type("exec sh -i\n", r"133;C.*[$] ")
        await at.type("echo later-$((1 + 1))\n", r"later-2\r\n[$] ")
        await at.type("exit 5\n", "exit|$")
        events = await until(at.server, at.session_id, "terminal.ended")
    result = [(each[1], each[2]) for each in commands(events) if each[0] == "end"]
    assert result == [
        (SLEEP, "148"),
        ("kill %1; wait; echo gone", "0"),
        (SLEEP, "130"),
        ("(exit 7)", "7"),
        ("PS1=$'\\e[31mred\\e[0m> '", "0"),
        ("sh -i", "0"),
        ("exec sh -i", "5"),
    ]


async def test_a_full_screen_program_sees_a_usual_terminal(tmp_path: Path) -> None:
    program = "import curses; curses.wrapper(lambda screen: screen.getkey())"
    async with terminal(tmp_path) as at:
        await at.type("", PROMPT)
        await at.type(f"python3 -c '{program}'; stty -a | grep -o ' echo '\n", r"\x1b\[\?1049h")
        start = len(at.seen)
        await at.type("q", rf"\x1b\[\?1049l.* echo \r\n.*{PROMPT}")
        events = await at.close()
    assert b"133;C" not in at.seen[start:]
    assert [each[2] for each in commands(events) if each[0] == "end"] == ["0"]


@pytest.mark.parametrize(("program", "name"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("zsh", ".zshenv")])
async def test_the_users_own_startup_file_is_read(
    tmp_path: Path, program: TerminalProgram, name: str
) -> None:
    setup = (
        f'echo \'alias greet="echo hello-"; OWN=own-value; PS1="mine> "; '
        f'PROMPT_COMMAND="echo also-mine"; precmd() {{ echo also-mine; }}; set -o noclobber\' > ~/{name}'
    )
    async with terminal(tmp_path, program, setup) as at:
        await at.type("", f"also-mine.*mine> .*{PROMPT}")
        await at.type("greet $OWN; false\n", rf"hello-.*also-mine.*{PROMPT}")
        await at.type("echo $?; ls -A /workspace | wc -l\n", rf"\x1b\\1\r\n *0\r\n.*{PROMPT}")
        events = await at.close()
    assert [each[1:3] for each in commands(events) if each[0] == "end"] == [
        ("greet $OWN; false", "1"),
        ("echo $?; ls -A /workspace | wc -l", "0"),
    ]


async def test_a_command_that_leaves_no_job_reports_none(tmp_path: Path) -> None:
    async with terminal(tmp_path) as at:
        await at.type("", PROMPT)
        for number in range(3):
            await at.type(f"sleep 0.1; echo {number}-$((1 + 1))\n", rf"{number}-2\r\n.*{PROMPT}")
        events = await at.close()
    assert [event.type for event in events if event.type.startswith("jobs.")] == []
