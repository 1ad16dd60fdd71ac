"""Sessions that live: from the queue to the end, and back again after anything."""

import asyncio
import subprocess
from contextlib import aclosing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hutch.domain import inputs
from hutch.domain.errors import Conflict, Denied, LimitReached, NotFound, Unavailable, WorkWouldBeLost
from hutch.domain.events import (
    ApprovalRequested,
    DeliveryEnded,
    Entry,
    InputProcessed,
    MessageSent,
    RunEnded,
    RunQueued,
    SessionEnded,
    SessionParked,
    SessionRewound,
    ShellPrinted,
    StepReached,
    TerminalPrinted,
)
from hutch.domain.ids import SessionId, new_run_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.session import NewSession, QueuedRun
from hutch.domain.user import Caller
from hutch.flows import session_fork, sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.interface import Delta
from hutch.store.run_queue import Runs, add_run
from hutch.store.session_inputs import Inputs, add_input
from hutch.store.sessions import Sessions
from hutch.store.shares import Shares
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import (
    BUG,
    call,
    cassette,
    nobody,
    owner,
    repository,
    serving,
    state,
    until,
)

pytestmark = pytest.mark.anyio

FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="So.")
UNTIL_GO = call("bash", command="until [ -e go ]; do sleep 0.05; done", timeout_s=600)


async def test_a_prompt_is_worked_on_and_the_next_one_follows_it(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [FIX, FINISH, {"text": "It is done already."}])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(
            server.services, who, NewSession(repository=str(repo), model=model, prompt="Mend slugs.")
        )
        events = await until(server, session.id, "run.ended")
        assert isinstance(events[-1], RunEnded) and events[-1].outcome == "done"
        assert await state(server, who, session.id, "idle") == "idle"
        content = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert b"lower()" in content.data
        given = await sessions.give(server.services, who, session.id, inputs.Prompt(text="Are you sure?"))
        head = (await sessions.show(server.services, who, session.id)).head
        more = await until(server, session.id, "run.ended", after=len(events))
        assert given.seq == 1 and head.seq > len(events)
        assert [event.prompt for event in more if isinstance(event, RunQueued)] == ["Are you sure?"]
        assert await state(server, who, session.id, "idle")
        runs = await sessions.runs(server.services, who, session.id)
        assert [(run.prompt, run.outcome) for run in runs] == [
            ("Are you sure?", "done"),
            ("Mend slugs.", "done"),
        ]
        assert [each.processed for each in await sessions.inputs(server.services, who, session.id)] == [True]


async def test_others_do_not_see_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who, bob = await owner(server), await owner(server, "bob", "member")
        session = await sessions.create(server.services, who, NewSession(purpose="mine"))
        for stranger in (bob, nobody()):
            with pytest.raises(NotFound):
                await sessions.show(server.services, stranger, session.id)
            assert await sessions.page(server.services, stranger) == []


async def test_an_approval_is_waited_for_and_given(tmp_path: Path) -> None:
    (tmp_path / "home/config/personas").mkdir(parents=True)
    model = cassette(tmp_path / "c.json", [call("bash", command="touch asked-for"), FINISH])
    async with serving(tmp_path / "home") as server:
        folder = Path(server.loaded.paths.config_file).parent / "personas"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "careful.md").write_text("---\npolicy:\n  rules: [ask bash]\n---\nBe careful.\n")
        who = await owner(server)
        new = NewSession(model=model, persona="careful", prompt="Touch it.")
        session = await sessions.create(server.services, who, new)
        with pytest.raises(Conflict, match="waits for an answer"):
            await sessions.give(server.services, who, session.id, inputs.Approve(call_id="x"))
        events = await until(server, session.id, "approval.requested")
        asked = events[-1]
        assert isinstance(asked, ApprovalRequested)
        assert await state(server, who, session.id, "waiting")
        await sessions.give(server.services, who, session.id, inputs.Approve(call_id=asked.call_id))
        rest = await until(server, session.id, "run.ended", after=len(events))
        assert [event.by for event in rest if event.type == "approval.answered"] == [who.user.id]  # type: ignore[attr-defined]
        assert await server.host.call(session.id, requests.StatFile("asked-for"))
        assert await state(server, who, session.id, "idle")
        assert [each.processed for each in await sessions.inputs(server.services, who, session.id)] == [True]


