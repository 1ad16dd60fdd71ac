"""A terminal over a WebSocket of the whole server, beside terminado's: a flood, and a key's echo.

Both are asked by the same client over one TCP connection, in turns, in a shell that is
typed into. Ours is a real server: doors, tokens, the session's log, which keeps what is
printed, and a jail; it waits for the client's acknowledgements. Terminado's shell is not
jailed, keeps ten chunks, and buffers without end. A bare loop, which only reads the
terminal and writes to the socket, is what Python could do at most: half of the time goes
to the program that prints and to the kernel, which hands a terminal's bytes on by 4 KiB.

Keys are 20 ms apart, as those of a very fast typist: what is printed within 5 ms of the
last is sent together.
"""

import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.row import Row, percentile

RUNS = 5
FILE_BYTES = 40_000_000
ACK_BYTES = 50_000  # as docs/streams.md asks for
KEYS, APART_S = 500, 0.02
LINE = b"tests/store/test_log.py::test_a_follower_sees_every_event_once PASSED  [ 42%]"
MAKE = b"yes '%s' | head -c %d > /tmp/big; echo made$((1 + 1))\r" % (LINE, FILE_BYTES)
SHOW = b"cat /tmp/big; echo end$((1 + 1))\r"
PATIENCE_S = 120
PORT = 18586
HUTCH = Path(sys.executable).with_name("hutch")

TERMINADO = r"""
import asyncio
import tornado.httpserver, tornado.netutil, tornado.web
from terminado import SingleTermManager, TermSocket


async def main():
    manager = SingleTermManager(shell_command=["/bin/bash", "--norc"])
    app = tornado.web.Application([(r"/", TermSocket, {"term_manager": manager})])
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(app).add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
"""

BARE = r"""
import os, pty, select, socket, struct, threading

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
pid, terminal = pty.fork()
if not pid:
    os.execv("/bin/bash", ["bash", "--norc"])
os.set_blocking(terminal, False)
client, _ = listening.accept()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
asked = b""
while b"\r\n\r\n" not in asked:
    asked += client.recv(65536)
client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")


def hear():
    with client.makefile("rb") as frames:
        while head := frames.read(2):
            length = head[1] & 127
            if length == 126:
                (length,) = struct.unpack("!H", frames.read(2))
            frames.read(4)
            data = frames.read(length)
            if head[0] == 0x82:
                os.write(terminal, data)
    os._exit(0)


threading.Thread(target=hear, daemon=True).start()
memory, poll = memoryview(bytearray(65536)), select.poll()
poll.register(terminal, select.POLLIN)
while True:
    poll.poll()
    count = 0
    try:
        while count < len(memory):
            count += os.readv(terminal, [memory[count:]])
    except BlockingIOError:
        pass
    client.sendmsg([struct.pack("!BBQ", 0x82, 127, count), memory[:count]])
"""


def measure() -> Iterator[Row]:
    floods: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": [], "bare": []}
    echoes: dict[str, list[float]] = {"ours": [], "theirs": []}
    with ours() as mine, theirs() as other, bare() as loop:
        for name, shell in (("ours", mine), ("theirs", other), ("bare", loop)):
            shell.type(MAKE)
            shell.wait_for(b"made2")
            print(f"  {name} is ready")
        for _ in range(RUNS):
            for name, shell in (("ours", mine), ("theirs", other), ("bare", loop)):
                floods[name].append(shell.flood())
        for name, shell in (("ours", mine), ("theirs", other)):
            echoes[name] = shell.echoes()
    medians = (map(statistics.median, zip(*floods[name], strict=True)) for name in floods)
    (wall, cpu), (wall_, cpu_), (most, _) = medians
    yield Row("terminal of the server, cat 40 MB", wall, wall_, "MB/s", 1.4, "terminado", True)
    yield Row("the same, per second of processor", cpu, cpu_, "MB/s", 1.4, "terminado", True)
    yield Row("the same, by the clock", wall, most, "MB/s", 0.7, "a bare loop", True)
    yield Row("echo of a key, p50", percentile(echoes["ours"], 50), None, "ms", 1.0)
    yield Row("echo of a key, p99", percentile(echoes["ours"], 99), None, "ms", 1.0)
    yield Row(
        "echo of a key, p99, beside", *(percentile(echoes[n], 99) for n in echoes), "ms", 1.0, "terminado"
    )


