"""Limits the cost of one query before it is executed.

A short query can request more than any machine has: lists within lists, the same field
under a thousand aliases, fragments of fragments. So the cost of a document is computed as
a whole, each fragment once. It is refused before it is validated, because validation is
the first step that takes long.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    parse,
)
from graphql.error import GraphQLSyntaxError

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.one_line_text import echo
from hutch.system.lazy_dataclass import dataclass

MAX_CHARS = 32_000
MAX_TOKENS = 2000
MAX_FIELDS = 200  # in the text; the time to validate them grows with the square
MAX_SAME_NAME = 8  # in one selection: fields of one name, or fragments
MAX_FRAGMENTS = 20
MAX_DEPTH = 12
MAX_ALIASES = 30
MAX_COST = 20_000
MAX_OPERATIONS = 10
INTROSPECTION_DEPTH = 16  # tools request `ofType` within `ofType`

PAGE = "first"  # the argument with the maximum length of a list
DEFAULT_PAGE = 50
MAX_PAGE = 200
WEIGHTS = {  # fields that need a query per session, and may wake it; the schema as a whole
    "__schema": 2000,
    "__type": 200,
    "diff": 2000,
    "assignments": 50,
    "effectiveLimits": 50,
    "events": 100,
    "file": 1000,
    "files": 1000,
    "interviews": 10,
    "report": 2000,
    "history": 50,
    "searchEvents": 2000,
    "snapshots": 1000,
    "testRuns": 100,
}
LISTS = frozenset(
    {
        "sessions",
        "interviews",
        "runs",
        "changes",
        "events",
        "searchEvents",
        "files",
        "snapshots",
        "shares",
        "testRuns",
        *("tasks", "history", "assignments"),
    }
)
Variables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Weight:
    """The cost of a part of a query."""

    cost: int = 0
    depth: int = 0
    aliases: int = 0


def parse_bounded(query: str, variables: Variables) -> DocumentNode:
    """Parse a query, and refuse it if it is too large."""
    if len(query) > MAX_CHARS:
        raise too_much("characters", len(query), MAX_CHARS)
    try:
        document = parse(query, max_tokens=MAX_TOKENS)
    except GraphQLSyntaxError as error:
        if "more than" in error.message and "tokens" in error.message:
            raise too_much("tokens", None, MAX_TOKENS) from None
        if "nested too deeply" in error.message:
            raise too_much("depth", None, MAX_DEPTH) from None
        raise BadRequest(f"This is not GraphQL: {error.message}") from None
    weigh(document, variables)
    return document


def weigh(document: DocumentNode, variables: Variables) -> list[Weight]:
    """The weight of each operation. Refuses a document with one that is too heavy."""
    operations = [each for each in document.definitions if isinstance(each, OperationDefinitionNode)]
    if len(operations) > MAX_OPERATIONS:
        raise too_much("operations", len(operations), MAX_OPERATIONS)
    fragments = len(document.definitions) - len(operations)
    if fragments > MAX_FRAGMENTS:
        raise too_much("fragments", fragments, MAX_FRAGMENTS)
    weigher = _Weigher(document, variables)
    weights = [weigher.selection(each.selection_set, 1) for each in operations]
    for weight in weights:
        for what, found, maximum in (
            ("depth", weight.depth, MAX_DEPTH),
            ("aliases", weight.aliases, MAX_ALIASES),
            ("cost", weight.cost, MAX_COST),
        ):
            if found > maximum:
                raise too_much(what, found, maximum)
    return weights


def too_much(what: str, found: int | None, maximum: int) -> LimitReached:
    actual = "" if found is None else f", and this one has {found:,}"
    return LimitReached(
        f"The query is too large: {what} may be {maximum:,} at most{actual}. Ask for less, or in parts.",
        limit=f"graphql.{what}",
    )


class _Weigher:
    """Weighs selections; each fragment once, so the work is linear in the length of the text."""

    def __init__(self, document: DocumentNode, variables: Variables) -> None:
        self._variables = variables
        self._fragments = {
            each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)
        }
        self._weighed: dict[str, Weight] = {}
        self._fields = 0
        self._inside: set[str] = set()

    def selection(self, selected: SelectionSetNode | None, level: int) -> Weight:
        if selected is None:
            return Weight()
        if level > INTROSPECTION_DEPTH:
            raise too_much("depth", level, MAX_DEPTH)
        cost = depth = aliases = 0
        same = Counter(_name(node) for node in selected.selections)
        if max(same.values(), default=0) > MAX_SAME_NAME:
            raise too_much("same_names", max(same.values()), MAX_SAME_NAME)
        for node in selected.selections:
            weight = self._node(node, level)
            cost, depth, aliases = cost + weight.cost, max(depth, weight.depth), aliases + weight.aliases
        return Weight(cost, depth, aliases)

    def _node(self, node: Any, level: int) -> Weight:
        match node:
            case FieldNode():
                return self._field(node, level)
            case InlineFragmentNode():
                return self.selection(node.selection_set, level + 1)
            case FragmentSpreadNode():
                return self._fragment(node.name.value)
        return Weight()

    def _field(self, node: FieldNode, level: int) -> Weight:
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise too_much("fields", None, MAX_FIELDS)
        name = node.name.value
        inside = self.selection(node.selection_set, level + 1)
        cost = WEIGHTS.get(name, 1) + inside.cost * self._length(node)
        # Tools read the schema by a query that is deep and cheap.
        depth = 1 if name in ("__schema", "__type") else inside.depth + 1
        return Weight(cost, depth, inside.aliases + (node.alias is not None))

    def _fragment(self, name: str) -> Weight:
        if name in self._inside:
            raise BadRequest(f"The fragment {echo(name, 80)} contains itself.")
        if name not in self._weighed:
            found = self._fragments.get(name)
            self._inside.add(name)
            self._weighed[name] = self.selection(found.selection_set, 1) if found else Weight()
            self._inside.discard(name)
        return self._weighed[name]

    def _length(self, node: FieldNode) -> int:
        """The maximum number of items that the field returns."""
        for argument in node.arguments or ():
            if argument.name.value == PAGE:
                return max(1, min(self._number(argument.value), MAX_PAGE))
        return DEFAULT_PAGE if node.name.value in LISTS else 1

    def _number(self, value: Any) -> int:
        if isinstance(value, IntValueNode):
            return int(value.value[:9])
        if isinstance(value, VariableNode):
            first = self._variables.get(value.name.value)
            if isinstance(first, int) and not isinstance(first, bool):
                return first
        return MAX_PAGE


def _name(node: Any) -> str:
    """The name of a selection in the response."""
    match node:
        case FieldNode():
            return (node.alias or node.name).value
        case FragmentSpreadNode():
            return f"...{node.name.value}"
    return "..."
