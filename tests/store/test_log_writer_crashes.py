"""A writer killed with SIGKILL at any moment loses nothing it has acknowledged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


def crash(home: Path, rounds: int, seed: int) -> int:
    script = Path(__file__).with_name("log_writer_crashes.py")
    done = subprocess.run(
        [sys.executable, str(script), str(home), str(rounds), str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(rf"{rounds} crashes, (\d+) acknowledged appends, none lost\n", done.stdout)
    assert found
    return int(found[1])


def test_no_acknowledged_event_is_lost_in_20_crashes(tmp_path: Path) -> None:
    assert crash(tmp_path, rounds=20, seed=1) > 20  # how many depends on the load of the machine


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
def test_no_acknowledged_event_is_lost_in_300_crashes(tmp_path: Path, seed: int) -> None:
    assert crash(tmp_path, rounds=300, seed=seed) > 1000