class Shell:
    """A client of one terminal: just as much of a WebSocket as both servers speak."""

    def __init__(self, port: int, path: str, pid: int, *, token: str = "") -> None:
        self._binary, self._pid = bool(token), pid
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(PATIENCE_S)
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            *([f"Authorization: Bearer {token}"] if token else [f"Origin: http://127.0.0.1:{port}"]),
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._waiting = b""
        while b"\r\n\r\n" not in self._waiting:
            self._waiting += self._socket.recv(65536)
        head, _, self._waiting = self._waiting.partition(b"\r\n\r\n")
        assert b" 101 " in head, head
        self._left = 0  # of the frame that is being received
        self._text = False
        self._unsaid = 0
        self._buffer = bytearray(512 * 1024)

    def type(self, data: bytes) -> None:
        if self._binary:
            self._send(0x82, data)
        else:
            self._send(0x81, json.dumps(["stdin", data.decode()]).encode())

    def wait_for(self, word: bytes) -> int:
        """How many bytes of frames came until a word of the terminal's did."""
        received, tail = 0, b""
        while word not in tail:
            data = self._receive()
            received += len(data)
            tail = (tail + data[-256:])[-512:]
        return received

    def flood(self) -> tuple[float, float]:
        """Megabytes per second, by the clock and by the server's processor."""
        self._settle()
        began, used = time.perf_counter(), processor_s(self._pid)
        self.type(SHOW)
        received = self.wait_for(b"end2")
        took, used = time.perf_counter() - began, processor_s(self._pid) - used
        assert received >= FILE_BYTES, received
        return FILE_BYTES / took / 1e6, FILE_BYTES / max(used, 0.01) / 1e6

    def echoes(self) -> list[float]:
        """Milliseconds from a key to what it prints."""
        self._settle()
        self.type(b"cat\r")
        self._settle()
        found = []
        for number in range(KEYS):
            time.sleep(APART_S)
            began = time.perf_counter()
            self.type(b"x")
            self.wait_for(b"x")
            found.append((time.perf_counter() - began) * 1e3)
            if number % 50 == 49:
                self.type(b"\r")
                self._settle()
        self.type(b"\x03")
        self._settle()
        return found

    def _settle(self) -> None:
        """Read all that still comes."""
        self._socket.settimeout(0.3)
        try:
            while True:
                self._receive()
        except TimeoutError:
            self._socket.settimeout(PATIENCE_S)

    def _receive(self) -> bytes:
        """The next bytes of frames that hold output, acknowledged."""
        if self._waiting:
            data, self._waiting = self._waiting, b""
        else:
            count = self._socket.recv_into(self._buffer)
            assert count, "the server has left"
            data = bytes(memoryview(self._buffer)[:count])
        pieces, at = [], 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                if not (self._text and self._binary):
                    pieces.append(piece)
                continue
            head = data[at : at + 10]
            length = head[1] & 127 if len(head) > 1 else 127
            size = {126: 4, 127: 10}.get(length, 2)
            if len(head) < size:
                self._waiting = data[at:] + self._socket.recv(65536)
                break
            kind = head[0] & 15
            if kind == 9:  # a ping, and all of it is here
                at += size + length
                self._send(0x8A, head[size : size + length])
                continue
            self._text = kind == 1
            self._left = length if size == 2 else int.from_bytes(head[2:size])
            at += size
        output = b"".join(pieces)
        self._acknowledge(len(output))
        return output

    def _acknowledge(self, count: int) -> None:
        self._unsaid += count
        if self._binary and (self._unsaid >= ACK_BYTES or count < 4096):
            self._send(0x81, b'{"type":"ack","bytes":%d}' % self._unsaid)
            self._unsaid = 0

    def _send(self, kind: int, data: bytes) -> None:
        size = bytes([0x80 | len(data)]) if len(data) < 126 else struct.pack("!BH", 0x80 | 126, len(data))
        self._socket.sendall(bytes([kind]) + size + bytes(4) + data)  # a mask of zeros


@contextmanager
def ours() -> Iterator[Shell]:
    home = tempfile.mkdtemp(prefix="hutch-bench-")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "HUTCH_HOME": home,
        "HUTCH_SERVER__PORT": str(PORT),
        "HUTCH_SERVER__REQUESTS_PER_MINUTE": "1000000",
    }

    def hutch(*command: str) -> str:
        ran = subprocess.run([HUTCH, *command], env=environment, check=True, capture_output=True, text=True)
        return ran.stdout

    hutch("up", "--detach")
    try:
        token = json.loads(hutch("tokens", "create", "--json"))["token"]
        pid = json.loads(hutch("status", "--json"))["pid"]

        def ask(method: str, path: str, body: Any = None) -> Any:
            request = urllib.request.Request(
                f"http://127.0.0.1:{PORT}/api/v1{path}",
                json.dumps(body).encode() if body is not None else None,
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                method=method,
            )
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)

        session = f"/sessions/{ask('POST', '/sessions', {'purpose': 'bench'})['id']}"
        while ask("GET", session)["state"] not in ("idle", "parked"):
            time.sleep(0.05)
        terminal = ask("POST", f"{session}/terminals", {"columns": 80, "rows": 24})["id"]
        yield Shell(PORT, f"/api/v1{session}/terminals/{terminal}/socket", pid, token=token)
    finally:
        hutch("down")
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def theirs() -> Iterator[Shell]:
    with process([sys.executable, "-c", TERMINADO]) as server:
        assert server.stdout
        yield Shell(int(server.stdout.readline()), "/", server.pid)
    Path("/tmp/big").unlink(missing_ok=True)  # ours was in the jail's own /tmp


@contextmanager
def bare() -> Iterator[Shell]:
    with process([sys.executable, "-c", BARE]) as server:
        assert server.stdout
        yield Shell(int(server.stdout.readline()), "/", server.pid, token="none is asked for")


@contextmanager
def process(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        yield server
    finally:
        server.terminate()
        server.wait()
        assert server.stdout
        server.stdout.close()


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
