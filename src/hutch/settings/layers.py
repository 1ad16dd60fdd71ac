"""What Hutch was told, by whom, and where it keeps its things.

The only reader of the environment. A value comes from, in this order: a flag, a
`HUTCH_*` variable, the user's own file, the repository's file, the default. What
the first three say must be right, or Hutch does not start; what a repository says
is untrusted, weighed by the rules of `repository.py`, and never fatal.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ByteSize, ValidationError

from hutch.domain.errors import BadRequest
from hutch.domain.redaction import Redactor
from hutch.settings import repository
from hutch.settings.model import (
    FIELDS,
    SECTIONS,
    Settings,
    environment_variable,
    repository_access,
    size_text,
)
from hutch.settings.paths import Paths
from hutch.settings.repository import RepositoryAccess
from hutch.settings.validation_messages import describe

MAX_REFUSALS = 20
FLAG, DEFAULT = "the command line", "default"
# Not settings: where things are, and the server that commands speak with.
OTHER_VARIABLES = frozenset({"HUTCH_HOME", "HUTCH_SERVER", "HUTCH_TOKEN"})
NO_FLAGS: Mapping[str, Any] = MappingProxyType({})

_SECRETIVE = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
# Kubernetes sets these for a service named hutch or hutch-something; they are not for us.
_FOREIGN = re.compile(
    r"HUTCH_(?!\w*__)(\w+_)?"
    r"((SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP)).*|PORT=(tcp|udp|sctp)://.*)"
)
_redactor = Redactor()


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in effect, where each came from, and what the repository was refused."""

    settings: Settings
    paths: Paths
    origins: Mapping[str, str]
    refused: tuple[str, ...] = ()

    def is_from_repository(self, name: str) -> bool:
        """Whether a setting is as it is because the repository says so."""
        origin = Path(self.origins.get(name, ""))
        return origin.parts[-2:] == (repository.FOLDER, repository.FILE) and origin != self.paths.config_file

    def value(self, name: str) -> Any:
        """A setting by its dotted name."""
        return attrgetter(name)(self.settings)


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value as somebody wrote it, and where."""

    value: object
    origin: str


def user_environment() -> dict[str, str]:
    """The user's whole environment, for programs of the host that act for the user."""
    return dict(os.environ)


