"""Lists of mappings are read up to a time limit."""

import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

from hutch.jail.jail_processes import Member
from hutch.jail.limits.resource_usage_without_cgroup import shared_memory_device
from hutch.jail.limits.shared_memory_mappings import measure_shared_memory, read_mappings, run_in_thread

ME = Member(os.getpid(), (os.getpid(),), trusted=False, reaper=0)
DEVICE = shared_memory_device()
MIB = 1 << 20


def test_shared_memory_counts_by_its_mappings() -> None:
    before = measure_shared_memory([(ME, 1 << 40)], device=DEVICE, max_mappings=10**6)
    with mmap.mmap(-1, 30 * MIB):
        after = measure_shared_memory([(ME, 1 << 40)], device=DEVICE, max_mappings=10**6)
    assert after.bytes - before.bytes == 30 * MIB
    assert after.mappings > 10


def test_a_process_that_cannot_be_read_counts_in_full() -> None:
    other_threads = Member(os.getpid(), (2**22 + 1,), trusted=False, reaper=0)  # its threads are new
    assert measure_shared_memory([(other_threads, 7)], device=DEVICE, max_mappings=10**6).bytes == 7


def test_a_process_that_has_ended_meanwhile_does_not_count() -> None:
    zombie = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    for pid in (zombie.pid, 2**22 + 1):
        ended = Member(pid, (pid,), trusted=False, reaper=0)
        assert measure_shared_memory([(ended, 1 << 40)], device=DEVICE, max_mappings=10**6).bytes == 0
    zombie.wait()


def test_a_process_whose_first_thread_has_ended_counts_in_full() -> None:
    begin = "import ctypes, threading; threading.Thread(target=input).start(); "
    command = [sys.executable, "-c", begin + "ctypes.CDLL(None).pthread_exit(None)"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    stat = Path(f"/proc/{process.pid}/stat")
    while stat.read_bytes().rpartition(b") ")[2][:1] != b"Z":
        assert process.poll() is None
    first_only = Member(process.pid, (process.pid,), trusted=False, reaper=0)
    assert measure_shared_memory([(first_only, 7)], device=DEVICE, max_mappings=10**6).bytes == 7
    process.communicate(b"\n")


def test_reading_ends_when_there_are_too_many() -> None:
    found = measure_shared_memory([(ME, 5 << 40), (ME, 4 << 40)], device=DEVICE, max_mappings=10)
    assert found.mappings > 10
    assert found.bytes >= 4 << 40


def test_parts_are_whole_lines_and_all_of_them() -> None:
    pages = mmap.mmap(-1, 4096 * 2)  # keeps the list as it is
    result = b"".join(read_mappings("/proc/self"))
    assert result.endswith(b"\n") and b"/dev/zero (deleted)" in result
    assert all(b"-" in line.split()[0] for line in result.splitlines())
    pages.close()


def test_slow_work_is_not_waited_for() -> None:
    never = threading.Event()
    assert not run_in_thread(never.wait, 0.01)
    never.set()
    assert run_in_thread(lambda: None, 60)
