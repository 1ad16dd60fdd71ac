"""The commands in a line of shell, as words, for rules about them.

A rule such as `ask bash git push` must see the push also behind `cd x &&`, an
environment prefix, a pipe, `bash -c` or `$(…)`. Where the text alone does not show
the command, for example a command in a variable, the line is marked unclear.

The grammar runs in a process of its own, which hostile text can end or keep busy.
Then the whole line is unclear.

Rules are no security boundary: a program can do anything the jail lets it do.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath

from hutch.agent import shell_words_and_ambiguities
from hutch.agent.programs_running_other_programs import (
    GIT,
    GIT_COMMANDS,
    GIT_RUNS,
    MAX_SUFFIXES,
    QUIET,
    RUNNERS,
    SHELLS,
    STARTERS,
    UNREADABLE,
    WRAPPERS,
    split_options,
    suffixes,
    texts,
)
from hutch.agent.shell_words_and_ambiguities import RUN_VARIABLE, Words
from hutch.edit.syntax_parser import Grammar, ParseFailed, syntax_tree
from hutch.system.lazy_dataclass import dataclass

BASH = Grammar("Bash", "tree_sitter_bash")

MAX_DEPTH = 5  # of `bash -c` in `bash -c`
MAX_LENGTH = 100_000
MAX_TEXTS = 40  # in one line, that the grammar process parses
SHELL_VALUES = frozenset(("--rcfile", "--init-file"))
FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
# A program in one of these is known by its name alone.
PATH = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The simple commands of a line."""

    commands: tuple[Words, ...]
    clear: bool  # there are certainly no others
    plain: bool = True  # the commands alone show the effects: no redirection, no setting, no guess
    possible: tuple[Words, ...] = ()  # commands that a program may run because its arguments could name them


UNKNOWN = Parsed((), clear=False, plain=False)


@dataclass(slots=True)
class _Reader:
    """Bounds the work on one text, since texts can be nested in texts."""

    remaining: int = MAX_TEXTS
    depth: int = -1

    def read(self, text: str) -> Parsed:
        if self.remaining <= 0 or self.depth >= MAX_DEPTH or len(text) > MAX_LENGTH:
            return UNKNOWN
        self.remaining -= 1
        self.depth += 1
        try:
            return self._read(text)
        finally:
            self.depth -= 1

    def _read(self, text: str) -> Parsed:
        try:
            tree = syntax_tree(BASH, text)
        except ParseFailed:
            return UNKNOWN
        found = _together(_unwrap(words, self) for words in shell_words_and_ambiguities.commands(tree))
        return replace(
            found,
            clear=found.clear and not shell_words_and_ambiguities.misread(text, tree),
            plain=found.plain and shell_words_and_ambiguities.plain(tree),
        )


def parse(text: str) -> Parsed:
    """All simple commands anywhere in `text`. This waits for another process: call it in a thread."""
    return _Reader().read(text)


def _together(parts: Iterable[Parsed]) -> Parsed:
    found = list(parts)
    return Parsed(
        tuple(words for each in found for words in each.commands),
        all(each.clear for each in found),
        all(each.plain for each in found),
        tuple(words for each in found for words in each.possible),
    )


def _unwrap(words: Words, reader: _Reader) -> Parsed:
    """The command that runs in the end, without wrapper programs such as `env` and `timeout`."""
    plain = True
    for _ in range(MAX_DEPTH):
        if not words or words[0] is None:
            return Parsed((words,), clear=False, plain=False)
        path = PurePosixPath(words[0])
        name = path.name or words[0]
        as_named = "/" not in words[0] or str(path.parent) in PATH
        if name not in WRAPPERS:
            words = (name if as_named else words[0], *words[1:])
            return _command(name, words, reader, plain=plain and None not in words)
        plain = plain and as_named and name in QUIET
        split = split_options(words[1:], WRAPPERS[name])
        if split is None:
            return replace(_runner(words, reader), clear=False, plain=False)
        options, rest = split
        match name:
            case "env" | "sudo" | "doas":
                rest = rest[1:] if rest[:1] == ("-",) else rest
                while rest and rest[0] is not None and "=" in rest[0]:
                    if RUN_VARIABLE.match(rest[0]):
                        return replace(_runner(words, reader), clear=False, plain=False)
                    rest = rest[1:]
            case "timeout":
                rest = rest[1:]
            case "xargs" if rest:
                marks = [mark for option, mark in options if option == "-I"]
                replaced = (_unless_marked(word, marks) for word in rest)
                rest = tuple(replaced) if marks else (*rest, None)
        if not rest:
            return Parsed((words,), clear=True, plain=plain)
        words = rest
    return Parsed((words,), clear=False, plain=False)


