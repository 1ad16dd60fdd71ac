"""Validates a request for a session before the session is opened.

Requests that no worker could perform, or that this user may not make, are refused at once.
"""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

from hutch.agent.persona import REPOSITORY_FOLDER
from hutch.agent.tools.model_written_paths import escape_surrogates
from hutch.domain.commit_text import parse_author
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.generation_options import NO_GENERATION
from hutch.domain.hutch_secret_names import jail_secret
from hutch.domain.jail_variable_and_secret_check import checked_secret_names, checked_variables
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.session import NewSession, Session
from hutch.domain.session_jail_resource_limits import check_resources
from hutch.domain.user import Caller
from hutch.domain.user_given_starter_files import StarterFiles, check_starter_files
from hutch.flows.flow_services import Services
from hutch.flows.personas import find_persona
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.egress import check_reachable
from hutch.jail.limits.limit_enforcement import can_limit_cpus
from hutch.llm.model_and_key_names import parse_model_name

PERSONA_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def is_script(model: str) -> bool:
    """True if a model is a script of this machine; the demo is a part of Hutch."""
    return bool(model) and model != "scripted:demo" and parse_model_name(model).provider == "scripted"


async def check_request(services: Services, who: Caller, new: NewSession) -> NewSession:
    """Refuse an invalid request; return it with the resolved address of its repository."""
    await check_limits(services, new, capped=not who.is_owner)
    await asyncio.to_thread(_check_variables, services, who, new)
    if new.delivery.author:
        parse_author(new.delivery.author)
    checked = await _check_rest(services, who, new)
    limit = await services.policies.new_network_limit((who.user.role,), checked.repository)
    limit.check(new.network)
    if new.delivery.tests:
        await services.policies.check_new_tests((who.user.role,), checked.repository, new.delivery.tests)
    return checked


async def _check_rest(services: Services, who: Caller, new: NewSession) -> NewSession:
    is_persona_known = await asyncio.to_thread(_check_persona, services, new)
    if is_script(new.model) and not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
    if new.model or new.prompt or new.generation != NO_GENERATION:
        await asyncio.to_thread(_check_model, services, who, new)
    await asyncio.to_thread(_check_tries, services, who, new)
    if new.files:
        return replace(new, files=_check_files(new))
    if not new.repository:
        return new
    if replace_surrogates(new.repository) != new.repository:
        raise BadRequest(
            f"The path '{escape_surrogates(new.repository)}' is not valid UTF-8, and a session cannot record "
            "it. Rename the directory, or work in it with `hutch shell`."
        )
    if new.delivery.in_place:
        return await _check_in_place(services, new)
    address = parse_repo_url(new.repository)
    if address.credentials is not None:
        raise BadRequest(
            f"The address of {address} contains a password, which everyone who sees the session would see. "
            "Omit it, or give an address for ssh."
        )
    if address.path is None:
        await services.reach.check(address)
        return new
    # Links are followed only here; later uses of the path follow none.
    found = await asyncio.to_thread(services.find_repository, address.path, who.is_owner, new.plain_directory)
    if new.revision or not is_persona_known:
        await _check_commit(services, who, new, found.root, checks_persona=not is_persona_known)
    return replace(new, repository=str(found.root), delivery=replace(new.delivery, start_in=found.start_in))


async def _check_in_place(services: Services, new: NewSession) -> NewSession:
    """A session that works in a directory itself, which the program that opens it has checked."""
    if not services.opens_in_place:
        raise Denied("This program opens no directory in place.")
    if new.deliver or new.revision:
        raise BadRequest("A session in a directory itself delivers nothing. Omit deliver and revision.")
    return replace(new, repository=str(await asyncio.to_thread(Path(new.repository).resolve)))