async def test_cancel_ends_a_run_and_leaves_the_session(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [call("bash", command="sleep 600", timeout_s=600), FINISH])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(model=model, prompt="Sleep."))
        await until(server, session.id, "command.started")
        await sessions.give(server.services, who, session.id, inputs.Cancel())
        events = await until(server, session.id, "run.ended")
        assert isinstance(events[-1], RunEnded) and events[-1].outcome == "cancelled"
        assert await state(server, who, session.id, "idle")
        ran = await server.host.call(session.id, requests.RunCommand("pgrep -x sleep || echo none"))
        assert ran.stdout == "none\n"


async def test_a_pause_holds_a_run_until_it_may_go_on(tmp_path: Path) -> None:
    slow = call("bash", command="sleep 30", timeout_s=60)
    model = cassette(tmp_path / "c.json", [slow, FINISH])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(model=model, prompt="Sleep."))
        await until(server, session.id, "command.started")
        await sessions.give(server.services, who, session.id, inputs.Pause())
        assert await state(server, who, session.id, "paused")
        await asyncio.sleep(0.2)
        head = (await sessions.show(server.services, who, session.id)).head
        types = [event.type for event in await until(server, session.id, "session.paused")]
        assert "run.ended" not in types
        await sessions.give(server.services, who, session.id, inputs.Resume())
        events = await until(server, session.id, "run.ended", after=head.seq)
        assert isinstance(events[-1], RunEnded) and events[-1].outcome == "done"
        await state(server, who, session.id, "idle")
        assert [run.outcome for run in await sessions.runs(server.services, who, session.id)] == ["done"]


async def test_a_message_during_a_run_reaches_the_run(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [UNTIL_GO, FINISH, {"text": "Tabs it is."}])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(model=model, prompt="Work."))
        await until(server, session.id, "command.started")
        await sessions.give(server.services, who, session.id, inputs.Message(text="Use tabs."))
        await server.host.call(session.id, requests.WriteFile("go", b""), by=who.user.id)
        events = await until(server, session.id, "run.ended")
        said = [event for event in events if isinstance(event, MessageSent) and event.author == "user"]
        assert [(event.text, event.by, event.input) for event in said] == [("Use tabs.", who.user.id, 1)]
        await state(server, who, session.id, "idle")
        assert [each.processed for each in await sessions.inputs(server.services, who, session.id)] == [True]


async def test_undo_takes_back_files_and_conversation(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [FIX, FINISH])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(
            server.services, who, NewSession(repository=str(repo), model=model, prompt="Mend slugs.")
        )
        events = await until(server, session.id, "run.ended")
        await state(server, who, session.id, "idle")
        await sessions.give(server.services, who, session.id, inputs.Undo())
        rest = await until(server, session.id, "session.rewound", after=len(events))
        assert isinstance(rest[-1], SessionRewound)
        content = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert content.data == b"def slug(text):\n    return text\n"
        await sessions.give(server.services, who, session.id, inputs.Prompt(text="Once more."))
        await until(server, session.id, "run.ended", after=len(events) + len(rest))
        content = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert b"lower()" in content.data  # the model was asked from the beginning again


async def test_undo_does_not_remove_what_others_have_changed_unless_asked_to(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [FIX, FINISH])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(
            server.services, who, NewSession(repository=str(repo), model=model, prompt="Mend slugs.")
        )
        await until(server, session.id, "run.ended")
        await state(server, who, session.id, "idle")
        await server.host.call(session.id, requests.WriteFile("notes.txt", b"mine"), by=who.user.id)
        await server.host.call(session.id, requests.RunCommand("echo '# mine' >> slug.py"))
        with pytest.raises(WorkWouldBeLost, match=r"slug\.py \(.* changed the same lines\)") as refused:
            await sessions.give(server.services, who, session.id, inputs.Undo())
        assert refused.value.paths == ("slug.py",)
        head = await server.log.head(session.id)
        kept = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert b"# mine" in kept.data
        await sessions.give(server.services, who, session.id, inputs.Undo(discard=True))
        rest = await until(server, session.id, "session.rewound", after=head.seq)
        rewound = rest[-1]
        assert isinstance(rewound, SessionRewound)
        assert (rewound.discarded, rewound.discarded_count) == (("slug.py",), 1)
        assert (await server.host.call(session.id, requests.ReadFile("notes.txt"))).data == b"mine"
        now = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert now.data.decode() == BUG["slug.py"]
        await server.host.call(session.id, requests.RestoreSnapshot(rewound.before, "slug.py"))
        again = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert again.data == kept.data


