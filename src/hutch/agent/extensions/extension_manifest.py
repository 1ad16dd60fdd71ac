"""The manifest of an extension: its program or address, and what its jail may use.

An extension is an MCP server (a command, or an address), or a program of one's own in a folder with
`extension.json`. The fields beside `command`, `args`, `env`, `url` and `headers`, which other clients of MCP
have too, are Hutch's.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hutch.agent.extensions.untrusted_tool_description import DeclaredTool
from hutch.agent.tool_call_rules import Rule, parse_rule
from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest, HutchError
from hutch.jail.egress import parse_allow_list
from hutch.jail.policy import MIB
from hutch.system.lazy_dataclass import dataclass

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}[a-z0-9]|[a-z]")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
FOLDER_FILE = "extension.json"
MAX_MANIFEST_BYTES = 256 * 1024
# They download the program when it starts: what runs could differ from what was approved.
DOWNLOADERS = frozenset({"npx", "uvx", "bunx", "pipx", "pnpx", "docker", "podman"})
HIDDEN = ("/", "/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var")
Kind = Literal["mcp", "http", "program"]
Text = Annotated[str, Field(max_length=4096)]
Texts = Annotated[list[Text], Field(max_length=200)]


class _ToolFields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    description: str = Field("", max_length=8000)
    inputSchema: dict[str, Any] = Field(default_factory=dict)


class ManifestFields(BaseModel):
    """An entry of the catalogue, or the file in the folder of an extension."""

    model_config = ConfigDict(extra="forbid")

    description: Text = ""
    type: Literal["stdio", "http", "streamable-http"] | None = None  # of other clients; the fields decide
    command: Text | None = None
    args: Texts = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict, max_length=100)
    url: Text | None = None
    headers: dict[str, str] = Field(default_factory=dict, max_length=50)
    folder: Text | None = None
    declares: list[_ToolFields] = Field(default_factory=list, max_length=64)
    paths: Texts = Field(default_factory=list)
    workspace: Literal["none", "read", "write"] = "none"
    network: Texts = Field(default_factory=list)
    secrets: Texts = Field(default_factory=list)
    tools: Texts = Field(default_factory=lambda: ["*"])
    personas: Texts = Field(default_factory=list)
    rules: Texts = Field(default_factory=list)
    timeout_s: float = Field(60.0, gt=0, le=600)
    memory_bytes: int = Field(512 * MIB, ge=64 * MIB, le=8192 * MIB)
    output_chars: int = Field(20_000, ge=100, le=200_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checked manifest."""

    name: str
    kind: Kind
    description: str = ""
    argv: tuple[str, ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    paths: tuple[str, ...] = ()  # of the host, visible at the same place and read-only
    workspace: Literal["none", "read", "write"] = "none"
    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # names of jail secrets that become variables, or parts of headers
    tools: tuple[str, ...] = ("*",)  # patterns of its tools that are used
    personas: tuple[str, ...] = ()  # that have it, beside those that name it themselves
    rules: tuple[Rule, ...] = ()
    timeout_s: float = 60.0
    memory_bytes: int = 512 * MIB
    output_chars: int = 20_000
    declared: tuple[DeclaredTool, ...] = ()  # by a program, in its manifest
    raw: Mapping[str, Any] = field(default_factory=dict)  # as it is written

    @property
    def digest(self) -> str:
        """Changes with every field."""
        text = json.dumps(self.raw, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def uses(self, tool: str) -> bool:
        """True if the manifest selects this tool of its server."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)


def parse_manifest(name: str, values: object) -> Manifest:
    """Check an entry of the catalogue. One that names a folder gets the rest from the file there."""
    if not NAME.fullmatch(name):
        raise BadRequest(
            f"'{name[:80]}' is not the name of an extension. Use lower-case letters, digits and hyphens, a "
            "letter first, 32 at most."
        )
    fields = _fields(name, values)
    raw = fields.model_dump(mode="json", exclude_unset=True)
    if fields.folder is not None:
        fields, raw = _with_folder(name, fields, raw)
    kind: Kind = "http" if fields.url else "program" if fields.folder else "mcp"
    argv = _argv(name, fields)
    if fields.url and fields.folder:
        raise BadRequest(f"Extension {name} has both url and folder. Keep one.")
    return Manifest(
        name=name,
        kind=kind,
        description=fields.description,
        argv=argv,
        url=_url(name, fields.url) if fields.url else "",
        headers=tuple(fields.headers.items()),
        variables=_variables(name, fields.env),
        paths=tuple(_path(name, each) for each in fields.paths),
        workspace=fields.workspace,
        network=_hosts(name, fields),
        secrets=_secrets(name, fields),
        tools=tuple(fields.tools),
        personas=tuple(fields.personas),
        rules=_rules(name, fields.rules),
        timeout_s=fields.timeout_s,
        memory_bytes=fields.memory_bytes,
        output_chars=fields.output_chars,
        declared=tuple(
            DeclaredTool(each.name, each.description, each.inputSchema) for each in fields.declares
        ),
        raw=raw,
    )


def _fields(name: str, values: object) -> ManifestFields:
    try:
        return ManifestFields.model_validate(values)
    except ValidationError as error:
        problem = validation_messages.describe_with_location(error.errors(include_url=False)[0])
        raise BadRequest(f"Extension {name}: {problem}.") from None


def _with_folder(
    name: str, entry: ManifestFields, raw: dict[str, Any]
) -> tuple[ManifestFields, dict[str, Any]]:
    """The file in the folder, with the choices of the catalogue over it."""
    folder = Path(_path(name, entry.folder or ""))
    path = folder / FOLDER_FILE
    try:
        content = path.read_bytes()
        if len(content) > MAX_MANIFEST_BYTES:
            raise BadRequest(f"{path} is larger than {MAX_MANIFEST_BYTES // 1024} KiB. Shorten it.")
        of_folder = json.loads(content)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise BadRequest(f"{path} is not JSON: {error}.") from None
    if not isinstance(of_folder, dict) or not of_folder.get("command") or not of_folder.get("declares"):
        raise BadRequest(
            f"{path} needs a command, and declares with its tools: name, description, inputSchema."
        )
    of_folder.pop("name", None)
    merged = {**of_folder, **raw}
    fields = _fields(name, merged)
    argv0 = fields.command or ""
    if argv0.startswith("./"):
        fields = fields.model_copy(update={"command": str(folder / argv0[2:])})
    return fields.model_copy(update={"paths": [*fields.paths, str(folder)]}), merged


def _argv(name: str, fields: ManifestFields) -> tuple[str, ...]:
    if fields.url:
        if fields.command:
            raise BadRequest(f"Extension {name} has both command and url. Keep one.")
        return ()
    if not fields.command:
        raise BadRequest(f"Extension {name} needs a command, a url or a folder.")
    program = posixpath.basename(fields.command)
    if program in DOWNLOADERS or (program in ("uv", "npm", "pnpm", "yarn") and fields.args[:1] != ["run"]):
        raise BadRequest(
            f"Extension {name} starts with {program}, which downloads its program each time: nobody could "
            "approve what will run. Install the program, and name it in command and its directory in paths."
        )
    return (fields.command, *fields.args)


def _url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_http = False
    if not is_http or parts.username is not None or not url.isprintable():
        raise BadRequest(
            f"Extension {name}: the url should be such as https://mcp.example.com/mcp, without a password."
        )
    return url


def _path(name: str, path: str) -> str:
    normal = posixpath.normpath(path)
    if not path.startswith("/") or normal in HIDDEN or not path.isprintable():
        raise BadRequest(
            f"Extension {name} cannot use the path '{path[:200]}'. Name the absolute path of the program's "
            "own directory, such as /opt/mcp-files."
        )
    return normal


def _variables(name: str, env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    for variable, value in env.items():
        if not VARIABLE.fullmatch(variable) or "\0" in value or len(value) > 8192:
            raise BadRequest(f"Extension {name}: '{variable[:80]}' is not a variable with a usable value.")
    return tuple(env.items())


def _secrets(name: str, fields: ManifestFields) -> tuple[str, ...]:
    """The names of secrets, also those that headers refer to."""
    named = [
        *fields.secrets,
        *(each for value in fields.headers.values() for each in REFERENCE.findall(value)),
    ]
    for each in named:
        if not VARIABLE.fullmatch(each):
            raise BadRequest(f"Extension {name}: '{each[:80]}' is not the name of a secret.")
    return tuple(dict.fromkeys(named))


def _hosts(name: str, fields: ManifestFields) -> tuple[str, ...]:
    """The hosts that it may reach; for a server at an address, that one."""
    hosts = list(fields.network)
    if fields.url:
        parts = urlsplit(fields.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        hosts = [f"{host}:{port}"]
    try:
        parse_allow_list(hosts)
    except HutchError as error:
        raise BadRequest(f"Extension {name}: {error}") from None
    return tuple(dict.fromkeys(hosts))


def _rules(name: str, lines: list[str]) -> tuple[Rule, ...]:
    """Rules about its own tools: `ask create_*` is `ask NAME__create_*`."""
    found = []
    for line in lines:
        action, _, pattern = line.strip().partition(" ")
        if action not in ("ask", "deny") or not pattern.strip() or " " in pattern.strip():
            raise BadRequest(
                f"Extension {name}: '{line[:80]}' is not a rule. Write `ask TOOL` or `deny TOOL`."
            )
        found.append(parse_rule(f"{action} {name}__{pattern.strip()}", f"extension {name}"))
    return tuple(found)
