"""The commands in a line of shell, as words, for rules about them.

A rule such as `ask bash git push` must see the push also behind `cd x &&`, an
environment prefix, a pipe, `bash -c` or `$(…)`. What cannot be told from the text
alone, such as a command in a variable, is said to be unclear rather than guessed.

The grammar runs in a process of its own, which hostile text can end or keep busy:
then nothing is known of the command, and it is unclear.

These are manners, not walls: a program can do anything the jail lets it do.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from hutch.workspace.edit.grammar import Grammar, Tree, Unanswered, syntax_tree

BASH = Grammar("Bash", "tree_sitter_bash")
Words = tuple[str | None, ...]  # None where a word is known only when it runs

DEEPEST = 5  # of `bash -c` in `bash -c`
LONGEST = 100_000
DEEPEST_WORD = 10  # of quotes in words in words
SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}


def _options(line: str) -> frozenset[str]:
    return frozenset(line.split())


# Programs that run the program named after their own options; of these, the ones that take a value.
WRAPPERS: dict[str, frozenset[str]] = {
    "sudo": _options("-u -g -h -p -C -D -R -T --user --group --host --prompt --chdir"),
    "doas": _options("-u -C"),
    "env": _options("-u -C --unset --chdir"),
    "nohup": _options(""),
    "nice": _options("-n --adjustment"),
    "ionice": _options("-c -n -p --class --classdata"),
    "time": _options("-f -o --format --output"),
    "timeout": _options("-k -s --kill-after --signal"),
    "stdbuf": _options("-i -o -e --input --output --error"),
    "setsid": _options(""),
    "xargs": _options("-I -n -P -L -d -a -E -s --max-args --max-procs --delimiter --arg-file"),
    "command": _options(""),
    "builtin": _options(""),
    "exec": _options("-a"),
}
SHELL_VALUES = _options("--rcfile --init-file")
FIND_RUNS = _options("-exec -execdir -ok -okdir")
GIT_VALUES = _options("-C -c --git-dir --work-tree --namespace --exec-path")


@dataclass(frozen=True, slots=True)
class Parsed:
    """The simple commands of a line; `clear` when there can be no others."""

    commands: tuple[Words, ...]
    clear: bool


def parse(text: str, depth: int = 0) -> Parsed:
    """All simple commands in `text`, wherever they stand. It waits for another process: do it in a thread."""
    if depth > DEEPEST or len(text) > LONGEST:
        return Parsed((), clear=False)
    try:
        tree = syntax_tree(BASH, text)
    except Unanswered:
        return Parsed((), clear=False)
    commands: list[Words] = []
    clear = tree.whole
    for number, piece in enumerate(tree.pieces):
        if piece.kind != "command":
            continue
        parts = [(tree.pieces[part].field, part) for part in tree.inside(number)]
        words = tuple(_word(tree, part) for field, part in parts if field == "name")
        words += tuple(_word(tree, part) for field, part in parts if field == "argument")
        inner = _unwrap(words, depth)
        commands += inner.commands
        clear = clear and inner.clear
    return Parsed(tuple(commands), clear)


def _unwrap(words: Words, depth: int) -> Parsed:
    """The command that is really run, without what only stands before it."""
    for _ in range(DEEPEST):
        if not words or words[0] is None:
            return Parsed((words,), clear=False)
        words = (PurePosixPath(words[0]).name or words[0], *words[1:])
        name = words[0]
        if name in SHELLS and (script := _script(words)) is not _NONE:
            return parse(script, depth + 1) if isinstance(script, str) else Parsed((words,), clear=False)
        if name == "eval":
            if None in words:
                return Parsed((words,), clear=False)
            return parse(" ".join(word for word in words[1:] if word), depth + 1)
        if name == "git":
            return Parsed((("git", *_after_options(words[1:], GIT_VALUES)),), clear=True)
        if name == "find" and (runs := [at for at, word in enumerate(words) if word in FIND_RUNS]):
            inner = [_unwrap(words[at + 1 : end], depth) for at, end in pairwise([*runs, len(words)])]
            found = tuple(command for each in inner for command in each.commands)
            return Parsed((words, *found), all(each.clear for each in inner))
        if name not in WRAPPERS:
            return Parsed((words,), clear=True)
        rest = _after_options(words[1:], WRAPPERS[name])
        options = words[1 : len(words) - len(rest)]
        if name == "env" and any(re.match(r"-\w*S|--split", word or "") for word in options):
            return Parsed((words,), clear=False)  # it splits a text into words by rules of its own
        while name == "env" and rest and rest[0] is not None and re.match(r"\w+=", rest[0]):
            rest = rest[1:]
        if name == "timeout":
            rest = rest[1:]
        if not rest:
            return Parsed((words,), clear=True)
        words = rest
    return Parsed((words,), clear=False)


_NONE = object()


def _script(words: Words) -> object:
    """What `bash -c` is given: its text, None when that is not known, or that there is no such thing.

    What a shell reads from its standard input is not known either.
    """
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
        at += 1 + sum(letter in "oO" for letter in word)  # each takes the name of an option
    if at >= len(words):
        return None
    return words[at] if is_text else _NONE


def _after_options(words: Words, with_value: frozenset[str]) -> Words:
    place = 0
    while place < len(words):
        word = words[place]
        if word is None or not word.startswith("-") or word == "-":
            break
        place += 2 if word in with_value else 1
        if word == "--":
            break
    return words[place:]


def _word(tree: Tree, number: int, depth: int = 0) -> str | None:
    """The text of a word once quotes are gone; None when something is still to be put in."""
    text = tree.text(number)
    match tree.pieces[number].kind:
        case "command_name" | "concatenation" if depth < DEEPEST_WORD:
            parts = [_word(tree, part, depth + 1) for part in tree.inside(number)]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case "word" | "number":
            return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "raw_string":
            return text[1:-1]
        case "string":
            plain = all(tree.pieces[part].kind in ('"', "string_content") for part in tree.inside(number))
            return re.sub(r'\\(["$`\\])', r"\1", text[1:-1]) if plain else None
    return None