async def test_an_undo_that_was_taken_late_does_not_remove_what_came_since(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [FIX, FINISH])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(
            server.services, who, NewSession(repository=str(repo), model=model, prompt="Mend slugs.")
        )
        await until(server, session.id, "run.ended")
        await state(server, who, session.id, "idle")
        await server.rows.change(
            lambda connection: add_input(connection, session.id, who.user.id, inputs.Undo().model_dump_json())
        )
        await server.host.call(session.id, requests.WriteFile("slug.py", b"mine"), by=who.user.id)
        head = await server.log.head(session.id)
        await server.host.input(session.id)
        taken = (await until(server, session.id, "input.processed", after=head.seq))[-1]
        assert isinstance(taken, InputProcessed) and f"slug.py ({who.user.name} changed" in taken.refused
        assert (await server.host.call(session.id, requests.ReadFile("slug.py"))).data == b"mine"


async def test_a_session_that_ends_is_over(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(purpose="short"))
        await state(server, who, session.id, "idle")
        await server.host.call(session.id, requests.WriteFile("a", b"1"), by=who.user.id)
        await sessions.give(server.services, who, session.id, inputs.End(reason="enough"))
        events = await until(server, session.id, "session.ended")
        assert events[-1] == SessionEnded(outcome="done", reason="enough")
        assert await state(server, who, session.id, "ended")
        assert (await server.host.call(session.id, requests.ReadFile("a"))).data == b"1"
        for request in (requests.WriteFile("a", b"2"), requests.RunCommand("true")):
            with pytest.raises(Conflict, match="has ended"):
                await server.host.call(session.id, request)  # type: ignore[arg-type]
        with pytest.raises(Conflict, match="has ended"):
            await sessions.give(server.services, who, session.id, inputs.Prompt(text="More."))


async def test_however_much_waits_a_session_ends_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        await sessions.give(server.services, who, session.id, inputs.Pause())
        await state(server, who, session.id, "paused")
        waiting = [
            QueuedRun(id=new_run_id(), session_id=session.id, owner=who.user.id, queued_ms=1)
            for _ in range(1300)
        ]
        body = inputs.Message(text="And this.").model_dump_json()

        def add(connection: Connection) -> None:
            for run in waiting:
                add_run(connection, run)
            for _ in range(400):
                add_input(connection, session.id, who.user.id, body)

        await server.rows.change(add)
        await sessions.give(server.services, who, session.id, inputs.End(reason="enough"))
        assert await state(server, who, session.id, "ended")
        over = await Runs(server.rows).page(session_ids=[session.id], limit=2000)
        assert {each.id for each in over} == {each.id for each in waiting}
        assert {(each.state, each.outcome) for each in over} == {("ended", "cancelled")}
        assert len({each.ended_ms for each in over}) == 1  # by one statement
        result = [entry for entry in await read_all(server, session.id) if isinstance(entry.event, RunEnded)]
        assert len(result) == 1300 and len({entry.at_ms for entry in result}) == 1
        await eventually_taken(server, session.id)


async def read_all(server: Server, session_id: SessionId) -> list[Entry]:
    found: list[Entry] = []
    while page := await server.log.read(session_id, after=found[-1].seq if found else 0):
        found += page
    return found


async def eventually_taken(server: Server, session_id: SessionId) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if not await Inputs(server.rows).page(session_id, unprocessed=True):
                return
            await asyncio.sleep(0.02)


async def test_an_unused_session_is_parked_and_woken_by_the_next_use(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", sessions__idle_s=1) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle", "parked")
        await server.host.call(session.id, requests.WriteFile("kept", b"yes"), by=who.user.id)
        events = await until(server, session.id, "file.changed")
        events += await until(server, session.id, "session.parked", after=len(events))
        parked = events[-1]
        assert isinstance(parked, SessionParked) and parked.snapshot > 0
        assert server.host.jails == 0  # type: ignore[attr-defined]
        assert (await server.host.call(session.id, requests.RunCommand("cat kept"))).stdout == "yes"
        await until(server, session.id, "session.woken", after=len(events))


