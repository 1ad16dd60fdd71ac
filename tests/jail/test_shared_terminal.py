"""Terminals in a jail: real programs on them, replay by byte number, and back-pressure."""

import asyncio
import math
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.jail.interface import Exit, Size
from hutch.jail.jail_startup import Jailed
from hutch.jail.shared_terminal import (
    BATCH_S,
    PAUSE_BYTES,
    RESUME_BYTES,
    RING_BYTES,
    Ring,
    Terminal,
    TerminalReader,
    open_terminal,
)
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

KEYS_AND_HANGUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1)
FLOOD = ("sh", "-c", "yes 'all work and no play makes jack a dull boy'")


class Screen:
    """A user at a terminal: types, and waits for expected output."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.reader = terminal.attach()
        self.printed = b""
        self._from = 0
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for _, data in self.reader:
            self.printed += data
            self.reader.acknowledge(len(data))

    @property
    def shown(self) -> bytes:
        """All output, without bash's announcements that it can take a paste."""
        return re.sub(rb"\x1b\[\?2004[hl]\r?", b"", self.printed)

    async def type(self, text: str) -> None:
        await self.terminal.write(text.encode())

    async def see(self, pattern: str, within_s: float = 60.0) -> "re.Match[bytes]":
        """Wait for output that was not seen yet."""
        deadline = time.monotonic() + within_s
        while not (found := re.search(pattern.encode(), self.shown[self._from :], re.S)):
            assert time.monotonic() < deadline, f"{pattern} is not in {self.shown[self._from :]!r}"
            await asyncio.sleep(0.005)
        self._from += found.end()
        return found

    def stop(self) -> None:
        self._task.cancel()


@asynccontextmanager
async def screen(jail: Jailed, *argv: str, size: Size | None = None) -> AsyncIterator[Screen]:
    words = argv or ("/bin/bash", "--norc")
    async with open_terminal(jail, words, size=size, env={"PS1": "ready> "}) as terminal:
        opened = Screen(terminal)
        try:
            yield opened
        finally:
            opened.stop()


async def collect(reader: TerminalReader) -> bytes:
    """All bytes that a viewer gets until the end."""
    all_ = b""
    async for _, data in reader:
        all_ += data
        reader.acknowledge(len(data))
    return all_


async def stays_at(terminal: Terminal, seq: int) -> None:
    """Wait for this many bytes, and a little longer to check that no more come."""
    async with asyncio.timeout(60):
        while terminal.seq < seq:  # noqa: ASYNC110 (it continues without viewers, and so do we)
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    assert terminal.seq == seq


# --- real programs ---


async def test_bash_has_a_controlling_terminal_of_its_own(jail: Jailed) -> None:
    async with screen(jail) as person:
        await person.see("ready> ")
        await person.type("tty; test -t 0 && test -t 1 && test -t 2 && echo all-three\n")
        await person.see(r"/dev/pts/\d+\r\nall-three\r\n")
        await person.type("echo from >/dev/tty\n")
        await person.see("\r\nfrom\r\n")


async def test_ctrl_c_interrupts_the_program_and_not_the_shell(jail: Jailed) -> None:
    async with screen(jail) as person:
        await person.type("sh -c 'echo be''gun; exec sleep 100'; echo code=$?\n")
        await person.see("\nbegun\r\n")
        await person.type("\x03")
        await person.see("ready> ")
        await person.type("echo alive\n")
        await person.see("\r\nalive\r\n")


async def test_ctrl_z_stops_and_fg_resumes(jail: Jailed) -> None:
    async with screen(jail) as person:
        await person.type("sh -c 'echo be''gun; exec sleep 100'\n")
        await person.see("\nbegun\r\n")
        await person.type("\x1a")
        await person.see(r"Stopped +sh -c .*sleep 100")
        await person.type("jobs; bg; jobs\n")
        await person.see("Running +sh -c .*sleep 100")
        await person.type("fg\n")
        await person.see(r"sleep 100'\r\n")
        await person.type("\x03")
        await person.see("ready> ")
        await person.type("jobs; echo no-more-jobs\n")
        await person.see("\nno-more-jobs\r\n")


