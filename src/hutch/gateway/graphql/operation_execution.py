"""Executes one operation. Its errors have the same codes as those of the REST API."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import orjson
import strawberry
import structlog
from graphql import GraphQLError
from strawberry.extensions import SchemaExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from hutch.domain.errors import BadRequest, HutchError, LimitReached, TooManyRequests
from hutch.domain.user import Caller
from hutch.gateway.gateway_context import Server
from hutch.gateway.graphql.object_types import SCALARS
from hutch.gateway.graphql.query import Query
from hutch.gateway.graphql.query_cost import parse_bounded
from hutch.gateway.graphql.resolver_context import Context
from hutch.gateway.graphql.subscription import Subscription
from hutch.gateway.http_error_table import INTERNAL, error_status
from hutch.gateway.request_and_response_bodies import to_json
from hutch.logs import current_trace_id
from hutch.system.lazy_dataclass import dataclass

BODY_BYTES = 256 * 1024
MAX_ERRORS = 20
FAULT = "Something went wrong in the server. Its log says more under this trace id."

logger = structlog.get_logger("hutch.graphql")


class _Parsed(SchemaExtension):
    """Uses the document that the cost check has parsed."""

    def on_parse(self) -> Iterator[None]:
        self.execution_context.graphql_document = self.execution_context.context.document
        yield


class _Schema(strawberry.Schema):
    def process_errors(self, errors: Any, execution_context: Any = None) -> None:
        """Do nothing: the code that makes the response reports and logs errors."""


SCHEMA = _Schema(
    Query,
    subscription=Subscription,
    extensions=[_Parsed],
    config=StrawberryConfig(scalar_map=SCALARS, disable_field_suggestions=True),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A query with its variables."""

    query: str
    variables: dict[str, Any]
    name: str | None

    @classmethod
    def parse(cls, body: bytes | str) -> "Operation":
        """Parse the body of a request."""
        if len(body) > BODY_BYTES:
            raise LimitReached(
                f"A query with its variables has at most {BODY_BYTES // 1024} KiB.", limit="graphql.bytes"
            )
        try:
            body = orjson.loads(body)
        except ValueError:
            raise BadRequest('This is not JSON. Send {"query": "{ me { name } }"}.') from None
        return cls.of(body)

    @classmethod
    def of(cls, body: Any) -> "Operation":
        if isinstance(body, list):
            raise BadRequest("Send one operation at a time. A query can request several objects.")
        if not isinstance(body, dict) or not isinstance(body.get("query"), str):
            raise BadRequest('Send an object with a query, such as {"query": "{ me { name } }"}.')
        variables, name = body.get("variables") or {}, body.get("operationName")
        if not isinstance(variables, dict) or not (name is None or isinstance(name, str)):
            raise BadRequest("`variables` must be an object, and `operationName` a string.")
        return cls(body["query"], variables, name or None)


async def answer(server: Server, caller: Caller, scope: Any, operation: Operation) -> dict[str, Any]:
    """The response to a query. Subscriptions need a WebSocket."""
    try:
        context = _context(server, caller, scope, operation)
        result = await SCHEMA.execute(
            operation.query,
            variable_values=operation.variables,
            context_value=context,
            operation_name=operation.name,
            allowed_operation_types=[OperationType.QUERY],
        )
    except InvalidOperationTypeError:
        return refused(server, BadRequest("Only queries are accepted here. Subscribe over a WebSocket."))
    except CannotGetOperationTypeError:
        return refused(
            server,
            BadRequest("There is no such operation. `operationName` must be one of those in the query."),
        )
    except HutchError as error:
        return refused(server, error)
    return _result_json(server, result)


async def answers(
    server: Server, caller: Caller, scope: Any, operation: Operation
) -> AsyncGenerator[dict[str, Any]]:
    """Yield one response for a query, any number for a subscription. A refusal is a response too."""
    try:
        context = _context(server, caller, scope, operation)
        results = await SCHEMA.stream(
            operation.query,
            variable_values=operation.variables,
            context_value=context,
            operation_name=operation.name,
        )
    except HutchError as error:
        yield refused(server, error)
        return
    async with aclosing(results):
        async for result in results:
            yield _result_json(server, result)


def _context(server: Server, caller: Caller, scope: Any, operation: Operation) -> Context:
    return Context(server, caller, scope, parse_bounded(operation.query, operation.variables))


def refused(server: Server, error: HutchError) -> dict[str, Any]:
    """A response that contains only an error."""
    return {
        "data": None,
        "errors": [{"message": server.redactor.redact(str(error)), "extensions": extensions(error)}],
    }


def extensions(error: HutchError) -> dict[str, Any]:
    """The machine-readable fields of an error."""
    more: dict[str, Any] = {"code": error_status(error).code}
    if isinstance(error, LimitReached):
        more["limit"] = error.limit
    if isinstance(error, TooManyRequests):
        more["retry_after_s"] = error.retry_after_s
    return more


def fault(error: BaseException) -> dict[str, Any]:
    """An unexpected exception: it is logged, and the caller gets the trace id."""
    logger.error("graphql.failed", exc_info=error)
    return {"message": FAULT, "extensions": {"code": INTERNAL.code, "trace_id": current_trace_id()}}


def _result_json(server: Server, result: Any) -> dict[str, Any]:
    assert isinstance(result, ExecutionResult)
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        answer["errors"] = [_error(server, each) for each in result.errors[:MAX_ERRORS]]
    return answer


def _error(server: Server, error: GraphQLError) -> dict[str, Any]:
    cause = error.original_error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    message, more = error.message, {"code": "bad_request"}
    if isinstance(cause, HutchError):
        message, more = str(cause), extensions(cause)
    elif cause is not None:
        described = fault(cause)
        message, more = described["message"], described["extensions"]
    formatted = {key: value for key, value in error.formatted.items() if key in ("locations", "path")}
    return {"message": server.redactor.redact(message)[:2000], **formatted, "extensions": more}


def encoded(answer: dict[str, Any]) -> bytes:
    return to_json(answer)
