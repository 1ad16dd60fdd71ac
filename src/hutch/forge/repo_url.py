"""The address of a repository, checked before git gets it.

git accepts more than addresses: `ext::` runs a command, a leading dash is an option,
and a host with a leading dash is an option of ssh. Only https, http, both forms of
ssh, and directories on this machine are accepted.
"""

import hashlib
import re
from dataclasses import field
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from hutch.domain.errors import BadRequest
from hutch.system.lazy_dataclass import dataclass

Transport = Literal["https", "http", "ssh", "path"]

MAX_CHARS = 2048
TOKEN_USER = "x-access-token"  # its password is a token of the forge
MAYBE_PASSWORD = re.compile(r"(?<=//)[^/]*@|^[^/@]*:[^/]*@|[?#].*", re.DOTALL)  # what may be a password
CONTROL = re.compile(r"[\x00-\x20\x7f\u0080-\u009f\u2028\u2029]")
REMOTE_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
SCP_LIKE = re.compile(r"(?:(?P<user>[^@/:\[\]]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@/:\[\]]+):(?P<path>.+)")
HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\]")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@%\\-]*")
SLUG = re.compile(r"/?(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,99})/(?P<name>[A-Za-z0-9._-]{1,100}?)(\.git)?/?")
EXPECTED_FORMS = (
    "Give a URL such as https://example.com/team/project.git, git@example.com:team/project.git or a path."
)


