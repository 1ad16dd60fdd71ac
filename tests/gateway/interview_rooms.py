"""Interviews over a real server, for tests: a bank with small questions, and clients of all roles."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.flows.user_accounts import Accounts
from tests.flows.interview_questions.question_folders import FILES, TOML
from tests.gateway.api_server import V1, Api, eventually, serving

JS = {
    "javascript/starter/double.js": "exports.double = (n) => { throw new Error('no') };\n",
    "javascript/tests/double.test.js": "const test = require('node:test');\n",
    "javascript/solution/double.js": "exports.double = (n) => 2 * n;\n",
}


def write_bank(bank: Path, hidden_name: str = "large") -> Path:
    """A bank with the questions `double`, also in JavaScript, and `triple`."""
    for name in ("double", "triple"):
        files = {
            path: text.replace("double", name).replace('"large"', f'"{hidden_name}"')
            for path, text in FILES.items()
        }
        files["question.toml"] = TOML.replace("double", name).replace(
            '"consultant", "pair"', '"consultant", "pair", "copilot"'
        )
        if name == "double":
            files |= JS
        for path, text in files.items():
            file = bank / name / path.replace("double", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return bank


def a_plan(**changes: Any) -> dict[str, Any]:
    return {
        "title": "Backend engineer",
        "questions": [{"id": "double", "language": "python"}, {"id": "triple"}],
        "company": "Acme",
        "role": "backend engineer",
        **changes,
    }


class Room:
    """An interview with clients of its people."""

    def __init__(self, api: Api, id: str, candidate: Api, assessor: Api, observer: Api) -> None:
        self.api, self.id = api, id
        self.candidate, self.assessor, self.observer = candidate, assessor, observer

    @property
    def path(self) -> str:
        return f"{V1}/interviews/{self.id}"

    async def post(self, client: Api, what: str, expected: int = 200, **body: Any) -> dict[str, Any]:
        answered = await client.post(f"{self.path}/{what}", json=body or None)
        assert answered.status_code == expected, answered.text
        return dict(answered.json())

    async def get(self, client: Api, expected: int = 200) -> dict[str, Any]:
        answered = await client.get(self.path)
        assert answered.status_code == expected, answered.text
        return dict(answered.json())

    async def begin(self) -> dict[str, Any]:
        """Begin, and wait until the first workspace is there."""
        await self.post(self.candidate, "lobby")
        begun = await self.post(self.api, "begin")
        await self.api.until(begun["question"]["workspace"], "idle", "parked")
        return begun

    async def events(self, client: Api, *types: str) -> list[dict[str, Any]]:
        """Events of the room, as a client sees them."""
        found = await client.events(self.id)
        return [each for each in found if not types or each["type"] in types]

    async def until_event(self, type: str) -> dict[str, Any]:
        async def poll() -> dict[str, Any] | None:
            found = await self.events(self.api, type)
            return found[-1] if found else None

        return dict(await eventually(poll))


@asynccontextmanager
async def a_room(
    place: Path, plan: dict[str, Any] | None = None, *, hidden_name: str = "large", **flags: Any
) -> AsyncIterator[Room]:
    """A planned interview on a server of its own. `hidden_name`: of one of the hidden cases."""
    bank = write_bank(place / "bank", hidden_name)
    async with serving(place, questions={"banks": [str(bank)]}, **flags) as api:
        yield await new_room(api, plan or a_plan())


async def new_room(api: Api, plan: dict[str, Any], suffix: str = "") -> Room:
    made = await api.post(f"{V1}/interviews", json=plan)
    assert made.status_code == 201, made.text
    id = made.json()["id"]
    people = []
    accounts = Accounts(api.server.rows)
    for role in ("candidate", "assessor", "observer"):
        client = await api.as_user(f"{role}{suffix}", role)  # type: ignore[arg-type]
        user = await accounts.users.find(f"{role}{suffix}")
        await accounts.shares.set(id, user.id, role, created_by="")  # type: ignore[arg-type]
        people.append(client)
    return Room(api, id, *people)