async def test_a_new_size_reaches_the_program(jail: Jailed) -> None:
    async with screen(jail, size=Size(rows=30, columns=100)) as person:
        await person.type("trap 'echo size is $(stty size)' WINCH; stty size\n")
        await person.see("\r\n30 100\r\n.*ready> ")  # bash has the terminal back, and so gets the signal
        person.terminal.resize(Size(rows=50, columns=132))
        await person.type("\n")
        await person.see("size is 50 132\r\n")


@pytest.mark.parametrize("size", [Size(0, 80), Size(24, 70_000), Size(-1, 1)])
async def test_an_impossible_size_is_refused(jail: Jailed, size: Size) -> None:
    async with screen(jail) as person:
        with pytest.raises(BadRequest):
            person.terminal.resize(size)


async def test_python_prompt(jail: Jailed) -> None:
    async with screen(jail, "/usr/bin/python3", "-q") as person:
        await person.see(">>> ")
        await person.type("6*7\n")
        await person.see("42\r\n.*>>> ")
        await person.type("import time; print('be' 'gun'); time.sleep(600)\n")
        await person.see("\nbegun\r\n")
        await person.type("\x03")
        await person.see("KeyboardInterrupt")
        await person.type("exit(7)\n")
        assert (await person.terminal.wait()).code == 7


async def test_vim_edits_a_file(jail: Jailed, workspace: Path) -> None:
    (workspace / "notes").write_text("first line\n")
    async with screen(jail, "vim.tiny", "-u", "NONE", "notes", size=Size(24, 80)) as person:
        await person.see(r"\x1b\[\?1049h")  # its own screen
        await person.see("first line")
        await person.type("osecond line\x1b:wq\r")
        assert (await person.terminal.wait()).code == 0
    assert (workspace / "notes").read_text() == "first line\nsecond line\n"


async def test_top_fills_the_screen_and_sees_only_the_jail(jail: Jailed) -> None:
    async with screen(jail, "top", "-d", "0.5", size=Size(40, 100)) as person:
        await person.see(r"PID.*COMMAND")
        await person.see("top")
        await asyncio.sleep(0.7)
        await person.type("q")
        assert (await person.terminal.wait()).code == 0
        assert b"pytest" not in person.shown


# --- the end ---


@pytest.mark.parametrize(
    ("command", "exit_"), [("exit 3", (3, None)), ("kill -TERM $$", (None, 15)), ("kill -9 $$", (None, 9))]
)
async def test_the_end_is_reported(jail: Jailed, command: str, exit_: tuple[int | None, int | None]) -> None:
    async with open_terminal(jail, ["sh", "-c", command]) as terminal:
        assert await collect(terminal.attach()) == b""
        ended = await terminal.wait()
        assert (ended.code, ended.signal) == exit_


async def test_a_program_that_is_not_there(jail: Jailed) -> None:
    async with open_terminal(jail, ["no-such-program"]) as terminal:
        assert await collect(terminal.attach()) == b""
        with pytest.raises(NotFound, match="no-such-program"):
            await terminal.wait()


async def test_the_last_words_are_never_lost(jail: Jailed) -> None:
    whole = b"".join(b"%d\r\n" % number for number in range(1, 3001))
    for _ in range(100):
        async with open_terminal(jail, ["seq", "3000"]) as terminal:
            assert await collect(terminal.attach()) == whole


async def test_a_client_that_attaches_after_the_end_reads_the_output(jail: Jailed) -> None:
    async with open_terminal(jail, ["echo", "goodbye"]) as terminal:
        await terminal.wait()
        assert await collect(terminal.attach()) == b"goodbye\r\n"
    assert await collect(terminal.attach()) == b"goodbye\r\n"


