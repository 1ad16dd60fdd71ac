"""The server that commands use, and the token for it.

The server that the environment names, else the one of `hutch login`, else the local one, which is
discovered automatically.
"""

import json
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from hutch.domain.errors import BadRequest, Unavailable
from hutch.settings import Paths, find_paths, named_server
from hutch.system.atomic_file import write_private
from hutch.system.lazy_dataclass import dataclass
from hutch.system.server_announcement_and_discovery import find_server, local_token

if TYPE_CHECKING:  # most commands need only the server's address; loading the settings loads pydantic
    from hutch.settings import LoadedSettings

API = "/api/v1"
NO_SERVER = "No server is running here. Start one with `hutch up`, or use another with `hutch login URL`."
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address, and the token for it."""

    url: str
    token: str
    kind: Literal["environment", "login", "local"]
    certificate: str = ""  # of the local server; it may be for another host name
    user: str = ""
    token_id: str = ""  # of a token that `hutch login` created and `hutch logout` revokes

    def __post_init__(self) -> None:
        if not (self.token.isascii() and self.token.isprintable()):
            named = {
                "environment": "in HUTCH_TOKEN",
                "login": "of hutch login",
                "local": "in keys/local.token",
            }
            raise BadRequest(
                f"The token {named[self.kind]} for {self.url} contains an invalid character. Copy it again, "
                f"or log in: hutch login {self.url}"
            )

    @property
    def is_local(self) -> bool:
        """True if the server shares this machine's file system."""
        return self.kind == "local" or urlsplit(self.url).hostname in LOOPBACK


def find_address(paths: Paths | None = None) -> Address:
    """The address of the server to use; raises when there is none."""
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


def uses_no_server(loaded: "LoadedSettings") -> bool:
    """True when commands have no server to use: none is named, none runs here, and nobody is logged in."""
    return (
        not named_server()[0]
        and stored_login(loaded.paths) is None
        and find_server(loaded.paths.server_files) is None
    )


def local_address(paths: Paths, token: str = "") -> Address:
    """The address of this installation's server on this machine."""
    running = find_server(paths.server_files)
    if running is None:
        raise Unavailable(NO_SERVER)
    token = token or local_token(paths.server_files) or ""
    if not token:
        raise Unavailable(no_local_token(running.url, paths))
    return Address(running.url, token, "local", running.certificate)


def browser_url(loaded: "LoadedSettings") -> str:
    """The local server's URL for browsers, whether or not it is running."""
    server = loaded.settings.server
    if server.public_url:
        return server.public_url.rstrip("/")
    if running := find_server(loaded.paths.server_files):
        return running.url
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    scheme = "https" if server.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{server.port}"


def no_local_token(url: str, paths: Paths) -> str:
    """The error message when the local token, which authenticates local commands, cannot be read."""
    return (
        f"The server at {url} is running, but {paths.local_token}, the token for your commands, is missing "
        f"or cannot be read. If the server is yours, restart it: hutch down, then hutch up. Otherwise log "
        f"in: hutch login {url}"
    )


def stored_login(paths: Paths) -> Address | None:
    """The login that `hutch login` stored, if any."""
    try:
        login = json.loads(paths.login_file.read_bytes())
        token_id = login.get("token_id", "")
        return Address(login["url"], login["token"], "login", user=login.get("user", ""), token_id=token_id)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise BadRequest(
            f"{paths.login_file}, written by `hutch login`, cannot be read. Log in again, or remove it."
        ) from None


def store_login(paths: Paths, address: Address) -> None:
    """Store a login in a file that only its owner can read."""
    login = {name: getattr(address, name) for name in ("url", "token", "user", "token_id")}
    write_private(paths.login_file, json.dumps(login) + "\n")


def parse_url(text: str) -> str:
    """Parse the address of a server that a user typed; https is the default scheme."""
    url = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_url(text) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise _no_url(text)
    if parts.username or parts.password:
        raise BadRequest("Remove the name and password from the address: `hutch login` asks for them.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _no_url(text: str) -> BadRequest:
    return BadRequest(
        f"{text[:80]!r} is not the address of a server. Write it like https://hutch.example.com."
    )
