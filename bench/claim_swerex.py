"""A persistent bash in a jail, compared with SWE-ReX's local runtime, which has no jail.

SWE-ReX is installed from PyPI into its own environment below the cache directory,
and only with `make bench SWEREX=1`.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row

from hutch.jail import open_shell

STARTS, CALLS = 5, 20

SWEREX = """
import asyncio, logging, statistics, sys, time

logging.disable(logging.CRITICAL)
from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest


async def main(starts, calls):
    start_ms, call_ms = [], []
    for _ in range(starts):
        began = time.perf_counter()
        deployment = LocalDeployment()
        await deployment.start()
        await deployment.runtime.create_session(CreateBashSessionRequest())
        await deployment.runtime.run_in_session(BashAction(command="true"))
        start_ms.append((time.perf_counter() - began) * 1000)
        for _ in range(calls):
            began = time.perf_counter()
            await deployment.runtime.run_in_session(BashAction(command="true"))
            call_ms.append((time.perf_counter() - began) * 1000)
        await deployment.stop()
    print(statistics.median(start_ms), statistics.median(call_ms))


asyncio.run(main(*map(int, sys.argv[1:])))
"""


def measure() -> Iterator[Row]:
    python = swerex()
    if python is None:
        return
    words = [str(python), "-c", SWEREX, str(STARTS), str(CALLS)]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout
    their_start, their_call = map(float, said.split())
    with tempfile.TemporaryDirectory(prefix="hutch-bench-") as directory:
        Path(directory).chmod(0o755)  # the jail may have another user
        start, call = asyncio.run(ours(Path(directory)))
    yield Row("a bash session and its first command", start, their_start, "ms", 1, "SWE-ReX, local, no jail")
    yield Row("the next command in it", call, their_call, "ms", 1, "SWE-ReX, local, no jail")


async def ours(directory: Path) -> tuple[float, float]:
    """Milliseconds of a start, including the jail, and of a command."""
    start_ms, call_ms = [], []
    for number in range(STARTS):
        began = time.perf_counter()
        async with open_shell(f"bench-{number}", workspace=directory, shell="/bin/bash") as shell:
            await shell.run("true")
            start_ms.append((time.perf_counter() - began) * 1000)
            for _ in range(CALLS):
                began = time.perf_counter()
                await shell.run("true")
                call_ms.append((time.perf_counter() - began) * 1000)
    return statistics.median(start_ms), statistics.median(call_ms)


def swerex() -> Path | None:
    """The interpreter of an environment with SWE-ReX, which is created first if requested."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "hutch-bench" / "swe-rex"
    python, done = place / "bin" / "python", place / "installed"
    if not done.exists():
        if not os.environ.get("SWEREX"):
            print("SWE-ReX is not installed: its rows are omitted. `make bench SWEREX=1` installs it.")
            return None
        try:
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, capture_output=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "swe-rex"]
            subprocess.run(pip, check=True, capture_output=True, timeout=300)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"SWE-ReX cannot be installed here: its rows are omitted ({error}).")
            return None
        done.touch()
    return python
