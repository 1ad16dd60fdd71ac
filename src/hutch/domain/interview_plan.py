"""The plan of an interview, as an assessor writes it: questions, time, help, and what the AI is told."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hutch.domain.given_code_test_case import Language
from hutch.domain.interview_question import LEVELS, MAX_ID_CHARS, MAX_MINUTES, Level

MAX_QUESTIONS = 20
Line = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Text = Annotated[str, Field(max_length=20_000)]
Minutes = Annotated[int, Field(ge=1, le=MAX_MINUTES)]
ShownResult = Literal["nothing", "counts"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedQuestion(_Part):
    """One question of the interview, by its id in the question bank."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS, pattern="^[a-z0-9-]+$")]
    language: Language | None = None  # to start with; None: that of the last question, or the first it has
    minutes: Minutes | None = None  # None: no limit of its own, only that of the interview


class InterviewPlan(_Part):
    """Everything that is decided before an interview begins."""

    title: Annotated[Line, Field(min_length=1)]
    questions: tuple[PlannedQuestion, ...] = Field(min_length=1, max_length=MAX_QUESTIONS)
    minutes: Minutes | None = None  # of the whole interview; None: the questions' times together
    attended: bool = True  # assessors are there: changes of the level are proposed to them
    ai: bool = True  # False: the same room without an AI
    levels: tuple[Level, ...] = LEVELS  # those that may be used, besides the limits of a question
    first_level: Level = "consultant"
    adaptive: bool = True  # propose other levels
    proactive_help: bool = False  # offer help unasked
    company: Line = ""
    role: Line = ""
    expectations: Text = ""
    consent: Text = ""  # what the candidate agrees to; empty: nothing to agree to
    retention_days: Annotated[int, Field(ge=1, le=3650)] | None = None  # then its content is erased
    extra_time_percent: Annotated[int, Field(ge=0, le=300)] = 0  # an accommodation
    accommodations: Text = ""  # further ones, in words; for the owner's side
    max_credit_minutes: Annotated[int, Field(ge=0, le=MAX_MINUTES)] = 15  # for time without a connection
    hidden_results: ShownResult = "nothing"  # what the candidate learns of hidden tests
    reference: Line = ""  # the id of this application in another system; webhooks repeat it
    model: Line = ""  # of the AI; empty: that of the settings

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise ValueError("levels: name at least one level, and each once")
        if self.first_level not in self.levels:
            raise ValueError(f"first_level: '{self.first_level}' is not one of levels")
        if len({each.id for each in self.questions}) != len(self.questions):
            raise ValueError("questions: each question may be asked once")
        return self

    def with_extra(self, minutes: int) -> int:
        """Milliseconds of so many minutes, with the extra time of the accommodation."""
        return minutes * 60_000 * (100 + self.extra_time_percent) // 100
