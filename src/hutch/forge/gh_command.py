"""Runs the real `gh` with a minimal environment.

The token is passed in the environment, which only this user can read, and never in an
argument, a file or an address. All requests of gh go through a `Relay` to one host.
Rate limits of GitHub are respected.
"""

import asyncio
import contextlib
import json
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.domain.errors import Unavailable
from hutch.forge.gh_single_host_relay import Relay
from hutch.forge.github_errors import GitHubFailed, explain, rate_limited_until
from hutch.forge.host_process_limits import limit_command, process_group
from hutch.system.lazy_dataclass import dataclass

GITHUB = "github.com"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
TIMEOUT_S = 60.0
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
MAX_ATTEMPTS = 4
SOCKET = "api.sock"  # in gh's home directory
STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})[^\n]*\r?\n")

GetToken = Callable[[], Awaitable[str]]


class GhMissing(Unavailable):
    """`gh` is not installed, so nothing can be done on GitHub until it is."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait for GitHub."""

    max_wait_s: float = 60.0  # for rate limits, in total
    first_delay_s: float = 1.0  # after a transient failure; doubled each time


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response of the REST API."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise Unavailable("GitHub's response is not JSON. Retry later.") from None

    def json_object(self) -> dict[str, Any]:
        found = self.json()
        if not isinstance(found, dict):
            raise Unavailable("GitHub's response is not a JSON object. Retry later.")
        return found

    def json_list(self) -> list[dict[str, Any]]:
        found = self.json()
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise Unavailable("GitHub's response is not a list of JSON objects. Retry later.")
        return found


def _make_home() -> Path:
    return Path(tempfile.mkdtemp(prefix="hutch-gh-"))


