"""One name for a repository, however its address is written.

`https://github.com/acme/pay.git`, `git@GitHub.com:acme/pay` and `ssh://git@github.com:22/acme//pay/`
are one repository: `github.com/acme/pay`. Rules are bound to this name, so no spelling evades them.
"""

import posixpath
import re
from urllib.parse import unquote

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP_LIKE = re.compile(r"(?:[^@/:]+@)?(\[[0-9A-Fa-f:.]+\]|[^@/:]+):(?!/)(.+)", re.DOTALL)

_SAME_HOST = {"ssh.github.com": "github.com", "www.github.com": "github.com"}


def repository_name(address: str) -> str:
    """Host and path in lower case, without scheme, user, port and `.git`; or the path of a directory."""
    address = address.strip()
    if _SCHEME.match(address):
        scheme, _, rest = address.partition("://")
        if scheme.lower() == "file":
            return _path(f"/{unquote(rest).partition('/')[2]}")
        authority, _, path = rest.partition("/")
        return f"{_host(authority)}/{_path(unquote(path).lstrip('/'))}"
    if address.startswith("/"):
        return _path(address)
    if found := _SCP_LIKE.fullmatch(address):
        return f"{_host(found[1])}/{_path(unquote(found[2]).lstrip('/'))}"
    return _path(address)


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2]
    host = re.sub(r":\d*$", "", host).strip("[]").removesuffix(".").lower()
    return _SAME_HOST.get(host, host)


def _path(path: str) -> str:
    """Without doubled and trailing slashes, `.` and `..`: the forge ignores them too."""
    is_absolute = path.startswith("/")
    parts = posixpath.normpath(f"/{path}").strip("/").lower()
    return ("/" if is_absolute else "") + parts.removesuffix(".git").rstrip("/")
