"""Attributing locks to jails."""

import fcntl
import os
import struct
import time
from collections import Counter
from pathlib import Path

import pytest

from hutch.jail.jail_processes import Member
from hutch.jail.limits import file_lock_count as module
from hutch.jail.limits.file_lock_count import LockedFile, count_locks, list_locks

# The kernel's list shifts when others lock and unlock while it is read: some are listed twice, or not at all.
NEARLY_50 = range(40, 61)
OF_THE_FILE = 37  # F_OFD_SETLK: the list names no process
ME = Member(os.getpid(), (os.getpid(),), trusted=False, reaper=0)


def lock(file: int, count: int, *, command: int = fcntl.F_SETLK, first: int = 0) -> None:
    for directory in range(first + 2 * count, first, -2):
        fcntl.fcntl(file, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, directory, 1, 0))


def now() -> Counter[LockedFile]:
    time.sleep(2 * module.MAX_AGE_S)
    return list_locks(interval_s=0)


def test_locks_count_for_the_process_that_took_them(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        lock(file.fileno(), 50)
        there = now()
        inode = os.fstat(file.fileno()).st_ino
        found = {key.pid: number for key, number in there.items() if key.inode == inode}
        assert found.keys() == {os.getpid()} and found[os.getpid()] in NEARLY_50
        assert count_locks([ME], there, limit=10, devices=()) >= NEARLY_50.start
        assert count_locks([], there, limit=10, devices=()) == 0


def test_locks_without_a_process_count_for_jails_that_have_the_file_open(tmp_path: Path) -> None:
    before = count_locks([ME], now(), limit=0, devices=())
    with (tmp_path / "file").open("wb") as file:
        lock(file.fileno(), 50, command=OF_THE_FILE)
        there = now()
        assert count_locks([ME], there, limit=before + 10, devices=()) - before in NEARLY_50
        assert count_locks([], there, limit=10, devices=()) == 0
        assert count_locks([], there, limit=10, devices=(), may_hide_files=lambda: True) >= NEARLY_50.start


def test_locks_on_a_device_of_its_own_are_the_jails() -> None:
    there = Counter({LockedFile(-1, 77, 5): 30, LockedFile(1, 78, 5): 40})
    assert count_locks([], there, limit=10, devices={77}) == 30


@pytest.mark.serial  # by the memory of the machine's kernel, which others take and give back
def test_many_new_locks_are_seen_before_the_next_reading_is_due(tmp_path: Path) -> None:
    before = now()
    with (tmp_path / "file").open("wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        for turn in range(1, 15):  # others may give memory back at the same time
            lock(file.fileno(), 5000, first=10_000 * turn)
            time.sleep(2 * module.MAX_AGE_S)
            if (there := list_locks()) is not before:
                break
        assert turn * 2 * module.MAX_AGE_S < module.LIST_INTERVAL_S
        # Not all: the list is read in pieces, shifts while others unlock, and is read for a while only.
        assert sum(number for key, number in there.items() if key.inode == inode) > 1000


def test_without_a_sign_of_them_the_list_is_not_read_again() -> None:
    there = [now(), *(list_locks() for _ in range(20))]
    assert len({id(each) for each in there}) == 1