def load(
    flags: Mapping[str, Any] = NO_FLAGS, repo: Path | None = None, environ: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Bring all layers together. `flags` is nested like the settings; None in it means not given."""
    environ = os.environ if environ is None else environ
    paths = Paths.of(environ)
    from_flags = _flat(flags, FLAG)
    layers = [_user_file(paths.config_file), _environment(environ), from_flags]
    problems = [problem for layer in layers for problem in _problems(layer)]
    problems += _unknown_variables(environ)
    if len(problems) == 1:
        raise BadRequest(problems[0])
    if problems:
        raise BadRequest("\n- ".join([f"{len(problems)} settings are wrong:", *problems]))
    given = {name: one for layer in layers for name, one in layer.items()}
    refused = _admit_repository(repo, given, final=from_flags.keys()) if repo else []
    origins = {name: given[name].origin if name in given else DEFAULT for name in FIELDS}
    return LoadedSettings(_validated(given), paths, origins, tuple(refused))


def _flat(table: Mapping[str, Any], origin: str, prefix: str = "") -> dict[str, SourcedValue]:
    """`{"jail": {"processes": 5}}` as `{"jail.processes": Given(5, origin)}`."""
    flat: dict[str, SourcedValue] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if name in SECTIONS and isinstance(value, Mapping):
            flat |= _flat(value, origin, f"{name}.")
        elif value is not None:  # a flag that was not given
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
            "Let yourself read it, or set HUTCH_HOME to a directory of your own."
        ) from None
    except OSError as error:
        raise BadRequest(
            f"The settings in {path} cannot be read: {error.strerror}. Mend or move it."
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            f"{path} is not valid TOML: {repository.describe_toml_error(error)}. Correct it or move it away."
        ) from None


def _environment(environ: Mapping[str, str]) -> dict[str, SourcedValue]:
    """An empty variable counts as not set, as is the custom."""
    variables = {name: environment_variable(name) for name in FIELDS}
    return {name: SourcedValue(environ[each], each) for name, each in variables.items() if environ.get(each)}


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = {environment_variable(name) for name in FIELDS} | OTHER_VARIABLES
    strange = [
        name
        for name, value in environ.items()
        if name.startswith("HUTCH_") and name not in known and not _FOREIGN.fullmatch(f"{name}={value}")
    ]
    return [_unknown(name, "the environment", known) for name in sorted(strange)]


def _problems(layer: Mapping[str, SourcedValue]) -> list[str]:
    """Each value that is wrong, in a sentence; also one that another layer overrides."""
    problems = []
    for name, given in layer.items():
        if name in SECTIONS:
            problems.append(
                f"{name} (from {given.origin}) is a section: it holds settings, and has no value itself."
            )
        elif name not in FIELDS:
            problems.append(_unknown(name, given.origin, FIELDS.keys()))
        elif fault := _fault(name, given):
            problems.append(f"{name} is {_quote_value(name, given.value)} (from {given.origin}). {fault}.")
    return problems


def _fault(name: str, given: SourcedValue) -> str:
    """What is allowed instead, or nothing when the value is right."""
    try:
        _validated({name: given})
    except ValidationError as error:
        return describe(error.errors(include_url=False)[0], is_size=FIELDS[name].annotation is ByteSize)
    return ""


def _validated(given: Mapping[str, SourcedValue]) -> Settings:
    nested: dict[str, Any] = {}
    for name, one in given.items():
        section, _, key = name.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[key] = one.value
    return Settings(**nested)


def _admit_repository(repo: Path, given: dict[str, SourcedValue], final: Collection[str]) -> list[str]:
    """Add to `given` what the repository may say; answer with the rest, in sentences."""
    path = repository.config_file(repo)
    try:
        wanted = _flat(repository.read(repo), str(path))
    except repository.UnusableFile as error:
        return [f"{str(path)!r} is ignored: {error}."]
    present = _validated(given)
    refused = []
    for name, one in wanted.items():
        why = _refusal(name, one, present)
        if why:
            refused.append(
                f"{str(path)!r} sets {_quote_name(name)} to {_quote_value(name, one.value)}, ignored: {why}."
            )
        elif name not in final and (repository_access(name) is RepositoryAccess.TIGHTEN or name not in given):
            given[name] = one
    if len(refused) > MAX_REFUSALS:
        refused[MAX_REFUSALS:] = [f"{str(path)!r} has {len(refused) - MAX_REFUSALS} more that are ignored."]
    return refused


def _refusal(name: str, wanted: SourcedValue, present: Settings) -> str:
    """Why a repository may not have this, or nothing when it may."""
    if name not in FIELDS:
        return "there is no such setting"
    if repository_access(name) is RepositoryAccess.NEVER:
        return "a repository may not set it; set it in your own settings if you want it"
    if fault := _fault(name, wanted):
        return fault[0].lower() + fault[1:]
    now, new = attrgetter(name)(present), attrgetter(name)(_validated({name: wanted}))
    if repository_access(name) is RepositoryAccess.TIGHTEN and not repository.is_tighter(new, now):
        return f"a repository may only tighten it, and it is {_quote_value(name, now)}"
    return ""


def _unknown(name: str, origin: str, known: Collection[str]) -> str:
    bare = {one.removeprefix("HUTCH_"): one for one in known}
    close = difflib.get_close_matches(name.removeprefix("HUTCH_"), bare, n=1)
    near = [one for one in known if one.endswith(f".{name}")] or [bare[one] for one in close]
    if _SECRETIVE.search(name):
        way_out = "Secrets are not settings: keep them with `hutch config set-secret NAME`."
    elif near:
        way_out = f"Did you mean {near[0]}?"
    else:
        way_out = "Take it away; `hutch config show --defaults` lists all settings."
    return f"{_quote_name(name)} (from {origin}) is not a setting. {way_out}"


def _quote_name(name: str) -> str:
    return name if re.fullmatch(r"[\w.]{1,80}", name, re.ASCII) else repr(name[:80])


def _quote_value(name: str, value: object) -> str:
    """A value for a message: short, on one line, and no secret."""
    if _SECRETIVE.search(name):
        return "a value that is not shown"
    if isinstance(value, ByteSize):
        return size_text(value)
    try:
        text = _redactor.redact(repr(list(value) if isinstance(value, tuple) else value))
    except (ValueError, RecursionError):  # an absurdly large number or nesting
        return "a value too large to show"
    return text if len(text) <= 100 else f"{text[:100]}…"
