"""A forked process is like one that was started: the tests of commands rely on it."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, ROOT, Forked, run

ABOUT = [sys.executable, "-m", "tests.environment_printer"]
EITHER_WAY = pytest.mark.parametrize("env", [{}, {"PYTHONUTF8": "1"}], ids=["forked", "started"])
PIPES = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)


@pytest.fixture(autouse=True, scope="module")
def started() -> None:
    """The first of a kind is no fork."""
    assert run([*ABOUT, "exit", "0"], env={}, capture_output=True).returncode == 0


def about(**how: object) -> dict[str, object]:
    done = run([*ABOUT, "a", "b c"], stdin=subprocess.DEVNULL, capture_output=True, check=True, **how)
    return dict(json.loads(done.stdout))


def test_words_environment_and_directory_are_its_own(tmp_path: Path) -> None:
    result = about(env={"HUTCH_X": "y"}, cwd=tmp_path)
    assert (result["words"], result["cwd"]) == (["a", "b c"], str(tmp_path))
    assert {name: value for name, value in result["environment"].items() if name != "LC_CTYPE"} == {
        "HUTCH_X": "y"
    }
    assert result["forked"] is True and result["threads"] == 1


def test_it_has_its_standard_descriptors_and_no_others() -> None:
    with Forked([*ABOUT, "wait"], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"here\n"
        assert about(env={})["descriptors"] == [0, 1, 2]
        other.communicate(b"on\n", timeout=DEADLINE_S)


def test_what_could_change_what_is_loaded_is_no_fork() -> None:
    assert about(env={"PYTHONUTF8": "1"})["forked"] is False


@pytest.mark.parametrize("code", [0, 3, 255])
def test_it_ends_with_its_code(code: int) -> None:
    assert run([*ABOUT, "exit", str(code)], env={}).returncode == code


@EITHER_WAY
def test_a_program_is_run_as_python_runs_it(env: dict[str, str], tmp_path: Path) -> None:
    program = [sys.executable, "-c"]
    run([*program, "pass"], env={})  # the first of its kind
    (tmp_path / "beside.py").write_text("value = 7")
    about = (
        "import sys, beside, __main__\nmine = 1\n"
        "def later(): return mine\n"
        "print(__name__, sys.argv, __main__.mine, later(), beside.value, 'hutch.cli.main' in sys.modules)\n"
        "sys.exit(4)"
    )
    done = run([*program, about, "a", "b c"], env=env, cwd=tmp_path, capture_output=True, text=True)
    said = f"__main__ ['-c', 'a', 'b c'] 1 1 7 {not env}\n"
    assert (done.returncode, done.stdout, done.stderr) == (4, said, "")
    wrong = run([*program, "1 / 0"], env=env, capture_output=True, text=True)
    assert wrong.returncode == 1 and wrong.stderr.endswith("ZeroDivisionError: division by zero\n")


@EITHER_WAY
def test_it_ends_as_python_does(env: dict[str, str]) -> None:
    late = run([*ABOUT, "exit late", "3"], env=env, capture_output=True, text=True)
    assert (late.returncode, late.stdout, late.stderr) == (3, "thread\nexit function\n", "")
    words = run([*ABOUT, "exit words"], env=env, capture_output=True, text=True)
    assert (words.returncode, words.stderr) == (1, "some words\n")
    raised = run([*ABOUT, "raise"], env=env, capture_output=True, text=True)
    assert (raised.returncode, raised.stderr.splitlines()[-1]) == (1, "ValueError: as asked")


UNDER_NOHUP = """
import json, signal, subprocess, sys
from tests.forked_command import run
env, command = json.loads(sys.argv[1]), [*sys.argv[2:], "a"]
def ask(**how):
    return json.loads(run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **how).stdout)
