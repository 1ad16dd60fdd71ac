"""A server keeps everything that it acknowledged, through any failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ordinary_user import ROOT


def disturbed(place: Path, rounds: int, seed: int) -> subprocess.CompletedProcess[str]:
    own = ["unshare", "--mount"] if os.geteuid() == 0 else []  # for a disk of its own
    words = [sys.executable, "-m", "tests.stories.chaos", str(place), str(rounds), str(seed)]
    return subprocess.run([*own, *words], cwd=ROOT, capture_output=True, text=True, timeout=3600)


@pytest.mark.long
def test_a_server_that_everything_happens_to_loses_nothing(tmp_path: Path) -> None:
    ran = disturbed(tmp_path / "chaos", 3, 11)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


@pytest.mark.soak
def test_a_server_that_everything_happens_to_for_long_loses_nothing(tmp_path: Path) -> None:
    ran = disturbed(tmp_path / "chaos", 200, 23)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
