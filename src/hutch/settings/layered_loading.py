"""The layers of settings, and their order.

A value comes from, in this order: a flag, a `HUTCH_*` variable, the user's own file,
the repository's file, the default. Errors in the first three stop Hutch. A
repository's file is untrusted: the rules of `repository_settings_file.py` decide what it may set,
and its errors are never fatal.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ByteSize, ValidationError

from hutch.domain.errors import BadRequest
from hutch.domain.redaction import Redactor
from hutch.settings import repository_settings_file
from hutch.settings.installation_paths import Paths
from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.schema import (
    FIELDS,
    RENAMED,
    SECTIONS,
    Settings,
    environment_variable,
    repository_access,
    size_text,
)
from hutch.settings.setting_error_messages import describe
from hutch.system.lazy_dataclass import dataclass

MAX_REFUSALS = 20
FLAG, DEFAULT = "the command line", "default"
# Not settings: the home directory, and the server that commands talk to.
OTHER_VARIABLES = frozenset({"HUTCH_HOME", "HUTCH_SERVER", "HUTCH_TOKEN"})
NO_FLAGS: Mapping[str, Any] = MappingProxyType({})

MAY_HOLD_PASSWORD = frozenset({"database.url"})  # by mistake
_SECRETIVE = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
# Kubernetes sets these for a service named hutch or hutch-something; they are not settings.
_FOREIGN = re.compile(
    r"HUTCH_(?!\w*__)(\w+_)?"
    r"((SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP)).*|PORT=(tcp|udp|sctp)://.*)"
)
_redactor = Redactor()


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in effect, the origin of each, and the refused settings of the repository."""

    settings: Settings
    paths: Paths
    origins: Mapping[str, str]
    refused: tuple[str, ...] = ()
    values: "Mapping[str, SourcedValue]" = field(default_factory=dict)  # those that are not defaults

    def is_from_repository(self, name: str) -> bool:
        """True if a setting has its value from the repository."""
        origin = Path(self.origins.get(name, ""))
        return (
            origin.parts[-2:] == (repository_settings_file.FOLDER, repository_settings_file.FILE)
            and origin != self.paths.config_file
        )

    def values_of_repository(self, section: str) -> dict[str, Any]:
        """The settings of a section that have their values from the repository."""
        values = dict(getattr(self.settings, section))
        return {name: value for name, value in values.items() if self.is_from_repository(f"{section}.{name}")}

    def value(self, name: str) -> Any:
        """A setting by its dotted name."""
        return attrgetter(name)(self.settings)

    def with_repository(self, config: bytes) -> "LoadedSettings":
        """These settings with the content of a repository's settings file."""
        values, path = dict(self.values), f"{repository_settings_file.FOLDER}/{repository_settings_file.FILE}"
        refused = _admit(lambda: repository_settings_file.parse(config), path, values)
        return _loaded(self.paths, values, refused)


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value as it was written, and where."""

    value: object
    origin: str


def user_environment() -> dict[str, str]:
    """The user's whole environment, for host programs that act for the user."""
    return dict(os.environ)


