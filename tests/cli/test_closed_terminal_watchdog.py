"""Programs that draw on a terminal end with it, also when no SIGHUP arrives."""

import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Iterator

import pytest

from hutch.cli.closed_terminal_watchdog import HUNG_UP, is_terminal_closed
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.hutch_up_process import HUTCH, TIMEOUT_S

IGNORING_HANGUP = ("env", "--ignore-signal=HUP", "setsid", "-c")  # on a controlling terminal


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_a_terminal_is_gone_when_its_other_end_is_closed() -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"typed\n")
    assert not is_terminal_closed(theirs)
    os.close(ours)
    assert is_terminal_closed(theirs)
    os.close(theirs)


@pytest.mark.parametrize(
    ("words", "sign"),
    [((), b"to be watched"), (("attach", "last"), b"to be watched"), (("shell",), b"hutch@hutch:")],
    ids=["screen", "attach", "shell"],
)
@pytest.mark.parametrize("under", [(), IGNORING_HANGUP], ids=["no-controlling-terminal", "nohup"])
def test_a_closed_terminal_ends_the_command(
    server: ServerHome, words: tuple[str, ...], sign: bytes, under: tuple[str, ...]
) -> None:
    server.new({"text": "Hello."}, purpose="to be watched")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    # Without a controlling terminal, it gets no SIGHUP.
    process = subprocess.Popen(
        [*under, HUTCH, *words],
        cwd=server.place / "work",
        env=server.environment(TERM="xterm-256color"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=not under,
    )
    os.close(theirs)
    shown = b""
    while sign not in shown:
        assert select.select([ours], [], [], TIMEOUT_S)[0], shown
        shown += os.read(ours, 65536)
    # It finds its terminal gone in all the places where it looks, whichever of them is first.
    process.send_signal(signal.SIGSTOP)
    os.close(ours)
    process.send_signal(signal.SIGCONT)
    try:
        assert process.wait(timeout=TIMEOUT_S) == HUNG_UP
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