async def test_a_daemon_that_keeps_printing_does_not_keep_the_terminal_open(
    jail: Jailed, workspace: Path
) -> None:
    (workspace / "daemon.py").write_text(
        "import os, sys, signal, time\n"
        "name = os.ttyname(0)\n"
        "away, leaves = os.pipe()\n"
        "if os.fork(): os.read(away, 1); sys.exit(4)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "os.setsid()\n"
        "os.write(leaves, b'x')\n"
        "while True:\n"
        "    try: os.write(os.open(name, os.O_WRONLY | os.O_NOCTTY), b'still here\\r\\n' * 100)\n"
        "    except OSError: time.sleep(0.001)\n"
    )
    async with open_terminal(jail, ["/usr/bin/python3", "daemon.py"]) as terminal:
        async with asyncio.timeout(60):
            await collect(terminal.attach())
        assert (await terminal.wait()).code == 4
        before = await jail.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])
        assert b"daemon.py" in before.stdout
    after = await jail.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])
    assert b"daemon.py" not in after.stdout


async def test_closing_kills_all_that_was_started(jail: Jailed) -> None:
    async with screen(jail) as person:
        await person.type("(trap '' HUP TERM; setsid sleep 987 & sleep 987 & wait) &\n")
        await person.type("nohup sleep 987 >/dev/null 2>&1 & echo go\n")
        await person.see("\ngo\r\n")
        await asyncio.sleep(0.2)
    remaining = await jail.run(["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"])
    assert b"sleep 987" not in remaining.stdout.replace(b"cat /proc", b"")
    assert person.terminal.ended


async def test_closing_twice_and_typing_after_it(jail: Jailed) -> None:
    async with open_terminal(jail) as terminal:
        pass
    await terminal.close()
    assert (await terminal.wait()).signal == 9
    terminal.resize(Size(10, 10))
    with pytest.raises(Conflict):
        await terminal.write(b"ls\n")


async def test_a_jail_that_closes_ends_its_terminals(jail: Jailed) -> None:
    async with open_terminal(jail, ["sleep", "100"]) as terminal:
        following = asyncio.create_task(collect(terminal.attach()))
        await asyncio.sleep(0.2)
        await jail.close()
        async with asyncio.timeout(60):
            assert await following == b""
            assert await terminal.wait() == Exit(None, 9)


# --- several viewers, and coming back ---


async def test_every_viewer_gets_every_byte(jail: Jailed) -> None:
    async with open_terminal(jail, ["seq", "100000"]) as terminal:
        shown = await asyncio.gather(*(collect(terminal.attach()) for _ in range(3)))
    whole = b"".join(b"%d\r\n" % number for number in range(1, 100_001))
    assert [one == whole for one in shown] == [True, True, True]


async def test_coming_back_loses_and_repeats_nothing(jail: Jailed) -> None:
    whole = b"".join(b"%d\r\n" % number for number in range(1, 50_001))
    async with open_terminal(jail, ["seq", "50000"]) as terminal:
        shown, resume = b"", 0
        while len(shown) < len(whole):
            reader = terminal.attach(resume=resume)
            assert (reader.seq, reader.missed_bytes) == (resume, 0)
            async for seq, data in reader:
                assert seq == len(shown)
                shown += data
                reader.acknowledge(len(data))
                if len(data) > 100:
                    break
            resume = reader.detach()
        assert shown == whole


async def test_bytes_that_are_no_longer_available_are_reported(jail: Jailed) -> None:
    count = 300_000
    async with open_terminal(jail, ["seq", "-f", "%08.0f", str(count)]) as terminal:
        await terminal.wait()
        printed = count * 10
        await stays_at(terminal, printed)
        first = printed - RING_BYTES
        assert (terminal.first_seq, terminal.seq) == (first, printed)
        reader = terminal.attach(resume=17)
        assert (reader.seq, reader.missed_bytes) == (first, first - 17)
        rest = await collect(reader)
        assert len(rest) == RING_BYTES
        assert rest.endswith(b"00299999\r\n00300000\r\n")
        assert await collect(terminal.attach(resume=printed - 10)) == b"00300000\r\n"
        assert await collect(terminal.attach(resume=printed)) == b""


