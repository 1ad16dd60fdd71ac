"""docs/attacks.md lists all attacks."""

import subprocess
import sys
from pathlib import Path

from .catalogue import ATTACKS


def test_the_table_in_the_docs_is_fresh() -> None:
    script = Path(__file__).parents[2] / "scripts" / "attack_table.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_there_are_a_hundred_attacks_at_least() -> None:
    assert len(ATTACKS) >= 100
