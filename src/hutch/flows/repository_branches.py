"""The branches of a repository that a new session could start from."""

import asyncio
from dataclasses import replace

from hutch.domain.errors import BadRequest
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.sessions import check_new
from hutch.forge.bare_mirror import BranchList, list_branches
from hutch.forge.forge_and_credential_selection import ForgeAccess
from hutch.forge.repo_url import parse_repo_url

MAX_BRANCHES = 1000


async def branches_of(services: Services, who: Caller, repository: str) -> BranchList:
    """The branches of a repository. Refused as a session with that repository would be."""
    await check_new(services, who, NewSession(repository=repository))
    address = parse_repo_url(repository)
    if address.path is None:
        access = ForgeAccess(who.user.id, guarded=True, account=who.is_owner)
        remote = await services.forges().resolve_url(repository, access)
        found = await list_branches(services.git, remote, MAX_BRANCHES)
    else:
        place = await asyncio.to_thread(services.find_repository, address.path, who.is_owner, False)
        async with services.open_repository(place.root, who.is_owner) as local:
            if local is None:
                raise BadRequest(f"{address} is not a git repository: it has no branches.")
            found = await local.branches(MAX_BRANCHES)
    # A name with a secret in it is not shown, and a session would not record it either.
    clean = services.redactor.redact
    return replace(found, names=tuple(name for name in found.names if clean(name) == name))