@pytest.mark.parametrize("resume", [-1, 1_000_000])
async def test_a_byte_that_never_was_cannot_be_resumed_from(jail: Jailed, resume: int) -> None:
    async with open_terminal(jail, ["sleep", "9"]) as terminal:
        with pytest.raises(BadRequest):
            terminal.attach(resume=resume)


# --- flow control ---


async def test_a_viewer_that_shows_nothing_stops_the_program(jail: Jailed) -> None:
    async with open_terminal(jail, FLOOD) as terminal:
        reader = terminal.attach()
        taken = 0
        async for _, data in reader:
            taken += len(data)
            if taken >= PAUSE_BYTES:
                break
        await stays_at(terminal, PAUSE_BYTES)
        assert taken == PAUSE_BYTES
        assert reader.is_blocking and terminal.paused
        cpu = await processor_s(jail)
        await asyncio.sleep(0.5)
        assert terminal.seq == PAUSE_BYTES
        assert await processor_s(jail) - cpu < 0.1  # the program waits, it does not spin

        reader.acknowledge(PAUSE_BYTES - RESUME_BYTES - 1)
        await stays_at(terminal, PAUSE_BYTES)  # not yet
        reader.acknowledge(1)
        assert not reader.is_blocking
        await stays_at(terminal, 2 * PAUSE_BYTES - RESUME_BYTES)


async def processor_s(jail: Jailed) -> float:
    ran = await jail.run(["sh", "-c", "cat /proc/[0-9]*/stat"])
    ticks = [line.rpartition(b")")[2].split() for line in ran.stdout.splitlines() if b"(yes)" in line]
    return sum(int(fields[11]) + int(fields[12]) for fields in ticks) / os.sysconf("SC_CLK_TCK")


async def test_a_viewer_that_does_not_even_read_stops_it_too(jail: Jailed) -> None:
    async with open_terminal(jail, FLOOD) as terminal:
        reader = terminal.attach()
        await stays_at(terminal, PAUSE_BYTES)
        assert reader.is_blocking


async def test_a_stuck_viewer_can_be_detached_and_reattach(jail: Jailed) -> None:
    async with open_terminal(jail, ["sh", "-c", "seq 100000; sleep 100"]) as terminal:
        stuck, good = terminal.attach(), terminal.attach()
        following = asyncio.create_task(collect(good))
        _, data = await anext(stuck)
        stuck.acknowledge(len(data) // 2)
        async with asyncio.timeout(60):
            while not stuck.is_blocking or good.is_blocking:  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)
        assert stuck.blocking_s > 0.2
        resume = stuck.detach()
        assert resume == len(data) // 2
        assert [chunk async for chunk in stuck] == []  # its iteration has ended
        await stays_at(terminal, len(b"".join(b"%d\r\n" % n for n in range(1, 100_001))))
        again = terminal.attach(resume=resume)
        assert (again.seq, again.missed_bytes) == (resume, 0)
        following.cancel()


async def test_more_cannot_be_acknowledged_than_was_sent(jail: Jailed) -> None:
    async with open_terminal(jail, ["echo", "hello"]) as terminal:
        reader = terminal.attach()
        await anext(reader)
        for count in (-1, 8):
            with pytest.raises(BadRequest):
                reader.acknowledge(count)
        reader.acknowledge(7)


async def test_a_flood_without_viewers_leaves_the_loop_free(jail: Jailed) -> None:
    async with open_terminal(jail, FLOOD) as terminal:
        async with asyncio.timeout(60):
            while terminal.seq <= 2 * RING_BYTES:  # noqa: ASYNC110 (it continues without viewers, and so do we)
                await asyncio.sleep(0.01)


