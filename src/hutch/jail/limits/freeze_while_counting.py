"""Stops all processes of a jail for a moment, so that their resources can be counted.

Processes can see that they are being counted, and move data from one to the other
meanwhile. So, where a count matters and something changed during it, all of them are
stopped. A child stops only after its parent and resumes before it, so that no shell
notices a stopped child.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from hutch.jail.jail_processes import Member, is_below, members, read

FREEZE_TIMEOUT_S = 1.0  # for all processes to stop
POLL_DELAY_S = 0.001


@contextlib.contextmanager
def freeze(warden: int) -> Iterator[bool]:
    """Stop all processes below the warden except reapers. Yields whether all stopped. Blocks the thread."""
    stopped: dict[int, int] = {}  # pid: descriptor, in the order in which they were stopped
    try:
        yield _stop(warden, stopped)
    finally:
        for fd in reversed(stopped.values()):
            with contextlib.suppress(OSError):  # it has ended
                signal.pidfd_send_signal(fd, signal.SIGCONT)
            os.close(fd)


def _stop(warden: int, stopped: dict[int, int]) -> bool:
    started_at, quiet = time.monotonic(), 0
    while quiet < 2:  # twice: during the first check, one may have woken another
        running = {
            each.pid: parent
            for each in members(warden)
            if not each.trusted and (parent := _running_below(each, stopped)) is not None
        }
        quiet = 0 if running else quiet + 1
        elapsed_s = time.monotonic() - started_at
        for pid, parent in running.items():
            if parent not in running or elapsed_s > FREEZE_TIMEOUT_S / 2:
                with contextlib.suppress(OSError):  # it has ended
                    _stop_one(pid, warden, stopped)
        if running:
            if elapsed_s > FREEZE_TIMEOUT_S:
                return False
            time.sleep(POLL_DELAY_S)
    return True


def _stop_one(pid: int, warden: int, stopped: dict[int, int]) -> None:
    if pid not in stopped:
        fd = os.pidfd_open(pid)
        if not is_below(pid, warden):  # the pid may have been reused
            os.close(fd)
            return
        stopped[pid] = fd
    signal.pidfd_send_signal(stopped[pid], signal.SIGSTOP)


def _running_below(member: Member, stopped: dict[int, int]) -> int | None:
    """The parent of a running process; None if it is stopped or dead, or will be stopped when the kernel
    is done."""
    stopped_states = b"TtZX" + (b"D" if member.pid in stopped else b"")
    for thread in member.threads:
        fields = read(f"/proc/{member.pid}/task/{thread}/stat").rpartition(b") ")[2].split(b" ", 2)
        if len(fields) > 1 and fields[0] not in stopped_states:
            return int(fields[1])
    return None
