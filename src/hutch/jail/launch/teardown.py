"""Ends a jail completely, even when its processes were stopped or get no processor
time.

The kernel ends a pid namespace when its first process dies, but uses that process's own
processor time. When that takes long, the host also kills all processes inside,
repeatedly, until the first process is gone: the kernel releases it only after all the
others.
"""

import asyncio
import os
import select
import signal
import subprocess

from hutch.jail.jail_processes import kill_if_inside, members

KERNEL_WAIT_S = 0.25  # the kernel alone mostly needs less
KILL_INTERVAL_S = 0.1


class Teardown:
    """Waits for the first process (a pidfd, -1 if it never started) and for the outer process around it."""

    def __init__(self, warden: int, process: "subprocess.Popen[bytes]") -> None:
        self._warden = warden
        self._process = process
        self._loop = asyncio.get_running_loop()

    def kill(self) -> None:
        """Kill the first process, and so all others."""
        try:
            if self._warden >= 0:
                signal.pidfd_send_signal(self._warden, signal.SIGKILL)
            else:
                self._process.kill()
        except ProcessLookupError:
            pass

    async def wait(self, max_s: float, *, warden_pid: int) -> bool:
        """True if all have ended within that time. `warden_pid` is 0 where there are none to kill."""
        deadline = self._loop.time() + max_s
        round_s = min(KERNEL_WAIT_S, max_s)
        while not await self._wait_gone(round_s):
            if self._loop.time() >= deadline:
                return False
            if warden_pid:
                await asyncio.to_thread(self._kill_all, warden_pid)
            round_s = KILL_INTERVAL_S
        return True

    def _kill_all(self, warden_pid: int) -> None:
        if _is_readable(self._warden):  # its pid may have been reused
            self._process.kill()
            return
        for each in members(warden_pid):
            kill_if_inside(each.pid, warden=warden_pid)

    async def _wait_gone(self, max_s: float) -> bool:
        outer = os.pidfd_open(self._process.pid) if self._process.poll() is None else -1
        try:
            async with asyncio.timeout(max_s):
                for fd in (self._warden, outer):
                    if fd >= 0:
                        await self._readable(fd)
        except TimeoutError:
            return False
        finally:
            if outer >= 0:
                os.close(outer)
        self._process.wait()  # returns immediately
        return True

    async def _readable(self, fd: int) -> None:
        gone = asyncio.Event()
        self._loop.add_reader(fd, gone.set)
        try:
            await gone.wait()
        finally:
            self._loop.remove_reader(fd)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
