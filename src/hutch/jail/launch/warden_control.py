"""The host's end of the socket to the warden, which is treated as hostile.

The warden runs at the uid of the untrusted code. So a frame is accepted only if the
kernel confirms that the warden's process sent it. It must be short, answer a request,
and carry exactly the descriptors of that answer; other descriptors are closed. Anything
else ends the jail. No content is ever evaluated.
"""

import array
import asyncio
import errno
import os
import re
import socket
import stat
import struct
from collections.abc import Callable, Sequence
from typing import Any

from hutch.domain.errors import Unavailable
from hutch.jail.limits.oom_scores import Scores

INLINE_BYTES = 60_000  # a longer request goes through a file
REPLY_BYTES = 512
MAX_DESCRIPTORS = 4
MAX_FRAMES_PER_READ = 16
CREDENTIALS = struct.Struct("iII")
READY = b"ready"
ANSWER = re.compile(rb"(socket|done)\0(\d{1,18})\0(\d{1,5})")
# Only a warden that hangs takes so long: one that fails says so immediately, and a starved one will run.
READY_TIMEOUT_S = ANSWER_TIMEOUT_S = CLEAR_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
# Another process of the user, in a jail or not, has used up the kernel's memory for messages.
TRANSIENT_ERRORS = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
TRANSIENT_TIMEOUT_S, RETRY_DELAY_S = 1.0, 0.02


