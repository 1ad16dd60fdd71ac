"""The options of a session that an editor shows: its persona as the mode, and its model."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from acp import schema

from hutch.agent.persona import DEFAULT
from hutch.cli.session_client import SessionClient
from hutch.domain.session import NewSession
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Reads them from the session client; `persona` and `model` are those of new sessions."""

    sessions: SessionClient
    persona: str
    model: str

    async def make(self, new_in: Callable[[Path], NewSession], directory: Path) -> NewSession:
        new = await asyncio.to_thread(new_in, directory)
        return replace(new, persona=self.persona, model=self.model)

    async def of(
        self, session: dict[str, Any]
    ) -> tuple[schema.SessionModeState | None, list[schema.SessionConfigOptionSelect]]:
        return await self._modes(session), await self._models(session)

    async def _modes(self, session: dict[str, Any]) -> schema.SessionModeState | None:
        known = await self.sessions.personas()
        current = session["persona"] or known["default"] or DEFAULT
        modes = [
            schema.SessionMode(id=each["name"], name=each["name"], description=each["description"] or None)
            for each in known["items"]
        ]
        if all(each.id != current for each in modes):  # one of the repository
            modes.append(schema.SessionMode(id=current, name=current))
        return schema.SessionModeState(current_mode_id=current, available_modes=modes)

    async def _models(self, session: dict[str, Any]) -> list[schema.SessionConfigOptionSelect]:
        known = await self.sessions.models()
        current = session["model"] or known["default"]
        usable = [each["default_model"] for each in known["providers"] if each["usable"]]
        names = list(dict.fromkeys(name for name in (current, *usable) if name))
        if not names:
            return []
        options = [schema.SessionConfigSelectOption(value=name, name=name) for name in names]
        return [
            schema.SessionConfigOptionSelect(
                type="select",
                id="model",
                name="Model",
                category="model",
                current_value=current or names[0],
                options=options,
            )
        ]
