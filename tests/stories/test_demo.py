"""`make demo` keeps its promise: a prompt, a failing test fixed in a jail, a pull request, a record."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.cli.command_table import COMMANDS
from tests.deadline import DEADLINE_S

ROOT = Path(__file__).resolve().parents[2]
HUTCH = Path(sys.executable).with_name("hutch")


def run(*arguments: Path, expect: int = 0, tmpdir: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py", *arguments],
        env=os.environ | ({"TMPDIR": str(tmpdir)} if tmpdir else {}) | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expect, done.stderr
    return done.stdout + done.stderr


def git(home: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=home, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of the user's, which git's variables name while the demo runs."""
    place = tmp_path_factory.mktemp("own")
    git(place, "init", "--quiet")
    return place


@pytest.fixture(scope="module")
def shown(home: Path, own: Path) -> str:
    return run(home, GIT_DIR=str(own / ".git"), GIT_WORK_TREE=str(own))


def test_the_demo_fixes_the_sample(home: Path, shown: str) -> None:
    story = (
        "1 failed, 1 passed",
        "2 passed",
        "diff --git a/slugs.py b/slugs.py",
        "pull request chg_",
        "main is now at",
        "Read-only file system",
        "ok: ",
        "BAD: Event",
    )
    places = [shown.index(word) for word in story]
    assert places == sorted(places)
    assert git(home / "slugs.git", "log", "--format=%s", "main").splitlines() == [
        "Drop accents before words are separated",
        "Slugs",
    ]
    assert git(home / "slugs.git", "diff", "--name-only", "main~", "main").split() == ["slugs.py"]


@pytest.mark.soak  # a whole demo; what removes it is what also removes a demo that is ended
def test_without_a_directory_the_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    assert "BAD: Event" in run(tmpdir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shown")
def test_the_demo_touches_no_repository_that_variables_name(own: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert {file.relative_to(own) for file in own.rglob("*")} == {
        file.relative_to(tmp_path) for file in tmp_path.rglob("*")
    }


def test_the_demo_touches_no_directory_that_is_there_already(tmp_path: Path) -> None:
    """It may be a user's HUTCH_HOME, with keys and a running server."""
    (tmp_path / "data").write_text("mine")
    assert "exists. Choose" in run(tmp_path, expect=1)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("data", "mine")]


def test_a_directory_that_cannot_be_made_is_named_in_one_line(tmp_path: Path) -> None:
    said = run(tmp_path / "no" / "x", expect=1)
    assert said.startswith(f"demo: '{tmp_path}/no/x' cannot be created: ") and said.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "demo.py"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        while "$ hutch run" not in demo.stdout.readline():
            assert demo.poll() is None
        demo.send_signal(number)
        demo.stdout.read()
        assert demo.stderr.read() == f"demo: ended by {number.name}.\n"
    assert demo.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shown")
def test_what_the_demo_leaves_in_a_directory_is_sound(home: Path) -> None:
    for arguments in (("log", "last"), ("export", "last", "-o", "again.zip"), ("verify", "again.zip")):
        done = subprocess.run(
            [HUTCH, *arguments],
            cwd=home,
            env={"HUTCH_HOME": str(home)},
            capture_output=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr


def test_the_advice_names_commands_that_exist_and_no_home_of_the_demo(shown: str) -> None:
    advice = shown.partition("Next steps")[2]
    named = set(re.findall(r"^  hutch (\w+)", advice, re.M))
    assert named >= {"doctor", "config", "run", "changes", "shell", "up"}
    assert named <= {command.name for command in COMMANDS}
    assert "HUTCH_HOME" not in advice


@pytest.mark.usefixtures("shown")
def test_the_change_of_the_demo_says_what_the_tests_said(home: Path) -> None:
    done = subprocess.run(
        [HUTCH, "changes", "show", "last"],
        cwd=home,  # no repository: there `last` is the newest change of all
        env={"HUTCH_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert "tests      2 passed" in done.stdout
