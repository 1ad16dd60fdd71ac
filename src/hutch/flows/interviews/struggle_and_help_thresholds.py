"""The numbers of the adaptive policy: how struggle is scored, and when more or less help is proposed.

The policy is a versioned TOML file that assessors can read. Code holds the rules, the file holds the numbers.
"""

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hutch.domain.errors import BadRequest
from hutch.domain.interview_question import LEVELS, Level
from hutch.domain.validation_messages import describe_with_location

DEFAULT_POLICY = Path(__file__).with_name("adaptive_policy_2.toml")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FailingRuns(_Part):
    weight: float = Field(ge=0, le=1)
    window_s: float = Field(gt=0)
    full_at: int = Field(gt=0)


class RepeatedFailure(_Part):
    weight: float = Field(ge=0, le=1)
    full_at: int = Field(gt=0)


class NoProgress(_Part):
    weight: float = Field(ge=0, le=1)
    from_s: float = Field(ge=0)
    full_at_s: float = Field(gt=0)

    @model_validator(mode="after")
    def _check_order(self) -> "NoProgress":
        if self.full_at_s <= self.from_s:
            raise ValueError("full_at_s must be greater than from_s")
        return self


class Churn(_Part):
    weight: float = Field(ge=0, le=1)
    window_s: float = Field(gt=0)
    min_added_chars: int = Field(ge=1)


class ScoreParts(_Part):
    failing_runs: FailingRuns
    repeated_failure: RepeatedFailure
    no_progress: NoProgress
    churn: Churn


class RaiseRule(_Part):
    score: float = Field(ge=0, le=1)
    for_s: float = Field(ge=0)
    failing_runs: int = Field(ge=1)
    idle_s: float = Field(ge=0)
    max_wait_s: float = Field(ge=0)


class LowerRule(_Part):
    score: float = Field(ge=0, le=1)
    for_s: float = Field(ge=0)


class Cooldown(_Part):
    first_s: float = Field(ge=0)
    growth: float = Field(ge=1)


class FailedRuns(_Part):
    count: int = Field(gt=0)
    window_s: float = Field(gt=0)


class HelpRule(_Part):
    failed_runs: FailedRuns
    long_debugging_s: float = Field(gt=0)
    idle_s: float = Field(ge=0)
    cooldown_s: float = Field(ge=0)
    dismissed_cooldown_s: float = Field(ge=0)


class AdaptivePolicy(_Part):
    """All numbers of one version."""

    version: str = Field(min_length=1, max_length=40)
    levels: tuple[Level, ...]
    score: ScoreParts
    raise_: RaiseRule = Field(alias="raise")
    lower: LowerRule
    cooldown: Cooldown
    help: HelpRule

    @model_validator(mode="after")
    def _check(self) -> "AdaptivePolicy":
        order = [LEVELS.index(level) for level in self.levels]
        if not order or order != sorted(set(order)):
            raise ValueError(f"levels must be some of {', '.join(LEVELS)}, each once, in this order")
        if self.lower.score >= self.raise_.score:
            raise ValueError("lower.score must be less than raise.score: otherwise levels alternate")
        return self


def read_policy(path: Path = DEFAULT_POLICY) -> AdaptivePolicy:
    """Read a policy's file. Blocks the thread."""
    try:
        return AdaptivePolicy.model_validate(tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise BadRequest(f"There is no adaptive policy at {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The adaptive policy {path} is no valid TOML: {error}") from None
    except ValidationError as error:
        raise BadRequest(
            f"The adaptive policy {path} is wrong: {describe_with_location(error.errors()[0])}."
        ) from None
