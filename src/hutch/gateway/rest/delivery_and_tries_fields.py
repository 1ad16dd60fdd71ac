"""The fields of a new session that say how its result is made and delivered."""

from typing import Annotated

from pydantic import Field

from hutch.domain.generation_options import MAX_TEMPERATURE
from hutch.domain.session import Tries
from hutch.gateway.request_and_response_bodies import In

Short = Annotated[str, Field(max_length=2048)]
MAX_TRIES = 32


class DeliveryIn(In):
    """How the result is delivered."""

    title: Annotated[str, Field(max_length=200)] = Field("", description="Empty: the agent's title.")
    branch: Short = Field(
        "", description="The base branch; empty: the branch that the workspace started from."
    )
    draft: bool = False
    labels: list[Annotated[str, Field(min_length=1, max_length=50)]] = Field(
        default_factory=list, max_length=20
    )
    reviewers: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=20
    )
    tests: Short = Field("", description="The test command that decides; empty: detected.")
    issue: Short = Field("", description="The URL of the issue or comment that requested it.")
    author: Short = Field(
        "", description="The author of commits, as `Name <address>`; empty: from the settings."
    )
    unattended: bool = Field(False, description="No one answers: calls that need approval are denied.")


class TriesIn(In):
    """Several agents work on the prompt, and the best result is taken. Try number N has the Nth model,
    persona and temperature; after the last, the first follows again."""

    count: int = Field(0, ge=0, le=MAX_TRIES, description="How many; 0 or 1: one agent, as usual.")
    models: list[Annotated[str, Field(max_length=500)]] = Field(
        default_factory=list, max_length=MAX_TRIES, description="Empty: the model of the session."
    )
    personas: list[Annotated[str, Field(max_length=100)]] = Field(
        default_factory=list, max_length=MAX_TRIES, description="Empty: the persona of the session."
    )
    temperatures: list[Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)]] = Field(
        default_factory=list, max_length=MAX_TRIES, description="Empty: that of the session."
    )
    checks: list[Annotated[str, Field(min_length=1, max_length=10_000)]] = Field(
        default_factory=list,
        max_length=20,
        description="Commands that judge a result, on a copy of it in another jail. No agent sees them.",
    )
    reviewer: Annotated[str, Field(max_length=100)] = Field(
        "", description="The persona that reviews each result; empty: none."
    )
    stops_early: bool = Field(True, description="Stop the others as soon as one result is clearly good.")

    def to_tries(self) -> Tries:
        lists = {
            name: tuple(getattr(self, name)) for name in ("models", "personas", "temperatures", "checks")
        }
        return Tries(count=self.count, reviewer=self.reviewer, stops_early=self.stops_early, **lists)
