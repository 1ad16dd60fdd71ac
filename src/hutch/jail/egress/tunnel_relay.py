"""CONNECT: relays bytes both ways, after checking the client's first bytes.

The upstream gets nothing from the client before that check. Data that the upstream
sends first is relayed meanwhile, for protocols in which the server starts.
"""

import asyncio

from hutch.domain.errors import BadRequest, Denied
from hutch.jail.egress.back_pressure_streams import Side
from hutch.jail.egress.host_normalization import as_address
from hutch.jail.egress.tls_server_name import Incomplete, looks_like_tls, server_name

# A fatal alert "unrecognized_name", so that a TLS client reports more than "connection closed".
_TLS_ALERT = bytes.fromhex("15 0303 0002 02 70")


async def run_tunnel(
    client: Side, upstream: Side, host: str, *, first: bytes = b"", tls_only: bool = True
) -> None:
    """Relay until both directions have ended, or either breaks."""
    downward = asyncio.create_task(_pump(upstream, client))
    upward = asyncio.create_task(_upward(client, upstream, host, first, tls_only))
    try:
        await asyncio.gather(downward, upward)
    finally:
        downward.cancel()
        upward.cancel()
        await asyncio.gather(downward, upward, return_exceptions=True)


async def _upward(client: Side, upstream: Side, host: str, first: bytes, tls_only: bool) -> None:
    await upstream.write(await _first_bytes(client, host, first, tls_only))
    await _pump(client, upstream)


async def _pump(source: Side, sink: Side) -> None:
    while data := await source.receive():
        await sink.write(data)
    sink.end()


async def _first_bytes(client: Side, host: str, first: bytes, tls_only: bool) -> bytes:
    """The client's first bytes, after checking that they are for this host."""
    opening = first or await client.read()
    if not opening:
        return opening
    if not looks_like_tls(opening):
        if tls_only:
            raise Denied(
                f"Tunnel to {host!r} does not carry TLS. Use plain HTTP without CONNECT, "
                f"or list the host with its port for another protocol."
            )
        return opening
    try:
        while True:
            try:
                name = server_name(opening)
                break
            except Incomplete:
                more = await client.read()
                if not more:
                    raise BadRequest("TLS client hello ended early. Send it whole.") from None
                opening += more
        if name is None and not as_address(host):
            raise Denied(f"TLS in the tunnel to {host!r} names no server. Use a client that sends SNI.")
        if name is not None and name != host:
            raise Denied(f"TLS in the tunnel to {host!r} is for {name!r}. Connect to the host you want.")
    except (BadRequest, Denied) as error:
        await client.write(_TLS_ALERT)
        raise Denied(str(error)) from None
    return opening
