"""Secrets, encrypted at rest.

`vault.json` maps names to Fernet tokens; the keys are in another file that only its
owner can read, so that a copy of one file is useless without the other. The first
key encrypts, all of them decrypt, and every secret stays readable during a rotation.

The methods are synchronous: each reads or writes two small files.
"""

import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from hutch.domain.errors import BadRequest, NotFound, Unavailable
from hutch.domain.one_line_text import echo
from hutch.system.atomic_file import replace_file
from hutch.system.file_lock import locked

MAX_SECRET_BYTES = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_]{0,199}")


class Vault:
    """The installation's secrets: API keys and tokens, by name."""

    def __init__(self, path: Path, keys_path: Path) -> None:
        self._path = path
        self._keys_path = keys_path

    def set(self, name: str, value: str) -> None:
        """Store a secret; replaces an earlier one of this name."""
        check_name(name)
        if not value.strip():
            raise BadRequest(
                f"The secret {name!r} is empty. To delete it, use `hutch config unset-secret {name}`."
            )
        if len(value.encode()) > MAX_SECRET_BYTES:
            raise BadRequest(f"The secret {name!r} is larger than {MAX_SECRET_BYTES // 1024} KiB.")
        with self._locked():
            tokens = self._tokens()
            keys = self._keys(needed=bool(tokens))
            if not keys:
                keys = [Fernet.generate_key()]
                _replace(self._keys_path, _lines(keys))
            # The name is sealed in with the value: tokens cannot be swapped between names.
            tokens[name] = Fernet(keys[0]).encrypt(f"{name}\0{value}".encode()).decode()
            self._write(tokens)

    def get(self, name: str) -> str | None:
        """A secret's value; None if there is no such secret."""
        check_name(name)
        if not self._path.exists():
            return None
        with self._locked(shared=True):
            token = self._tokens().get(name)
            return None if token is None else self._open(name, token, self._keys(needed=True))

    def names(self) -> list[str]:
        """The names of all secrets; needs no key."""
        return sorted(self._tokens())

    def delete(self, name: str) -> None:
        """Delete a secret; needs no key."""
        check_name(name)
        with self._locked():
            tokens = self._tokens()
            if tokens.pop(name, None) is None:
                raise NotFound(
                    f"There is no secret {name!r}. There are: {', '.join(sorted(tokens)) or 'none'}."
                )
            self._write(tokens)

    def rotate(self) -> int:
        """Encrypt everything with a new key and delete the old ones; returns the number of secrets."""
        with self._locked():
            tokens = self._tokens()
            old = self._keys(needed=bool(tokens))
            for name, token in tokens.items():
                self._open(name, token, old)
            new = Fernet.generate_key()
            # In this order a crash at any point leaves a key on disk for every token.
            _replace(self._keys_path, _lines([new, *old]))
            ring = _ring([new, *old])
            self._write({name: ring.rotate(token).decode() for name, token in tokens.items()})
            _replace(self._keys_path, _lines([new]))
            return len(tokens)

    def _open(self, name: str, token: str, keys: list[bytes]) -> str:
        try:
            sealed_name, _, value = _ring(keys).decrypt(token).decode().partition("\0")
        except InvalidToken:
            raise Unavailable(
                f"The secret {name!r} in {self._path} cannot be decrypted with the keys in "
                f"{self._keys_path}. Restore the key file that belongs to it, or set the secret again: "
                f"hutch config set-secret {name}"
            ) from None
        if sealed_name != name:
            raise Unavailable(
                f"The secret {name!r} in {self._path} was stored as {sealed_name!r}: the file was "
                f"changed. Set the secret again: hutch config set-secret {name}"
            )
        return value

    def _tokens(self) -> dict[str, str]:
        try:
            tokens = orjson.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Unavailable(f"The vault {self._path} cannot be read: {error.strerror}.") from None
        except orjson.JSONDecodeError:
            tokens = None
        if not _is_vault(tokens):
            raise Unavailable(
                f"The vault {self._path} is damaged. Restore it from a backup, or move it away and set the "
                "secrets again: hutch config set-secret NAME"
            )
        return dict(tokens)

    def _keys(self, *, needed: bool) -> list[bytes]:
        """The keys, newest first. With `needed`, no keys are an error."""
        path = self._keys_path
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    raise Unavailable(
                        f"The key file {path} is open to other users (mode {mode:04o}). Close it: "
                        f"chmod 600 {shlex.quote(str(path))}"
                    )
                keys = file.read().split()
        except FileNotFoundError:
            keys = []
        except OSError as error:
            raise Unavailable(f"The key file {path} cannot be read: {error.strerror}.") from None
        if needed and not keys:
            raise Unavailable(
                f"The vault {self._path} holds secrets, but their key file {path} is missing or empty. "
                "Restore it from a backup, or move the vault away and set the secrets again: "
                "hutch config set-secret NAME"
            )
        try:
            for key in keys:
                Fernet(key)
        except ValueError:
            raise Unavailable(
                f"The key file {path} is damaged: each line must be one Fernet key. Restore it from a "
                "backup, or move it and the vault away and set the secrets again: "
                "hutch config set-secret NAME"
            ) from None
        return keys

    def _write(self, tokens: dict[str, str]) -> None:
        _replace(self._path, orjson.dumps(tokens, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2))

    @contextmanager
    def _locked(self, *, shared: bool = False) -> Iterator[None]:
        """One writer at a time."""
        lock = self._path.with_suffix(".lock")
        with ExitStack() as stack:
            try:
                lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(locked(lock, shared=shared))
            except OSError as error:
                raise Unavailable(f"The vault's lock {lock} cannot be opened: {error.strerror}.") from None
            yield


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"{echo(name, 80)} is not a secret's name: use a-z, 0-9 and _, at most 64 characters, a letter "
            "first; for example anthropic_api_key."
        )


def _is_vault(content: object) -> bool:
    return isinstance(content, dict) and all(
        _NAME.fullmatch(name) and isinstance(token, str) for name, token in content.items()
    )


def _ring(keys: list[bytes]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def _lines(keys: list[bytes]) -> bytes:
    return b"".join(key + b"\n" for key in keys)


def _replace(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, content, mode=0o600, durable=True)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}.") from None
