"""How `make repeat` runs a test many times."""

import os
import subprocess
import sys
from pathlib import Path

from tests.forked_command import ROOT

TESTS = """
import pytest

def test_other(): assert False
def test_plain(): pass
@pytest.mark.parametrize("way", ["one", "two-#"])
def test_way(way): assert way != "two-#"
class TestGroup:
    def test_inside(self): pass
"""


def repeated(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (directory / "test_some.py").write_text(TESTS)
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -p xdist -p tests.repeat_plugin -n 1")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "--no-header", *words],
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )


def outcomes(ran: "subprocess.CompletedProcess[str]") -> list[str]:
    known = ("PASSED ", "FAILED ", "ERROR ")
    return sorted(
        line.partition(" - ")[0] for line in ran.stdout.splitlines() if line.strip().startswith(known)
    )


def test_each_test_is_run_as_often_as_asked(tmp_path: Path) -> None:
    words = (
        "test_some.py::test_plain",
        "test_some.py::TestGroup::test_inside",
        "test_some.py::test_way[one]",
    )
    ran = repeated(tmp_path, "--repeat", "2", *words)
    assert (ran.returncode, outcomes(ran)) == (
        0,
        [
            *(f"PASSED test_some.py::TestGroup::test_inside[#{step}]" for step in range(2)),
            *(f"PASSED test_some.py::test_plain[#{step}]" for step in range(2)),
            *(f"PASSED test_some.py::test_way[one-#{step}]" for step in range(2)),
        ],
    ), ran.stdout + ran.stderr


def test_every_failure_is_named(tmp_path: Path) -> None:
    ran = repeated(tmp_path, "--repeat", "2", "test_some.py::test_way[two-#]")
    assert (ran.returncode, outcomes(ran)) == (
        1,
        [f"FAILED test_some.py::test_way[two-#-#{step}]" for step in range(2)],
    ), ran.stdout + ran.stderr
