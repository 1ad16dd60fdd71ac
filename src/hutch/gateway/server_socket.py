"""Opens the server's socket, and explains why an address cannot be used."""

import errno
import ipaddress
import socket
from contextlib import suppress
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.settings.server_sections import Server

BACKLOG = 1024
LISTENING = "0A"  # in /proc/net/tcp


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address. The error for a taken port names its process and a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(_why(error, host, port, family)) from None
    # Accepted sockets inherit it. asyncio sets it only on sockets that name their protocol. Without it, a
    # response in two parts waits 40 ms for the client's kernel to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket, *, tls: bool) -> str:
    """The URL for clients on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def exposure(server: Server) -> str:
    """The warning about an address that other machines can reach without TLS; empty if there is none."""
    if ipaddress.ip_address(server.host).is_loopback or server.tls_cert or server.trusted_proxies:
        return ""
    return (
        f"Other machines can reach {server.host}, and the traffic is not encrypted: passwords, "
        "tokens and code can be read and changed in transit. Set server.tls_cert and server.tls_key; or put "
        "a TLS proxy in front, and add it to server.trusted_proxies; or listen on 127.0.0.1 and "
        "let others connect by ssh -L."
    )


def holder_of(port: int) -> str:
    """The process that listens on a port, if this user may see it."""
    inodes = {f"socket:[{inode}]" for inode in _listeners(port)}
    for directory in Path("/proc").iterdir():
        if not inodes or not directory.name.isdigit():
            continue
        with suppress(OSError):  # it belongs to another user, or has ended
            for handle in (directory / "fd").iterdir():
                if str(handle.readlink()) in inodes:
                    name = (directory / "comm").read_text().strip()
                    return f"{name} (process {directory.name})"
    return "another process"


def _why(error: OSError, host: str, port: int, family: socket.AddressFamily) -> str:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        free = _free_port(host, family)
        taken = f"{shown} is taken by {holder_of(port)}"
        return f"{taken}. Stop that, or choose another port: hutch up --port {free}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine. Choose another: hutch up --host 127.0.0.1"
    if error.errno == errno.EACCES:
        return f"Only root can listen on {shown}. Choose a port above 1023: hutch up --port 8484"
    return f"Cannot listen on {shown}: {error.strerror}."


def _free_port(host: str, family: socket.AddressFamily) -> int:
    with socket.create_server((host, 0), family=family) as trial:
        return int(trial.getsockname()[1])


def _listeners(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found
