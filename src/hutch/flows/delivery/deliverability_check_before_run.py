"""Checks whether the work of a run could be delivered, before any model is called.

The check is cheap: no request for a local repository, one request for a remote one. Only a certain failure
is refused; a forge that is down now may be back when the work is done.
"""

import asyncio

from hutch.domain.errors import Conflict, Denied, HutchError, LimitReached, Unavailable
from hutch.forge.forge_and_credential_selection import ForgeAccess, Forges
from hutch.forge.gh_command import GhMissing
from hutch.forge.github_token_selection import own_token_name, token_name
from hutch.forge.interface import Commits
from hutch.forge.repo_url import RepoUrl
from hutch.workspace.workspace import Workspace

CHECK_TIMEOUT_S = 5.0  # for the forge to answer: this check is optional, and must not delay the work
NO_PULL = "There is no token for {host}: a branch will be pushed, but no pull request opened. {advice}"
NO_TOKEN = "There is no token for {host}, so the work could not be delivered. {advice}"
NEEDS_TOKEN = "Pushing to {host} needs a token, and none is set. {advice}"
REFUSED = "The work could not be delivered: {error} {advice}"


async def check_deliverable(
    forges: Forges,
    workspace: Workspace,
    *,
    address: str = "",
    caller: ForgeAccess,
    once: bool = False,
    timeout_s: float = CHECK_TIMEOUT_S,
) -> str:
    """Refuse work that cannot be delivered. Returns a warning if only a branch can be pushed.

    `address` is the repository as the user named it. `once` marks a request whose only result is a
    delivery, so working without delivery is no option.
    """
    record = workspace.record
    if record.commit is None or not (address or record.source):
        return ""
    try:
        forge = await forges.for_delivery(record.source or address, address, caller)
    except Unavailable:  # it may be available later
        return ""
    without_token = forge.without_token
    advice = _advice(without_token, caller, once=once)
    if without_token and caller.guarded and not caller.account:
        raise Denied(NO_TOKEN.format(host=without_token.authority, advice=advice))
    try:
        async with asyncio.timeout(timeout_s):
            await forge.check(Commits(workspace.git, workspace.snapshots.storage.git_dir), record.commit)
    except GhMissing as error:
        raise Unavailable(REFUSED.format(error=error, advice=advice).rstrip()) from None
    except (TimeoutError, Unavailable, LimitReached):
        return ""
    except HutchError as error:
        if without_token and isinstance(error, Denied) and without_token.transport in ("http", "https"):
            raise Denied(NEEDS_TOKEN.format(host=without_token.authority, advice=advice)) from None
        reason = REFUSED.format(error=error, advice=advice).rstrip()
        raise (Denied if isinstance(error, Denied) else Conflict)(reason) from None
    return NO_PULL.format(host=without_token.authority, advice=advice) if without_token else ""


def _advice(without_token: RepoUrl | None, caller: ForgeAccess, *, once: bool) -> str:
    """How to make delivery possible, or how to work without it."""
    on_server = caller.guarded
    without = "work without delivery: --no-pr" + (", or deliver: false" if on_server else "")
    set_it = ""
    if without_token is not None:
        name = token_name(without_token)
        own = f" (or {own_token_name(without_token, caller.user)}, for you alone)" if caller.user else ""
        who = "The server's operator can set one" if on_server else "Set one"
        set_it = f"{who}: hutch config set-secret {name}{own}."
    return " ".join(filter(None, [set_it, "" if once else f"Or {without}."]))