@dataclass(frozen=True, slots=True)
class RepoUrl:
    """The address of a repository. `address` never has a password, and is passed to git."""

    transport: Transport
    address: str
    credentials: tuple[str, str] | None = field(default=None, repr=False)  # from the URL
    path: Path | None = None  # for a repository on this machine
    pinned: tuple[str, ...] = ()  # the only IP addresses of its host; see `allowed_repository_hosts`
    account: bool = False  # whether the account's keys and credential helpers may be used

    @property
    def host(self) -> str:
        """The host name in lower case and without brackets; empty for a path."""
        return self._host_and_port[0]

    @property
    def port(self) -> int:
        return self._host_and_port[1] or {"https": 443, "http": 80, "ssh": 22}.get(self.transport, 0)

    @property
    def authority(self) -> str:
        """The host, with the port if it is not the default one."""
        default = {"https": 443, "http": 80}.get(self.transport, self.port)
        return self.host if self.port == default else f"{self.host}:{self.port}"

    @property
    def slug(self) -> tuple[str, str] | None:
        """Owner and name, if the path has just these two parts, as on GitHub."""
        if self.path is not None:
            return None
        place = urlsplit(self.address).path if SCHEME.match(self.address) else self.address.partition(":")[2]
        found = SLUG.fullmatch(place)
        return (found["owner"], found["name"]) if found else None

    @property
    def _host_and_port(self) -> tuple[str, int | None]:
        if self.path is not None:
            return "", None
        if SCHEME.match(self.address):
            parts = urlsplit(self.address)
            return parts.hostname or "", parts.port
        found = SCP_LIKE.fullmatch(self.address)
        return (found["host"].strip("[]").lower() if found else ""), None

    @property
    def name(self) -> str:
        """The last part of the address, for display."""
        last = re.split(r"[/:]", self.address.rstrip("/"))[-1].removesuffix(".git")
        return last or "repository"

    @property
    def key(self) -> str:
        """A readable and unique name for files about this repository."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:40] or "repository"
        return f"{slug}-{hashlib.sha256(self.address.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"

    def __str__(self) -> str:
        return self.address


def parse_repo_url(text: str) -> RepoUrl:
    """Parse an address. Refuses unknown kinds."""
    shown = _redact(text)
    if not text or len(text) > MAX_CHARS:
        raise BadRequest(f"A repository's address has 1 to {MAX_CHARS} characters; this one has {len(text)}.")
    if text.startswith("-"):
        raise BadRequest(f"'{shown}' starts with a dash, like an option. {EXPECTED_FORMS}")
    if REMOTE_HELPER.match(text):
        raise BadRequest(
            f"'{shown.partition('::')[0]}::' would run a program to fetch a repository. {EXPECTED_FORMS}"
        )
    if found := SCHEME.match(text):
        _refuse_control(text, shown)
        return _with_scheme(text, found[1].lower())
    if (found := SCP_LIKE.fullmatch(text)) and not text.startswith(("/", ".", "~")):
        _refuse_control(text, shown)
        return _scp_like(text, found)
    if "\0" in text or "\n" in text:
        raise BadRequest(
            f"'{shown}' contains a character that is not allowed in an address. {EXPECTED_FORMS}"
        )
    if text.startswith("~"):  # do not reveal which home directories exist
        raise BadRequest(f"'{shown}' starts with ~, which is not expanded. Give the full path.")
    return from_path(Path(text))


def from_path(path: Path) -> RepoUrl:
    """The address of a repository on this machine."""
    absolute = path.absolute()
    return RepoUrl("path", str(absolute), path=absolute)


def _with_scheme(text: str, scheme: str) -> RepoUrl:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadRequest(
            f"'{_redact(text)}' is not a URL: its host or port cannot be read. {EXPECTED_FORMS}"
        ) from None
    if scheme == "file":
        if host not in ("", "localhost"):
            raise BadRequest(f"'{_redact(text)}' names another machine. Use ssh:// or https:// for that.")
        path = unquote(parts.path, errors="surrogateescape")
        if "\0" in path or not path.startswith("/"):
            raise BadRequest(f"'{_redact(text)}' names no directory. Write file:///path/to/repository.")
        return from_path(Path(path))
    if scheme not in ("https", "http", "ssh"):
        raise BadRequest(f"'{scheme}://' is not supported. Use https, http, ssh or file.")
    place = parts.netloc.rpartition("@")[2]
    bare = f"[{host}]" if ":" in host else host
    if not HOST.fullmatch(bare) or not re.fullmatch(r"(\[.*\]|[^:]*)(:\d*)?", place):
        raise BadRequest(f"'{_redact(text)}' has no usable host. {EXPECTED_FORMS}")
    if not parts.path.strip("/") or parts.path.lstrip("/").startswith("-"):
        raise BadRequest(f"'{_redact(text)}' names no repository on {host}. {EXPECTED_FORMS}")
    # A trailing dot means the same host, but curl would resolve that name again.
    where = bare.lower().removesuffix(".") + (f":{port}" if port else "")
    rest = parts.path + (f"?{parts.query}" if parts.query else "")
    user = parts.netloc.rpartition("@")[0]
    if scheme == "ssh":
        name = user.partition(":")[0]  # ssh accepts no password in an address
        if name and not USER.fullmatch(name):
            raise BadRequest(f"'{_redact(text)}' has no usable user name. {EXPECTED_FORMS}")
        return RepoUrl("ssh", f"ssh://{name}@{where}{rest}" if name else f"ssh://{where}{rest}")
    if parts.query:  # often a token, which would be visible
        raise BadRequest(
            f"'{_redact(text)}' has a query after the ?. Remove it; "
            f"a token belongs before the host: {scheme}://TOKEN@{where}{parts.path}"
        )
    transport: Transport = "https" if scheme == "https" else "http"
    name, _, password = (unquote(part) for part in user.partition(":"))
    if CONTROL.search(name + password):
        raise BadRequest(f"'{_redact(text)}' has credentials with a space or control character in them.")
    return RepoUrl(transport, f"{scheme}://{where}{rest}", credentials=(name, password) if user else None)


def _scp_like(text: str, found: re.Match[str]) -> RepoUrl:
    user, host, path = found["user"], found["host"], found["path"]
    if "@" in path.partition("/")[0]:
        raise BadRequest(
            f"This address looks like a URL with a password, and without https:// before it. {EXPECTED_FORMS}"
        )
    if not HOST.fullmatch(host) or (user and not USER.fullmatch(user)) or path.startswith("-"):
        raise BadRequest(f"'{_redact(text)}' is not a valid ssh address. {EXPECTED_FORMS}")
    return RepoUrl("ssh", f"{f'{user}@' if user else ''}{host.removesuffix('.')}:{path}")


def _refuse_control(text: str, shown: str) -> None:
    if CONTROL.search(text):
        raise BadRequest(f"'{shown}' contains a space or a control character. Percent-encode it, as %20.")


def _redact(text: str) -> str:
    """An invalid address without anything that may be a password."""
    return ascii(MAYBE_PASSWORD.sub("", text[:MAX_CHARS])[:200])[1:-1]
