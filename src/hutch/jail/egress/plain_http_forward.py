"""Forwards one plain HTTP request and its response.

h11 parses and rewrites both sides, so nothing reaches the upstream that was not
understood here as part of this one request.
"""

import asyncio
import contextlib

import h11

from hutch.domain.errors import BadRequest, Unavailable
from hutch.jail.egress.back_pressure_streams import Side
from hutch.jail.egress.proxy_target import Target, end_to_end, forwarded_headers, framing

_CLOSE = (b"connection", b"close")


async def run_forward(
    client: Side,
    upstream: Side,
    client_parser: h11.Connection,
    request: h11.Request,
    target: Target,
    head_bytes: int,
) -> None:
    """Send the request up and the response down. BadRequest or Unavailable while the response has not
    started."""
    upstream_parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=head_bytes)
    headers = forwarded_headers(target, request)
    upload = asyncio.create_task(
        _upload(client, upstream, client_parser, upstream_parser, request.method, headers, target)
    )
    try:
        await _download(client, upstream, client_parser, upstream_parser, upload)
    finally:
        upload.cancel()
        await asyncio.gather(upload, return_exceptions=True)


async def _upload(
    client: Side,
    upstream: Side,
    client_parser: h11.Connection,
    upstream_parser: h11.Connection,
    method: bytes,
    headers: list[tuple[bytes, bytes]],
    target: Target,
) -> None:
    data = upstream_parser.send(h11.Request(method=method, target=target.path, headers=headers)) or b""
    try:
        while True:
            with contextlib.suppress(OSError):  # an upstream may answer and close before it has read all
                await upstream.write(data)
            event = await _next_event(client, client_parser)
            if isinstance(event, h11.EndOfMessage):
                break
            data = upstream_parser.send(event) or b""
        with contextlib.suppress(OSError):
            await upstream.write(upstream_parser.send(h11.EndOfMessage()) or b"")
    except (OSError, h11.ProtocolError):
        upstream.reset()  # a partial request must not look complete
        raise


async def _download(
    client: Side,
    upstream: Side,
    client_parser: h11.Connection,
    upstream_parser: h11.Connection,
    upload: asyncio.Task[None],
) -> None:
    started = False
    try:
        while True:
            event = await _next_event(upstream, upstream_parser)
            if isinstance(event, h11.InformationalResponse):
                if (client_parser.their_http_version or b"1.0") >= b"1.1":
                    await client.write(client_parser.send(event) or b"")
            elif isinstance(event, h11.Response):
                started = True
                await client.write(client_parser.send(_answer(event)) or b"")
            elif isinstance(event, h11.EndOfMessage):
                await client.write(client_parser.send(h11.EndOfMessage()) or b"")
                return
            else:
                await client.write(client_parser.send(event) or b"")
    except (OSError, h11.ProtocolError) as error:
        if started:
            client.reset()
            raise
        if upload.done() and not upload.cancelled() and upload.exception():
            raise BadRequest(
                f"The request body is incomplete: {upload.exception()}. Send it whole."
            ) from None
        raise Unavailable(f"Cannot read the host's response: {error}. Try again later.") from None


def _answer(response: h11.Response) -> h11.Response:
    """The response for the client; h11 frames the body for the client's version of HTTP."""
    headers = list(response.headers)
    length = [header for header in framing(headers) if header[0] == b"content-length"]
    return h11.Response(
        status_code=response.status_code,
        reason=response.reason,
        headers=[*end_to_end(headers), *length, _CLOSE],
    )


async def _next_event(side: Side, parser: h11.Connection) -> h11.Event:
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            parser.receive_data(await side.read())
        elif isinstance(event, h11.Event):
            return event
        else:  # PAUSED: more was sent than this one request
            raise h11.RemoteProtocolError("data after the end of the message")
