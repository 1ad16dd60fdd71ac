"""`make demo` keeps its promise: a failing test, a change made in a jail, a passing test, a record."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(home: Path) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py", home], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_demo_mends_the_sample_and_can_be_run_again(tmp_path: Path) -> None:
    for _ in range(2):
        shown = run(tmp_path / "demo")
        story = (
            "FAILED (failures=1)",
            "\nOK\n",
            "Read-only file system",
            "diff --git",
            "ok: 14 events",
            "BAD: Event",
        )
        places = [shown.index(word) for word in story]
        assert places == sorted(places)
    mended = (tmp_path / "demo" / "slugs" / "slugs.py").read_text()
    assert mended != (ROOT / "samples" / "slugs" / "slugs.py").read_text()
