"""A running server, and users at terminals who attach to its sessions with the real command."""

import json
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.hutch_up_process import TIMEOUT_S, Home
from tests.cli.test_shell_command import Person
from tests.forked_command import HUTCH, run


class Visitor(Person):
    """A user at a terminal who has typed `hutch …`."""

    program = (HUTCH,)

    def see(self, pattern: str, within_s: float = TIMEOUT_S) -> None:
        super().see(pattern, within_s)

    def leave(self, within_s: float = TIMEOUT_S) -> int:
        return super().leave(within_s)

    def _clean(self) -> bytes:
        """The output without escape sequences."""
        return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]133;[^\x07\x1b]*(?:\x07|\x1b\\)", b"", self.shown)


@dataclass(frozen=True)
class ServerHome(Home):
    """An installation whose server runs."""

    def model(self, *replies: dict[str, Any]) -> str:
        path = Path(tempfile.mkstemp(suffix=".json", dir=self.place)[1])
        path.write_text(json.dumps({"replies": replies}))
        return f"scripted:{path}"

    def json(self, *words: str, **env: str) -> Any:
        result = self.hutch(*words, "--json", **env)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def new(self, *replies: dict[str, Any], **options: str) -> str:
        """The id of a new session with a model that says this."""
        words = [f"--{name}={value}" for name, value in options.items()]
        return str(self.json("sessions", "new", "--model", self.model(*replies), *words)["id"])

    def until(self, session_id: str, *states: str) -> dict[str, Any]:
        """The session, once it is in one of these states."""
        deadline = time.monotonic() + TIMEOUT_S
        while (known := self._state(session_id)) not in states:  # a command each time would cost more
            assert time.monotonic() < deadline, known
            time.sleep(0.05)
        return dict(self.json("sessions", "show", session_id))

    def _state(self, session_id: str) -> str:
        with closing(sqlite3.connect(f"file:{self.data}/hutch.db?mode=ro", uri=True)) as database:
            (state,) = database.execute("select state from sessions where id = ?", [session_id]).fetchone()
        return str(state)

    def say(self, *words: str, stdin: str) -> "subprocess.CompletedProcess[str]":
        return run(
            [HUTCH, *words],
            cwd=self.place / "work",
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    @contextmanager
    def visitor(self, *words: str, **env: str) -> Iterator[Visitor]:
        came = Visitor(self.place, *words, **env)
        try:
            yield came
        finally:
            came.close()


@contextmanager
def new_server_home() -> Iterator[ServerHome]:
    """A directory that the users of jails can reach, without a server yet."""
    place = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    place.chmod(0o755)
    (place / "work").mkdir()
    try:
        yield ServerHome(place)
    finally:
        shutil.rmtree(place)


@contextmanager
def running_server() -> Iterator[ServerHome]:
    with new_server_home() as server, server.up():
        yield server
