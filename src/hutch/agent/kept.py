"""What a person has allowed always, for every repository of theirs, until they withdraw it.

A small file beside the settings, for its owner's eyes only. It holds what may be
done without asking, so one that others could write is not believed.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hutch.agent.policy import Rule
from hutch.domain.errors import LimitReached, NotFound, Unavailable
from hutch.system.atomic_file import replace_file
from hutch.system.file_lock import locked

MAX_BYTES = 1 << 20
MAX_RULES = 1000


class KeptApprovals:
    """Rules that allow, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rules(self) -> tuple[Rule, ...]:
        """All of them, the oldest first."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise Unavailable(
                        f"{self._path} can be written by others. Mend it: chmod 600 {self._path}"
                    )
                return _parsed(file.read(MAX_BYTES + 1))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise Unavailable(f"{self._path} cannot be used: {error}. Mend it, or delete it.") from None

    def keep(self, rules: Iterable[Rule]) -> None:
        """Add rules; those that are there already stay once."""
        with self._locked():
            kept = tuple(dict.fromkeys((*self.rules(), *rules)))
            if len(kept) > MAX_RULES or sum(len(describe(rule).encode()) for rule in kept) > MAX_BYTES // 8:
                raise LimitReached(
                    "So much is allowed always that nothing more is kept. Withdraw some: hutch approvals rm",
                    limit="approvals",
                )
            self._write(kept)

    def withdraw(self, rules: Sequence[Rule]) -> None:
        """Take rules away: from now on they are asked about again."""
        with self._locked():
            kept = self.rules()
            for rule in rules:
                if rule not in kept:
                    raise NotFound(f"'{describe(rule)}' is not allowed always. See: hutch approvals list")
            self._write(tuple(rule for rule in kept if rule not in rules))

    def _write(self, rules: Sequence[Rule]) -> None:
        listed = [{"tool": rule.tool, "pattern": rule.pattern} for rule in rules]
        text = json.dumps({"rules": listed}, indent=1)
        try:
            replace_file(self._path, f"{text}\n", mode=0o600, durable=True)
        except OSError as error:
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}.") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time."""
        lock = self._path.with_suffix(".lock")
        with ExitStack() as stack:
            try:
                lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                stack.enter_context(locked(lock))
            except OSError as error:
                raise Unavailable(f"{lock} cannot be opened: {error.strerror}.") from None
            yield


def describe(rule: Rule) -> str:
    """A rule that allows, as people say it."""
    return f"{rule.tool} {rule.pattern}".rstrip()


def _parsed(raw: bytes) -> tuple[Rule, ...]:
    try:
        return tuple(
            Rule("allow", _text(each["tool"]), _text(each["pattern"])) for each in json.loads(raw)["rules"]
        )
    except (KeyError, TypeError, RecursionError):
        raise ValueError("it holds no rules, each with a tool and a pattern") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
