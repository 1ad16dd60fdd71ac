"""The files that rules exclude from a search. The search names the rules, never the files that match:
a match would tell what such a file contains."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from hutch.domain.errors import Denied
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.search_match_redaction import Mask

IsHidden = Callable[[str], bool]  # whether to omit a file


@dataclass(frozen=True, slots=True)
class HiddenFiles:
    """A filter for the results of a search."""

    is_hidden: IsHidden
    rules: tuple[str, ...] = ()

    def __call__(self, path: str) -> bool:
        return self.is_hidden(path)

    def describe(self) -> str:
        """A sentence about the files that are left out; empty if there are none."""
        rules = ", ".join(f"`{rule}`" for rule in self.rules)
        return f"(Left out: the files that {rules} excludes.)" if rules else ""


@dataclass(frozen=True, slots=True)
class SearchCheck:
    """The check of the paths that a search shows: it leaves them out instead of being refused."""

    hidden: HiddenFiles

    def __call__(self, path: str) -> None:
        if self.hidden(path):
            raise Denied(f"'{path}' is excluded by {', '.join(self.hidden.rules)}.")


def hide_secrets(mask: Mask, hidden: HiddenFiles | None = None) -> IsHidden:
    """Hide paths that contain a secret, since a match would reveal it, and other `hidden` ones."""

    @cache
    def is_hidden(path: str) -> bool:
        data = path.encode(errors="surrogateescape")
        return mask(data) != data or (hidden is not None and hidden(path))

    return is_hidden if hidden is None else replace(hidden, is_hidden=is_hidden)
