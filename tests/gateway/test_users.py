"""Users, tokens, invites and shares over the API, and their permissions."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hutch.domain.ids import new_session_id
from hutch.domain.session import Session
from hutch.flows.user_accounts import LOCAL
from hutch.gateway.rest import login_and_account, session_shares, tokens, users_invites_and_audit
from hutch.store.sessions import add_session
from tests.gateway.request_filter_server import Answering, answering, bearer

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse battery"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Answering]:
    routers = (login_and_account.routes, tokens.routes, users_invites_and_audit.routes, session_shares.routes)
    async with answering(tmp_path, *routers) as made:
        yield made


class Caller:
    """A user with a token."""

    def __init__(self, served: Answering, name: str, http: httpx.AsyncClient) -> None:
        self.served, self.name, self.http = served, name, http
        served.clients.append(http)

    async def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        return await self.http.request(method, f"/api/v1{path}", json=given or None)

    async def status(self, method: str, path: str, **given: Any) -> int:
        return (await self(method, path, **given)).status_code


async def caller(served: Answering, name: str, role: str, *scopes: str) -> Caller:
    accounts = served.accounts
    found = {user.name: user for user in await accounts.users.list()}
    user = found.get(name) or (
        await accounts.ensure_owner(name) if not found else await accounts.add_user(name, role, LOCAL)
    )
    token = await served.token(user, *(scopes or ("read", "write")))
    return Caller(served, name, served.client(headers=bearer(token)))


@pytest.fixture
async def ada(served: Answering) -> Caller:
    return await caller(served, "ada", "owner", "read", "write", "admin")


@pytest.fixture
async def bob(served: Answering, ada: Caller) -> Caller:
    return await caller(served, "bob", "member")


async def id_of(served: Answering, name: str) -> str:
    return (await served.accounts.users.find(name)).id


async def new_session(served: Answering, owner: str) -> str:
    """A row as the server writes it; its other fields do not matter here."""
    session = Session(id=new_session_id(), owner=await id_of(served, owner), created_ms=1, updated_ms=1)
    await served.log.change(lambda db: add_session(db, session))
    return session.id


async def test_an_owner_adds_changes_and_disables_users(served: Answering, ada: Caller) -> None:
    made = await ada("POST", "/users", name="Grace Hopper", role="member")
    assert (made.status_code, made.json()["role"]) == (201, "member")
    path = f"/users/{made.json()['id']}"
    assert await ada.status("POST", "/users", name="grace hopper") == 409
    assert (await ada("PATCH", path, role="observer")).json()["role"] == "observer"
    assert (await ada("PATCH", path, disabled=True)).json()["disabled"] is True
    assert (await ada("GET", path)).json()["name"] == "Grace Hopper"
    assert [user["name"] for user in (await ada("GET", "/users")).json()["items"]] == ["ada", "Grace Hopper"]
    assert await ada.status("PATCH", f"/users/{await id_of(served, 'ada')}", role="member") == 400
    assert await ada.status("PATCH", f"/users/{await id_of(served, 'ada')}", disabled=True) == 400
    actions = [entry["action"] for entry in (await ada("GET", "/audit")).json()["items"]]
    assert actions[:3] == ["user.disabled", "user.role_set", "user.added"]


async def test_a_change_holds_at_once(ada: Caller, bob: Caller, served: Answering) -> None:
    assert await bob.status("GET", "/me") == 200
    await ada("PATCH", f"/users/{await id_of(served, 'bob')}", disabled=True)
    assert await bob.status("GET", "/me") == 401


@pytest.mark.parametrize("role", ["member", "observer", "assessor", "candidate"])
async def test_only_owners_manage_users(served: Answering, ada: Caller, role: str) -> None:
    other = await caller(served, "eve", role, "read")
    ada_id = await id_of(served, "ada")
    for method, path, given in (
        ("GET", "/users", {}),
        ("POST", "/users", {"name": "x"}),
        ("GET", f"/users/{ada_id}", {}),
        ("PATCH", f"/users/{ada_id}", {"role": "member"}),
        ("PATCH", f"/users/{await id_of(served, 'eve')}", {"role": "owner"}),
        ("POST", f"/users/{ada_id}/link", {}),
        ("GET", "/invites", {}),
        ("POST", "/invites", {"role": "member"}),
        ("DELETE", "/invites/lnk_x", {}),
        ("GET", "/audit", {}),
        ("GET", "/tokens?everyone=true", {}),
    ):
        assert (path, await other.status(method, path, **given)) == (path, 403)


async def test_an_owner_with_a_narrow_token_cannot_manage_users_either(
    served: Answering, ada: Caller
) -> None:
    narrow = await caller(served, "ada", "owner", "read", "write")
    assert await narrow.status("GET", "/users") == 403
    assert await narrow.status("POST", "/tokens", scopes=["read"]) == 403


async def test_a_link_for_a_user_logs_them_in(served: Answering, ada: Caller, bob: Caller) -> None:
    made = (await ada("POST", f"/users/{await id_of(served, 'bob')}/link")).json()
    base, _, secret = made["url"].partition("/link#")
    assert base == served.url
    async with served.client() as http:
        answer = await http.post("/api/v1/login/link", json={"link": secret})
    assert answer.json()["user"]["name"] == "bob"


async def test_tokens_are_made_listed_and_revoked(served: Answering, ada: Caller) -> None:
    made = (await ada("POST", "/tokens", name="ci", scopes=["write"], days=7)).json()
    assert made["scopes"] == ["read", "write"]
    assert made["token"].startswith(made["prefix"])
    async with served.client(headers=bearer(made["token"])) as http:
        assert (await http.get("/api/v1/me")).json()["credential_id"] == made["id"]
        listed = (await ada("GET", "/tokens")).json()["items"]
        assert made["token"] not in str(listed)
        assert [token["name"] for token in listed] == ["ci", ""]
        assert await ada.status("DELETE", f"/tokens/{made['id']}") == 204
        assert (await http.get("/api/v1/me")).status_code == 401
    assert await ada.status("DELETE", "/tokens/tok_none") == 404


async def test_a_token_does_not_breed_but_may_end_itself(served: Answering, bob: Caller) -> None:
    assert await bob.status("POST", "/tokens", scopes=["read"]) == 403
    assert await bob.status("POST", "/tokens", scopes=["admin"]) == 403
    me = (await bob("GET", "/me")).json()["credential_id"]
    other = await served.token(await served.accounts.users.find("bob"))
    listed = (await bob("GET", "/tokens")).json()["items"]
    (other_id,) = [token["id"] for token in listed if other.startswith(token["prefix"])]
    assert await bob.status("DELETE", f"/tokens/{other_id}") == 403
    assert await bob.status("DELETE", f"/tokens/{me}") == 204
    assert await bob.status("GET", "/me") == 401


async def test_a_logged_in_user_creates_tokens_within_their_role(served: Answering, bob: Caller) -> None:
    user = await served.accounts.users.find("bob")
    await served.accounts.set_password(user.id, PASSWORD, LOCAL)
    async with served.client(headers={"Origin": served.url}) as http:
        result = await http.post("/api/v1/login", json={"name": "bob", "password": PASSWORD})
        http.headers["X-CSRF-Token"] = result.json()["csrf"]
        assert (await http.post("/api/v1/tokens", json={"scopes": ["write"]})).status_code == 201
        assert (await http.post("/api/v1/tokens", json={"scopes": ["admin"]})).status_code == 403
        ada = (await served.accounts.tokens.list(await id_of(served, "ada")))[0]
        assert (await http.delete(f"/api/v1/tokens/{ada.id}")).status_code == 404  # not even that it is there


async def test_an_invite_makes_one_user(served: Answering, ada: Caller) -> None:
    session_id = await new_session(served, "ada")
    made = (
        await ada("POST", "/invites", role="candidate", session_id=session_id, share_role="candidate")
    ).json()
    secret = made["url"].partition("#")[2]
    assert secret not in str((await ada("GET", "/invites")).json())
    async with served.client() as http:

        async def accept(name: str, password: str = PASSWORD, invite: str = secret) -> int:
            given = {"invite": invite, "name": name, "password": password}
            return (await http.post("/api/v1/invites/accept", json=given)).status_code

        assert await accept("eve", "short") == 400
        assert await accept("ada") == 409  # the name is taken, and the invite not spent
        assert await accept("eve") == 201
        assert await accept("mallory") == 403
        assert await accept("mallory", invite="hutchinvite_" + "x" * 43) == 403
        assert (await http.get("/api/v1/me")).json()["user"]["role"] == "candidate"
    role = await served.accounts.shares.role(session_id, await id_of(served, "eve"))
    assert role == "candidate"
    assert (await ada("GET", "/invites")).json() == {"items": [], "next": None}


async def test_an_invite_creates_no_owner(ada: Caller) -> None:
    assert await ada.status("POST", "/invites", role="owner") == 422
    assert await ada.status("POST", "/invites", role="member", session_id="ses_x") == 400
    assert await ada.status("POST", "/invites", role="member", share_role="member") == 400


async def test_an_invite_that_was_taken_back(served: Answering, ada: Caller, bob: Caller) -> None:
    session_id = await new_session(served, "ada")
    given = {"role": "member", "session_id": session_id, "share_role": "member"}
    first, second = [(await ada("POST", "/invites", **given)).json() for _ in range(2)]
    assert await ada.status("DELETE", f"/invites/{first['id']}") == 204
    assert await bob.status("POST", "/invites/join", invite=first["url"].partition("#")[2]) == 403
    joined = await bob("POST", "/invites/join", invite=second["url"].partition("#")[2])
    assert joined.json() == {"session_id": session_id, "more_sessions": [], "share_role": "member"}


async def test_the_owner_of_a_session_shares_it(served: Answering, ada: Caller, bob: Caller) -> None:
    eve = await caller(served, "eve", "member")
    session_id = await new_session(served, "bob")
    path = f"/sessions/{session_id}/shares"
    for somebody in (eve,):  # to whom it does not exist
        assert await somebody.status("GET", path) == 404
        assert await somebody.status("GET", f"/sessions/{session_id}/access") == 404
        assert await somebody.status("PUT", f"{path}/eve", role="member") == 404
        assert await somebody.status("DELETE", f"{path}/eve") == 404
    assert (await bob("PUT", f"{path}/eve", role="observer")).json()["role"] == "observer"
    assert await eve.status("GET", path) == 403  # sees it, and does not manage it
    mine, hers = [(await who("GET", f"/sessions/{session_id}/access")).json() for who in (bob, eve)]
    assert mine == {
        "actions": ["read", "edit", "input", "manage"],
        "role": None,
        "scopes": [],
        "expires_ms": None,
    }
    assert (hers["actions"], hers["role"]) == (["read"], "observer")
    assert await eve.status("PUT", f"{path}/eve", role="member") == 403
    assert [share["role"] for share in (await ada("GET", path)).json()] == ["observer"]
    assert await bob.status("PUT", f"{path}/nobody", role="observer") == 404
    assert await bob.status("PUT", f"{path}/bob", role="observer") == 400
    assert await eve.status("DELETE", f"{path}/eve") == 204  # one may leave
    assert await eve.status("GET", path) == 404
    there, nowhere = await eve("GET", path), await eve("GET", f"/sessions/{new_session_id()}/shares")
    result = [answer.json()["detail"].partition("'")[0] for answer in (there, nowhere)]
    assert result[0] == result[1]


async def test_a_token_that_may_only_read_gives_up_no_share(served: Answering, bob: Caller) -> None:
    reading = await caller(served, "eve", "member", "read")
    watching = await caller(served, "watcher", "observer", "read")
    path = f"/sessions/{await new_session(served, 'bob')}/shares"
    for name in ("eve", "watcher"):
        assert await bob.status("PUT", f"{path}/{name}", role="observer") == 200
    assert await reading.status("DELETE", f"{path}/eve") == 403
    assert await watching.status("DELETE", f"{path}/watcher") == 204  # whose role never has more


async def test_the_audit_is_read_in_pages(served: Answering, ada: Caller) -> None:
    for number in range(5):
        await ada("POST", "/users", name=f"user {number}")
    first = (await ada("GET", "/audit?limit=3")).json()
    rest = (await ada("GET", f"/audit?limit=3&cursor={first['next']}")).json()
    ids = [entry["id"] for entry in first["items"] + rest["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 6
    entry = first["items"][0]
    assert (entry["user_id"], entry["address"]) == (await id_of(served, "ada"), "127.0.0.1")
    assert entry["credential_id"].startswith("tok_")


async def test_users_tokens_invites_and_browsers_are_read_in_pages(served: Answering, ada: Caller) -> None:
    me = await id_of(served, "ada")
    for number in range(4):
        await ada("POST", "/users", name=f"user {number}")
        await ada("POST", "/tokens", name=f"token {number}", scopes=["read"])
        await ada("POST", "/invites", role="member")
    for _ in range(5):
        await served.accounts.browsers.begin(me, began_by="link", address="", agent="")
    for path, newest_first, count in (
        ("/users", False, 5),
        ("/tokens", True, 5),
        ("/tokens?everyone=true", True, 5),
        ("/invites", True, 4),
        ("/me/browsers", True, 5),
    ):
        seen: list[str] = []
        where: str | None = f"{path}{'&' if '?' in path else '?'}limit=2"
        while where is not None:
            answered = await ada("GET", where)
            page = answered.json()
            assert set(page) == {"items", "next"} and len(page["items"]) in (1, 2)
            seen += [each["id"] for each in page["items"]]
            link = answered.links.get("next")
            assert (link is None) == (page["next"] is None)
            where = link["url"].removeprefix("/api/v1") if link else None
        assert seen == sorted(seen, reverse=newest_first) and len(set(seen)) == count, path
        whole = (await ada("GET", path)).json()
        assert ([each["id"] for each in whole["items"]], whole["next"]) == (seen, None)
    assert await ada.status("GET", "/users?limit=0") == 422
    unknown = (await ada("GET", "/users?page=2")).json()
    message = "There is no such parameter. There are: cursor, limit"
    assert unknown["errors"] == [{"at": "query.page", "message": message}]
