"""`hutch login` and `hutch logout`: the server that commands use instead of the local one.

The token is stored in a file that only its owner can read. It is never an argument, which every
user of a machine can see.
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
from hutch.cli.api_client import Client, check
from hutch.cli.server_address_and_token import API, Address, parse_url, store_login, stored_login
from hutch.cli.server_requests import Json
from hutch.cli.server_tasks.server_task_requests import ServerTasks
from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, Unauthenticated, Unavailable

DAYS = 90
CSRF = "X-CSRF-Token"
TIMEOUT_S = 30.0
MAX_TOKEN = 1000
UNSAFE = "WARNING: {url} is not encrypted: anyone on the network path can read the token. Use https."


def login_command(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The server's address, such as https://hutch.example.com.")
    ],
    name: Annotated[
        str, typer.Option("--name", "-u", metavar="USER", help="Log in with this user's password.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Log in to a server. All commands for sessions use it until `hutch logout`.

    Prompts for a token, or reads it from standard input: `hutch tokens create` creates one on the server's
    machine. With --name, prompts for that user's password and creates a token with it.
    """
    try:
        address = parse_url(url)
        if address.startswith("http:") and not Address(address, "", "login").is_local:
            typer.secho(UNSAFE.format(url=address), fg="red", bold=True, err=True)
        secret = _secret("Password: " if name else "Token: ")
        me, login = asyncio.run(_log_in(address, name, secret))
        store_login(settings.find_paths(), login)
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exit_codes.error_json(error)}\n")
        return exit_codes.code_of(error)
    if as_json:
        typer.echo(json.dumps({"url": address, "user": me["user"]["name"], "scopes": me["scopes"]}))
    else:
        scopes = ", ".join(me["scopes"])
        typer.echo(f"Logged in to {address} as {me['user']['name']} ({scopes}). To log out: hutch logout")
    return exit_codes.OK


def logout_command(
    discard: Annotated[
        bool, typer.Option("--discard-changes", help="Also if changes of tasks were not sent yet.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Forget the server of `hutch login`, and revoke the token if `hutch login` created it.

    The local copy of its tasks is removed. Changes that wait to be sent are sent first.
    """
    paths = settings.find_paths()
    login = stored_login(paths)
    if login is None:
        typer.echo(json.dumps({"url": None}) if as_json else "You are not logged in anywhere.")
        return exit_codes.OK
    problem = ""
    tasks = ServerTasks(login)
    if not discard and tasks.copy.count() and not (tasks.send() and not tasks.copy.count()):
        raise Conflict(
            f"{tasks.copy.count()} of your changes of tasks were not sent to {login.url}. See them: hutch "
            "tasks conflicts. To lose them: hutch logout --discard-changes"
        )
    try:
        ended = asyncio.run(_revoke(login))
    except (HutchError, OSError) as error:
        ended, problem = False, str(error)
    paths.login_file.unlink(missing_ok=True)
    tasks.copy.remove()
    if as_json:
        typer.echo(json.dumps({"url": login.url, "revoked": ended, "problem": problem or None}))
        return exit_codes.OK
    typer.echo(f"Logged out of {login.url}.")
    if problem:
        typer.echo(f"The token could not be revoked: {problem}", err=True)
    return exit_codes.OK


def _secret(question: str) -> str:
    """Prompt for a secret without showing it, or read it from standard input."""
    if os.isatty(0):
        secret = str(typer.prompt(question.rstrip(": "), hide_input=True))
    else:
        secret = sys.stdin.readline(MAX_TOKEN)
    if not secret.strip():
        raise BadRequest("The input is empty. Type the token or password, or send it to standard input.")
    return secret.rstrip("\r\n")


async def _log_in(url: str, name: str, secret: str) -> tuple[dict[str, Any], Address]:
    """The caller as the server knows it, and the login to store."""
    token = await _token_by_password(url, name, secret) if name else secret.strip()
    address = Address(url, token, "login")
    async with Client(lambda: address) as client:
        try:
            me = await client.get("/me")
        except Unauthenticated:
            raise Unauthenticated(f"{url} rejects this token. Create another one.") from None
    created = me["credential_id"] if name else ""  # `hutch logout` revokes only a token created here
    return me, replace(address, user=me["user"]["name"], token_id=created)


async def _token_by_password(url: str, name: str, password: str) -> str:
    """Create a token for the user, with a browser's login."""
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
            body = {"name": f"hutch login on {socket.gethostname()}"[:100], "scopes": scopes, "days": DAYS}
            made = await http.post(f"{API}/tokens", json=body, headers=csrf)
            check(made)
            await http.post(f"{API}/logout", json={}, headers=csrf)
        except httpx2.TransportError as error:
            raise Unavailable(
                f"The server at {url} does not respond: {error or type(error).__name__}."
            ) from error
    return str(made.json()["token"])


async def _revoke(login: Address) -> bool:
    """Revoke the token if `hutch login` created it."""
    if not login.token_id:
        return False
    async with Client(lambda: login) as client:
        try:
            await client.request("DELETE", f"/tokens/{login.token_id}", again=False)
        except Denied:
            return False  # it no longer works anyway
    return True
