"""Which server commands speak with, and by what they come in.

The one that the environment names, else the one that `hutch login` was given, else the
one that runs on this machine, which is found by itself.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from hutch.domain.errors import BadRequest, Unavailable
from hutch.settings import Paths, find_paths, named_server
from hutch.system.atomic_file import write_private
from hutch.system.running_server import find_server, local_token

if TYPE_CHECKING:  # most commands only need to know where the server is, and the settings are models
    from hutch.settings import LoadedSettings

API = "/api/v1"
NONE_HERE = "No server runs here. Start one with `hutch up`, or name one with `hutch login URL`."
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and the token that it knows us by."""

    url: str
    token: str
    kind: Literal["environment", "login", "local"]
    certificate: str = ""  # of this machine's own server; whatever name it is for
    user: str = ""
    token_id: str = ""  # when the token was made by logging in, and ends with it

    def __post_init__(self) -> None:
        if not (self.token.isascii() and self.token.isprintable()):
            named = {
                "environment": "in HUTCH_TOKEN",
                "login": "of hutch login",
                "local": "in keys/local.token",
            }
            raise BadRequest(
                f"The token {named[self.kind]} for {self.url} holds a character that no token has. Copy it "
                f"again, or log in: hutch login {self.url}"
            )

    @property
    def is_local(self) -> bool:
        """Whether its files are this machine's."""
        return self.kind == "local" or urlsplit(self.url).hostname in LOOPBACK


def find_address(paths: Paths | None = None) -> Address:
    """The server to speak with; refused when there is none."""
    paths = paths or find_paths()
    url, token = named_server()
    stored = stored_login(paths)
    if url:
        url = parse_url(url)
        if not token and stored and stored.url == url:
            token = stored.token
        return Address(url, token, "environment")
    if stored:
        return stored
    return local_address(paths, token)


def local_address(paths: Paths, token: str = "") -> Address:
    """The server of this installation, on this machine."""
    running = find_server(paths.server_files)
    if running is None:
        raise Unavailable(NONE_HERE)
    token = token or local_token(paths.server_files) or ""
    if not token:
        raise Unavailable(no_local_token(running.url, paths))
    return Address(running.url, token, "local", running.certificate)


def browser_url(loaded: "LoadedSettings") -> str:
    """Where people open this machine's server in a browser: the one that runs, or else that would."""
    server = loaded.settings.server
    if server.public_url:
        return server.public_url.rstrip("/")
    if running := find_server(loaded.paths.server_files):
        return running.url
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    scheme = "https" if server.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{server.port}"


def no_local_token(url: str, paths: Paths) -> str:
    """What to do about a server of this machine without a token for this user's commands."""
    return (
        f"The server at {url} runs, but {paths.local_token}, which lets your commands in, is missing or "
        f"cannot be read. If the server is yours, start it anew: hutch down, then hutch up. Else log in: "
        f"hutch login {url}"
    )


def stored_login(paths: Paths) -> Address | None:
    """What `hutch login` kept, if anything."""
    try:
        kept = json.loads(paths.login_file.read_bytes())
        made = kept.get("token_id", "")
        return Address(kept["url"], kept["token"], "login", user=kept.get("user", ""), token_id=made)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise BadRequest(
            f"What `hutch login` kept in {paths.login_file} cannot be read. Log in again, or remove it."
        ) from None


def store_login(paths: Paths, address: Address) -> None:
    """Keep it, in a file that its owner alone can read."""
    kept = {name: getattr(address, name) for name in ("url", "token", "user", "token_id")}
    write_private(paths.login_file, json.dumps(kept) + "\n")


def parse_url(text: str) -> str:
    """The address of a server, as somebody writes it."""
    given = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        raise _no_url(text) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise _no_url(text)
    if parts.username or parts.password:
        raise BadRequest("Leave name and password out of the address: `hutch login` asks for them.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _no_url(text: str) -> BadRequest:
    return BadRequest(
        f"{text[:80]!r} is not the address of a server. One looks like https://hutch.example.com."
    )
