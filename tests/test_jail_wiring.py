"""The wiring: what settings make of a jail."""

from dataclasses import replace
from typing import Any

import pytest

from hutch.app.jails import jail_policy
from hutch.domain.errors import BadRequest
from hutch.flows.interview_questions.bank_directories import bank_directories
from hutch.jail.policy import AGENT, GIB, MIB, TEST, TOOL, Limits
from hutch.settings import Settings


def settings(**jail: Any) -> Settings:
    return Settings.model_validate({"jail": jail})


BANKS = bank_directories(())  # hidden: a candidate could read the solutions


def test_the_defaults_of_the_settings_are_those_of_the_profiles() -> None:
    assert [jail_policy(settings(), profile_name=name) for name in ("agent", "test", "tool")] == [
        replace(profile, hidden=BANKS) for profile in (AGENT, TEST, TOOL)
    ]


def test_tests_get_half_of_the_memory_of_their_jail_by_default() -> None:
    assert Settings().tests.memory_bytes == Settings().jail.memory_bytes // 2


def test_agents_get_what_is_set() -> None:
    changed = jail_policy(settings(memory_bytes="8GiB", processes=900, command_timeout_s=120))
    assert changed.limits == Limits(memory_bytes=8 * GIB, processes=900, command_timeout_s=120)


def test_other_profiles_only_get_tighter() -> None:
    changed = jail_policy(
        settings(memory_bytes="8GiB", processes=100, output_bytes="10MiB"), profile_name="test"
    )
    assert changed == replace(TEST, limits=replace(TEST.limits, processes=100), hidden=BANKS)


def test_tmpfs_is_cut_to_fit_into_little_memory() -> None:
    limits = jail_policy(settings(memory_bytes="512MiB")).limits
    tmpfs = limits.tmp_bytes + limits.shm_bytes + limits.home_bytes
    assert limits.memory_bytes == 512 * MIB
    assert 0.6 * 512 * MIB < tmpfs <= 0.625 * 512 * MIB
    assert limits.tmp_bytes > limits.home_bytes > limits.shm_bytes > 0


def test_hosts_of_the_settings_and_of_the_command_line_are_both_allowed() -> None:
    policy = jail_policy(settings(network="a.example,*.b.example"), network=["a.example", "c.example:8443"])
    assert policy.network == ("a.example", "*.b.example", "c.example:8443")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(BadRequest, match="agent, test, tool"):
        jail_policy(settings(), profile_name="root")
