"""The file that lists hooks, in the shape that other agents read too.

`{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "…"}]}]}}`
"""

import hashlib
import json
import shlex
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from hutch.domain.errors import BadRequest, HutchError
from hutch.jail.policy import WORKSPACE
from hutch.system.lazy_dataclass import dataclass

HookEvent = Literal["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
# Of a repository; the first that has hooks counts.
FILES = (".agents/hooks.json", ".codex/hooks.json", ".claude/settings.json")
PROJECT_VARIABLES = ("$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR}", "$HUTCH_WORKSPACE")
MAX_FILE_BYTES = 256 * 1024
MAX_HOOKS = 50
MAX_COMMAND_CHARS = 4000
DEFAULT_TIMEOUT_S = 60.0
MAX_TIMEOUT_S = 600.0
# The names of tools in the hooks of other agents.
COMMON_NAMES = {
    "bash": "Bash",
    "exec": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "apply_patch": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "list_directory": "LS",
    "delegate": "Task",
}
ReadFile = Callable[[str], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True)
class Hook:
    """A command for an event."""

    event: HookEvent
    matcher: str  # names of tools, with `|` between them; empty: all
    command: str
    timeout_s: float = DEFAULT_TIMEOUT_S

    def is_for(self, tool: str) -> bool:
        """True if it is about calls of this tool, by Hutch's name or the common one."""
        names = {tool, common_name(tool)}
        parts = [each.strip().replace(".*", "*") or "*" for each in self.matcher.split("|")]
        return any(fnmatchcase(name, part) for name in names for part in parts)

    @property
    def scripts(self) -> tuple[str, ...]:
        """The paths in the workspace that its command may name."""
        text = self.command
        for variable in PROJECT_VARIABLES:
            text = text.replace(variable, WORKSPACE)
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        paths = (word.removeprefix(f"{WORKSPACE}/").removeprefix("./") for word in words)
        return tuple(path for path in paths if "/" in path and not path.startswith(("/", "-")))


@dataclass(frozen=True, slots=True)
class HookFile:
    """The hooks of one file, and the scripts that they name."""

    path: str
    hooks: tuple[Hook, ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()  # paths and digests

    @property
    def digest(self) -> str:
        """Changes with every command, and with every script that one names."""
        listed = [[each.event, each.matcher, each.command, each.timeout_s] for each in self.hooks]
        return hashlib.sha256(json.dumps([listed, self.scripts]).encode()).hexdigest()


def common_name(tool: str) -> str:
    """The name of a tool in the hooks of other agents."""
    return COMMON_NAMES.get(tool, f"mcp__{tool}" if "__" in tool else tool)


def parse_hooks(path: str, raw: bytes) -> tuple[Hook, ...]:
    """Read a file of hooks. Kinds of hooks and events that Hutch does not have are left out."""
    try:
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"it is larger than {MAX_FILE_BYTES // 1024} KiB")
        whole = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The hooks in {path} cannot be used: {error}.") from None
    groups = whole.get("hooks") if isinstance(whole, dict) else None
    if groups is None:
        return ()
    if not isinstance(groups, dict):
        raise BadRequest(f'The hooks in {path} should be {{"hooks": {{"PreToolUse": [{{…}}]}}}}.')
    found: list[Hook] = []
    for event in get_args(HookEvent):
        for group in _list(groups.get(event)):
            found += _hooks(path, event, group)
    if len(found) > MAX_HOOKS:
        raise BadRequest(f"{path} has {len(found)} hooks; {MAX_HOOKS} is the maximum.")
    return tuple(found)


async def find_repository_hooks(read: ReadFile) -> HookFile | None:
    """The hooks of a repository, as it was when the session began; None if it has none."""
    for path in FILES:
        raw = await read(path)
        hooks = parse_hooks(path, raw) if raw is not None else ()
        if hooks:
            names = dict.fromkeys(script for each in hooks for script in each.scripts)
            digests = [(name, await script_digest(name, read)) for name in names]
            return HookFile(path, hooks, tuple(each for each in digests if each[1]))
    return None


async def script_digest(path: str, read: ReadFile) -> str:
    """The digest of a script; empty if there is none."""
    try:
        raw = await read(path)
    except HutchError:
        return ""
    return hashlib.sha256(raw).hexdigest() if raw is not None else ""


def _hooks(path: str, event: HookEvent, group: Any) -> list[Hook]:
    if not isinstance(group, dict):
        raise BadRequest(f"A hook for {event} in {path} is not an object.")
    matcher = group.get("matcher") or ""
    found = []
    for each in _list(group.get("hooks")):
        if not isinstance(each, dict) or each.get("type", "command") != "command":
            continue
        command, timeout_s = each.get("command"), each.get("timeout", DEFAULT_TIMEOUT_S)
        is_usable = isinstance(command, str) and command.strip() and "\0" not in command
        if not is_usable or len(str(command)) > MAX_COMMAND_CHARS or not isinstance(matcher, str):
            raise BadRequest(f"A hook for {event} in {path} has no usable command.")
        if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise BadRequest(f"A hook for {event} in {path} may take up to {MAX_TIMEOUT_S:g} s, not more.")
        found.append(Hook(event, matcher, str(command), float(timeout_s)))
    return found


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []
