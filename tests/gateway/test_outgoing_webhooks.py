"""Webhooks to other systems: signed, repeated, logged, and never to private addresses."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hutch.store.webhook_secrets import WebhookSecrets
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.interview_rooms import a_plan, a_room, new_room, write_bank

pytestmark = pytest.mark.anyio

LOOPBACK = {"webhooks": {"private_networks": ["127.0.0.0/8"]}}


@dataclass
class Receiver:
    """Another system: what it got, and how it answers."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)  # of the next responses; then 204
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append((headers, body))
        status = self.statuses.pop(0) if self.statuses else 204
        location = "location: http://127.0.0.1:1/\r\n" if status == 302 else ""
        writer.write(
            f"HTTP/1.1 {status} x\r\n{location}content-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in self.requests]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?key=1"
    async with server:
        yield receiver


def is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """As the Standard Webhooks specification says it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{wanted}" in headers["webhook-signature"].split(" ")


async def add(api: Api, url: str, **more: Any) -> dict[str, Any]:
    made = await api.post(f"{V1}/webhooks", json={"url": url, **more})
    assert made.status_code == 201, made.text
    return dict(made.json())


async def until_events(receiver: Receiver, count: int) -> list[str]:
    async def poll() -> list[str]:
        return receiver.events if len(receiver.requests) >= count else []

    return list(await eventually(poll))


async def test_another_system_follows_an_interview_and_asks_for_its_deletion(tmp_path: Path) -> None:
    plan = a_plan(questions=[{"id": "double"}], reference="application 17")
    async with receiving() as receiver, a_room(tmp_path, plan, **LOOPBACK) as first:
        made = await add(first.api, receiver.url)
        room = await new_room(first.api, plan, "2")
        invited = await first.api.post(f"{room.path}/invitations", json={"role": "candidate"})
        assert invited.status_code == 201
        await room.begin()
        await room.post(room.api, "erase", 409)
        await room.post(room.api, "end")
        await until_events(receiver, 5)
        await room.post(room.assessor, "erase", 403)
        await room.post(room.api, "erase")
        assert sorted(await until_events(receiver, 6)) == [  # they may arrive out of order
            "interview.begun",
            "interview.created",
            "interview.ended",
            "interview.erased",
            "interview.invited",
            "interview.report_ready",
        ]
        headers, body = receiver.requests[receiver.events.index("interview.ended")]
        assert is_signed(made["secret"], headers, body)
        assert not is_signed(made["secret"], {**headers, "webhook-timestamp": "1"}, body)
        assert json.loads(body)["data"] == {
            "interview": room.id,
            "reference": "application 17",
            "phase": "ended",
            "cause": "assessor",
        }
        assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 6
        assert all(b"candidate2" not in body for _, body in receiver.requests)
        await room.post(room.api, "erase")  # again: no further effect

        async def are_delivered() -> bool:  # noted when the receiver has answered
            log = (await first.api.get(f"{V1}/webhooks/{made['id']}/messages")).json()["items"]
            return {each["state"] for each in log} == {"delivered"}

        await eventually(are_delivered)
        assert all(each.get("erased") or each["type"] for each in await room.events(room.api))


async def test_a_failed_message_is_sent_again_after_a_restart(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank")
    flags = {"questions": {"banks": [str(bank)]}, **LOOPBACK}
    async with receiving() as receiver:
        receiver.statuses = [500]
        async with serving(tmp_path, **flags) as api:
            made = await add(api, receiver.url, events=["interview.created"])
            await new_room(api, a_plan())
            await until_events(receiver, 1)

            async def failed() -> Any:
                items = (await api.get(f"{V1}/webhooks/{made['id']}/messages")).json()["items"]
                return items and items[0]["attempts"]

            [attempt] = await eventually(failed)
            assert (attempt["status"], attempt["error"]) == (500, "the response has the status 500")
        async with serving(tmp_path, **flags) as api:
            await until_events(receiver, 2)
            first, second = receiver.requests
            assert first[0]["webhook-id"] == second[0]["webhook-id"]
            assert first[1] == second[1]
            assert is_signed(made["secret"], *second)


async def test_a_rotated_secret_signs_beside_the_old_one(tmp_path: Path) -> None:
    async with receiving() as receiver, serving(tmp_path, **LOOPBACK) as api:
        made = await add(api, receiver.url)
        path = f"{V1}/webhooks/{made['id']}"
        secret = (await api.post(f"{path}/rotate")).json()["secret"]
        assert (await api.post(f"{path}/ping")).status_code == 202
        await until_events(receiver, 1)
        assert all(is_signed(each, *receiver.requests[0]) for each in (secret, made["secret"]))
        paths = api.server.loaded.paths
        stored = WebhookSecrets(paths.vault, paths.vault_keys).read(made["id"])
        assert stored == (secret, made["secret"])
        assert secret not in paths.vault.read_text()
        assert "whsec_" not in (await api.get(f"{V1}/webhooks")).text
        assert (await api.delete(path)).status_code == 204
        assert WebhookSecrets(paths.vault, paths.vault_keys).read(made["id"]) == ("", "")
        assert (await api.get(f"{path}/messages")).status_code == 404


async def test_private_addresses_redirects_and_other_users_are_refused(tmp_path: Path) -> None:
    async with receiving() as receiver, serving(tmp_path) as api:
        for url in (
            receiver.url,
            "https://localhost/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/",
            "https://2130706433/",
        ):
            refused = await api.post(f"{V1}/webhooks", json={"url": url})
            assert refused.status_code == 403, (url, refused.text)
        for url in (
            "file:///etc/passwd",
            "https://user:pw@1.1.1.1/",
            "https://1.1.1.1/#x",
            "x",
            "http://1.1.1.1/",
        ):
            refused = await api.post(f"{V1}/webhooks", json={"url": url})
            assert refused.status_code in (400, 403), (url, refused.text)
        member = await api.as_user("member", "member")
        assert (await member.post(f"{V1}/webhooks", json={"url": "https://1.1.1.1/"})).status_code == 403
        assert (await member.get(f"{V1}/webhooks")).status_code == 403
        assert receiver.requests == []


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with receiving() as receiver, serving(tmp_path, **LOOPBACK) as api:
        receiver.statuses = [302]
        made = await add(api, receiver.url)
        await api.post(f"{V1}/webhooks/{made['id']}/ping")

        async def attempted() -> Any:
            items = (await api.get(f"{V1}/webhooks/{made['id']}/messages")).json()["items"]
            return items and items[0]["attempts"]

        assert (await eventually(attempted))[0]["status"] == 302
        assert len(receiver.requests) == 1
