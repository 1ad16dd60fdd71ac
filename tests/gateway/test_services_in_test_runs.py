"""Services of a repository's settings, in test runs of a session."""

from pathlib import Path

import pytest

from hutch.agent.repository_testing import services_for_tests
from hutch.agent.repository_testing.services_for_tests import RECORDED_LOG_BYTES
from hutch.domain.ids import SessionId
from tests.gateway.api_server import V1, serving
from tests.gateway.test_jail_variables import run, store

pytestmark = pytest.mark.anyio

SERVER = "exec python3 -m http.server 8765 --bind 127.0.0.1"
SETTINGS = """
[environment]
services = [{ name = "web", command = "exec python3 -m http.server 8765 --bind 127.0.0.1", port = 8765 }]
"""
TESTS = """
import unittest, urllib.request
class T(unittest.TestCase):
    def test_service(self):
        urllib.request.urlopen("http://127.0.0.1:8765/").read()
"""


async def test_the_service_of_a_repository_is_up_in_every_test_run(tmp_path: Path) -> None:
    files = {".hutch/config.toml": SETTINGS, "test_it.py": TESTS}
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="x", files=files)
        first = await api.post(f"{V1}/sessions/{session_id}/tests", json={"wait_s": 60})
        assert first.json()["state"] == "passed", first.text
        log = await run(api, session_id, "cat /tmp/hutch-services/web.log")
        assert "GET / HTTP" in log["stdout"]
        await run(api, session_id, "pkill -f 'http.server 8765'")
        again = await api.post(f"{V1}/sessions/{session_id}/tests", json={"wait_s": 60})
        assert again.json()["state"] == "passed", again.text
        types = [event["type"] for event in await api.events(session_id)]
        assert types.count("service.started") == types.count("service.answered") == 2


async def test_the_log_of_a_service_can_be_read_after_its_jail_is_closed(tmp_path: Path) -> None:
    store_name, secret = "jail_web_key", "Zq7-KvRwtHnmxuE+93kxl/Pmw0T"
    command = f"head -c 100000 /dev/zero | tr '\\\\0' x; echo key $WEB_KEY; {SERVER}"
    settings = f'[environment]\nservices = [{{ name = "web", command = "{command}", port = 8765 }}]\n'
    files = {".hutch/config.toml": settings, "test_it.py": TESTS}
    async with serving(tmp_path) as api:
        store(api, store_name, secret)
        session_id = await api.ready_session(purpose="x", files=files, secrets=["WEB_KEY"])
        ran = await api.post(f"{V1}/sessions/{session_id}/tests", json={"wait_s": 60})
        assert ran.json()["state"] == "passed", ran.text
        await api.server.host.close(SessionId(session_id), reason="test")
        stopped = [e for e in await api.events(session_id) if e["type"] == "service.stopped"]
        assert [each["service"] for each in stopped] == ["web"]
        output = stopped[0]["output"]
        assert "GET / HTTP" in output and "key " in output and secret not in output
        assert len(output) <= RECORDED_LOG_BYTES


async def test_a_log_that_the_jail_replaced_does_not_hinder_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_for_tests, "LOG_TIMEOUT_S", 0.5)
    files = {".hutch/config.toml": SETTINGS, "test_it.py": TESTS}
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="x", files=files)
        await api.post(f"{V1}/sessions/{session_id}/tests", json={"wait_s": 60})
        log = "/tmp/hutch-services/web.log"
        await run(api, session_id, f"rm {log}; mkfifo {log}")
        await api.server.host.close(SessionId(session_id), reason="test")
        kinds = [event["type"] for event in await api.events(session_id)]
        assert kinds.index("service.stopped") < kinds.index("session.parked")


async def test_a_service_that_fails_is_in_the_result_of_the_tests(tmp_path: Path) -> None:
    settings = '[environment]\nservices = [{ name = "db", command = "echo no data; exit 3", port = 1 }]\n'
    files = {".hutch/config.toml": settings, "test_it.py": TESTS}
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="x", files=files)
        ran = await api.post(f"{V1}/sessions/{session_id}/tests", json={"wait_s": 60})
        assert "The service db, which the tests need, is not ready" in ran.text
        failed = [e for e in await api.events(session_id) if e["type"] == "service.failed"]
        assert [(e["reason"], e["output"]) for e in failed] == [("it ended with exit code 3", "no data")]


async def test_settings_that_the_agent_proposes_have_no_effect_in_its_session(tmp_path: Path) -> None:
    proposed = (
        '[environment]\nsetup = ["touch /workspace/ran"]\nvariables = { PROPOSED = "1" }\n'
        'services = [{ name = "web", command = "touch /workspace/served; exit 0" }]\n'
        '[jail]\ntoolchains = ["/etc"]\n'
    )
    async with serving(tmp_path, environment={"auto": True}) as api:
        session_id = await api.ready_session(purpose="x", files={"test_it.py": "import unittest\n"})
        url = f"{V1}/sessions/{session_id}"
        written = await api.put(f"{url}/files/.hutch/config.toml", content=proposed.encode())
        assert written.status_code == 201, written.text
        await api.post(f"{url}/tests", json={"wait_s": 60})
        ran = await run(api, session_id, 'ls; echo "${PROPOSED-unset}"')
        assert ran["stdout"] == "test_it.py\nunset\n"
        types = {event["type"] for event in await api.events(session_id)}
        assert not {each for each in types if each.startswith(("service.", "environment."))}
