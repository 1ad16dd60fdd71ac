"""Real repositories for tests, and a real server in front of them."""

import base64
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def git(directory: Path, *words: str, stdin: bytes | None = None) -> str:
    """Run git as another user would, and return its output."""
    ran = subprocess.run(
        ["git", *words], cwd=directory, env=ENVIRONMENT, input=stdin, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().strip()


def make_repository(directory: Path, files: Mapping[str, str | bytes], *, branch: str = "main") -> str:
    """A repository with one commit. Returns its id."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "--quiet", f"--initial-branch={branch}")
    return commit(directory, files)


def commit(directory: Path, files: Mapping[str, str | bytes], message: str = "a change") -> str:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(directory, "rev-parse", "HEAD")


def commit_tree(directory: Path, tree: str, message: str = "made by hand") -> str:
    """A commit of a tree that git itself would not make, on the branch main."""
    made = git(directory, "commit-tree", tree, "-m", message)
    git(directory, "update-ref", "refs/heads/main", made)
    return made


class Server(ThreadingHTTPServer):
    """Serves the repositories below a directory; clients need the password if there is one."""

    daemon_threads = True

    def __init__(self, root: Path, password: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.password = password
        self.requests: list[str] = []  # method, path and credentials of every request
        self.hang = threading.Event()  # set to let every answer wait until it is cleared

    def url(self, name: str, *, user: str = "") -> str:
        return f"http://{user + '@' if user else ''}127.0.0.1:{self.server_address[1]}/{name}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *args: object) -> None:
        """Not on the tests' standard error."""

    def _serve(self) -> None:
        given = self.headers.get("Authorization", "")
        self.server.requests.append(f"{self.command} {self.path} {given}")
        while self.server.hang.is_set():
            threading.Event().wait(0.05)
        if self.server.password is not None:
            wanted = "Basic " + base64.b64encode(self.server.password.encode()).decode()
            if given != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="repositories"')
                self.end_headers()
                return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ran = subprocess.run(
            ["git", "http-backend"],
            env=ENVIRONMENT
            | {
                "GIT_PROJECT_ROOT": str(self.server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_ADDR": "127.0.0.1",
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
        self.send_response(int(result.pop("Status", "200").split()[0]))
        for name, value in result.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(content)
        except BrokenPipeError:
            return


@contextmanager
def serving(root: Path, password: str | None = None) -> Iterator[Server]:
    with Server(root, password) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.hang.clear()
            server.shutdown()
            thread.join()
