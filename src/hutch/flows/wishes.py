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


def is_script(model: str) -> bool:
    return bool(model) and parse_model_name(model).provider == "scripted"


async def check_wish(site: Site, who: Who, wish: Wish) -> str:
    """Refuse what cannot be had; the repository as it is to be used."""
    check_reachable(wish.network, site.networks)
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
    # What is checked is what is used: links are followed here, once.
    real = await asyncio.to_thread(address.path.resolve)
    roots = [await asyncio.to_thread(root.resolve) for root in site.roots]
    if not who.is_owner and not any(real.is_relative_to(root) for root in roots):
        raise Denied(f"{address} is on this machine. Only an owner may work on a repository there.")
    if not await asyncio.to_thread(os.path.isdir, real):
        raise BadRequest(f"There is no directory {address} on the server's machine. Name one, or an address.")
    return wish.repository if who.is_owner else str(real)


def _check_persona(site: Site, name: str) -> None:
    try:
        load_persona(name, known_tools=NAMES, folder=site.personas)
    except NotFound as error:
        raise BadRequest(str(error)) from None


def _check_script(who: Who, model: str) -> None:
    if not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may let one play the model.")
    file = parse_model_name(model).model
    if not os.path.isfile(os.path.expanduser(file)):  # noqa: PTH111, PTH113  these never fail
        raise BadRequest(f"There is no file {file} on the server's machine that could play the model.")
