"""The settings in effect, for owners. Secrets are not settings and are never returned."""

from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, Field

from hutch.domain.redaction import Redactor
from hutch.gateway.auth.caller_dependency import Admin
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import router, server_of

routes = router("settings")


class SettingOut(Out):
    """One setting."""

    value: Any
    origin: str = Field(description="The source: a file, a variable, a flag, or the default.")


class SettingsOut(Out):
    """All settings, by name."""

    settings: dict[str, SettingOut]


@routes.get("/settings", operation_id="get_settings", response_model=SettingsOut)
async def show(request: Request, caller: Admin) -> Response:
    """Every setting with its value and its origin."""
    server = server_of(request)
    loaded, redactor = server.loaded, server.redactor
    rows = {
        name: {"value": _clean(loaded.value(name), redactor), "origin": origin}
        for name, origin in loaded.origins.items()
    }
    return answer({"settings": rows})


def _clean(value: Any, redactor: Redactor) -> Any:
    """A value for JSON, without credentials that a user may have put into a setting."""
    if isinstance(value, tuple):
        return [_clean(part, redactor) for part in value]
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    if isinstance(value, dict):
        return {name: _clean(part, redactor) for name, part in value.items()}
    if isinstance(value, int | float | bool | None):
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return redactor.redact(str(value))
