"""Secrets of the installation, and secrets of single users for their jails.

They can be set, listed by name and deleted. No function returns a value.
"""

import asyncio
import re
from collections.abc import Collection, Iterable

from hutch.domain.errors import BadRequest, Denied, LimitReached, NotFound
from hutch.domain.hutch_secret_names import (
    ENTERPRISE_VARIABLES,
    GITHUB_VARIABLES,
    JAIL_PREFIX,
    MODEL_KEYS,
    SECRETS,
    USES,
    check_known,
    jail_secret,
)
from hutch.domain.jail_variable_and_secret_check import MAX_VALUE_CHARS, refusal_of_variable
from hutch.domain.redaction import MIN_VALUE_CHARS, Redactor
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.llm.model_and_key_names import KEY_NAMES, key_variables
from hutch.store.sessions_with_jail_secrets import sessions_with_secrets
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

_MODEL_VARIABLES = {name: key_variables(provider) for provider, name in KEY_NAMES.items()}
_OTHER_VARIABLES = {"github_token": GITHUB_VARIABLES, "github_enterprise_token": ENTERPRISE_VARIABLES}
MAX_OWN = 50  # secrets of one user
MAX_LINES = 200  # of a value: each line is redacted by itself
_OF_USER = re.compile(r"(.+)_(usr_[0-9a-z]{26})")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret without its value."""

    name: str
    used_for: str
    source: str  # `vault`, or another; empty: it is not set
    stored: bool  # in the vault, even if another source comes first
    user_id: str  # whose own it is; empty: the installation's
    user_name: str
    variable: str  # the variable of jails; empty: jails do not get it
    sessions: tuple[str, ...]  # open ones whose jails get it


async def list_secrets(services: Services) -> list[Secret]:
    """All secrets that are set, also those of users, and those that could be."""
    stored = await asyncio.to_thread(services.secrets.stored_names)
    names = [*SECRETS, *(name for name in stored if name not in SECRETS)]
    return await _describe(services, names, stored, await sessions_with_secrets(services.rows))


async def set_secret(services: Services, name: str, value: str) -> Secret:
    """Store a secret of the installation, or of the user whose id ends its name."""
    check_known(name)
    variable = _variable(_owner_of(name)[0])
    if variable:
        _check_variable(variable, value)
    await _store(services, name, value, is_variable=bool(variable))
    return await _found(services, name)


async def delete_secret(services: Services, name: str) -> None:
    if name not in await asyncio.to_thread(services.secrets.stored_names):
        raise NotFound(f"The secret {name} is not set.")
    await asyncio.to_thread(services.secrets.delete, name)


async def list_own(services: Services, who: Caller) -> list[Secret]:
    """The caller's own secrets for jails."""
    _check_role(who)
    stored = await asyncio.to_thread(services.secrets.stored_names)
    own = [name for name in stored if name.startswith(JAIL_PREFIX) and name.endswith(f"_{who.user.id}")]
    return await _describe(services, own, stored, await sessions_with_secrets(services.rows, who.user.id))


async def set_own(services: Services, who: Caller, variable: str, value: str) -> Secret:
    """Store a secret that the jails of the caller's sessions get when these name it."""
    _check_role(who)
    _check_variable(variable, value)
    name = jail_secret(variable, who.user.id)
    stored = await asyncio.to_thread(services.secrets.stored_names)
    own = [each for each in stored if each.startswith(JAIL_PREFIX) and each.endswith(f"_{who.user.id}")]
    if name not in own and len(own) >= MAX_OWN:
        raise LimitReached(
            f"You have {len(own)} secrets of your own, the maximum. Delete one.", limit="secrets"
        )
    await _store(services, name, value, is_variable=True)
    return await _found(services, name)


async def delete_own(services: Services, who: Caller, variable: str) -> str:
    """Delete a secret of the caller; returns its name in the vault."""
    _check_role(who)
    name = jail_secret(variable, who.user.id)
    if name not in await asyncio.to_thread(services.secrets.stored_names):
        raise NotFound(f"You have no secret {variable} of your own.")
    await asyncio.to_thread(services.secrets.delete, name)
    return name


