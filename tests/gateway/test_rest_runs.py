"""Runs over HTTP: their outcomes, and repeated deliveries."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hutch.store.users import Users
from tests.forge.repositories import git
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.sessions.session_server import BUG, call, cassette, repository
from tests.store.direct_sql import sql

pytestmark = pytest.mark.anyio

FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be.")
FAILS = "! grep -q lower slug.py"  # passes before it is mended, and fails after that
KNOWN = {"failing": True}


async def worked(api: Api, place: Path, **more: Any) -> dict[str, Any]:
    """A run that has ended, whose tests fail."""
    session = await api.new_session(
        repository=str(repository(place / "repo")),
        model=cassette(place / "c.json", [FIX, *[FINISH] * 6]),
        deliver=True,
        **{"prompt": "Make slugs lower case.", "delivery": {"tests": FAILS}, **more},
    )
    run = await over(api, session["id"])
    await api.until(session["id"], "idle", "parked")  # reported a moment later
    return run


async def over(api: Api, session_id: str) -> dict[str, Any]:
    """The newest run of a session, once it has ended."""

    async def poll() -> dict[str, Any] | None:
        found = (await api.get(f"{V1}/sessions/{session_id}/runs?limit=1")).json()["items"]
        return found[0] if found and found[0]["state"] == "ended" else None

    return dict(await eventually(poll))


async def deliver(api: Api, run: dict[str, Any], said: Any = None) -> dict[str, Any]:
    answered = await api.post(f"{V1}/runs/{run['id']}/deliver", json=said)
    assert answered.status_code == 202, answered.text
    return await over(api, run["session_id"])


def branches(place: Path) -> list[str]:
    return git(place / "repo", "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


async def test_work_with_failing_tests_is_proposed_once_on_request(api: Api, tmp_path: Path) -> None:
    run = await worked(api, tmp_path)
    assert (run["outcome"], run["delivered"]["outcome"]) == ("tests_failing", "failed")
    assert run["delivered"]["failing"] and "They passed before." in run["delivered"]["reason"]
    for said in (None, {}, {"failing": False}):
        refused = await api.post(f"{V1}/runs/{run['id']}/deliver", json=said)
        assert refused.status_code == 409
        assert '"failing": true' in refused.json()["detail"]
        assert f"hutch changes propose {run['id']}" in refused.json()["detail"]
    assert branches(tmp_path) == ["main"]
    asked = await asyncio.gather(*(api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN) for _ in range(4)))
    assert {each.status_code for each in asked} == {202}
    done = await over(api, run["session_id"])
    assert (done["outcome"], done["delivered"]["outcome"]) == ("tests_failing", "proposed")
    again = await deliver(api, run, KNOWN)
    assert again == done and await deliver(api, run) == done
    assert branches(tmp_path) == ["hutch/slugs-are-lower-case", "main"]
    listed = (await api.get(f"{V1}/changes?session={run['session_id']}")).json()["items"]
    assert [each["id"] for each in listed] == [done["delivered"]["change_id"]]
    assert "failed" in listed[0]["tests"] and "This is known" in listed[0]["body"]
    refused = await api.post(f"{V1}/changes/{listed[0]['id']}/merge")
    assert refused.status_code == 409 and "force" in refused.json()["detail"]
    events = await api.events(run["session_id"])
    me = (await api.get(f"{V1}/me")).json()["user"]["id"]
    words = [each for each in events if each["type"] == "delivery.requested"]
    assert words and all((each["by"], each["failing"]) == (me, True) for each in words)
    assert [each["outcome"] for each in events if each["type"] == "delivery.ended"] == ["failed", "proposed"]
    assert [each["type"] for each in events].count("change.proposed") == 1
    assert [each["type"] for each in events].count("run.ended") == 1


async def test_callers_who_may_not_work_in_a_session_approve_nothing(api: Api, tmp_path: Path) -> None:
    run = await worked(api, tmp_path)
    path = f"{V1}/runs/{run['id']}/deliver"
    mallory, eve = await api.as_user("mallory"), await api.as_user("eve")
    missing = await mallory.post(f"{V1}/runs/run_01jd2m4c9k7w6t0q8n5x3vbaeh/deliver", json=KNOWN)
    hidden = await mallory.post(path, json=KNOWN)
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json()["detail"].replace(run["id"], "") == missing.json()["detail"].replace(
        "run_01jd2m4c9k7w6t0q8n5x3vbaeh", ""
    )
    [id] = [user.id for user in await Users(api.server.rows).list() if user.name == "eve"]
    shares = f"{V1}/sessions/{run['session_id']}/shares/{id}"
    for role in ("observer", "assessor"):
        assert (await api.put(shares, json={"role": role})).status_code < 300
        assert (await eve.post(path, json=KNOWN)).status_code == 403
    reader = await api.as_user("owner", "owner", scopes="read")
    assert (await reader.post(path, json=KNOWN)).status_code == 403
    assert (await (await api.as_nobody()).post(path, json=KNOWN)).status_code == 401
    for wrong in ({"failing": "perhaps"}, {"falling": True}, [True]):
        assert (await api.post(path, json=wrong)).status_code == 422
    assert "delivery.requested" not in [each["type"] for each in await api.events(run["session_id"])]
    assert branches(tmp_path) == ["main"]
    await deliver(api, run, KNOWN)
    noted = (await api.get(f"{V1}/audit")).json()["items"]
    found = [each for each in noted if each["action"] == "run.deliver_asked"]
    assert [(each["object"], each["detail"]) for each in found][:1] == [(run["id"], "its tests fail")]


async def test_undone_and_unfinished_work_is_not_delivered(api: Api, tmp_path: Path) -> None:
    run = await worked(api, tmp_path)
    await undone(api, run["session_id"])
    refused = await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)
    assert refused.status_code == 409 and "undone" in refused.json()["detail"]
    sleeps = cassette(tmp_path / "s.json", [call("bash", command="sleep 600", timeout_s=600)])
    session = await api.new_session(model=sleeps, prompt="Wait.", deliver=True)
    await api.until(session["id"], "running")
    [busy] = (await api.get(f"{V1}/sessions/{session['id']}/runs")).json()["items"]
    refused = await api.post(f"{V1}/runs/{busy['id']}/deliver", json=KNOWN)
    assert refused.status_code == 409 and "is running" in refused.json()["detail"]
    await api.give(session["id"], type="cancel")
    assert (await over(api, session["id"]))["outcome"] == "cancelled"
    refused = await api.post(f"{V1}/runs/{busy['id']}/deliver")
    assert refused.status_code == 409 and "Another prompt" in refused.json()["detail"]
    assert (await deliver(api, busy, KNOWN))["delivered"]["outcome"] == "nothing"
    assert branches(tmp_path) == ["main"]


async def test_the_approval_of_a_delivery_holds_until_it_is_delivered(api: Api, tmp_path: Path) -> None:
    run = await worked(api, tmp_path)
    (tmp_path / "repo/.git").rename(tmp_path / "away")  # there is nowhere to deliver to
    failed = (await deliver(api, run, KNOWN))["delivered"]
    assert (failed["outcome"], failed["failing"]) == ("failed", False)
    shown = (await api.get(f"{V1}/sessions/{run['session_id']}")).json()
    assert shown["delivered"] == {**failed, "run_id": run["id"]}
    (tmp_path / "away").rename(tmp_path / "repo/.git")
    assert (await deliver(api, run))["delivered"]["outcome"] == "proposed"
    listed = (await api.get(f"{V1}/sessions?limit=200")).json()["items"]
    [of_list] = [each for each in listed if each["id"] == run["session_id"]]
    assert of_list["delivered"]["outcome"] == "proposed"
    events = await api.events(run["session_id"])
    assert [each["failing"] for each in events if each["type"] == "delivery.requested"] == [True, False]


async def test_cancelling_a_pending_delivery_withdraws_its_approval(api: Api, tmp_path: Path) -> None:
    run = await worked(api, tmp_path)
    await api.give(run["session_id"], type="pause")
    await api.until(run["session_id"], "paused")
    assert (await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)).json()["state"] == "queued"
    assert (await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)).status_code == 202
    await api.give(run["session_id"], type="cancel")
    await api.give(run["session_id"], type="resume")
    await api.until(run["session_id"], "idle", "parked")
    kept = await over(api, run["session_id"])
    assert (kept["outcome"], kept["reason"]) == ("tests_failing", run["reason"])
    assert kept["delivered"]["outcome"] == "failed" and "cancelled" in kept["delivered"]["reason"]
    refused = await api.post(f"{V1}/runs/{run['id']}/deliver")
    assert refused.status_code == 409 and "They passed before." in refused.json()["detail"]
    assert branches(tmp_path) == ["main"]
    assert (await deliver(api, run, KNOWN))["delivered"]["outcome"] == "proposed"
    events = await api.events(run["session_id"])
    assert len([each for each in events if each["type"] == "delivery.requested"]) == 2, json.dumps(events)
    assert [each["outcome"] for each in events if each["type"] == "run.ended"] == ["tests_failing"]


async def test_a_session_that_ends_leaves_the_outcome_of_what_waits_to_be_delivered(
    api: Api, tmp_path: Path
) -> None:
    run = await worked(api, tmp_path)
    await api.give(run["session_id"], type="pause")
    await api.until(run["session_id"], "paused")
    await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)
    await api.give(run["session_id"], type="end")
    await api.until(run["session_id"], "ended")
    kept = await over(api, run["session_id"])
    assert (kept["outcome"], kept["delivered"]["outcome"]) == ("tests_failing", "failed")
    assert "ended" in kept["delivered"]["reason"] and branches(tmp_path) == ["main"]
    types = [each["type"] for each in await api.events(run["session_id"])]
    assert types.count("run.ended") == 1


async def undone(api: Api, session_id: str) -> int:
    """How many events there are, once a session has been undone."""
    await api.give(session_id, type="undo")

    async def poll() -> int:
        types = [each["type"] for each in await api.events(session_id)]
        return len(types) if "session.rewound" in types else 0

    return int(await eventually(poll))


async def is_busy(api: Api, place: Path) -> str:
    """A session that works, and does not come to an end."""
    sleeps = cassette(place / "busy.json", [call("bash", command="sleep 600", timeout_s=600)])
    session = await api.new_session(model=sleeps, prompt="Wait.")
    await api.until(session["id"], "running")
    return str(session["id"])


async def stays_undone(api: Api, session_id: str, after: int) -> None:
    await api.until(session_id, "idle", "parked")
    later = [each["type"] for each in (await api.events(session_id))[after:]]
    assert not {"run.started", "model.replied", "step.reached", "file.changed"} & set(later), later
    assert (await api.get(f"{V1}/sessions/{session_id}/files/slug.py")).text == BUG["slug.py"]


@pytest.mark.parametrize("paused", [True, False])
async def test_undone_work_is_not_delivered_again(tmp_path: Path, paused: bool) -> None:
    async with serving(tmp_path, sessions={"runs": 1}) as api:
        run = await worked(api, tmp_path)
        session_id = run["session_id"]
        if paused:
            await api.give(session_id, type="pause")
            await api.until(session_id, "paused")
        busy = "" if paused else await is_busy(api, tmp_path)
        assert (await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)).json()["state"] == "queued"
        waits = (await api.get(f"{V1}/sessions/{session_id}")).json()["state"]
        assert waits == ("paused" if paused else "queued")
        after = await undone(api, session_id)
        await api.give(busy or session_id, type="cancel" if busy else "resume")
        kept = await over(api, session_id)
        assert (kept["outcome"], kept["delivered"]["outcome"]) == ("tests_failing", "failed")
        await stays_undone(api, session_id, after)
        assert branches(tmp_path) == ["main"]
        refused = await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)
        assert refused.status_code == 409 and "undone" in refused.json()["detail"]


async def test_a_run_undone_before_it_resumes_does_not_resume(tmp_path: Path) -> None:
    async with serving(tmp_path, sessions={"runs": 1}) as api:
        sleeps = call("bash", command="sleep 600", timeout_s=600)
        session = await api.new_session(
            repository=str(repository(tmp_path / "repo")),
            prompt="Make slugs lower case.",
            model=cassette(tmp_path / "c.json", [FIX, sleeps, {"text": "Done."}]),
        )
        session_id = session["id"]

        async def begun() -> bool:
            return "file.changed" in [each["type"] for each in await api.events(session_id)]

        await eventually(begun)
        await api.give(session_id, type="pause")
        await api.until(session_id, "paused")
        busy = await is_busy(api, tmp_path)
        await api.give(session_id, type="resume")
        await api.until(session_id, "queued")
        await api.give(session_id, type="prompt", text="Say hello.")  # it stays in the queue
        after = await undone(api, session_id)
        await api.give(busy, type="cancel")
        runs = f"{V1}/sessions/{session_id}/runs"

        async def next_begun() -> list[dict[str, Any]] | None:
            found = (await api.get(runs)).json()["items"]
            return found if found[0]["started_ms"] else None

        second, first = await eventually(next_begun)
        assert (first["state"], first["outcome"], second["prompt"]) == ("ended", "cancelled", "Say hello.")
        started = [each for each in (await api.events(session_id))[after:] if each["type"] == "run.started"]
        assert {each["run_id"] for each in started} <= {second["id"]}


async def test_followers_of_a_run_wait_for_a_requested_delivery(api: Api, tmp_path: Path) -> None:
    run = await worked(api, tmp_path)
    follow, wait = f"/api/code/{run['id']}", {"Accept": "application/json"}
    assert (await api.get(follow, headers=wait)).json()["outcome"] == "tests_failing"
    await api.give(run["session_id"], type="pause")
    await api.post(f"{V1}/runs/{run['id']}/deliver", json=KNOWN)
    waiting = asyncio.ensure_future(api.get(follow, headers=wait))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await api.give(run["session_id"], type="resume")
    result = (await waiting).json()
    assert (result["outcome"], result["pullRequest"]["branch"]) == ("done", "hutch/slugs-are-lower-case")


async def test_a_secret_in_the_name_of_a_failing_test_is_redacted(api: Api, tmp_path: Path) -> None:
    token = "ghp_" + "A1b2C3d4E5" * 4
    script = (
        "echo 'FAILED t.py::old'\n"
        f"if grep -q lower slug.py; then echo 'FAILED t.py::new[{token}]'; N=2; else N=1; fi\n"
        'echo "$N failed, 1 passed in 0.10s"\nexit 1\n'
    )
    session = await api.new_session(
        repository=str(repository(tmp_path / "repo", {**BUG, "t.sh": script})),
        model=cassette(tmp_path / "c.json", [FIX, *[FINISH] * 6]),
        deliver=True,
        prompt="Make slugs lower case.",
        delivery={"tests": "sh t.sh"},
    )
    run = await over(api, session["id"])
    assert "t.py::new[[redacted:github_token]]" in run["delivered"]["reason"]
    shown = (await api.get(f"{V1}/sessions/{session['id']}")).text
    assert token not in json.dumps([run, await api.events(session["id"])]) + shown


async def test_events_that_were_deleted_behind_our_back_are_noticed(api: Api) -> None:
    session_id = await api.ready_session(purpose="lost", prompt="Say something")
    await api.until(session_id, "idle")
    url = f"{V1}/sessions/{session_id}/events"
    newest = (await api.get(url)).json()["items"][-1]["seq"]
    there = "(SELECT id FROM logs WHERE session_id = ?)"
    for first, last in ((newest, newest), (3, 3)):
        gone = f"DELETE FROM events WHERE log_id = {there} AND seq BETWEEN {first} AND {last}"
        sql(api.server.loaded.paths.database, gone, given=(session_id,))
        page = (await api.get(url)).json()
        assert [each["seq"] for each in page["items"]] == list(range(1, first))
        assert page["next"] is not None
        lost = await api.get(url, params={"after": first - 1})
        assert lost.status_code == 503 and "missing" in lost.json()["detail"]


async def test_only_the_owner_of_a_session_decides_on_resuming_whether_it_delivers(
    api: Api, tmp_path: Path
) -> None:
    eve = await api.as_user("eve")
    [id] = [user.id for user in await Users(api.server.rows).list() if user.name == "eve"]
    for at, deliver in enumerate((False, True)):
        place = tmp_path / str(at)
        place.mkdir()
        session = await api.new_session(
            repository=str(repository(place / "repo")),
            model=cassette(place / "c.json", [FIX, *[FINISH] * 6]),
            deliver=deliver,
            prompt="Make slugs lower case.",
            limits={"turns": 1},
        )
        run = await over(api, session["id"])
        assert run["outcome"] == "limit_reached"
        shares = f"{V1}/sessions/{session['id']}/shares/{id}"
        path, more = f"{V1}/runs/{run['id']}/resume", {"limits": {"turns": 9}}
        for role in ("candidate", "member"):
            assert (await api.put(shares, json={"role": role})).status_code < 300
            refused = await eve.post(path, json={**more, "deliver": not deliver})
            assert refused.status_code == 403, refused.text
        kept = (await api.get(f"{V1}/runs/{run['id']}")).json()
        assert (kept["outcome"], branches(place)) == ("limit_reached", ["main"])
        assert (await eve.post(path, json={**more, "deliver": deliver})).status_code == 202
        ended = await over(api, session["id"])
        assert (ended["outcome"], ended["delivered"] is not None) == ("done", deliver)
