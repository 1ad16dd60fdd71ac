"""Finds the ports that programs in a jail listen on, from the kernel's tables."""

import re

from hutch.domain.errors import HutchError
from hutch.jail.interface import Jail

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
POLL_INTERVAL_S = 5.0
_LISTENING = re.compile(rb"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:0000 0A ", re.MULTILINE)


async def listening(jail: Jail) -> list[int]:
    """The ports that can be previewed; none when the tables cannot be read."""
    try:
        read = await jail.run(["cat", *TABLES], timeout_s=POLL_INTERVAL_S)
    except HutchError:  # requests that need the jail report its error
        return []
    return ports_in(read.stdout)


def ports_in(tables: bytes) -> list[int]:
    return sorted({int(port, 16) for port in _LISTENING.findall(tables)} - {0})
