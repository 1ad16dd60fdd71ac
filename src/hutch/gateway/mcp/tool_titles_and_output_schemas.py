"""Titles of the agent's tools, and the shape of their structured content, for MCP clients.

An error has other content: `error`, the code.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}
OBJECT: Schema = {"type": "object"}


def _or_null(schema: Schema) -> Schema:
    return {"type": [schema["type"], "null"]}


def _object(required: str = "", **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": required.split()}


_ENDED = {"exit_code": _or_null(NUMBER), "signal": _or_null(NUMBER), "timed_out": FLAG, "truncated": FLAG}
_PRINTED = {"stdout": TEXT, "stderr": TEXT, **_ENDED}
_MATCH = _object("path line text matched", path=TEXT, line=NUMBER, text=TEXT, matched=FLAG)
_ENTRY = _object("path kind size", path=TEXT, kind=TEXT, size=NUMBER)
_LINES = {"first_line": NUMBER, "last_line": NUMBER, "total_lines": _or_null(NUMBER), "text": TEXT}
_BINARY = {
    "binary": FLAG,
    "size": NUMBER,
    "kind": TEXT,
    "media_type": TEXT,
    "width": NUMBER,
    "height": NUMBER,
}

TITLES = {
    "read_file": "Read a file",
    "write_file": "Write a file",
    "edit_file": "Edit a file",
    "apply_patch": "Apply a patch",
    "list_directory": "List a directory",
    "glob": "Find files",
    "grep": "Search files",
    "search_code": "Search code",
    "outline": "Outline code",
    "bash": "Run a command",
    "bash_output": "Read a command's output",
    "bash_kill": "End a command",
    "exec": "Run a program",
    "run_tests": "Run the tests",
}
OUTPUTS: dict[str, Schema] = {
    "read_file": _object("path", path=TEXT, sha256=_or_null(TEXT), **_LINES, **_BINARY),
    "write_file": _object("path", path=TEXT, sha256=TEXT, warnings=TEXTS),
    "edit_file": _object(
        "path diff changed", path=TEXT, diff=TEXT, changed=FLAG, sha256=_or_null(TEXT), warnings=TEXTS
    ),
    "apply_patch": _object("diff changed", diff=TEXT, changed=TEXTS, warnings=TEXTS),
    "list_directory": _object(
        "path entries cut", path=TEXT, entries={"type": "array", "items": _ENTRY}, cut=FLAG, ignored=NUMBER
    ),
    "glob": _object("paths total cut", paths=TEXTS, total=NUMBER, cut=FLAG),
    "grep": _object(
        "total cut",
        total=NUMBER,
        cut=FLAG,
        ignored=_or_null(NUMBER),
        paths=TEXTS,
        counts=OBJECT,
        lines={"type": "array", "items": _MATCH},
    ),
    "search_code": _object("matches missing", matches={"type": "array", "items": OBJECT}, missing=NUMBER),
    "outline": _object("path text files missing", path=TEXT, text=TEXT, files=NUMBER, missing=NUMBER),
    "bash": _object(
        "stdout stderr running",
        **_PRINTED,
        running=FLAG,
        id=_or_null(TEXT),
        cwd=TEXT,
        output_path=_or_null(TEXT),
    ),
    "bash_output": _object("id output running", id=TEXT, output=TEXT, running=FLAG, **_ENDED),
    "bash_kill": _object("id running", id=TEXT, running=FLAG),
    "exec": _object("stdout stderr", **_PRINTED),
    "run_tests": _object("tests", tests=OBJECT, failing={}, partial=FLAG),
}
