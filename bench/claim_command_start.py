"""`hutch --help`, and a run up to its first request to a server, compared with an idle interpreter.

Also a whole run in its own process, compared with the import of the libraries that it uses.
"""

import fcntl
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.provider_and_installation import Office, a_place
from bench.result_row import Row

from hutch.settings.installation_paths import Paths
from hutch.system.server_announcement_and_discovery import announced

RUNS, WHOLE_RUNS = 30, 7
LIBRARIES = (
    "import asyncio, cryptography.hazmat.primitives.asymmetric.ed25519, h11, httpx2, "
    "obstore, orjson, pydantic, sqlalchemy.dialects.sqlite, structlog, typer, yaml"
)


def took_ms(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def processor_ms(command: list[str], home: str, *, runs: int = RUNS, cwd: Path | None = None) -> float:
    """The best processor time of several runs; wall time would include other processes."""
    took = []
    for _ in range(runs):
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "HUTCH_HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        usage = os.wait4(process.pid, 0)[2]
        took.append((usage.ru_utime + usage.ru_stime) * 1000)
    return min(took)


def asking_ms(hutch: str, place: Path) -> float:
    """The best processor time of a run until a server of its installation has its request."""
    environ = {**os.environ, "HUTCH_HOME": str(place)}
    paths = Paths.of(environ)
    for directory in (paths.keys, paths.state):
        directory.mkdir(parents=True)
    took = []
    with socket.create_server(("127.0.0.1", 0)) as server, paths.server_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with announced(paths.server_files, f"http://127.0.0.1:{server.getsockname()[1]}", token="secret"):
            for _ in range(RUNS):
                words = [hutch, "run", "Look.", "--server", "--repo", str(place)]
                process = subprocess.Popen(words, env=environ, stderr=subprocess.DEVNULL)
                connection, _ = server.accept()
                connection.recv(1)
                spent_ns = Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]
                took.append(int(spent_ns) / 1e6)
                process.kill()
                process.wait()
                connection.close()
    return min(took)


def measure() -> Iterator[Row]:
    hutch = str(Path(sys.executable).with_name("hutch"))
    pairs = [(took_ms([hutch, "--help"]), took_ms([sys.executable, "-c", "pass"])) for _ in range(RUNS)]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    yield Row("hutch --help", ours, theirs, "ms", 8, "python -c pass")
    with tempfile.TemporaryDirectory() as home:  # without a server, so it ends where it would send a request
        ours = processor_ms([hutch, "run", "Look.", "--server"], home)
        theirs = processor_ms([sys.executable, "-c", "pass"], home)
    yield Row("hutch run --server, processor", ours, theirs, "ms", 28, "python -c pass")
    with a_place() as place:
        ours = asking_ms(hutch, place)
    yield Row("hutch run, a server is asked, processor", ours, theirs, "ms", 10, "python -c pass")
    with a_place() as place:
        office, home = Office(place), str(place / "home")
        words = ["run", "Look.", "--here", "--no-pr", "--model", office.cassette({"text": "That is all."})]
        ours = processor_ms([hutch, *words], home, runs=WHOLE_RUNS, cwd=office.work)
        theirs = processor_ms([sys.executable, "-c", LIBRARIES], home, runs=WHOLE_RUNS)
    yield Row("hutch run, a whole run, processor", ours, theirs, "ms", 2.5, "import of its libraries")
