"""Checks requests to a jail before they reach it."""

import ipaddress
import os
from collections.abc import Mapping, Sequence

from hutch.domain.errors import BadRequest
from hutch.jail.interface import Pipe, Size
from hutch.jail.policy import MAX_TIMEOUT_S


def check_words(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
    """Refuse arguments that cannot be passed to a process."""
    if isinstance(argv, str | bytes):
        raise BadRequest(
            f"The command is {_kind(argv)}, not a list. Give a list of words, or: sh, -c and the text."
        )
    for word in (*argv, *env, *env.values(), cwd):
        if not isinstance(word, str):
            raise BadRequest(
                f"A part of the command, its environment or its directory is {_kind(word)}. Give text."
            )
        if not word.isascii():
            check_text(word)
    if not argv or not argv[0]:
        raise BadRequest("The command is empty. Give at least the name of a program.")
    if any("\0" in word for word in (*argv, *env.values(), cwd)):
        raise BadRequest("A NUL byte cannot be part of a command, its environment or its directory.")
    for name in env:
        if not name or "=" in name or "\0" in name:
            raise BadRequest(f"'{name}' cannot be the name of an environment variable.")


def check_text(text: str) -> None:
    """Refuse text that cannot be a file name or an argument. Lone surrogates from a name that is not UTF-8
    are allowed."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise BadRequest(f"{text!a:.80} contains a lone surrogate, which no program can get.") from None


def check_address(host: str, port: int, *, min_port: int = 1) -> None:
    """Refuse what is not an IP address and port: the warden cannot resolve names."""
    if not isinstance(port, int) or not min_port <= port < 65536:
        raise BadRequest(f"{port!r:.80} is not a TCP port. Give one from {min_port} to 65535.")
    try:
        if not isinstance(host, str) or "%" in host:  # ipaddress accepts a number as an address
            raise ValueError
        ipaddress.ip_address(host)
    except ValueError:
        raise BadRequest(f"{host!r:.80} is not an IP address. Give one, for example 127.0.0.1.") from None


def check_stdin(stdin: bytes | Pipe | None) -> None:
    if not isinstance(stdin, bytes | Pipe | None):
        raise BadRequest(f"stdin is {_kind(stdin)}. Give bytes, for example text.encode(), or PIPE.")


def check_size(size: Size) -> None:
    if not all(isinstance(side, int) and 0 < side < 65536 for side in (size.rows, size.columns)):
        raise BadRequest(f"A terminal cannot have {size.rows!r:.40} rows and {size.columns!r:.40} columns.")


def check_timeout(timeout_s: float, max_s: float = MAX_TIMEOUT_S) -> None:
    if not isinstance(timeout_s, int | float):
        raise BadRequest(f"timeout_s is {_kind(timeout_s)}. Give seconds, as a number.")
    if not 0 < timeout_s <= max_s:
        raise BadRequest(f"timeout_s is {timeout_s:g}; give a number above 0 and at most {max_s:g}.")


def _kind(value: object) -> str:
    return "text" if isinstance(value, str) else f"of type {type(value).__name__}"
