"""Ctrl-Z, for a program on a terminal of its own in a jail.

There no shell waits for it, so the kernel would drop the stop signal and the key
would do nothing. Where the program leaves the key to the terminal, we stop it
ourselves, and then this process; when that goes on, so does the program.
"""

import os
import signal
import termios
from pathlib import Path

from hutch.cli.user_terminal import OwnTerminal
from hutch.jail.terminal import Terminal

KEY = b"\x1a"
LOCAL_MODES, CHARACTERS = 3, 6  # in what tcgetattr returns


def is_ours(terminal: int) -> bool:
    """Whether nobody on this terminal (its master) would answer the key."""
    try:
        modes = termios.tcgetattr(terminal)
        if not modes[LOCAL_MODES] & termios.ISIG or modes[CHARACTERS][termios.VSUSP] != KEY:
            return False
        front = os.tcgetpgrp(terminal)
        if front <= 0 or os.getsid(front) != front:  # a job of a shell inside, which will see to it
            return False
        told = Path(f"/proc/{front}/status").read_text()
    except (OSError, termios.error):  # it has just ended
        return False
    masks = dict(line.split(":\t") for line in told.splitlines() if line.startswith("Sig"))
    answered = int(masks["SigIgn"], 16) | int(masks["SigCgt"], 16)
    return not answered >> (signal.SIGTSTP - 1) & 1


async def suspend(terminal: Terminal, own: OwnTerminal) -> None:
    """Stop the program and ourselves; returns when both go on."""
    await terminal.signal(signal.SIGSTOP)
    with own.as_it_was():
        os.kill(0, signal.SIGTSTP)  # as our own terminal would: whoever was started with us stops too
    await terminal.signal(signal.SIGCONT)
