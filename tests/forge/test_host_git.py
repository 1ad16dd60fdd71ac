"""git on the host runs with settings that no repository or environment can change."""

# ruff: noqa: ASYNC240 (a look at the host's /proc blocks nobody here)

import asyncio
import contextlib
import http.server
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import Denied, HutchError, NotFound, Unavailable
from hutch.forge.git_progress import Progress
from hutch.forge.host_git import BASE_ENVIRONMENT, NO_SSH_KEYS, Git, GitFailed, fixed_settings
from hutch.forge.repo_url import parse_repo_url
from tests.deadline import DEADLINE_S
from tests.forge.repositories import commit, git, make_repository, serving

pytestmark = pytest.mark.anyio

HOST = Git({"PATH": os.defpath})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = tmp_path / "repository"
    make_repository(directory, {"a.txt": "one\n"})
    return directory


def trap(directory: Path) -> tuple[Path, Path]:
    """A program that leaves a file behind, and that file."""
    program, proof = directory / "program", directory / "proof"
    program.write_text(f"#!/bin/sh\ntouch '{proof}'\ncat 2>/dev/null\n")
    program.chmod(0o755)
    return program, proof


async def test_it_runs_and_returns_what_was_printed(repository: Path) -> None:
    printed = await HOST.run("rev-parse", "--abbrev-ref", "HEAD", git_dir=repository / ".git")
    assert printed == b"main\n"
    id = await HOST.run("hash-object", "--stdin", git_dir=repository / ".git", stdin=b"one\n")
    assert id.strip() == git(repository, "rev-parse", "HEAD:a.txt").encode()


async def test_a_failure_has_the_message_of_git(repository: Path) -> None:
    with pytest.raises(GitFailed, match=r"git rev-parse failed .128.*Needed a single revision") as failed:
        await HOST.run("rev-parse", "--verify", "nope", git_dir=repository / ".git")
    assert "Needed a single revision" in failed.value.stderr


@pytest.mark.parametrize(
    ("setting", "words", "guard"),
    [
        ("core.fsmonitor", ("status",), "core.fsmonitor"),
        ("filter.lfs.clean", ("add", "a.txt"), "filter.lfs.process"),
        ("filter.lfs.smudge", ("checkout", "--force", "HEAD", "--", "."), "filter.lfs.process"),
        ("core.sshCommand", ("ls-remote", "ssh://git@127.0.0.1/x"), None),
        ("core.pager", ("-p", "log"), None),
        ("core.editor", ("commit", "--allow-empty", "--amend"), None),
    ],
)
async def test_programs_named_in_a_repository_do_not_run(
    repository: Path, tmp_path: Path, setting: str, words: tuple[str, ...], guard: str | None
) -> None:
    program, proof = trap(tmp_path)
    (repository / ".gitattributes").write_text("*.txt filter=lfs\n")
    commit(repository, {})
    (repository / "a.txt").write_text("two\n")
    git(repository, "config", setting, str(program))
    where = {"git_dir": repository / ".git", "work_tree": repository}
    with contextlib.suppress(Unavailable):  # that it fails is fine, too
        await HOST.run(*words, **where)
    assert not proof.exists()
    if guard is not None:
        # With the one guard taken away the program runs: it is the guard that stops it.
        (repository / "a.txt").write_text("three\n")
        with contextlib.suppress(Unavailable):
            await HOST.run(*words, **where, settings={guard: str(program)})
        assert proof.exists()


async def test_hooks_do_not_run(repository: Path, tmp_path: Path) -> None:
    program, proof = trap(tmp_path)
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
        (repository / ".git/hooks").mkdir(exist_ok=True)
        (repository / ".git/hooks" / name).symlink_to(program)
    where = {"git_dir": repository / ".git", "work_tree": repository}
    await HOST.run("update-ref", "refs/heads/new", "HEAD", **where)
    await HOST.run("read-tree", "--reset", "-u", "HEAD", **where)
    assert not proof.exists()
    await HOST.run(
        *("update-ref", "refs/heads/other", "HEAD"),
        **where,
        settings={"core.hooksPath": str(repository / ".git/hooks")},
    )
    assert proof.exists()


