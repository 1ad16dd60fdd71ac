"""Queries of any form that request too much are refused before they are executed."""

import pytest
from graphql import get_introspection_query

from hutch.domain.errors import BadRequest, LimitReached
from hutch.gateway.graphql.query_cost import (
    MAX_ALIASES,
    MAX_CHARS,
    MAX_COST,
    MAX_DEPTH,
    MAX_FRAGMENTS,
    Weight,
    parse_bounded,
    weigh,
)
from tests.gateway.api_server import Api
from tests.gateway.graphql_helpers import URL, data, refusal


def weight(query: str, **variables: object) -> Weight:
    (found,) = weigh(parse_bounded(query, variables), variables)
    return found


def nested(depth: int) -> str:
    return "{ " + "me { " * (depth - 1) + "id" + " }" * depth


def limit(query: str, **variables: object) -> str:
    with pytest.raises(LimitReached) as refused:
        parse_bounded(query, variables)
    return refused.value.limit


def test_fields_count_one_and_lists_as_many_as_they_may_be_long() -> None:
    assert weight("{ me { id name } }") == Weight(cost=3, depth=2, aliases=0)
    assert weight("{ sessions(first: 10) { items { id } } }").cost == 1 + 10 * 2
    assert weight("{ sessions { items { id } } }").cost == 1 + 50 * 2
    assert weight("query ($n: Int) { sessions(first: $n) { items { id } } }", n=3).cost == 1 + 3 * 2
    assert weight("query ($n: Int) { sessions(first: $n) { next } }").cost == 1 + 200
    assert weight("{ sessions(first: 2) { items { runs(first: 5) { id } } } }").cost == 1 + 2 * (1 + 1 + 5)


def test_fields_that_need_a_query_per_session_weigh_more() -> None:
    assert weight('{ session(id: "x") { diff { patch } } }').cost == 1 + 2000 + 1
    assert limit("{ sessions(first: 20) { items { files { next } } } }") == "graphql.cost"
    assert limit("{ sessions(first: 10) { items { diff { patch } } } }") == "graphql.cost"


def test_a_fragment_weighs_wherever_it_is_used_and_is_weighed_once() -> None:
    assert weight("fragment F on Me { id name } { me { ...F } a: me { ...F ...on Me { role } } }") == Weight(
        cost=1 + 2 + 1 + 2 + 1, depth=2, aliases=1
    )


def test_the_schema_can_be_asked_for_by_tools() -> None:
    assert weight(get_introspection_query()).cost < MAX_COST


def test_as_deep_as_it_may_be_and_one_more() -> None:
    assert weight(nested(MAX_DEPTH)).depth == MAX_DEPTH
    assert limit(nested(MAX_DEPTH + 1)) == "graphql.depth"
    assert limit(nested(100)) == "graphql.depth"
    assert limit("{ " + "me { " * 5000) == "graphql.depth"


def test_depth_does_not_hide_in_fragments() -> None:
    chain = [f"fragment F{n} on Me {{ me {{ ...F{n + 1} }} }}" for n in range(14)]
    assert limit(" ".join(chain) + " fragment F14 on Me { id } { me { ...F0 } }") == "graphql.depth"


def aliases(count: int) -> str:
    return "{ " + " ".join(f"a{n}: me {{ id }}" for n in range(count)) + " }"


BOMBS = {
    "aliases": (aliases(MAX_ALIASES + 1), "aliases"),
    "the same field": ("{ " + "me { id } " * 100 + "}", "same_names"),
    "the same field with other arguments": (
        "{ " + " ".join(f"runs(first: {n}) {{ id }}" for n in range(1, 90)) + " }",
        "same_names",
    ),
    "lists of lists": ("{ sessions(first: 200) { items { runs(first: 200) { id } } } }", "cost"),
    "aliases times depth": (
        "{ "
        + " ".join(f"a{n}: sessions(first: 200) {{ items {{ runs {{ id }} }} }}" for n in range(9))
        + "}",
        "cost",
    ),
    "fragments that double": (
        " ".join(f"fragment F{n} on Query {{ ...F{n + 1} a: me {{ id }} ...F{n + 1} }}" for n in range(18))
        + " fragment F18 on Query { me { id } } { ...F0 }",
        "aliases",
    ),
    "many fragments": (
        " ".join(f"fragment F{n} on Me {{ id }}" for n in range(MAX_FRAGMENTS + 1)) + " { me { ...F0 } }",
        "fragments",
    ),
    "many operations": (" ".join(f"query Q{n} {{ me {{ id }} }}" for n in range(11)), "operations"),
    "many fields": ("{ " + " ".join(f"f{n}" for n in range(300)) + " }", "fields"),
    "many tokens": ("{ me " + "@include(if: true) " * 600 + "{ id } }", "tokens"),
    "a long text": ("{ me { id } } #" + "x" * MAX_CHARS, "characters"),
    "inline fragments within inline fragments": (
        "{ me { " + "... on Me { " * 40 + "id" + " }" * 40 + " } }",
        "depth",
    ),
}


@pytest.mark.parametrize(("query", "what"), BOMBS.values(), ids=BOMBS)
def test_bombs(query: str, what: str) -> None:
    assert limit(query) == f"graphql.{what}"


@pytest.mark.parametrize(
    "query",
    [
        "fragment A on Me { ...A } { me { ...A } }",
        "fragment A on Me { ...B } fragment B on Me { ...A } { me { ...A } }",
        "fragment A on Me { me { ...B } } fragment B on Me { me { ...A } } { me { id } ...A }",
    ],
)
def test_a_fragment_that_contains_itself_is_refused(query: str) -> None:
    with pytest.raises(BadRequest, match="contains itself"):
        parse_bounded(query, {})


@pytest.mark.anyio
@pytest.mark.parametrize(("query", "what"), BOMBS.values(), ids=BOMBS)
async def test_bombs_are_answered_as_errors(api: Api, query: str, what: str) -> None:
    result = await refusal(api, query)
    assert result == {"code": "limit_reached", "limit": f"graphql.{what}"}


@pytest.mark.anyio
async def test_introspection_within_introspection_is_refused(api: Api) -> None:
    inner = "fields { type { fields { type { fields { type { fields { name } } } } } } }"
    answered = await api.post(URL, json={"query": f"{{ __schema {{ types {{ {inner} }} }} }}"})
    assert answered.json()["errors"][0]["extensions"]["code"] in ("bad_request", "limit_reached")


@pytest.mark.anyio
async def test_large_variables_are_refused_and_usual_ones_are_not(api: Api) -> None:
    query = "query ($t: String!) { sessions(text: $t) { next } }"
    assert (await data(api, query, t="words"))["sessions"] == {"next": None}
    assert (await refusal(api, query, t="x" * 300_000))["limit"] == "graphql.bytes"
    assert (await refusal(api, query, t="x" * 10_000))["code"] == "bad_request"
