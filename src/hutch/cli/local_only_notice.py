"""A line for commands that work on this machine although another server is in use.

After `hutch login`, `hutch sessions` and its like use that server. Commands that read the database or the
files of this machine say so, because an empty list of this machine looks like one of the server.
"""

import sys
from collections.abc import Sequence

from hutch.cli.server_address_and_token import Address, find_address
from hutch.domain.errors import HutchError, Unavailable
from hutch.settings import find_paths
from hutch.system.server_announcement_and_discovery import find_server

# Each command is in one of these; `shell` is local unless it names a session, and says so itself.
LOCAL = frozenset(
    {"run", "resume", "approvals", "changes", "review", "eval", "test", "workspace", "mcp", "log", "export"}
    | {"receipt", "erase", "prune", "up", "down", "logs", "doctor", "config", "users", "policy", "tokens"}
    | {"environment", "questions", "acp", "rerun", "extensions", "hooks", "backup", "restore", "migrate"}
)
FOLLOWING = frozenset(
    {"shell", "usage", "sessions", "attach", "files", "edit", "diff", "undo", "redo", "status"}
    | {"analytics", "debug", "interviews", "tail", "tasks", "webhooks"}
)
WITHOUT_DATA = frozenset({"verify", "login", "logout", "completion", "version", "help"})
FOLLOWING_BY_OPTION = {"run": ("--server",), "test": ("-s", "--session")}
LOCAL_BELOW = frozenset(
    {
        ("sessions", "prune"),
        *(("tasks", name) for name in ("import", "export")),
    }
)
FOLLOWING_BELOW = frozenset({("changes", "propose"), ("changes", "deliver")})  # look on the server, too
LOCAL_BY_OPTION = frozenset({("users", "list"), ("tokens", "list")})  # use the server, or --local
HELP = ("-h", "--help")
THERE = {
    "run": " To run there: hutch run --server",
    "test": " To test there: hutch test -s SESSION",
    "shell": " To work there: hutch shell SESSION",
}


def warn_if_local(name: str, args: Sequence[str]) -> None:
    """Say that a command works on this machine, if another server is in use."""
    if _is_local(name, args):
        below = _below(name, args)
        say_local(" ".join(below) if below in LOCAL_BELOW else name)


def say_local(name: str) -> None:
    """Say that this command works on this machine, if another server is in use."""
    try:
        address = other_server()
    except HutchError:  # the login cannot be read; commands that use it report this
        return
    if address is not None:
        how = "HUTCH_SERVER names" if address.kind == "environment" else "you are logged in to"
        there = THERE.get(name, "")
        sys.stderr.write(f"hutch: `hutch {name}` uses this machine; {how} {address.url}.{there}\n")


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


def follows_login(local: bool) -> bool:
    """True when a command asks the server of the login rather than this machine."""
    return not local and other_server() is not None


def _is_local(name: str, args: Sequence[str]) -> bool:
    below = _below(name, args)
    own = args[: args.index("--")] if "--" in args else args
    if any(word in HELP for word in own):
        return False
    if any(word.partition("=")[0] in FOLLOWING_BY_OPTION.get(name, ()) for word in own):
        return False
    return below in LOCAL_BELOW or (name in LOCAL and below not in FOLLOWING_BELOW | LOCAL_BY_OPTION)


def _below(name: str, args: Sequence[str]) -> tuple[str, str]:
    """The command and its subcommand."""
    return name, next(iter(args), "")
