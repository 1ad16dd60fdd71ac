"""A command with sessions of its own, beside a server on the same database."""

import asyncio
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from hutch.app.local_sessions import open_local
from hutch.domain.errors import BadRequest, Unavailable
from hutch.domain.events import Entry
from hutch.domain.inputs import Cancel, End
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import NewSession
from hutch.flows import sessions, user_requested_run_resumption
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, loaded, owner, repository, serving, state, until
from tests.workspace.full_disk import files_no_longer_than

pytestmark = pytest.mark.anyio

FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be.")
SLOW = call("bash", command="sleep 300", timeout_s=400)


async def test_a_server_leaves_the_run_of_a_command_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    model = cassette(tmp_path / "slow.json", [SLOW, FINISH])
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(home))
        local = await stack.enter_async_context(open_local(loaded(home)))
        new = NewSession(repository=str(repository(tmp_path / "repo")), model=model, prompt="Go.")
        made = await sessions.create(local.services, local.caller, new)
        await until(server, made.id, "tool.called")
        (run,) = await Runs(server.rows).unfinished(made.id)
        assert (run.state, run.worker) == ("running", local.host.worker.name)
        # A server that starts meanwhile recovers what others left, and not this.
        await server.host._recover(set())
        assert (await Sessions(server.rows).get(made.id)).state == "running"
        await sessions.give(local.services, local.caller, made.id, Cancel())
        await until(server, made.id, "run.ended")


async def test_a_run_that_was_stopped_goes_on_elsewhere(tmp_path: Path) -> None:
    """Stopped in a command, resumed on a server: with a higher limit, and to the end."""
    home = tmp_path / "home"
    model = cassette(tmp_path / "model.json", [FIX, FINISH])
    async with serving(home):
        pass  # the database is made
    async with open_local(loaded(home)) as local:
        new = NewSession(
            repository=str(repository(tmp_path / "repo")),
            model=model,
            prompt="Make slugs lower case.",
            limits=RunLimits(turns=1),
            deliver=True,
        )
        made = await sessions.create(local.services, local.caller, new)
        (*_, ended) = await until(local, made.id, "run.ended")
        assert (ended.outcome, ended.limit, ended.limit_set_by) == ("limit_reached", "turns", "")
        await local.host.worker.wait_for(ended.run_id)
    async with serving(home) as server:
        who = await owner(server, local.caller.user.name)
        head = (await sessions.show(server.services, who, made.id)).head.seq
        run = await user_requested_run_resumption.resume(
            server.services, who, ended.run_id, limits=RunLimits(turns=9)
        )
        assert run.id == ended.run_id
        resumed = await until(server, made.id, "delivery.ended", after=head)
        assert [each.type for each in resumed if each.type.startswith("run.")] == ["run.resumed", "run.ended"]
        assert resumed[-1].outcome == "proposed"
        await state(server, who, made.id, "idle", "parked")
        with pytest.raises(BadRequest, match=r"has ended \(done\), and nothing is left to do"):
            await user_requested_run_resumption.resume(server.services, who, ended.run_id)


async def test_a_run_of_an_ended_session_cannot_be_resumed(tmp_path: Path) -> None:
    model = cassette(tmp_path / "model.json", [call("bash", command="true"), {"text": "That is all."}])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        new = NewSession(model=model, prompt="Go.", limits=RunLimits(turns=1))
        made = await sessions.create(server.services, who, new)
        (*_, ended) = await until(server, made.id, "run.ended")
        await sessions.give(server.services, who, made.id, End())
        await state(server, who, made.id, "ended")
        with pytest.raises(BadRequest, match=f"The session of the run {ended.run_id} has ended"):
            await user_requested_run_resumption.resume(server.services, who, ended.run_id)


async def test_a_command_fails_when_nothing_can_be_recorded(tmp_path: Path) -> None:
    """A server tries again, for as long as its disk is full; nobody waits that long for a command."""
    home = tmp_path / "home"
    waits = call("bash", command="until [ -e go ]; do sleep 0.05; done", timeout_s=400)
    async with serving(home):
        pass  # the database is made
    async with open_local(loaded(home)) as local:
        model = cassette(tmp_path / "model.json", [waits, FINISH])
        new = NewSession(repository=str(repository(tmp_path / "repo")), model=model, prompt="Go.")
        made = await sessions.create(local.services, local.caller, new)
        await until(local, made.id, "tool.called")
        with files_no_longer_than((home / "data" / "hutch.db-wal").stat().st_size):
            async with local.host.sandbox(made.id) as sandbox:
                (sandbox.workspace.place.directory / "go").touch()
            for _ in range(2):  # also for a follower who comes later
                seen = []
                with pytest.raises(Unavailable, match=r"hutch\.db does not work"):
                    async with (
                        asyncio.timeout(DEADLINE_S),
                        aclosing(local.host.follow(made.id, WHOLE)) as updates,
                    ):
                        async for update in updates:
                            seen += [update.event.type] if isinstance(update, Entry) else []
                assert "tool.called" in seen
