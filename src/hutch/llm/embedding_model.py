"""A model that turns texts into vectors. Nothing is loaded or checked before it is used."""

import asyncio
from collections.abc import Callable, Sequence

from hutch.domain.errors import BadRequest
from hutch.llm.model_and_key_names import ModelName
from hutch.llm.model_factory import Access, find_account
from hutch.system.lazy_dataclass import dataclass

SUPPORTED = ("openai", "gemini", "ollama", "openai-compatible")


@dataclass(frozen=True, slots=True)
class Embedder:
    """One model, with the keys and addresses at the moment of a request."""

    model: ModelName
    read_access: Callable[[], Access]  # blocks the thread
    dimensions: int | None = None  # None: those of the model

    @property
    def name(self) -> str:
        """It changes with everything that changes the vectors."""
        return f"{self.model}@{self.dimensions or 'default'}"

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """The vector of each text, as 32-bit floats of length 1. Raises `HutchError`."""
        if self.model.provider not in SUPPORTED:
            raise BadRequest(
                f"{self.model} cannot be used for search.embeddings. Use a model of {', '.join(SUPPORTED)}."
            )
        from hutch.llm.embeddings_request import request_embeddings

        account = await asyncio.to_thread(lambda: find_account(self.model, self.read_access()))
        return await request_embeddings(account, texts, self.dimensions)
