"""The network of a jail: real tools through the proxy, nothing past it, and connections to a port inside."""

import asyncio
import base64
import hashlib
import importlib.util
import io
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound
from hutch.jail.egress import EgressAttempt
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.interface import Size
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import Policy
from hutch.jail.shared_terminal import open_terminal
from tests.deadline import DEADLINE_S
from tests.node_installation import node_home, npm

from .simulated_network import files, origin, resolving

pytestmark = pytest.mark.anyio

GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read())"


@dataclass
class Networked:
    """A jail with a proxy for which every name is 127.0.0.1, and the attempts that it reported."""

    jail: Jailed
    attempts: list[EgressAttempt] = field(default_factory=list)

    @property
    def decided(self) -> set[tuple[str, str, bool]]:
        return {(attempt.method, attempt.host, attempt.allowed) for attempt in self.attempts}

    async def run(self, *argv: str, **env: str) -> tuple[int | None, str]:
        ran = await self.jail.run(argv, env=env, timeout_s=60)
        return ran.exit_code, (ran.stdout + ran.stderr).decode()


@asynccontextmanager
async def networked(workspace: Path, *allow: str, **rules: object) -> AsyncIterator[Networked]:
    seen: list[EgressAttempt] = []
    outside = Outside(
        on_egress=seen.append, resolve=resolving("127.0.0.1"), also_allow_networks=("127.0.0.0/8",)
    )
    policy = Policy(network=allow, **rules)  # type: ignore[arg-type]
    async with open_jail(workspace, policy, outside=outside) as jail:
        yield Networked(jail, seen)


# --- out, through the proxy ---


async def test_urllib_reaches_an_allowed_host_and_no_other(workspace: Path) -> None:
    async with origin() as server, networked(workspace, f"a.example:{server.port}") as inside:
        got = await inside.run("/usr/bin/python3", "-c", GET, f"http://a.example:{server.port}/")
        refused = await inside.run("/usr/bin/python3", "-c", GET, f"http://b.example:{server.port}/")
        assert got == (0, "b'hello'\n")
        assert refused[0] == 1 and "403" in refused[1]
        assert server.connections == 1
        assert inside.decided == {("GET", "a.example", True), ("GET", "b.example", False)}
        ended = [attempt for attempt in inside.attempts if attempt.duration_s is not None]
        assert ended[0].bytes_down > 0 and ended[0].address == "127.0.0.1"


async def test_curl_shows_how_to_allow_a_host(workspace: Path) -> None:
    async with origin() as server, networked(workspace, f"*.a.example:{server.port}") as inside:
        got = await inside.run("curl", "-sS", f"http://deep.a.example:{server.port}/")
        refused = await inside.run("curl", "-sS", "http://evil.test/")
        tunnel = await inside.run("curl", "-sSv", "https://evil.test/")
    assert got == (0, "hello")
    assert "start with: --net evil.test" in refused[1]
    assert tunnel[0] == 56 and "--net evil.test" in tunnel[1]


def repository(directory: Path) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "work"], cwd=directory, check=True)
    (directory / "work" / "file").write_text("from outside\n")
    subprocess.run([*git, "-C", "work", "add", "."], cwd=directory, check=True)
    subprocess.run([*git, "-C", "work", "commit", "-qm", "first"], cwd=directory, check=True)
    subprocess.run([*git, "clone", "-q", "--bare", "work", "www/a.git"], cwd=directory, check=True)


async def test_git_clones_over_http(workspace: Path, tmp_path: Path) -> None:
    repository(tmp_path)
    with files(tmp_path / "www") as port:
        async with networked(workspace, f"git.example:{port}") as inside:
            url = f"http://git.example:{port}/a.git"
            assert await inside.run("git", "clone", "-q", url, "cloned") == (0, "")
            status = await inside.run("git", "-C", "cloned", "status", "--short")
            evil = f"http://evil.example:{port}/a.git"
            code, said = await inside.run("git", "clone", "-q", evil, "stolen")
    assert (workspace / "cloned" / "file").read_text() == "from outside\n"
    assert status == (0, "")
    assert code == 128 and "403" in said


def wheel(path: Path) -> None:
    info = "demo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("demo.py", "")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")


