"""Opening models by name: imports, errors, and the default model."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, Choice, default_model, open_model

LIBRARIES = ("httpx2", "genai_prices", "yaml")
KEYS = {f"{name}_api_key": "key-1234567890" for name in ("anthropic", "openai", "gemini")}
SCRIPT = Path("offline.json")


@pytest.mark.parametrize(
    ("name", "loaded"),
    [
        ("scripted:tape.json", []),
        ("scripted:tape.yaml", ["yaml"]),
        ("anthropic:x", ["httpx2"]),
        ("openai:x", ["httpx2"]),
        ("ollama:x", ["httpx2"]),
        ("gemini:x", ["httpx2"]),
    ],
)
def test_only_the_provider_in_use_is_imported(name: str, loaded: list[str], tmp_path: Path) -> None:
    (tmp_path / "tape.json").write_text('{"replies": [{"text": "x"}]}')
    (tmp_path / "tape.yaml").write_text("replies:\n- text: x\n")
    program = f"""
import json, sys
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, open_model
open_model(parse_model_name({name!r}), Access(keys={KEYS!r}))
print(json.dumps([name for name in {LIBRARIES!r} if name in sys.modules]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == loaded


@pytest.mark.parametrize(
    ("name", "access", "error", "words"),
    [
        ("anthropic:x", Access(), Denied, "no key for anthropic.*set-secret anthropic_api_key"),
        ("gemini:x", Access(), Denied, "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("openai:x", Access(keys={"openai_api_key": "clé"}), Denied, "has invalid characters"),
        ("openai:x", Access(keys={"openai_api_key": "a\nb"}), Denied, "has invalid characters"),
        ("openai-compatible:x", Access(), BadRequest, "needs an address.*openai_compatible_base_url"),
        ("ollama:x", Access(base_urls={"ollama": "localhost:1"}), BadRequest, "which is not an address"),
        ("ollama:x", Access(base_urls={"ollama": "http://[::"}), BadRequest, "which is not an address"),
        ("ollama:x", Access(base_urls={"ollama": "http://a:b@c"}), BadRequest, "which is not an address"),
        ("scripted:none.yaml", Access(), NotFound, "no cassette at none.yaml"),
    ],
)
def test_a_missing_key_or_address_is_reported(
    name: str, access: Access, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        open_model(parse_model_name(name), access)


def test_keys_are_not_shown() -> None:
    assert "1234567890" not in repr(Access(keys=KEYS))


@pytest.mark.anyio
async def test_the_first_provider_with_a_key() -> None:
    both = Access(keys={"gemini_api_key": "x", "openai_api_key": "y"})
    choice = await default_model(both, scripted=SCRIPT)
    assert choice == Choice("openai:gpt-5.5", "there is a key for openai")


def says(answer: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /api/tags HTTP/1.")
        for start in range(0, len(answer), 7):
            writer.write(answer[start : start + 7])
            await writer.drain()
        writer.close()

    return serve


async def chosen(answer: bytes) -> Choice:
    """The default model without a key, with this answer at the address of Ollama."""
    async with await asyncio.start_server(says(answer), "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return await default_model(Access(base_urls={"ollama": url}), scripted=SCRIPT, ollama_timeout_s=60)


@pytest.mark.anyio
async def test_without_a_key_a_running_ollama_is_used() -> None:
    tags = json.dumps({"models": [{"name": "nomic-embed-text:latest"}, {"name": "qwen3:8b"}]})
    choice = await chosen(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + tags.encode())
    assert choice == Choice("ollama:qwen3:8b", "no key is set, and Ollama runs on this machine")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0\r\n", b"HTTP/1.0 200 OK\r\n\r\n{", b"HTTP/1.0 200 OK\r\n\r\n[]"]
)
async def test_a_server_other_than_ollama_is_ignored(answer: bytes) -> None:
    choice = await chosen(answer)
    assert choice.name == "scripted:offline.json"
    assert "set a key with `hutch config set-secret anthropic_api_key`" in choice.reason


@pytest.mark.anyio
async def test_an_ollama_that_has_stalled_is_not_waited_for() -> None:
    stop = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stop.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        choice = await default_model(Access(base_urls={"ollama": url}), scripted=SCRIPT)
        stop.set()
    assert choice.name == "scripted:offline.json"