async def test_many_small_writes_arrive_in_few_batches(jail: Jailed, workspace: Path) -> None:
    (workspace / "drip.py").write_text(
        "import os, time\nfor _ in range(3000): os.write(1, b'x'); time.sleep(0.0002)\n"
    )
    async with open_terminal(jail, ["/usr/bin/python3", "drip.py"]) as terminal:
        reader, batches, total, began = terminal.attach(), 0, 0, time.monotonic()
        async for _, data in reader:
            batches, total = batches + 1, total + len(data)
            reader.acknowledge(len(data))
        assert total == 3000
        assert batches <= (time.monotonic() - began) / BATCH_S + 2  # however long it took


async def test_an_echo_does_not_wait_for_a_batch(jail: Jailed) -> None:
    async with open_terminal(jail, ["cat"]) as terminal:
        reader = terminal.attach()
        taken_s = math.inf
        async with asyncio.timeout(DEADLINE_S):  # on a busy machine some take longer; a batch holds up all
            while taken_s >= 0.004:
                await asyncio.sleep(0.02)
                began = time.monotonic()
                await terminal.write(b"k")
                await anext(reader)
                taken_s = time.monotonic() - began


async def test_a_long_paste_arrives_whole(jail: Jailed, workspace: Path) -> None:
    paste = b"".join(b"line %d of what was pasted\n" % number for number in range(20_000))
    async with screen(jail, "sh", "-c", "stty -echo; echo go; cat > pasted") as person:
        await person.see("go\r\n")
        await person.terminal.write(paste)
        await person.terminal.write(b"\x04")
        assert (await person.terminal.wait()).code == 0
    assert (workspace / "pasted").read_bytes() == paste


async def test_two_clients_that_type_at_once_do_not_mix(jail: Jailed, workspace: Path) -> None:
    async with screen(jail, "sh", "-c", "stty -echo; echo go; cat > typed") as person:
        await person.see("go\r\n")
        lines = [b"%d" % who * 3000 + b"\n" for who in range(8)]
        await asyncio.gather(*(person.terminal.write(line) for line in lines))
        await person.terminal.write(b"\x04")
        await person.terminal.wait()
    assert sorted((workspace / "typed").read_bytes().splitlines(keepends=True)) == lines


# --- the ring ---


@settings(database=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=40), st.integers(8, 64))
def test_ring_holds_the_last_bytes(chunks: list[bytes], size: int) -> None:
    ring, stream = Ring(size), b"".join(chunks)
    inlet, outlet = os.pipe()
    try:
        for chunk in chunks:
            os.write(outlet, chunk)
            remaining = len(chunk)
            while remaining:
                remaining -= ring.fill(inlet, remaining)
    finally:
        os.close(inlet)
        os.close(outlet)
    assert (ring.start, ring.end) == (max(0, len(stream) - size), len(stream))
    seq, held = ring.start, b""
    while data := ring.read(seq, ring.end):
        held, seq = held + data, seq + len(data)
    assert held == stream[ring.start :]


@pytest.fixture
def ignored_signals() -> Iterator[None]:
    """The signals that `nohup hutch up &` in a script ignores."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in KEYS_AND_HANGUP}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("key", "number"), [("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)])
async def test_keys_end_a_program_also_when_hutch_ignores_their_signals(
    ignored_signals: None, jail: Jailed, key: str, number: signal.Signals
) -> None:
    async with open_terminal(jail, ["sh", "-c", "echo ready; exec cat"]) as terminal:
        screen = Screen(terminal)
        await screen.see("ready")
        await screen.type(key)
        async with asyncio.timeout(60):
            assert (await terminal.wait()).signal == number


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1])
async def test_programs_receive_signals_that_hutch_ignores(
    ignored_signals: None, jail: Jailed, number: signal.Signals
) -> None:
    ran = await jail.run(["/bin/sh", "-c", f"kill -{int(number)} $$; echo survived"])
    assert (ran.signal, ran.stdout) == (number, b"")
