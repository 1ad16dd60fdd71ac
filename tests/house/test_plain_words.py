"""Names do not use words that were retired, and docstrings do not begin with a noun clause."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Each of these once stood for several things in the code. Prose may use them as ordinary English.
RETIRED = {
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
    "house",
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
    "taking",
    "tell",
    "tells",
    "telling",
    "terms",
    "ticket",
    "tickets",
    "tidy",
    "told",
    "wanted",
    "ways",
    "who",
    "wish",
    "wishes",
}


# These stood for several things in the product. Tests may use them.
RETIRED_IN_PRODUCT = RETIRED | {"asked", "here", "kept"}
# An event type and a field of an event, which are part of the published record format.
PUBLISHED = {"QuestionAsked", "kept"}
# Modules are nouns: these named helpers of tests by an activity, or a process by its fate.
RETIRED_MODULES = {
    "answering",
    "hosting",
    "preparing",
    "running",
    "serving",
    "streaming",
    "upping",
    "victim",
    "visiting",
}
DECLARED_IN_WEB = re.compile(
    r"\b(?:const|let|function|class|type|interface|enum|private|readonly|static)\s+"
    r"(?:(\w+)|\[([\w, ]+)\]|\{([\w, :]+)\})"
)

# The name of a test is a sentence, in which these have their ordinary meaning.
ORDINARY_IN_SENTENCES = {"house", "look", "most", "said", "site", "ways", "who"}
NOUN_CLAUSE = re.compile(r"(What|Whether|Who|Whoever|Whose|Nobody|Somebody)\b")


def words(name: str) -> set[str]:
    """The words of a name in snake case, camel case or capitals."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def modules(root: Path, *folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield path.relative_to(root), ast.parse(path.read_text())


def names(root: Path) -> Iterator[tuple[str, str]]:
    """Every name that a module defines, and where."""
    for path, tree in modules(root, "src/hutch", "tests", "bench", "scripts"):
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
    retired = words(name) & RETIRED
    return retired - ORDINARY_IN_SENTENCES if name.startswith("test_") else retired


def test_a_name_is_split_into_its_words() -> None:
    assert words("MAX_IDChars_toldOf") == {"max", "id", "chars", "told", "of"}


def test_no_name_uses_a_retired_word(root: Path) -> None:
    found = [f"{place}: {name}" for place, name in names(root) if retired_words(name)]
    assert found == []


def test_no_name_of_the_product_uses_a_word_that_only_tests_may_use(root: Path) -> None:
    found = [
        f"{place}: {name}"
        for place, name in names(root)
        if place.startswith("src/") and name not in PUBLISHED and words(name) & RETIRED_IN_PRODUCT
    ]
    assert found == []


def test_no_module_is_named_by_an_activity(root: Path) -> None:
    paths = [path for path, _ in modules(root, "src/hutch", "tests", "bench", "scripts")]
    assert [str(path) for path in paths if path.stem in RETIRED_MODULES] == []


def test_names_that_a_module_of_the_web_app_declares_are_found() -> None:
    source = "const [said, setSaid] = it; private told = 1; const { lastHeardMs } = it; type Kept = {};"
    assert declared_in_web(source) == ["said", "setSaid", "told", "lastHeardMs", "Kept"]


def test_no_name_of_the_web_app_uses_a_retired_word(root: Path) -> None:
    found = [f"{place}: {name}" for place, name in web_names(root) if words(name) & RETIRED_IN_PRODUCT]
    assert found == []


def test_no_docstring_begins_with_a_noun_clause(root: Path) -> None:
    found = [
        f"{path}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for path, tree in modules(root, "src/hutch", "tests", "bench", "scripts")
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
        and NOUN_CLAUSE.match(text)
    ]
    assert found == []
