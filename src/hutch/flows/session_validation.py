"""Validates a request for a session before the session is opened.

Requests that no worker could perform, or that this user may not make, are refused at once.
"""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

from hutch.agent.persona import REPOSITORY_FOLDER
from hutch.domain.commit_text import parse_author
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows.personas import find_persona
from hutch.flows.services import Services
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.egress import check_reachable
from hutch.llm.model_name import parse_model_name

PERSONA_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def is_script(model: str) -> bool:
    return bool(model) and parse_model_name(model).provider == "scripted"


async def check_request(services: Services, who: Caller, new: NewSession) -> NewSession:
    """Refuse an invalid request; return it with the resolved address of its repository."""
    check_reachable(new.network, services.networks)
    if not who.is_owner:
        services.network_cap.check(new.network)
    if new.delivery.author:
        parse_author(new.delivery.author)
    is_persona_known = await asyncio.to_thread(_check_persona, services, new)
    if is_script(new.model) and not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
    if new.model or new.prompt:
        await asyncio.to_thread(_check_model, services, new)
    if not new.repository:
        return new
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


def _check_persona(services: Services, new: NewSession) -> bool:
    """Whether the installation has the persona. If it has not, the repository may have it."""
    name = new.persona or services.default_persona
    try:
        find_persona(name, services.personas)
    except NotFound as error:
        if new.repository and PERSONA_NAME.fullmatch(name):
            return False
        raise BadRequest(str(error)) from None
    return True


def _check_model(services: Services, new: NewSession) -> None:
    try:
        services.check_model(new.model, new.persona)
    except NotFound as error:
        raise BadRequest(str(error)) from None


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
