"""Describes a repository in one sentence for the followers of a run: files, languages, tests."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from hutch.agent.tools.interface import Context
from hutch.domain.errors import Denied, NotFound
from hutch.snapshots.git_storage import Snapshot
from hutch.system.terminal_safe_text import printable
from hutch.workspace.files.directory_listing import Page

MAX_LANGUAGES = 3
MAX_COMMAND = 100  # characters
LANGUAGES = {
    "py": "Python",
    "pyi": "Python",
    "ipynb": "Jupyter",
    "js": "JavaScript",
    "mjs": "JavaScript",
    "cjs": "JavaScript",
    "jsx": "JavaScript",
    "ts": "TypeScript",
    "tsx": "TypeScript",
    "vue": "Vue",
    "svelte": "Svelte",
    "html": "HTML",
    "css": "CSS",
    "scss": "CSS",
    "go": "Go",
    "rs": "Rust",
    "c": "C",
    "h": "C",
    "cc": "C++",
    "cpp": "C++",
    "cxx": "C++",
    "hpp": "C++",
    "cs": "C#",
    "java": "Java",
    "kt": "Kotlin",
    "kts": "Kotlin",
    "scala": "Scala",
    "swift": "Swift",
    "m": "Objective-C",
    "rb": "Ruby",
    "php": "PHP",
    "pl": "Perl",
    "pm": "Perl",
    "lua": "Lua",
    "ex": "Elixir",
    "exs": "Elixir",
    "erl": "Erlang",
    "hs": "Haskell",
    "ml": "OCaml",
    "clj": "Clojure",
    "dart": "Dart",
    "r": "R",
    "jl": "Julia",
    "zig": "Zig",
    "sh": "Shell",
    "bash": "Shell",
    "sql": "SQL",
    "tf": "Terraform",
    "md": "Markdown",
    "rst": "reStructuredText",
}


async def describe_structure(context: Context, first: Snapshot, listed: Page) -> str:
    """Describe the workspace at the start of its first run. `listed` are its files, or the first of them."""
    paths = [entry.path for entry in listed.entries if entry.kind == "file"]
    try:
        suites = await context.repository_tests.suites(listed)
        tests = context.redactor.redact("; ".join(map(str, suites)))
    except (NotFound, Denied):
        tests = ""
    return sentence(paths, files=first.files, tests=tests)


def sentence(paths: Sequence[str], *, files: int, tests: str) -> str:
    """Build the sentence; `paths` are all files, or the first of them."""
    suffixes = [PurePosixPath(path).suffix[1:].lower() for path in paths]
    found = Counter(LANGUAGES[suffix] for suffix in suffixes if suffix in LANGUAGES)
    languages = [f"{name} ({count})" for name, count in found.most_common(MAX_LANGUAGES)]
    if (more := len(found) - MAX_LANGUAGES) > 0:
        languages.append(f"{more} more language{'s' if more != 1 else ''}")
    counted = ", ".join([f"{files} file{'s' if files != 1 else ''}", *languages])
    partial = f" among the first {len(paths)}" if languages and len(paths) < files else ""
    ran = f"tests: {printable(tests)[:MAX_COMMAND]}" if tests else "no tests found"
    return f"Looked at the repository: {counted}{partial}; {ran}."
