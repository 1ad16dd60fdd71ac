"""The policies of owners: list, add, remove and explain them."""

import asyncio
from typing import Annotated, Literal

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.domain.user import Role
from hutch.flows.personas import find_persona
from hutch.flows.policies.policy import PolicyEntry, entry_json
from hutch.flows.policies.policy_explanation import Consideration, Explanation, explain
from hutch.gateway.auth.caller_dependency import Admin, AuthenticatorDep
from hutch.gateway.request_and_response_bodies import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("policies")

Action = Literal["allow", "ask", "deny"]
Item = Annotated[str, Field(min_length=1, max_length=2000)]
Items = Annotated[list[Item], Field(max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]


class NewPolicy(In):
    """A policy. It binds all roles when it names none, and all sessions when it names no repository."""

    name: Name = Field(examples=["candidates-offline"])
    roles: list[Role] = Field(default_factory=list, max_length=10)
    repositories: Items = Field(default_factory=list, examples=[["github.com/acme/pay-*"]])
    categories: list[Name] = Field(default_factory=list, max_length=200)
    default: Action = Field("allow", description="The decision about calls that no rule matches.")
    rules: Items = Field(default_factory=list, examples=[["ask bash git push"]])
    network: Items | None = Field(None, description="The only hosts that may be reached; null: no limit.")
    approvers: list[Role] = Field(
        default=["owner", "member"], max_length=10, description="Roles whose users may answer where it asks."
    )
    saved_approvals: bool = Field(False, description="Whether permanent approvals answer where it asks.")


class PolicyOut(Out):
    """A policy."""

    name: str
    source: str = Field(description="Where it is written: the settings file, or the database.")
    roles: list[Role]
    repositories: list[str]
    categories: list[str]
    default: Action
    rules: list[str]
    network: list[str] | None
    approvers: list[Role]
    saved_approvals: bool


class PolicyQuestion(In):
    """A call to decide."""

    call: str = Field(min_length=1, max_length=200_000, examples=["bash git push"])
    role: Role = "member"
    repository: str = Field("", max_length=2048)
    persona: str = Field("", max_length=100, description="Consider the rules of this persona, too.")


@fields_from(Consideration)
class ConsiderationOut(Out):
    """The decision of one policy by itself."""


@fields_from(Explanation, "action rule source approvers")
class ExplanationOut(Out):
    """The decision, and the rule behind it."""

    considered: list[ConsiderationOut]


@routes.get("/policies", response_model=Page[PolicyOut])
async def list_policies(request: Request, caller: Admin) -> Response:
    """All policies: those of the settings, then those that owners added."""
    found = await server_of(request).services.policies.entries()
    return page(request, [_policy_json(each) for each in found], None)


@routes.post("/policies", status_code=201, response_model=PolicyOut)
async def add_policy(
    body: NewPolicy, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> Response:
    """Add a policy. It is effective at once, also for open sessions, and can only restrict."""
    policies = server_of(request).services.policies
    entry = await policies.add(body.model_dump(), created_by=caller.user.id)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "policy.added", entry.name)
    authenticator.access_changes.notify()
    return answer(_policy_json(entry), 201)


@routes.delete("/policies/{name}", status_code=204)
async def remove_policy(
    name: Annotated[str, Path(max_length=80)],
    request: Request,
    caller: Admin,
    authenticator: AuthenticatorDep,
) -> Response:
    """Remove a policy that was added here. Those of the settings are removed there."""
    await server_of(request).services.policies.remove(name)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "policy.removed", name)
    authenticator.access_changes.notify()
    return Response(status_code=204)


@routes.post("/policies/check", response_model=ExplanationOut)
async def check_policy(body: PolicyQuestion, request: Request, caller: Admin) -> Response:
    """Explain what would be decided about a call, and why."""
    server = server_of(request)
    persona = None
    if body.persona:
        persona = await asyncio.to_thread(find_persona, body.persona, server.services.personas)
    found = await explain(
        server.services.policies, body.call, roles=(body.role,), repository=body.repository, persona=persona
    )
    return answer(found)


def _policy_json(entry: PolicyEntry) -> dict[str, object]:
    return {**entry_json(entry), "source": entry.source}
