"""A program in a jail, connected to the user's terminal or standard streams.

Either the user's terminal becomes that of the program, or standard input, output and error are passed
through together with the keyboard's signals.
"""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Protocol

from hutch.cli import exit_codes, jailed_program_ctrl_z
from hutch.cli.async_stdio import CHUNK_BYTES, Inlet, Outlet
from hutch.cli.lent_terminal import OwnTerminal
from hutch.cli.signals_and_closed_output import on_signals
from hutch.domain.errors import Denied, HutchError, LimitReached, NotFound
from hutch.jail.interface import PIPE, Exit, OnOutput, Process, Reader, Size, StreamName
from hutch.jail.jail_startup import Jailed
from hutch.system.lazy_dataclass import dataclass
from hutch.system.task_cancellation import cancel_and_wait

MAX_REST_BYTES = 1024 * 1024  # passed on after the command's end; its children may print for ever
GRACE_S = 1.0  # for writing output, when a signal ends us
SHELL = ("/bin/bash",)
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")
OnBytes = Callable[[bytes], None]  # called with output as it is passed on
HUNG_UP = Exit(None, signal.SIGHUP)  # the exit of a program whose terminal was closed
# Tells why a command could not be started: a directory, or a script whose interpreter is missing.
DIAGNOSE = r"""
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
    argv: tuple[str, ...]  # empty is a shell
    env: dict[str, str]
    timeout_s: float | None

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv or SHELL


class OpenedTerminal(Protocol):
    """A terminal in the jail: a bare one, or one of a session."""

    @property
    def fd(self) -> int: ...

    def attach(self) -> "AttachedReader": ...

    def resize(self, size: Size) -> None: ...

    async def write(self, data: bytes) -> None: ...

    async def wait(self) -> Exit: ...

    async def signal(self, number: int) -> None: ...


class AttachedReader(Protocol):
    attached: bool

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]: ...

    def acknowledge(self, count: int) -> None: ...

    def detach(self) -> object: ...


async def on_terminal(
    jail: Jailed,
    request: ProgramRequest,
    own: OwnTerminal,
    keys: Inlet,
    opening: AbstractAsyncContextManager[OpenedTerminal],
    on_output: OnOutput | None = None,
) -> Exit:
    """Run a program on the user's terminal."""
    outlet, clean = Outlet(1), False
    async with opening as terminal:
        signals = {signal.SIGWINCH: lambda: terminal.resize(own.size()), signal.SIGCONT: own.make_raw}
        with own.raw(), on_signals(signals):
            reader = terminal.attach()
            typing = asyncio.create_task(_type(keys, terminal, own, request, reader))
            try:
                async with _limit(request.timeout_s):
                    async for _, data in reader:
                        own.watch(data)
                        if on_output:
                            on_output("stdout", data)
                        await outlet.write(data)
                        reader.acknowledge(len(data))
                    if not reader.attached:
                        return HUNG_UP
                    exit_ = await _end_of(terminal.wait(), jail, request)
                clean = exit_.signal is None
                return exit_
            except OSError:  # our terminal is closed
                return HUNG_UP
            finally:
                typing.cancel()
                if not clean:
                    with suppress(OSError):
                        async with asyncio.timeout(GRACE_S):
                            await outlet.write(own.reset_sequence())


async def _type(
    keys: Inlet, terminal: OpenedTerminal, own: OwnTerminal, request: ProgramRequest, reader: AttachedReader
) -> None:
    with suppress(HutchError):  # the program has ended
        while data := await keys.read():
            before, key, after = data.partition(jailed_program_ctrl_z.KEY)
            if key and request.argv and jailed_program_ctrl_z.is_ours(terminal.fd):
                await terminal.write(before)
                await jailed_program_ctrl_z.suspend(terminal.signal, own)
                data = after
            await terminal.write(data)
        reader.detach()  # input of a raw terminal ends only when the terminal is closed


