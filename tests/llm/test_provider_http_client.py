"""The HTTP client for all providers: redirects, connections and keys."""

import pytest

from hutch.domain.errors import Denied, Unavailable
from hutch.llm.interface import Text
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, open_model
from hutch.system.trusted_certificates import trusted_certificates
from tests.llm.provider_formats import CHAT, DIALECTS, GO, KEY, Dialect, pieces
from tests.llm.provider_server import Act, Wire, answer, playing

pytestmark = pytest.mark.anyio
every = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


@every
async def test_the_key_does_not_follow_a_redirect(dialect: Dialect) -> None:
    async with playing(Act(dialect.reply("Mine.", ()))) as other:
        moved = Act(status=307, headers={"Location": f"{other.url}/elsewhere"})
        async with playing(moved) as wire:
            with pytest.raises(Unavailable, match=rf"status 307: It redirects to {other.url}/elsewhere"):
                await pieces(dialect.open(wire))
    assert [KEY in str(asked.headers) for asked in wire.requests] == [True]
    assert other.requests == []


@every
async def test_requests_to_one_model_share_a_connection(dialect: Dialect) -> None:
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


@every
async def test_a_response_that_is_no_stream_is_not_retried(dialect: Dialect) -> None:
    page = Act([b"<html>Welcome</html>"], type="text/html; charset=utf-8")
    async with playing(page) as wire:
        with pytest.raises(Unavailable, match=r"It sent text/html where .* Check models\.\w+_base_url"):
            await pieces(dialect.open(wire))
    assert len(wire.bodies) == 1


async def test_certificates_are_loaded_for_https_only() -> None:
    def loads() -> int:
        used = trusted_certificates.cache_info()
        return used.hits + used.misses

    before = loads()
    async with playing(Act(CHAT.reply("Look.", ()))) as wire:
        assert Text("Look.") in await pieces(CHAT.open(wire))
    assert loads() == before
    model = open_model(
        parse_model_name("openai-compatible:x"),
        Access(base_urls={"openai-compatible": "HTTPS://127.0.0.1:1"}),
    )
    await model.close()
    assert loads() == before + 1


async def test_without_a_key_none_is_sent_and_the_server_may_require_one() -> None:
    name = parse_model_name("openai-compatible:x")
    unauthorized = answer(401, {"error": {"message": "Who are you?"}})
    async with playing(unauthorized) as wire:
        with pytest.raises(
            Denied, match=r"requires a key: Who are you\? Set it with `hutch config set-secret"
        ):
            await pieces(open_model(name, Access(base_urls={"openai-compatible": f"{wire.url}/v1"})))
    assert "authorization" not in wire.requests[0].headers


async def test_a_self_hosted_server_may_declare_another_content_type() -> None:
    for type_ in ("application/json", "text/plain; charset=latin-1", ""):
        async with playing(Act(CHAT.reply("\u00e9", ()), type=type_)) as wire:
            assert Text("\u00e9") in await pieces(CHAT.open(wire)), type_
