"""Bubblewraps whose parent was killed before they could ask to die with it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.jail.launch.unfinished_starts import _is_orphan, end_orphans
from hutch.jail.policy import WARDEN, WARDEN_PROGRAM


class Waiting:
    """A bubblewrap that has forked, and whose child waits for input before it starts."""

    def __init__(self, *words: str) -> None:
        bwrap = shutil.which("bwrap")
        assert bwrap
        reading, self._word = os.pipe()
        self.outer = subprocess.Popen(
            [bwrap, "--unshare-pid", "--bind", "/", "/", "--block-fd", str(reading), "--", *words, "7", "8"],
            pass_fds=[reading],
            start_new_session=True,
        )
        os.close(reading)
        children = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children")
        while not (pids := children.read_text().split()):
            pass
        self.inner = int(pids[0])

    def kill_outer(self) -> None:
        self.outer.kill()
        self.outer.wait()

    def is_there(self) -> bool:
        """True if the inner process exists, other than as a zombie."""
        try:
            return Path(f"/proc/{self.inner}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def close(self) -> None:
        os.close(self._word)
        self.outer.kill()
        self.outer.wait()
        if self.is_there():
            os.kill(self.inner, signal.SIGKILL)


@pytest.fixture
def jail() -> Iterator[Waiting]:
    waiting = Waiting(WARDEN_PROGRAM, "-I", "-S", WARDEN)
    yield waiting
    waiting.close()


@pytest.fixture
def stranger() -> Iterator[Waiting]:
    waiting = Waiting("/bin/true")
    yield waiting
    waiting.close()


@pytest.mark.serial  # a server of another test would end it too
def test_an_orphan_is_killed(jail: Waiting) -> None:
    assert jail.inner not in end_orphans()  # its parent lives
    assert jail.is_there()
    jail.kill_outer()
    assert jail.is_there()  # as it would be for ever
    assert jail.inner in end_orphans()
    while jail.is_there():
        pass


def test_bubblewraps_of_other_programs_are_not_killed(stranger: Waiting) -> None:
    stranger.kill_outer()
    assert stranger.inner not in end_orphans()
    assert stranger.is_there()


def test_a_process_name_that_is_not_text_is_handled() -> None:
    naming = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, bytes([255, 254, 41, 32]));"
        "print(flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", naming, WARDEN_PROGRAM, "-I", "-S", WARDEN, "7"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as named:
        assert named.stdout
        named.stdout.readline()
        assert not _is_orphan(Path(f"/proc/{named.pid}"))
        named.kill()
