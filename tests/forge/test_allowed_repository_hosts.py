"""Requests do not reach private networks: not by address, name, rebinding or redirect."""

import http.server
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import Denied, HutchError, NotFound, Unavailable
from hutch.forge.allowed_repository_hosts import AllowedHosts
from hutch.forge.host_git import Git
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.jail.egress.blocked_addresses import refusal
from tests.forge.repositories import make_repository, serving

pytestmark = pytest.mark.anyio
GIT = Git({"PATH": "/usr/bin:/bin"})


def reach(*allowed: str, **names: str) -> AllowedHosts:
    async def resolve(host: str, port: int) -> Sequence[str]:
        if host not in names:
            raise Unavailable("not known")
        return names[host].split()

    return AllowedHosts(refusal, allowed, resolve) if names else AllowedHosts(refusal, allowed)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[RepoUrl]:
    """A repository on this machine's own network, and the requests to its server."""
    make_repository(tmp_path / "served/secret", {"a": "1"})
    with serving(tmp_path / "served") as server:
        yield parse_repo_url(server.url("secret/.git"))


async def listed(url: RepoUrl) -> bytes:
    return await GIT.run("ls-remote", "--", url.address, remote=url)


async def test_the_attack_works_without_the_check_and_not_with_it(inside: RepoUrl) -> None:
    assert b"refs/heads/main" in await listed(inside)
    with pytest.raises(Denied, match=r"127\.0\.0\.1, which is loopback"):
        await reach().pin(inside)
    allowed = await reach("127.0.0.1").pin(inside)
    assert b"refs/heads/main" in await listed(allowed)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "0.0.0.0", "[::1]"),
        *("10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1"),
        *(
            "[::ffff:127.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[fe80::1]",
            "[fd00::1]",
            "[64:ff9b::7f00:1]",
            "[ff02::1]",
        ),
    ],
)
@pytest.mark.parametrize(
    "spelling", ["http://{}/a/b", "https://{}:8443/a/b", "ssh://git@{}/a/b", "git@{}:a/b"]
)
async def test_private_addresses_in_every_spelling(host: str, spelling: str) -> None:
    with pytest.raises(Denied, match=r"server\.repository_hosts"):
        await reach().pin(parse_repo_url(spelling.format(host)))


async def test_one_private_address_among_others_is_enough() -> None:
    url = parse_repo_url("https://mixed.example/a/b")
    with pytest.raises(Denied):
        await reach(**{"mixed.example": "93.184.216.34 10.0.0.1"}).pin(url)
    public = await reach(**{"mixed.example": "93.184.216.34"}).pin(url)
    assert public.pinned == ("93.184.216.34",)


async def test_names_and_networks_can_be_allowed() -> None:
    url = parse_repo_url("https://git.example/a/b")
    for allowed in ("git.example", "10.1.0.0/16", "10.1.2.3"):
        assert (await reach(allowed, **{"git.example": "10.1.2.3"}).pin(url)).pinned == ("10.1.2.3",)
    with pytest.raises(Denied):
        await reach("10.1.0.0/16", **{"git.example": "10.2.0.1"}).pin(url)
    assert (await reach("git.example", **{"other.example": "1.1.1.1"}).pin(url)).pinned == ()


async def test_an_unknown_host_is_reported_when_it_is_needed() -> None:
    url = parse_repo_url("https://nobody.example/a/b")
    await reach(**{"other.example": "1.1.1.1"}).check(url)
    with pytest.raises(Unavailable):
        await reach(**{"other.example": "1.1.1.1"}).pin(url)


async def test_git_goes_where_the_name_led_when_it_was_judged(inside: RepoUrl) -> None:
    """A name that means another machine a moment later: git does not ask again."""
    named = parse_repo_url(inside.address.replace("127.0.0.1", "rebinding.example"))
    with pytest.raises(HutchError):
        await listed(named)  # nobody knows that name
    assert b"refs/heads/main" in await listed(replace(named, pinned=("127.0.0.1",)))
    elsewhere = parse_repo_url(inside.address.replace("127.0.0.1", "localhost"))
    with pytest.raises(HutchError):  # the name leads there by now, but that is not where it led before
        await listed(replace(elsewhere, pinned=("127.0.0.2",)))


async def test_a_dot_at_the_end_of_a_name_changes_nothing(inside: RepoUrl) -> None:
    """For curl it is another name, which it would look up itself."""
    named = parse_repo_url(inside.address.replace("127.0.0.1", "rebinding.example."))
    bound = await reach("127.0.0.1", **{"rebinding.example": "127.0.0.1"}).pin(named)
    assert b"refs/heads/main" in await listed(bound)


def test_ssh_is_bound_to_the_address_and_knows_the_host_by_its_name() -> None:
    url = replace(parse_repo_url("git@git.example:a/b"), pinned=("93.184.216.34",))
    command = GIT.environment(url)["GIT_SSH_COMMAND"]
    assert "-oHostName=93.184.216.34 -oHostKeyAlias=git.example " in command
    other = replace(parse_repo_url("ssh://git@git.example:2222/a/b"), pinned=("93.184.216.34",))
    assert "-oHostKeyAlias=[git.example]:2222 " in GIT.environment(other)["GIT_SSH_COMMAND"]
    assert "HostName" not in GIT.environment(parse_repo_url("git@git.example:a/b"))["GIT_SSH_COMMAND"]


@contextmanager
def redirecting(to: str) -> Iterator[str]:
    """A server that sends everybody elsewhere."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", to + self.path.partition("/a/b")[2])
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Not on the tests' standard error."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/a/b"
        finally:
            server.shutdown()
            thread.join()


async def test_a_redirect_leads_nowhere(inside: RepoUrl) -> None:
    with redirecting(inside.address) as outside:
        url = parse_repo_url(outside)
        assert b"refs/heads/main" in await listed(url)  # so it would
        with pytest.raises(NotFound, match="has moved to another address"):
            await listed(await reach("127.0.0.1").pin(url))