ask()
print(json.dumps([ask(), ask(ignoring=[signal.SIGHUP, signal.SIGINT])]))
"""


@EITHER_WAY
def test_signals_have_their_default_effect_unless_they_are_to_be_ignored(env: dict[str, str]) -> None:
    """Also in a test run that was started by nohup, or in the background by a shell."""
    words = ["env", "--ignore-signal=INT,HUP,QUIT,TERM", sys.executable, "-c", UNDER_NOHUP, json.dumps(env)]
    done = subprocess.run([*words, *ABOUT], stdout=subprocess.PIPE, cwd=ROOT, check=True)
    usual, ignoring = json.loads(done.stdout)
    assert usual["forked"] is ignoring["forked"] is (env == {})
    assert (usual["ignored"], usual["interrupt"]) == (["SIGPIPE", "SIGXFSZ"], True)
    assert ignoring["ignored"] == ["SIGHUP", "SIGINT", "SIGPIPE", "SIGXFSZ"]
    with Forked([*ABOUT, "wait"], env=env, **PIPES) as process:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=DEADLINE_S) == -signal.SIGHUP


@EITHER_WAY
def test_it_can_be_killed_and_waited_for(env: dict[str, str]) -> None:
    with Forked([*ABOUT, "wait"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        process.kill()
        assert process.wait(timeout=DEADLINE_S) == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()


@EITHER_WAY
def test_one_thread_may_wait_while_another_looks(env: dict[str, str]) -> None:
    with Forked([*ABOUT, "wait"], env=env, **PIPES) as process:
        assert process.stdout.readline() == b"here\n"
        codes: list[int] = []
        waiting = threading.Thread(target=lambda: codes.append(process.wait()))
        waiting.start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        assert process.poll() is None
        process.stdin.write(b"on\n")
        process.stdin.flush()
        waiting.join(DEADLINE_S)
        assert (codes, process.poll(), process.wait(timeout=DEADLINE_S)) == ([0], 0, 0)


@EITHER_WAY
def test_input_and_output_go_both_ways_at_once(env: dict[str, str]) -> None:
    text = "x" * 300_000
    done = run([*ABOUT, "echo"], env=env, input=text, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.stdout == text, done.stderr) == (True, "said")
    unread = run([*ABOUT, "exit", "0"], env=env, input=text, text=True, timeout=DEADLINE_S)
    assert (unread.returncode, unread.stdout, unread.stderr) == (0, None, None)


@EITHER_WAY
def test_nothing_is_lost_by_reading_a_line_first_or_by_a_timeout(env: dict[str, str], tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    with Forked([*ABOUT, "until", str(go_on)], env=env, text=True, **PIPES) as process:
        assert process.stdout.readline() == "one\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.05)
        go_on.touch()
        assert process.communicate(timeout=DEADLINE_S) == ("two\nthree\n", "")
    assert process.returncode == 0


@EITHER_WAY
def test_errors_may_go_where_output_goes(env: dict[str, str]) -> None:
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    assert run([*ABOUT, "echo"], env=env, input=b" words", **how).stdout in (b"said words", b" wordssaid")


def test_a_terminal_becomes_its_own() -> None:
    master, slave = pty.openpty()
    words = ["setsid", "-c", *ABOUT, "terminal"]
    for _ in range(2):  # the first is no fork
        process = Forked(words, env={}, stdin=slave, stdout=slave, stderr=slave)
        assert process.wait(timeout=DEADLINE_S) == 0
        result = json.loads(os.read(master, 4096))
        assert result == {"session": process.pid, "foreground": process.pid, "line_buffering": True}
    os.close(master)
    os.close(slave)


def test_a_process_of_a_test_does_not_remove_what_all_workers_share(tmp_path: Path) -> None:
    """Without it, all of them would start every command anew, which takes a second each."""
    script = (
        "from tests.forked_command import run; from tests.test_forked_command import ABOUT; "
        "run([*ABOUT, 'x'], env={})"
    )
    shared = tmp_path / "hutch-test-kinds-some-run"
    shared.mkdir()
    env = os.environ | {"PYTEST_XDIST_TESTRUNUID": "some-run", "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    assert len(list(shared.iterdir())) == 1


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
