"""GraphQL over a WebSocket, by the protocol graphql-transport-ws.

Each operation is a task. Slow clients are waited for, and nothing is buffered: the next
response is computed after the last one was sent.
"""

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from hutch.domain.errors import BadRequest, HutchError, LimitReached
from hutch.domain.one_line_text import echo
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.gateway_context import Server
from hutch.gateway.graphql.operation_execution import Operation, answers, encoded, fault, refused
from hutch.gateway.stream.event_and_input_websocket import refuse
from hutch.system.task_cancellation import cancel_and_wait

PROTOCOL = "graphql-transport-ws"
INIT_S = 10.0
POLL_INTERVAL_S = 0.5
MAX_OPERATIONS = 20
MAX_ID = 200


class _ProtocolError(Exception):
    """The client has broken the protocol."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


CLOSING = _ProtocolError(1012, "the server is stopping; reconnect in a moment")


async def serve_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one client until it disconnects or the server stops."""
    try:
        caller = await scope["app"].state.authenticator.recognise(scope)
        caller.need("read")
        if PROTOCOL not in scope.get("subprotocols", ()):
            raise BadRequest(f"This WebSocket needs the subprotocol {PROTOCOL}.")
    except HutchError as error:
        await refuse(scope, receive, send, error)
        return
    await receive()
    await send({"type": "websocket.accept", "subprotocol": PROTOCOL})
    await _Socket(scope, receive, send).run()


class _Socket:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._server: Server = scope["app"].state.server
        self._authenticator: Authenticator = scope["app"].state.authenticator
        self._initialised = asyncio.Event()
        self._operations: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(work) for work in (self._receive_messages(), self._watch())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(*tasks, *self._operations.values())
        for task in done:
            if isinstance(error := task.exception(), _ProtocolError):
                with suppress(OSError):  # it has disconnected meanwhile
                    message = {"type": "websocket.close", "code": error.code, "reason": error.reason[:120]}
                    await self._send(message)
            elif error is not None:
                raise error

    async def _watch(self) -> None:
        """Raise when the client sends no connection_init in time, or when the server stops."""
        try:
            async with asyncio.timeout(INIT_S):
                await self._initialised.wait()
        except TimeoutError:
            raise _ProtocolError(4408, "connection_init is missing") from None
        while not self._server.closing:  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(POLL_INTERVAL_S)
        raise CLOSING

    async def _receive_messages(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._answer(_read(message.get("text")))

    async def _answer(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "connection_init":
                if self._initialised.is_set():
                    raise _ProtocolError(4429, "Too many initialisation requests")
                self._initialised.set()
                await self._send_message({"type": "connection_ack"})
            case "ping":
                await self._send_message({"type": "pong"})
            case "pong":
                return
            case "subscribe":
                await self._subscribe(_id(message), message.get("payload"))
            case "complete":
                if task := self._operations.pop(_id(message), None):
                    task.cancel()
            case other:
                raise _ProtocolError(4400, f"There is no message {echo(other, 40)}")

    async def _subscribe(self, id: str, payload: Any) -> None:
        if not self._initialised.is_set():
            raise _ProtocolError(4401, "Unauthorized")
        if id in self._operations:
            raise _ProtocolError(4409, f"Subscriber for {id} already exists")
        try:
            if len(self._operations) >= MAX_OPERATIONS:
                raise LimitReached(
                    f"One connection has at most {MAX_OPERATIONS} operations.", limit="graphql.operations"
                )
            operation = Operation.of(payload)
            # Each operation counts as a request, with the caller's present rights.
            caller = await self._authenticator.recognise(self._scope)
            caller.need("read")
        except HutchError as error:
            await self._send_message(
                {"id": id, "type": "error", "payload": refused(self._server, error)["errors"]}
            )
            return
        self._operations[id] = asyncio.ensure_future(self._run(id, operation, caller))

    async def _run(self, id: str, operation: Operation, caller: Any) -> None:
        try:
            await self._send_results(id, operation, caller)
        except OSError:
            return  # the client has disconnected, which the reading task notices
        except Exception as error:  # noqa: BLE001  the others on this connection go on
            await self._send_message({"id": id, "type": "error", "payload": [fault(error)]})
        finally:
            if self._operations.get(id) is asyncio.current_task():  # else the id belongs to a newer operation
                del self._operations[id]

    async def _send_results(self, id: str, operation: Operation, caller: Any) -> None:
        first = True
        async with aclosing(answers(self._server, caller, self._scope, operation)) as found:
            async for answer in found:
                if first and answer["data"] is None and "errors" in answer:
                    await self._send_message({"id": id, "type": "error", "payload": answer["errors"]})
                    return
                first = False
                await self._send_message({"id": id, "type": "next", "payload": answer})
        await self._send_message({"id": id, "type": "complete"})

    async def _send_message(self, message: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "text": encoded(message).decode()})


def _read(text: str | None) -> dict[str, Any]:
    if text is None:
        raise _ProtocolError(4400, "Messages must be text frames")
    try:
        message = orjson.loads(text)
    except ValueError:
        raise _ProtocolError(4400, "This message is not JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise _ProtocolError(4400, "A message must be an object with a type")
    return message


def _id(message: dict[str, Any]) -> str:
    id = message.get("id")
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID:
        raise _ProtocolError(4400, f"`id` must be a string of up to {MAX_ID} characters")
    return id
