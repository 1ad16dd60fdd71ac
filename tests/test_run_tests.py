"""How `make test` runs tests: each once, in two stages, and never green without having run them."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S
from tests.forked_command import ROOT

SETTINGS = """
[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
addopts = "-q -p xdist --strict-markers --import-mode=importlib -m 'not soak and not control'"
markers = ["soak: x", "serial: x", "control: x", "hypothesis: x"]
"""
TESTS = """
import os, pathlib, signal, time
import pytest

HERE = pathlib.Path(__file__).parent

def test_passes(): pass
@pytest.mark.skip(reason="a reason")
def test_skips(): pass
@pytest.mark.soak
def test_soaks(): assert False
@pytest.mark.control
def test_control(): assert False
@pytest.mark.serial
def test_alone():
    assert "PYTEST_XDIST_WORKER" not in os.environ
    (HERE / "alone").write_text("ran")
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A small project with the scripts of this one."""
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for place in ("tests/attacks", "tests/house", "src/hutch/jail"):
        (tmp_path / place).mkdir(parents=True)
    for plugin in ("progress_plugin.py", "hang_plugin.py"):
        shutil.copy(ROOT / "tests" / plugin, tmp_path / "tests")
    (tmp_path / "tests/pure.txt").write_text("tests/test_some.py\n")
    (tmp_path / "tests/test_some.py").write_text(TESTS)
    yield tmp_path


def driver(
    project: Path, *words: str, before: tuple[str, ...] = (), **how: object
) -> "subprocess.Popen[str]":
    command = [*before, sys.executable, "-m", "scripts.run_tests", "--workers", "1", *(words or ("test",))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | how
    environment = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(project),  # the files of failed tests stay
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # other plugins take longer to load than all else here
    }
    return subprocess.Popen(command, cwd=project, env=environment, text=True, **pipes)


def ran(project: Path, *words: str) -> tuple[int, str]:
    with driver(project, *words) as process:
        printed = process.communicate(timeout=DEADLINE_S)[0]
        return process.returncode, printed


def add(project: Path, text: str) -> None:
    with (project / "tests/test_some.py").open("a") as file:
        file.write(text)


def test_both_stages_are_run_and_added_up(project: Path) -> None:
    code, printed = ran(project, "test", "--workers", "2")
    assert (code, printed.splitlines()[-1]) == (0, "2 passed, 0 failed, 1 skipped"), printed
    assert (project / "tests/alone").read_text() == "ran"
    assert "skipped: tests/test_some.py::test_skips: a reason\n" in printed
    assert re.search(r"\nslowest:\n +\d\.\d s  tests/test_some.py::", printed)
    assert re.search(r"\nelapsed: .* s \(side by side .* s, one at a time .* s\)\n", printed)


def test_a_failure_is_named_at_once_and_the_serial_stage_still_runs(project: Path) -> None:
    once = "p = HERE / 'before'; seen = p.exists(); p.touch(); assert seen, 'the first time'"
    add(project, f"def test_fails_once(): {once}\n")
    code, printed = ran(project)
    assert (code, printed.splitlines()[-1]) == (1, "2 passed, 1 failed, 1 skipped"), printed
    at_once, traceback, summary = (
        printed.index(text)
        for text in (
            "FAILED tests/test_some.py::test_fails_once\n    E   AssertionError: the first time",
            "AssertionError: the first time",
            "failed: tests/test_some.py::test_fails_once\n",
        )
    )
    assert at_once < traceback < summary
    assert (project / "tests/alone").exists()


def test_a_failure_of_the_serial_stage_counts(project: Path) -> None:
    add(project, "@pytest.mark.serial\ndef test_fails(): assert False\n")
    code, printed = ran(project)
    assert (code, printed.splitlines()[-1]) == (1, "2 passed, 1 failed, 1 skipped"), printed


def test_a_run_that_is_killed_fails(project: Path) -> None:
    add(project, "@pytest.mark.serial\ndef test_kills_pytest(): os.kill(os.getpid(), signal.SIGKILL)\n")
    code, printed = ran(project)
    assert code == 1, printed
    assert "failed: the stage 'one at a time': pytest was killed by SIGKILL before" in printed
    add(project, "def test_kills_worker(): os.kill(os.getpid(), signal.SIGKILL)\n")
    code, printed = ran(project)
    assert code == 1 and "failed: tests/test_some.py::test_kills_worker\n" in printed, printed


def test_a_test_that_hangs_fails_and_shows_where_it_waits(project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text(settings.read_text().replace('addopts = "', 'addopts = "--hang-after 3 '))
    add(project, "async def sleeps(): await __import__('asyncio').sleep(600)\n")
    add(project, "async def waits(): await sleeps()\n")
    add(project, "def test_hangs(): __import__('asyncio').run(waits())\n")
    code, printed = ran(project)
    assert (code, printed.splitlines()[-1]) == (1, "2 passed, 1 failed, 1 skipped"), printed
    assert "test_hangs hangs: no end after 3 s\n" in printed
    assert re.search(r"waits at .*\n  .* in waits\n  .* in sleeps\n  .* in sleep\n", printed), printed


def test_workers_that_stop_are_ended_and_the_others_go_on(project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text(settings.read_text().replace('addopts = "', 'addopts = "--stall-after 3 '))
    add(project, "def test_stops(): os.kill(os.getpid(), signal.SIGSTOP)\n")
    add(project, "def test_after(): pass\n")
    code, printed = ran(project)
    assert (code, printed.splitlines()[-1]) == (1, "3 passed, 1 failed, 1 skipped"), printed
    assert "No test has ended for 3 s. The workers:\n" in printed and ": T (stopped), in" in printed, printed
    assert "failed: tests/test_some.py::test_stops\n" in printed


def test_what_runs_beside_it_counts(project: Path) -> None:
    code, printed = ran(project, "test", "--beside", "sh -c 'echo checked'")
    assert code == 0 and "\nchecked\n" in printed, printed
    add(project, "def test_waits():\n while not (HERE / 'beside').exists(): time.sleep(0.01)\n")
    (project / "fails").write_text("echo wrong; touch tests/beside; exit 3\n")
    code, printed = ran(project, "test", "--beside", "sh fails")
    assert (code, printed.splitlines()[-1]) == (1, "3 passed, 0 failed, 1 skipped"), printed
    assert "\nwrong\n" in printed
    assert "failed: the stage 'side by side': 'sh fails' ended with code 3\n" in printed


def test_a_run_of_nothing_fails(project: Path) -> None:
    (project / "tests/test_some.py").write_text("")
    code, printed = ran(project)
    assert (code, printed.splitlines()[-1]) == (1, "0 passed, 0 failed, 0 skipped"), printed
    assert "no tests were collected" in printed


def test_a_module_that_cannot_be_loaded_fails(project: Path) -> None:
    (project / "tests/test_other.py").write_text("import nothing_of_that_name\n")
    code, printed = ran(project)
    assert code == 1, printed
    assert "failed: tests/test_other.py\n" in printed


@pytest.mark.parametrize(
    ("marks", "number", "before"),
    [
        ("", signal.SIGINT, ()),
        ("@pytest.mark.serial\n", signal.SIGINT, ()),
        ("", signal.SIGTERM, ("env", "--ignore-signal=INT,HUP")),  # as in the background of a script
    ],
)
def test_an_interrupt_ends_all_of_it(
    project: Path, marks: str, number: signal.Signals, before: tuple[str, ...]
) -> None:
    add(
        project,
        f"{marks}def test_waits():\n  (HERE / 'pid').write_text(str(os.getpid()))\n  time.sleep(600)\n",
    )
    beside = () if marks else ("--beside", "sleep 600")
    with driver(project, "test", *beside, before=before) as process:
        deadline = time.monotonic() + DEADLINE_S
        while not (project / "tests/pid").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        printed = process.communicate(timeout=DEADLINE_S)[0]
        assert process.returncode == 130, printed
    assert "stopped by a signal" in printed
    assert running_in(project) == []


def running_in(project: Path) -> list[str]:
    """Command lines of processes whose directory is in the project."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(project):
                found.append((process / "cmdline").read_text())
        except OSError:  # it has ended, or is not ours to look at
            continue
    return found


def test_a_terminal_shows_one_line_that_is_rewritten(project: Path) -> None:
    add(project, "def test_takes_a_while(): time.sleep(3)\n")
    ours, theirs = pty.openpty()
    with driver(project, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while read := os.read(ours, 65536):
                shown += read
        except OSError:  # the other side is closed
            assert process.wait(DEADLINE_S) == 0, shown
    os.close(ours)
    assert re.search(rb"\r\x1b\[K\d/3 tests, 0 failed, \d:\d\d, about \d+:\d\d left\r\x1b\[K", shown), shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("test", "--rooms", "house"), (0, "1 passed, 0 failed, 0 skipped")),
        (("test", "--rooms", "some"), (0, "2 passed, 0 failed, 1 skipped")),
        (("test", "--rooms", "cellar"), (1, "ROOMS is 'changed', or some of: attacks, house")),
        (("check",), (0, "2 passed, 0 failed, 1 skipped")),
    ],
)
def test_tiers_and_rooms(project: Path, words: tuple[str, ...], expected: tuple[int, str]) -> None:
    (project / "tests/house/test_rule.py").write_text("def test_rule(): pass\n")
    code, printed = ran(project, *words)
    assert (code, expected[1] in printed.splitlines()[-1]) == (expected[0], True), printed


