"""Asks whether a server can be reached, before the client of the API is loaded.

Without a network that takes a millisecond, so commands that have a copy of what they show answer at once.
"""

import socket
import time
from urllib.parse import urlsplit

from hutch.cli.server_address_and_token import Address
from hutch.cli.server_tasks.task_copy_and_outbox import TaskCopy
from hutch.settings import proxy_is_named

CONNECT_TIMEOUT_S = 1.5
SLOW_S = 0.3  # a failure that took longer is remembered for a while


def is_reachable(address: Address, copy: TaskCopy) -> bool:
    """True if the server's machine takes connections. Quick: nothing else is loaded when it does not."""
    if proxy_is_named() and not address.is_local:
        return True  # only the client can tell
    if copy.was_unreachable():
        return False
    parts = urlsplit(address.url)
    began = time.monotonic()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), CONNECT_TIMEOUT_S).close()
    except OSError:
        if time.monotonic() - began > SLOW_S:
            copy.note_unreachable()
        return False
    return True
