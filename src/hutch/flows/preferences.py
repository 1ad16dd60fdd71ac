"""The preferences of a user: defaults for their new sessions, and how clients look to them.

An option of a request overrides a preference, and a preference overrides the settings of the
server. A persona that names a model is chosen with it: the preferred model does not replace it.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Literal, get_args

from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.personas import find_persona
from hutch.llm.model_and_key_names import parse_model_name
from hutch.store.preferences import StoredPreferences
from hutch.system.lazy_dataclass import dataclass

Theme = Literal["auto", "light", "dark"]
PERSONA = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MAX_EDITOR_CHARS = 200
HOW = "It is your preference. Change it: hutch users preferences"


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences of one user; empty: not set."""

    model: str = ""
    persona: str = ""
    theme: Theme = "auto"
    editor: str = ""  # a command


async def read_preferences(services: Services, user_id: str) -> Preferences:
    known = {each.name for each in fields(Preferences)}
    found = await StoredPreferences(services.rows, user_id).get()
    return Preferences(**{name: value for name, value in found.items() if name in known})  # type: ignore[arg-type]


async def change_preferences(services: Services, who: Caller, changes: Mapping[str, str]) -> Preferences:
    """Set preferences of the caller; an empty value removes one."""
    is_script = bool(changes.get("model")) and parse_model_name(changes["model"]).provider == "scripted"
    if is_script and not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
    if (persona := changes.get("persona")) and not PERSONA.fullmatch(persona):
        raise BadRequest(f"{echo(persona, 80)} is not a persona's name. `GET /personas` lists them.")
    if persona:
        await asyncio.to_thread(_check_persona, services, persona)
    if (theme := changes.get("theme")) and theme not in get_args(Theme):
        raise BadRequest(f"{echo(theme, 40)} is no theme. There are: {', '.join(get_args(Theme))}.")
    editor = changes.get("editor", "")
    if len(editor) > MAX_EDITOR_CHARS or not editor.isprintable():
        raise BadRequest(f"An editor is a command of one line, of at most {MAX_EDITOR_CHARS} characters.")
    cleaned = {name: services.redactor.redact(value) for name, value in changes.items()}
    await StoredPreferences(services.rows, who.user.id).set(cleaned)
    return await read_preferences(services, who.user.id)


async def with_preferences(services: Services, who: Caller, new: NewSession) -> NewSession:
    """A request for a session, with the caller's preferences where it leaves a choice."""
    chosen = await read_preferences(services, who.user.id)
    if not (chosen.model or chosen.persona) or who.credential_id == "github" or new.delivery.review:
        return new
    persona = new.persona or chosen.persona
    model = new.model or chosen.model
    if chosen.persona and not new.persona:
        try:
            await asyncio.to_thread(find_persona, persona, services.personas)
        except HutchError as error:
            if not new.repository:  # a repository may have it
                raise BadRequest(f"{error} {HOW} --persona ''") from None
    if not new.model and model and await asyncio.to_thread(_names_model, services, persona):
        model = ""
    if model and not new.model:
        try:
            await asyncio.to_thread(services.check_model, model, persona, who.user.id, new.generation)
        except HutchError as error:
            raise BadRequest(f"{error} {HOW} --model ''") from None
    return replace(new, persona=persona, model=model)


def preferences_json(preferences: Preferences) -> dict[str, str]:
    return asdict(preferences)


def _check_persona(services: Services, name: str) -> None:
    """Refuse a persona that the installation does not have: that of one repository suits no other."""
    try:
        find_persona(name, services.personas)
    except NotFound as error:
        raise BadRequest(str(error)) from None


def _names_model(services: Services, persona: str) -> bool:
    try:
        return bool(find_persona(persona or services.default_persona, services.personas).model)
    except NotFound:
        return False  # the repository may have it, but it cannot choose a model
