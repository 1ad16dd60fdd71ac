"""Compares the tools that a repository asks for with those that jails have, and says what to do.

Files such as mise.toml name versions of node or python. Hutch does not install these: it says what a
jail has, and which directory of a version manager on this machine an owner could show to jails.
"""

import functools
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from hutch.domain.dependency_plan import RequestedTool
from hutch.domain.errors import HutchError
from hutch.environment.host_toolchains_in_jails import find_toolchains
from hutch.environment.layers.layer_key import DIRECTORIES
from hutch.workspace.admission.directory_checks import OwnDirectories

TIMEOUT_S = 5.0
MAX_ANSWER_CHARS = 2000
PROGRAMS = {"python": "python3", "rust": "rustc", "java": "java", "bundler": "bundle", "maven": "mvn"}
ASKS = {"go": ("version",), "java": ("-version",)}
NUMBER = re.compile(r"\d+(?:\.\d+)+")
VERSIONED = (
    *("~/.local/share/mise/installs/{tool}", "~/.asdf/installs/{tool}", "~/.asdf/installs/{other}"),
    *("~/.pyenv/versions", "~/.nvm/versions/{tool}", "~/.rustup/toolchains"),
)
"""Where version managers keep what they have installed."""
OTHER_NAMES = {"node": "nodejs", "go": "golang"}
ONE_TOOL = {"~/.pyenv/versions": "python", "~/.nvm/versions/{tool}": "node", "~/.rustup/toolchains": "rust"}


def describe_tools(
    tools: Sequence[RequestedTool], toolchains: Sequence[str], own: OwnDirectories
) -> Iterator[str]:
    """A sentence for each tool that jails lack, or have in another version. Runs programs, and blocks."""
    for tool in tools:
        has = _version_of(tool.name, toolchains)
        if has and fits(has, tool.version):
            continue
        state = f"jails have {has}" if has else "jails have none"
        installed, refusal = _installed(tool, own)
        if refusal:
            advice = f"This machine has it in {installed}, but jails cannot see that: {refusal}"
        elif installed:
            advice = f'Show it to jails: [jail] toolchains = ["{installed}"] in your settings.'
        else:
            advice = (
                f"Install it on this machine (mise install {tool.name}@{tool.version}), and name its "
                "directory in jail.toolchains."
            )
        yield f"{tool.source} asks for {tool.name} {tool.version}; {state}. {advice}"


def fits(has: str, wanted: str) -> bool:
    """True if the version that is there begins with the one that is asked for; `latest` fits all."""
    if not wanted[:1].isdigit():
        return True
    asked = [part for part in wanted.split(".") if part.isdigit()]
    # A patch release more or less is no difference that a repository depends on.
    return has.split(".")[: min(2, len(asked))] == asked[:2]


def _version_of(tool: str, toolchains: Sequence[str]) -> str:
    """The version of a tool as jails have it; empty if they do not."""
    program = PROGRAMS.get(tool, tool)
    for directory in (*(f"{each}/bin" for each in toolchains), *DIRECTORIES):
        try:
            path = Path(directory, program).resolve(strict=True)
            about = path.stat()
        except OSError:
            continue
        return _ask(str(path), ASKS.get(tool, ("--version",)), about.st_size, about.st_mtime_ns)
    return ""


@functools.lru_cache(maxsize=100)
def _ask(path: str, words: tuple[str, ...], size: int, mtime_ns: int) -> str:
    """The version that a program prints; `size` and `mtime_ns` tell whether it was replaced."""
    try:
        ran = subprocess.run(
            [path, *words],
            cwd="/",
            env={"PATH": ":".join(DIRECTORIES), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = NUMBER.search((ran.stdout + ran.stderr).decode(errors="replace")[:MAX_ANSWER_CHARS])
    return found[0] if found else "?"


def _installed(tool: RequestedTool, own: OwnDirectories) -> tuple[str, str]:
    """A directory of a version manager that has the tool, and why jails may not see it; may be empty."""
    refused = ("", "")
    for pattern in VERSIONED:
        if ONE_TOOL.get(pattern, tool.name) != tool.name:
            continue
        shown = pattern.format(tool=tool.name, other=OTHER_NAMES.get(tool.name, tool.name))
        try:
            versions = sorted(Path(shown).expanduser().iterdir(), key=_numbers, reverse=True)
        except OSError:
            continue
        for place in versions:
            number = NUMBER.search(place.name)
            if number and fits(number[0], tool.version):
                named = f"{shown}/{place.name}"
                try:
                    find_toolchains([named], own)
                except HutchError as error:
                    refused = (named, str(error))
                    continue
                return named, ""
    return refused


def _numbers(place: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d{1,9}", place.name)]
