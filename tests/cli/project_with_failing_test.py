"""Fixtures for tests of `hutch run`: a home, a repository with a failing test, and scripted models."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.deadline import DEADLINE_S
from tests.forge.repositories import make_repository
from tests.forked_command import HUTCH, run
from tests.new_database import place_database

FILES = {
    "adding.py": "def add(a, b):\n    return a - b\n",
    "test_adding.py": (
        "import unittest\n\nfrom adding import add\n\n\nclass Adding(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    ),
    ".hutch.toml": '[tests]\ncommand = "python3 -S -m unittest -q"\n',
}
FIX = {"path": "adding.py", "edits": [{"old": "a - b", "new": "a + b"}]}


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


FIXES: tuple[dict[str, Any], ...] = (
    {"text": "I see what is wrong.", "calls": [call("edit_file", **FIX)]},
    {"calls": [call("finish", title="Add instead of subtracting", summary="The sign was wrong.")]},
)
BREAKS: tuple[dict[str, Any], ...] = (
    {"calls": [call("write_file", path="adding.py", content="raise RuntimeError\n")]},
    {"calls": [call("finish", title="Nearly", summary="It is not right.")], "times": 50},
)


class Project:
    """A repository with a failing test, and the home of Hutch beside it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.work = place / "work"
        make_repository(self.work, FILES)
        place_database(place / "home" / "data")

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place),
            "HUTCH_HOME": str(self.place / "home"),
            "TERM": "xterm",
            **more,
        }

    def cassette(self, *replies: dict[str, Any]) -> str:
        """A model that says these, by the name it has on the command line."""
        path = self.place / "cassette.json"
        path.write_text(json.dumps({"replies": replies}))
        return f"scripted:{path}"

    def hutch(self, *words: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        return run(
            [HUTCH, *words],
            cwd=self.work,
            env=self.environment(**env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def run(
        self, *words: str, replies: tuple[dict[str, Any], ...] = FIXES, prompt: str = "Mend add", **env: str
    ) -> "subprocess.CompletedProcess[str]":
        return self.hutch("run", prompt, "--model", self.cassette(*replies), *words, **env)


def lines(text: str) -> list[dict[str, Any]]:
    """Every line is one JSON object."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(each, dict) and each["type"] for each in found)
    return found


@contextmanager
def temporary_project() -> Iterator[Project]:
    """A project in a directory that the jail's user can reach.

    The kernel makes a directory without permissions in each overlay. `TemporaryDirectory` gives them back
    before it removes it, as an ordinary user must.
    """
    with TemporaryDirectory(prefix="hutch-test-") as directory:
        Path(directory).chmod(0o755)
        yield Project(Path(directory))
