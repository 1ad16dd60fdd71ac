"""The end of a jail: nobody is left, whoever was starved of the processor or stopped.

The kernel ends a pid namespace when its first process dies, but does so on that
process's own time. When that is not at once, everybody inside is killed from out
here as well, again and again, until the first process is gone: the kernel lets it
go only after all the others.
"""

import asyncio
import os
import select
import signal
import subprocess

from hutch.jail.jail_processes import kill_if_inside, members

AT_ONCE_S = 0.25  # within which the kernel mostly is done
ROUND_S = 0.1


class Teardown:
    """Waits for the first process (a pidfd, -1 if it never came up) and for the one outside around it."""

    def __init__(self, warden: int, process: "subprocess.Popen[bytes]") -> None:
        self._warden = warden
        self._process = process
        self._loop = asyncio.get_running_loop()

    def kill(self) -> None:
        """Kill the first process, and so every other."""
        try:
            if self._warden >= 0:
                signal.pidfd_send_signal(self._warden, signal.SIGKILL)
            else:
                self._process.kill()
        except ProcessLookupError:
            pass

    async def wait(self, most_s: float, *, warden_pid: int) -> bool:
        """Whether all are gone within that time. `warden_pid` is 0 where there is nobody to kill."""
        deadline = self._loop.time() + most_s
        round_s = min(AT_ONCE_S, most_s)
        while not await self._gone(round_s):
            if self._loop.time() >= deadline:
                return False
            if warden_pid:
                await asyncio.to_thread(self._kill_all, warden_pid)
            round_s = ROUND_S
        return True

    def _kill_all(self, warden_pid: int) -> None:
        if _is_readable(self._warden):  # the number may be another's by now
            self._process.kill()
            return
        for each in members(warden_pid):
            kill_if_inside(each.pid, warden=warden_pid)

    async def _gone(self, most_s: float) -> bool:
        outer = os.pidfd_open(self._process.pid) if self._process.poll() is None else -1
        try:
            async with asyncio.timeout(most_s):
                for fd in (self._warden, outer):
                    if fd >= 0:
                        await self._readable(fd)
        except TimeoutError:
            return False
        finally:
            if outer >= 0:
                os.close(outer)
        self._process.wait()  # at once
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
