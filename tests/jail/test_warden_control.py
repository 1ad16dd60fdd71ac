"""The host's end of the control socket, against a hostile warden."""

import array
import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import Unavailable
from hutch.jail.launch.warden_control import Control
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


class Enemy:
    """Has the other end of the control socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def say(self, frame: bytes, *fds: int) -> None:
        self.sock.sendmsg(
            [frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        )


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Control, Enemy, list[str]]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    work, their_work = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    for sock in (ours, work):
        sock.setblocking(False)
    reasons: list[str] = []
    control = Control(ours, work, uid=os.geteuid(), on_broken=reasons.append)
    yield control, Enemy(theirs), reasons
    control.close()
    theirs.close()
    their_work.close()


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0.01)


async def test_the_first_frame_must_be_ready(pair: tuple[Control, Enemy, list[str]]) -> None:
    control, enemy, reasons = pair
    enemy.say(b"import os")
    with pytest.raises(Unavailable, match="broke the protocol"):
        await control.ready()
    assert len(reasons) == 1


@pytest.mark.parametrize(
    "frame",
    [
        b"ready",
        b"socket\x001\x000",
        b"done\x0099\x000",
        b"socket\0-1\x000",
        b"x" * 400,
        b"x" * 100_000,
        b"socket\0one\x000",
    ],
)
async def test_an_unasked_frame_ends_the_jail(pair: tuple[Control, Enemy, list[str]], frame: bytes) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    assert await control.ready() == os.getpid()
    enemy.say(frame)
    await settle()
    assert reasons == ["The jail was ended: its warden broke the protocol. Open a new one."]
    with pytest.raises(Unavailable):
        await control.send(b"clear", b"1")


async def test_unwanted_descriptors_are_closed(pair: tuple[Control, Enemy, list[str]]) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    await control.ready()
    before = descriptors()
    with open("/dev/null") as null:  # noqa: ASYNC230, PTH123
        enemy.say(b"socket\x001\x000", *[null.fileno()] * 100)
    await settle()
    assert len(reasons) == 1
    assert descriptors() <= before


@pytest.mark.parametrize("kind", ["file", "unix", "udp", "two", "none"])
async def test_anything_but_one_tcp_socket_is_refused(
    pair: tuple[Control, Enemy, list[str]], kind: str
) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    await control.ready()
    asked = asyncio.create_task(control.tcp(b"connect", "127.0.0.1", 80))
    await settle()
    before = descriptors()
    with contextlib.ExitStack() as stack:
        given = {
            "file": [os.open("/dev/null", os.O_RDONLY)],
            "unix": [socket.socket(socket.AF_UNIX).detach()],
            "udp": [socket.socket(type=socket.SOCK_DGRAM).detach()],
            "two": [socket.socket().detach(), socket.socket().detach()],
            "none": [],
        }
        for fds in given.values():
            for fd in fds:
                stack.callback(os.close, fd)
        enemy.say(b"socket\x001\x000", *given[kind])
        with pytest.raises(Unavailable, match="broke the protocol"):
            await asked
    assert descriptors() <= before
    assert len(reasons) == 1


async def test_a_requested_tcp_socket_is_accepted_and_never_blocks(
    pair: tuple[Control, Enemy, list[str]],
) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    await control.ready()
    asked = asyncio.create_task(control.tcp(b"connect", "127.0.0.1", 80))
    await settle()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as kept,
    ):
        enemy.say(b"socket\x001\x000", kept.fileno())
        taken = await asked
        kept.setblocking(True)  # the enemy's copy shares the flags
        with pytest.raises(BlockingIOError):
            taken.recv(1)
        taken.close()
    assert reasons == []


class Refusing(socket.socket):
    """A socket whose kernel memory for messages is used up."""

    refusals = 0

    def sendmsg(self, *arguments: Any) -> int:
        if self.refusals > 0:
            self.refusals -= 1
            raise OSError(errno.ETOOMANYREFS, "Too many references")
        return super().sendmsg(*arguments)


async def test_a_transient_error_fails_one_command_at_most() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one, their_work = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    work = Refusing(fileno=one.detach())
    for sock in (ours, work):
        sock.setblocking(False)
    reasons: list[str] = []
    control = Control(ours, work, uid=os.geteuid(), on_broken=reasons.append)
    with theirs, their_work:
        work.refusals = 3
        await control.send_command(b"one", fds=[])
        work.refusals = 1000
        with pytest.raises(Unavailable, match="refuses messages"):
            await control.send_command(b"two", fds=[])
        work.refusals = 0
        await control.send_command(b"three", fds=[])
        assert [their_work.recv(100), their_work.recv(100)] == [b"one", b"three"]
        control.close()
    assert reasons == []


async def test_a_better_reason_is_reported() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    work, their_work = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    control = Control(ours, work, uid=os.geteuid(), on_broken=lambda reason: f"{reason} For want of memory.")
    theirs.close()
    with pytest.raises(Unavailable, match=r"ended.*For want of memory\."):
        await control.ready()
    control.close()
    their_work.close()


async def test_a_frame_from_another_process_is_a_forgery(pair: tuple[Control, Enemy, list[str]]) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    await control.ready()
    asked = asyncio.create_task(control.clear())
    await settle()
    fd = enemy.sock.fileno()
    script = f"import socket; socket.socket(fileno={fd}).send(b'done\\x001\\x000')"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], pass_fds=(fd,), check=True)
    with pytest.raises(Unavailable, match="broke the protocol"):
        await asked
    assert len(reasons) == 1


async def test_a_late_answer_is_ignored(pair: tuple[Control, Enemy, list[str]]) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    await control.ready()
    asked = asyncio.create_task(control.clear())
    await settle()
    asked.cancel()
    await settle()
    enemy.say(b"done\x001\x000")
    await settle()
    assert reasons == []


async def fill(control: Control) -> list[asyncio.Task[None]]:
    """Send commands that no reaper takes, until some must wait."""
    waiting: list[asyncio.Task[None]] = []
    while not waiting:
        send_command = asyncio.create_task(control.send_command(b"x" * 50_000, fds=[]))
        await asyncio.sleep(0)
        if not send_command.done():
            waiting = [
                send_command,
                *(asyncio.create_task(control.send_command(b"more", fds=[])) for _ in range(3)),
            ]
    return waiting


async def test_requests_get_through_while_no_reaper_takes_commands(
    pair: tuple[Control, Enemy, list[str]],
) -> None:
    control, enemy, _ = pair
    enemy.say(b"ready")
    await control.ready()
    waiting = await fill(control)
    async with asyncio.timeout(60):
        await control.send(b"kill", b"one")
        cleared = asyncio.create_task(control.clear())
        assert await asyncio.to_thread(enemy.sock.recv, 100) == b"kill\0one"
        assert await asyncio.to_thread(enemy.sock.recv, 100) == b"clear\x001"
        enemy.say(b"done\x001\x000")
        await cleared
    assert not any(send_command.done() for send_command in waiting)
    for send_command in waiting:
        send_command.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_closing_wakes_all_waiters_and_leaves_nothing_in_the_loop(
    pair: tuple[Control, Enemy, list[str]],
) -> None:
    control, enemy, _ = pair
    enemy.say(b"ready")
    await control.ready()
    waiting = await fill(control)
    control.close()
    async with asyncio.timeout(60):
        result = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(each) for each in result] == ["The jail is closed."] * len(waiting)
    watched: dict[int, Any] = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]
    assert {str(fd) for fd in watched} <= descriptors()


async def test_a_broken_protocol_wakes_whoever_waits(pair: tuple[Control, Enemy, list[str]]) -> None:
    control, enemy, _ = pair
    enemy.say(b"ready")
    await control.ready()
    waiting = await fill(control)
    enemy.say(b"nonsense")
    async with asyncio.timeout(60):
        result = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in result)


async def test_a_flood_does_not_hold_the_loop(pair: tuple[Control, Enemy, list[str]]) -> None:
    control, enemy, reasons = pair
    enemy.say(b"ready")
    await control.ready()
    with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
        enemy.sock.setblocking(False)
        for _ in range(10_000):
            enemy.say(b"done\x000\x000")
    async with asyncio.timeout(DEADLINE_S):
        await settle()
    assert len(reasons) <= 1
