"""One request to the embeddings endpoint that OpenAI, Gemini, Ollama, vLLM and llama.cpp share."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hutch.domain.errors import Unavailable
from hutch.llm.provider_account import Account
from hutch.llm.provider_errors import INVALID_DATA, translate_errors
from hutch.llm.provider_http_client import ApiClient
from hutch.llm.transient_error_type import Transient

MAX_DIMENSIONS = 8192
PATH = "/embeddings"


async def request_embeddings(account: Account, texts: Sequence[str], dimensions: int | None) -> list[bytes]:
    """The vector of each text, as 32-bit floats of length 1. Raises `HutchError`."""
    body: dict[str, Any] = {"model": account.model, "input": list(texts), "encoding_format": "float"}
    if dimensions:
        body["dimensions"] = dimensions
    if account.provider == "gemini":
        account = replace(account, base_url=f"{account.base_url.rstrip('/')}/v1beta/openai")
    client = ApiClient(account, {"Authorization": f"Bearer {account.key}"} if account.key else {})
    try:
        async with translate_errors(account, names=_no_names):
            reply = await client.post(PATH, body)
        return _vectors(reply, len(texts))
    except (Transient, *INVALID_DATA) as error:
        raise Unavailable(f"{account.full_name} gave no embeddings: {error}.") from error
    finally:
        await client.close()


async def _no_names() -> list[str]:
    return []


def _vectors(reply: Any, count: int) -> list[bytes]:
    rows = sorted(reply["data"], key=lambda row: int(row["index"]))
    vectors = [array("f", map(float, row["embedding"])) for row in rows]
    sizes = {len(vector) for vector in vectors}
    if len(vectors) != count or len(sizes) > 1 or not all(0 < size <= MAX_DIMENSIONS for size in sizes):
        raise ValueError(f"{len(vectors)} vectors of {sorted(sizes)} numbers for {count} texts")
    return [_normalized(vector).tobytes() for vector in vectors]


def _normalized(vector: "array[float]") -> "array[float]":
    length = math.sqrt(sum(number * number for number in vector))
    if not math.isfinite(length) or length == 0:
        raise ValueError("a vector without a direction")
    return array("f", (number / length for number in vector))
