"""What every resolver has at hand: who asks, the server, and loaders that ask once for many."""

from collections.abc import Callable
from functools import partial
from typing import Any

from graphql import DocumentNode
from strawberry.dataloader import DataLoader
from strawberry.types import Info as AnyInfo

from hutch.app.server import Server
from hutch.domain.change import Change
from hutch.domain.session import QueuedRun
from hutch.domain.user import User, Who
from hutch.flows.site import Site
from hutch.store.batches import newest_changes, newest_runs, shares_of, users_of
from hutch.store.shares import Share


class Context:
    """Of one operation; what was loaded for it is forgotten with it."""

    def __init__(self, server: Server, who: Who, scope: Any, document: DocumentNode) -> None:
        self.server = server
        self.who = who
        self.scope = scope  # of the connection, for who must be recognised again
        self.document = document
        self._runs: dict[int, DataLoader[str, list[QueuedRun]]] = {}
        self._changes: dict[int, DataLoader[str, list[Change]]] = {}
        self.shares: DataLoader[str, list[Share]] = self._loader(shares_of, list)
        self.users: DataLoader[str, User | None] = self._loader(users_of, lambda: None)

    @property
    def site(self) -> Site:
        return self.server.site

    def runs(self, each: int) -> DataLoader[str, list[QueuedRun]]:
        """The newest few runs of a session."""
        if each not in self._runs:
            self._runs[each] = self._loader(partial(newest_runs, each=each), list)
        return self._runs[each]

    def changes(self, each: int) -> DataLoader[str, list[Change]]:
        """The newest few changes of a session."""
        if each not in self._changes:
            self._changes[each] = self._loader(partial(newest_changes, each=each), list)
        return self._changes[each]

    def _loader(self, batch: Callable[..., Any], nothing: Callable[[], Any]) -> DataLoader[str, Any]:
        async def load(keys: list[str]) -> list[Any]:
            found = await self.server.rows.fetch(lambda connection: batch(connection, keys))
            return [found.get(key, nothing()) for key in keys]

        return DataLoader(load_fn=load)


Info = AnyInfo[Context, None]
