"""`hutch version` prints the information for a bug report."""

import json
import platform

import pytest

import hutch
from hutch.cli.main import run


def test_version_names_hutch_python_and_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "hutch": hutch.__version__,
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def test_version_prints_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["hutch", hutch.__version__]
