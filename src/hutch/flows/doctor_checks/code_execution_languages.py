"""Checks the languages in which given code can be run, for `hutch doctor`."""

from collections.abc import Sequence

from hutch.domain.given_code_test_case import LANGUAGE_NAMES
from hutch.flows.code_execution.language_toolchains import find_language_toolchains
from hutch.jail.machine_checks import Check


def check_languages(named: Sequence[str]) -> Check:
    """Check the toolchains of interviews and `POST /execute`; none is needed otherwise. Blocks the thread."""
    found = find_language_toolchains(named)
    there = ", ".join(f"{LANGUAGE_NAMES[each]} ({tool.version})" for each, tool in found.found.items())
    text = f"code of interviews can be run in {there or 'no language'}"
    if not found.missing:
        return Check("languages", "ok", text)
    reasons = "; ".join(f"{LANGUAGE_NAMES[each.language]}: {each.found}" for each in found.missing)
    fixes = dict.fromkeys(each.fix for each in found.missing)
    return Check("languages", "warn", f"{text}. Missing: {reasons}", " ".join(fixes))
