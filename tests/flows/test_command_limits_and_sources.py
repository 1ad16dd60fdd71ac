"""The limits in force, and their sources."""

from hutch.domain.session_jail_resource_limits import Resources
from hutch.flows.command_limits_and_sources import NAMES, EffectiveLimit, LimitSources, capped_resources

UNSET = dict.fromkeys(NAMES)
JAIL = {**UNSET, "memory_bytes": 100, "processes": 10, "workspace_growth_bytes": 3 * 1024**3}


def sources(**more: object) -> LimitSources:
    given = {"jail": JAIL, "members": UNSET, "is_set": lambda name: name == "processes", "repository": {}}
    return LimitSources(**{**given, **more})  # type: ignore[arg-type]


def found(limits: tuple[EffectiveLimit, ...], name: str) -> tuple[object, str]:
    return next((each.value, each.source) for each in limits if each.name == name)


def test_a_session_may_ask_for_more_or_less_than_the_settings() -> None:
    limits = sources().effective(Resources(memory_bytes=500, cpus=0.5), is_capped=False)
    assert found(limits, "memory_bytes") == (500, "session")
    assert found(limits, "cpus") == (0.5, "session")
    assert found(limits, "processes") == (10, "jail.processes")
    assert found(limits, "cpu_time_s") == (None, "default")


def test_the_largest_file_may_be_as_large_as_the_workspace_may_grow() -> None:
    assert found(sources().effective(Resources(), is_capped=False), "file_bytes") == (3 * 1024**3, "default")
    less = Resources(workspace_growth_bytes=1)
    assert found(sources().effective(less, is_capped=False), "file_bytes") == (2 * 1024**3, "default")


def test_a_repository_lowers_what_was_asked_for() -> None:
    limits = sources(repository={"memory_bytes": 50, "cpu_time_s": 9}).effective(
        Resources(memory_bytes=70), is_capped=False
    )
    assert found(limits, "memory_bytes") == (50, "repository")
    assert found(limits, "cpu_time_s") == (9, "repository")


def test_a_member_has_no_more_than_the_cap_or_every_jail_has() -> None:
    capped = sources(members={**UNSET, "memory_bytes": 200, "cpus": 2.0})
    limits = capped.effective(Resources(memory_bytes=500, processes=99), is_capped=True)
    assert found(limits, "memory_bytes") == (200, "members.memory_bytes")
    assert found(limits, "processes") == (10, "jail.processes")
    assert found(limits, "cpus") == (2.0, "members.cpus")
    free = capped.effective(Resources(memory_bytes=500), is_capped=False)
    assert found(free, "memory_bytes") == (500, "session")
    assert capped_resources(JAIL, {**UNSET, "memory_bytes": 200}).memory_bytes == 200
