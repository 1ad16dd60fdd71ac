"""Every delta of a reply can be encoded."""

import json

from hypothesis import given
from hypothesis import strategies as st

from hutch.llm.delta_surrogate_replacement import replace_lone_surrogates
from hutch.llm.interface import CallArguments, CallStarted, Finish, Text, Thinking

ANY = st.text(st.characters(codec=None))


@given(ANY)
def test_deltas_can_be_encoded(text: str) -> None:
    for piece in (Text(text), Thinking(text), CallArguments("a", text)):
        fit = replace_lone_surrogates(piece)
        written = fit.text.encode()
        assert len(fit.text) == len(text)
        if text.encode(errors="ignore").decode() == text:
            assert fit is piece
            assert written.decode() == text


def test_a_thought_that_cannot_be_encoded_is_dropped() -> None:
    broken = json.loads(r'{"anthropic": {"parts": [{"thought": {"thinking": "\ud83d"}}]}}')
    assert replace_lone_surrogates(Finish("stop", broken)) == Finish("stop")
    whole = Finish("stop", {"anthropic": {"parts": [{"thought": {"thinking": "é 😀"}}]}})
    assert replace_lone_surrogates(whole) is whole
    started = CallStarted("a", "bash")
    assert replace_lone_surrogates(started) is started
