"""Limits of a run and of commands, as requests give them and responses show them."""

from pydantic import Field, create_model

from hutch.domain.session_jail_resource_limits import FRACTIONAL, RANGES, Resources
from hutch.flows.command_limits_and_sources import EffectiveLimit
from hutch.gateway.request_and_response_bodies import MAX_SIZE, In, Out, fields_from


class Limits(In):
    """The limits of a run; omitted ones default to those of the persona and the settings."""

    turns: int | None = Field(None, ge=1, le=MAX_SIZE)
    tokens: int | None = Field(None, ge=1, le=MAX_SIZE)
    cost_usd: float | None = Field(None, gt=0)
    timeout_s: float | None = Field(None, gt=0)


class _Resources(In):
    """The resources of a session's commands; omitted ones default to the settings `jail.*`."""


ResourcesIn = create_model(
    "ResourcesIn",
    __base__=_Resources,
    __doc__=_Resources.__doc__,
    __module__=__name__,
    **{  # type: ignore[call-overload]
        name: (
            (float if name in FRACTIONAL else int) | None,
            Field(None, ge=each.lowest, le=each.highest, description=each.meaning),
        )
        for name, each in RANGES.items()
    },
)


@fields_from(Resources)
class ResourcesOut(Out):
    """The resources that a session asks for; null: those of the settings."""


@fields_from(EffectiveLimit)
class EffectiveLimitOut(Out):
    """A limit of a session's commands."""

    value: float | int | None = Field(description="Null: no limit.")
    source: str = Field(
        description="Where it comes from: `session`, `repository`, `default`, or a setting, such as "
        "`jail.memory_bytes` or `members.memory_bytes`."
    )
