"""The files of sessions are kept as long as the settings say, and no longer."""

import os
import time
from pathlib import Path

import pytest

from hutch.app.session_file_retention import retention_of
from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId
from hutch.domain.inputs import End
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.environment.layers.layer_store import Layer, LayerStore
from hutch.flows import run_redelivery, session_fork, sessions
from hutch.flows.prompt_to_pull_request_submission import submit
from hutch.flows.session_file_retention import DAY_MS, HOUR_MS
from hutch.gateway.gateway_context import Server
from hutch.sessions.file_and_command_requests import ReadFile
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from hutch.system.clock_without_jumps import wall_ms
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.sessions.session_server import call, cassette, owner, repository, serving, state, until

pytestmark = pytest.mark.anyio
FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
DONE = call("finish", title="Lower case")


def used_bytes(place: Path) -> int:
    return sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir())


async def swept(server: Server, later_ms: int, *, dry_run: bool = False) -> list[str]:
    assert isinstance(server.log, SqlLog)
    gone = await retention_of(server.loaded, server.log).sweep(at_ms=wall_ms() + later_ms, dry_run=dry_run)
    return [each.session_id for each in gone]


async def submit_and_park(server: Server, who: Caller, repo: Path) -> str:
    session, _ = await submit(
        server.services, who, NewSession(repository=str(repo), prompt="Make slugs lower case.")
    )
    await until(server, session.id, "delivery.ended")
    await state(server, who, session.id, "parked")
    return session.id


async def test_what_requests_leave_is_gone_after_their_hours(tmp_path: Path) -> None:
    repo, model = repository(tmp_path / "repo"), cassette(tmp_path / "c.json", [FIX, DONE])
    async with serving(tmp_path / "home", sessions__idle_s=1, model=model) as server:
        who = await owner(server)
        data = server.loaded.paths.data
        await submit_and_park(server, who, repo)  # the repository is known from now on
        first = await swept(server, 25 * HOUR_MS)
        assert len(first) == 1
        before = used_bytes(data / "workspaces") + used_bytes(data / "bases")
        ids = [await submit_and_park(server, who, repo) for _ in range(3)]
        assert len(list((data / "workspaces").iterdir())) == 3
        assert await swept(server, 23 * HOUR_MS) == []
        assert sorted(await swept(server, 25 * HOUR_MS, dry_run=True)) == sorted(ids)
        assert len(list((data / "workspaces").iterdir())) == 3
        assert sorted(await swept(server, 25 * HOUR_MS)) == sorted(ids)
        assert list((data / "workspaces").iterdir()) == []
        assert used_bytes(data / "workspaces") + used_bytes(data / "bases") == before
        assert await swept(server, 25 * HOUR_MS) == []


async def test_a_session_says_why_its_files_are_gone_and_keeps_its_log(tmp_path: Path) -> None:
    repo, model = repository(tmp_path / "repo"), cassette(tmp_path / "c.json", [FIX, DONE])
    async with serving(tmp_path / "home", sessions__idle_s=1, model=model) as server:
        who = await owner(server)
        id = await submit_and_park(server, who, repo)
        await swept(server, 25 * HOUR_MS)
        session = (await sessions.show(server.services, who, id)).session
        assert (session.state, session.reason) == ("ended", "Its workspace was removed after 24 hours.")
        with pytest.raises(NotFound, match="has no files: Its workspace was removed after 24 hours"):
            await server.host.call(session.id, ReadFile("slug.py"))
        events = await until(server, session.id, "session.ended")
        assert "change.proposed" in [event.type for event in events]


