"""The words of shell commands, and the texts that bash may read otherwise than the grammar.

The grammar and bash disagree in places: on characters that are neither space nor
word, on the end of a here-document, on words after a redirection. Wherever bash could
see something else, the text is unclear.
"""

import re
from collections.abc import Iterator

from hutch.edit.syntax_parser import SyntaxTree

Words = tuple[str | None, ...]  # None: known only at run time, and may be several words or none

MAX_WORD = 10  # depth of nested quotes
# Characters that bash takes as part of a word and the grammar as space, so that only one of them sees a
# comment; and lines that continue in the middle of a word.
MISREAD = re.compile(r"[\x00-\x08\x7f]|[^\S \t\n]|[^ \t\n]\\\n[^ \t\n]")
# Bash evaluates a subscript wherever a variable is named, even in quoted text.
SUBSCRIPT = re.compile(r"\w\[[^\]]*(?:\$\(|`)")
# Variables whose value bash or git runs, or that name a file to read at the start.
RUN_VARIABLE = re.compile(
    r"(?:PS\d|PROMPT_COMMAND|BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|GIT_(?:CONFIG\w*|EXEC_PATH))\+?="
    r"|(?:GIT_(?!AUTHOR|COMMITTER)\w*|PAGER|EDITOR|VISUAL)\+?=(?![\"']?[\w./-]*[\"']?\Z)"
)
DELIMITER = re.compile(r"""(\\?\w+)|'(\w[^'\n]*)'|"(\w[\w ]*)\"""")
SUBSTITUTION = re.compile(r"(?<!\\)(?:\\\\)*(?:`|[$<>]\()")
QUOTED = frozenset(
    ("raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_content", "heredoc_end")
)
EXPANDED = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")


def misread(text: str, tree: SyntaxTree) -> bool:
    """True if bash may read a text otherwise than the grammar does."""
    if not tree.is_valid or MISREAD.search(text) or SUBSCRIPT.search(text):
        return True
    return any(_odd(tree, number) for number in range(len(tree.nodes)))


def plain(tree: SyntaxTree) -> bool:
    """True if the text has only commands: it sets, writes and defines nothing."""
    for number, node in enumerate(tree.nodes):
        match node.kind:
            case "variable_assignment" | "declaration_command" | "function_definition" | "unset_command":
                return False
            case "heredoc_redirect" | "herestring_redirect":
                return False
            case "file_redirect" if not _harmless(tree, number):
                return False
    return True


def commands(tree: SyntaxTree) -> Iterator[Words]:
    """The simple commands of a text as words."""
    late = _late_words(tree)
    for number, node in enumerate(tree.nodes):
        if node.kind == "command":
            parts = [(tree.nodes[part].field, part) for part in tree.children(number)]
            words = [part for field, part in parts if field == "name"]
            words += [part for field, part in parts if field == "argument"]
            yield tuple(_word(tree, part) for part in [*words, *late.get(number, [])])


def _late_words(tree: SyntaxTree) -> dict[int, list[int]]:
    """Words of commands that come after a redirection."""
    found: dict[int, list[int]] = {}
    for number, node in enumerate(tree.nodes):
        if node.kind == "redirected_statement":
            inside = tree.children(number)
            words = [word for part in inside for word in _beyond(tree, part)]
            body = next((part for part in inside if tree.nodes[part].field == "body"), None)
            if words and body is not None:
                found[body] = words
    return found


def _beyond(tree: SyntaxTree, number: int) -> list[int]:
    """The nodes that the grammar takes as part of a redirection, and bash as words of the command."""
    inside = [(tree.nodes[part].field, part) for part in tree.children(number)]
    match tree.nodes[number].kind:
        case "file_redirect":
            return [part for field, part in inside if field == "destination"][1:]
        case "heredoc_redirect":
            deeper = [word for _, part in inside for word in _beyond(tree, part)]
            return [part for field, part in inside if field == "argument"] + deeper
    return []


def _odd(tree: SyntaxTree, number: int) -> bool:
    node, text = tree.nodes[number], tree.text(number)
    match node.kind:
        case "redirected_statement":
            body = [part for part in tree.children(number) if tree.nodes[part].field == "body"]
            late = any(_beyond(tree, part) for part in tree.children(number))
            return late and [tree.nodes[part].kind for part in body] != ["command"]
        case "heredoc_redirect":
            return _odd_document(tree, number)
        case "variable_assignment":
            return bool(RUN_VARIABLE.match(text))
    is_leaf = not tree.children(number) and node.kind != text and node.kind not in QUOTED
    return is_leaf and bool(SUBSTITUTION.search(text))


def _odd_document(tree: SyntaxTree, number: int) -> bool:
    """True if a here-document may end elsewhere, or holds commands that the grammar does not see."""
    parts = {tree.nodes[part].kind: part for part in tree.children(number)}
    if not {"heredoc_start", "heredoc_body", "heredoc_end"} <= set(parts):
        return True
    start = DELIMITER.fullmatch(tree.text(parts["heredoc_start"]))
    if start is None:
        return True
    delimiter = next(group for group in start.groups() if group).removeprefix("\\")
    line = tree.line(parts["heredoc_end"])
    if "<<-" in parts:
        line = line.lstrip("\t")
    written = start[0] == delimiter
    return line != delimiter or (written and "`" in tree.text(parts["heredoc_body"]))


def _harmless(tree: SyntaxTree, number: int) -> bool:
    """True if a redirection only joins two streams, or discards one."""
    kinds = [tree.nodes[part].kind for part in tree.children(number)]
    target = [tree.text(part) for part in tree.children(number) if tree.nodes[part].field == "destination"][
        :1
    ]
    return target == ["/dev/null"] or ((">&" in kinds or "<&" in kinds) and target[:1] in (["1"], ["2"]))


def _word(tree: SyntaxTree, number: int, depth: int = 0) -> str | None:
    """The text of a word without quotes; None when bash expands something in it."""
    text = tree.text(number)
    match tree.nodes[number].kind:
        case "command_name" | "concatenation" if depth < MAX_WORD:
            inside = tree.children(number)
            bare = "".join(tree.text(part) for part in inside if tree.nodes[part].kind == "word")
            if len(inside) > 1 and (EXPANDED.search(bare) or ("{" in bare and ("," in text or ".." in text))):
                return None  # it expands to file names, or to several words
            parts = [_word(tree, part, depth + 1) for part in inside]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case "word" | "number":
            if EXPANDED.search(text) and text != "[":
                return None  # it expands to file names
            if text.startswith("~") and "/" not in text:
                return None
            return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        case "raw_string":
            return text[1:-1]
        case "string":
            known = all(tree.nodes[part].kind in ('"', "string_content") for part in tree.children(number))
            return re.sub(r'\\(["$`\\])', r"\1", text[1:-1]) if known else None
    return None