@dataclass(frozen=True, slots=True)
class Gh:
    """`gh` for one host."""

    host: str
    token: GetToken
    environ: Mapping[str, str]
    socket: str = ""  # a Unix socket that leads to the API instead of the network
    retry_policy: RetryPolicy = RetryPolicy()
    make_home: Callable[[], Path] = _make_home  # makes a private directory

    async def api(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/vnd.github+json",
        is_idempotent: bool | None = None,
    ) -> ApiResponse:
        """Send a request to the REST API.

        An idempotent request is retried after a failure; the default depends on the method. A request that
        a rate limit stopped is always retried.
        """
        is_idempotent = method in ("GET", "PATCH", "PUT") if is_idempotent is None else is_idempotent
        words = ["api", "--include", "--method", method, "-H", f"Accept: {accept}", path]
        if body is not None:
            words += ["--input", "-"]
        stdin = None if body is None else json.dumps(body).encode()
        delay_s, waited_s, failed = self.retry_policy.first_delay_s, 0.0, None
        for remaining in range(MAX_ATTEMPTS - 1, -1, -1):
            code, printed, stderr = await self.run(*words, stdin=stdin)
            response = _parse_response(printed)
            if response is not None and response.status < 400 and code == 0:
                return response
            failed = explain(response.status if response else None, _message(response, stderr), self.host)
            failed.headers = dict(response.headers) if response else {}
            until = rate_limited_until(failed, time.time())
            if until is not None:
                delay_s = max(until - time.time(), 0.0)
                waited_s += delay_s
                if waited_s > self.retry_policy.max_wait_s:
                    break
            elif not (is_idempotent and failed.is_transient):
                break
            if not remaining:
                break
            await asyncio.sleep(delay_s)
            delay_s = max(delay_s, 0.1) * 2
        assert failed is not None
        raise failed

    def failed(self, stderr: str) -> GitHubFailed:
        """The error for the standard error of a failed gh command."""
        return explain(None, stderr, self.host)

    async def run(self, *words: str, stdin: bytes | None = None) -> tuple[int, bytes, str]:
        """Run gh. Returns exit code, standard output, and standard error without the token."""
        token = await self.token()
        async with self._home() as home, Relay(self.host, self.environ, self.socket).serve(home / SOCKET):
            environment = self.environment(home, token)
            program = shutil.which("gh", path=environment["PATH"])
            if program is None:
                raise GhMissing("gh is not installed. Install it: sudo apt-get install -y gh")
            starting = asyncio.create_subprocess_exec(
                *limit_command(program, *words, limit_resources=False),
                env=environment,
                cwd=home,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                umask=0o077,
            )
            async with process_group(starting) as process:
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        printed, stderr = await self._communicate(process, stdin)
                except TimeoutError:
                    raise Unavailable(
                        f"{self.host} did not answer within {TIMEOUT_S:g} s. Retry later."
                    ) from None
        return process.returncode or 0, printed, stderr.decode(errors="replace").replace(token, "…")

    async def _communicate(
        self, process: asyncio.subprocess.Process, stdin: bytes | None
    ) -> tuple[bytes, bytes]:
        """Write standard input, and read both outputs up to the size limit."""

        async def read(stream: asyncio.StreamReader | None) -> bytes:
            parts, total = [], 0
            while stream is not None and (data := await stream.read(65536)):
                total += len(data)
                if total > MAX_OUTPUT_BYTES:
                    raise Unavailable(f"{self.host} answered with more than {MAX_OUTPUT_BYTES} bytes.")
                parts.append(data)
            return b"".join(parts)

        async def feed() -> None:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # gh reports the reason
                    process.stdin.write(stdin or b"")
                    await process.stdin.drain()
                process.stdin.close()

        printed, stderr, _ = await asyncio.gather(read(process.stdout), read(process.stderr), feed())
        await process.wait()
        return printed, stderr

    def environment(self, home: Path, token: str) -> dict[str, str]:
        """The whole environment of gh, which sends GH_TOKEN only to github.com."""
        path = ":".join(part for part in self.environ.get("PATH", "").split(":") if part.startswith("/"))
        return {
            "PATH": path or DEFAULT_PATH,
            "HOME": str(home),
            "GH_CONFIG_DIR": str(home),
            "GH_HOST": self.host,
            "GH_TOKEN" if self.host == GITHUB else "GH_ENTERPRISE_TOKEN": token,
            "GH_PROMPT_DISABLED": "1",
            "GH_NO_UPDATE_NOTIFIER": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "NO_COLOR": "1",
            "LC_ALL": "C",
        }

    @asynccontextmanager
    async def _home(self) -> AsyncIterator[Path]:
        """A private directory that holds nothing but settings."""
        home = await asyncio.to_thread(self.make_home)
        try:
            lines = ["prompt: disabled", "git_protocol: https"]
            lines.append(f"http_unix_socket: {SOCKET}")
            (home / "config.yml").write_text("\n".join(lines) + "\n")
            yield home
        finally:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _parse_response(printed: bytes) -> ApiResponse | None:
    """Parse the output of `gh api --include`; None without a response."""
    found = STATUS.match(printed)
    if found is None:
        return None
    head, _, content = printed[found.end() :].replace(b"\r\n\r\n", b"\n\n", 1).partition(b"\n\n")
    pairs = (line.partition(":") for line in head.decode(errors="replace").splitlines())
    headers = {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
    return ApiResponse(int(found[1]), headers, content)


def _message(response: ApiResponse | None, stderr: str) -> str:
    """GitHub's error message, or else the standard error of gh."""
    try:
        body = json.loads(response.content) if response else {}
    except (ValueError, RecursionError):
        body = {}
    if not isinstance(body, dict) or not body.get("message"):
        return stderr
    errors = body.get("errors")
    errors = errors if isinstance(errors, list) else []
    more = [str(each.get("message", "") if isinstance(each, dict) else each) for each in errors]
    return ". ".join(filter(None, [str(body["message"]), *more]))


__all__ = ["GITHUB", "ApiResponse", "GetToken", "Gh", "GhMissing", "GitHubFailed", "RetryPolicy"]
