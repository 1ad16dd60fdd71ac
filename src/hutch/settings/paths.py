"""Where an installation keeps its things.

The XDG directories of the user, or, when `HUTCH_HOME` is set, one directory that
holds everything: handy for a service, a second installation, or a test.
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Paths:
    """Every file and directory of an installation. Nothing is made before it is needed."""

    config_file: Path
    data: Path
    state: Path
    cache: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Paths":
        if environ.get("HUTCH_HOME"):
            home = Path(environ["HUTCH_HOME"]).absolute()
            return cls(home / "config.toml", home / "data", home / "state", home / "cache")
        return cls(
            config_file=_directory(environ, "XDG_CONFIG_HOME", ".config") / "config.toml",
            data=_directory(environ, "XDG_DATA_HOME", ".local/share"),
            state=_directory(environ, "XDG_STATE_HOME", ".local/state"),
            cache=_directory(environ, "XDG_CACHE_HOME", ".cache"),
        )

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
    def vault(self) -> Path:
        return self.data / "vault.json"

    @property
    def vault_keys(self) -> Path:
        return self.keys / "vault.keys"


def _directory(environ: Mapping[str, str], name: str, default: str) -> Path:
    # The XDG specification wants a relative path ignored.
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
