"""Options of a session are changed while it is open, also while its agent works."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import Accounts
from hutch.jail.running_jail import Jailed
from hutch.sessions.live_session_host import LocalHost
from tests.gateway.api_server import V1, Api, cassette, eventually, serving

pytestmark = pytest.mark.anyio
GIB = 1024**3
WAIT = {"tool": "bash", "args": {"command": "until [ -e go ]; do sleep 0.02; done", "timeout_s": 120}}
WORKING = [{"text": "I wait.", "calls": [WAIT]}, {"text": "Still the old one.", "times": 50}]


async def change(api: Api, session_id: str, **what: Any) -> dict[str, Any]:
    answered = await api.patch(f"{V1}/sessions/{session_id}", json=what)
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


async def refused(api: Api, session_id: str, **what: Any) -> tuple[int, str]:
    answered = await api.patch(f"{V1}/sessions/{session_id}", json=what)
    return answered.status_code, answered.json()["detail"]


async def open_jail_of(api: Api, session_id: str) -> Jailed:
    host = api.server.services.host
    assert isinstance(host, LocalHost)
    async with host.sandbox(SessionId(session_id)) as sandbox:
        return sandbox.jail


async def begun(api: Api, **what: Any) -> str:
    """A session whose agent waits, in its first turn, for a file named `go`."""
    session = await api.new_session(prompt="Go.", **what)

    async def poll() -> bool:
        return any(event["type"] == "command.started" for event in await api.events(session["id"]))

    await eventually(poll)
    return str(session["id"])


async def let_go_on(api: Api, session_id: str) -> None:
    written = await api.put(f"{V1}/sessions/{session_id}/files/go", content=b"")
    assert written.status_code == 201, written.text


async def finish(api: Api, session_id: str) -> list[dict[str, Any]]:
    await let_go_on(api, session_id)
    await api.until(session_id, "idle", "parked")
    return await api.events(session_id)


def limits_of(session: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    return {each["name"]: (each["value"], each["source"]) for each in session["effective_limits"]}


async def test_a_changed_persona_and_model_work_from_the_next_turn_on_in_the_same_jail(
    tmp_path: Path,
) -> None:
    other = cassette(tmp_path / "other.json", {"text": "I am another.", "times": 9})
    async with serving(tmp_path, replies=WORKING) as api:
        session_id = await begun(api)
        jail = await open_jail_of(api, session_id)
        answered = await change(api, session_id, persona="reviewer", model=other, limits={"turns": 9})
        assert (answered["persona"], answered["limits"]["turns"], answered["waiting"]) == ("reviewer", 9, [])
        events = await finish(api, session_id)
        assert await open_jail_of(api, session_id) is jail
    (changed,) = [event for event in events if event["type"] == "session.changed"]
    assert changed["changes"] == [
        {"name": "persona", "before": "", "after": "reviewer"},
        {"name": "model", "before": "", "after": other},
        {"name": "limits.turns", "before": None, "after": 9},
    ]
    assert changed["by"]
    (run,) = [event for event in events if event["type"] == "run.changed"]
    assert (run["turn"], run["persona"], run["model"], run["max_turns"]) == (2, "reviewer", other, 9)
    replies = [event["text"] for event in events if event["type"] == "model.replied"]
    assert replies == ["I wait.", "I am another."]


async def test_hosts_and_limits_apply_to_the_open_jail(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=WORKING) as api:
        session_id = await begun(api, resources={"memory_bytes": GIB, "open_files": 512})
        jail = await open_jail_of(api, session_id)
        assert (jail.policy.limits.memory_bytes, jail.policy.network) == (GIB, ())
        answered = await change(
            api,
            session_id,
            network=["example.com"],
            resources={"memory_bytes": GIB // 2, "open_files": 256, "cpu_time_s": 60},
        )
        assert answered["waiting"] == []
        limits = jail.policy.limits
        assert (limits.memory_bytes, limits.open_files, limits.cpu_time_s) == (GIB // 2, 256, 60)
        assert jail.policy.network == ("example.com",)
        assert (await jail.run(["sh", "-c", "ulimit -n; echo $https_proxy"])).stdout.startswith(
            b"256\nhttp://127.0.0.1:"
        )
        raised = await change(api, session_id, resources={"open_files": 2048, "cpu_time_s": None})
        assert raised["waiting"] == ["open_files"]  # no process can raise its own
        assert jail.policy.limits.cpu_time_s is None
        await finish(api, session_id)


async def test_an_idle_session_gets_a_new_jail_for_limits_that_need_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(resources={"open_files": 256})
        jail = await open_jail_of(api, session_id)
        answered = await change(api, session_id, resources={"open_files": 512})
        assert (answered["waiting"], answered["state"]) == ([], "parked")
        after = await open_jail_of(api, session_id)
        assert after is not jail and after.policy.limits.open_files == 512


async def test_limits_are_shown_with_their_source(tmp_path: Path) -> None:
    settings = {"jail": {"processes": 100}, "members": {"memory_bytes": GIB, "cpu_time_s": 30}}
    async with serving(tmp_path, **settings) as api:
        bob = await api.as_user("bob")
        session_id = await bob.ready_session(resources={"memory_bytes": GIB // 2})
        found = limits_of((await bob.get(f"{V1}/sessions/{session_id}")).json())
        assert found["memory_bytes"] == (GIB // 2, "session")
        assert found["processes"] == (100, "jail.processes")
        assert found["cpu_time_s"] == (30, "members.cpu_time_s")
        assert found["open_files"] == (4096, "default")
        assert found["cpus"] == (None, "default")
        assert (await open_jail_of(api, session_id)).policy.limits.cpu_time_s == 30
        query = (
            f'{{ session(id: "{session_id}") {{ company resources {{ memoryBytes }} generation {{ effort }} '
            "effectiveLimits { name value source } } }"
        )
        asked = await bob.post("/api/graphql", json={"query": query})
        session = asked.json()["data"]["session"]
        assert session["resources"] == {"memoryBytes": GIB // 2}
        assert {"name": "processes", "value": 100.0, "source": "jail.processes"} in session["effectiveLimits"]


async def test_members_get_no_more_than_their_cap_by_any_way(tmp_path: Path) -> None:
    settings = {"members": {"memory_bytes": 3 * GIB, "run_cost_usd": 2.0}}
    async with serving(tmp_path, **settings) as api:
        bob = await api.as_user("bob")
        much = {"memory_bytes": 4 * GIB}
        created = await bob.post(f"{V1}/sessions", json={"resources": much})
        assert created.status_code == 403 and "raise members.memory_bytes" in created.json()["detail"]
        code = await bob.post(
            "/api/code", json={"repoUrl": "https://a.invalid/b", "prompt": "x", "maxCost": 5.0}
        )
        assert code.status_code == 403 and "raise members.run_cost_usd" in code.json()["detail"]
        his = await bob.ready_session(resources={"memory_bytes": 3 * GIB})  # more than every jail
        for body in (
            {"resources": much},
            {"resources": {"processes": 100_000}},  # not capped here, so it is what every jail has
            {"limits": {"cost_usd": 5.0}},
            {"network": ["example.com"]},
        ):
            assert (await refused(bob, his, **body))[0] == 403, body
            assert (await refused(api, his, **body))[0] == 403, body  # an owner: it is still bob's session
        hers = await api.ready_session(resources=much, limits={"cost_usd": 9.0})
        bob_id = (await bob.get(f"{V1}/me")).json()["user"]["id"]
        await Accounts(api.server.rows).shares.set(hers, bob_id, "member", created_by="")
        assert (await refused(bob, hers, resources={"memory_bytes": GIB}))[0] == 403  # he cannot manage it
        fork = (await bob.post(f"{V1}/sessions/{hers}/fork")).json()
        assert (fork["resources"]["memory_bytes"], fork["limits"]["cost_usd"]) == (3 * GIB, 2.0)
        assert (await open_jail_of(api, his)).policy.limits.memory_bytes == 3 * GIB
    async with serving(tmp_path, members={"memory_bytes": GIB}) as api:  # it was lowered
        assert (await open_jail_of(api, his)).policy.limits.memory_bytes == GIB
        assert (await open_jail_of(api, hers)).policy.limits.memory_bytes == 4 * GIB


async def test_a_resumed_run_has_no_more_than_the_cap(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=WORKING, members={"run_turns": 5}) as api:
        bob = await api.as_user("bob")
        session_id = await begun(bob, limits={"turns": 1})
        await let_go_on(bob, session_id)

        async def ended() -> Any:
            (run,) = (await bob.get(f"{V1}/sessions/{session_id}/runs")).json()["items"]
            return run if run["state"] == "ended" else None

        run = await eventually(ended)
        assert run["outcome"] == "limit_reached"
        more = await bob.post(f"{V1}/runs/{run['id']}/resume", json={"limits": {"turns": 6}})
        assert more.status_code == 403 and "raise members.run_turns" in more.json()["detail"]


async def test_no_command_of_a_member_can_ask_for_a_longer_timeout_than_the_cap(tmp_path: Path) -> None:
    asked = {"tool": "bash", "args": {"command": "sleep 100", "timeout_s": 90}}
    replies = [{"calls": [asked]}, {"text": "So.", "times": 9}]
    async with serving(tmp_path, replies=replies, members={"command_timeout_s": 1}) as api:
        bob = await api.as_user("bob")
        session_id = await bob.ready_session()
        for body in ({"command": "sleep 100"}, {"argv": ["sleep", "100"]}):
            url = f"{V1}/sessions/{session_id}/{'commands' if 'command' in body else 'exec'}"
            ran = (await bob.post(url, json={**body, "timeout_s": 90})).json()
            assert (ran["timed_out"], ran["note"]) == (
                True,
                "The limit members.command_timeout_s 1 s was hit.",
            )
        await bob.give(session_id, type="prompt", text="Go.")

        async def results() -> list[dict[str, Any]]:
            return [event for event in await bob.events(session_id) if event["type"] == "tool.returned"]

        (returned,) = await eventually(results)
        assert "was killed after 1 s without output, the most that an owner allows" in returned["text"]
        hers = await api.ready_session()
        ran = (await api.post(f"{V1}/sessions/{hers}/commands", json={"command": "sleep 1.5"})).json()
        assert (ran["exit_code"], ran["timed_out"]) == (0, False)


async def test_an_owner_who_becomes_a_member_is_capped_at_once(tmp_path: Path) -> None:
    settings = {"members": {"memory_bytes": GIB, "network": ["example.com"]}}
    async with serving(tmp_path, **settings) as api:
        bob = await api.as_user("bob", "owner")
        asked = {"resources": {"memory_bytes": 4 * GIB}, "network": ["example.org"]}
        session_id = await bob.ready_session(**asked)
        hers = await api.ready_session(**asked)
        jails = [await open_jail_of(api, each) for each in (session_id, hers)]
        user = (await bob.get(f"{V1}/me")).json()["user"]
        changed = await api.patch(f"{V1}/users/{user['id']}", json={"role": "member"})
        assert changed.status_code == 200, changed.text
        policies = [(await open_jail_of(api, each)).policy for each in (session_id, hers)]
        assert [(each.limits.memory_bytes, each.network) for each in policies] == [
            (GIB, ()),
            (4 * GIB, ("example.org",)),
        ]
        assert jails[1] is await open_jail_of(api, hers)


async def test_wrong_changes_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        before = await api.events(session_id)
        for body, status, words in (
            ({"persona": "nobody"}, 400, "There is no persona 'nobody'"),
            ({"persona": "../x"}, 400, "There is no persona"),
            ({"persona": "a\nb"}, 400, "line"),
            ({"model": "nope"}, 400, "names no model"),
            ({"model": "anthropic:claude-test"}, 403, "no key for anthropic"),
            ({"network": ["http://a.b/"]}, 400, "is a URL"),
            ({"network": ["127.0.0.1"]}, 400, "may not reach"),
            ({"resources": {"memory_bytes": 1}}, 422, "at least"),
            ({"resources": {"memory": GIB}}, 422, "memory"),
            ({"resources": {"processes": True}}, 422, "processes"),
            ({"generation": {"temperature": 2.5}}, 422, "temperature"),
            ({"generation": {"effort": "huge"}}, 422, "effort"),
            ({"owner": "bob"}, 422, "owner"),
        ):
            answered = await api.patch(f"{V1}/sessions/{session_id}", json=body)
            assert answered.status_code == status, (body, answered.text)
            assert words in answered.text, (body, answered.text)
        assert await api.events(session_id) == before
        assert (await change(api, session_id, persona=""))["persona"] == ""  # no difference, no event
        assert await api.events(session_id) == before
        carl = await api.as_user("carl", "member")
        assert (await refused(carl, session_id, persona="pair"))[0] == 404
        await api.give(session_id, type="end")
        await api.until(session_id, "ended")
        assert (await refused(api, session_id, persona="pair"))[0] == 409


async def test_changes_at_the_same_time_are_all_made_one_after_the_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        wanted = [{"limits": {"turns": number}} for number in range(10, 16)]
        wanted += [{"generation": {"effort": effort}} for effort in ("low", "medium", "high")]
        await asyncio.gather(*(change(api, session_id, **body) for body in wanted))
        events = [event for event in await api.events(session_id) if event["type"] == "session.changed"]
        session = (await api.get(f"{V1}/sessions/{session_id}")).json()
    state: dict[str, Any] = {"limits.turns": None, "generation.effort": None}
    for event in events:
        for each in event["changes"]:
            assert each["before"] == state[each["name"]]  # nothing was lost in between
            state[each["name"]] = each["after"]
    assert state == {
        "limits.turns": session["limits"]["turns"],
        "generation.effort": session["generation"]["effort"],
    }
    assert len(events) == len(wanted)


async def test_generation_options_of_a_prompt_hold_for_its_run_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(generation={"temperature": 0.5, "effort": "low"})
        await api.give(session_id, type="prompt", text="One.", generation={"effort": "high"})
        await api.give(session_id, type="prompt", text="Two.")

        async def both() -> list[Any] | None:
            started = [event for event in await api.events(session_id) if event["type"] == "run.started"]
            return started if len(started) == 2 else None

        started = await eventually(both)
    assert [(each["temperature"], each["effort"]) for each in started] == [(0.5, "high"), (0.5, "low")]
