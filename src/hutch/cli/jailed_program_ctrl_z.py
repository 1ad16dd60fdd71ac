"""Ctrl-Z for a program on its own terminal in a jail.

No shell waits for the program there, so the kernel would drop the stop signal. If the program does not
handle the key itself, we stop it and then this process; when this process continues, so does the program.
"""

import os
import signal
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path

from hutch.cli.lent_terminal import OwnTerminal

KEY = b"\x1a"
LOCAL_MODES, CHARACTERS = 3, 6  # indexes into the result of tcgetattr


def is_ours(terminal: int) -> bool:
    """True if no program on this terminal (its master) would handle the key."""
    try:
        modes = termios.tcgetattr(terminal)
        if not modes[LOCAL_MODES] & termios.ISIG or modes[CHARACTERS][termios.VSUSP] != KEY:
            return False
        front = os.tcgetpgrp(terminal)
        if front <= 0 or os.getsid(front) != front:  # a job of a shell inside, which handles the key
            return False
        status = Path(f"/proc/{front}/status").read_text()
    except (OSError, termios.error):  # it has just ended
        return False
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    handled = int(masks["SigIgn"], 16) | int(masks["SigCgt"], 16)
    return not handled >> (signal.SIGTSTP - 1) & 1


async def suspend(send: Callable[[int], Awaitable[None]], own: OwnTerminal) -> None:
    """Stop the program, to which `send` sends a signal, and this process; return when both continue."""
    await send(signal.SIGSTOP)
    with own.as_it_was():
        os.kill(0, signal.SIGTSTP)  # the whole process group, as our own terminal would
    await send(signal.SIGCONT)
