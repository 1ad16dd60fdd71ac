"""`hutch users preferences` and `hutch users model-key`: what belongs to one user.

They use the server that commands use. Without one, they work on this machine's database, for its
owner.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from hutch import settings
from hutch.app.local_sessions import Local, open_local
from hutch.cli.api_client import Client, path_of
from hutch.cli.server_address_and_token import uses_no_server
from hutch.cli.server_requests import Json, ask
from hutch.domain.errors import BadRequest
from hutch.flows.preferences import change_preferences, preferences_json, read_preferences
from hutch.flows.user_model_keys import PROVIDERS, delete_key, list_keys, set_key
from hutch.system.terminal_safe_text import visible

PATH, KEYS = "/users/me/preferences", "/users/me/model-keys"


def preferences_command(
    model: Annotated[
        str | None, typer.Option(metavar="PROVIDER:NAME", help="The model of your new sessions; '' for none.")
    ] = None,
    persona: Annotated[
        str | None, typer.Option(metavar="NAME", help="The persona of your new sessions; '' for none.")
    ] = None,
    theme: Annotated[str | None, typer.Option(metavar="auto|light|dark", help="For web clients.")] = None,
    editor: Annotated[str | None, typer.Option(metavar="COMMAND", help="Your editor; '' for none.")] = None,
    as_json: Json = False,
) -> int:
    """Show or change your preferences.

    Model and persona are the defaults of your new sessions, before those of the server.
    """
    options = {"model": model, "persona": persona, "theme": theme, "editor": editor}
    changes = {name: value for name, value in options.items() if value is not None}

    async def on_server(client: Client) -> Any:
        if not changes:
            return await client.get(PATH)
        return (await client.request("PATCH", PATH, json=changes)).json()

    async def in_database(local: Local) -> Any:
        if changes:
            await change_preferences(local.services, local.caller, changes)
        return preferences_json(await read_preferences(local.services, local.caller.user.id))

    def show(found: Any) -> None:
        for name, value in found.items():
            typer.echo(visible(f"{name:<8} {value or '(not set)'}"))

    return use_server_or_database(on_server, in_database, show, as_json=as_json)


def model_key_command(
    provider: Annotated[
        str | None, typer.Argument(metavar="PROVIDER", help=f"One of {', '.join(PROVIDERS)}.")
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Delete the key.")] = False,
    as_json: Json = False,
) -> int:
    """Set a model key of your own, or list yours.

    Without a provider it lists those for which you have a key. A key is stored encrypted, used only for
    runs that you start in your own sessions, and never shown. Prompts for it, or reads it from standard
    input.
    """
    if unset and not provider:
        raise BadRequest("Name the provider whose key to delete: hutch users model-key --unset anthropic")
    if provider and provider not in PROVIDERS:
        raise BadRequest(f"{provider[:40]!r} is no provider with keys. There are: {', '.join(PROVIDERS)}.")
    key = _read_key(provider) if provider and not unset else ""

    async def on_server(client: Client) -> Any:
        if provider and unset:
            await client.delete(f"{KEYS}/{path_of(provider)}")
        elif provider:
            await client.request("PUT", f"{KEYS}/{path_of(provider)}", json={"key": key})
        return (await client.get(KEYS))["providers"]

    async def in_database(local: Local) -> Any:
        if provider and unset:
            await delete_key(local.services, local.caller, provider)
        elif provider:
            await set_key(local.services, local.caller, provider, key)
        return await list_keys(local.services, local.caller)

    def show(found: Any) -> None:
        typer.echo(f"You have keys for: {', '.join(found)}." if found else "You have no keys of your own.")

    return use_server_or_database(on_server, in_database, show, as_json=as_json)


def _read_key(provider: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Your key for {provider} (not shown)", hide_input=True, err=True))
    key = sys.stdin.readline().strip()
    if not key:
        raise BadRequest("Standard input contains no key.")
    return key


def use_server_or_database(
    on_server: Callable[[Client], Awaitable[Any]],
    in_database: Callable[[Local], Awaitable[Any]],
    show: Callable[[Any], None],
    *,
    as_json: bool,
) -> int:
    """Call the server that commands use, or else this machine's own database."""

    def print_found(found: Any) -> None:
        if as_json:
            typer.echo(json.dumps(found))
        else:
            show(found)

    loaded = settings.load()
    if uses_no_server(loaded):

        async def run() -> Any:
            async with open_local(loaded) as local:
                return await in_database(local)

        print_found(asyncio.run(run()))
        return 0

    async def work(client: Client) -> None:
        print_found(await on_server(client))

    return ask(work, as_json=as_json)
