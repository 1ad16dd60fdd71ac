"""A line for commands that work on this machine although another server is in use.

After `hutch login`, `hutch sessions` and its like use that server. Commands that read the database or the
files of this machine say so, because an empty list of this machine looks like one of the server.
"""

import sys
from collections.abc import Sequence

from hutch.cli.server_address import Address, find_address
from hutch.domain.errors import HutchError, Unavailable
from hutch.settings import find_paths
from hutch.system.running_server import find_server

# Commands on the data of this machine. The others use the server of the login, or no data at all.
LOCAL = frozenset(
    {"run", "resume", "approvals", "changes", "review", "eval", "workspace", "usage", "log", "export"}
    | {"receipt", "erase", "prune", "up", "down", "logs", "config", "users", "tokens"}
)
LOCAL_BELOW = frozenset({("sessions", "prune")})
FOLLOWING_BELOW = frozenset({("changes", "propose"), ("changes", "deliver")})  # look on the server, too
HELP = ("-h", "--help")


def warn_if_local(name: str, args: Sequence[str]) -> None:
    """Say that a command works on this machine, if another server is in use."""
    if not _is_local(name, args):
        return
    try:
        address = other_server()
    except HutchError:  # the login cannot be read; commands that use it report this
        return
    if address is not None:
        how = "HUTCH_SERVER names" if address.kind == "environment" else "you are logged in to"
        there = f" To run there: hutch {name} --server" if name == "run" else ""
        words = " ".join(below) if (below := _below(name, args)) in LOCAL_BELOW else name
        sys.stderr.write(f"hutch: `hutch {words}` uses this machine; {how} {address.url}.{there}\n")


def other_server() -> Address | None:
    """The server that commands use, if it is not the one of this installation."""
    paths = find_paths()
    try:
        address = find_address(paths)
    except Unavailable:  # there is no login, and no server runs here
        return None
    running = find_server(paths.server_files)
    is_own = address.kind == "local" or (running is not None and running.url == address.url)
    return None if is_own else address


def _is_local(name: str, args: Sequence[str]) -> bool:
    below = _below(name, args)
    if any(word in HELP for word in args) or "--server" in args:
        return False
    return below in LOCAL_BELOW or (name in LOCAL and below not in FOLLOWING_BELOW)


def _below(name: str, args: Sequence[str]) -> tuple[str, str]:
    """The command and its subcommand."""
    return name, next(iter(args), "")
