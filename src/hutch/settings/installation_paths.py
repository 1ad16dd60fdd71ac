"""The files and directories of an installation.

These are the XDG directories of the user or, when `HUTCH_HOME` is set, one directory with
everything: for a service, a second installation, or a test. Imports nothing heavy,
because shell completion needs it, too.
"""

import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path

from hutch.domain.errors import BadRequest
from hutch.system.lazy_dataclass import dataclass
from hutch.system.server_announcement_and_discovery import ServerFiles


@dataclass(frozen=True, slots=True)
class Paths:
    """Every file and directory of an installation. None is created before it is needed."""

    config_file: Path
    data: Path
    state: Path
    cache: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Paths":
        if environ.get("HUTCH_HOME"):
            home = _named_home(environ)
            return cls(home / "config.toml", home / "data", home / "state", home / "cache")
        return cls(
            config_file=_directory(environ, "XDG_CONFIG_HOME", ".config") / "config.toml",
            data=_directory(environ, "XDG_DATA_HOME", ".local/share"),
            state=_directory(environ, "XDG_STATE_HOME", ".local/state"),
            cache=_directory(environ, "XDG_CACHE_HOME", ".cache"),
        )

    @property
    def home(self) -> Path:
        """The topmost directory that is Hutch's alone: `HUTCH_HOME`, or else the data directory."""
        one_for_all = self.config_file.parent == self.data.parent
        return self.data.parent if one_for_all else self.data

    @property
    def database(self) -> Path:
        return self.data / "hutch.db"

    @property
    def blobs(self) -> Path:
        return self.data / "blobs"

    @property
    def keys(self) -> Path:
        return self.data / "keys"

    @property
    def signing_key(self) -> Path:
        return self.keys / "signing.pem"

    @property
    def personas(self) -> Path:
        """The user's own personas; it need not exist."""
        return self.config_file.parent / "personas"

    @property
    def catalogue(self) -> Path:
        """The list of extensions; it need not exist."""
        return self.config_file.with_name("extensions.json")

    @property
    def extensions(self) -> Path:
        """The trials and approvals of extensions."""
        return self.data / "extensions"

    @property
    def hooks(self) -> Path:
        """The owner's hooks; it need not exist."""
        return self.config_file.with_name("hooks.json")

    @property
    def trusted_hooks(self) -> Path:
        """The hooks of repositories that users have trusted."""
        return self.data / "trusted-hooks"

    @property
    def approvals(self) -> Path:
        """The file in which earlier versions stored the user's saved approvals; the database has them now."""
        return self.config_file.with_name("approvals.json")

    @property
    def vault(self) -> Path:
        return self.data / "vault.json"

    @property
    def vault_keys(self) -> Path:
        return self.keys / "vault.keys"

    @property
    def server_lock(self) -> Path:
        return self.data / "server.lock"

    @property
    def server_files(self) -> ServerFiles:
        """The files in which a server announces its address."""
        return ServerFiles(
            announcement=self.data / "server.json",
            copy=self.state / "server.json",
            lock=self.server_lock,
            token=self.local_token,
        )

    @property
    def local_token(self) -> Path:
        """The token for commands of the user who runs the server."""
        return self.keys / "local.token"

    @property
    def server_log(self) -> Path:
        return self.state / "server.log"

    @property
    def edits(self) -> Path:
        """The local copies of session files that `hutch edit` has open."""
        return self.state / "edits"

    @property
    def execution_cache(self) -> Path:
        """Compiled files that all executions of given code share."""
        return self.cache / "execution"

    @property
    def login_file(self) -> Path:
        """The remote server that this user's commands talk to, if any."""
        return self.config_file.parent / "login.json"


def find_paths(environ: Mapping[str, str] | None = None) -> Paths:
    """The paths of the installation. Reads no settings, so it works when these are wrong."""
    return Paths.of(os.environ if environ is None else environ)


def named_server(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The server that commands talk to, and its token: `HUTCH_SERVER`, `HUTCH_TOKEN`."""
    environ = os.environ if environ is None else environ
    return environ.get("HUTCH_SERVER", "").strip(), environ.get("HUTCH_TOKEN", "").strip()


def proxy_is_named() -> bool:
    """True if the environment names a proxy, through which requests to other machines go."""
    names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
    return any(os.environ.get(name) for name in names)


def terminal_type() -> str:
    """The type of the user's terminal; empty when not set."""
    return os.environ.get("TERM", "")


def editor_variable() -> str:
    """The editor that the environment names; empty when it names none."""
    return os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()


def _named_home(environ: Mapping[str, str]) -> Path:
    """The directory in `HUTCH_HOME`: `~` is expanded, and a relative path starts at the current directory."""
    named = environ["HUTCH_HOME"]
    user, _, rest = named.partition("/")
    if user.startswith("~"):
        try:
            home = _user_home(environ) if user == "~" else Path(pwd.getpwnam(user[1:]).pw_dir)
        except KeyError:
            raise BadRequest(
                f"HUTCH_HOME is {named!r}, and there is no user {user[1:]!r}. Name a directory."
            ) from None
        named = str(home / rest)
    try:
        path = Path(named).absolute()
    except FileNotFoundError:
        raise BadRequest(
            f"HUTCH_HOME is {named!r}, and the current directory is gone. Give an absolute path."
        ) from None
    if _is_something_else(path):
        raise BadRequest(f"HUTCH_HOME is {str(path)!r}, which is not a directory. Set it to one.")
    return path


def _is_something_else(path: Path) -> bool:
    """True if the path exists and is not a directory."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except NotADirectoryError:  # a part of the path is a file
        return True
    except OSError:  # it does not exist, or cannot be read: the first use reports that
        return False


def _directory(environ: Mapping[str, str], name: str, default: str) -> Path:
    # The XDG specification requires that relative paths are ignored.
    named = Path(environ.get(name, ""))
    return (named if named.is_absolute() else _user_home(environ) / default) / "hutch"


def _user_home(environ: Mapping[str, str]) -> Path:
    named = Path(environ.get("HOME", ""))
    if named.is_absolute():
        return named
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise BadRequest(
            f"User {os.getuid()} has no home directory. Set HUTCH_HOME to a directory."
        ) from None
