"""Rules for the agent's calls: allowed, allowed when a user approves, or denied.

A rule is a line: `deny bash git push`, `ask write_file *.lock`, `allow *`. Where
several match, deny beats ask and ask beats allow; where none matches, the default
decides. Nothing that comes from a repository, a file or a model can allow more.

An owner of the server binds further rules to roles, repositories and categories. They
only add to the rules of the persona: the strictest decides.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal, get_args

from hutch.agent.shell_command_parser import Parsed, parse
from hutch.agent.shell_words_and_ambiguities import Words
from hutch.domain.errors import BadRequest
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.globs import glob_pattern
from hutch.workspace.rule_based_search_filter import HiddenFiles

# The tools of a group do the same: a rule that asks about one of them, or denies it, holds for all of them.
FILE_TOOLS = frozenset({"write_file", "edit_file", "apply_patch"})
COMMAND_TOOLS = frozenset({"bash", "exec"})
SEARCH_TOOLS = frozenset({"grep", "search_code", "outline"})
GROUPS = (FILE_TOOLS, COMMAND_TOOLS, frozenset({"glob", "list_directory"}), SEARCH_TOOLS)
# These show content of files too: a rule that asks about read_file, or denies it, holds for them.
READING_TOOLS = frozenset({*SEARCH_TOOLS, "edit_file", "apply_patch"})
Action = Literal["allow", "ask", "deny"]  # from the loosest to the strictest
NOBODY = ("nobody",)  # approvers, where policies share none
SHELL_BUILTINS = frozenset(
    (
        *(":", ".", "[", "alias", "bg", "break", "cd", "continue", "declare", "echo", "eval", "exec", "exit"),
        *("export", "false", "fg", "hash", "jobs", "kill", "let", "local", "popd", "printf", "pushd", "pwd"),
        *("read", "readonly", "return", "set", "shift", "shopt", "source", "test", "times", "trap", "true"),
        *("type", "ulimit", "umask", "unset", "wait"),
    )
)
SHELLS_OF_PEOPLE = (*sorted(COMMAND_TOOLS), "terminal")  # a rule about one of these is about what is typed
UNKNOWN_PROGRAM = '"$program"'
TYPING_TOOL = "terminal_type"  # its pattern is the id of a terminal


@dataclass(frozen=True, slots=True)
class Rule:
    """The action for calls of a tool that match a pattern."""

    action: Action
    tool: str  # a name, or a pattern of names
    pattern: str = ""  # of a command's first words, or of a path; empty matches all
    source: str = field(default="", compare=False)  # where it is written

    def __str__(self) -> str:
        return f"{self.action} {self.tool} {self.pattern}".rstrip()

    def is_about(self, tool: str) -> bool:
        """True if it is about calls of this tool."""
        names = {tool} if self.action == "allow" else {*_alike(tool)}
        if tool in READING_TOOLS and self.action != "allow":
            names.add("read_file")
        return any(fnmatchcase(name, self.tool) for name in names)


def parse_rule(line: str, source: str = "") -> Rule:
    """Read a rule as users write it; `source` says where."""
    action, _, rest = line.strip().partition(" ")
    tool, _, pattern = rest.strip().partition(" ")
    if action not in get_args(Action) or not tool:
        raise BadRequest(
            f"'{line}' is not a rule. Write: allow|ask|deny TOOL [PATTERN], such as `ask bash git push`."
        )
    rule = Rule(action, tool, pattern.strip(), source)  # type: ignore[arg-type]
    if tool not in COMMAND_TOOLS:
        glob_pattern(rule.pattern)  # reports a bad pattern now, not at its first use
    if any(fnmatchcase(name, tool) for name in COMMAND_TOOLS):
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
    source: str = ""  # where the rule is written
    policies: tuple[str, ...] = ()  # the names of the owner's policies that decided this
    approvers: tuple[str, ...] = ()  # roles whose users may answer; empty: all who work in the session
    takes_saved: bool = True  # False: an answer is not saved for later sessions

    def __str__(self) -> str:
        return f"{self.rule} ({self.source})" if self.source else self.rule


@dataclass(frozen=True, slots=True)
class Binding:
    """A policy of an owner, as it applies to one session or one user."""

    name: str
    source: str
    policy: "Policy"
    approvers: tuple[str, ...] = ()  # roles whose users may answer where it asks
    takes_saved: bool = False  # whether permanent approvals answer where it asks

    def mark(self, decision: Decision) -> Decision:
        """The decision with the name of this policy."""
        return replace(
            decision,
            source=self.source,
            policies=(self.name,),
            approvers=self.approvers if decision.action == "ask" else (),
            takes_saved=self.takes_saved,
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules, and the action where none matches."""

    rules: tuple[Rule, ...] = ()
    default: Action = "allow"
    grants: tuple[Rule, ...] = ()  # approved by users
    bindings: tuple[Binding, ...] = ()  # of owners: these only make a decision stricter
    commands: tuple[str, ...] = ()  # the only programs that the agent should run; empty: all

    def narrowed(self, rules: Iterable[Rule]) -> "Policy":
        """With more rules from an untrusted source: its allow rules are ignored."""
        return replace(self, rules=(*self.rules, *(rule for rule in rules if rule.action != "allow")))

    def bound(self, bindings: Iterable[Binding]) -> "Policy":
        """With policies of owners."""
        return replace(self, bindings=(*self.bindings, *bindings))

    def granted(self, rules: Iterable[Rule], policies: Collection[str] = ()) -> "Policy":
        """With rules that a user approved: they answer an ask that they cover, never a deny. They answer for
        the owner's policies only if these are named, because the user was asked for them too."""
        return self._granted(tuple(rules), lambda binding: binding.name in policies)

    def with_saved(self, rules: Iterable[Rule]) -> "Policy":
        """With permanent approvals, which answer for the owner's policies that accept them."""
        return self._granted(tuple(rules), lambda binding: binding.takes_saved)

    def _granted(self, rules: tuple[Rule, ...], is_for: Callable[[Binding], bool]) -> "Policy":
        bindings = tuple(
            replace(each, policy=each.policy.granted(rules)) if is_for(each) else each
            for each in self.bindings
        )
        return replace(self, grants=(*self.grants, *rules), bindings=bindings)

    def decide(
        self, tool: str, *, command: str | None = None, paths: Sequence[str] = (), below: Sequence[str] = ()
    ) -> Decision:
        """Decide a call of a tool: on a command, on paths, on all files below paths, or on none of these.

        A command is parsed in another process, and this waits for it: call it in a thread.
        """
        parsed = None if command is None else parse(command)
        bound = [each.mark(each.policy._decide(tool, parsed, paths, below)) for each in self.bindings]
        stricter = [decision for decision in bound if decision.action != "allow"]
        # Typing needs an approval, but policies of owners that say nothing about it do not ask once more.
        own = replace(self, default=_stricter(self.default, "ask")) if tool == TYPING_TOOL else self
        return _strictest([*stricter, own._decide(tool, parsed, paths, below)])

    def decide_unknown_program(self, tool: str, paths: Sequence[str]) -> Decision:
        """Decide a call that runs a program which rules about commands cannot recognise: any of them may be
        about it."""
        return _strictest([self.decide(tool, paths=paths), self.decide("bash", command=UNKNOWN_PROGRAM)])

    def _decide(
        self, tool: str, parsed: Parsed | None, paths: Sequence[str], below: Sequence[str]
    ) -> Decision:
        rules = [rule for rule in self.rules if rule.is_about(tool)]
        if tool == TYPING_TOOL:
            return self._for_typing(rules, paths[0] if paths else "")
        if parsed is not None:
            return self._for_command(tool, rules, parsed)
        fitting = [(path, [rule for rule in rules if _fits_path(rule, path)]) for path in paths]
        fitting += [(path, [rule for rule in rules if _fits_below(rule, path)]) for path in below]
        return _strictest(
            [self._for_path(tool, those, path) for path, those in fitting or [("", _for_all(rules))]]
        )

    def hides(self, tool: str, below: str) -> HiddenFiles:
        """A filter for the files that a search below this path must not show."""
        rules = [*self.rules, *(rule for each in self.bindings for rule in each.policy.rules)]
        careful = [rule for rule in rules if rule.pattern and rule.action != "allow"]
        careful = [rule for rule in careful if rule.is_about(tool)]
        # A rule that asks about the whole directory was answered before the search.
        careful = [rule for rule in careful if rule.action == "deny" or not _fits_below(rule, below)]
        return HiddenFiles(
            lambda path: any(_fits_path(rule, path) for rule in careful),
            tuple(dict.fromkeys(str(rule) for rule in careful)),
        )

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
                Decision(rule.action, f"{rule} (it may run this)", source=rule.source)
                for rule in careful
                if _fits_words(rule, words)
            ]
        decisions += self._for_programs(parsed)
        if not parsed.clear and careful:
            # A rule may be about this very command.
            unclear = f"{careful[0]} (the command is unclear)"
            decisions.append(Decision("ask", unclear, source=careful[0].source))
        if not parsed.clear or not decisions:
            # The rules for all commands hold for unclear text, and for text without a command.
            for_all = self._first(_for_all(rules), None)
            decisions.append(for_all)
        return _strictest(decisions)

    def _for_programs(self, parsed: Parsed) -> list[Decision]:
        """Deny programs that are not in the list of the settings; what is unclear needs a user."""
        if not self.commands:
            return []
        programs = {word.rpartition("/")[2] for words in parsed.commands for word in words[:1] if word}
        others = sorted(programs - set(self.commands) - SHELL_BUILTINS)
        denied = [Decision("deny", f"jail.allowed_commands, without {name}") for name in others]
        unclear = [] if parsed.clear else [Decision("ask", "jail.allowed_commands (the command is unclear)")]
        return denied + unclear

    def _for_words(self, tool: str, rules: Sequence[Rule], words: Words, *, plain: bool) -> Decision:
        fitting = [rule for rule in rules if _fits_words(rule, words)]
        begin = shlex.join(_literally(word) for word in words[:2] if word)
        return self._first(fitting, Rule("allow", tool, begin) if plain and begin else None)

    def _for_path(self, tool: str, fitting: Sequence[Rule], path: str) -> Decision:
        return self._first(fitting, Rule("allow", tool, path))

    def _for_typing(self, rules: Sequence[Rule], terminal: str) -> Decision:
        """Typing in a person's terminal needs an approval, unless a rule names the tool itself.

        A shell gets the text, in any parts, so rules about commands cannot recognise one: where there are
        such rules, every text is shown to a user.
        """
        careful = [rule for rule in self.rules if rule.action != "allow"]
        careful = [rule for rule in careful if any(rule.is_about(name) for name in SHELLS_OF_PEOPLE)]
        fitting = [rule for rule in rules if rule.tool == TYPING_TOOL or rule.action != "allow"]
        fitting = [rule for rule in fitting if _fits_path(rule, terminal)]
        fitting += [rule for rule in careful if rule.action == "deny" and not rule.pattern]
        decision = self._for_path(TYPING_TOOL, fitting, terminal)
        if careful and decision.action == "allow":
            return Decision("ask", f"{careful[0]} (it may be typed)", source=careful[0].source)
        return replace(decision, covers=()) if careful else decision

    def _first(self, fitting: Sequence[Rule], grant: Rule | None) -> Decision:
        for rule in fitting:
            if rule.action == "deny":
                return Decision("deny", str(rule), source=rule.source)
        if grant is not None and any(replace(grant, tool=name) in self.grants for name in _alike(grant.tool)):
            return Decision("allow", str(grant), source="an approval")
        covers = () if grant is None else (grant,)
        for rule in fitting:
            if rule.action == "ask":
                return Decision("ask", str(rule), covers, rule.source)
        for rule in fitting:
            if rule.action == "allow":
                return Decision("allow", str(rule), source=rule.source)
        return Decision(self.default, "default", covers if self.default == "ask" else ())


