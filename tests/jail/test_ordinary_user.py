"""All tests of jails and shells once more, as a user other than root."""

import os

import pytest

from tests.ordinary_user import pytest_as

UID = 54399
# A few together: to load Hutch and pytest anew takes longer than most of them.
SUITES = (
    (
        "contracts/test_jail_contract.py",
        "jail/test_seccomp.py",
        "jail/test_jail_processes.py",
        "jail/test_oom_scores.py",
    ),
    (
        "jail/test_warden_control.py",
        "jail/test_closed_bubblewrap_weaknesses.py",
        "jail/test_warden.py",
        "jail/test_bubblewrap_launch.py",
        "jail/test_jail_directory_and_namespaces.py",
        "jail/test_unlinked_files.py",
    ),
    # tests/attacks tries the limits as an ordinary user too, and `make fresh` runs these once more.
    pytest.param(
        (
            "jail/test_limits.py",
            "jail/test_hidden_resource_use.py",
            "jail/test_running_jail_limit_inspection.py",
            "jail/test_resource_usage_without_cgroup.py",
            "jail/test_limit_watcher.py",
            "jail/test_open_jail_limit_changes.py",
            "jail/test_command_memory_limit.py",
        ),
        marks=pytest.mark.soak,
    ),
    # Commands inside a shell do not depend on the user; the contract tests the rest.
    pytest.param(("jail/test_shell.py", "jail/test_background_commands.py"), marks=pytest.mark.soak),
)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
@pytest.mark.parametrize("suites", SUITES, ids=lambda suites: suites[0])
def test_as_an_ordinary_user(suites: tuple[str, ...]) -> None:
    pytest_as(UID, *suites, marks="not soak and not serial")


@pytest.mark.serial
@pytest.mark.skipif(os.geteuid() != 0, reason="is an ordinary user already")
def test_as_an_ordinary_user_with_nothing_beside_it() -> None:
    pytest_as(
        UID, "jail/test_warden.py", "jail/test_limits.py", "jail/test_command_cpu_time.py", marks="serial"
    )
