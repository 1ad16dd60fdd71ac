"""A page that stays open while the agent streams does not grow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MINUTES = 60


@pytest.mark.soak
def test_the_memory_of_a_page_is_flat_in_an_hour_of_streaming() -> None:
    done = subprocess.run(
        [sys.executable, "bench/run.py", "web_memory"],
        cwd=ROOT,
        env={**os.environ, "HUTCH_BENCH_MINUTES": str(MINUTES)},
        capture_output=True,
        text=True,
        timeout=(MINUTES + 20) * 60,
    )
    assert done.returncode == 0, done.stderr
    assert "misses" not in done.stdout, done.stdout