async def test_the_environment_is_ours_alone(repository: Path, tmp_path: Path) -> None:
    program, proof = trap(tmp_path)
    hostile = {
        "PATH": f".:{os.defpath}",
        "HOME": "/home/me",
        "GIT_DIR": "/somewhere/else",
        "GIT_SSH_COMMAND": str(program),
        "GIT_ASKPASS": str(program),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(program),
        "GIT_EXEC_PATH": "/nowhere",
        "LD_PRELOAD": "/nowhere/x.so",
        "SSH_AUTH_SOCK": "/run/agent",
        "GH_TOKEN": "t0ken",
    }
    mine = Git(hostile)
    alone = mine.environment()
    assert alone == {
        **BASE_ENVIRONMENT,
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ALLOW_PROTOCOL": "",
    }
    remote = parse_repo_url("git@example.com:p")
    outwards = mine.environment(replace(remote, account=True))
    assert outwards == {
        **BASE_ENVIRONMENT,
        "PATH": os.defpath,
        "HOME": "/home/me",
        "SSH_AUTH_SOCK": "/run/agent",
        "GH_TOKEN": "t0ken",
        "GIT_ALLOW_PROTOCOL": "ssh",
    }
    for_others = mine.environment(remote)
    assert for_others == {
        **alone,
        "KRB5CCNAME": "FILE:/nonexistent/ticket",
        "GIT_SSH_COMMAND": BASE_ENVIRONMENT["GIT_SSH_COMMAND"] + NO_SSH_KEYS,
        "GIT_ALLOW_PROTOCOL": "ssh",
    }
    await mine.run("status", git_dir=repository / ".git", work_tree=repository)
    assert not proof.exists()


async def test_without_a_remote_nothing_is_reached(repository: Path, tmp_path: Path) -> None:
    for url in (f"file://{repository}", str(repository), "http://127.0.0.1:1/x", "ext::sh -c true"):
        with pytest.raises(GitFailed, match="not allowed"):
            await HOST.run("ls-remote", "--", url)


async def test_a_remote_opens_its_own_way_and_no_other(repository: Path) -> None:
    remote = parse_repo_url("https://example.com/p")
    with pytest.raises(Denied, match="not allowed"):
        await HOST.run("ls-remote", "--", str(repository), remote=remote)


async def test_a_clone_over_http_reports_progress(repository: Path, tmp_path: Path) -> None:
    commit(repository, {f"d/{number}": f"{number}\n" * 50 for number in range(300)})
    result: list[Progress] = []
    with serving(tmp_path) as server:
        remote = parse_repo_url(server.url("repository/.git"))
        await HOST.run("init", "--quiet", "--bare", "--", str(tmp_path / "copy.git"))
        await HOST.run(
            *("fetch", "--progress", "--", remote.address, "+refs/heads/*:refs/heads/*"),
            git_dir=tmp_path / "copy.git",
            remote=remote,
            on_progress=result.append,
        )
    assert Progress("Receiving objects", 305, 305) in result or any(
        each.step == "Receiving objects" and each.done == each.total for each in result
    )
    assert git(tmp_path / "copy.git", "rev-parse", "main") == git(repository, "rev-parse", "HEAD")


async def test_credentials_of_an_address_are_used_and_never_shown(repository: Path, tmp_path: Path) -> None:
    with serving(tmp_path, password="me:s3cret-pass") as server:
        remote = parse_repo_url(server.url("repository/.git", user="me:s3cret-pass"))
        assert b"refs/heads/main" in await HOST.run("ls-remote", "--", remote.address, remote=remote)
        server.hang.set()
        asking = asyncio.ensure_future(HOST.run("ls-remote", "--", remote.address, remote=remote))
        await _until(lambda: len(_gits(server)) > 0 and len(server.requests) > 2)
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _gits(server)]
        assert lines and not any(b"s3cret" in line for line in lines)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        server.hang.clear()
        wrong = parse_repo_url(server.url("repository/.git", user="me:wr0ng-pass"))
        with pytest.raises(Denied) as denied:
            await HOST.run("ls-remote", "--", wrong.address, remote=wrong)
        assert "wr0ng" not in str(denied.value)
        with pytest.raises(NotFound) as missing:
            gone = parse_repo_url(server.url("gone.git", user="me:s3cret-pass"))
            await HOST.run("ls-remote", "--", gone.address, remote=gone)
        assert "s3cret" not in str(missing.value)


