"""The tools of a run: their descriptions for the model, and the execution of calls.

Every error in a call becomes a result: the model learns what was wrong and what to
do next.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from hutch.agent.text_for_model import shortened
from hutch.agent.tools.argument_error_help import describe_shape, unquote_json
from hutch.agent.tools.interface import Arguments, Context, Tool, ToolResult
from hutch.agent.tools.model_written_paths import SURROGATES, escape_surrogates
from hutch.agent.tools.similar_paths import find_near_paths
from hutch.domain import validation_messages
from hutch.domain.errors import HutchError, NotFound
from hutch.domain.redaction import Redactor
from hutch.llm.interface import ToolSpec

MAX_CHARS = 24_000  # of one result for the model; tools with longer output cut it themselves
SHOWN_CHARS = 200  # of a wrong argument
# Of schemas, since each costs tokens in every request; the errors for wrong arguments name the bounds.
LEFT_OUT = frozenset(
    (
        *("title", "default", "description", "minimum", "maximum", "exclusiveMinimum"),
        *("minLength", "maxLength", "minItems", "maxItems"),
    )
)


class Toolbox:
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool], redactor: Redactor | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._redactor = redactor or Redactor()
        self.specs = tuple(
            ToolSpec(tool.name, tool.description, _schema_of(tool)) for tool in self._tools.values()
        )

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def only(self, names: Iterable[str]) -> "Toolbox":
        """A toolbox with only these tools."""
        selected = set(names)
        chosen = (tool for name, tool in self._tools.items() if name in selected)
        return Toolbox(chosen, self._redactor)

    def parallel(self, name: str) -> bool:
        """True if a call may run concurrently with others."""
        return name in self._tools and self._tools[name].parallel

    def parse(self, name: str, text: str) -> Arguments | ToolResult:
        """The arguments of a call, or a result that says what is wrong with them."""
        parsed = self._parsed(name, text)
        return self._redact(parsed) if isinstance(parsed, ToolResult) else parsed

    def _parsed(self, name: str, text: str) -> Arguments | ToolResult:
        tool = self._tools.get(name)
        if tool is None:
            name = shortened(self._text(name), SHOWN_CHARS)
            near = difflib.get_close_matches(name, self._tools, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            return ToolResult(
                f"There is no tool '{name}'.{hint} Available tools: {', '.join(self._tools)}.", ok=False
            )
        try:
            args = json.loads(text.strip() or "{}")
        except ValueError as error:
            return ToolResult(
                f"{name}: the arguments are not JSON ({error}). Send one JSON object.", ok=False
            )
        except RecursionError:
            return ToolResult(f"{name}: the arguments are nested too deep. Send one flat object.", ok=False)
        if not isinstance(args, dict):
            return ToolResult(f"{name}: the arguments are a {_kind(args)}. Send one JSON object.", ok=False)
        try:
            arguments = tool.arguments.model_validate(unquote_json(args, _schema_of(tool)))
        except ValidationError as error:
            return ToolResult(_wrong_shape(name, tool.arguments, error, self._text), ok=False)
        if "\\u" in text and (fault := _unusable(args)):
            return ToolResult(f"{name}: {fault} Call it again without it.", ok=False)
        return arguments

    async def use(self, name: str, args: Arguments, context: Context) -> ToolResult:
        """Make a call; an error is a result too. The result holds no secret and no lone surrogate."""
        try:
            result = await self._tools[name](args, context)
        except NotFound as error:
            hint = await find_near_paths(args, context)
            result = ToolResult(f"{error} {hint}".rstrip(), ok=False, data={"error": error.code})
        except HutchError as error:
            result = ToolResult(str(error), ok=False, data={"error": error.code})
        return self._redact(result)

    def _redact(self, result: ToolResult) -> ToolResult:
        changes = tuple(
            replace(
                change,
                path=self._text(change.path),
                moved_from=change.moved_from and self._text(change.moved_from),
            )
            for change in result.changes
        )
        text = shortened(self._text(result.text), MAX_CHARS)
        image = result.image and replace(result.image, path=self._text(result.image.path))
        return ToolResult(text, result.ok, self._data(result.data), changes, image)

    def _data(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping():
                return {self._text(str(key)): self._data(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self._data(inner) for inner in value]
            case _:
                return value

    def _text(self, text: str) -> str:
        return self._redactor.redact(escape_surrogates(text))


def _schema_of(tool: Tool) -> Mapping[str, Any]:
    """The schema of a tool's arguments; tools of extensions bring their own."""
    own: Mapping[str, Any] | None = getattr(tool, "input_schema", None)
    return schema(tool.arguments) if own is None else own


@cache
def schema(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of arguments, without what only costs tokens. It is cached: do not modify it."""
    full = kind.model_json_schema()
    shared = full.pop("$defs", {})
    lean: dict[str, Any] = _lean(full, shared)
    return lean


def _lean(node: Any, shared: dict[str, Any]) -> Any:
    """The schema without `LEFT_OUT`, and with references resolved."""
    if isinstance(node, list):
        return [_lean(part, shared) for part in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        return _lean(shared[reference.rpartition("/")[2]], shared)
    lean = {
        name: {key: _lean(part, shared) for key, part in value.items()}
        if name == "properties"
        else _lean(value, shared)
        for name, value in node.items()
        if name not in LEFT_OUT
    }
    options = lean.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:  # omitting the argument means the same
        options = [option for option in options if option != {"type": "null"}]
        rest = {name: value for name, value in lean.items() if name != "anyOf"}
        lean = {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}
    return lean


def _wrong_shape(
    name: str, kind: type[Arguments], error: ValidationError, clean: Callable[[str], str]
) -> str:
    """The errors in arguments. Values are redacted first, then cut: half of a secret is not recognised."""
    sentences = []
    for fault in error.errors()[:5]:
        at = shortened(clean(validation_messages.location(fault)), SHOWN_CHARS)
        match fault["type"]:
            case "missing":
                sentences.append(validation_messages.describe_with_location(fault))
            case "extra_forbidden":
                near = difflib.get_close_matches(at, kind.model_fields, 1)
                sentences.append(f"`{at}` is unknown" + (f" (did you mean `{near[0]}`?)" if near else ""))
            case _:
                shown = shortened(clean(json.dumps(fault["input"], default=str)), SHOWN_CHARS)
                words = validation_messages.describe(fault)
                sentences.append(f"`{at}` is {shown}: {words[:1].lower()}{words[1:]}")
    shape = describe_shape(schema(kind))
    return f"{name}: {'; '.join(sentences)}. It takes {shape}. Call it again with the right arguments."


def _unusable(value: Any) -> str:
    """The error in the characters of arguments at any depth, or an empty text."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return next((fault for part in value if (fault := _unusable(part))), "")
    if isinstance(value, str) and SURROGATES.search(value):
        return "the arguments hold half of a character (a lone surrogate)."
    return ""


def _kind(value: object) -> str:
    return {list: "list", str: "string", type(None): "null", bool: "truth value"}.get(type(value), "number")
