"""Opens a terminal in a jail from outside.

The terminal is made in the jail's devpts, through a descriptor taken before untrusted
code ran. So no process inside ever has the master: a shared one could be switched to
blocking and halt the event loop.
"""

import errno
import fcntl
import os
import struct
import termios

from hutch.domain.errors import Unavailable
from hutch.jail.interface import Size
from hutch.jail.launch.jail_uid import Identity

TIOCGPTN, TIOCSPTLCK = 0x80045430, 0x40045431


def open_terminal(devpts: int, size: Size, owner: Identity) -> tuple[int, str]:
    """The master's descriptor, and the terminal's name inside the jail."""
    try:
        master = os.open("ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=devpts)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise Unavailable("This machine has no free terminal. Close some, or raise kernel.pty.max.") from None
    try:
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
        number = struct.unpack("i", fcntl.ioctl(master, TIOCGPTN, bytes(4)))[0]
        if owner.claim:  # root made it, so the command could not open it
            os.chown(str(number), owner.uid, owner.gid, dir_fd=devpts)
        set_size(master, size)
    except OSError:
        os.close(master)
        raise
    return master, f"/dev/pts/{number}"


def set_size(terminal: int, size: Size) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
