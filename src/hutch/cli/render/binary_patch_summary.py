"""Shortens binary files in a patch that people read: `logo.png: binary, 31.2 KiB`.

Git encodes their content in the patch, as lines without meaning for a reader. A patch that is written to
a file or a pipe stays complete, for `git apply`.
"""

import re

from hutch.cli.render.byte_size import byte_size

# Content of text files is indented by one character, so nothing in it looks like these lines.
HEADER = re.compile(r"^diff --git .*\s\"?b/(.+?)\"?$")
CONTENT = re.compile(r"^(literal|delta) (\d{1,15})$")
START = "GIT binary patch"


def without_binary_content(patch: str) -> str:
    """The patch with one line for each binary file."""
    if START not in patch:
        return patch
    shown: list[str] = []
    entry: list[str] = []  # the header of the current file, or all of it
    is_binary = False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            shown += entry
            entry, is_binary = [line], False
        elif line == START:
            is_binary = True
        elif not is_binary:
            entry.append(line)
        elif len(entry) > 1 or entry[0].startswith("diff "):
            entry = [_summary(entry, line)]
    if is_binary:
        entry.append("")  # the last line ends as that of every other file
    return "\n".join([*shown, *entry])


def _summary(header: list[str], content: str) -> str:
    name, found = HEADER.match(header[0]), CONTENT.match(content)
    kind = next((line.partition(" file mode")[0] for line in header if " file mode" in line), "")
    size = f", {byte_size(int(found[2]))}" if found and found[1] == "literal" and kind != "deleted" else ""
    kind = f", {kind}" if kind else ""
    return f"{name[1] if name else '?'}: binary{size}{kind}"