class Control:
    """Sends requests, and returns the sockets that come back."""

    def __init__(
        self, sock: socket.socket, work: socket.socket, *, uid: int, on_broken: Callable[[str], str | None]
    ) -> None:
        self.warden_pid = 0
        self.broken: str | None = None
        self._sock = sock
        # Requests about the jail must get through while no reaper takes commands: each has its own queue.
        self._requests = MessageSocket(sock)
        self._commands = MessageSocket(work)  # there are no replies on it
        self._uid = uid
        self._on_broken = on_broken  # may return a better reason
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._pending: dict[
            int, tuple[bytes, asyncio.Future[Any]]
        ] = {}  # number: (kind of answer, its future)
        self._number = 0
        self._loop.add_reader(sock.fileno(), self._readable)

    async def ready(self) -> int:
        """Wait for the warden's first message; returns its pid on the host."""
        async with asyncio.timeout(READY_TIMEOUT_S):
            await self._ready
        return self.warden_pid

    async def send(self, *fields: bytes) -> None:
        """Send one request about the jail."""
        await self._send(self._requests, b"\0".join(fields), ())

    async def send_scores(self, scores: Scores) -> None:
        """Tell the warden which processes the kernel should prefer to kill."""
        frame = b"score\0%d\0%d" % (scores.warden, scores.commands)
        await self._send(self._requests, frame, [scores.fd])

    async def send_command(self, *fields: bytes, fds: Sequence[int]) -> None:
        """Send one command. The descriptors are copied; the caller still owns them."""
        frame = b"\0".join(fields)
        if len(frame) <= INLINE_BYTES:
            await self._send(self._commands, frame, fds)
            return
        fd = os.memfd_create("command", os.MFD_CLOEXEC)
        try:
            write_all(fd, frame)
            os.lseek(fd, 0, os.SEEK_SET)
            await self._send(self._commands, b"long", [fd, *fds])
        finally:
            os.close(fd)

    async def tcp(self, operation: bytes, host: str, port: int) -> socket.socket:
        """Get a TCP socket from inside; raises the OSError that happened there."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                sock: socket.socket = await self._request(b"socket", operation, host.encode(), b"%d" % port)
        except TimeoutError:
            raise Unavailable(f"The jail has not answered in {ANSWER_TIMEOUT_S:g} s. Close it.") from None
        return sock

    async def clear(self) -> None:
        """Have everything inside killed."""
        try:
            async with asyncio.timeout(CLEAR_TIMEOUT_S):
                await self._request(b"done", b"clear")
        except TimeoutError:
            self._break(
                f"The jail was ended: its warden has not answered in {CLEAR_TIMEOUT_S:g} s. Open a new one."
            )
            raise Unavailable(self.broken) from None

    async def _request(self, kind: bytes, operation: bytes, *fields: bytes) -> Any:
        self._number += 1
        number = self._number
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending[number] = (kind, answer)
        try:
            await self.send(operation, b"%d" % number, *fields)
            return await answer
        finally:
            del self._pending[number]

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
        self._fail("The jail is closed.")
        self._requests.close()
        self._commands.close()

    async def _send(self, outgoing: "MessageSocket", frame: bytes, fds: Sequence[int]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        deadline = self._loop.time() + TRANSIENT_TIMEOUT_S
        while True:
            async with outgoing.lock:
                if self.broken is not None:
                    raise Unavailable(self.broken)
                try:
                    outgoing.sock.sendmsg([frame], rights)
                    return
                except BlockingIOError:
                    await outgoing.wait_writable()
                    continue
                except OSError as error:
                    if error.errno not in TRANSIENT_ERRORS:
                        self._break(f"The jail has ended: {error}. Open a new one.")
                        continue
                    if self._loop.time() > deadline:
                        raise Unavailable(
                            f"The kernel refuses messages to the jail: {error.strerror}. Try again."
                        ) from None
            await asyncio.sleep(RETRY_DELAY_S)

    def _readable(self) -> None:
        for _ in range(MAX_FRAMES_PER_READ):
            try:
                frame, passed, flags, _ = self._sock.recvmsg(
                    REPLY_BYTES,
                    socket.CMSG_SPACE(4 * MAX_DESCRIPTORS) + socket.CMSG_SPACE(CREDENTIALS.size),
                    socket.MSG_CMSG_CLOEXEC,
                )
            except BlockingIOError:
                return
            except OSError as error:
                self._break(f"The jail has ended: {error}. Open a new one.")
                return
            fds, sender = _unpack(passed)
            try:
                if not frame:
                    self._break("The jail has ended: its first process is gone. Open a new one.")
                    return
                self._process_frame(
                    frame, fds, sender, whole=not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
                )
            finally:
                for fd in fds:
                    os.close(fd)

    def _process_frame(self, frame: bytes, fds: list[int], sender: tuple[int, int], *, whole: bool) -> None:
        """Check one frame. Descriptors that are used are removed from `fds`."""
        pid, uid = sender
        if not self.warden_pid:
            if frame == READY and whole and not fds and uid == self._uid and pid > 0:
                self.warden_pid = pid
                if not self._ready.done():
                    self._ready.set_result(None)
                return
        elif pid == self.warden_pid and whole and (match := ANSWER.fullmatch(frame)):
            number, failed = int(match[2]), int(match[3])
            kind, answer = self._pending.get(number, (b"", None))
            if answer is None and number <= self._number:
                return  # the caller has stopped waiting
            if answer is not None and not answer.done() and kind == match[1]:
                if failed and not fds:
                    answer.set_exception(OSError(failed, os.strerror(failed)))
                    return
                if not failed and kind == b"done" and not fds:
                    answer.set_result(None)
                    return
                if not failed and kind == b"socket" and len(fds) == 1 and is_tcp(fds[0]):
                    answer.set_result(ForeignSocket(fileno=fds.pop()))
                    return
        self._break("The jail was ended: its warden broke the protocol. Open a new one.")

    def _break(self, reason: str) -> None:
        if self.broken is None:
            self._loop.remove_reader(self._sock.fileno())
            self._fail(self._on_broken(reason) or reason)

    def _fail(self, reason: str) -> None:
        self.broken = self.broken or reason
        waiting: list[asyncio.Future[Any]] = [self._ready, *(answer for _, answer in self._pending.values())]
        for answer in waiting:
            if not answer.done():
                answer.set_exception(Unavailable(self.broken))
                answer.exception()  # retrieved, since there may be no waiter
        self._requests.wake()
        self._commands.wake()


class MessageSocket:
    """A socket for outgoing messages, one at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None  # of the current sender

    async def wait_writable(self) -> None:
        """Wait until the socket accepts more, or is closed."""
        self._waiter = self._loop.create_future()
        self._loop.add_writer(self.sock.fileno(), self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if self.sock.fileno() >= 0:
                self._loop.remove_writer(self.sock.fileno())

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            self._loop.remove_writer(self.sock.fileno())
            self.sock.close()
        self.wake()


class ForeignSocket(socket.socket):
    """A socket whose other holder may be hostile.

    That process could switch it to blocking between our poll and our read, which would halt the event
    loop. So every call itself requests not to block.
    """

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return super().recv(bufsize, flags | socket.MSG_DONTWAIT)

    def recv_into(self, buffer: bytearray, nbytes: int = 0, flags: int = 0, /) -> int:  # type: ignore[override]
        return super().recv_into(buffer, nbytes, flags | socket.MSG_DONTWAIT)

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        return super().send(data, flags | socket.MSG_DONTWAIT)


async def ready_to_write(sock: socket.socket) -> None:
    """Wait until a socket accepts more, or its connection is made or refused."""
    loop = asyncio.get_running_loop()
    free = asyncio.Event()
    loop.add_writer(sock.fileno(), free.set)
    try:
        await free.wait()
    finally:
        loop.remove_writer(sock.fileno())


async def connected(sock: socket.socket) -> None:
    """Wait until a started connection is made. OSError when it fails, TimeoutError when it takes too long:
    for a server that does not accept, the kernel would try for minutes."""
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        await ready_to_write(sock)
    failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, os.strerror(failed))


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def is_tcp(fd: int) -> bool:
    """True if a descriptor is a TCP socket, whatever the sender says."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    sock = socket.socket(fileno=fd)
    try:
        return sock.family in (socket.AF_INET, socket.AF_INET6) and sock.proto == socket.IPPROTO_TCP
    finally:
        sock.detach()


def _unpack(passed: list[tuple[int, int, bytes]]) -> tuple[list[int], tuple[int, int]]:
    """The received descriptors, and (pid, uid) of the sender as confirmed by the kernel."""
    fds = array.array("i")
    sender = (0, -1)
    for level, kind, data in passed:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid, uid, _ = CREDENTIALS.unpack(data[: CREDENTIALS.size])
            sender = (pid, uid)
    return list(fds), sender
