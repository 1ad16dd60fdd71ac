"""A model behind a provider's HTTP API. Each provider builds the request body and reads the reply."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from hutch.llm.image_support import for_account
from hutch.llm.interface import Delta, Request
from hutch.llm.provider_account import Account
from hutch.llm.provider_errors import check_deltas, translate_errors
from hutch.llm.provider_http_client import ApiClient
from hutch.llm.reply_normalization import CallIds


class HttpModel(ABC):
    """Implements `interface.Model`."""

    context_tokens: int | None = None
    path: str  # of the endpoint that streams replies
    models_path = "/models"

    def __init__(self, account: Account) -> None:
        self.name = account.full_name
        self._account = account
        self._client = ApiClient(account, self._headers())

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        body = self._body(for_account(request, self._account))
        async with (
            translate_errors(self._account, names=self._names),
            self._client.stream(self.path, body) as events,
        ):
            async for delta in check_deltas(self._deltas(events, CallIds(request))):
                yield delta

    async def close(self) -> None:
        await self._client.close()

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._account.key}"} if self._account.key else {}

    async def _names(self) -> list[str]:
        """The names of the provider's models."""
        return [model["id"] for model in (await self._client.get(self.models_path))["data"]]

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]: ...

    @abstractmethod
    def _deltas(self, events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[Delta]: ...
