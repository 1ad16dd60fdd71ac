"""Rules for the agent's calls: allowed, allowed when a user approves, or denied.

A rule is a line: `deny bash git push`, `ask write_file *.lock`, `allow *`. Where
several match, deny beats ask and ask beats allow; where none matches, the default
decides. Nothing that comes from a repository, a file or a model can allow more.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal, get_args

from hutch.agent.shell_ambiguity import Words
from hutch.agent.shell_command_parser import Parsed, parse
from hutch.domain.errors import BadRequest
from hutch.workspace.globs import glob_pattern

# These do the same: a rule that asks about one of them, or denies it, holds for all of them.
FILE_TOOLS = frozenset({"write_file", "edit_file", "apply_patch"})
Action = Literal["allow", "ask", "deny"]  # from the loosest to the strictest
SHELL_TOOL = "bash"


@dataclass(frozen=True, slots=True)
class Rule:
    """The action for calls of a tool that match a pattern."""

    action: Action
    tool: str  # a name, or a pattern of names
    pattern: str = ""  # of a command's first words, or of a path; empty matches all

    def __str__(self) -> str:
        return f"{self.action} {self.tool} {self.pattern}".rstrip()


def parse_rule(line: str) -> Rule:
    """Read a rule as users write it."""
    action, _, rest = line.strip().partition(" ")
    tool, _, pattern = rest.strip().partition(" ")
    if action not in get_args(Action) or not tool:
        raise BadRequest(
            f"'{line}' is not a rule. Write: allow|ask|deny TOOL [PATTERN], such as `ask bash git push`."
        )
    rule = Rule(action, tool, pattern.strip())  # type: ignore[arg-type]
    if tool != SHELL_TOOL:
        glob_pattern(rule.pattern)  # reports a bad pattern now, not at its first use
    if fnmatchcase(SHELL_TOOL, tool):
        try:
            shlex.split(rule.pattern)
        except ValueError as error:
            raise BadRequest(f"The pattern of the rule '{line}' is not shell: {error}.") from None
    return rule


@dataclass(frozen=True, slots=True)
class Decision:
    """The action for one call, the rule behind it, and the rules that an answer would add."""

    action: Action
    rule: str
    covers: tuple[Rule, ...] = ()  # the rules that answering "for this session" would add


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules, and the action where none matches."""

    rules: tuple[Rule, ...] = ()
    default: Action = "allow"
    grants: tuple[Rule, ...] = ()  # approved by users

    def narrowed(self, rules: Iterable[Rule]) -> "Policy":
        """With more rules from an untrusted source: its allow rules are ignored."""
        return replace(self, rules=(*self.rules, *(rule for rule in rules if rule.action != "allow")))

    def granted(self, rules: Iterable[Rule]) -> "Policy":
        """With rules that a user approved: they answer an ask that they cover, never a deny."""
        return replace(self, grants=(*self.grants, *rules))

    def decide(
        self, tool: str, *, command: str | None = None, paths: Sequence[str] = (), below: Sequence[str] = ()
    ) -> Decision:
        """Decide a call of a tool: on a command, on paths, on all files below paths, or on none of these.

        A command is parsed in another process, and this waits for it: call it in a thread.
        """
        rules = [rule for rule in self.rules if _is_about(rule, tool)]
        if command is not None:
            return self._for_command(tool, rules, parse(command))
        fitting = [(path, [rule for rule in rules if _fits_path(rule, path)]) for path in paths]
        fitting += [(path, [rule for rule in rules if _fits_below(rule, path)]) for path in below]
        return _strictest(
            [self._for_path(tool, those, path) for path, those in fitting or [("", _for_all(rules))]]
        )

    def hides(self, tool: str, below: str) -> Callable[[str], bool]:
        """A filter for the files that a search below this path must not show."""
        careful = [rule for rule in self.rules if rule.pattern and rule.action != "allow"]
        careful = [rule for rule in careful if _is_about(rule, tool)]
        # A rule that asks about the whole directory was answered before the search.
        careful = [rule for rule in careful if rule.action == "deny" or not _fits_below(rule, below)]
        return lambda path: any(_fits_path(rule, path) for rule in careful)

    def _for_command(self, tool: str, rules: Sequence[Rule], parsed: Parsed) -> Decision:
        careful = [rule for rule in rules if rule.pattern and rule.action != "allow"]
        if not parsed.plain:  # a rule that allows a command does not allow its redirections and settings
            rules = [rule for rule in rules if rule in careful or not rule.pattern]
        decisions = [
            self._for_words(tool, rules, words, plain=parsed.plain)
            for words in dict.fromkeys(parsed.commands)
        ]
        for words in dict.fromkeys(parsed.possible):
            decisions += [
                Decision(rule.action, f"{rule} (it may run this)")
                for rule in careful
                if _fits_words(rule, words)
            ]
        if not parsed.clear and careful:
            # A rule may be about this very command.
            decisions.append(Decision("ask", f"{careful[0]} (the command is unclear)"))
        if not parsed.clear or not decisions:
            # The rules for all commands hold for unclear text, and for text without a command.
            for_all = self._first(_for_all(rules), None)
            decisions.append(for_all)
        return _strictest(decisions)

    def _for_words(self, tool: str, rules: Sequence[Rule], words: Words, *, plain: bool) -> Decision:
        fitting = [rule for rule in rules if _fits_words(rule, words)]
        begin = shlex.join(_literally(word) for word in words[:2] if word)
        return self._first(fitting, Rule("allow", tool, begin) if plain and begin else None)

    def _for_path(self, tool: str, fitting: Sequence[Rule], path: str) -> Decision:
        return self._first(fitting, Rule("allow", tool, path))

    def _first(self, fitting: Sequence[Rule], grant: Rule | None) -> Decision:
        for rule in fitting:
            if rule.action == "deny":
                return Decision("deny", str(rule))
        if grant is not None and any(replace(grant, tool=name) in self.grants for name in _alike(grant.tool)):
            return Decision("allow", str(grant))
        covers = () if grant is None else (grant,)
        for rule in fitting:
            if rule.action == "ask":
                return Decision("ask", str(rule), covers)
        for rule in fitting:
            if rule.action == "allow":
                return Decision("allow", str(rule))
        return Decision(self.default, "default", covers if self.default == "ask" else ())