def _alike(tool: str) -> Iterable[str]:
    return next((group for group in GROUPS if tool in group), (tool,))


def _stricter(one: Action, other: Action) -> Action:
    return max(one, other, key=get_args(Action).index)


def _strictest(decisions: Sequence[Decision]) -> Decision:
    for action in ("deny", "ask"):
        found = [decision for decision in decisions if decision.action == action]
        if found:
            covers = tuple(dict.fromkeys(rule for decision in found for rule in decision.covers))
            known = all(decision.covers for decision in found)
            return replace(
                found[0],
                covers=covers if known else (),
                policies=tuple(dict.fromkeys(name for decision in found for name in decision.policies)),
                approvers=_shared_approvers(found),
                takes_saved=all(decision.takes_saved for decision in found),
            )
    return decisions[0]


def _shared_approvers(decisions: Sequence[Decision]) -> tuple[str, ...]:
    """The roles that may answer all of these; `nobody` when the policies name no common one."""
    named = [decision.approvers for decision in decisions if decision.approvers]
    shared = tuple(role for role in named[0] if all(role in each for each in named)) if named else ()
    return shared if shared or not named else NOBODY


def _fits_words(rule: Rule, words: Words) -> bool:
    """True if a command begins with the words of the rule.

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
    """True if a rule matches all files below a path. A rule that allows must match at every depth."""
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
