"""Makes a Python project importable without building it: the source stays in the workspace.

An editable installation runs the project's build, which needs its source. The build of an
environment sees no source, so it writes what an editable installation would: a path entry,
the metadata of the project, and its programs.
"""

import re
import shlex
from typing import Any

from hutch.environment.detection.bounded_repository_reader import RepositoryFiles, within
from hutch.environment.detection.detected_install_steps import place
from hutch.environment.detection.manifest_parsing import table_of

NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,98}[A-Za-z0-9])?", re.ASCII)
VERSION = re.compile(r"[0-9][\w.!+]{0,60}", re.ASCII)
ENTRY = re.compile(r"[\w.]{1,200}(?::[\w.]{1,200})?", re.ASCII)
GROUP = re.compile(r"[\w.]{1,100}", re.ASCII)
MAX_ENTRIES = 50


def link_command(files: RepositoryFiles, folder: str, document: dict[str, Any], environment: str) -> str:
    """The shell text that links a project into `.venv` of the directory `environment`; may be empty."""
    project = table_of(document, "project") or table_of(document, "tool", "poetry")
    name, version = str(project.get("name", "")), str(project.get("version", ""))
    if not NAME.fullmatch(name):
        return ""
    version = version if VERSION.fullmatch(version) else "0.0.0"
    is_below_src = any(path.startswith(f"{within(folder, 'src')}/") for path in files.names)
    source = place(folder, "src") if is_below_src else place(folder)
    info = f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
    scripts = _entries(project.get("scripts"))
    groups = {"console_scripts": scripts, "gui_scripts": _entries(project.get("gui-scripts"))}
    for group, entries in list(table_of(project, "entry-points").items())[:MAX_ENTRIES]:
        if GROUP.fullmatch(group):
            groups[group] = _entries(entries)
    sections = [
        "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())])
        for group, entries in groups.items()
        if entries
    ]
    lines = [
        f"# Make {name} importable from {source}.",
        "set -e",
        """site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')""",
        f'rm -rf "$site"/{info} && mkdir -p "$site"/{info}',
        f"printf '%s\\n' {shlex.quote(source)} > \"$site\"/{info.removesuffix('.dist-info')}.pth",
        _written(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", f"{info}/METADATA"),
        _written("hutch", f"{info}/INSTALLER"),
        _written("\n".join(sections), f"{info}/entry_points.txt"),
        f"printf '%s,,\\n' {info}/METADATA {info}/INSTALLER {info}/RECORD {info}/entry_points.txt "
        f'{info.removesuffix(".dist-info")}.pth > "$site"/{info}/RECORD',
        *(_script(key, value) for key, value in scripts.items() if ":" in value),
    ]
    return "\n".join(lines)


def _entries(table: object) -> dict[str, str]:
    found = table if isinstance(table, dict) else {}
    return {
        key: value
        for key, value in list(found.items())[:MAX_ENTRIES]
        if NAME.fullmatch(key) and isinstance(value, str) and ENTRY.fullmatch(value)
    }


def _written(text: str, name: str) -> str:
    return f"printf '%s\\n' {shlex.quote(text)} > \"$site\"/{name}"


def _script(name: str, entry: str) -> str:
    module, _, attribute = entry.partition(":")
    text = (
        f"#!$PWD/.venv/bin/python\nimport sys\nfrom {module} import {attribute.partition('.')[0]}\n"
        f"sys.exit({attribute}())"
    )
    return f'printf "%s\\n" "{text}" > .venv/bin/{name} && chmod 755 .venv/bin/{name}'