def _alike(tool: str) -> Iterable[str]:
    return FILE_TOOLS if tool in FILE_TOOLS else (tool,)


def _is_about(rule: Rule, tool: str) -> bool:
    names = (tool,) if rule.action == "allow" else _alike(tool)
    return any(fnmatchcase(name, rule.tool) for name in names)


def _strictest(decisions: Sequence[Decision]) -> Decision:
    for action in ("deny", "ask"):
        found = [decision for decision in decisions if decision.action == action]
        if found:
            covers = tuple(dict.fromkeys(rule for decision in found for rule in decision.covers))
            known = all(decision.covers for decision in found)
            return Decision(found[0].action, found[0].rule, covers if known else ())
    return decisions[0]


def _fits_words(rule: Rule, words: Words) -> bool:
    """Whether a command begins with the words of the rule.

    An unknown word may be anything, even several words: it matches rules that ask or deny, never one that
    allows. Rules that ask or deny also match a program in any directory by its name.
    """
    careful = rule.action != "allow"
    for position, part in enumerate(_split(rule.pattern)):
        if position >= len(words):
            return False
        word = words[position]
        if word is None:
            return careful and position > 0  # an unknown program makes the whole command unclear
        name = word.rpartition("/")[2] if careful and position == 0 else word
        if not fnmatchcase(word, part) and not fnmatchcase(name, part):
            return False
    return True


def _for_all(rules: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in rules if not rule.pattern]


def _fits_path(rule: Rule, path: str) -> bool:
    return not rule.pattern or glob_pattern(rule.pattern).fullmatch(path) is not None


def _fits_below(rule: Rule, path: str) -> bool:
    """Whether a rule matches all files below a path. A rule that allows must match at every depth."""
    inside = f"{path}/*" if path else "*"
    if rule.action == "allow":
        return _fits_path(rule, inside) and _fits_path(rule, f"{inside}/*")
    return _fits_path(rule, path) or _fits_path(rule, inside)


def _literally(word: str) -> str:
    """A pattern that matches only this word."""
    return re.sub(r"[*?\[]", r"[\g<0>]", word)


@cache
def _split(pattern: str) -> tuple[str, ...]:
    return tuple(shlex.split(pattern))
