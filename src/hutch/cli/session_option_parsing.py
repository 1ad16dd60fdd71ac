"""Reads options of sessions that are written as NAME=VALUE: `memory_bytes=1GiB`, `effort=high`."""

import re
from collections.abc import Sequence
from typing import Any

from hutch.domain.errors import BadRequest
from hutch.domain.generation_options import MAX_REPLY_TOKENS, MAX_TEMPERATURE
from hutch.domain.jail_variable_and_secret_check import checked_variables
from hutch.domain.one_line_text import echo
from hutch.domain.session_jail_resource_limits import FRACTIONAL, RANGES, Resources, check_resources

RUN_LIMITS = ("turns", "tokens", "cost_usd", "timeout_s")
GENERATION = ("temperature", "max_reply_tokens", "effort")
EFFORTS = ("low", "medium", "high")
DEFAULT = "default"  # the value that unsets an option
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s?([kmgt]?)(i?b)?", re.IGNORECASE)


def parse_resources(texts: Sequence[str] | None) -> Resources:
    """The resources of a new session, from `--limit`."""
    values: dict[str, Any] = {name: parse_resource(name, value) for name, value in split_pairs(texts or ())}
    resources = Resources(**values)
    check_resources(resources)
    return resources


def parse_variables(texts: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """The variables of a jail, from `--env NAME=VALUE`. A value may be empty and keeps its spaces."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise BadRequest(
                f"--env {echo(text, 80)} has no value. Write it like NAME=value; the environment of this "
                "command is not passed on."
            )
        found[name] = value
    return checked_variables(found)


def split_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise BadRequest(f"{echo(text, 80)} is no NAME=VALUE. Write it like memory_bytes=1GiB.")
        pairs.append((name.strip().replace("-", "_"), value.strip()))
    return pairs


def parse_resource(name: str, value: str) -> int | float | None:
    """The value of a resource; None for `default`."""
    if name not in RANGES:
        raise BadRequest(f"There is no limit {echo(name, 60)}. Choose one of: {', '.join(RANGES)}.")
    if value == DEFAULT:
        return None
    if name.endswith("_bytes"):
        found = SIZE.fullmatch(value)
        if not found:
            raise BadRequest(f"{name} is {echo(value, 40)}; give a size such as 512MiB.")
        return int(float(found[1]) * UNITS[found[2].lower()])
    return _number(name, value, whole=name not in FRACTIONAL)


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """The body of a request that changes a session: resources, limits of its runs, generation options."""
    body: dict[str, Any] = {}
    for name, value in split_pairs(texts):
        if name in RUN_LIMITS:
            whole = name in ("turns", "tokens")
            number = None if value == DEFAULT else _number(name, value, whole=whole)
            body.setdefault("limits", {})[name] = number
        elif name in GENERATION:
            body.setdefault("generation", {})[name] = parse_generation(name, value)
        elif name in ("persona", "model"):
            body[name] = "" if value == DEFAULT else value
        elif name == "network":
            body[name] = [] if value in (DEFAULT, "none") else [each for each in value.split(",") if each]
        elif name in RANGES:
            body.setdefault("resources", {})[name] = parse_resource(name, value)
        else:
            known = ("persona", "model", "network", *GENERATION, *RUN_LIMITS, *RANGES)
            raise BadRequest(f"There is no option {echo(name, 60)}. Choose one of: {', '.join(known)}.")
    return body


def parse_generation(name: str, value: str) -> int | float | str | None:
    """The value of a generation option; None for `default`."""
    if value == DEFAULT:
        return None
    if name == "effort":
        if value not in EFFORTS:
            raise BadRequest(f"The effort is {echo(value, 40)}; choose one of {', '.join(EFFORTS)}.")
        return value
    number = _number(name, value, whole=name == "max_reply_tokens")
    lowest, highest = (0, MAX_TEMPERATURE) if name == "temperature" else (1, MAX_REPLY_TOKENS)
    if not lowest <= number <= highest:
        raise BadRequest(f"{name} is {number:g}; give a value from {lowest:g} to {highest:g}.")
    return number


def _number(name: str, value: str, *, whole: bool) -> int | float:
    try:
        return int(value) if whole else float(value)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise BadRequest(f"{name} is {echo(value, 40)}; give {kind}.") from None