async def on_pipes(jail: Jailed, request: ProgramRequest, on_output: OnOutput | None = None) -> Exit:
    """Run a program with its input, output and keyboard signals passed through."""
    process = await jail.spawn(request.words, stdin=PIPE, env=request.env)
    assert process.stdout and process.stderr
    # If our own output was closed at the start, writing must fail as it would without us.
    outlets = [(process.stdout, Outlet(1 if sys.__stdout__ else -1)), (process.stderr, Outlet(2))]
    lost: list[OSError] = []
    listeners = [partial(on_output, stream) if on_output else _ignore for stream in STREAMS]
    passed = [(*each, on_bytes) for each, on_bytes in zip(outlets, listeners, strict=True)]
    tasks = [asyncio.create_task(_pass_on(*each, lost)) for each in passed]
    feeding = asyncio.create_task(_feed(Inlet(0), process))

    async def pause() -> None:
        await process.signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        await process.signal(signal.SIGCONT)  # when we continue, so does the program

    keys: dict[signal.Signals, Callable[[], Awaitable[None]]] = {
        signal.SIGINT: lambda: process.signal(signal.SIGINT),
        signal.SIGQUIT: lambda: process.signal(signal.SIGQUIT),
        signal.SIGTSTP: pause,
    }
    timeout_s: float | None = GRACE_S
    try:
        with on_signals(keys):
            async with _limit(request.timeout_s):
                exit_ = await _end_of(process.wait(), jail, request)
        timeout_s = None  # a slow reader gets all the output of a program that ended by itself
    except LimitReached:
        await process.kill()
        raise
    finally:
        # Output that was read is still being written; only waiting for more is cancelled.
        await cancel_and_wait(feeding, *tasks)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for each in passed:
                    await _pass_rest(*each, lost)
        process.close()
    for error in lost:
        if error.errno != errno.EPIPE:  # a closed pipe is the reader's choice; other errors lose output
            raise error
    return exit_


async def _end_of(waiting: Awaitable[Exit], jail: Jailed, request: ProgramRequest) -> Exit:
    """The command's exit; or an error that explains why it did not start better than the kernel does."""
    try:
        return await waiting
    except (NotFound, Denied) as error:
        name = request.words[0]
        diagnosis = await jail.run(["/bin/sh", "-c", DIAGNOSE, "diagnose", name], env=request.env)
        match diagnosis.stdout.decode(errors="backslashreplace").split("\n", 1):
            case ["directory", *_]:
                raise exit_codes.NotStarted(
                    f"'{name}' is a directory, not a program.", exit_codes.NOT_EXECUTABLE
                ) from error
            case ["interpreter", interpreter]:
                raise exit_codes.NotStarted(
                    f"'{name}' needs the interpreter {interpreter[:-1]!r}, which is not in the jail. "
                    "Install it again in the jail, or run it with another interpreter.",
                    exit_codes.NOT_EXECUTABLE,
                ) from error
        code = exit_codes.NOT_FOUND if isinstance(error, NotFound) else exit_codes.NOT_EXECUTABLE
        raise exit_codes.NotStarted(str(error), code) from error


async def _pass_on(reader: Reader, outlet: Outlet, on_bytes: OnBytes, lost: list[OSError]) -> None:
    while data := await reader.read(CHUNK_BYTES):
        on_bytes(data)
        try:
            await outlet.write(data)
        except OSError as error:
            lost.append(error)
            reader.close()  # the command gets SIGPIPE, as it would without us
            return


async def _pass_rest(reader: Reader, outlet: Outlet, on_bytes: OnBytes, lost: list[OSError]) -> None:
    remaining = MAX_REST_BYTES
    try:
        while remaining > 0 and (data := _read_now(reader)):
            on_bytes(data)
            await outlet.write(data)
            remaining -= len(data)
        await outlet.write(b"")  # returns after all earlier writes
    except OSError as error:
        lost.append(error)


def _ignore(data: bytes) -> None:
    """Drop output that nobody records."""


def _read_now(reader: Reader) -> bytes:
    """Read what is available without waiting."""
    try:
        return os.read(reader.fd, CHUNK_BYTES) if reader.fd >= 0 else b""
    except OSError:  # nothing is available
        return b""


async def _feed(inlet: Inlet, process: Process) -> None:
    assert process.stdin
    with suppress(OSError):  # the program closed its input
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
            f"Killed after {timeout_s:g} s (--timeout). Use a longer timeout, or none.",
            limit="--timeout",
        ) from None
