"""The process that commands are forked from: `python -m tests.fork_server HUTCH SOCKET`.

It loads Hutch, then forks once for each request that comes over the socket. A child takes the
place that the request describes, and runs the command as Python would have run it.
"""

import asyncio
import atexit
import contextlib
import fcntl
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import termios
import threading
import types
from pathlib import Path
from typing import Any

LATE = (  # loaded when they are needed
    *("alembic.config", "anyio._backends._asyncio", "httpcore2"),
    *(
        "hutch.flows.uncommitted_files_warning",
        "hutch.cli.commands.proposed_changes",
        "hutch.cli.commands.eval",
        "hutch.cli.commands.review",
        "hutch.cli.commands.session_shell",
    ),
    *("hutch.cli.local_session_client", "hutch.cli.run_lifecycle", "hutch.cli.screens.app"),
    *(
        "hutch.gateway.mcp.directory_tool_server",
        "hutch.gateway.server_lifecycle",
        "hutch.store.vault",
        "tests.gateway.api_server",
    ),
)
ON_A_TERMINAL = ["setsid", "-c"]  # makes standard input the controlling terminal, then is what follows
STOPPING = ("SIGINT", "SIGHUP", "SIGQUIT", "SIGTERM")
_exit_code: int | None = None


def _load() -> None:
    commands = importlib.import_module("hutch.cli.command_table").COMMANDS
    for module in (
        "hutch.cli.main",
        "hutch.cli.dispatch",
        *(each.target.split(":")[0] for each in commands),
        *LATE,
    ):
        importlib.import_module(module)
    for command in commands:
        importlib.import_module("hutch.cli.dispatch").load(command)
    _complete_classes()
    asyncio.run(_compile_statements())
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()


def _complete_classes() -> None:
    """Make what Hutch makes at a first use: validators, schemas of tools, `__init__`, and a large pattern.

    Otherwise each child makes it: a fifth of its processor time.
    """
    from pydantic import BaseModel

    from hutch.agent.tools.interface import Arguments
    from hutch.agent.tools.tool_schemas_and_dispatch import schema
    from hutch.domain.redaction import Redactor
    from hutch.system.lazy_dataclass import _compile_init

    Redactor()
    for model in _subclasses(BaseModel):
        if model.__module__.startswith("hutch."):
            model.model_rebuild()
    for arguments in _subclasses(Arguments):
        schema(arguments)
    for name, module in tuple(sys.modules.items()):
        for each in vars(module).values() if name.startswith("hutch.") else ():
            init = getattr(each, "__init__", None)
            if isinstance(each, type) and getattr(init, "__qualname__", "").startswith("_first_init."):
                frozen = inspect.getclosurevars(init).nonlocals["frozen"]
                each.__init__ = _compile_init(each, frozen=frozen)


def _subclasses(kind: type) -> set[Any]:
    return {each for direct in kind.__subclasses__() for each in {direct, *_subclasses(direct)}}


async def _compile_statements() -> None:
    """Open a log. Its statements are compiled now, and need not be in each child."""
    from hutch.store.event_log import open_log

    with tempfile.TemporaryDirectory() as place:
        async with open_log(Path(place, "hutch.db"), Path(place, "blobs"), Path(place, "signing.pem")):
            pass
    tempfile.tempdir = None  # a child finds its own


def _serve(listener: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and report each end. Returns in a child with its request; at the end, None."""
    running: dict[int, tuple[int, int]] = {}  # by its descriptor: its pid, and where to report its end
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != listener.fileno():
                pid, report = running.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                with contextlib.suppress(BrokenPipeError):
                    os.write(report, os.waitpid(pid, 0)[1].to_bytes(4, "little"))
                os.close(report)
                continue
            asked, descriptors, _, _ = socket.recv_fds(listener, 1 << 20, 4)
            if not asked:
                return None
            *standard, report = descriptors
            if not (pid := os.fork()):
                for each, (_, other) in running.items():
                    os.close(each)
                    os.close(other)
                os.close(report)
                listener.close()
                return _become(json.loads(asked), standard)
            running[at := os.pidfd_open(pid)] = (pid, report)
            poll.register(at, select.POLLIN)
            os.write(report, pid.to_bytes(4, "little"))
            for descriptor in standard:
                os.close(descriptor)


def _become(asked: dict[str, Any], standard: list[int]) -> dict[str, Any]:
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    if on_a_terminal := asked["words"][:2] == ON_A_TERMINAL:
        del asked["words"][:2]
    if on_a_terminal or asked["session"]:
        os.setsid()
    if on_a_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for name in STOPPING:
        usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL  # as Python sets them
        signal.signal(signal.Signals[name], signal.SIG_IGN if name in asked["ignored"] else usual)
    os.chdir(asked["cwd"])
    coerced = os.environ.get("LC_CTYPE")  # set by Python where nothing else was said
    os.environ.clear()
    os.environ.update(asked["env"] | ({"LC_CTYPE": coerced} if coerced else {}))
    return asked


def _run_program(program: str, words: list[str]) -> None:
    """As `python -c`: the program is the main module, and imports from the current directory first."""
    sys.path[0] = ""
    sys.argv = ["-c", *words]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(program, "<string>", "exec"), vars(main))


def _leave() -> None:
    """The last exit function. Python would give memory back now, and would have to copy it for that first."""
    if _exit_code is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_exit_code)


def _main(hutch: str, listener: int) -> None:
    global _exit_code
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ends with the test run, when the socket is closed
    atexit.register(_leave)  # before anything is loaded: exit functions are called in reverse order
    _load()
    asked = _serve(socket.socket(fileno=listener))
    if asked is None:
        return
    command, *words = asked["words"]
    try:
        if command == hutch:
            sys.path[0] = str(Path(hutch).parent)
            sys.argv = [command, *words]
            sys.exit(importlib.import_module("hutch.cli.main").main())
        how, what, *rest = words
        if how == "-c":
            _run_program(what, rest)
        else:
            sys.argv = [what, *rest]
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        sys.exit(0)
    except SystemExit as end:
        if isinstance(end.code, int):
            _exit_code = end.code & 0xFF
        raise


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
