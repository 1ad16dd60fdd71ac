"""One HTTP client for all providers: whom it speaks to, and how often it connects."""

import pytest

from hutch.domain.errors import Unavailable
from hutch.llm.seam import Text
from tests.llm.dialects import CHAT, DIALECTS, GO, KEY, Dialect, pieces
from tests.llm.wire import Act, Wire, playing

pytestmark = pytest.mark.anyio
every = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


@every
async def test_the_key_does_not_follow_a_redirect(dialect: Dialect) -> None:
    async with playing(Act(dialect.reply("Mine.", ()))) as other:
        moved = Act(status=307, headers={"Location": f"{other.url}/elsewhere"})
        async with playing(moved) as wire:
            with pytest.raises(Unavailable, match=rf"status 307: It redirects to {other.url}/elsewhere"):
                await pieces(dialect.open(wire))
    assert [KEY in str(asked.headers) for asked in wire.asked] == [True]
    assert other.asked == []


@every
async def test_replies_of_one_model_come_by_one_connection(dialect: Dialect) -> None:
    connections: list[object] = []

    class Counted(Wire):
        async def serve(self, reader: object, writer: object) -> None:
            connections.append(writer)
            await super().serve(reader, writer)  # type: ignore[arg-type]

    whole = Act(dialect.reply("Look.", ()))
    async with playing(whole, whole, whole, kind=Counted) as wire:
        model = dialect.open(wire)
        for _ in range(3):
            assert Text("Look.") in [piece async for piece in model.stream(GO)]
        await model.close()
    assert len(connections) == 1


async def test_a_server_of_ones_own_may_call_its_stream_otherwise() -> None:
    for type_ in ("application/json", "text/plain; charset=latin-1", ""):
        async with playing(Act(CHAT.reply("\u00e9", ()), type=type_)) as wire:
            assert Text("\u00e9") in await pieces(CHAT.open(wire)), type_
