"""A real `hutch up` with its own home, and commands beside it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, Forked, run
from tests.new_database import place_database

TIMEOUT_S = DEADLINE_S


@dataclass(frozen=True)
class Home:
    """The directory of one installation."""

    place: Path
    is_new: bool = False  # nothing is there: the first command makes it all

    def __post_init__(self) -> None:
        if not self.is_new:
            place_database(self.data)

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HUTCH_HOME": str(self.place / "home"), **more}

    def hutch(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return run(
            [HUTCH, *words],
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    @property
    def data(self) -> Path:
        return self.place / "home" / "data"

    @property
    def token(self) -> str:
        return (self.data / "keys" / "local.token").read_text()

    @contextmanager
    def up(
        self, *words: str, under: Sequence[str] = (), ignoring: Iterable[signal.Signals] = (), **env: str
    ) -> Iterator["Up"]:
        """A server in the foreground, started by `under`, for as long as the block lasts."""
        # Its log goes to a file, to be shown when it does not start.
        with (
            (self.place / "up.err").open("w") as log,
            Forked(
                [*under, HUTCH, "up", "--port", "0", "--json", *words],
                env=self.environment(**env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                ignoring=ignoring,
            ) as process,
        ):
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, Path(log.name).read_text()
                yield Up(process, json.loads(line), self)
            finally:
                if process.poll() is None:
                    process.terminate()
                process.communicate(timeout=TIMEOUT_S)


@dataclass(frozen=True)
class Up:
    """A server that answers."""

    process: "subprocess.Popen[str]"
    printed: dict[str, Any]
    home: Home

    @property
    def url(self) -> str:
        return str(self.printed["url"])

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=TIMEOUT_S, trust_env=False, **options)

    def owner(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.home.token}"}

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=TIMEOUT_S)
