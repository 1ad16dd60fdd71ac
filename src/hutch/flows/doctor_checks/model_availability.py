"""Checks whether a run would have a model, for `hutch doctor`. No paid request is sent."""

import asyncio
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from hutch.domain.errors import HutchError
from hutch.domain.no_model_messages import is_offline_script
from hutch.jail.machine_checks import Check
from hutch.llm.http_get import http_get
from hutch.llm.model_and_key_names import (
    WITH_KEY,
    ModelName,
    key_name,
    key_variables,
    parse_model_name,
    setting_of_address,
)
from hutch.llm.model_factory import (
    OLLAMA,
    OLLAMA_TIMEOUT_S,
    Access,
    Choice,
    check_access,
    default_model,
    ollama_models,
)
from hutch.llm.scripted_model import OFFLINE, ScriptedModel
from hutch.system.terminal_safe_text import printable

TIMEOUT_S = 2.0
MAX_NAMED = 5  # models of a server that are listed
REMEDIES = (
    f"hutch config set-secret {key_name('anthropic')}",
    f"or set {key_name('openai')} or {key_name('gemini')} the same way",
    "or start an Ollama, which needs no key: ollama serve",
    "or, to try Hutch with replies from a file: hutch run --model scripted:FILE …",
)


async def check_model(
    read_access: Callable[[], Access],
    named: str | None,
    environment: Mapping[str, str],
    *,
    ollama_timeout_s: float = OLLAMA_TIMEOUT_S,
) -> Check:
    """The model of a run that names none, and whether it can be used.

    `named` is the model of the settings, if they have one; `environment` may hold keys. A run waits for an
    Ollama for `ollama_timeout_s`.
    """
    try:
        granted = await asyncio.to_thread(read_access)
        if named is not None:
            choice = Choice(named, "the setting `model` names it")
        else:
            choice = await default_model(granted, scripted=OFFLINE, ollama_timeout_s=ollama_timeout_s)
        if is_offline_script(choice.name):
            return await _nothing(granted, ollama_timeout_s)
        name = parse_model_name(choice.name)
        if name.provider == "scripted":
            await asyncio.to_thread(lambda: ScriptedModel.load(Path(name.model).expanduser()))
            return Check("model", "ok", f"{_shown(name, choice.reason)}\nreplies come from this file")
        return await _check_access(name, choice.reason, granted, environment)
    except (HutchError, OSError) as error:
        found = printable(f"{named} cannot be used: {error}" if named else str(error))
        return Check("model", "warn", found, "" if "hutch config" in found else REMEDIES[0])


async def _check_access(
    name: ModelName, reason: str, granted: Access, environment: Mapping[str, str]
) -> Check:
    base_url = check_access(name, granted)
    found = _shown(name, reason)
    if name.provider == "ollama":
        return await _check_ollama(name, found, base_url)
    if name.provider in WITH_KEY and name.provider not in granted.base_urls:
        source = _key_source(name.provider, environment)
        return Check("model", "ok", f"{found}\nthe key is in {source}; not tried, as requests cost money")
    try:
        path = f"{urlsplit(base_url).path.rstrip('/')}/models"
        status, _ = await http_get(base_url, path, timeout_s=TIMEOUT_S)
    except (OSError, ValueError) as error:
        setting = setting_of_address(name.provider)
        fix = f"Start that server, or correct {setting} in the file that `hutch config path` names."
        return Check("model", "warn", f"{found}\n{base_url} cannot be used: {_why(error)}", fix)
    return Check("model", "ok", f"{found}\n{base_url} answers (status {status} for {path})")


async def _check_ollama(name: ModelName, found: str, base_url: str) -> Check:
    try:
        models = await ollama_models(base_url, timeout_s=TIMEOUT_S)
    except (OSError, ValueError) as error:
        fix = f"ollama serve  # if it is elsewhere, set {setting_of_address('ollama')}"
        return Check("model", "warn", f"{found}\nno Ollama at {base_url}: {_why(error)}", fix)
    if name.model not in models and f"{name.model}:latest" not in models:
        has = printable(", ".join(models[:MAX_NAMED])) or "no model"
        fix = printable(f"ollama pull {shlex.quote(name.model)}")
        return Check(
            "model", "warn", f"{found}\nthe Ollama at {base_url} does not have it; it has {has}", fix
        )
    return Check("model", "ok", f"{found}\n{base_url} answers and has it")


async def _nothing(granted: Access, ollama_timeout_s: float) -> Check:
    """The result when there is no key, and no Ollama answered in time."""
    base_url = granted.base_url("ollama") or OLLAMA
    found, ways_out = "none: no key is set, and", list(REMEDIES)
    try:
        models = await ollama_models(base_url, timeout_s=TIMEOUT_S)
    except (OSError, ValueError) as error:
        return Check(
            "model", "warn", f"{found} no Ollama answers\n{base_url}: {_why(error)}", "\n".join(ways_out)
        )
    if models:
        found += f" the Ollama at {base_url} takes longer than {ollama_timeout_s:g} s to answer"
        ways_out[2] = printable(f"or hutch run --model {shlex.quote(f'ollama:{models[0]}')} …")
    else:
        found += f" the Ollama at {base_url} has no model"
        ways_out[2] = "or give the Ollama a model: ollama pull NAME"
    return Check("model", "warn", found, "\n".join(ways_out))


def _shown(name: ModelName, reason: str) -> str:
    return printable(f"{name}: {reason}")


def _key_source(provider: str, environment: Mapping[str, str]) -> str:
    variable = next((each for each in key_variables(provider) if environment.get(each, "").strip()), None)
    return variable or f"the secret {key_name(provider)}"


def _why(error: OSError | ValueError) -> str:
    """Why a server did not answer, in few words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
