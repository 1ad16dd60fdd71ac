"""A way for root's tests to run something as an ordinary user.

The user must be able to read the interpreter, its packages and this tree. Where
the tree lies in a place of root's own, a copy of it is made that anybody can read.
"""

import atexit
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Place:
    """Where an ordinary user finds Hutch and its tests."""

    root: Path
    python: str
    environment: dict[str, str]

    def as_user(self, uid: int) -> list[str]:
        """The words before the arguments for Python."""
        if uid == os.geteuid():
            return [self.python]
        return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", self.python]


@cache
def place() -> Place:
    """This tree, if an ordinary user can reach it, else a copy."""
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    here = Place(ROOT, sys.executable, environment)
    if os.geteuid() != 0 or _works(here):
        return here
    copy = Path(tempfile.mkdtemp(prefix="hutch-test-tree-"))
    atexit.register(shutil.rmtree, copy)
    copy.chmod(0o755)
    for name in ("src", "tests", "samples", "scripts", "docs", "pyproject.toml"):
        subprocess.run(["cp", "-a", ROOT / name, copy / name], check=True)
    # Half a gigabyte, which nobody changes: as links where that is possible.
    linked = subprocess.run(["cp", "-al", ROOT / ".venv", copy / ".venv"], capture_output=True)
    if linked.returncode:
        subprocess.run(["cp", "-a", ROOT / ".venv", copy], check=True)
    subprocess.run(["chmod", "-R", "go+rX", copy], check=True)
    there = Place(copy, str(copy / ".venv/bin/python"), environment | {"PYTHONPATH": str(copy / "src")})
    assert _works(there), (
        f"{sys.executable} cannot be run by an ordinary user: set up again with one that can, "
        "such as: make clean setup PYTHON=/usr/bin/python3"
    )
    return there


def _works(place: Place) -> bool:
    script = "import hutch, sys; open(sys.argv[1]).close()"
    command = [*place.as_user(65534), "-c", script, str(place.root / "tests" / "ordinary_user.py")]
    return subprocess.run(command, env=place.environment, cwd="/", capture_output=True).returncode == 0


def packages() -> str:
    """The packages of .venv, at a place that the users of jails can read."""
    below = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    return str(Path(place().python).parents[1] / below)


@contextmanager
def own_directory(uid: int) -> Iterator[Path]:
    """A directory that belongs to the user."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    os.chown(directory, uid, uid)
    yield directory
    shutil.rmtree(directory)


def pytest_as(uid: int, *suites: str, marks: str = "not soak", timeout_s: float = 1200) -> None:
    """Run these test files as that user, of them the tests that have these marks; they must all pass."""
    found = place()
    with own_directory(uid) as home:
        ran = subprocess.run(
            [
                *found.as_user(uid),
                *("-m", "pytest", "-p", "no:cacheprovider", "--basetemp", str(home / "tests"), "-m", marks),
                *(str(found.root / "tests" / suite) for suite in suites),
            ],
            env=found.environment
            | {"HOME": str(home), "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "examples")},
            cwd=found.root,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
