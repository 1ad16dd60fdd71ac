"""Versions of tools that a repository asks for, in files of version managers."""

import re
from collections.abc import Iterator

from hutch.domain.dependency_plan import RequestedTool
from hutch.environment.detection.bounded_repository_reader import RepositoryFiles
from hutch.environment.detection.manifest_parsing import parse_toml, table_of, texts_of

MISE = ("mise.toml", ".mise.toml")
SINGLE = {".python-version": "python", ".nvmrc": "node", ".node-version": "node", ".ruby-version": "ruby"}
SAME = {"nodejs": "node", "golang": "go"}
NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}", re.ASCII)
VERSION = re.compile(r"v?[\w.*-]{1,40}", re.ASCII)
MAX_TOOLS = 30


def requested_tools(files: RepositoryFiles) -> tuple[RequestedTool, ...]:
    """The tools that a repository asks for, each once for every file that names it."""
    found = []
    for source, name, version in _named(files):
        tool = RequestedTool(source, SAME.get(name, name), version.removeprefix("v"))
        if NAME.fullmatch(tool.name) and VERSION.fullmatch(tool.version):
            found.append(tool)
    return tuple(dict.fromkeys(found))[:MAX_TOOLS]


def _named(files: RepositoryFiles) -> Iterator[tuple[str, str, str]]:
    for source in MISE:
        for tool, value in list(table_of(parse_toml(files.text(source)), "tools").items())[:MAX_TOOLS]:
            versions = texts_of(value) or texts_of(table_of(value).get("version"))
            if versions:
                yield source, tool, versions[0]
    for line in files.text(".tool-versions").splitlines()[:MAX_TOOLS]:
        words = line.partition("#")[0].split()
        if len(words) > 1:
            yield ".tool-versions", words[0], words[1]
    for source, tool in SINGLE.items():
        if words := files.text(source)[:200].split():
            yield source, tool, words[0]
