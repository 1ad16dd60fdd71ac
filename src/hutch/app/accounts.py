"""The users of an installation, straight from its database: for the server's own machine."""

import os
import pwd
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app.running import find_server
from hutch.domain.user import LONGEST_NAME
from hutch.flows.users import (
    Accounts,
)
from hutch.settings import Paths
from hutch.settings.model import Settings
from hutch.store.log import open_log


@asynccontextmanager
async def accounts(paths: Paths) -> AsyncIterator[Accounts]:
    """Users and tokens; a server may have the database open too, and notices within seconds."""
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        yield Accounts(log)


def system_user() -> str:
    """What the first owner is called: as the user of the machine who runs this."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "owner"
    kept = "".join(sign for sign in name if sign.isalnum() or sign in "._-")
    return kept[:LONGEST_NAME] or "owner"


def base_url(settings: Settings, paths: Paths) -> str:
    """Where people open this server in a browser: the one that runs, or else that would."""
    server = settings.server
    if server.public_url:
        return server.public_url.rstrip("/")
    if running := find_server(paths):
        return running.url
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    scheme = "https" if server.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{server.port}"
