"""Whether what a run is about to do could be delivered, asked before any model is.

It is cheap: a repository of this machine is not asked, one elsewhere once. Only what is sure is
refused; a forge that is down now may be back when the work is done.
"""

import asyncio

from hutch.app import forges
from hutch.app.forge_tokens import is_forge, token_name
from hutch.domain.errors import Conflict, Denied, HutchError, LimitReached, Unavailable
from hutch.flows.branches import check_push
from hutch.forge.repo_url import RepoUrl
from hutch.settings import Loaded
from hutch.workspace.workspace import Workspace

LOOK_S = 5.0  # for the other side to answer: the work does not wait for what is only a courtesy
NO_PULL = "There is no token for {host}: a branch will be pushed, and no pull request opened. {advice}"
NO_TOKEN = "There is no token for {host}, so nothing that is done could be delivered. {advice}"
NEEDS_TOKEN = "Pushing to {host} needs a token, and none is set. {advice}"
NO_WAY = "Nothing that is done could be delivered: {error} {advice}"


async def must_be_deliverable(
    loaded: Loaded,
    workspace: Workspace,
    *,
    address: str = "",
    user: str = "",
    guarded: bool = False,
    account: bool = False,
    once: bool = False,
) -> str:
    """Refuse to begin what cannot be delivered; a warning, where less than wanted can be. Terms are those of
    `changes.deliver`; `once` is said of a request that is for delivery alone, and has no way without."""
    record = workspace.record
    named = address or record.source
    if record.commit is None or not named:
        return ""
    try:
        remote = await forges.reachable(loaded, named, user=user, guarded=guarded, account=account)
    except Unavailable:  # perhaps it can be, later
        return ""
    if remote.path is not None:
        return ""
    forge = forges.forge_of(loaded, remote, user=user)
    tokenless = forge is None and is_forge(loaded, remote)
    advice = _advice(remote, user, on_server=guarded, token=tokenless, once=once)
    if tokenless and guarded and not account:
        raise Denied(NO_TOKEN.format(host=remote.authority, advice=advice))
    try:
        async with asyncio.timeout(LOOK_S):
            await (forge.check() if forge is not None else check_push(remote, workspace))
    except (TimeoutError, Unavailable, LimitReached):
        return ""
    except HutchError as error:
        if tokenless and isinstance(error, Denied) and remote.transport in ("http", "https"):
            raise Denied(NEEDS_TOKEN.format(host=remote.authority, advice=advice)) from None
        told = NO_WAY.format(error=error, advice=advice).rstrip()
        raise (Denied if isinstance(error, Denied) else Conflict)(told) from None
    return NO_PULL.format(host=remote.authority, advice=advice) if tokenless else ""


def _advice(remote: RepoUrl, user: str, *, on_server: bool, token: bool, once: bool) -> str:
    """What to do about it, where it is to be done."""
    name = token_name(remote)
    own = f" (or {name}_{user}, for you alone)" if user else ""
    who = "Whoever runs the server sets one there" if on_server else "Set one"
    without = "have it done without: --no-pr, or deliver: false" if on_server else "work without: --no-pr"
    set_it = f"{who}: hutch config set-secret {name}{own}." if token else ""
    return " ".join(filter(None, [set_it, "" if once else f"Or {without}."]))
