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
from pathlib import PurePosixPath

from hutch.workspace.edit.grammar import Grammar, Tree, Unanswered, syntax_tree

BASH = Grammar("Bash", "tree_sitter_bash")
Words = tuple[str | None, ...]  # None where a word is known only when it runs

DEEPEST = 5  # of `bash -c` in `bash -c`
LONGEST = 100_000
DEEPEST_WORD = 10  # of quotes in words in words
SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}
# Programs that run the program named after their own options; of these, the ones that take a value.
WRAPPERS: dict[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T"}),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "-C", "-S", "--unset", "--chdir"}),
    "nohup": frozenset(),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "time": frozenset({"-f", "-o"}),
    "timeout": frozenset({"-k", "-s", "--kill-after", "--signal"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "setsid": frozenset(),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"}),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset({"-a"}),
}
GIT_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})


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
        if name not in WRAPPERS:
            return Parsed((words,), clear=True)
        rest = _after_options(words[1:], WRAPPERS[name])
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
    """What `bash -c` is given: its text, None when that is not known, or that there is no such thing."""
    for place, word in enumerate(words[1:-1], start=1):
        if word is not None and re.fullmatch(r"-[a-z]*c[a-z]*", word):
            return words[place + 1]
        if word is None or not word.startswith("-"):
            break
    return _NONE


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
