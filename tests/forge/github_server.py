"""A GitHub for tests: its API on a Unix socket, its repositories by git's own http-backend on a port.

`with github(tmp_path) as hub:` speaks REST and the three GraphQL operations that `gh pr create`
uses; every request must show a token that may do what it asks. `hub.fault(…)` makes it fail.
"""

import base64
import json
import re
import socketserver
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.forge.github_api import Api
from tests.forge.github_state import Repository, State
from tests.forge.repositories import ENVIRONMENT

HOST = "127.0.0.1"


@dataclass
class Fault:
    """How requests that fit are answered instead, and how often."""

    pattern: str  # of `METHOD path`; for GraphQL the path ends with the operation
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "Something went wrong"
    content: bytes = b""  # all that is said, instead of a message
    times: int = 1_000_000
    delay_s: float = 0.0  # with a status of 0, only this
    after: bool = False  # done all the same, but the answer is lost
    reached: threading.Event = field(default_factory=threading.Event)  # set when the delay begins
    released: threading.Event = field(default_factory=threading.Event)  # ends the delay before its time
    done: threading.Event = field(default_factory=threading.Event)  # what was asked for is done


class Hub:
    """The server as tests see it."""

    def __init__(self, root: Path, socket: Path) -> None:
        self.state = State(root)
        self.socket = socket
        self.api = Api(self.state)
        self.requests: list[str] = []  # `METHOD path`, of all
        self.shown: set[str] = set()  # every Authorization
        self.faults: list[Fault] = []
        self.lock = threading.RLock()
        self.port = 0

    def url(self, full_name: str) -> str:
        return f"http://{HOST}:{self.port}/{full_name}.git"

    def fault(self, pattern: str, status: int = 500, **given: Any) -> Fault:
        self.faults.append(Fault(pattern, status, **given))
        return self.faults[-1]

    def count(self, pattern: str) -> int:
        return sum(re.search(pattern, line) is not None for line in self.requests)

    def repository(self, full_name: str) -> Repository:
        return self.state.repositories[full_name.lower()]

    def failing(self, line: str) -> Fault | None:
        with self.lock:
            self.requests.append(line)
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.pattern, line):
                    fault.times -= 1
                    return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def log_message(self, *args: object) -> None:
        """Not on the tests' standard error."""

    def address_string(self) -> str:
        return "unix"

    def handle(self) -> None:
        with suppress(ConnectionResetError, BrokenPipeError):  # whoever asked was killed
            super().handle()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            parts = []
            while size := int(self.rfile.readline().strip() or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _serve(self) -> None:
        given = self.headers.get("Authorization", "")
        self.hub.shown.add(given)
        self.answer(self._body(), given)

    def answer(self, body: bytes, given: str) -> None:
        raise NotImplementedError

    def reply(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def fails_now(self, fault: Fault) -> bool:
        """True if a fault was all of the answer."""
        fault.reached.set()
        fault.released.wait(fault.delay_s)
        if fault.status:
            content = fault.content or json.dumps({"message": fault.message}).encode()
            self.reply(fault.status, content, {"Content-Type": "application/json", **fault.headers})
        return bool(fault.status)


class _Api(_Handler):
    """REST below /api/v3 or at the root, GraphQL at /api/graphql or /graphql."""

    def answer(self, body: bytes, given: str) -> None:
        place = urlsplit(self.path)
        path = re.sub(r"^/api(/v3)?(?=/)", "", place.path)
        data = json.loads(body) if body else {}
        line = f"{self.command} {path}"
        if path == "/graphql":
            found = re.search(r"\b(query|mutation) (\w+)", data.get("query", ""))
            line += f" {found[2] if found else ''}"
        fault = self.hub.failing(line)
        if fault and not fault.after and self.fails_now(fault):
            return
        query = {name: values[-1] for name, values in parse_qs(place.query).items()}
        with self.hub.lock:
            accept = self.headers.get("Accept", "")
            status, answer = self.hub.api.answer(line, query, data, given, accept)
        if fault:
            fault.done.set()
        if fault and fault.after and self.fails_now(fault):
            return
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.reply(status, b"" if status == 204 else content, {"Content-Type": "application/json"})


class _Git(_Handler):
    """Repositories by smart HTTP; a token is the password."""

    def answer(self, body: bytes, given: str) -> None:
        path, _, query = self.path.partition("?")
        line = f"{self.command} {self.path}"
        fault = self.hub.failing(line)
        if fault and not fault.after and self.fails_now(fault):
            return
        found = re.match(r"/([\w.-]+/[\w.-]+?)(?:\.git)?/", path)
        login = ""
        if given.startswith("Basic "):
            password = base64.b64decode(given[6:]).decode().partition(":")[2]
            login = self.hub.state.tokens.get(password, "")
        name = found[1] if found else ""
        repo = self.hub.state.find(name, login) if name else None
        pushes = "git-receive-pack" in self.path
        if (repo is None or pushes) and not login:
            self.reply(401, b"", {"WWW-Authenticate": 'Basic realm="GitHub"'})
        elif repo is None:
            self.reply(404, b"Repository not found.", {})
        elif pushes and repo.rank(login) < 3:
            self.reply(403, f"Permission to {repo.full_name}.git denied to {login}.".encode(), {})
        else:
            rest = path[len(found[0]) - 1 :] if found else ""
            self._backend(f"/{repo.full_name}.git{rest}", query, body)

    def _backend(self, path: str, query: str, body: bytes) -> None:
        ran = subprocess.run(
            ["git", "http-backend"],
            env=ENVIRONMENT
            | {
                "GIT_PROJECT_ROOT": str(self.hub.state.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_ADDR": HOST,
                "REMOTE_USER": "somebody",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            },
            input=body,
            capture_output=True,
            check=False,
        )
        head, _, content = ran.stdout.partition(b"\r\n\r\n")
        lines = [line.split(b": ", 1) for line in head.split(b"\r\n") if b": " in line]
        result = {name.decode(): value.decode() for name, value in lines}
        self.reply(int(result.pop("Status", "200").split()[0]), content, result)


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def github(place: Path) -> Iterator[Hub]:
    """A GitHub below a directory, for as long as the block lasts."""
    (place / "hub").mkdir(parents=True, exist_ok=True)
    hub = Hub(place / "hub", place / "gh.sock")
    api: Any = type("ApiHandler", (_Api,), {"hub": hub})
    repositories: Any = type("GitHandler", (_Git,), {"hub": hub})
    servers: list[socketserver.BaseServer] = [_UnixServer(str(hub.socket), api)]
    port: HTTPServer = ThreadingHTTPServer((HOST, 0), repositories)
    hub.port = port.server_address[1]
    servers.append(port)
    threads = [threading.Thread(target=each.serve_forever, args=(0.02,)) for each in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for each in servers:
            each.shutdown()
            each.server_close()
        for thread in threads:
            thread.join()
        hub.socket.unlink(missing_ok=True)
