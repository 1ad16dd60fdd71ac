"""`hutch mcp serve` from its start to its first answer, which a user of an editor waits for."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.provider_and_installation import Office, a_place
from bench.result_row import Row

RUNS = 7
MAX_MS = 600
CLIENT = {"capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
HANDSHAKE: dict[str, object] = {"method": "initialize", "params": {"protocolVersion": "2025-11-25", **CLIENT}}
READY: dict[str, object] = {"method": "notifications/initialized"}
CALL: dict[str, object] = {
    "method": "tools/call",
    "params": {"name": "bash", "arguments": {"command": "true"}},
}
LIBRARY = "import mcp.server.stdio"


def serve_ms(work: Path, home: Path) -> tuple[float, float, float]:
    """The time to the first answer, to the first result of a command, and to the end."""
    words = [str(Path(sys.executable).with_name("hutch")), "mcp", "serve", "--workspace", str(work)]
    pipe, began = subprocess.PIPE, time.perf_counter()
    times = []
    with subprocess.Popen(
        words, env={**os.environ, "HUTCH_HOME": str(home)}, stdin=pipe, stdout=pipe
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        for messages in ([{"id": 1, **HANDSHAKE}], [READY, {"id": 2, **CALL}]):
            for message in messages:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            assert b'"result"' in server.stdout.readline()
            times.append((time.perf_counter() - began) * 1000)
        server.stdin.close()
        server.wait()
    return times[0], times[1], (time.perf_counter() - began) * 1000


def library_ms() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", LIBRARY], check=True)
    return (time.perf_counter() - began) * 1000


def measure() -> Iterator[Row]:
    with a_place() as place:
        office = Office(place)
        rows = [(*serve_ms(office.work, place / "home"), library_ms()) for _ in range(RUNS)]
    first, command, end, library = (statistics.median(times) for times in zip(*rows, strict=True))
    yield Row("hutch mcp serve, first answer", first, None, "ms", MAX_MS)
    yield Row("hutch mcp serve, first command", command, library, "ms", 2, "import of the MCP library")
    yield Row("hutch mcp serve, to its end", end, library, "ms", 2.5, "import of the MCP library")
