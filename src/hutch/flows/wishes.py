"""What somebody wants of a new session, checked before it comes to be.

What no worker could do, or what this user may not have, is refused at once.
"""

import asyncio
import os
from dataclasses import dataclass

from hutch.agent.persona import load_persona
from hutch.agent.tools.all import NAMES
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.user import Who
from hutch.flows.site import Site
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.egress import check_reachable
from hutch.llm.names import parse_model_name


@dataclass(frozen=True, slots=True)
class Wish:
    """The part of it that may not be there."""

    repository: str = ""
    persona: str = ""
    model: str = ""
    network: tuple[str, ...] = ()
    plain_directory: bool = False  # the repository may be a directory without git


def is_script(model: str) -> bool:
    return bool(model) and parse_model_name(model).provider == "scripted"


async def check_wish(site: Site, who: Who, wish: Wish) -> str:
    """Refuse what cannot be had; the repository as it is to be used."""
    check_reachable(wish.network, site.networks)
    if not who.is_owner:
        site.network_cap.check(wish.network)
    if wish.persona and not wish.repository:  # which may have one of its own
        await asyncio.to_thread(_check_persona, site, wish.persona)
    if is_script(wish.model):
        await asyncio.to_thread(_check_script, who, wish.model)
    if not wish.repository:
        return ""
    address = parse_repo_url(wish.repository)
    if address.credentials is not None:
        raise BadRequest(
            f"The address of {address} has a password in it, and everybody who sees the session would see "
            "that. Leave it out, or give an address for ssh."
        )
    if address.path is None:
        await site.reach.check(address)
        return wish.repository
    # Links are followed here, once; whoever uses the path later follows none.
    found = await asyncio.to_thread(site.find_repository, address.path, who.is_owner, wish.plain_directory)
    return str(found)


def _check_persona(site: Site, name: str) -> None:
    try:
        load_persona(name, known_tools=NAMES, folder=site.personas)
    except NotFound as error:
        raise BadRequest(str(error)) from None


def _check_script(who: Who, model: str) -> None:
    if not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may let one play the model.")
    file = parse_model_name(model).model
    if not os.path.isfile(file):  # noqa: PTH113  it never fails
        raise BadRequest(f"There is no file {file} on the server's machine that could play the model.")
