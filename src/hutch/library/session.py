"""A session of a server: its runs, commands, files and events."""

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

from hutch.cli.run_wait_and_output import AwaitedRun
from hutch.domain.errors import Conflict
from hutch.system.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hutch.library.connection import Connection

SILENCE_TIMEOUT_S = 45.0  # the server sends a heartbeat every 15 s
WAIT_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the log. `data` has the fields that docs/events.md lists."""

    seq: int
    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended."""

    id: str
    outcome: str  # done, tests_failing, limit_reached, cancelled or failed
    reason: str
    branch: str  # of the delivered change; empty if nothing was delivered
    url: str
    reply: str  # the agent's last message, or its summary


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that has ended, or continues in the background as `id`."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool
    running: bool
    id: str | None
    cwd: str


class Session:
    """One session. Its methods are requests to the server."""

    def __init__(self, connection: "Connection", row: dict[str, Any]) -> None:
        self._connection, self.row = connection, row
        self.id = str(row["id"])

    def __repr__(self) -> str:
        return f"<Session {self.id} {self.row['state']}: {self.row['purpose'][:60]}>"

    # --- runs ---

    def prompt(self, text: str) -> Run:
        """Give a prompt, and wait for the end of its run."""
        after = self._head()
        given = self._post("/inputs", {"type": "prompt", "text": text})
        return self._wait(AwaitedRun(input=int(given["seq"]), delivers=bool(self.row["deliver"])), after)

    def wait(self) -> Run:
        """Wait for the end of the session's first run."""
        return self._wait(AwaitedRun(delivers=bool(self.row["deliver"])), 0)

    def approve(self, call_id: str, scope: str = "once") -> None:
        """Allow a tool call that waits: see the event `approval.requested`."""
        self._post("/inputs", {"type": "approve", "call_id": call_id, "scope": scope})

    def deny(self, call_id: str, reason: str = "") -> None:
        self._post("/inputs", {"type": "deny", "call_id": call_id, "reason": reason})

    def answer(self, call_id: str, text: str) -> None:
        """Answer a question of the agent: see the event `question.asked`."""
        self._post("/inputs", {"type": "answer", "call_id": call_id, "text": text})

    def cancel(self) -> None:
        """Stop the current run."""
        self._post("/inputs", {"type": "cancel"})

    def end(self) -> None:
        """End the session."""
        self._post("/inputs", {"type": "end"})

    def events(self, after: int = 0) -> Iterator[Event]:
        """Every event after a number, also those to come, until the session ends. A broken connection is
        opened again."""
        while True:
            try:
                for kind, data in self._stream(after):
                    if kind == "end":
                        return
                    if "event" in data and data["seq"] > after:
                        after = data["seq"]
                        yield Event(after, data["event"]["type"], data["event"])
            except httpx2.TransportError:
                time.sleep(WAIT_INTERVAL_S)

    # --- the workspace ---

    def shell(self, command: str, *, timeout_s: float | None = None, shell: str = "main") -> CommandResult:
        """Run a command in a shell of the session, which keeps its directory and variables."""
        self._ready()
        body = {"command": command, "shell": shell, **({"timeout_s": timeout_s} if timeout_s else {})}
        found = self._post("/commands", body)
        return CommandResult(**{name: found[name] for name in CommandResult.__dataclass_fields__})

    def read(self, path: str) -> bytes:
        self._ready()
        return self._connection.request("GET", self._path(f"/files/{quote(path)}")).content

    def write(self, path: str, content: bytes | str) -> None:
        self._ready()
        data = content.encode() if isinstance(content, str) else content
        headers = {"Content-Type": "application/octet-stream"}
        self._connection.request("PUT", self._path(f"/files/{quote(path)}"), content=data, headers=headers)

    def files(self, path: str = "", *, recursive: bool = False) -> list[str]:
        """The paths of files and directories, at most 1,000."""
        self._ready()
        asked = {"path": path, "recursive": recursive, "limit": 1000}
        found = self._connection.request("GET", self._path("/files"), params=asked).json()["items"]
        return [str(each["path"]) for each in found]

    def diff(self) -> str:
        """The changes since the session began, as a patch."""
        self._ready()
        return str(self._connection.request("GET", self._path("/diff")).json()["patch"])

    def fork(self) -> "Session":
        """A new session with the current files of this one."""
        return Session(self._connection, self._post("/fork", None))

    # --- internals ---

    def _path(self, path: str) -> str:
        return f"/sessions/{self.id}{path}"

    def _post(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        return dict(self._connection.request("POST", self._path(path), json=body).json())

    def _refresh(self) -> dict[str, Any]:
        self.row = self._connection.request("GET", self._path("")).json()
        return self.row

    def _head(self) -> int:
        return int((self._refresh()["head"] or {}).get("seq") or 0)

    def _ready(self) -> None:
        """Wait until the workspace is there."""
        while self.row["state"] in ("queued", "starting"):
            time.sleep(WAIT_INTERVAL_S)
            if self._refresh()["state"] == "ended":
                raise Conflict(f"The session {self.id} has ended: {self.row['reason']}")

    def _wait(self, awaited: AwaitedRun, after: int) -> Run:
        ended: dict[str, Any] = {}
        change: dict[str, Any] = {}
        reply = ""
        for event in self.events(after):
            match event.type:
                case "model.replied":
                    reply = _summary(event.data) or event.data.get("text") or reply
                case "run.ended":
                    ended = event.data
                case "change.proposed":
                    change = event.data
            if awaited.ended(event.data) is not None:
                break
        self._refresh()
        return Run(
            id=str(ended.get("run_id", "")),
            outcome=str(ended.get("outcome", "cancelled")),
            reason=str(ended.get("reason", "")),
            branch=str(change.get("branch", "")),
            url=str(change.get("url", "")),
            reply=reply,
        )

    def _stream(self, after: int) -> Iterator[tuple[str, dict[str, Any]]]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
        timeout = httpx2.Timeout(SILENCE_TIMEOUT_S, connect=10.0)
        http = self._connection.http
        with http.stream("GET", self._path("/events/stream"), headers=headers, timeout=timeout) as answer:
            if answer.status_code == 204:
                yield "end", {}
                return
            answer.raise_for_status()
            kind = "message"
            for line in answer.iter_lines():
                name, _, value = line.partition(":")
                if name == "event":
                    kind = value.strip()
                elif name == "data":
                    yield kind, json.loads(value)
                elif not line:
                    kind = "message"


def _summary(reply: dict[str, Any]) -> str:
    """The summary that an agent gives when it finishes."""
    for call in reply.get("calls", ()):
        if call["tool"] == "finish":
            try:
                return str(json.loads(call["arguments"]).get("summary", ""))
            except ValueError:
                return ""
    return ""
