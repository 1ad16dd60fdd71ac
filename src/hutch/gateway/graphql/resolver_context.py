"""The context of all resolvers: the caller, the server, and loaders that batch their queries."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from graphql import DocumentNode
from strawberry.dataloader import DataLoader
from strawberry.types import Info as AnyInfo

from hutch.domain.errors import Denied
from hutch.domain.proposed_change import Change
from hutch.domain.session import QueuedRun
from hutch.domain.user import Caller, User
from hutch.flows.flow_services import Services
from hutch.gateway.gateway_context import Server
from hutch.store.session_bulk_queries import BulkQueries
from hutch.store.shares import Share

LoadAll = Callable[[list[str]], Awaitable[dict[str, Any]]]


class Context:
    """The context of one operation; its loaders cache for that operation only."""

    def __init__(self, server: Server, caller: Caller, scope: Any, document: DocumentNode) -> None:
        self.server = server
        self.caller = caller
        self.scope = scope  # of the connection, to recheck the caller
        self.document = document
        self._runs: dict[int, DataLoader[str, list[QueuedRun]]] = {}
        self._changes: dict[int, DataLoader[str, list[Change]]] = {}
        self._batches = BulkQueries(server.rows)
        self.shares: DataLoader[str, list[Share]] = _loader(self._batches.shares, list)
        self.users: DataLoader[str, User | None] = _loader(self._batches.users, lambda: None)

    @property
    def services(self) -> Services:
        return self.server.services

    def refuse_candidates(self) -> None:
        """Refuse a candidate, who sees only the sessions that an invitation names."""
        if self.caller.user.role == "candidate":
            raise Denied(
                f"{self.caller.user.name} is candidate, and sees only the sessions of their invitation."
            )

    def runs(self, each: int) -> DataLoader[str, list[QueuedRun]]:
        """The newest few runs of a session."""
        if each not in self._runs:
            self._runs[each] = _loader(partial(self._batches.newest_runs, each=each), list)
        return self._runs[each]

    def changes(self, each: int) -> DataLoader[str, list[Change]]:
        """The newest few changes of a session."""
        if each not in self._changes:
            self._changes[each] = _loader(partial(self._batches.newest_changes, each=each), list)
        return self._changes[each]


def _loader(load_all: LoadAll, nothing: Callable[[], Any]) -> DataLoader[str, Any]:
    async def load(keys: list[str]) -> list[Any]:
        found = await load_all(keys)
        return [found.get(key, nothing()) for key in keys]

    return DataLoader(load_fn=load)


Info = AnyInfo[Context, None]
