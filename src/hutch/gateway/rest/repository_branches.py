"""The branches of a repository, to choose from for a new session."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.flows.repository_branches import branches_of
from hutch.gateway.auth.caller_dependency import Writer
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import router, server_of

routes = router("sessions")

Repository = Annotated[
    str, Query(min_length=1, max_length=2048, description="A URL or a path, as for a new session.")
]


class BranchesOut(Out):
    """Branches of a repository; names are as the repository gives them, so they are untrusted."""

    default: str | None = Field(description="The branch that a session without a revision starts from.")
    branches: list[str] = Field(description="At most 1,000 names, the default first.", examples=[["main"]])
    more: bool = Field(description="Whether the repository has others, which can be named as well.")


@routes.get("/repository-branches", operation_id="list_repository_branches", response_model=BranchesOut)
async def listed(request: Request, caller: Writer, repository: Repository) -> Response:
    """The branches of a repository. Refused as a session with that repository would be refused."""
    found = await branches_of(server_of(request).services, caller, repository)
    return answer({"default": found.default, "branches": list(found.names), "more": found.more})
