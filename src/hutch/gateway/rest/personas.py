"""The personas that can work in a session."""

import asyncio
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field

from hutch.agent.persona import Persona
from hutch.agent.run_budget import LimitFields
from hutch.agent.tool_call_rules import parse_rule
from hutch.agent.tools.builtin import built_in_tools
from hutch.domain.errors import HutchError
from hutch.domain.generation_option_fields import GenerationFields
from hutch.domain.one_line_text import check_model_name
from hutch.flows.personas import delete_persona, find_persona, is_own, list_personas, write_persona
from hutch.gateway.auth.caller_dependency import Admin, AuthenticatorDep, Reader
from hutch.gateway.request_and_response_bodies import In, Out, answer
from hutch.gateway.rest.base_route import router, server_of

routes = router("personas")

OwnName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_-]{0,63}$", examples=["deps"])]


class PersonaOut(Out):
    """A persona: its tools and its rules."""

    name: str
    description: str
    tools: list[str]
    default: str = Field(description="The action for a call that matches no rule: allow, ask or deny.")
    model: str | None = Field(description="The model that it prefers, if any.")
    generation: GenerationFields = Field(description="Options of the model's replies; null: not set.")
    own: bool = Field(description="True if the installation wrote it; false if it comes with Hutch.")


class WholePersonaOut(PersonaOut):
    """A persona with its prompt."""

    prompt: str
    rules: list[str]
    extensions: list[str] = Field(description="Extensions whose tools it gets, such as `files`.")
    limits: LimitFields = Field(description="Limits of its runs; null: the defaults.")


class PersonaIn(In):
    """A persona; everything but the prompt may be omitted."""

    description: str = Field("", max_length=300, pattern=r"^[^\r\n]*$")
    prompt: str = Field(min_length=1, max_length=60_000, description="How the agent works.")
    tools: list[str] | None = Field(None, max_length=100, description="Null: all tools.")
    default: Literal["allow", "ask", "deny"] = Field("allow", description="For calls that no rule matches.")
    rules: list[str] = Field(default_factory=list, max_length=100, examples=[["deny bash git push"]])
    extensions: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        None, max_length=100, description="Extensions whose tools it gets; null: those that it has."
    )
    model: str | None = Field(None, max_length=500, description="`provider:name`; null: the default.")
    limits: LimitFields = LimitFields()
    generation: GenerationFields = GenerationFields()


class PersonasOut(Out):
    """All personas."""

    items: list[PersonaOut]
    next: None = None


def persona_json(persona: Persona, folder: FilePath) -> dict[str, Any]:
    return {
        "name": persona.name,
        "description": persona.description,
        "tools": persona.tools,
        "default": persona.policy.default,
        "model": persona.model,
        "generation": asdict(persona.generation),
        "own": is_own(persona.name, folder),
    }


def whole_json(persona: Persona, folder: FilePath) -> dict[str, Any]:
    return {
        **persona_json(persona, folder),
        "prompt": persona.prompt,
        "rules": [str(rule) for rule in persona.policy.rules],
        "extensions": persona.extensions,
        "limits": asdict(persona.limits),
    }


@routes.get("/personas", operation_id="list_personas", response_model=PersonasOut)
async def listed(request: Request, caller: Reader) -> Response:
    """The available personas."""
    folder = server_of(request).loaded.paths.personas
    found = await asyncio.to_thread(list_personas, folder)
    return answer({"items": [persona_json(each, folder) for each in found], "next": None})


@routes.get("/personas/{name}", operation_id="get_persona", response_model=WholePersonaOut)
async def show(request: Request, caller: Reader, name: Annotated[str, Path(max_length=100)]) -> Response:
    """A persona with its prompt."""
    folder = server_of(request).loaded.paths.personas
    return answer(whole_json(await asyncio.to_thread(find_persona, name, folder), folder))


@routes.put("/personas/{name}", operation_id="set_persona", response_model=WholePersonaOut)
async def write(
    request: Request, caller: Admin, authenticator: AuthenticatorDep, name: OwnName, body: PersonaIn
) -> Response:
    """Create a persona of the installation, or replace one; for owners. Runs that start later use it."""
    _check_fields(body)
    folder = server_of(request).loaded.paths.personas
    extensions = body.extensions
    if extensions is None:
        extensions = await asyncio.to_thread(_extensions_so_far, name, folder)
    front: dict[str, Any] = {
        "description": body.description,
        **({} if body.model is None else {"model": body.model}),
        **({} if body.tools is None else {"tools": body.tools}),
        **({"extensions": extensions} if extensions else {}),
        **body.generation.model_dump(exclude_none=True),
        "policy": {"default": body.default, "rules": body.rules},
        "limits": body.limits.model_dump(exclude_none=True),
    }
    made = await asyncio.to_thread(write_persona, name, front, body.prompt, folder)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "persona.set", name)
    return answer(whole_json(made, folder))


@routes.delete("/personas/{name}", operation_id="delete_persona", status_code=204)
async def delete(request: Request, caller: Admin, authenticator: AuthenticatorDep, name: OwnName) -> Response:
    """Delete a persona of the installation; for owners. A built-in one that it replaced is used again."""
    await asyncio.to_thread(delete_persona, name, server_of(request).loaded.paths.personas)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "persona.deleted", name)
    return Response(status_code=204)


def _extensions_so_far(name: str, folder: FilePath) -> list[str]:
    """The extensions of a persona that is about to be replaced."""
    try:
        return list(find_persona(name, folder).extensions)
    except HutchError:  # there is none, or its file cannot be used
        return []


def _check_fields(body: PersonaIn) -> None:
    """Refuse wrong tools, rules and models, each with its field."""
    known = set(built_in_tools().names)
    faults: list[tuple[tuple[str | int, ...], str]] = [
        (("tools", at), f"There is no tool {tool!r}")
        for at, tool in enumerate(body.tools or ())
        if tool not in known
    ]
    for at, rule in enumerate(body.rules):
        try:
            parse_rule(rule, "the request")
        except HutchError as error:
            faults.append((("rules", at), str(error).rstrip(".")))
    try:
        check_model_name(body.model or "")
    except HutchError as error:
        faults.append((("model",), str(error).rstrip(".")))
    if faults:
        raise RequestValidationError(
            [{"loc": ("body", *place), "type": "wrong_part", "msg": problem} for place, problem in faults]
        )
