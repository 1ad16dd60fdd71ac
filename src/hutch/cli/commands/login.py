"""`hutch login` and `hutch logout`: which server commands speak with, when it is not this machine's own.

The token is kept in a file that its owner alone can read, and never stands in an argument,
which everybody on a machine can see.
"""

import asyncio
import json
import os
import socket
import sys
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx2
import typer

from hutch import settings
from hutch.cli import exit_codes
from hutch.cli.client import Client, check
from hutch.cli.server_address import API, Address, parse_url, store_login, stored_login
from hutch.cli.server_requests import Json
from hutch.domain.errors import BadRequest, Denied, HutchError, Unauthenticated, Unavailable

DAYS = 90
CSRF = "X-CSRF-Token"
TIMEOUT_S = 30.0
MAX_TOKEN = 1000
UNSAFE = "WARNING: {url} is not encrypted: whoever is between you and it can read the token. Use https."


def login_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the server: https://hutch.example.com.")],
    name: Annotated[
        str, typer.Option("--name", "-u", metavar="USER", help="Log in with this user's password.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Speak with this server from now on.

    A token is asked for, or read from standard input: `hutch tokens create` makes one on the server's own
    machine. With --name it is that user's password that is asked for, and a token is made with it.
    """
    try:
        address = parse_url(url)
        if address.startswith("http:") and not Address(address, "", "login").is_local:
            typer.secho(UNSAFE.format(url=address), fg="red", bold=True, err=True)
        secret = _secret("Password: " if name else "Token: ")
        who, kept = asyncio.run(_log_in(address, name, secret))
        store_login(settings.find_paths(), kept)
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exit_codes.error_json(error)}\n")
        return exit_codes.code_of(error)
    if as_json:
        typer.echo(json.dumps({"url": address, "user": who["user"]["name"], "scopes": who["scopes"]}))
    else:
        may = ", ".join(who["scopes"])
        typer.echo(f"Logged in at {address} as {who['user']['name']}, who may {may}. `hutch logout` ends it.")
    return exit_codes.OK


def logout_command(as_json: Json = False) -> int:
    """Forget the server that `hutch login` was given, and end the token there if it was made for that."""
    paths = settings.find_paths()
    kept = stored_login(paths)
    if kept is None:
        typer.echo(json.dumps({"url": None}) if as_json else "You are not logged in anywhere.")
        return exit_codes.OK
    problem = ""
    try:
        ended = asyncio.run(_revoke(kept))
    except (HutchError, OSError) as error:
        ended, problem = False, str(error)
    paths.login_file.unlink(missing_ok=True)
    if as_json:
        typer.echo(json.dumps({"url": kept.url, "revoked": ended, "problem": problem or None}))
        return exit_codes.OK
    typer.echo(f"Logged out of {kept.url}.")
    if problem:
        typer.echo(f"The token could not be ended there: {problem}", err=True)
    return exit_codes.OK


def _secret(question: str) -> str:
    """From the keyboard without showing it, or from whatever standard input is."""
    if os.isatty(0):
        secret = str(typer.prompt(question.rstrip(": "), hide_input=True))
    else:
        secret = sys.stdin.readline(MAX_TOKEN)
    if not secret.strip():
        raise BadRequest("Nothing was given. Type the token, or send it to standard input.")
    return secret.rstrip("\r\n")


async def _log_in(url: str, name: str, secret: str) -> tuple[dict[str, Any], Address]:
    """Who we are there, and what is to be kept."""
    token = await _token_by_password(url, name, secret) if name else secret.strip()
    address = Address(url, token, "login")
    async with Client(lambda: address) as client:
        try:
            who = await client.get("/me")
        except Unauthenticated:
            raise Unauthenticated(f"{url} does not know this token (any more). Make another.") from None
    made = who["credential_id"] if name else ""  # one that was given is not ours to end
    return who, replace(address, user=who["user"]["name"], token_id=made)


async def _token_by_password(url: str, name: str, password: str) -> str:
    """A token of one's own, made as a browser would."""
    local = Address(url, "", "login").is_local
    origin = {"Origin": "{0.scheme}://{0.netloc}".format(urlsplit(url))}
    async with httpx2.AsyncClient(
        base_url=url, headers=origin, timeout=TIMEOUT_S, trust_env=not local
    ) as http:
        try:
            answer = await http.post(f"{API}/login", json={"name": name, "password": password})
            check(answer)
            csrf = {CSRF: answer.json()["csrf"]}
            me = (await http.get(f"{API}/me")).json()
            scopes = [scope for scope in me["scopes"] if scope != "admin"]
            wanted = {"name": f"hutch login on {socket.gethostname()}"[:100], "scopes": scopes, "days": DAYS}
            made = await http.post(f"{API}/tokens", json=wanted, headers=csrf)
            check(made)
            await http.post(f"{API}/logout", json={}, headers=csrf)
        except httpx2.TransportError as error:
            raise Unavailable(
                f"The server at {url} does not answer: {error or type(error).__name__}."
            ) from error
    return str(made.json()["token"])


async def _revoke(kept: Address) -> bool:
    """End the token, when it was made by `hutch login` itself."""
    if not kept.token_id:
        return False
    async with Client(lambda: kept) as client:
        try:
            await client.request("DELETE", f"/tokens/{kept.token_id}", again=False)
        except Denied:
            return False  # it works no more, anyhow
    return True
