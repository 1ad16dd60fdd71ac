"""`hutch --help` beside the interpreter doing nothing."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.row import Row

RUNS = 30


def took_ms(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def measure() -> Iterator[Row]:
    hutch = str(Path(sys.executable).with_name("hutch"))
    pairs = [(took_ms([hutch, "--help"]), took_ms([sys.executable, "-c", "pass"])) for _ in range(RUNS)]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    yield Row("hutch --help", ours, theirs, "ms", 8, "python -c pass")
