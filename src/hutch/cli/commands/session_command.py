"""One command in a session: `hutch shell -s SESSION -- CMD`, with its output as it comes and its exit code.

It needs no terminal. What takes longer than a moment goes on in the session's background and
is read from there; Ctrl-C interrupts it there, as it would here.
"""

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any

from hutch.cli import exit_codes
from hutch.cli.client import Client
from hutch.cli.server_requests import ask, find_session
from hutch.cli.signals import on_signals

SHELL = "command-line"  # the session's shell for these
YIELD_S = 1.0
POLL_INTERVAL_S = 0.3


def session_command(name: str, argv: Sequence[str], timeout_s: float | None) -> int:
    """Run it in the session of this name; its exit code, or 128 and the signal that ended it."""

    async def work(client: Client) -> int:
        found = await find_session(client, name)
        # In a process of its own: nothing that it sets is left to the next, and signals are its own, too.
        wanted = {"command": f"(exec {shlex.join(argv)})", "shell": SHELL, "yield_s": YIELD_S}
        if timeout_s is not None:
            wanted["timeout_s"] = timeout_s
        path = f"/sessions/{found['id']}/commands"
        result = await client.post(path, wanted)
        if result["running"]:
            return await _follow(client, f"{path}/{result['id']}")
        _print(result["stdout"], result["stderr"])
        if result["truncated"]:
            _say("There was more output than is kept. Send it to a file, and look at that: hutch files")
        return _code(result, timeout_s)

    return ask(work)


async def _follow(client: Client, path: str) -> int:
    """Show what a command in the background prints, until it has ended."""
    offset = 0

    async def interrupt() -> None:
        await client.post(f"{path}/signal", {"signal": int(signal.SIGINT)})

    with on_signals({signal.SIGINT: interrupt}):
        while True:
            told = await client.get(path, offset=offset)
            if told["start"] > offset:
                _say(f"{told['start'] - offset} bytes were printed meanwhile and are gone")
            _print(told["text"])
            came, offset = told["end"] > offset, told["end"]
            if not told["running"] and not came:
                return _code(told, None)
            if not came:
                await asyncio.sleep(POLL_INTERVAL_S)


def _code(result: dict[str, Any], timeout_s: float | None) -> int:
    if result["timed_out"]:
        after = f" after {timeout_s:g} s, as --timeout says" if timeout_s is not None else ""
        _say(f"Killed{after}. Give it longer.")
        return exit_codes.LIMIT_REACHED
    if result["exit_code"] is not None:
        return int(result["exit_code"])
    return 128 + int(result["signal"] or 0)


def _print(stdout: str, stderr: str = "") -> None:
    for stream, text in ((sys.stdout, stdout), (sys.stderr, stderr)):
        stream.write(text)
        stream.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"hutch: {text}\n")
    sys.stderr.flush()
