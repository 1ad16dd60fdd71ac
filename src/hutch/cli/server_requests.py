"""Helpers for commands that use the server: send requests, report errors, find a session."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any, ParamSpec

import typer

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound
from hutch.domain.ids import MIN_PART_CHARS, ambiguous_id, matches_id

Json = Annotated[bool, typer.Option("--json", help="Print JSON, also for errors.")]
Local = Annotated[bool, typer.Option("--local", help="Use this machine, also after a login to a server.")]
SessionName = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="A session's id, a unique prefix or suffix of it, or 'last'."),
]
Parameters = ParamSpec("Parameters")
WHOLE = re.compile(r"ses_[0-9a-z]{26}")
SHORT_CHARS = 6
PAGE, MAX_PAGES = 200, 50
NONE_YET = "There are no sessions yet. Create one: hutch sessions new"


def ask(work: Callable[[Client], Awaitable[int | None]], *, as_json: bool = False) -> int:
    """Call `work` with a client; with `as_json`, print errors as JSON on standard error."""

    async def run() -> int | None:
        async with Client() as client:
            return await work(client)

    try:
        return asyncio.run(run()) or exit_codes.OK
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exit_codes.error_json(error)}\n")
        return exit_codes.code_of(error)


def report_errors(command: Callable[Parameters, int | None]) -> Callable[Parameters, int | None]:
    """Print a command's errors as JSON if its option `as_json` is set; for commands without a server."""

    @wraps(command)
    def wrapper(*args: Parameters.args, **options: Parameters.kwargs) -> int | None:
        try:
            return command(*args, **options)
        except HutchError as error:
            if not options["as_json"]:
                raise
            sys.stderr.write(f"{exit_codes.error_json(error)}\n")
            return exit_codes.code_of(error)

    return wrapper


async def find_session(client: Client, name: str) -> dict[str, Any]:
    """Find a session by its id, a unique prefix or suffix of it, or `last`."""
    if name == "last":
        found = (await client.get("/sessions", limit=1))["items"]
        if not found:
            raise NotFound(NONE_YET)
        return dict(found[0])
    if WHOLE.fullmatch(name):
        return dict(await client.get(f"/sessions/{name}"))
    if len(name) < MIN_PART_CHARS or not re.fullmatch(r"(ses_)?[0-9a-z]{1,26}", name):
        raise BadRequest(
            f"{name[:80]!r} is not a session. Use its id, a prefix or suffix of at least {MIN_PART_CHARS} "
            "characters, or 'last'."
        )
    matching = [each async for each in every_session(client) if matches_id(each["id"], name)]
    if not matching:
        raise NotFound(f"There is no session {name[:80]!r}. `hutch sessions list` lists the sessions.")
    if len(matching) > 1:
        raise ambiguous_id([each["id"] for each in matching], name, "sessions")
    return matching[0]


def every_session(client: Client, **which: Any) -> AsyncIterator[dict[str, Any]]:
    """All sessions that the user may see, newest first."""
    return every(client, "/sessions", **which)


async def helpers_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The helpers of a session, with theirs; the oldest of each first."""
    found: list[dict[str, Any]] = []
    children = [each async for each in every_session(client, parent=session_id)]
    for each in children:
        found += [each, *await helpers_of(client, each["id"])]
    return found


async def every(client: Client, path: str, **which: Any) -> AsyncIterator[dict[str, Any]]:
    """All items of a list, page by page."""
    cursor = ""
    for _ in range(MAX_PAGES):
        page = await client.get(path, limit=PAGE, cursor=cursor, **which)
        for each in page["items"]:
            yield each
        cursor = page["next"]
        if not cursor:
            return


def short(session_id: str) -> str:
    """The end of an id, which identifies it. Prefixes encode the time and are alike."""
    return session_id[-SHORT_CHARS:]


async def names_of_users(
    client: Client, session: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, str]]:
    """The caller's id, and the names of the users it may see, including the session's owner."""
    me = (await client.get("/me"))["user"]
    names = {me["id"]: me["name"]}
    with suppress(Denied):  # only an owner may list all users
        names |= {each["id"]: each["name"] async for each in every(client, "/users")}
    if session and session.get("owner_name"):
        names.setdefault(session["owner"], session["owner_name"])
    return str(me["id"]), names
