"""The check that a run has a model, with real servers on sockets of this machine."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from hutch.app.models import access
from hutch.flows.doctor_checks import model_availability as model_check
from hutch.flows.doctor_checks.model_availability import REMEDIES, TIMEOUT_S
from hutch.jail.machine_checks import Check
from hutch.settings import LoadedSettings, load
from hutch.store.vault import Vault
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def loaded(home: Path, **models: str) -> LoadedSettings:
    named = models.pop("model", None)
    return load({"model": named, "models": models}, environ={"HUTCH_HOME": str(home), "PATH": os.defpath})


async def check_model(
    loaded: LoadedSettings, environment: dict[str, str], *, ollama_timeout_s: float = DEADLINE_S
) -> Check:
    """The result where a run waits for an Ollama as long as a busy machine needs."""
    read_access, named = partial(access, loaded, environment), loaded.settings.model
    return await model_check.check_model(read_access, named, environment, ollama_timeout_s=ollama_timeout_s)


def answer(*models: str, status: str = "200 OK", asked: list[bytes] | None = None) -> Serve:
    """An Ollama with these models."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if asked is not None:
            asked.append(request)
        body = json.dumps({"models": [{"name": name} for name in models]})
        writer.write(f"HTTP/1.0 {status}\r\n\r\n{body}".encode())
        writer.close()

    return serve


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def answer_the_second(*models: str) -> Serve:
    """An Ollama that answers only the second client. The first waits for a moment only."""
    clients: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        await (hang if len(clients) == 1 else answer(*models))(reader, writer)

    return serve


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[str]:
    tasks = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(finish(reader, writer)))

    async def finish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        await writer.wait_closed()

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.gather(*tasks)


async def refused() -> str:
    """An address on which nobody listens."""
    async with served(hang) as url:
        return url


async def test_nothing_usable_is_a_warning_with_ways_out(tmp_path: Path) -> None:
    url = await refused()
    assert await check_model(loaded(tmp_path, ollama_base_url=url), {}) == Check(
        "model",
        "warn",
        f"none: no key is set, and no Ollama answers\n{url}: connection refused",
        "\n".join(REMEDIES),
    )
    assert "hutch config set-secret anthropic_api_key" in REMEDIES[0]


async def test_an_ollama_that_answers_is_what_a_run_takes(tmp_path: Path) -> None:
    async with served(answer("qwen3:8b")) as url:
        check = await check_model(loaded(tmp_path, ollama_base_url=url), {})
    why = "no key is set, and Ollama runs on this machine"
    assert check == Check("model", "ok", f"ollama:qwen3:8b: {why}\n{url} answers and has it")


async def test_an_ollama_that_hangs_is_given_up(tmp_path: Path) -> None:
    async with served(hang) as url:
        check = await check_model(loaded(tmp_path, ollama_base_url=url), {}, ollama_timeout_s=0.3)
    assert (check.status, check.found.rpartition(": ")[2]) == ("warn", f"no answer within {TIMEOUT_S:g} s")


async def test_an_ollama_without_a_model_is_named_as_that(tmp_path: Path) -> None:
    async with served(answer("nomic-embed-text:latest")) as url:
        check = await check_model(loaded(tmp_path, ollama_base_url=url), {})
    assert check.found == f"none: no key is set, and the Ollama at {url} has no model"
    assert "ollama pull" in check.fix


async def test_an_ollama_that_is_too_slow_for_a_run_can_be_named(tmp_path: Path) -> None:
    async with served(answer_the_second("qwen3:8b")) as url:
        check = await check_model(loaded(tmp_path, ollama_base_url=url), {}, ollama_timeout_s=0.3)
    assert check.found.endswith("takes longer than 0.3 s to answer")
    assert "hutch run --model ollama:qwen3:8b …" in check.fix


async def test_a_model_that_the_ollama_lacks_is_to_be_pulled(tmp_path: Path) -> None:
    async with served(answer("qwen3:8b", "llama4:latest")) as url:
        there = await check_model(loaded(tmp_path, ollama_base_url=url, model="ollama:llama4"), {})
        lacking = await check_model(loaded(tmp_path, ollama_base_url=url, model="ollama:gemma"), {})
    assert there.status == "ok"
    assert (lacking.status, lacking.fix) == ("warn", "ollama pull gemma")
    assert lacking.found.endswith("does not have it; it has qwen3:8b, llama4:latest")


async def test_the_names_of_a_server_drive_no_terminal_and_start_no_line(tmp_path: Path) -> None:
    async with served(answer("a\n\x1b[2Jfix: rm -rf ~")) as url:
        check = await check_model(loaded(tmp_path, ollama_base_url=url), {})
    assert check.found.startswith(
        "'ollama:a\\n\\x1b[2Jfix: rm -rf ~' is not a model name: it contains a line break"
    )


async def test_a_key_is_found_in_the_environment_or_the_vault_and_never_shown(tmp_path: Path) -> None:
    asked: list[bytes] = []
    async with served(answer(asked=asked)) as url:
        found = loaded(tmp_path, ollama_base_url=url)
        result = await check_model(found, {"OPENAI_API_KEY": "sk-kept-in-secret"})
        Vault(found.paths.vault, found.paths.vault_keys).set("anthropic_api_key", "sk-kept-in-secret")
        kept = await check_model(found, {})
    assert (result.status, kept.status) == ("ok", "ok")
    assert result.found.startswith("openai:gpt-5.5: there is a key for openai\nthe key is in OPENAI_API_KEY;")
    assert "the key is in the secret anthropic_api_key; not tried" in kept.found
    assert "in-secret" not in f"{result}{kept}"
    assert asked == []


async def test_a_named_model_without_its_key_says_how_to_set_it(tmp_path: Path) -> None:
    check = await check_model(loaded(tmp_path, model="anthropic:claude-sonnet-5-5"), {})
    assert (check.status, check.found) == (
        "warn",
        "anthropic:claude-sonnet-5-5 cannot be used: There is no key for anthropic. Set it with "
        "`hutch config set-secret anthropic_api_key`, or in the environment as ANTHROPIC_API_KEY "
        "(in that of the server, if one runs).",
    )


async def test_a_compatible_server_is_asked_for_an_answer_without_the_key(tmp_path: Path) -> None:
    asked: list[bytes] = []
    key = {"OPENAI_COMPATIBLE_API_KEY": "sk-in-secret"}
    async with served(answer(status="401 Unauthorized", asked=asked)) as url:
        base = f"{url}/v1"
        named = loaded(tmp_path, openai_compatible_base_url=base, model="openai-compatible:x")
        check = await check_model(named, key)
    assert check.status == "ok"
    assert check.found.endswith(f"{base} answers (status 401 for /v1/models)")
    assert b"in-secret" not in b"".join(asked)
    gone = await check_model(named, key)
    assert (gone.status, gone.found.rpartition("\n")[2]) == (
        "warn",
        f"{base} cannot be used: connection refused",
    )


async def test_a_script_is_usable_when_it_can_be_read(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    script.write_text('{"replies": [{"text": "Done."}]}')
    assert (await check_model(loaded(tmp_path, model=f"scripted:{script}"), {})).status == "ok"
    missing = await check_model(loaded(tmp_path, model="scripted:/nowhere.json"), {})
    assert (missing.status, "/nowhere.json" in missing.found) == ("warn", True)
