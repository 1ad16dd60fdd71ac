"""Validates a request for a session before the session is opened.

Requests that no worker could perform, or that this user may not make, are refused at once.
"""

import asyncio
import os
import re
from dataclasses import replace

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
    if new.persona:
        await asyncio.to_thread(_check_persona, services, new)
    if is_script(new.model):
        await asyncio.to_thread(_check_script, who, new.model)
    elif new.model or new.prompt:
        await asyncio.to_thread(services.check_model, new.model, new.persona)
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
    return replace(new, repository=str(found.root), delivery=replace(new.delivery, start_in=found.start_in))


def _check_persona(services: Services, new: NewSession) -> None:
    try:
        find_persona(new.persona, services.personas)
    except NotFound as error:
        if new.repository and PERSONA_NAME.fullmatch(new.persona):
            return  # the repository may have it; that is known after the clone
        raise BadRequest(str(error)) from None


def _check_script(who: Caller, model: str) -> None:
    if not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
    file = parse_model_name(model).model
    if not os.path.isfile(file):  # noqa: PTH113  it never fails
        raise BadRequest(f"There is no file {file} on the server's machine to use as the model.")
