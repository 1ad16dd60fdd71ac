"""The personas that can work in a session."""

import asyncio
from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.agent.persona import Persona
from hutch.flows.personas import find_persona, list_personas
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.responses import Out, answer
from hutch.gateway.rest.base_route import router, server_of

routes = router("personas")


class PersonaOut(Out):
    """A persona: its tools and its rules."""

    name: str
    description: str
    tools: list[str]
    default: str = Field(description="The action for a call that matches no rule: allow, ask or deny.")
    model: str | None = Field(description="The model that it prefers, if any.")


class WholePersonaOut(PersonaOut):
    """A persona with its prompt."""

    prompt: str


class PersonasOut(Out):
    """All personas."""

    items: list[PersonaOut]
    next: None = None


def persona_json(persona: Persona) -> dict[str, Any]:
    return {
        "name": persona.name,
        "description": persona.description,
        "tools": persona.tools,
        "default": persona.policy.default,
        "model": persona.model,
    }


@routes.get("/personas", operation_id="list_personas", response_model=PersonasOut)
async def listed(request: Request, caller: Reader) -> Response:
    """The available personas."""
    found = await asyncio.to_thread(list_personas, server_of(request).loaded.paths.personas)
    return answer({"items": [persona_json(each) for each in found], "next": None})


@routes.get("/personas/{name}", operation_id="get_persona", response_model=WholePersonaOut)
async def show(request: Request, caller: Reader, name: Annotated[str, Path(max_length=100)]) -> Response:
    """A persona with its prompt."""
    found = await asyncio.to_thread(find_persona, name, server_of(request).loaded.paths.personas)
    return answer({**persona_json(found), "prompt": found.prompt})
