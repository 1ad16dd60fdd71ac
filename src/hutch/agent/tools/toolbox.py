"""The tools of a run: what the model is told of them, and what happens when it calls one.

Whatever goes wrong with a call is an answer, not an accident: the model learns
what was wrong with it and what to do next.
"""

import difflib
import json
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from hutch.agent.tools.seam import Arguments, Context, Tool, ToolResult
from hutch.domain.errors import HutchError
from hutch.llm.seam import ToolSpec

MOST_LETTERS = 24_000  # of one result, as the model sees it; tools that expect more keep the rest elsewhere
SHOWN_LETTERS = 200  # of a wrong argument


class Toolbox:
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool], *, clean: Callable[[str], str] = str) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._clean = clean
        self.specs = tuple(
            ToolSpec(tool.name, tool.description, schema(tool.arguments)) for tool in self._tools.values()
        )

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def only(self, names: Iterable[str]) -> "Toolbox":
        """With those tools alone."""
        wanted = set(names)
        return Toolbox((tool for name, tool in self._tools.items() if name in wanted), clean=self._clean)

    def parallel(self, name: str) -> bool:
        """Whether a call may run beside others."""
        return name in self._tools and self._tools[name].parallel

    def parse(self, name: str, text: str) -> Arguments | ToolResult:
        """The arguments of a call, or what is wrong with them."""
        tool = self._tools.get(name)
        if tool is None:
            near = difflib.get_close_matches(name, self._tools, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            return ToolResult(
                f"There is no tool '{name}'.{hint} There are: {', '.join(self._tools)}.", ok=False
            )
        try:
            given = json.loads(text or "{}")
        except ValueError as error:
            return ToolResult(
                f"{name}: the arguments are not JSON ({error}). Send one JSON object.", ok=False
            )
        if not isinstance(given, dict):
            return ToolResult(f"{name}: the arguments are a {_kind(given)}. Send one JSON object.", ok=False)
        try:
            return tool.arguments.model_validate(given)
        except ValidationError as error:
            return ToolResult(_wrong_shape(name, tool.arguments, error), ok=False)

    async def use(self, name: str, given: Arguments, context: Context) -> ToolResult:
        """Do what was asked; a refusal is a result too."""
        try:
            result = await self._tools[name](given, context)
        except HutchError as error:
            result = ToolResult(str(error), ok=False, data={"error": error.code})
        text = self._clean(result.text)
        if len(text) > MOST_LETTERS:
            half = MOST_LETTERS // 2
            text = f"{text[:half]}\n[... {len(text) - 2 * half} letters left out ...]\n{text[-half:]}"
        return ToolResult(text, result.ok, result.data, result.changes)


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of arguments, without what only costs tokens."""
    lean: dict[str, Any] = _lean(kind.model_json_schema(), top=True)
    return lean


def _lean(node: Any, *, top: bool = False) -> Any:
    if isinstance(node, list):
        return [_lean(part) for part in node]
    if not isinstance(node, dict):
        return node
    kept = {
        name: {key: _lean(part) for key, part in value.items()} if name == "properties" else _lean(value)
        for name, value in node.items()
        if name not in ("title", "default") and not (top and name == "description")
    }
    options = kept.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:  # leaving it out says the same
        options = [option for option in options if option != {"type": "null"}]
        rest = {name: value for name, value in kept.items() if name != "anyOf"}
        kept = {**options[0], **rest} if len(options) == 1 else {**rest, "anyOf": options}
    return kept


def _wrong_shape(name: str, kind: type[Arguments], error: ValidationError) -> str:
    sentences = []
    for fault in error.errors()[:5]:
        place = ".".join(str(step) for step in fault["loc"])
        match fault["type"]:
            case "missing":
                sentences.append(f"`{place}` is missing")
            case "extra_forbidden":
                near = difflib.get_close_matches(place, kind.model_fields, 1)
                sentences.append(
                    f"`{place}` is not known" + (f" (did you mean `{near[0]}`?)" if near else "")
                )
            case _:
                shown = json.dumps(fault["input"], default=str)[:SHOWN_LETTERS]
                sentences.append(f"`{place}` is {shown}: {fault['msg'].lower()}")
    wanted = ", ".join(
        f"{field}{'' if info.is_required() else '?'}" for field, info in kind.model_fields.items()
    )
    return f"{name}: {'; '.join(sentences)}. It takes {{{wanted}}}. Call it again with the right arguments."


def _kind(value: object) -> str:
    return {list: "list", str: "string", type(None): "null", bool: "truth value"}.get(type(value), "number")
