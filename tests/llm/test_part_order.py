"""Parts go back in the order in which they came."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.llm.interface import Call, FromModel
from hutch.llm.part_order import Order, OrderedCall, TextPart, Thought, in_order

PARTS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.text(min_size=1), st.sampled_from([{}, {"phase": "x"}])),
        st.tuples(st.just("thought"), st.text(), st.just({})),
        st.tuples(st.just("call"), st.uuids().map(str), st.sampled_from([{}, {"signature": "x"}])),
    )
)


@given(PARTS)
def test_what_came_goes_back(parts: list[tuple[str, str, dict[str, str]]]) -> None:
    order, text, calls = Order(), "", []
    expected: list[Thought | TextPart | OrderedCall] = []
    for kind, value, mark in parts:
        match kind:
            case "text":
                order.text(value, **mark)
                text += value
                last = expected[-1] if expected else None
                if isinstance(last, TextPart) and last.mark == mark:
                    expected[-1] = TextPart(last.text + value, mark)
                else:
                    expected.append(TextPart(value, mark))
            case "thought":
                order.thought({"thinking": value})
                expected.append(Thought({"thinking": value}))
            case "call":
                order.call(value, **mark)
                calls.append(Call(value, "bash", "{}"))
                expected.append(OrderedCall(calls[-1], mark))
    message = FromModel(text, tuple(calls), order.opaque("some"))
    assert list(in_order(message, "some")) == expected


def test_nothing_is_kept_of_what_needs_no_order() -> None:
    order = Order()
    order.text("I will ")
    order.text("look.")
    order.call("a")
    order.call("b")
    assert order.opaque("some") == {}


def test_text_that_was_changed_goes_to_the_first_place() -> None:
    """A secret was taken out of it, so the lengths are of no use."""
    order = Order()
    order.text("The key ")
    order.thought({"thinking": "hm"})
    order.text("is abc")
    message = FromModel("The key is [redacted]", (), order.opaque("some"))
    assert list(in_order(message, "some")) == [
        TextPart("The key is [redacted]"),
        Thought({"thinking": "hm"}),
        TextPart(""),
    ]


def test_parts_of_another_provider_are_not_looked_at() -> None:
    order = Order()
    order.thought({"thinking": "hm"})
    order.call("a")
    message = FromModel("Hi", (Call("a", "bash", "{}"),), order.opaque("other"))
    assert list(in_order(message, "some")) == [TextPart("Hi"), OrderedCall(Call("a", "bash", "{}"))]