async def test_a_server_in_a_terminal_that_nobody_watches_keeps_running(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", sessions__idle_s=1) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle", "parked")
        opened = await server.host.call(session.id, requests.OpenTerminal(), by=who.user.id)
        async with server.host.terminal(session.id, opened.id, by=who.user.id) as viewer:
            await viewer.write(b"python3 -m http.server\n")
            async with asyncio.timeout(DEADLINE_S):
                async for _, data in viewer:
                    if b"Serving HTTP" in data:
                        break
        await asyncio.sleep(2.5)  # longer than an unused session stays open
        assert [each.ended for each in await server.host.call(session.id, requests.ListTerminals())] == [
            False
        ]
        async with server.host.terminal(session.id, opened.id, by=who.user.id) as viewer:
            await viewer.write(b"\x03")
        count = len(await until(server, session.id, "terminal.opened"))
        await until(server, session.id, "session.parked", after=count)


async def test_runs_wait_their_turn_and_know_their_place(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [UNTIL_GO, FINISH])
    async with serving(tmp_path / "home", sessions__runs=1) as server:
        who = await owner(server)
        made = [
            await sessions.create(server.services, who, NewSession(model=model, prompt=f"{number}"))
            for number in range(3)
        ]
        await until(server, made[0].id, "run.started")
        places = [(await sessions.show(server.services, who, each.id)).queue_position for each in made]
        assert places == [None, 1, 2]
        for each in made:
            await until(server, each.id, "command.started")
            await server.host.call(each.id, requests.WriteFile("go", b""), by=who.user.id)
            events = await until(server, each.id, "run.ended")
            assert isinstance(events[-1], RunEnded) and events[-1].outcome == "done"


async def test_a_repository_that_cannot_be_had_ends_the_session_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "nothing/.git").mkdir(parents=True)
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        new = NewSession(repository=str(tmp_path / "nothing"), prompt="Mend it.")
        session = await sessions.create(server.services, who, new)
        events = await until(server, session.id, "session.ended")
        assert isinstance(events[-1], SessionEnded) and events[-1].outcome == "failed"
        assert "nothing" in events[-1].reason
        assert await state(server, who, session.id, "ended")