async def test_the_users_own_credential_helper_is_asked(repository: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    helper = "!f() { echo username=me; echo password=by-helper; }; f"
    (home / ".gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n')
    with serving(tmp_path, password="me:by-helper") as server:
        stranger = parse_repo_url(server.url("repository/.git"))
        remote = replace(stranger, account=True)
        mine = Git({"PATH": os.defpath, "HOME": str(home)})
        assert b"refs/heads/main" in await mine.run("ls-remote", "--", remote.address, remote=remote)
        with pytest.raises(Denied, match="credential helper"):
            await HOST.run("ls-remote", "--", remote.address, remote=remote)
        with pytest.raises(Denied, match="Only owners may use"):
            await mine.run("ls-remote", "--", stranger.address, remote=stranger)


def test_ssh_for_others_tries_no_key_of_the_account() -> None:
    """It finds keys, settings and agents by itself, whatever HOME is."""
    words = Git({"PATH": os.defpath}).environment(parse_repo_url("git@example.com:p"))["GIT_SSH_COMMAND"]
    asked = subprocess.run([*words.split(), "-G", "example.com"], capture_output=True, check=True, text=True)
    used = dict(line.partition(" ")[::2] for line in asked.stdout.splitlines())
    wanted = ("pubkeyauthentication", "hostbasedauthentication", "gssapiauthentication", "identityagent")
    assert [used[name] for name in wanted] == ["false", "no", "no", "none"]


@pytest.mark.parametrize("first", [401, 302])
async def test_credentials_do_not_go_to_where_a_redirect_leads(first: int) -> None:
    """Neither at once, nor when the other machine asks for a password."""
    with asking() as (elsewhere, result), asking(to=elsewhere, first=first) as (here, _):
        remote = replace(parse_repo_url(f"{here}/a/b"), credentials=("me", "s3cret-pass"))
        with pytest.raises(HutchError):
            await HOST.run("ls-remote", "--", remote.address, remote=remote)
        assert result == []
        # Were it followed, the password would not be sent either.
        follow = {"http.followRedirects": "true"}
        with pytest.raises(Denied):
            await HOST.run("ls-remote", "--", remote.address, remote=remote, settings=follow)
        assert result and set(result) == {""}


@contextmanager
def asking(to: str = "", first: int = 401) -> Iterator[tuple[str, list[str]]]:
    """A server that asks for a password and redirects, before or after. It records the credentials it got."""
    shown: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization", ""))
            leads = to and (first == 302 or shown[-1])
            self.send_response(302 if leads else 401)
            self.send_header("Location", to + self.path) if leads else None
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Not on the tests' standard error."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", shown
        finally:
            server.shutdown()
            thread.join()


async def test_cancelling_ends_git_and_all_it_started(repository: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.hang.set()
        remote = parse_repo_url(server.url("repository/.git"))
        asking = asyncio.ensure_future(HOST.run("ls-remote", "--", remote.address, remote=remote))
        await _until(lambda: server.requests)
        before = _gits(server)
        assert len(before) >= 2  # git, and its helper for http
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await _until(lambda: not _gits(server))


async def test_cancelling_the_start_of_git_ends_all_it_started(repository: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.hang.set()
        remote = parse_repo_url(server.url("repository/.git"))
        asking = asyncio.ensure_future(HOST.run("ls-remote", "--", remote.address, remote=remote))
        while not _gits(server):  # noqa: ASYNC110
            await asyncio.sleep(0)
        until = time.monotonic() + DEADLINE_S
        while not server.requests:  # the loop stands still, so asyncio has not connected the pipes
            assert time.monotonic() < until, "git sends no request"
            time.sleep(0.01)  # noqa: ASYNC251
        before = _gits(server)
        asking.cancel()
        await asyncio.wait([asking], timeout=30)  # git itself gives up after 60 s
        assert asking.cancelled()
        await _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before))


async def test_a_command_that_takes_too_long_is_stopped(repository: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.hang.set()
        remote = parse_repo_url(server.url("repository/.git"))
        with pytest.raises(Unavailable, match=r"git ls-remote of http://.* took more than 0\.3 s"):
            await HOST.run("ls-remote", "--", remote.address, remote=remote, timeout_s=0.3)
        await _until(lambda: not _gits(server))


async def test_an_unreachable_machine_is_reported() -> None:
    for url in ("http://127.0.0.1:1/p", "ssh://git@127.0.0.1:1/p"):
        remote = parse_repo_url(url)
        with pytest.raises(Unavailable, match="does not answer"):
            await HOST.run("ls-remote", "--", remote.address, remote=remote)


async def test_no_git_no_surprise() -> None:
    with pytest.raises(Unavailable, match="git is not installed"):
        await Git({"PATH": "/nonexistent"}).run("version")


def test_every_pinned_setting_is_one_that_git_takes(tmp_path: Path) -> None:
    make_repository(tmp_path / "r", {"a": "b"})
    words = [word for name, value in fixed_settings().items() for word in ("-c", f"{name}={value}")]
    assert git(tmp_path / "r", *words, "rev-parse", "--abbrev-ref", "HEAD") == "main"


def _gits(server: Any) -> list[int]:
    """Processes of git that were started to reach a server. Others, of servers that tests of other modules
    share, may start git at any time."""
    address = server.url("").rpartition("@")[2].removeprefix("http://").rstrip("/").encode()
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                if address in (path / "cmdline").read_bytes() and (path / "comm").read_text()[:3] == "git":
                    found.append(int(path.name))
    return found


async def _until(is_true: object) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.02)
