"""A cassette: the replies of a scripted model, in a file that users write or Hutch records.

A reply may depend on the last tool result, be delayed, or be a network fault, so that
a cassette can play everything that happens with a real provider.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest, NotFound

MAX_BYTES = 64 * 1024 * 1024


class Part(BaseModel):
    """The base class of a cassette's parts. Unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class When(Part):
    """A condition on the last tool result; every field that is set must hold."""

    tool: str | None = None
    ok: bool | None = None
    contains: str | None = None
    lacks: str | None = None


class Fault(Part):
    """A fault that replaces a reply, or interrupts it."""

    kind: Literal["status", "cut", "stall", "malformed"] = "status"
    status: int = 529
    retry_after_s: float | None = None


class ScriptedCall(Part):
    """A tool call, with its arguments as an object, or as text that need not be JSON."""

    tool: str
    args: dict[str, Any] | str = Field(default_factory=dict)
    id: str | None = None


class ScriptedUsage(Part):
    """The tokens that the reply claims to have used."""

    input: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0


class Reply(Part):
    """One turn of the model."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    when: When | None = None
    delay_s: float = Field(0, ge=0, le=3600)  # before the first character
    pace_s: float = Field(0, ge=0, le=60)  # between deltas
    fault: Fault | None = None
    usage: ScriptedUsage | None = None
    finish: Literal["stop", "calls", "length", "refused", "other"] | None = None
    times: int = Field(1, ge=1, le=1_000_000)  # how often it can be used


class Cassette(Part):
    """The replies of a model, in the order in which they are tried."""

    replies: tuple[Reply, ...]
    model: str | None = None  # the model that was recorded
    context_tokens: int | None = Field(None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _a_list_is_enough(cls, value: Any) -> Any:
        return {"replies": value} if isinstance(value, list) else value


def load_cassette(path: Path) -> Cassette:
    """Read a cassette in JSON or YAML; errors name the location in the file."""
    try:
        if path.exists() and not path.is_file():
            raise BadRequest(f"The cassette {path} is not a file.")
        if path.stat().st_size > MAX_BYTES:
            raise BadRequest(f"The cassette {path} is over {MAX_BYTES // 2**20} MiB.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"There is no cassette at {path}. Name an existing file: scripted:FILE.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The cassette {path} cannot be read: {error}.") from None
    return parse_cassette(text, str(path))


def parse_cassette(text: str, name: str) -> Cassette:
    try:
        return Cassette.model_validate(_plain(text, name))
    except ValidationError as error:
        first = error.errors()[0]
        problem = validation_messages.describe(first)
        at = validation_messages.location(first) or "the top"
        raise BadRequest(f"The cassette {name} is wrong at {at}: {problem}.") from None


def _plain(text: str, name: str) -> Any:
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            json_fault = error  # YAML may begin with these characters too
    else:
        json_fault = None
    import yaml  # slow to load, and needed only for YAML

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadRequest(f"The cassette {name} is neither JSON nor YAML: {json_fault or error}") from None
