"""What is forked is a process as one that was started: the tests of commands rely on it."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import HUTCH, Forked, run

ABOUT = [sys.executable, "-m", "tests.forked_about"]


@pytest.fixture(autouse=True, scope="module")
def started() -> None:
    """The first of a kind is no fork."""
    assert run([*ABOUT, "exit", "0"], env={}, capture_output=True).returncode == 0


def about(**how: object) -> dict[str, object]:
    done = run([*ABOUT, "a", "b c"], stdin=subprocess.DEVNULL, capture_output=True, check=True, **how)
    return dict(json.loads(done.stdout))


def test_words_environment_and_directory_are_its_own(tmp_path: Path) -> None:
    told = about(env={"HUTCH_X": "y"}, cwd=tmp_path)
    assert (told["words"], told["cwd"]) == (["a", "b c"], str(tmp_path))
    assert {name: value for name, value in told["environment"].items() if name != "LC_CTYPE"} == {
        "HUTCH_X": "y"
    }
    assert told["forked"] is True and told["threads"] == 1


def test_it_has_its_standard_descriptors_and_no_others() -> None:
    with Forked([*ABOUT, "wait"], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"here\n"
        assert about(env={})["descriptors"] == [0, 1, 2]
        other.communicate(b"on\n", timeout=60)


def test_what_could_change_what_is_loaded_is_no_fork() -> None:
    assert about(env={"PYTHONUTF8": "1"})["forked"] is False


@pytest.mark.parametrize("code", [0, 3, 255])
def test_it_ends_with_its_code(code: int) -> None:
    assert run([*ABOUT, "exit", str(code)], env={}).returncode == code


def test_it_can_be_killed_and_waited_for() -> None:
    with Forked([*ABOUT, "wait"], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()


def test_input_and_output_go_both_ways_at_once() -> None:
    text = "x" * 300_000
    done = run([*ABOUT, "echo"], env={}, input=text, capture_output=True, text=True, timeout=60)
    assert (done.stdout == text, done.stderr) == (True, "said")


def test_a_terminal_becomes_its_own() -> None:
    master, slave = pty.openpty()
    words = ["setsid", "-c", *ABOUT, "terminal"]
    for _ in range(2):  # the first is no fork
        process = Forked(words, env={}, stdin=slave, stdout=slave, stderr=slave)
        assert process.wait(timeout=60) == 0
        told = json.loads(os.read(master, 4096))
        assert told == {"session": process.pid, "foreground": process.pid, "line_buffering": True}
    os.close(master)
    os.close(slave)


def test_a_command_says_the_same_either_way(tmp_path: Path) -> None:
    for words in (["config", "show"], ["sessions", "list"], ["changes", "nonsense"], ["nonsense"], ["help"]):
        command, env = [HUTCH, *words], {"PATH": os.environ["PATH"], "HUTCH_HOME": str(tmp_path)}
        real = subprocess.run(command, env=env, capture_output=True, stdin=subprocess.DEVNULL)
        for _ in range(2):
            other = run(command, env=env, capture_output=True, stdin=subprocess.DEVNULL)
            assert (other.returncode, other.stdout, other.stderr) == (
                real.returncode,
                real.stdout,
                real.stderr,
            )
