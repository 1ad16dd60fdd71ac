"""Whoever draws on a terminal ends with it, also when no SIGHUP tells."""

import os
import pty
import select
import subprocess
import termios
from collections.abc import Iterator

import pytest

from hutch.cli.hangup import HUNG_UP, is_gone
from tests.cli.upping import HUTCH, PATIENCE_S
from tests.cli.visiting import House, open_house


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def test_a_terminal_is_gone_when_nobody_holds_its_other_end() -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"typed\n")
    assert not is_gone(theirs)
    os.close(ours)
    assert is_gone(theirs)
    os.close(theirs)


@pytest.mark.parametrize("words", [(), ("attach", "last")], ids=["screen", "attach"])
def test_a_vanished_terminal_ends_it(house: House, words: tuple[str, ...]) -> None:
    house.new({"text": "Hello."}, purpose="to be watched")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    # Without a controlling terminal, nobody sends it SIGHUP.
    process = subprocess.Popen(
        [HUTCH, *words],
        env=house.environment(TERM="xterm-256color"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while b"to be watched" not in shown:
        assert select.select([ours], [], [], PATIENCE_S)[0], shown
        shown += os.read(ours, 65536)
    os.close(ours)
    try:
        assert process.wait(timeout=PATIENCE_S) == HUNG_UP
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