async def test_a_fork_begins_with_the_files_of_a_snapshot(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        await server.host.call(session.id, requests.WriteFile("a", b"1"))
        first = await server.host.call(session.id, requests.TakeSnapshot("one"))
        await server.host.call(session.id, requests.WriteFile("a", b"2"))
        old = await session_fork.fork(server.services, who, session.id, snapshot=first.id)
        new = await session_fork.fork(server.services, who, session.id)
        await sessions.give(server.services, who, session.id, inputs.End())
        await state(server, who, session.id, "ended")
        ended = await session_fork.fork(server.services, who, session.id)
        for forked, content in ((old, b"1"), (new, b"2"), (ended, b"2")):
            await state(server, who, forked.id, "idle")
            assert (await server.host.call(forked.id, requests.ReadFile("a"))).data == content


async def test_commands_and_terminals_are_in_the_log(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        ran = await server.host.call(session.id, requests.RunCommand("echo out; echo err >&2; exit 3"))
        assert (ran.exit_code, ran.stdout, ran.stderr) == (3, "out\n", "err\n")
        opened = await server.host.call(session.id, requests.OpenTerminal(100, 30), by=who.user.id)
        async with server.host.terminal(session.id, opened.id) as viewer:
            await viewer.write(b"echo $((6 * 7)); exit 5\n")
            shown = b"".join([data async for _, data in viewer])
            assert b"42" in shown
        events = await until(server, session.id, "terminal.ended")
        printed = [event for event in events if isinstance(event, ShellPrinted)]
        assert {(event.stream, event.text) for event in printed} == {("stdout", "out\n"), ("stderr", "err\n")}
        assert "42" in "".join(event.text for event in events if isinstance(event, TerminalPrinted))
        assert events[-1].exit_code == 5  # type: ignore[attr-defined]
        assert "command.ended" in [event.type for event in events]


async def test_pieces_of_a_reply_come_before_the_whole(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [{"text": "One two three four five six."}])
    async with serving(tmp_path / "home", sessions__runs=1) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        await Sessions(server.rows).set(session.id, model=model)
        result: list[str] = []
        async with asyncio.timeout(DEADLINE_S), aclosing(server.host.follow(session.id, WHOLE)) as updates:
            await anext(updates)  # pieces come only to followers that are there already
            await sessions.give(server.services, who, session.id, inputs.Prompt(text="Count."))
            async for update in updates:
                if isinstance(update, Delta):
                    result.append(update.text)
                elif update.event.type == "run.ended":
                    break
        assert "".join(result) == "One two three four five six."


async def test_after_an_orderly_end_runs_go_on(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [call("bash", command="sleep 2"), FIX, FINISH])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(
            server.services, who, NewSession(repository=str(repo), model=model, prompt="Mend slugs.")
        )
        await until(server, session.id, "command.started")
    async with serving(tmp_path / "home") as server:
        events = await until(server, session.id, "run.ended")
        ended = [event for event in events if isinstance(event, RunEnded)]
        assert [event.outcome for event in ended] == ["done"]
        assert [event.type for event in events].count("run.started") == 1
        content = await server.host.call(session.id, requests.ReadFile("slug.py"))
        assert b"lower()" in content.data


async def test_what_was_done_is_delivered_step_by_step(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [FIX, FINISH])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        new = NewSession(repository=str(repo), model=model, prompt="Mend slugs.", deliver=True)
        session = await sessions.create(server.services, who, new)
        events = await until(server, session.id, "delivery.ended")
        steps = [event.step for event in events if isinstance(event, StepReached)]
        assert steps == ["cloning", "inspecting", "branching", "committing", "pushing", "opening"]
        ended = events[-1]
        assert isinstance(ended, DeliveryEnded) and ended.outcome == "proposed"
        shown = await asyncio.to_thread(
            subprocess.run,
            ["git", "-C", str(repo), "show", "hutch/slugs-are-lower-case:slug.py"],
            capture_output=True,
            check=True,
        )
        assert b"lower()" in shown.stdout


async def test_a_prompt_that_changes_nothing_proposes_nothing(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [{"text": "It is fine as it is."}])
    repo = repository(tmp_path / "repo")
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        new = NewSession(repository=str(repo), model=model, prompt="Is it fine?", deliver=True)
        session = await sessions.create(server.services, who, new)
        ended = (await until(server, session.id, "delivery.ended"))[-1]
        assert isinstance(ended, DeliveryEnded)
        assert (ended.outcome, ended.reason) == ("nothing", "Nothing was changed.")


CAREFUL = "---\npolicy:\n  rules: [ask bash]\n---\nBe careful.\n"


async def careful(server: Server, model: str) -> tuple[Caller, SessionId, ApprovalRequested]:
    """A session whose agent waits for an approval."""
    folder = Path(server.loaded.paths.config_file).parent / "personas"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "careful.md").write_text(CAREFUL)
    who = await owner(server)
    new = NewSession(model=model, persona="careful", prompt="Do it.")
    session = await sessions.create(server.services, who, new)
    asked = (await until(server, session.id, "approval.requested"))[-1]
    assert isinstance(asked, ApprovalRequested)
    await state(server, who, session.id, "waiting")
    return who, session.id, asked


async def test_nobody_agrees_to_what_nobody_has_asked(tmp_path: Path) -> None:
    model = cassette(
        tmp_path / "c.json", [call("bash", command="true"), call("bash", command="false"), FINISH]
    )
    async with serving(tmp_path / "home") as server:
        who, session_id, asked = await careful(server, model)
        for call_id in ("call_2_0", "x"):
            with pytest.raises(Conflict, match="No question"):
                await sessions.give(server.services, who, session_id, inputs.Approve(call_id=call_id))
        await sessions.give(server.services, who, session_id, inputs.Approve(call_id=asked.call_id))
        await until(server, session_id, "approval.answered")
        await sessions.give(server.services, who, session_id, inputs.Cancel())


async def test_a_request_to_stop_does_not_wait_behind_others(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [call("bash", command="true"), FINISH])
    async with serving(tmp_path / "home") as server:
        who, session_id, _ = await careful(server, model)
        for number in range(sessions.MAX_UNPROCESSED - 1):
            await server.rows.change(
                lambda db, number=number: add_input(  # type: ignore[misc]
                    db, session_id, who.user.id, f'{{"type":"message","text":"{number}"}}'
                )
            )
        await sessions.give(server.services, who, session_id, inputs.Cancel())
        ended = (await until(server, session_id, "run.ended"))[-1]
        assert isinstance(ended, RunEnded) and ended.outcome == "cancelled"
        await sessions.give(server.services, who, session_id, inputs.End())
        events = await until(server, session_id, "session.ended")
        await state(server, who, session_id, "ended")
        # The next one was begun after the cancelled one, and none after that while the session ended.
        runs = await Runs(server.rows).page(session_ids=[session_id], limit=sessions.MAX_UNPROCESSED)
        assert sum(run.started_ms > 0 for run in runs) <= 2
        queued = [event.run_id for event in events if isinstance(event, RunQueued)]
        ended_runs = [event.run_id for event in events if isinstance(event, RunEnded)]
        assert sorted(ended_runs) == sorted(queued)


async def test_a_host_that_stops_opens_no_jail(tmp_path: Path) -> None:
    """A request that comes while the server stops would leave a jail that nothing closes."""
    model = cassette(tmp_path / "c.json", [call("bash", command="true"), FINISH])
    async with serving(tmp_path / "home") as server:
        _, session_id, _ = await careful(server, model)
        host = server.services.host
        assert host.jails == 1
        await host.close_all()
        for _ in ("known to the host", "new to it"):
            with pytest.raises(Unavailable, match="is stopping"):
                await host.call(session_id, requests.ReadFile("slug.py"))
        assert host.jails == 0


async def test_so_many_inputs_may_wait_and_no_more(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [call("bash", command="true"), FINISH])
    async with serving(tmp_path / "home") as server:
        who, session_id, _ = await careful(server, model)
        body = '{"type":"message","text":"more"}'
        await server.rows.change(
            lambda db: [add_input(db, session_id, who.user.id, body) for _ in range(sessions.MAX_UNPROCESSED)]
        )
        with pytest.raises(LimitReached, match="already wait in session"):
            await sessions.give(server.services, who, session_id, inputs.Message(text="one more"))
        await server.rows.change(
            lambda db: [
                add_input(db, session_id, who.user.id, body) for _ in range(sessions.MORE_TO_STOP - 1)
            ]
        )
        await sessions.give(server.services, who, session_id, inputs.End())
        await state(server, who, session_id, "ended")


async def test_those_that_stop_are_bounded_too(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [call("bash", command="true"), FINISH])
    async with serving(tmp_path / "home") as server:
        who, session_id, _ = await careful(server, model)
        most = sessions.MAX_UNPROCESSED + sessions.MORE_TO_STOP
        body = '{"type":"message","text":"more"}'
        await server.rows.change(
            lambda db: [add_input(db, session_id, who.user.id, body) for _ in range(most)]
        )
        for stop in (inputs.Cancel(), inputs.Pause(), inputs.End()):
            with pytest.raises(LimitReached, match=f"{most} inputs already wait in session"):
                await sessions.give(server.services, who, session_id, stop)


async def test_what_is_taken_back_in_a_pause_is_not_done_again(tmp_path: Path) -> None:
    slow = call("bash", command="echo ran >> ran.txt; sleep 30", timeout_s=60)
    model = cassette(tmp_path / "c.json", [slow, FINISH])
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(model=model, prompt="Run it."))
        await until(server, session.id, "command.started")
        await sessions.give(server.services, who, session.id, inputs.Pause())
        await state(server, who, session.id, "paused")
        await sessions.give(server.services, who, session.id, inputs.Undo())
        await until(server, session.id, "session.rewound")
        await sessions.give(server.services, who, session.id, inputs.Resume())
        await state(server, who, session.id, "idle", "parked")
        assert [run.outcome for run in await sessions.runs(server.services, who, session.id)] == ["cancelled"]
        with pytest.raises(NotFound):
            await server.host.call(session.id, requests.StatFile("ran.txt"))


