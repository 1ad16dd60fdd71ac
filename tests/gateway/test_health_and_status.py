"""Health checks for everyone, and the status of the server for owners."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from hutch.gateway.health_and_status import Health, host_of
from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio


async def test_health_checks_need_no_authentication(api: Api) -> None:
    stranger = await api.as_nobody()
    alive, ready = await stranger.get("/healthz"), await stranger.get("/readyz")
    assert (alive.status_code, alive.text) == (200, "ok\n")
    assert (ready.status_code, ready.text) == (200, "ready\n")


async def test_only_owners_see_the_status(api: Api) -> None:
    await api.ready_session(purpose="to be counted")
    result = (await api.get(f"{V1}/status")).json()
    assert (result["sessions"], result["jails"], result["problems"]) == ({"idle": 1}, 1, {})
    assert result["runs"] == {"ended": 1}
    assert result["memory_bytes"] > 0 and result["database_bytes"] > 0
    member = await api.as_user("mem")
    assert (await member.get(f"{V1}/status")).status_code == 403
    assert (await (await api.as_nobody()).get(f"{V1}/status")).status_code == 401


async def test_a_check_leaves_nothing_behind_and_is_cached(api: Api) -> None:
    health = Health(api.server)
    assert await asyncio.gather(*(health.problems() for _ in range(20))) == [{}] * 20
    rows = await api.server.rows.fetch(
        lambda db: db.scalar(text("SELECT count(*) FROM answered_requests WHERE key = 'readyz'"))
    )
    assert rows == 0
    checked = {name: kept.until for name, kept in health._cache.items()}
    await health.problems()
    assert {name: kept.until for name, kept in health._cache.items()} == checked


async def test_failed_checks_are_named_to_all_and_explained_to_owners(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.server.rows.change(
            lambda db: db.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        )
        worker = host_of(api.server).worker
        assert worker._claiming is not None
        worker.closing = True
        worker.notify()
        await worker._claiming  # nobody looks at the queue any more
        worker.heartbeat_at -= 1000
        answered = await (await api.as_nobody()).get("/readyz")
        assert answered.status_code == 503
        assert answered.headers["content-type"] == "application/problem+json"
        problem = answered.json()
        assert (problem["code"], problem["missing"]) == ("unavailable", ["database", "worker"])
        assert "0001" not in str({**answered.json(), "trace_id": ""})
        result = (await api.get(f"{V1}/status")).json()["problems"]
        assert "0001" in result["database"]


async def test_a_server_that_is_about_to_end_is_not_ready(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.server.closing = True
        answered = await api.get("/readyz")
        assert (answered.status_code, answered.json()["missing"]) == (503, ["server"])
        assert (await api.get("/healthz")).status_code == 200


async def test_a_machine_without_bubblewrap_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        monkeypatch.setenv("PATH", str(tmp_path))
        answered = await api.get("/readyz")
        assert (answered.status_code, answered.json()["missing"]) == (503, ["jail"])
