"""TCP sockets in the network of a jail, made by its warden and used on this side."""

import socket

from hutch.domain.errors import Conflict, NotFound, Unavailable
from hutch.jail.jail_request_validation import check_address
from hutch.jail.launch.warden_control import Control, connected


async def connect_inside(control: Control, host: str, port: int) -> socket.socket:
    """A connection to a server in the jail."""
    check_address(host, port)
    sock: socket.socket | None = None
    try:
        sock = await control.tcp(b"connect", host, port)
        await connected(sock)
    except OSError as error:
        if sock is not None:
            sock.close()
        reason = error.strerror or "the connection timed out"
        raise NotFound(
            f"Nothing answers on port {port} in the jail: {reason}. Start the server first."
        ) from None
    return sock


async def listen_inside(control: Control, host: str, port: int) -> socket.socket:
    """A listening socket in the jail; port 0 chooses a free one."""
    check_address(host, port, min_port=0)
    try:
        sock = await control.tcp(b"listen", host, port)
    except OSError as error:
        raise Conflict(
            f"Cannot listen on port {port} in the jail: {error.strerror}. Choose another."
        ) from None
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        raise Unavailable("The jail returned a socket that does not listen. Close the jail.")
    sock.setblocking(False)
    return sock