def _check_variable(variable: str, value: str) -> None:
    if reason := refusal_of_variable(variable, ""):
        raise BadRequest(reason)
    if len(value.strip()) < MIN_VALUE_CHARS:
        raise BadRequest(
            f"The secret {variable} has fewer than {MIN_VALUE_CHARS} characters, so it could not be "
            "redacted. Choose a longer one."
        )


async def _store(services: Services, name: str, value: str, *, is_variable: bool) -> None:
    value = value.removesuffix("\n").removesuffix("\r")
    if "\0" in value:
        raise BadRequest(f"The value of {name} has a NUL character. Encode it first, as base64.")
    if is_variable and len(value) > MAX_VALUE_CHARS:
        raise BadRequest(
            f"The value of {name} has {len(value)} characters; {MAX_VALUE_CHARS} is the maximum."
        )
    if value.count("\n") > MAX_LINES:
        raise BadRequest(f"The value of {name} has more than {MAX_LINES} lines. Encode it first, as base64.")
    await asyncio.to_thread(services.redactor.add_values, [value])  # before anything can show it
    await asyncio.to_thread(services.secrets.set, name, value)


async def _found(services: Services, name: str) -> Secret:
    stored = await asyncio.to_thread(services.secrets.stored_names)
    [found] = await _describe(services, [name], stored, await sessions_with_secrets(services.rows))
    return found


async def _describe(
    services: Services,
    names: Iterable[str],
    stored: Collection[str],
    sessions: Iterable[tuple[str, str, list[str]]],
) -> list[Secret]:
    parts = {name: _owner_of(name) for name in names}
    user_names = await Users(services.rows).names({user for _, user in parts.values() if user})
    users: dict[str, list[str]] = {}
    for session, owner, variables in sessions:
        for variable in variables:
            own = jail_secret(variable, owner)
            users.setdefault(own if own in stored else jail_secret(variable), []).append(session)
    return [
        Secret(
            name,
            _used_for(base, user_names.get(user, user)),
            _source(services, name, stored),
            name in stored,
            user,
            user_names.get(user, ""),
            _variable(base),
            tuple(users.get(name, ())),
        )
        for name, (base, user) in parts.items()
    ]


def _owner_of(name: str) -> tuple[str, str]:
    """The name without the id of its user, and the id."""
    found = _OF_USER.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def _variable(base: str) -> str:
    return base.removeprefix(JAIL_PREFIX).upper() if base.startswith(JAIL_PREFIX) else ""


def _used_for(base: str, user: str) -> str:
    if variable := _variable(base):
        whose = f"sessions of {user}" if user else "sessions of owners"
        return f"the variable {variable} of jails, in {whose} that name it"
    use = USES.get(base, "nothing: Hutch uses no secret of this name")
    if not user:
        return use
    return f"{use}, in runs that {user} starts" if base in MODEL_KEYS else f"{use}, in sessions of {user}"


def _source(services: Services, name: str, stored: Collection[str]) -> str:
    """Where the value comes from; the environment comes first for model keys, and last for GitHub."""
    elsewhere = services.secrets.elsewhere

    def from_environment(variables: Iterable[str]) -> str:
        found = (each for each in variables if elsewhere.environment.get(each, "").strip())
        return next((f"env:{each}" for each in found), "")

    if found := from_environment(_MODEL_VARIABLES.get(name, ())):
        return found
    if name in elsewhere.sources:
        return Redactor().redact(elsewhere.sources[name])
    return "vault" if name in stored else from_environment(_OTHER_VARIABLES.get(name, ()))


def _check_role(who: Caller) -> None:
    if who.user.role not in ("owner", "member"):
        raise Denied(
            f"{who.user.name} is {who.user.role}, and opens no sessions. A secret would not be used."
        )