def copy_pip(into: Path) -> None:
    """This environment's pip, where the jail's user can read it, who may not reach this tree."""
    found = importlib.util.find_spec("pip")
    assert found and found.origin, f"{sys.prefix} has no pip: make clean setup"
    package = Path(found.origin).parent
    shutil.copytree(package, into / "pip", ignore=shutil.ignore_patterns("__pycache__"))


async def test_pip_downloads_from_an_index(workspace: Path, tmp_path: Path) -> None:
    index = tmp_path / "www" / "simple" / "demo"
    index.mkdir(parents=True)
    wheel(index / "demo-1.0-py3-none-any.whl")
    copy_pip(workspace / "tools")
    with files(tmp_path / "www") as port:
        async with networked(workspace, f"pypi.example:{port}") as inside:
            pip = ("/usr/bin/python3", "-m", "pip", "--isolated", "download", "--no-deps", "--no-cache-dir")
            where = ("--index-url", f"http://pypi.example:{port}/simple", "--trusted-host", "pypi.example")
            code, said = await inside.run(*pip, *where, "--dest", "got", "demo", PYTHONPATH="tools")
    assert code == 0, said
    assert [path.name for path in (workspace / "got").iterdir()] == ["demo-1.0-py3-none-any.whl"]


async def test_npm_fetches_a_package(workspace: Path, tmp_path: Path) -> None:
    www = tmp_path / "www"
    www.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        content = json.dumps({"name": "demo", "version": "1.0.0"}).encode()
        member = tarfile.TarInfo("package/package.json")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    (www / "demo.tgz").write_bytes(packed.getvalue())
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    with files(www) as port:
        registry = f"http://npm.example:{port}/"
        version = {
            "name": "demo",
            "version": "1.0.0",
            "dist": {"tarball": f"{registry}demo.tgz", "integrity": integrity},
        }
        document = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        (www / "demo").write_text(json.dumps(document))
        async with networked(workspace, f"npm.example:{port}", readonly=(str(node_home()),)) as inside:
            (workspace / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
            code, said = await inside.run(*npm(), "install", "demo", "--registry", registry)
    assert code == 0, said
    assert (workspace / "node_modules" / "demo" / "package.json").exists()


async def test_every_command_and_terminal_gets_the_proxy(workspace: Path) -> None:
    async with networked(workspace, "a.example") as inside:
        ran = await inside.run("sh", "-c", "echo $http_proxy $HTTPS_PROXY $no_proxy")
        async with open_terminal(inside.jail, ["sh", "-c", "echo $http_proxy"], size=Size()) as terminal:
            shown = b"".join([data async for _, data in terminal.attach()]).decode()
        own = await inside.run("sh", "-c", "echo $http_proxy", http_proxy="mine")
    proxy = shown.strip()
    assert proxy.startswith("http://127.0.0.1:")
    assert ran == (0, f"{proxy} {proxy} localhost,127.0.0.1,::1\n")
    assert own == (0, "mine\n")


async def test_policy_that_names_no_host_is_refused_before_anything_starts(workspace: Path) -> None:
    with pytest.raises(BadRequest, match="http://"):
        async with open_jail(workspace, Policy(network=("http://a.example/",))):
            pass


async def test_the_hosts_loopback_is_refused_by_the_proxy_too(workspace: Path) -> None:
    """Without a test's exemption: an allowed name that resolves to loopback is refused."""
    seen: list[EgressAttempt] = []
    outside = Outside(on_egress=seen.append, resolve=resolving("127.0.0.1"))
    async with origin() as server:
        allow = (f"a.example:{server.port}", f"127.0.0.1:{server.port}")
        async with open_jail(workspace, Policy(network=allow), outside=outside) as jail:
            for host in ("a.example", "127.0.0.1"):
                url = f"http://{host}:{server.port}/"
                ran = await jail.run(
                    ["/usr/bin/python3", "-c", GET, url], env={"no_proxy": "", "NO_PROXY": ""}
                )
                assert ran.exit_code == 1 and b"403" in ran.stderr
    assert server.connections == 0
    assert [(attempt.host, attempt.allowed) for attempt in seen] == [
        ("a.example", False),
        ("127.0.0.1", False),
    ]
    assert all("loopback" in attempt.reason for attempt in seen)


async def test_closing_the_jail_closes_its_proxy(workspace: Path) -> None:
    seen: list[EgressAttempt] = []
    async with origin() as server, networked(workspace, f"a.example:{server.port}") as inside:
        holding = f"exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf 'CONNECT a.example:{server.port} '"
        process = await inside.jail.spawn(["bash", "-c", f"{holding}'HTTP/1.1\\r\\n\\r\\n' >&3; sleep 100"])
        async with asyncio.timeout(DEADLINE_S):
            while not inside.attempts:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        seen = inside.attempts
        await inside.jail.close()
        process.close()
    assert seen[-1].duration_s is not None  # cut, and reported so


# --- no way past it ---

PROBES = {
    "the host's loopback": "socket.create_connection(('127.0.0.1', PORT), 2)",
    "the host's loopback by v6": "socket.create_connection(('::1', PORT), 2)",
    "an address of the host": "socket.create_connection((ADDRESS, PORT), 2)",
    "the world": "socket.create_connection(('1.1.1.1', 443), 2)",
    "link-local metadata": "socket.create_connection(('169.254.169.254', 80), 2)",
    "a datagram": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
    "a name": "socket.getaddrinfo('example.com', 80)",
}


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.2"


@pytest.mark.parametrize("what", PROBES)
@pytest.mark.parametrize("network", [(), ("a.example",)], ids=["no network", "allow-list"])
async def test_nothing_gets_out_directly(workspace: Path, what: str, network: tuple[str, ...]) -> None:
    async with origin(host="0.0.0.0") as server, open_jail(workspace, Policy(network=network)) as jail:
        probe = PROBES[what].replace("PORT", str(server.port)).replace("ADDRESS", repr(own_address()))
        ran = await jail.run(["/usr/bin/python3", "-c", f"import socket\n{probe}\nprint('out')"])
        assert (ran.exit_code, ran.stdout) == (1, b"")
        assert b"rror: [Errno" in ran.stderr or b"timed out" in ran.stderr
        assert server.connections == 0


async def test_without_a_list_there_is_no_proxy(jail: Jailed) -> None:
    ran = await jail.run(["sh", "-c", "env | grep -ic proxy; cat /proc/net/route /proc/net/tcp | wc -l"])
    assert ran.stdout.split() == [b"0", b"2"]  # two headings: no route, no socket


# --- in, to a port ---


async def ask(jail: Jailed, port: int, request: bytes) -> bytes:
    sock = await jail.connect(port)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(sock, request)
        answer = b""
        while data := await loop.sock_recv(sock, 65536):
            answer += data
        return answer
    finally:
        sock.close()


async def test_a_server_in_the_jail_is_reached_through_its_port(jail: Jailed, workspace: Path) -> None:
    page = b"<h1>from inside</h1>" * 50_000
    (workspace / "index.html").write_bytes(page)
    with pytest.raises(NotFound, match="8000"):
        await jail.connect(8000)
    server = await jail.spawn(["/usr/bin/python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"])
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                answer = await ask(jail, 8000, b"GET / HTTP/1.0\r\n\r\n")
                break
            except NotFound:
                await asyncio.sleep(0.05)
    assert answer.startswith(b"HTTP/1.0 200 OK") and answer.endswith(b"\r\n\r\n" + page)
    answers = await asyncio.gather(*(ask(jail, 8000, b"GET / HTTP/1.0\r\n\r\n") for _ in range(10)))
    assert [len(one) for one in answers] == [len(answer)] * 10
    await server.kill()
    server.close()
    with pytest.raises(NotFound):
        await jail.connect(8000)


async def test_jails_do_not_share_ports(jail: Jailed, workspace: Path) -> None:
    server = await jail.spawn(["/usr/bin/python3", "-m", "http.server", "8000"])
    async with open_jail(workspace) as other:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    (await jail.connect(8000)).close()
                    break
                except NotFound:
                    await asyncio.sleep(0.05)
        with pytest.raises(NotFound):
            await other.connect(8000)
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", 8000), 1):
            pass
    server.close()