async def test_a_fork_by_others_brings_no_script_along(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [FINISH])
    async with serving(tmp_path / "home") as server:
        who, bob = await owner(server), await owner(server, "bob", "member")
        session = await sessions.create(server.services, who, NewSession(model=model))
        await state(server, who, session.id, "idle")
        await Shares(server.rows).set(session.id, bob.user.id, "observer", created_by=who.user.id)
        with pytest.raises(Denied):
            await session_fork.fork(server.services, bob, session.id)
        await Shares(server.rows).set(session.id, bob.user.id, "member", created_by=who.user.id)
        forked = await session_fork.fork(server.services, bob, session.id)
        assert (forked.owner, forked.model) == (bob.user.id, "")


async def test_what_people_say_is_kept_without_secrets(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        key = "ghp_" + "a1B2" * 9
        await sessions.give(server.services, who, session.id, inputs.Message(text=f"Use {key} for it."))
        [given] = await sessions.inputs(server.services, who, session.id)
        assert key not in given.body and "redacted" in given.body


async def test_what_reads_deliveries_ends_also_when_one_is_over_at_that_moment(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        for turns in range(6):
            running = asyncio.ensure_future(server.triggers.run())
            await asyncio.sleep(0.05)
            server.triggers._wakeup.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            done, _ = await asyncio.wait([running], timeout=DEADLINE_S)
            assert done, f"it goes on when it is cancelled {turns} turns of the loop later"
