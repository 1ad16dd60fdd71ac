"""A terminal of the jail's own, opened from out here.

Made in the jail's devpts, through a descriptor taken while nothing untrusted
ran, so that nobody inside ever holds the master: a shared one could be switched
to blocking and bring the event loop to a halt.
"""

import errno
import fcntl
import os
import struct
import termios

from hutch.domain.errors import Unavailable
from hutch.jail.interface import Size
from hutch.jail.launch.identity import Identity

TIOCGPTN, TIOCSPTLCK = 0x80045430, 0x40045431


def open_terminal(devpts: int, size: Size, owner: Identity) -> tuple[int, str]:
    """The master's descriptor, and the name that the terminal has inside."""
    try:
        master = os.open("ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=devpts)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise Unavailable("This machine has no terminal left. Close some, or raise kernel.pty.max.") from None
    try:
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
        number = struct.unpack("i", fcntl.ioctl(master, TIOCGPTN, bytes(4)))[0]
        if owner.claim:  # made by root, it is root's: the command could not open it
            os.chown(str(number), owner.uid, owner.gid, dir_fd=devpts)
        set_size(master, size)
    except OSError:
        os.close(master)
        raise
    return master, f"/dev/pts/{number}"


def set_size(terminal: int, size: Size) -> None:
    """Tell a terminal, and the programs on it, its size."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
