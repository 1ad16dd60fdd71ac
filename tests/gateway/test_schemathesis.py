"""Requests made up from the OpenAPI document, good ones and bad ones, by two users.

Nothing may end in a server error, every answer is as the document says, and nobody learns
anything of a session that is not theirs.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.cli.hutch_up_process import Home
from tests.forked_command import HUTCH, run
from tests.gateway.api_server import TIMEOUT_S, V1, cassette

FEW, MANY = 2, 200
MARKER = "quillwort"  # stands in everything of the session that others must not see
DOCUMENT = Path(__file__).parents[2] / "docs/openapi.json"
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.unsupported_method,
]
OPERATIONS = {
    found.ok().definition.raw["operationId"]: found.ok()
    for found in schemathesis.openapi.from_path(str(DOCUMENT)).get_all_operations()
}
MAX_HEAD_CHARS = 50_000
BY_OWNER = ("users", "settings", "status")


@dataclass
class Served:
    """A server, its users, and a session of one of them."""

    url: str
    tokens: dict[str, str]
    session_id: str = ""

    def ask(self, case: Case, name: str) -> Any:
        return case.call(base_url=self.url, headers={"Authorization": f"Bearer {self.tokens[name]}"})

    def http(self, name: str = "ada") -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT_S, trust_env=False)

    def session(self) -> str:
        """A session of ada's that is ready, with something in it; a new one when the last was ended."""
        with self.http() as http:
            known = http.get(f"{V1}/sessions/{self.session_id}") if self.session_id else None
            if known is not None and known.status_code == 200 and known.json()["state"] in ("idle", "parked"):
                return self.session_id
            made = http.post(f"{V1}/sessions", json={"purpose": MARKER, "prompt": f"Say {MARKER}."})
            assert made.status_code == 201, made.text
            self.session_id = made.json()["id"]
            until = time.monotonic() + TIMEOUT_S
            while http.get(f"{V1}/sessions/{self.session_id}").json()["state"] not in ("idle", "parked"):
                assert time.monotonic() < until, "the session was never ready"
                time.sleep(0.02)
            where = f"{V1}/sessions/{self.session_id}"
            assert http.put(f"{where}/files/{MARKER}", content=MARKER.encode()).status_code == 201
            assert http.post(f"{where}/terminals").status_code == 201
            started = {"command": f"echo {MARKER}; sleep 300", "yield_s": 0.1}
            assert http.post(f"{where}/commands", json=started).json()["running"]
        return self.session_id


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Home(tmp_path_factory.mktemp("schemathesis"))
    secret = [HUTCH, "config", "set-secret", "github_webhook_secret"]  # so that webhooks are looked at
    run(secret, env=home.environment(), input=b"a word for webhooks", check=True, capture_output=True)
    model = cassette(home.place / "model.json", {"text": f"The word is {MARKER}.", "times": 1_000_000})
    quiet = {"HUTCH_LOG__LEVEL": "error"}  # nobody reads it, and a pipe that is full holds the server up
    with home.up(HUTCH_MODEL=model, HUTCH_SERVER__REQUESTS_PER_MINUTE="10000000", **quiet) as up:
        tokens = {"owner": home.token}
        for name in ("ada", "bob"):
            about, url = {"name": name}, f"{up.url}{V1}/users"
            added = httpx.post(url, json=about, headers=up.owner(), timeout=TIMEOUT_S, trust_env=False)
            assert added.status_code == 201, added.text
            done = home.hutch("tokens", "create", "--user", name, "--scope", "write", "--json")
            assert done.returncode == 0, done.stderr
            tokens[name] = json.loads(done.stdout)["token"]
        yield Served(up.url, tokens)


@pytest.mark.parametrize("name", OPERATIONS)
def test_made_up_requests(served: Served, name: str) -> None:
    make_up(served, name, FEW)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_made_up_requests(served: Served, name: str) -> None:
    make_up(served, name, MANY)


def make_up(served: Served, name: str, examples: int) -> None:
    operation = OPERATIONS[name]
    by_owner = set(operation.definition.raw["tags"]) & set(BY_OWNER)
    session_id = served.session()
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        count = 0

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case) -> None:
            nonlocal count
            count += 1
            if len(case.as_curl_command()) > MAX_HEAD_CHARS:
                return  # the server refuses it before it is a request
            path = case.path_parameters or {}
            if "session_id" in path and count % 5:
                path["session_id"] = session_id
            if path.get("session_id") == session_id:
                stranger = served.ask(case, "bob")
                assert stranger.status_code in (400, 401, 403, 404, 405, 411, 413, 421, 422), stranger.text
                assert MARKER not in stranger.text
            answered = served.ask(case, "owner" if by_owner else "ada")
            loose = "session_id" in path or not arrived(case, answered)
            strict = [] if loose else [checks.negative_data_rejection]
            case.validate_response(answered, checks=[*CHECKS, *strict])
            if not by_owner and "session_id" not in path:
                assert MARKER not in served.ask(case, "bob").text

        try:
            ask()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # there is nothing that could be wrong


def arrived(case: Case, answered: Any) -> bool:
    """True if all parameters were sent: an empty list leaves nothing in an address, nor of what was wrong."""
    sent = parse_qs(urlsplit(str(answered.request.url)).query, keep_blank_values=True)
    return set(case.query or {}) <= set(sent)
