"""The hosts that a build may reach, from names of package managers.

Hutch names no registry itself. An owner allows `npm` or `uv`, and the host is the one that
the user's own configuration names: variables such as UV_DEFAULT_INDEX and GOPROXY, and what
`pip config`, `npm config` and `go env` say, which is their default if nothing is
configured. If the user has no pip or npm, those beside Hutch answer: they read the same
configuration. Hosts that a lock file names are only shown, since a repository wrote them.

The tools are asked in a directory of Hutch's choice, never in a repository, whose settings
they would read.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from hutch.domain.errors import BadRequest
from hutch.environment.detection.manifest_parsing import HOST
from hutch.system.lazy_dataclass import dataclass

TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 64 * 1024
DEFAULT_PYTHON_INDEX = (
    "from pip._internal.models.index import PyPI; print(PyPI.simple_url, PyPI.file_storage_domain)"
)
PYTHON, NODE = ("pip", "uv", "poetry"), ("npm", "pnpm", "yarn")
PRESETS = (*PYTHON, *NODE, "go", "bundler", "cargo", "maven")
PIP_SETTING = re.compile(r"^(?:global|install|:env:)\.(extra-)?index-url='([^']+)'", re.M)


@dataclass(frozen=True, slots=True)
class Registries:
    """Hosts for the proxy of a build, and variables that name the indexes to its tools."""

    hosts: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


async def resolve_registries(names: Sequence[str], *, indexes: Mapping[str, str], ask_in: Path) -> Registries:
    """The registries of these presets and host names. `indexes` are the user's own variables."""
    hosts: dict[str, None] = {}
    variables: dict[str, str] = {}
    notes: list[str] = []
    answers: dict[tuple[str, ...], list[str]] = {}  # by names that share a registry: their tool is asked once
    for name in dict.fromkeys(names):
        if name not in PRESETS:
            if not HOST.fullmatch(name.removeprefix("*.")):
                raise BadRequest(
                    f"environment.registries has {name[:100]!r}, which is neither a package manager nor a "
                    f"host. Use one of {', '.join(PRESETS)}, or a host such as packages.example.com."
                )
            hosts[name] = None
            continue
        group = next((group for group in (PYTHON, NODE) if name in group), (name,))
        if group not in answers:
            answers[group] = await _addresses(name, indexes, ask_in)
        urls = answers[group]
        found = [host for url in urls if (host := _host(url))]
        if not found:
            notes.append(
                f"'{name}' names no registry on this machine: no configuration of its tool was found. "
                "Name its hosts in environment.registries, such as those of the lock file."
            )
        hosts |= dict.fromkeys(found)
        variables |= _variables(name, [url for url in urls if "://" in url])
    return Registries(tuple(hosts), variables, tuple(notes))


async def _addresses(name: str, indexes: Mapping[str, str], ask_in: Path) -> list[str]:
    """The addresses of a manager's registry, and hosts of its files; the index comes first."""
    if name in PYTHON:
        return await _python_addresses(indexes, ask_in)
    if name in NODE:
        node = ("npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_NPM_REGISTRY_SERVER")
        named = [indexes[each] for each in node if each in indexes]
        return named or (await _answer(["npm", "config", "get", "registry"], ask_in)).split()
    if name == "go":
        text = indexes.get("GOPROXY") or await _answer(["go", "env", "GOPROXY"], ask_in)
        return [url for url in re.split(r"[,|\s]+", text) if "://" in url]
    if name == "bundler":
        return [word for word in (await _answer(["gem", "sources"], ask_in)).split() if "://" in word]
    return []


async def _python_addresses(indexes: Mapping[str, str], ask_in: Path) -> list[str]:
    """The index comes first, then the host of its files if it is the default, then further indexes."""
    order = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    first = next((indexes[each] for each in order if each in indexes), "")
    more = indexes.get("PIP_EXTRA_INDEX_URL", "")
    if not any(map(_host, first.split())):
        python, default = await _default_python_index(ask_in)
        if not first:
            listed = PIP_SETTING.findall(await _answer([python, "-m", "pip", "config", "list"], ask_in))
            first = " ".join(urls for extra, urls in listed if not extra)
            more = f"{more} {' '.join(urls for extra, urls in listed if extra)}"
        first = first if any(map(_host, first.split())) else default
    # An index in a directory of this machine is not in the jail.
    return [url for url in dict.fromkeys(f"{first} {more}".replace("\\n", " ").split()) if _host(url)]


async def _default_python_index(ask_in: Path) -> tuple[str, str]:
    """The first interpreter that has pip, and the index that this pip uses without configuration."""
    for python in ("python3", sys.executable):
        if default := await _answer([python, "-c", DEFAULT_PYTHON_INDEX], ask_in):
            return python, default
    return "python3", ""


async def _answer(command: Sequence[str], ask_in: Path) -> str:
    """The output of a tool of the user or beside Hutch; empty if missing, failed, or too slow."""
    program, *words = command
    beside = str(Path(sys.executable).parent)
    try:
        process = await asyncio.create_subprocess_exec(
            shutil.which(program) or shutil.which(program, path=beside) or program,
            *words,
            cwd=ask_in,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output[:MAX_ANSWER_BYTES].decode(errors="replace") if process.returncode == 0 else ""


def _variables(name: str, urls: list[str]) -> dict[str, str]:
    """The variables that make a manager use these indexes. Credentials stay out: scripts would read them."""
    public = [_without_credentials(url) for url in urls]
    if not public:
        return {}
    if name in PYTHON:
        more = {"PIP_EXTRA_INDEX_URL": " ".join(public[1:])} if len(public) > 1 else {}
        return {"PIP_INDEX_URL": public[0], "UV_DEFAULT_INDEX": public[0], **more}
    if name in NODE:
        return {"npm_config_registry": public[0], "YARN_NPM_REGISTRY_SERVER": public[0].rstrip("/")}
    return {"GOPROXY": ",".join(public)} if name == "go" else {}


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))


def _host(url: str) -> str:
    """The host of an address, with its port if it is not the usual one; empty if there is none."""
    try:
        parts = urlsplit(url if "://" in url or url.startswith("/") else f"https://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https"):
        return ""
    usual = {"http": 80, "https": 443}[parts.scheme]
    return host if port in (None, usual) else f"{host}:{port}"
