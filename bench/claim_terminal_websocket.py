"""A terminal over a WebSocket of the whole server, compared with terminado: a flood, and a key's echo.

The same clients measure both alternately, in an interactive shell. The client of the
websockets library reads the flood until it has the decoded output; terminado's frames are
JSON. A key's echo is timed with the library's protocol on a plain socket, because waking
that client's threads takes longer than the servers do. Ours is a complete server: request
filter, tokens, the session's log with the output, and a jail; it waits for the client's
acknowledgements. Terminado's shell has no jail, stores ten chunks, and buffers without
limit. A bare loop, which only reads the terminal and writes to the socket, is the maximum
for Python: half of the time goes to the printing program and to the kernel, which passes
on a terminal's bytes in blocks of 4 KiB.

Keys are 20 ms apart, as from a very fast typist: output within 5 ms of the last is sent
together.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result_row import Row, percentile
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.sync.client import connect
from websockets.typing import Origin
from websockets.uri import parse_uri

RUNS = 15
FILE_BYTES = 40_000_000
ACK_BYTES = 50_000  # as docs/streams.md recommends
KEYS, APART_S = 500, 0.02
LINE = b"tests/store/test_event_log.py::test_a_follower_sees_every_event_once PASSED  [ 42%]"
MAKE = b"yes '%s' | head -c %d > /tmp/big; echo made$((1 + 1))\r" % (LINE, FILE_BYTES)
SHOW = b"cat /tmp/big; echo end$((1 + 1))\r"
TIMEOUT_S = 120
RECEIVE_BYTES = 64 * 1024
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
from websockets.utils import accept_key, apply_mask

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
key = next(line[19:] for line in asked.decode().split("\r\n") if line.startswith("Sec-WebSocket-Key"))
head = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
client.sendall("\r\n".join([*head, f"Sec-WebSocket-Accept: {accept_key(key)}", "", ""]).encode())


def read_stream():
    with client.makefile("rb") as frames:
        while head := frames.read(2):
            length = head[1] & 127
            if length == 126:
                (length,) = struct.unpack("!H", frames.read(2))
            mask = frames.read(4)
            data = apply_mask(frames.read(length), mask)
            if head[0] == 0x82:
                os.write(terminal, data)
    os._exit(0)


threading.Thread(target=read_stream, daemon=True).start()
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
        shells = {"ours": mine, "theirs": other, "bare": loop}
        with ExitStack() as stack:
            watchers = {name: stack.enter_context(closing(Watcher(shells[name]))) for name in shells}
            for name, watcher in watchers.items():
                watcher.type(MAKE)
                watcher.wait_for(b"made2")
                print(f"  {name} is ready")
            for _ in range(RUNS):
                for name, watcher in watchers.items():
                    floods[name].append(watcher.flood())
        for name in echoes:
            with closing(Typist(shells[name])) as typist:
                echoes[name] = typist.echoes()
    # All together: a single one varies by a factor of three, depending on where the kernel places threads.
    totals = (map(sum, zip(*floods[name], strict=True)) for name in floods)
    (wall, cpu), (wall_, cpu_), (maximum, _) = (
        (RUNS * FILE_BYTES / s / 1e6 for s in total) for total in totals
    )
    yield Row("terminal of the server, cat 40 MB", wall, wall_, "MB/s", 1.4, "terminado", True)
    yield Row("the same, per second of processor", cpu, cpu_, "MB/s", 1.4, "terminado", True)
    yield Row("the same, by the clock", wall, maximum, "MB/s", 0.7, "a bare loop", True)
    yield Row("echo of a key, p50", percentile(echoes["ours"], 50), None, "ms", 1.0)
    yield Row("echo of a key, p99", percentile(echoes["ours"], 99), None, "ms", 1.0)
    p99, p99_ = (percentile(times, 99) for times in echoes.values())
    yield Row("echo of a key, p99, beside", p99, p99_, "ms", 1.0, "terminado")


@dataclass
class Shell:
    """A terminal that can be watched, and the process that serves it."""

    url: str
    pid: int
    token: str = ""  # empty for terminado, which has its own frames

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def origin(self) -> Origin:
        return Origin("http://" + self.url.split("/")[2])

    def typed(self, data: bytes) -> bytes | str:
        """The frame for typed input."""
        return data if self.token else json.dumps(["stdin", data.decode()])

    def printed(self, frame: Any) -> bytes:
        """The output in a frame."""
        if self.token:
            return b"" if isinstance(frame, str) else bytes(frame)
        kind, *said = json.loads(frame)
        return said[0].encode() if kind == "stdout" else b""

    def acknowledged(self, count: int) -> str:
        return json.dumps({"type": "ack", "bytes": count})


class Watcher:
    """Reads the output with the client of a library."""

    def __init__(self, shell: Shell) -> None:
        self._shell, self._unsaid = shell, 0
        self._connecting = connect(
            shell.url,
            additional_headers=shell.headers(),
            origin=shell.origin(),
            compression=None,
            max_size=None,
            ping_interval=None,
        )
        self._socket = self._connecting.__enter__()

    def flood(self) -> tuple[float, float]:
        """Seconds that a flood takes, in wall time and in the server's processor time."""
        self._settle()
        began, used = time.perf_counter(), processor_s(self._shell.pid)
        self.type(SHOW)
        received = self.wait_for(b"end2")
        took, used = time.perf_counter() - began, processor_s(self._shell.pid) - used
        assert received >= FILE_BYTES, received
        return took, used

    def type(self, data: bytes) -> None:
        self._socket.send(self._shell.typed(data))

    def wait_for(self, word: bytes) -> int:
        """The number of bytes printed until a word appears."""
        received, tail = 0, b""
        while word not in tail:
            data = self._receive(TIMEOUT_S)
            received += len(data)
            tail = (tail + data[-256:])[-512:]
        return received

    def _receive(self, patience_s: float) -> bytes:
        data = self._shell.printed(self._socket.recv(timeout=patience_s))
        self._unsaid += len(data)
        if self._shell.token and (self._unsaid >= ACK_BYTES or 0 < len(data) < 4096):
            self._socket.send(self._shell.acknowledged(self._unsaid))
            self._unsaid = 0
        return data

    def _settle(self) -> None:
        """Read all that still comes."""
        with suppress(TimeoutError):
            while True:
                self._receive(0.3)

    def close(self) -> None:
        self._connecting.__exit__(None, None, None)


