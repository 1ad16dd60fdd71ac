"""Names do not use words that were retired, and docstrings do not begin with a noun clause."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Each of these once stood for several things in the code. Prose may use them as ordinary English.
RETIRED = {
    "asked",
    "bell",
    "bells",
    "burial",
    "desk",
    "desks",
    "doors",
    "glance",
    "grounds",
    "heard",
    "hear",
    "hears",
    "here",
    "house",
    "kept",
    "ladder",
    "letter",
    "letters",
    "longest",
    "look",
    "said",
    "talk",
    "mend",
    "mended",
    "most",
    "nameless",
    "paper",
    "patience",
    "rung",
    "rungs",
    "seat",
    "shortest",
    "site",
    "somebody",
    "spoken",
    "stuff",
    "taking",
    "tell",
    "tells",
    "telling",
    "terms",
    "thing",
    "things",
    "ticket",
    "tickets",
    "tidy",
    "told",
    "wanted",
    "ways",
    "what",
    "who",
    "whoever",
    "whose",
    "wish",
    "wishes",
}


# An event type and a field of an event, which are part of the published record format.
PUBLISHED = {"QuestionAsked", "kept"}
# Modules are nouns that name their content. These named it by an activity or a fate, or not at all.
RETIRED_MODULES = {
    "answering",
    "common",
    "helpers",
    "hosting",
    "manager",
    "misc",
    "preparing",
    "running",
    "serving",
    "streaming",
    "upping",
    "utils",
    "victim",
    "visiting",
}
DECLARED_IN_WEB = re.compile(
    r"\b(?:const|let|function|class|type|interface|enum|private|readonly|static)\s+"
    r"(?:(\w+)|\[([\w, ]+)\]|\{([\w, :]+)\})"
)

# The name of a test is a sentence, in which these have their ordinary meaning.
ORDINARY_IN_SENTENCES = {
    "asked",
    "here",
    "house",
    "kept",
    "look",
    "most",
    "said",
    "site",
    "thing",
    "things",
    "ways",
    "what",
    "who",
    "whoever",
    "whose",
}
NOUN_CLAUSE = re.compile(r"(What|Whether|Who|Whoever|Whose|Nobody|Somebody)\b")
CLAUSE_IN_TEXT = re.compile(r"(?:(?<=^)|(?<=[.!?] ))(?:What|Whether|Who|Whoever|Whose)\b[^.?]*")
COMMENT_IN_WEB = re.compile(r"^\s*(?://|/\*\*)\s*(?=\S)", re.MULTILINE)


def clauses(text: str) -> list[str]:
    """Sentences of a docstring or comment that begin with a noun clause."""
    return CLAUSE_IN_TEXT.findall(" ".join(text.split()))


def words(name: str) -> set[str]:
    """The words of a name in snake case, camel case or capitals."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def sources(root: Path) -> list[Path]:
    folders = ("src/hutch", "tests", "bench", "scripts")
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


@cache
def names_and_docstrings(root: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Every name and every docstring of the modules, and where. To parse them all takes seconds."""
    names: list[tuple[str, str]] = []
    docstrings: list[tuple[str, str]] = []
    for path in sources(root):
        tree, shown = ast.parse(path.read_text()), path.relative_to(root)
        names += defined_names(shown, tree)
        docstrings += [
            (f"{shown}:{getattr(node, 'lineno', 1)}", text)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and (text := ast.get_docstring(node))
        ]
    return names, docstrings


def defined_names(path: Path, tree: ast.Module) -> Iterator[tuple[str, str]]:
    yield str(path), path.stem
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}:{node.lineno}", node.name
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield f"{path}:{field.lineno}", field.target.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield f"{path}:{node.lineno}", node.attr
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield f"{path}:{statement.lineno}", target.id


def web_names(root: Path) -> Iterator[tuple[str, str]]:
    """The names of the web app's modules, and every name that one of them declares."""
    for path in sorted((root / "web/src").rglob("*.ts*")):
        if path.name == "schema.ts":  # generated from the API
            continue
        yield str(path.relative_to(root)), path.name.partition(".")[0]
        yield from ((str(path.relative_to(root)), name) for name in declared_in_web(path.read_text()))


def declared_in_web(source: str) -> list[str]:
    return [name for found in DECLARED_IN_WEB.findall(source) for name in re.findall(r"\w+", " ".join(found))]


def retired_words(name: str) -> set[str]:
    retired = set() if name in PUBLISHED else words(name) & RETIRED
    return retired - ORDINARY_IN_SENTENCES if name.startswith("test_") else retired


def test_a_name_is_split_into_its_words() -> None:
    assert words("MAX_IDChars_toldOf") == {"max", "id", "chars", "told", "of"}


def test_no_name_uses_a_retired_word(root: Path) -> None:
    names, _ = names_and_docstrings(root)
    found = [f"{place}: {name}" for place, name in names if retired_words(name)]
    assert found == []


def test_no_module_is_named_by_an_activity(root: Path) -> None:
    assert [str(path) for path in sources(root) if path.stem in RETIRED_MODULES] == []


def test_names_that_a_module_of_the_web_app_declares_are_found() -> None:
    source = "const [said, setSaid] = it; private told = 1; const { lastHeardMs } = it; type Kept = {};"
    assert declared_in_web(source) == ["said", "setSaid", "told", "lastHeardMs", "Kept"]


def test_no_name_of_the_web_app_uses_a_retired_word(root: Path) -> None:
    found = [f"{place}: {name}" for place, name in web_names(root) if words(name) & RETIRED]
    assert found == []


def test_no_docstring_begins_with_a_noun_clause(root: Path) -> None:
    _, docstrings = names_and_docstrings(root)
    found = [f"{place}: {text.splitlines()[0]}" for place, text in docstrings if NOUN_CLAUSE.match(text)]
    assert found == []


def test_a_clause_as_subject_is_found_in_any_sentence() -> None:
    assert clauses("A key.\n\nWhat it opens is open. The user who has it decides what to do.") == [
        "What it opens is open"
    ]


def test_no_sentence_of_a_docstring_begins_with_a_noun_clause(root: Path) -> None:
    _, docstrings = names_and_docstrings(root)
    found = [f"{place}: {clause}" for place, text in docstrings for clause in clauses(text)]
    assert found == []


def test_no_comment_begins_with_a_noun_clause(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("src/hutch", "tests", "bench", "scripts")
        for path in sorted((root / folder).rglob("*.py"))
        if "tests/attacks" not in path.as_posix()  # any change of these needs `make controls`
        for line in path.read_text().splitlines()
        if (comment := line.strip()).startswith("# ") and clauses(comment.removeprefix("# "))
    ]
    assert found == []


def test_no_comment_of_the_web_app_begins_with_a_noun_clause(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {source[comment.end() :].splitlines()[0]}"
        for path in sorted((root / "web/src").rglob("*.ts*"))
        if path.name != "schema.ts"  # generated from the API
        for source in [path.read_text()]
        for comment in COMMENT_IN_WEB.finditer(source)
        if NOUN_CLAUSE.match(source, comment.end())
    ]
    assert found == []
