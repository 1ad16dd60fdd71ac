"""The tasks of a server on this machine's disk: a copy for offline, and an outbox of changes.

Each user and server has a directory of its own, which only the user can read; `hutch logout` removes it.
A change is a file, synced to disk before anything is sent, and removed when the server has stored it.
So a crash, Ctrl-C or a lost connection loses nothing.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hutch.cli.server_address_and_token import Address
from hutch.cli.server_tasks.task_json_and_filter import task_from_json, with_values
from hutch.domain.task import ENDED_STATES, Task, TaskFields
from hutch.settings import Paths
from hutch.system.atomic_file import replace_file, sync_directory
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

NEW = "+"  # begins the key and the id of a task that the server does not have yet
SLOW_FAILURE_S = 30.0  # a server that did not respond in time is not asked again for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedChange:
    """A change that the server does not have yet. `task` is the id of a task, or that of a new one."""

    id: str
    kind: str  # create, change, comment
    task: str
    key: str
    title: str
    at_ms: int
    revision: int = 0
    values: Mapping[str, Any]  # of a comment: text and progress
    before: Mapping[str, Any]
    status: str = "waiting"  # or conflict, refused
    fields: tuple[str, ...] = ()  # that conflict
    theirs: Mapping[str, Any] | None = None
    problem: str = ""


class TaskCopy:
    """The directory of one user and server."""

    def __init__(self, paths: Paths, address: Address) -> None:
        who = address.user or hashlib.sha256(address.token.encode()).hexdigest()
        name = hashlib.sha256(f"{address.url}\n{who}".encode()).hexdigest()[:32]
        self.directory = paths.state / "server-tasks" / name
        self.lock = self.directory / "lock"
        self._outbox = self.directory / "outbox"

    def prepare(self) -> None:
        self._outbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.directory)

    # --- the copy ---

    def store(self, tasks: Sequence[Mapping[str, Any]], user: str, waiting: int) -> None:
        """Replace the copy by the server's tasks; `waiting` sessions wait for the user."""
        self.prepare()
        self._write(tasks, {"user": user, "waiting": waiting, "at_ms": wall_ms()})
        (self.directory / "unreachable").unlink(missing_ok=True)

    def _write(self, tasks: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
        mine = sum(
            each["fields"]["owner"] == summary["user"] != ""
            and each["fields"]["state"] not in ENDED_STATES
            and not each["archived"]
            for each in tasks
        )
        replace_file(self.directory / "tasks.json", json.dumps(tasks), mode=0o600)
        replace_file(self.directory / "summary.json", json.dumps({**summary, "mine": mine}), mode=0o600)

    def tasks(self) -> list[Task]:
        """The tasks as of the last sync, with the changes in the outbox applied, the newest first."""
        stored = {each["id"]: task_from_json(each) for each in _read(self.directory / "tasks.json") or []}
        created: dict[str, Task] = {}
        for change in self.changes():
            if change.kind == "create":
                created[change.task] = _new_task(change)
            for known in (stored, created):
                if change.kind == "change" and change.status == "waiting" and change.task in known:
                    known[change.task] = with_values(known[change.task], change.values)
        newest_first = sorted(stored.values(), key=lambda task: task.id, reverse=True)
        return [*reversed(created.values()), *newest_first]

    def summary(self) -> dict[str, Any]:
        """`at_ms` of the last sync, 0 if there was none; the user's name, and counts."""
        return {
            "at_ms": 0,
            "user": "",
            "mine": 0,
            "waiting": 0,
            **(_read(self.directory / "summary.json") or {}),
        }

    def note_unreachable(self) -> None:
        self.prepare()
        replace_file(self.directory / "unreachable", b"", mode=0o600)

    def was_unreachable(self) -> bool:
        """True if the server did not respond in time a moment ago."""
        try:
            return time.time() - (self.directory / "unreachable").stat().st_mtime < SLOW_FAILURE_S
        except OSError:
            return False

    def update(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        """Put tasks that the server has just stored into the copy."""
        newer = {each["id"]: each for each in tasks}
        if newer:
            known = _read(self.directory / "tasks.json") or []
            kept = [each for each in known if each["id"] not in newer]
            self._write([*newer.values(), *kept], self.summary())

    # --- the outbox ---

    def queue(self, **fields: Any) -> QueuedChange:
        """Keep a change durably; it is sent later."""
        self.prepare()
        change = QueuedChange(id=os.urandom(16).hex(), at_ms=wall_ms(), **fields)
        name = f"{time.time_ns():020d}-{change.id}.json"
        replace_file(self._outbox / name, json.dumps(asdict(change)), mode=0o600, durable=True)
        return change

    def changes(self) -> list[QueuedChange]:
        """In the order in which they were made."""
        return [QueuedChange(**{**each, "fields": tuple(each["fields"])}) for each in self._contents()]

    def count(self) -> int:
        return len(self._files())

    def replace(self, change: QueuedChange) -> None:
        for path in self._files():
            if path.stem.endswith(change.id):
                replace_file(path, json.dumps(asdict(change)), mode=0o600, durable=True)

    def drop(self, change: QueuedChange) -> None:
        for path in self._files():
            if path.stem.endswith(change.id):
                path.unlink(missing_ok=True)
                sync_directory(self._outbox)

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self._outbox.iterdir() if path.name[:1].isdigit())
        except FileNotFoundError:
            return []

    def _contents(self) -> list[dict[str, Any]]:
        found = (_read(path) for path in self._files())
        return [each for each in found if isinstance(each, dict)]


def _read(path: Path) -> Any:
    """The JSON of a file; None if another process has just removed it, or it is not whole."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _new_task(change: QueuedChange) -> Task:
    values = {name: value for name, value in change.values.items() if name not in ("repository", "key")}
    bare = Task(
        id=change.task,
        repository=str(change.values.get("repository", "")),
        key=change.key,
        fields=TaskFields(title=""),
        revision=0,
        created_by="",
        created_ms=change.at_ms,
        updated_ms=change.at_ms,
    )
    return with_values(bare, values)