def load(
    flags: Mapping[str, Any] = NO_FLAGS, repo: Path | None = None, environ: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Merge all layers. `flags` is nested like the settings; None in it means not set."""
    environ = os.environ if environ is None else environ
    paths = Paths.of(environ)
    layers = [_user_file(paths.config_file), _environment(environ), _flat(flags, FLAG)]
    problems = [problem for layer in layers for problem in _problems(layer)]
    problems += _unknown_variables(environ)
    if len(problems) == 1:
        raise BadRequest(problems[0])
    if problems:
        raise BadRequest("\n- ".join([f"{len(problems)} settings are wrong:", *problems]))
    values = {name: one for layer in layers for name, one in layer.items()}
    refused = []
    if repo is not None:
        refused = _admit(
            lambda: repository_settings_file.read(repo),
            str(repository_settings_file.config_file(repo)),
            values,
        )
    return _loaded(paths, values, refused)


def _loaded(paths: Paths, values: Mapping[str, SourcedValue], refused: Sequence[str]) -> LoadedSettings:
    origins = {name: values[name].origin if name in values else DEFAULT for name in FIELDS}
    return LoadedSettings(_validated(values), paths, origins, tuple(refused), values)


def _flat(table: Mapping[str, Any], origin: str, prefix: str = "") -> dict[str, SourcedValue]:
    """`{"jail": {"processes": 5}}` as `{"jail.processes": SourcedValue(5, origin)}`."""
    flat: dict[str, SourcedValue] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if name in SECTIONS and isinstance(value, Mapping):
            flat |= _flat(value, origin, f"{name}.")
        elif value is not None:  # a flag that is not set
            flat[name] = SourcedValue(value, origin)
    return flat


def _user_file(path: Path) -> dict[str, SourcedValue]:
    try:
        return _flat(tomllib.loads(path.read_bytes().decode()), str(path))
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise BadRequest(
            f"The settings in {path} cannot be read: Permission denied. "
            "Make it readable, or set HUTCH_HOME to a directory of your own."
        ) from None
    except OSError as error:
        raise BadRequest(
            f"The settings in {path} cannot be read: {error.strerror}. Fix or move it."
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f"{path} is not valid TOML: {repository_settings_file.describe_toml_error(error)}. "
            "Correct it or move it away."
        ) from None


def _environment(environ: Mapping[str, str]) -> dict[str, SourcedValue]:
    """Settings from variables. An empty variable counts as not set."""
    variables = {name: environment_variable(name) for name in FIELDS}
    return {name: SourcedValue(environ[each], each) for name, each in variables.items() if environ.get(each)}


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = {environment_variable(name) for name in FIELDS} | OTHER_VARIABLES
    unknown = [
        name
        for name, value in environ.items()
        if name.startswith("HUTCH_") and name not in known and not _FOREIGN.fullmatch(f"{name}={value}")
    ]
    return [_unknown(name, "the environment", known) for name in sorted(unknown)]


def _problems(layer: Mapping[str, SourcedValue]) -> list[str]:
    """A sentence about each wrong value, also about one that another layer overrides."""
    problems = []
    for name, one in layer.items():
        if name in SECTIONS:
            problems.append(
                f"{name} (from {one.origin}) is a section: it contains settings, and has no value itself."
            )
        elif name not in FIELDS:
            problems.append(_unknown(name, one.origin, FIELDS.keys()))
        elif problem := _problem(name, one):
            problems.append(f"{name} is {_quote_value(name, one.value)} (from {one.origin}). {problem}.")
    return problems


def _problem(name: str, one: SourcedValue) -> str:
    """The allowed values when the value is wrong; else empty."""
    try:
        _validated({name: one})
    except ValidationError as error:
        return describe(
            error.errors(include_url=False)[0], is_size=FIELDS[name].annotation in (ByteSize, ByteSize | None)
        )
    return ""


def _validated(values: Mapping[str, SourcedValue]) -> Settings:
    nested: dict[str, Any] = {}
    for name, one in values.items():
        section, _, key = name.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[key] = one.value
    return Settings(**nested)


def _admit(read: Callable[[], Mapping[str, Any]], path: str, values: dict[str, SourcedValue]) -> list[str]:
    """Add the settings that a repository may set to `values`; return a sentence about each other one."""
    try:
        requested = _flat(read(), path)
    except repository_settings_file.UnusableFile as error:
        return [f"{path!r} is ignored: {error}."]
    present = _validated(values)
    refused = []
    for name, one in requested.items():
        why = _refusal(name, one, present)
        is_tightened = name in FIELDS and repository_access(name) is RepositoryAccess.TIGHTEN
        if why:
            refused.append(
                f"{path!r} sets {_quote_name(name)} to {_quote_value(name, one.value)}, ignored: {why}."
            )
        elif name not in values or (is_tightened and values[name].origin != FLAG):
            values[name] = one
    if len(refused) > MAX_REFUSALS:
        refused[MAX_REFUSALS:] = [f"{path!r} has {len(refused) - MAX_REFUSALS} more that are ignored."]
    return refused


def _refusal(name: str, requested: SourcedValue, present: Settings) -> str:
    """Why a repository may not set this; empty when it may."""
    if name not in FIELDS:
        return "there is no such setting"
    if repository_access(name) is RepositoryAccess.NEVER:
        return "a repository may not set it; set it in your own settings if you want it"
    if problem := _problem(name, requested):
        return problem[0].lower() + problem[1:]
    now, new = attrgetter(name)(present), attrgetter(name)(_validated({name: requested}))
    if repository_access(name) is RepositoryAccess.TIGHTEN and not repository_settings_file.is_tighter(
        new, now
    ):
        return f"a repository may only tighten it, and it is {_quote_value(name, now)}"
    return ""


def _unknown(name: str, origin: str, known: Collection[str]) -> str:
    renamed = RENAMED | {environment_variable(old): environment_variable(new) for old, new in RENAMED.items()}
    if name in renamed:
        return f"{name} (from {origin}) has a new name: {renamed[name]}. Rename it there."
    bare = {one.removeprefix("HUTCH_"): one for one in known}
    close = difflib.get_close_matches(name.removeprefix("HUTCH_"), bare, n=1)
    near = [one for one in known if one.endswith(f".{name}")] or [bare[one] for one in close]
    if _SECRETIVE.search(name) and not name.startswith(("secrets.", "HUTCH_SECRETS__")):
        hint = "Secrets are not settings: store them with `hutch config set-secret NAME`."
    elif near:
        hint = f"Did you mean {near[0]}?"
    else:
        hint = "Remove it; `hutch config show --defaults` lists all settings."
    return f"{_quote_name(name)} (from {origin}) is not a setting. {hint}"


def _quote_name(name: str) -> str:
    return name if re.fullmatch(r"[\w.]{1,80}", name, re.ASCII) else repr(name[:80])


def _quote_value(name: str, value: object) -> str:
    """A value for a message: short, on one line, without secrets."""
    if _SECRETIVE.search(name) or name in MAY_HOLD_PASSWORD:
        return "a value that is not shown"
    if isinstance(value, ByteSize):
        return size_text(value)
    try:
        text = _redactor.redact(repr(list(value) if isinstance(value, tuple) else value))
    except (ValueError, RecursionError):  # an absurdly large number or nesting
        return "a value too large to show"
    return text if len(text) <= 100 else f"{text[:100]}…"
