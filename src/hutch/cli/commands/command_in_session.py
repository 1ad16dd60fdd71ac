"""One command in a session: `hutch shell -s SESSION -- CMD`, with live output and the command's exit code.

It needs no terminal. A command that takes longer than YIELD_S continues in the session's background
and its output is polled; Ctrl-C interrupts it there.
"""

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.server_requests import ask, find_session
from hutch.cli.signals_and_closed_output import on_signals

SHELL = "command-line"  # the session's shell for these commands
YIELD_S = 1.0
POLL_INTERVAL_S = 0.3


def session_command(name: str, argv: Sequence[str], timeout_s: float | None) -> int:
    """Run a command in a session; return its exit code, or 128 plus the signal that ended it."""

    async def work(client: Client) -> int:
        found = await find_session(client, name)
        # A subshell: its variables do not leak into the next command, and its signals are its own.
        body = {"command": f"(exec {shlex.join(argv)})", "shell": SHELL, "yield_s": YIELD_S}
        if timeout_s is not None:
            body["timeout_s"] = timeout_s
        path = f"/sessions/{found['id']}/commands"
        result = await client.post(path, body)
        if result["running"]:
            return await _follow(client, f"{path}/{result['id']}", timeout_s)
        _print(result["stdout"], result["stderr"])
        if result["truncated"]:
            _say("The output was truncated. Redirect it to a file and read that with hutch files.")
        return _code(result, timeout_s)

    return ask(work)


async def _follow(client: Client, path: str, timeout_s: float | None) -> int:
    """Print a background command's output until it ends."""
    offset = 0

    async def interrupt() -> None:
        await client.post(f"{path}/signal", {"signal": "INT"})

    with on_signals({signal.SIGINT: interrupt}):
        while True:
            output = await client.get(path, offset=offset)
            if output["start"] > offset:
                _say(f"{output['start'] - offset} bytes of output were dropped")
            _print(output["text"])
            has_output, offset = output["end"] > offset, output["end"]
            if not output["running"] and not has_output:
                return _code(output, timeout_s)
            if not has_output:
                await asyncio.sleep(POLL_INTERVAL_S)


def _code(result: dict[str, Any], timeout_s: float | None) -> int:
    if result["timed_out"]:
        after = f" after {timeout_s:g} s (--timeout)" if timeout_s is not None else ""
        _say(f"Killed{after}. Use a longer timeout.")
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
