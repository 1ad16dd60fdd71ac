"""The difference between the indentation of a quote and that of the file.

Models quote a block without its indentation, or with spaces where the file has
tabs. When one rule explains every line of the quote, the same rule indents the
new lines; when none does, there is no match.
"""

from collections.abc import Iterable, Sequence
from math import gcd

from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Shift:
    """A rule that converts an indentation of the quote to one of the file."""

    remove: str
    add: str
    levels: int | None = None  # then `remove` and `add` are one level, and this many are added

    def indent(self, indent: str) -> str | None:
        """The file's indentation for one of the quote's; None when the rule does not apply."""
        if self.levels is None:
            return self.add + indent[len(self.remove) :] if indent.startswith(self.remove) else None
        depth, rest = divmod(len(indent), len(self.remove))
        if depth + self.levels < 0 or self.remove * depth + " " * rest != indent:
            return None
        return self.add * (depth + self.levels) + " " * rest

    def line(self, line: str) -> str | None:
        """A new line with the indentation of the file."""
        bare = line.lstrip(" \t")
        indent = self.indent(line[: len(line) - len(bare)]) if bare else ""
        return None if indent is None else indent + bare


def indent_of(line: str) -> str:
    """The spaces and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def shift_between(
    quoted: Sequence[str], found: Sequence[str], new: Sequence[str], near: Iterable[str]
) -> Shift | None:
    """The one rule that converts the indentation of each line of `quoted` to that of `found`.

    It must apply to all lines of `new`; the lines `near` show how wide a level is in the file.
    """
    pairs = {
        (indent_of(mine), indent_of(theirs))
        for mine, theirs in zip(quoted, found, strict=True)
        if mine.strip() and theirs.strip()
    }
    if not pairs:
        return None
    indents = {indent for pair in pairs for indent in pair} | set(map(indent_of, new))
    is_uniform = len({_kind(indent) for indent in indents if indent}) <= 1
    rules = [_prefix_rule(pairs), _level_rule(pairs, [*quoted, *new], near)]
    for rule in rules if is_uniform else reversed(rules):
        if (
            rule
            and all(rule.indent(mine) == theirs for mine, theirs in pairs)
            and all(rule.line(line) is not None for line in new)
        ):
            return rule
    return None


def _prefix_rule(pairs: set[tuple[str, str]]) -> Shift:
    mine, theirs = min(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[-1 - shared] == theirs[-1 - shared]:
        shared += 1
    return Shift(mine[: len(mine) - shared], theirs[: len(theirs) - shared])


def _level_rule(pairs: set[tuple[str, str]], mine: Iterable[str], theirs: Iterable[str]) -> Shift | None:
    quoted = _level(map(indent_of, mine))
    found = _level([*(pair[1] for pair in pairs), *map(indent_of, theirs)])
    if quoted is None or found is None:
        return None
    first, second = next(iter(pairs))
    return Shift(quoted, found, len(second) // len(found) - len(first) // len(quoted))


def _level(indents: Iterable[str]) -> str | None:
    """One level of indentation: a tab, or as many spaces as divide every indentation."""
    some = {indent for indent in indents if indent}
    if not some:
        return "    "
    if {_kind(indent) for indent in some} == {"\t"}:
        return "\t"
    if {_kind(indent) for indent in some} == {" "}:
        return " " * gcd(*map(len, some))
    return None


def _kind(indent: str) -> str:
    return indent[0] if indent.strip(indent[0]) == "" else "mixed"
