"""`cat` of 40 MB on a terminal: the throughput to a viewer, compared with terminado.

Terminado, which Jupyter uses, is installed from PyPI into a temporary environment;
its rows are omitted if that fails. Both run in separate processes, and the same
client watches them over one TCP connection, with the WebSocket frames of each: JSON
text there, bytes here. Ours is jailed, has a ring buffer for replay, and waits for
the client's acknowledgements; terminado's has no jail, stores ten chunks, and
buffers without limit.

The kernel's terminal returns 4 KB at a time and is the slowest part for both. A loop
that only reads one shows the maximum: no server can exceed terminado by more, in wall
time, than that loop does. The processor time of a server limits how many terminals it
can serve.
"""

import asyncio
import contextlib
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row

from hutch.jail.jail_startup import open_jail
from hutch.jail.shared_terminal import Terminal, open_terminal

RUNS = 5
FILE_BYTES = 40_000_000
LINE = b"x" * 78 + b"\n"
ACK_BYTES = 5_000  # like VS Code's client

TERMINADO = r"""
import asyncio, sys
import tornado.httpserver, tornado.netutil, tornado.web
from terminado import TermSocket, UniqueTermManager


async def main():
    manager = UniqueTermManager(shell_command=["cat", sys.argv[1]])
    app = tornado.web.Application([(r"/", TermSocket, {"term_manager": manager})])
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(app).add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
"""

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="hutch-bench-") as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "big").write_bytes(LINE * (FILE_BYTES // len(LINE)))
        python = terminado(place / "terminado")
        reader: list[float] = []
        loop_rates: list[float] = []
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        for _ in range(RUNS):
            loop_rates.append(read_only(place / "big"))
            reader.append(asyncio.run(in_process(place)))
            ours.append(watched([sys.executable, __file__, str(place)]))
            if python:
                theirs.append(watched([str(python), "-c", TERMINADO, str(place / "big")], binary=False))
    maximum = statistics.median(loop_rates)
    what = "a loop that only reads, no jail"
    yield Row("terminal, cat 40 MB, to a reader", statistics.median(reader), maximum, "MB/s", 0.7, what, True)
    if python:
        (wall, cpu), (wall_, cpu_) = (
            map(statistics.median, zip(*rates, strict=True)) for rates in (ours, theirs)
        )
        yield Row("terminal, cat 40 MB, to a client", wall, wall_, "MB/s", 1.4, "terminado", True)
        yield Row("the same, by the loop that only reads", maximum, wall_, "MB/s", 1.4, "terminado", True)
        yield Row("the same, per second of processor", cpu, cpu_, "MB/s", 1.4, "terminado", True)


def terminado(place: Path) -> Path | None:
    """The interpreter of an environment with terminado."""
    try:
        subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "terminado"]
        subprocess.run(pip, check=True, capture_output=True, timeout=120)
    except (subprocess.SubprocessError, OSError):
        print("terminado cannot be installed here: its rows are omitted")
        return None
    return place / "bin" / "python"


def watched(command: list[str], *, binary: bool = True) -> tuple[float, float]:
    """Megabytes per second that reach a client over TCP, and per second of processor time."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)} if binary else None
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert server.stdout
    try:
        port = int(server.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as client:
            began, used_s = time.perf_counter(), processor_s(server.pid)
            client.sendall(HANDSHAKE % (port, port))
            received = receive(client, acknowledge=binary)
            took_s, used_s = time.perf_counter() - began, processor_s(server.pid) - used_s
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert received >= FILE_BYTES // len(LINE) * len(LINE), received
    return FILE_BYTES / took_s / 1e6, FILE_BYTES / max(used_s, 0.01) / 1e6


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def receive(client: socket.socket, *, acknowledge: bool) -> int:
    """Count bytes until the server reports that the program has ended."""
    buffer, received, unsaid, tail = bytearray(256 * 1024), 0, 0, b""
    while count := client.recv_into(buffer):
        received += count
        unsaid += count
        tail = (tail + bytes(buffer[max(0, count - 64) : count]))[-64:]
        if b'["disconnect"' in tail:
            break
        if acknowledge and unsaid >= ACK_BYTES:
            client.sendall(struct.pack("!I", unsaid))
            unsaid = 0
    return received


def read_only(big: Path) -> float:
    """The maximum rate of the kernel's terminal: the output is only read."""
    buffer = [bytearray(256 * 1024)]
    master, slave = os.openpty()
    began = time.perf_counter()
    with subprocess.Popen(
        ["cat", big], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ) as cat:
        os.close(slave)
        received = 0
        with contextlib.suppress(OSError):  # EIO, after the last writer has closed it
            while count := os.readv(master, buffer):
                received += count
        took_s = time.perf_counter() - began
        os.close(master)
    assert cat.returncode == 0 and received >= FILE_BYTES // len(LINE) * len(LINE) - 4096, received
    return FILE_BYTES / took_s / 1e6


async def in_process(place: Path) -> float:
    async with open_jail(place) as jail:
        began = time.perf_counter()
        async with open_terminal(jail, ["cat", "big"]) as terminal:
            reader = terminal.attach()
            async for _, data in reader:
                reader.acknowledge(len(data))
            took_s = time.perf_counter() - began
            assert terminal.seq >= FILE_BYTES
    return FILE_BYTES / took_s / 1e6


async def serve(place: Path) -> None:
    """Our side of the socket: output in WebSocket frames, and acknowledgements from the client."""
    async with open_jail(place) as jail:

        async def watch(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
            await incoming.readuntil(b"\r\n\r\n")
            outgoing.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            try:
                async with open_terminal(jail, ["cat", "big"]) as terminal:
                    await show(terminal, incoming, outgoing)
            finally:
                outgoing.close()

        server = await asyncio.start_server(watch, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


async def show(terminal: Terminal, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
    reader = terminal.attach()

    async def read_acknowledgements() -> None:
        while True:
            (count,) = struct.unpack("!I", await incoming.readexactly(4))
            reader.acknowledge(
                min(count, reader.seq - reader.acknowledged)
            )  # its count includes frame headers

    reading = asyncio.create_task(read_acknowledgements())
    async for _, data in reader:
        length = len(data)
        head = (
            struct.pack("!BBH", 0x82, 126, length)
            if length < 65536
            else struct.pack("!BBQ", 0x82, 127, length)
        )
        outgoing.write(head + data)
        await outgoing.drain()
    outgoing.write_eof()
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await reading  # until the client disconnects


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
