"""Makes labels for `bench/claim_code_search.py`: entries of a changelog, and the files that differ.

Give source packages of several versions. For each two that follow each other in one major version,
the new entries of the changelog are paired with the files of the older one that the newer one changes or
lacks.
Releases with many entries or files are left out: their files say little about one entry. With `--one`, only
releases with a single entry are taken: all of their files belong to it. With `--at-most 4`, four releases of
each project are taken, by the hash of their names, so that no project counts for much.

    python scripts/changelog_labels.py [--one] [--at-most N] NAME-1.0.tar.gz NAME-1.1.tar.gz … > labels.json
"""

import argparse
import hashlib
import json
import re
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

CHANGELOG = re.compile(
    r"(docs?/(source/|en/)?)?(CHANGES|NEWS|CHANGELOG|HISTORY|VERSIONHISTORY)(\.(rst|md|txt))?", re.IGNORECASE
)
MAX_ENTRIES, MAX_FILES, MIN_WORDS = 5, 12, 4
LEFT_OUT = re.compile(
    r"PKG-INFO|(.*/)?(?i:CHANGES|NEWS|CHANGELOG|HISTORY|VERSIONHISTORY)(\.(rst|md|txt))?|(.*/)?_?(version|__about__)\.py"
    r"|(.*/)?(?i:changelog|changes|news|newsfragments)(\.d)?/.*"
    r"|pyproject\.toml|setup\.(cfg|py)|tox\.ini|uv\.lock|.*requirements.*|\.[^/]*"
    r"|\.github/.*|.*\.egg-info/.*|doc/en/(changelog|announce).*|docs/(html/news|conf\.py)|AUTHORS.*|MANIFEST\.in"
)
REFERENCE = re.compile(
    r":(?:issue|pr|pull|ghsa|cve|user|meth-user):`[^`]*`,?|`?#\d+\b`?(?: <[^>]*>`?_*)?|Patch by .*|<https?://\S+>`?_*"
    r"|\bby @?[\w-]+(?= ?$|\))|https?://\S+"
)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ROLE = re.compile(r":\w+:`!?~?([^`<]*)[^`]*`")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--at-most", type=int)
    parser.add_argument("packages", nargs="+")
    options = parser.parse_args()
    labels = list(labels_of(options.packages, 1 if options.one else MAX_ENTRIES))
    by_project = defaultdict(list)
    for label in labels:
        by_project[label["package"]].append(label)
    chosen = {
        id(label) for each in by_project.values() for label in sorted(each, key=_hash)[: options.at_most]
    }
    json.dump([label for label in labels if id(label) in chosen], sys.stdout, indent=1, ensure_ascii=False)
    print()


def labels_of(packages: list[str], max_entries: int) -> Iterator[dict[str, Any]]:
    """The entries and the changed files of each release that has few of both."""
    for old_name, new_name in pairwise(sorted(packages, key=_version_of)):
        if _version_of(old_name)[:2] != _version_of(new_name)[:2]:
            continue
        old, new = files_of(old_name), files_of(new_name)
        entries = list(new_entries(changelog_of(old), changelog_of(new)))
        versions = (_version_text(new_name), _version_text(old_name))
        changed = sorted(
            path
            for path in old
            if not LEFT_OUT.fullmatch(path) and old[path] != new.get(path, b"").replace(*versions)
        )
        if 0 < len(entries) <= max_entries and 0 < len(changed) <= MAX_FILES:
            name, *version = _version_of(old_name)
            yield {
                "package": name,
                "version": ".".join(map(str, version)),
                "entries": entries,
                "files": changed,
            }


def _hash(label: dict[str, Any]) -> str:
    return hashlib.sha256(f"{label['package']}-{label['version']}".encode()).hexdigest()


def _version_of(package: str) -> tuple[str | int, ...]:
    """The name and the numbers of a source package."""
    name, _, version = Path(package).name.removesuffix(".tar.gz").rpartition("-")
    return name, *map(int, version.split("."))


def _version_text(package: str) -> bytes:
    """The version as a file has it; a file in which only this differs has not changed."""
    return ".".join(map(str, _version_of(package)[1:])).encode()


def files_of(package: str) -> dict[str, bytes]:
    """The content of each file of a source package, by its path below the top directory."""
    with tarfile.open(package) as archive:
        members = [member for member in archive if member.isfile()]
        return {member.name.partition("/")[2]: read_member(archive, member) for member in members}


def read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    return content.read() if content else b""


def changelog_of(files: dict[str, bytes]) -> str:
    """The longest changelog: others include it, or lead to it."""
    found = [data.decode("utf-8", "replace") for path, data in files.items() if CHANGELOG.fullmatch(path)]
    return max(found, key=len, default="")


def new_entries(old: str, new: str) -> Iterator[str]:
    """The entries of a changelog that an older one does not have, as plain text."""
    known = set(entries(old))
    for entry in dict.fromkeys(entries(new)):
        if entry not in known:
            text = REFERENCE.sub("", ROLE.sub(r"\1", LINK.sub(r"\1", entry))).replace("`", "")
            text = " ".join(re.sub(r"[(\[][_ ,]*[)\]]", "", text).split()).strip("_:, ")
            if len(text.split()) >= MIN_WORDS:
                yield text


def entries(text: str) -> Iterator[str]:
    for entry in re.findall(r"^[-*] +(.*(?:\n {2,}\S.*)*)", text, re.MULTILINE):
        yield " ".join(entry.split())


if __name__ == "__main__":
    main()
