"""`make demo` keeps its promise: a prompt, a failing test mended in a jail, a pull request, a record."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HUTCH = Path(sys.executable).with_name("hutch")


def run(home: Path) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py", home], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def git(home: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=home, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo"


@pytest.fixture(scope="module")
def shown(home: Path) -> tuple[str, str]:
    """What it prints the first time, and the second time at the same place."""
    return run(home), run(home)


def test_the_demo_mends_the_sample_and_can_be_run_again(home: Path, shown: tuple[str, str]) -> None:
    for printed in shown:
        story = (
            "1 failed, 1 passed",
            "2 passed",
            "diff --git a/slugs.py b/slugs.py",
            "pull request chg_",
            "main is at",
            "Read-only file system",
            "ok: ",
            "BAD: Event",
        )
        places = [printed.index(word) for word in story]
        assert places == sorted(places)
    assert git(home / "slugs.git", "log", "--format=%s", "main").splitlines() == [
        "Drop accents before words are separated",
        "Slugs",
    ]
    assert git(home / "slugs.git", "diff", "--name-only", "main~", "main").split() == ["slugs.py"]


def test_what_the_demo_leaves_is_sound_and_what_it_names_is_there(home: Path, shown: tuple[str, str]) -> None:
    advice = shown[-1].partition("How to go on:\n")[2]
    lines = [line.partition("#")[0].strip() for line in advice.splitlines()]
    script = "\n".join(line for line in lines if line.startswith((". ", "export ")) or " -- " in line)
    went_on = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=60)
    assert went_on.returncode == 0, went_on.stderr
    assert script.count("\n") == 2
    for arguments in (("log", "last"), ("export", "last", "-o", "again.zip"), ("verify", "again.zip")):
        done = subprocess.run(
            [HUTCH, *arguments], cwd=home, env={"HUTCH_HOME": str(home)}, capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("shown")
def test_the_change_of_the_demo_says_what_the_tests_said(home: Path) -> None:
    done = subprocess.run(
        [HUTCH, "changes", "show", "last"],
        env={"HUTCH_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "tests      2 passed" in done.stdout