def test_soak_runs_the_long_tests_and_properties_with_all_examples(project: Path) -> None:
    variable = "os.environ.get('HUTCH_TEST_EXAMPLES')"
    add(project, f"@pytest.mark.hypothesis\ndef test_property(): assert {variable} == 'all'\n")
    code, printed = ran(project, "soak")
    assert (code, printed.splitlines()[-1]) == (1, "1 passed, 1 failed, 0 skipped"), printed
    assert "failed: tests/test_some.py::test_soaks\n" in printed


def test_a_module_of_the_pure_ones_that_starts_a_process_fails(project: Path) -> None:
    for name in ("conftest.py", "hypothesis_examples.py", "outside.txt", "new_database.py"):
        shutil.copy(ROOT / "tests" / name, project / "tests")
    starts = "import subprocess\n\n\ndef test_starts(): subprocess.run(['true'])\n"
    add(project, starts)
    (project / "tests/test_starting.py").write_text(starts)
    (project / "tests/test_unlisted.py").write_text("def test_passes(): pass\n")
    code, printed = ran(project)
    assert (code, printed.splitlines()[-1]) == (1, "4 passed, 1 failed, 1 skipped"), printed
    assert "\nfailed: tests/test_some.py::test_starts\n" in printed
    assert (
        "\ntests/pure.txt lists this module, and this test did what 'subprocess.Popen' stands for." in printed
    )
    assert re.search(
        "These start no process, .* if tests/pure.txt lists them: tests/test_unlisted.py\n", printed
    ), printed


def test_controls_write_down_what_they_were_run_on(project: Path) -> None:
    record = project / "tests/attacks/controls.sha256"
    attack = "import pytest\n@pytest.mark.control\ndef test_attack(): assert {}\n"
    path = project / "tests/attacks/test_attack.py"
    path.write_text(attack.format(False))
    assert ran(project, "controls")[0] == 1 and not record.exists()
    path.write_text(attack.format(True))
    assert ran(project, "controls")[0] == 0
    check = (
        "import sys; from pathlib import Path; from scripts.attack_control_freshness import is_fresh; "
        "print(is_fresh(Path()))"
    )
    for change, fresh in (("", b"True\n"), ("# changed\n", b"False\n")):
        with path.open("a") as file:
            file.write(change)
        assert (
            subprocess.run([sys.executable, "-c", check], cwd=project, stdout=subprocess.PIPE).stdout == fresh
        )