async def test_what_could_not_be_delivered_is_kept_as_any_session(tmp_path: Path) -> None:
    repo, model = repository(tmp_path / "repo"), cassette(tmp_path / "c.json", [FIX, DONE])
    async with serving(tmp_path / "home", sessions__idle_s=1, model=model) as server:
        who = await owner(server)
        new = NewSession(repository=str(repo), prompt="Make slugs lower case.")
        session, run = await submit(server.services, who, new)
        await until(server, session.id, "session.prepared")
        (repo / ".git").rename(repo / "gone")  # there is nowhere to deliver to
        ended = (await until(server, session.id, "delivery.ended"))[-1]
        assert getattr(ended, "outcome", "") == "failed"
        await state(server, who, session.id, "parked")
        assert await swept(server, 25 * HOUR_MS) == []
        (repo / "gone").rename(repo / ".git")
        await run_redelivery.deliver(server.services, who, run.id)
        await until(server, session.id, "change.proposed")
        await state(server, who, session.id, "parked")
        assert await swept(server, 25 * HOUR_MS) == [session.id]


async def test_any_other_session_is_kept_for_days_and_what_waits_is_never_removed(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", sessions__idle_s=1) as server:
        who = await owner(server)
        one = await sessions.create(server.services, who, NewSession(purpose="one"))
        two = await sessions.create(server.services, who, NewSession(purpose="two"))
        for each in (one, two):
            await state(server, who, each.id, "parked")
        run = (await Runs(server.rows).page(session_ids=[two.id], preparing=True))[0]
        await Sessions(server.rows).set(two.id, state="paused")
        await Runs(server.rows).requeue_ended(run.id)
        assert await swept(server, 29 * DAY_MS) == []
        assert await swept(server, 31 * DAY_MS) == [one.id]
        assert (await Sessions(server.rows).get(two.id)).workspace_id != ""


async def test_zero_keeps_them_for_good(tmp_path: Path) -> None:
    async with serving(
        tmp_path / "home",
        sessions__idle_s=1,
        sessions__file_retention_days=0,
        sessions__code_retention_hours=0,
    ) as server:
        who = await owner(server)
        one = await sessions.create(server.services, who, NewSession(purpose="one"))
        await state(server, who, one.id, "parked")
        assert await swept(server, 10_000 * DAY_MS) == []


async def ended(server: Server, who: Caller, repo: Path, model: str, *, deliver: bool = False) -> str:
    """A session that has worked on a prompt, and that its user has ended."""
    new = NewSession(repository=str(repo), prompt="Make slugs lower case.", model=model, deliver=deliver)
    session = await sessions.create(server.services, who, new)
    await until(server, session.id, "delivery.ended" if deliver else "run.ended")
    return await end(server, who, session.id)


async def end(server: Server, who: Caller, id: str) -> str:
    await sessions.give(server.services, who, id, End())
    await state(server, who, id, "ended")
    return id


async def test_an_ended_session_keeps_undelivered_work_whatever_its_size(tmp_path: Path) -> None:
    repo, works = repository(tmp_path / "repo"), cassette(tmp_path / "c.json", [FIX, DONE])
    looks = cassette(tmp_path / "l.json", [call("bash", command="ls"), {"text": "Nothing to do."}])
    async with serving(tmp_path / "home", sessions__file_retention_bytes=1) as server:
        who = await owner(server)
        undelivered = await ended(server, who, repo, works)
        looked = await ended(server, who, repo, looks)
        delivered = await ended(server, who, repo, works, deliver=True)
        fork = (await session_fork.fork(server.services, who, undelivered)).id
        await until(server, fork, "session.prepared")
        await end(server, who, fork)
        assert sorted(await swept(server, DAY_MS)) == sorted([looked, delivered])
        found = await server.host.call(SessionId(undelivered), ReadFile("slug.py"))
        assert b"lower" in found.data
        assert (await Sessions(server.rows).get(fork)).workspace_id != ""


async def test_dependencies_that_nothing_uses_go_after_their_days(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        store = LayerStore(Home(server.loaded.paths.data))
        for key, days in (("a" * 64, 31), ("b" * 64, 29)):
            Layer(key=key, owner="usr_1", repository="/srv/shop").write(_made(store.home.layer(key)))
            store.lock_path(key).touch()
            used = time.time() - days * DAY_MS / 1000
            os.utime(store.lock_path(key), (used, used))
        await swept(server, 0)
        assert [layer.key for layer in store.layers()] == ["b" * 64]


def _made(directory: Path) -> Path:
    (directory / "tree").mkdir(parents=True)
    return directory
