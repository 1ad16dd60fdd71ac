"""`hutch debug`: a file or a test of a session under its debugger, driven line by line."""

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import orjson
import typer

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.async_stdio import BlockingThread
from hutch.cli.server_requests import Json, ask, find_session, report_errors
from hutch.domain.errors import BadRequest, HutchError
from hutch.system.terminal_safe_text import one_line, visible

WAIT_S = 60.0
MAX_CHARS = 200
PROMPT = "(debug) "
HELP = """\
b FILE:LINE [CONDITION]  set a breakpoint, or remove it     c  continue
n  next line     s  step into     o  step out     w  wait for a stop     pause
p EXPRESSION  evaluate     v  local variables     bt  stack     take  take over     q  end"""
STEPS = {"c": "continue", "n": "next", "s": "step_in", "o": "step_out", "pause": "pause"}


@report_errors
def debug_command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")],
    target: Annotated[
        str, typer.Argument(metavar="FILE[::TEST]", help="A file of the session, or a test in one.")
    ],
    tests: Annotated[bool, typer.Option("--tests", help="Run all tests of the file.")] = False,
    breaks: Annotated[
        list[str] | None,
        typer.Option("--break", "-b", metavar="FILE:LINE", help="Stop there; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Debug a file or a test in a session, with commands from standard input: `h` lists them.

    Without --break it stops at the first line. Everyone in the session sees the same program. It ends with
    this command. With --json, each answer is a line of JSON.
    """
    return ask(lambda client: _debug(client, session, target, tests, breaks or (), as_json), as_json=as_json)


async def _debug(
    client: Client, session: str, target: str, tests: bool, breaks: Sequence[str], as_json: bool
) -> int:
    found = await find_session(client, session)
    console = _Console(client, str(found["id"]), as_json=as_json)
    for each in breaks:
        await console.toggle(each)
    path, _, test = target.partition("::")
    console.after = int((await client.get(f"/sessions/{found['id']}"))["head"]["seq"])
    body = {"path": path, "test": test, "as_test": tests, "stop_on_entry": not breaks, "wait_s": WAIT_S}
    try:
        await console.show(await client.post(console.path, body))
        return await console.read_commands()
    finally:
        await console.end()


class _Console:
    """Reads commands and shows the program."""

    def __init__(self, client: Client, session_id: str, *, as_json: bool) -> None:
        self._client, self._events, self._json = client, f"/sessions/{session_id}/events", as_json
        self.path = f"/sessions/{session_id}/debugger"
        self.after = 0
        self._state: dict[str, Any] = {}

    async def read_commands(self) -> int:
        """Read until the program or the input ends."""
        lines = BlockingThread("commands")
        while self._state["status"] != "ended":
            if sys.stdin.isatty() and not self._json:
                typer.echo(PROMPT, nl=False)
            line = await lines.do(sys.stdin.readline)
            words = str(line).strip()
            if not line or words in ("q", "quit"):
                return exit_codes.OK
            try:
                await self._do(words)
            except HutchError as error:
                self._print({"error": str(error)}, visible(str(error), lines=True))
        return exit_codes.OK

    async def end(self) -> None:
        """End the program, if it is ours to end."""
        if self._state.get("status") in ("starting", "running", "stopped"):
            await self._client.delete(self.path)

    async def toggle(self, text: str) -> None:
        """Set a breakpoint, or remove it."""
        given = re.fullmatch(r"(.+?):(\d{1,7})(?:\s+(.*))?", text)
        if given is None:
            raise BadRequest(f"'{text}' is not a breakpoint. Write FILE:LINE.")
        path, line, condition = given[1], int(given[2]), given[3] or ""
        files = (await self._client.get(self.path))["breakpoints"]
        have: list[dict[str, Any]] = next((each["breakpoints"] for each in files if each["path"] == path), [])
        lines = [
            {name: each[name] for name in ("line", "condition")} for each in have if each["line"] != line
        ]
        if len(lines) == len(have):
            lines.append({"line": line, "condition": condition})
        await self._client.put(f"{self.path}/breakpoints", {"path": path, "breakpoints": lines})
        shown = ", ".join(str(each["line"]) for each in lines) or "none"
        self._print({"path": path, "breakpoints": lines}, f"{visible(path)}: breakpoints at {shown}")

    async def show(self, state: dict[str, Any]) -> None:
        """Show what the program has printed, and where it is."""
        self._state = state
        page: dict[str, Any] = {"next": self.after}
        while page["next"] is not None:
            page = await self._client.get(self._events, after=page["next"])
            for entry in page["items"]:
                self.after = max(self.after, int(entry["seq"]))
                event = entry["event"]
                if event["type"] == "debug.printed":
                    self._print(event, visible(event["text"], lines=True).rstrip("\n"))
        if state["status"] == "stopped":
            about = f"stopped at {_place(state['frames'])} ({state['reason']}) {state['text']}"
        elif state["status"] == "ended":
            code = "" if state["exit_code"] is None else f", exit code {state['exit_code']}"
            about = f"ended: {state['reason']}{code}"
        else:
            about = state["status"]
        self._print(state, one_line(about, MAX_CHARS))

    async def _do(self, words: str) -> None:
        name, _, rest = words.partition(" ")
        if name in STEPS:
            body = {"action": STEPS[name], "wait_s": WAIT_S}
            return await self.show(await self._client.post(f"{self.path}/control", body))
        commands: dict[str, Callable[[], Awaitable[None]]] = {
            "b": lambda: self.toggle(rest),
            "p": lambda: self._evaluate(rest),
            "v": self._locals,
            "bt": self._stack,
            "w": self._wait,
            "take": self._take,
        }
        if name in commands:
            await commands[name]()
        else:
            self._print({"help": HELP}, HELP)

    async def _evaluate(self, expression: str) -> None:
        if not expression:
            raise BadRequest("Write the expression after p.")
        result = await self._client.post(f"{self.path}/evaluate", {"expression": expression})
        self._print(result, visible(result["value"], lines=True))

    async def _locals(self) -> None:
        scopes = (await self._client.get(f"{self.path}/variables"))["items"]
        if scopes:
            found = await self._client.get(f"{self.path}/variables", reference=scopes[0]["reference"])
            for each in found["items"]:
                self._print(each, one_line(f"{each['name']} = {each['value']}", MAX_CHARS))

    async def _stack(self) -> None:
        for each in (await self._client.get(f"{self.path}/stack"))["items"]:
            self._print(each, one_line(_place([each]), MAX_CHARS))

    async def _wait(self) -> None:
        await self.show(await self._client.get(self.path, wait_s=WAIT_S))

    async def _take(self) -> None:
        await self.show(await self._client.post(f"{self.path}/drive"))

    def _print(self, data: Any, text: str) -> None:
        typer.echo(orjson.dumps(data).decode() if self._json else text)


def _place(frames: list[dict[str, Any]]) -> str:
    if not frames:
        return "an unknown place"
    frame = frames[0]
    return f"{frame['path'] or frame['outside']}:{frame['line']} in {frame['name']}"