class Typist:
    """Types keys and waits for each echo, directly on the socket."""

    def __init__(self, shell: Shell) -> None:
        self._shell, self._unsaid = shell, 0
        uri = parse_uri(shell.url)
        self._socket = socket.create_connection((uri.host, uri.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._protocol = ClientProtocol(uri, origin=shell.origin(), max_size=None)
        hello = self._protocol.connect()
        hello.headers.update(shell.headers())
        self._protocol.send_request(hello)
        self._flush()
        while self._protocol.state is State.CONNECTING:
            self._receive()
        assert self._protocol.handshake_exc is None, self._protocol.handshake_exc

    def echoes(self) -> list[float]:
        """Milliseconds from each key to its echo."""
        self._settle()
        self._type(b"cat\r")
        self._settle()
        found = []
        for number in range(KEYS):
            time.sleep(APART_S)
            began = time.perf_counter()
            self._type(b"x")
            while b"x" not in self._receive():
                pass
            found.append((time.perf_counter() - began) * 1e3)
            self._acknowledge()
            if number % 50 == 49:
                self._type(b"\r")
                self._settle()
        self._type(b"\x03")
        self._settle()
        return found

    def _type(self, data: bytes) -> None:
        self._send(self._shell.typed(data))

    def _settle(self) -> None:
        """Read all that still comes."""
        self._socket.settimeout(0.3)
        with suppress(TimeoutError):
            while True:
                self._receive()
                self._acknowledge()
        self._socket.settimeout(TIMEOUT_S)

    def _receive(self) -> bytes:
        """The next output; may be empty."""
        data = self._socket.recv(RECEIVE_BYTES)
        assert data, "the server closed the connection"
        self._protocol.receive_data(data)
        output = b""
        for frame in self._protocol.events_received():
            if isinstance(frame, Frame) and frame.opcode in (Opcode.BINARY, Opcode.TEXT):
                is_text = frame.opcode is Opcode.TEXT
                output += self._shell.printed(bytes(frame.data).decode() if is_text else frame.data)
        self._flush()
        self._unsaid += len(output)
        return output

    def _acknowledge(self) -> None:
        if self._unsaid and self._shell.token:
            self._send(self._shell.acknowledged(self._unsaid))
        self._unsaid = 0

    def _send(self, frame: bytes | str) -> None:
        if isinstance(frame, str):
            self._protocol.send_text(frame.encode())
        else:
            self._protocol.send_binary(frame)
        self._flush()

    def _flush(self) -> None:
        if data := b"".join(self._protocol.data_to_send()):
            self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


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
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)

        session = f"/sessions/{ask('POST', '/sessions', {'purpose': 'bench'})['id']}"
        while ask("GET", session)["state"] not in ("idle", "parked"):
            time.sleep(0.05)
        terminal = ask("POST", f"{session}/terminals", {"columns": 80, "rows": 24})["id"]
        address = f"ws://127.0.0.1:{PORT}/api/v1{session}/terminals/{terminal}/socket"
        yield Shell(address, pid, token)
    finally:
        hutch("down")
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def theirs() -> Iterator[Shell]:
    with process([sys.executable, "-c", TERMINADO]) as server:
        assert server.stdout
        yield Shell(f"ws://127.0.0.1:{int(server.stdout.readline())}/", server.pid)
    Path("/tmp/big").unlink(missing_ok=True)  # the jail has its own /tmp


@contextmanager
def bare() -> Iterator[Shell]:
    with process([sys.executable, "-c", BARE]) as server:
        assert server.stdout
        yield Shell(f"ws://127.0.0.1:{int(server.stdout.readline())}/", server.pid, "none is asked for")


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
