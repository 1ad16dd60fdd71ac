"""The lobby says before an interview what would be missing in it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.domain.given_code_test_case import Language
from hutch.domain.ids import SessionId
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.language_toolchains import LanguageToolchains, MissingToolchain
from hutch.flows.interviews.interview_conduct import switch_language
from hutch.flows.interviews.lobby_and_presence import check_lobby, is_ready
from hutch.flows.interviews.running_interview_watcher import InterviewWatch
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.task_cancellation import cancel_and_wait
from tests.gateway.api_server import eventually
from tests.gateway.interview_rooms import a_plan, a_room

pytestmark = pytest.mark.anyio


class ExecutorWithoutNode(CodeExecutor):
    """The executor of a machine that has no Node."""

    async def toolchains(self) -> LanguageToolchains:
        complete = await super().toolchains()
        found = {name: each for name, each in complete.found.items() if name != "javascript"}
        return LanguageToolchains(
            found, (MissingToolchain("javascript", "none is installed", "Install it."),)
        )


class RecordingExecutor(CodeExecutor):
    """Notes the languages that are prepared, and compiles nothing."""

    prepared: Sequence[Language] = ()
    count = 0

    async def prepare(self, languages: Sequence[Language]) -> None:
        self.prepared = languages
        self.count += 1

    async def has_prepared(self) -> bool:
        return bool(self.prepared)


async def test_no_candidate_waits_until_the_library_of_go_is_compiled(tmp_path: Path) -> None:
    """It is begun in the lobby; a workspace that is opened before its end does without it."""
    executor = RecordingExecutor(tmp_path / "cache", concurrency=1)
    directories, variables = await executor.shown_without_waiting("go")
    assert "GOCACHE" not in variables and len(directories) <= 1
    async with a_room(tmp_path) as room:
        interviews = replace(room.api.server.interviews, executor=executor, wake=asyncio.Event())
        watch = InterviewWatch(interviews)
        async with watch.listening():
            owner = await interviews.owner(await interviews.rows.get(SessionId(room.id)))
            await check_lobby(interviews, owner, room.id)
            assert interviews.wake.is_set()
            await watch.tick()
            await eventually(executor.has_prepared)
    assert sorted(executor.prepared) == ["javascript", "python"]


class WaitingExecutor(RecordingExecutor):
    """Prepares languages until it may end."""

    def __init__(self, cache: Path) -> None:
        super().__init__(cache, concurrency=1)
        self.may_end = asyncio.Event()

    async def prepare(self, languages: Sequence[Language]) -> None:
        await super().prepare(languages)
        await self.may_end.wait()


async def test_many_lobbies_wait_for_one_preparation(tmp_path: Path) -> None:
    executor = WaitingExecutor(tmp_path / "cache")
    async with a_room(tmp_path) as room:
        interviews = replace(room.api.server.interviews, executor=executor, wake=asyncio.Event())
        watch = InterviewWatch(interviews)
        async with watch.listening():
            for _ in range(3):
                interviews.prepare(["go"])
                await watch.tick()
                await eventually(executor.has_prepared)
    assert executor.count == 1


async def test_a_candidate_who_left_is_noticed_while_others_keep_the_watch_awake(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        await room.begin()
        await room.post(room.candidate, "heartbeat")
        ahead_ms = [0]
        interviews = replace(
            room.api.server.interviews,
            wake=asyncio.Event(),
            changed={"another"},
            now_ms=lambda: wall_ms() + ahead_ms[0],
        )

        async def has_taken_changes() -> bool:
            return not interviews.changed

        async def keep_awake() -> None:
            while True:
                interviews.changed.add("another")
                interviews.wake.set()
                await asyncio.sleep(0.01)

        async def is_noticed() -> bool:
            return bool(await room.events(room.assessor, "candidate.disconnected"))

        watching = asyncio.ensure_future(InterviewWatch(interviews, tick_s=0.5).run())
        await eventually(has_taken_changes)
        interviews.changed.add("another")
        interviews.wake.set()
        await eventually(has_taken_changes)  # the first tick, of all interviews, is over
        waking = asyncio.ensure_future(keep_awake())
        ahead_ms[0] = 60_000
        await eventually(is_noticed)
        await cancel_and_wait(watching, waking)


async def test_languages_and_a_usable_assistant_are_named(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        lobby = await room.post(room.candidate, "lobby")
    assert lobby["ok"]
    assert [(each["name"], each["ok"], each["required"]) for each in lobby["checks"]] == [
        ("python", True, True),
        ("javascript", True, False),
        ("assistant", True, True),
    ]


async def test_an_assistant_without_a_key_is_noticed_in_the_lobby(tmp_path: Path) -> None:
    async with a_room(tmp_path, model="anthropic:claude-sonnet-4-5") as room:
        lobby = await room.post(room.candidate, "lobby")
        checked = await room.events(room.assessor, "lobby.checked")
    failed = {each["name"]: each for each in lobby["checks"] if not each["ok"]}
    assert not lobby["ok"] and set(failed) == {"assistant"}, lobby
    assert "key" in failed["assistant"]["message"]
    assert [each["ok"] for each in checked] == [False]


async def test_without_an_ai_no_model_is_needed(tmp_path: Path) -> None:
    async with a_room(tmp_path, a_plan(ai=False), model="anthropic:claude-sonnet-4-5") as room:
        lobby = await room.post(room.candidate, "lobby")
    assert lobby["ok"] and "assistant" not in {each["name"] for each in lobby["checks"]}


async def test_a_language_that_is_missing_cannot_be_switched_to(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        await room.begin()
        interviews = room.api.server.interviews
        without = replace(interviews, executor=ExecutorWithoutNode(tmp_path / "cache", concurrency=1))
        owner = await without.owner(await without.rows.get(room.id))  # type: ignore[arg-type]
        _, checks = await check_lobby(without, owner, room.id)
        missing = [each for each in checks if not each.ok]
        assert [(each.name, each.required) for each in missing] == [("javascript", False)]
        assert "Install it." in missing[0].message and is_ready(checks)
        with pytest.raises(Unavailable, match="Install it"):
            await switch_language(without, owner, room.id, "javascript")
        assert (await room.get(room.api))["question"]["language"] == "python"
