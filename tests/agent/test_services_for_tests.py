"""Services that tests need: started, awaited, restarted, and bounded."""

from pathlib import Path

import pytest

from hutch import settings
from hutch.agent.repository_testing.services_for_tests import LOGS, TestServices
from hutch.app.jails import jail_policy, open_jail
from hutch.domain.dependency_plan import Service
from hutch.domain.errors import Unavailable
from hutch.domain.events import Event, ServiceAnswered, ServiceFailed, ServiceStarted
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed

pytestmark = pytest.mark.anyio

SERVER = "echo up; exec python3 -m http.server 8765 --bind 127.0.0.1"


def policy(tmp_path: Path) -> Policy:
    return jail_policy(settings.load(environ={"HUTCH_HOME": str(tmp_path / "home")}).settings)


def directory(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir(exist_ok=True)
    return tmp_path / "work"


async def reachable(jail: Jailed, port: int = 8765) -> bool:
    ran = await jail.run(["python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"])
    return ran.exit_code == 0


async def test_a_service_is_up_when_tests_begin_and_started_once(tmp_path: Path) -> None:
    events: list[Event] = []
    services = TestServices([Service("web", SERVER, port=8765)], events.append)
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail)
        assert await reachable(jail)
        await services.ensure(jail)
        log = await jail.run(["cat", f"{LOGS}/web.log"])
        assert log.stdout.startswith(b"up\n")
    assert [type(event) for event in events] == [ServiceStarted, ServiceAnswered]


async def test_a_service_that_died_and_one_of_a_new_jail_are_started_again(tmp_path: Path) -> None:
    events: list[Event] = []
    services = TestServices([Service("web", SERVER, port=8765)], events.append)
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail)
        await jail.clear()
        await services.ensure(jail)
        assert await reachable(jail)
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail)
        assert await reachable(jail)
    assert [type(event) for event in events] == [ServiceStarted, ServiceAnswered] * 3


async def test_a_probe_decides_when_there_is_one(tmp_path: Path) -> None:
    command = "sleep 0.3; touch /tmp/ready; sleep 1000"
    services = TestServices([Service("slow", command, probe="test -e /tmp/ready")])
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail)
        assert (await jail.run(["test", "-e", "/tmp/ready"])).exit_code == 0


async def test_a_command_that_goes_to_the_background_is_awaited(tmp_path: Path) -> None:
    services = TestServices([Service("daemon", f"({SERVER}) & sleep 0.1", port=8765)])
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail)
        assert await reachable(jail)


async def test_a_service_that_ends_is_reported_with_its_output(tmp_path: Path) -> None:
    events: list[Event] = []
    command = "printf '\\033[31mno data directory'; exit 3"
    services = TestServices([Service("db", command, port=8765)], events.append)
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        with pytest.raises(Unavailable, match="exit code 3") as caught:
            await services.ensure(jail)
    assert "no data directory" in str(caught.value)
    assert "\033" not in str(caught.value)
    assert events[-1] == ServiceFailed(
        service="db", reason="it ended with exit code 3", output="no data directory"
    )


async def test_a_service_that_never_listens_is_given_up_and_killed(tmp_path: Path) -> None:
    services = TestServices([Service("db", "exec sleep 4321", port=8765)])
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        with pytest.raises(Unavailable, match="port 8765 is closed"):
            await services.ensure(jail, timeout_s=0.5)
        assert (await jail.run(["pgrep", "-f", "^sleep 4321"])).exit_code == 1


async def test_a_log_does_not_fill_the_jail(tmp_path: Path) -> None:
    command = "head -c 50000000 /dev/zero; touch /tmp/ready; sleep 1000"
    services = TestServices([Service("loud", command, probe="test -e /tmp/ready")])
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail)
        size = await jail.run(["stat", "-c", "%s", f"{LOGS}/loud.log"])
        assert int(size.stdout) == 8 * 1024 * 1024


async def test_a_service_that_runs_already_is_used(tmp_path: Path) -> None:
    events: list[Event] = []
    services = TestServices([Service("web", "exit 1", port=8765)], events.append)
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await TestServices([Service("mine", SERVER, port=8765)]).ensure(jail)
        await services.ensure(jail)
        await services.ensure(jail)
    assert events == [ServiceAnswered(service="web", found=True)]


async def test_a_cancelled_run_does_not_wait_for_services(tmp_path: Path) -> None:
    services = TestServices([Service("db", "exec sleep 1000", port=8765)])
    async with open_jail(directory(tmp_path), policy(tmp_path)) as jail:
        await services.ensure(jail, is_stopped=lambda: True)
