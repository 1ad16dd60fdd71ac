"""A program in a jail, with its ends in the user's hands.

On the user's terminal, which becomes that of the program; or plainly, with
standard input, output and error passed through and the keyboard's signals too.
"""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from hutch.cli import exit_codes, suspension
from hutch.cli.descriptor_io import CHUNK_BYTES, Inlet, Outlet
from hutch.cli.signals import on_signals
from hutch.cli.user_terminal import OwnTerminal
from hutch.domain.errors import Denied, HutchError, LimitReached, NotFound
from hutch.jail.interface import PIPE, Exit, Process, Reader
from hutch.jail.jail import Jailed
from hutch.jail.terminal import Terminal, TerminalReader, open_terminal

LEFT_BYTES = 1024 * 1024  # still passed on after the command's end; what it left behind may print for ever
GRACE_S = 1.0  # for output to leave, when we are told to end
SHELL = ("/bin/bash",)
GONE = Exit(None, signal.SIGHUP)  # what a vanished terminal means for the program on it
# What a command is that could not be started: a directory, or a script for a program that is not there.
LOOK = r"""
found=$(command -v -- "$1") || found=$1
if [ -d "$found" ]; then echo directory; exit; fi
[ -f "$found" ] || exit 0
first=$(head -n 1 -- "$found" | head -c 250 | tr -d "\\0")
case $first in "#!"*) ;; *) exit ;; esac
set -f; set -- ${first#??}
[ -e "$1" ] || printf "interpreter\\n%s\\n" "$1"
"""


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """What was asked for."""

    argv: tuple[str, ...]  # empty is a shell
    env: dict[str, str]
    timeout_s: float | None

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv or SHELL


async def on_terminal(jail: Jailed, wish: ProgramRequest, own: OwnTerminal, keys: Inlet) -> Exit:
    """The user's terminal becomes that of the program."""
    outlet, clean = Outlet(1), False
    async with open_terminal(jail, wish.words, size=own.size(), env=wish.env) as terminal:
        signals = {signal.SIGWINCH: lambda: terminal.resize(own.size()), signal.SIGCONT: own.make_raw}
        with own.raw(), on_signals(signals):
            reader = terminal.attach()
            typing = asyncio.create_task(_type(keys, terminal, own, wish, reader))
            try:
                async with _limit(wish.timeout_s):
                    async for _, data in reader:
                        own.watch(data)
                        await outlet.write(data)
                        reader.acknowledge(len(data))
                    if not reader.attached:
                        return GONE
                    exit_ = await _end_of(terminal.wait(), jail, wish)
                clean = exit_.signal is None
                return exit_
            except OSError:  # our terminal is gone, and whoever looked at it
                return GONE
            finally:
                typing.cancel()
                if not clean:
                    with suppress(OSError):
                        async with asyncio.timeout(GRACE_S):
                            await outlet.write(own.reset_sequence())


async def _type(
    keys: Inlet, terminal: Terminal, own: OwnTerminal, wish: ProgramRequest, reader: TerminalReader
) -> None:
    with suppress(HutchError):  # the program has ended
        while data := await keys.read():
            before, key, after = data.partition(suspension.KEY)
            if key and wish.argv and suspension.is_ours(terminal.fd):
                await terminal.write(before)
                await suspension.suspend(terminal, own)
                data = after
            await terminal.write(data)
        reader.detach()  # input of a raw terminal ends only when the terminal is gone


async def plainly(jail: Jailed, wish: ProgramRequest) -> Exit:
    """Output is passed through as it comes; input too, and the signals of the keyboard."""
    process = await jail.spawn(wish.words, stdin=PIPE, env=wish.env)
    assert process.stdout and process.stderr
    # Where our own output was closed before we began, writing must fail as it would without us.
    outlets = [(process.stdout, Outlet(1 if sys.__stdout__ else -1)), (process.stderr, Outlet(2))]
    lost: list[OSError] = []
    tasks = [asyncio.create_task(_pass_on(*each, lost)) for each in outlets]
    feeding = asyncio.create_task(_feed(Inlet(0), process))

    async def pause() -> None:
        await process.signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        await process.signal(signal.SIGCONT)  # we go on, so does it

    keys: dict[signal.Signals, Callable[[], Awaitable[None]]] = {
        signal.SIGINT: lambda: process.signal(signal.SIGINT),
        signal.SIGQUIT: lambda: process.signal(signal.SIGQUIT),
        signal.SIGTSTP: pause,
    }
    patience_s: float | None = GRACE_S
    try:
        with on_signals(keys):
            async with _limit(wish.timeout_s):
                exit_ = await _end_of(process.wait(), jail, wish)
        patience_s = None  # it is over, and whoever reads gets all of it, however slowly
    except LimitReached:
        await process.kill()
        raise
    finally:
        # What was read is on its way; only the waiting for more is over.
        for task in (feeding, *tasks):
            task.cancel()
        await asyncio.gather(feeding, *tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                for reader, outlet in outlets:
                    await _pass_rest(reader, outlet, lost)
        process.close()
    for error in lost:
        if error.errno != errno.EPIPE:  # a reader who left has seen enough; this nobody has seen
            raise error
    return exit_


async def _end_of(waiting: Awaitable[Exit], jail: Jailed, wish: ProgramRequest) -> Exit:
    """How the command ended; or why it did not begin, in more words than the kernel has."""
    try:
        return await waiting
    except (NotFound, Denied) as error:
        name = wish.words[0]
        looked = await jail.run(["/bin/sh", "-c", LOOK, "look", name], env=wish.env)
        match looked.stdout.decode(errors="backslashreplace").split("\n", 1):
            case ["directory", *_]:
                raise exit_codes.NotStarted(
                    f"'{name}' is a directory, not a program.", exit_codes.NOT_EXECUTABLE
                ) from error
            case ["interpreter", interpreter]:
                raise exit_codes.NotStarted(
                    f"'{name}' wants to be run by {interpreter[:-1]!r}, which is not in the jail. "
                    "Make it anew in the jail, or run it by a program that is there.",
                    exit_codes.NOT_EXECUTABLE,
                ) from error
        code = exit_codes.NOT_FOUND if isinstance(error, NotFound) else exit_codes.NOT_EXECUTABLE
        raise exit_codes.NotStarted(str(error), code) from error


async def _pass_on(reader: Reader, outlet: Outlet, lost: list[OSError]) -> None:
    while data := await reader.read(CHUNK_BYTES):
        try:
            await outlet.write(data)
        except OSError as error:
            lost.append(error)
            reader.close()  # the command gets SIGPIPE, as it would without us
            return


async def _pass_rest(reader: Reader, outlet: Outlet, lost: list[OSError]) -> None:
    left = LEFT_BYTES
    try:
        while left > 0 and (data := _read_now(reader)):
            await outlet.write(data)
            left -= len(data)
        await outlet.write(b"")  # comes after all that is still to be written
    except OSError as error:
        lost.append(error)


def _read_now(reader: Reader) -> bytes:
    """What is there without waiting."""
    try:
        return os.read(reader.fd, CHUNK_BYTES) if reader.fd >= 0 else b""
    except OSError:  # nothing there now
        return b""


async def _feed(inlet: Inlet, process: Process) -> None:
    assert process.stdin
    with suppress(OSError):  # it has read all it wanted
        while data := await inlet.read():
            await process.stdin.write(data)
    process.stdin.close()


@asynccontextmanager
async def _limit(timeout_s: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError:
        raise LimitReached(
            f"Killed after {timeout_s:g} s, as --timeout says. Give it longer, or leave it out.",
            limit="--timeout",
        ) from None