def _unless_marked(word: str | None, marks: list[str | None]) -> str | None:
    """A word of xargs, or None when xargs inserts its input into it."""
    return None if any(word is None or mark is None or mark in word for mark in marks) else word


def _command(name: str, words: Words, reader: _Reader, *, plain: bool) -> Parsed:
    """A command without a wrapper program before it."""
    itself = Parsed((words,), clear=True, plain=plain)
    if name in SHELLS:
        script = _script(words)
        inner = reader.read(script) if script is not None else replace(itself, clear=False)
        return replace(inner, plain=False)
    if name == "find" and (runs := [at for at, word in enumerate(words) if word in FIND_RUNS]):
        inner = _together(_unwrap(words[at + 1 : end], reader) for at, end in pairwise([*runs, len(words)]))
        return _together([itself, replace(inner, plain=False)])
    match name:
        case "eval":
            text = words[2:] if words[1:2] == ("--",) else words[1:]
            if None in text or any((word or "").startswith("-") for word in text[:1]):
                return replace(itself, clear=False, plain=False)
            return replace(reader.read(" ".join(word for word in text if word)), plain=False)
        case "trap" if len(words) > 1:
            return replace(_runner(words, reader), clear=None not in words, plain=False)
        case "hash" | "mapfile" | "readarray" if any(
            word is None or re.match(r"-\w*[pC]", word) for word in words[1:]
        ):
            return replace(itself, clear=False, plain=False)
        case "git":
            return _git(words, reader, plain=plain)
    if name in UNREADABLE:
        return replace(_runner(words, reader), clear=False, plain=False)
    if name in RUNNERS or name in STARTERS:
        return replace(_runner(words, reader, shell=name in RUNNERS), plain=plain)
    return itself


def _runner(words: Words, reader: _Reader, *, shell: bool = True) -> Parsed:
    """A program that runs another one, which may start at any of its words or be inside one of them."""
    after = suffixes(words)
    inner = _together(reader.read(text) for text in (texts(words) if shell else ()))
    clear = inner.clear and None not in words[1:4] and len(words) < MAX_SUFFIXES
    clear = clear and not any(each[0] in SHELLS and _script(each) is None for each in after)
    clear = clear and not any(each[0] in ("xargs", "eval") for each in after)
    return Parsed((words,), clear, plain=True, possible=(*after, *inner.commands, *inner.possible))


def _git(words: Words, reader: _Reader, *, plain: bool) -> Parsed:
    split = split_options(words[1:], GIT)
    if split is None:  # the command may be any of the words
        return Parsed((words,), False, False, tuple(("git", *after) for after in suffixes(words)))
    options, rest = split
    what = rest[0] if rest else "help"
    settings = [value for name, value in options if name == "-c"]
    ran = _runner(("git", *settings, *(rest if what in GIT_RUNS else ())), reader)
    named = [*settings, *(rest[1:] if what == "config" else ())]
    is_alias = any(value is None or value.lower().startswith("alias.") for value in named)
    clear = ran.clear and not is_alias and "--config-env" not in dict(options)
    clear = clear and (what is None or what in GIT_COMMANDS)
    return Parsed(((words[0], *rest),), clear, plain and not options, ran.possible)


def _script(words: Words) -> str | None:
    """The script of `bash -c`, if it is known; None when a shell reads a file or its input."""
    at, is_text = 1, False
    while at < len(words):
        word = words[at]
        if word is None or (word[:1] == "-" and word[:2] != "--" and "s" in word):
            return None
        if word in ("-", "--"):
            at += 1
            break
        if word[:1] not in ("-", "+") or len(word) == 1:
            break
        if word.startswith("--"):
            at += 2 if word in SHELL_VALUES else 1
            continue
        is_text = is_text or (word[0] == "-" and "c" in word)
        at += 1 + sum(char in "oO" for char in word)  # each takes the name of an option
    return words[at] if is_text and at < len(words) else None