async def check_limits(services: Services, new: NewSession, *, capped: bool) -> None:
    """Refuse hosts and limits that no jail could have, and those that members may not ask for."""
    check_reachable(new.network, services.networks)
    check_resources(new.resources)
    if capped:
        services.caps.check(new.network, new.resources, new.limits)
    if new.resources.cpus is not None and not await asyncio.to_thread(can_limit_cpus):
        raise BadRequest(
            "This machine gives jails no cgroup with the cpu controller, so cpus has no effect. Omit it, or "
            "limit cpu_time_s instead."
        )


def _check_variables(services: Services, who: Caller, new: NewSession) -> None:
    """Refuse variables that no jail can have, values that look like secrets, and secrets of others."""
    found = dict(new.variables)
    checked_variables(found)
    for name, value in found.items():
        if services.redactor.redact(f"{name}={value}") != f"{name}={value}":
            raise BadRequest(
                f"The value of variable {name} looks like a secret, and everyone who sees the session would "
                f"see it. Store it with `hutch config set-secret {jail_secret(name)}`, and give the session "
                f"its name: --secret {name}"
            )
    if new.secrets and who.credential_id == "github":
        raise Denied("A request from a forge gives no secrets to a session.")
    services.jail_secrets.check(checked_secret_names(new.secrets, found), who.user.id, is_owner=who.is_owner)


def _check_files(new: NewSession) -> StarterFiles:
    """The starter files of a request; they replace the repository, so nothing can be delivered to it."""
    if new.repository or new.revision or new.plain_directory:
        raise BadRequest(
            "A session starts from a repository or from given files, not from both. Omit the files, or "
            "repository, revision and plain_directory."
        )
    if new.deliver:
        raise BadRequest(
            "A session from given files has no repository to deliver to. Omit deliver; the result can be "
            "read with `hutch files`, `hutch diff` and `hutch export`, or over the API."
        )
    return check_starter_files(new.files.items())


def _check_persona(services: Services, new: NewSession) -> bool:
    """True if the installation has the persona. If it has not, the repository may have it."""
    name = new.persona or services.default_persona
    try:
        find_persona(name, services.personas)
    except NotFound as error:
        if new.repository and PERSONA_NAME.fullmatch(name):
            return False
        raise BadRequest(str(error)) from None
    return True


def _check_model(services: Services, who: Caller, new: NewSession) -> None:
    user_id = "" if who.credential_id == "github" else who.user.id  # a forge's requests use no user's keys
    try:
        services.check_model(new.model, new.persona, user_id, new.generation)
    except NotFound as error:
        raise BadRequest(str(error)) from None


def _check_tries(services: Services, who: Caller, new: NewSession) -> None:
    """Refuse tries whose models or personas could not be used."""
    tries = new.delivery.tries
    if not tries.count:
        return
    for name in (*tries.personas, *filter(None, [tries.reviewer])):
        try:
            find_persona(name, services.personas)
        except NotFound as error:
            raise BadRequest(str(error)) from None
    for model in tries.models:
        if is_script(model) and not who.is_owner:
            raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
        _check_model(services, who, replace(new, model=model))


async def _check_commit(
    services: Services, who: Caller, new: NewSession, root: Path, *, checks_persona: bool
) -> None:
    """Refuse a revision or a persona that a repository of this machine does not have. For other repositories
    this is known after the clone."""
    async with services.open_repository(root, who.is_owner) as local:
        if local is None:
            return
        try:
            commit = (await local.head(new.revision or None)).commit
        except NotFound as error:
            raise BadRequest(str(error)) from None
        if not checks_persona or new.delivery.uncommitted:
            return
        name = new.persona or services.default_persona
        if await local.read(f"{REPOSITORY_FOLDER}/{name}.md", commit) is None:
            await asyncio.to_thread(_check_persona, services, replace(new, repository=""))


async def fork_network(services: Services, who: Caller, session: Session) -> tuple[str, ...]:
    """Those hosts of a session that the caller's fork of it may reach."""
    hosts = session.network if who.is_owner else services.caps.network.covered(session.network)
    limit = await services.policies.new_network_limit((who.user.role,), session.repository)
    return limit.covered(hosts)
