"""The parts of a reply are sent back in their original order."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.llm.interface import Call, FromModel
from hutch.llm.reply_part_order import Order, OrderedCall, TextPart, Thought, in_order

PARTS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.text(min_size=1), st.sampled_from([{}, {"phase": "x"}])),
        st.tuples(st.just("thought"), st.text(), st.just({})),
        st.tuples(st.just("call"), st.uuids().map(str), st.sampled_from([{}, {"signature": "x"}])),
    )
)


@given(PARTS)
def test_parts_are_restored_in_order(parts: list[tuple[str, str, dict[str, str]]]) -> None:
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


def test_a_text_followed_by_calls_stores_no_order() -> None:
    order = Order()
    order.text("I will ")
    order.text("look.")
    order.call("a")
    order.call("b")
    assert order.opaque("some") == {}


def test_changed_text_goes_into_the_first_part() -> None:
    """A secret was redacted, so the stored lengths are useless."""
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


def test_parts_of_another_provider_are_ignored() -> None:
    order = Order()
    order.thought({"thinking": "hm"})
    order.call("a")
    message = FromModel("Hi", (Call("a", "bash", "{}"),), order.opaque("other"))
    assert list(in_order(message, "some")) == [TextPart("Hi"), OrderedCall(Call("a", "bash", "{}"))]
