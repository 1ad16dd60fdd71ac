"""Login and logout over HTTP: passwords, links, cookies, and guessing."""

import asyncio
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from hutch.flows.password_hashing import Passwords
from hutch.flows.user_accounts import LOCAL, first_owner
from hutch.gateway.auth import one_time_link_page
from hutch.gateway.rest import login_and_account
from hutch.settings.server_sections import Server
from tests.gateway.request_filter_server import Answering, answering, bearer

pytestmark = pytest.mark.anyio
RIGHT = "correct horse battery"
HOUR_MS = 3_600_000


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Answering]:
    async with answering(tmp_path, login_and_account.routes, one_time_link_page.routes) as made:
        owner = await made.accounts.ensure_owner("ada")
        await made.accounts.set_password(owner.id, RIGHT, LOCAL)
        yield made


@pytest.fixture
async def browser(served: Answering) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client(headers={"Origin": served.url}) as http:
        yield http


async def logs_in(http: httpx.AsyncClient, password: str = RIGHT, name: str = "ada") -> httpx.Response:
    answer = await http.post("/api/v1/login", json={"name": name, "password": password})
    if answer.status_code == 200:
        http.headers["X-CSRF-Token"] = answer.json()["csrf"]
    return answer


def cookie_of(answer: httpx.Response) -> tuple[str, dict[str, object]]:
    """The one cookie that is set: its name and attributes."""
    (header,) = answer.headers.get_list("set-cookie")
    ((name, morsel),) = SimpleCookie(header).items()
    wanted = ("path", "domain", "secure", "httponly", "samesite", "max-age")
    return name, {key: morsel[key] for key in wanted}


async def test_a_password_logs_a_browser_in_and_out(served: Answering, browser: httpx.AsyncClient) -> None:
    before = (await browser.get("/api/v1/login")).json()
    assert before == {"methods": ["password"], "user": None, "csrf": None}
    answer = await logs_in(browser)
    assert answer.json()["user"]["name"] == "ada"
    result = (await browser.get("/api/v1/login")).json()
    assert (result["user"]["role"], result["csrf"]) == ("owner", answer.json()["csrf"])
    me = (await browser.get("/api/v1/me")).json()
    assert (me["by"], me["scopes"]) == ("cookie", ["read", "write", "admin"])
    kept = dict(browser.cookies)
    assert (await browser.post("/api/v1/logout", json={})).status_code == 204
    assert dict(browser.cookies) == {}
    browser.cookies.update(kept)  # a thief who has copied it
    assert (await browser.get("/api/v1/me")).status_code == 401
    assert [entry.action for entry in await served.accounts.audit.list(limit=2)] == ["logout", "login"]


async def test_the_cookie_is_for_this_server_and_out_of_reach_of_scripts(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    name, attributes = cookie_of(await logs_in(browser))
    assert name == f"hutch_{served.port}"
    assert attributes == {
        "path": "/",
        "domain": "",
        "secure": "",
        "httponly": True,
        "samesite": "lax",
        "max-age": str(30 * 24 * 3600),
    }


async def test_under_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    name, origin = "hutch.example.com", "https://hutch.example.com"
    server = Server(trusted_proxies=("127.0.0.1",), hostnames=(name,))
    headers = {"Host": name, "X-Forwarded-Proto": "https", "Origin": origin}
    async with answering(tmp_path, login_and_account.routes, server=server) as served:
        owner = await served.accounts.ensure_owner("ada")
        await served.accounts.set_password(owner.id, RIGHT, LOCAL)
        async with served.client(headers=headers) as http:
            answer = await logs_in(http)
        name, attributes = cookie_of(answer)
        assert name == "__Host-hutch"
        assert (attributes["secure"], attributes["path"], attributes["domain"]) == (True, "/", "")
        assert "strict-transport-security" in answer.headers


async def test_a_login_gets_a_new_cookie_and_ends_the_old(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    await logs_in(browser)
    old = dict(browser.cookies)
    await logs_in(browser)
    assert dict(browser.cookies) != old
    async with served.client(cookies=old) as thief:
        assert (await thief.get("/api/v1/me")).status_code == 401
    assert len(await served.accounts.browsers.list((await served.accounts.users.find("ada")).id)) == 1


async def test_a_planted_cookie_is_not_reused(served: Answering, browser: httpx.AsyncClient) -> None:
    browser.cookies.set(f"hutch_{served.port}", "planted", domain="127.0.0.1", path="/")
    answer = await logs_in(browser)
    assert answer.status_code == 200
    assert "planted" not in answer.headers["set-cookie"]


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("nobody", RIGHT), ("ada", ""), ("", "")])
async def test_all_failed_logins_look_the_same(browser: httpx.AsyncClient, name: str, password: str) -> None:
    answer = await logs_in(browser, password, name)
    result = answer.json()
    assert (answer.status_code, result["detail"]) == (401, "The name or the password is wrong.")
    assert "set-cookie" not in answer.headers


async def test_users_without_a_password_and_disabled_users_cannot_log_in(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    await served.accounts.add_user("bob", "member", LOCAL)
    eve = await served.accounts.add_user("eve", "member", LOCAL)
    await served.accounts.set_password(eve.id, RIGHT, LOCAL)
    await served.accounts.set_disabled(eve.id, True, LOCAL)
    assert (await logs_in(browser, "", "bob")).status_code == 401
    assert (await logs_in(browser, RIGHT, "eve")).status_code == 401


async def wait_an_hour_longer(served: Answering) -> None:
    """Add an hour to every wait from now on: seconds may be over before a slow machine has sent the next."""
    trigger = f"""CREATE TRIGGER longer AFTER UPDATE OF until_ms ON login_attempts
        WHEN NEW.until_ms > NEW.last_ms AND NEW.until_ms < NEW.last_ms + {HOUR_MS}
        BEGIN UPDATE login_attempts SET until_ms = until_ms + {HOUR_MS} WHERE key = NEW.key; END"""
    await served.log.change(lambda db: db.exec_driver_sql(trigger).rowcount)


async def let_waits_end(served: Answering) -> None:
    sql = "UPDATE login_attempts SET until_ms = 0"
    await served.log.change(lambda db: db.exec_driver_sql(sql).rowcount)


async def max_wait_ms(served: Answering) -> int:
    sql = "SELECT max(until_ms - last_ms) FROM login_attempts"
    return int(await served.log.fetch(lambda db: db.exec_driver_sql(sql).scalar_one()))


async def test_guessing_makes_the_guesser_wait_and_longer_each_time(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    await wait_an_hour_longer(served)
    assert [(await logs_in(browser, f"wrong {n}")).status_code for n in range(6)] == [401] * 6
    refused = await logs_in(browser)  # the right one does not help now
    assert refused.status_code == 429
    assert 3000 < int(refused.headers["retry-after"]) <= 3601
    assert await max_wait_ms(served) == HOUR_MS + 1000
    await let_waits_end(served)
    assert (await logs_in(browser, "wrong")).status_code == 401
    assert (await logs_in(browser)).status_code == 429
    assert await max_wait_ms(served) == HOUR_MS + 2000
    await let_waits_end(served)
    assert (await logs_in(browser)).status_code == 200


async def test_guesses_at_the_same_moment_are_all_counted(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    await wait_an_hour_longer(served)
    said = await asyncio.gather(*(logs_in(browser, f"wrong {n}") for n in range(30)))
    assert sum(answer.status_code == 401 for answer in said) == 6


async def test_a_restart_forgives_nothing(tmp_path: Path) -> None:
    for expected in ([401] * 9, [429]):
        async with answering(tmp_path, login_and_account.routes) as served, served.client() as http:
            await served.accounts.ensure_owner("ada")
            if expected != [429]:
                await wait_an_hour_longer(served)
            for status in expected:
                if status == 401:  # as they come, without the waits between them
                    await let_waits_end(served)
                assert (await logs_in(http, "wrong")).status_code == status


async def test_other_code_points_of_a_name_give_no_more_tries(tmp_path: Path) -> None:
    async with answering(tmp_path, login_and_account.routes) as served, served.client() as http:
        await served.accounts.ensure_owner("ada")
        names = ("ada", "ADA", "\uff41da", "a\uff44a", "ad\uff41", "\u24d0da", "a\u24d3a")
        said = [(await logs_in(http, "wrong", name)).status_code for name in names]
        counted = await served.log.fetch(
            lambda db: db.exec_driver_sql("SELECT count(*) FROM login_attempts").scalar_one()
        )
    assert said == [401] * 6 + [429]
    assert counted == 3  # this name from this address, the address, and the name


async def test_unauthenticated_callers_do_not_lock_the_owner_out(tmp_path: Path) -> None:
    server = Server(trusted_proxies=("127.0.0.1",))
    async with answering(tmp_path, login_and_account.routes, server=server) as served:
        owner = await served.accounts.ensure_owner("ada")
        await served.accounts.set_password(owner.id, RIGHT, LOCAL)
        async with served.client(headers={"X-Forwarded-For": "203.0.113.1"}) as home:
            assert (await logs_in(home)).status_code == 200
            for number in range(110):  # from many addresses, more than a name has free
                address = f"198.51.100.{number}"
                async with served.client(headers={"X-Forwarded-For": address}) as stranger:
                    await logs_in(stranger, "wrong")
            sql = "UPDATE login_attempts SET until_ms = until_ms + 60000 WHERE until_ms > last_ms"
            await served.log.change(lambda db: db.exec_driver_sql(sql).rowcount)
            assert (await logs_in(home)).status_code == 200
        async with served.client(headers={"X-Forwarded-For": "203.0.113.77"}) as elsewhere:
            assert (await logs_in(elsewhere)).status_code == 429  # where nobody knows the owner, one waits


async def test_one_customer_of_ipv6_is_one_guesser(tmp_path: Path) -> None:
    async with answering(
        tmp_path, login_and_account.routes, server=Server(trusted_proxies=("127.0.0.1",))
    ) as served:
        await served.accounts.ensure_owner("ada")
        await wait_an_hour_longer(served)
        said = []
        for number in range(8):
            address = {"X-Forwarded-For": f"2001:db8::{number}"}
            async with served.client(headers=address) as http:
                said.append((await logs_in(http, "wrong")).status_code)
        assert said == [401] * 6 + [429] * 2


async def test_a_link_logs_in_once(served: Answering, browser: httpx.AsyncClient) -> None:
    owner = await served.accounts.users.find("ada")
    made = await served.accounts.new_link(owner)
    assert made.url(served.url) == f"{served.url}/link#{made.secret}"
    said = await asyncio.gather(
        *(browser.post("/api/v1/login/link", json={"link": made.secret}) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in said) == [200, 403, 403, 403, 403]
    row = await served.log.fetch(lambda db: db.exec_driver_sql("SELECT hash FROM links").scalar_one())
    assert made.secret not in row


async def test_a_newer_link_ends_the_older_and_an_old_one_does_not_work(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    owner = await served.accounts.users.find("ada")
    older, newer = await served.accounts.new_link(owner), await served.accounts.new_link(owner)
    for link, expected in ((older, 403), (newer, 200)):
        answer = await browser.post("/api/v1/login/link", json={"link": link.secret})
        assert answer.status_code == expected
    late = await served.accounts.new_link(owner, life_s=0)
    assert (await browser.post("/api/v1/login/link", json={"link": late.secret})).status_code == 403


async def test_the_page_of_a_link_contains_and_uses_nothing(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    owner = await served.accounts.users.find("ada")
    made = await served.accounts.new_link(owner)
    pages = {(await browser.get(f"/link{tail}")).text for tail in ("", "?x=1", f"?{made.secret}")}
    assert len(pages) == 1
    assert "ada" not in pages.pop()
    answer = await browser.get("/link")
    assert "'unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert (await browser.post("/api/v1/login/link", json={"link": made.secret})).status_code == 200


async def test_on_the_first_start_there_is_an_owner_and_a_link(tmp_path: Path) -> None:
    async with answering(tmp_path, login_and_account.routes) as served:
        made = await first_owner(served.log, name="ada")
        assert made is not None
        assert await first_owner(served.log, name="eve") is None
        async with served.client(headers={"Origin": served.url}) as http:
            answer = await http.post("/api/v1/login/link", json={"link": made.secret})
            assert answer.json()["user"]["role"] == "owner"
            http.headers["X-CSRF-Token"] = answer.json()["csrf"]
            short = await http.put("/api/v1/me/password", json={"password": "short"})
            assert short.status_code == 400
            assert (await http.put("/api/v1/me/password", json={"password": RIGHT})).status_code == 204
        async with served.client() as other:
            assert (await logs_in(other)).status_code == 200


@pytest.mark.parametrize(("by_ms", "expected"), [(0, 204), (HOUR_MS, 403), (-HOUR_MS, 403)])
async def test_the_moment_after_a_link_is_no_longer_because_the_clock_was_set(
    served: Answering, browser: httpx.AsyncClient, by_ms: int, expected: int
) -> None:
    made = await served.accounts.new_link(await served.accounts.users.find("ada"))
    came = await browser.post("/api/v1/login/link", json={"link": made.secret})
    browser.headers["X-CSRF-Token"] = came.json()["csrf"]
    # As if the clock had been ahead, or behind, by so much when the link was used.
    change = f"UPDATE browser_sessions SET created_ms = created_ms + {by_ms}"
    await served.log.change(lambda db: db.exec_driver_sql(change).rowcount)
    served.authenticator.forget(user_id=came.json()["user"]["id"])
    answer = await browser.put("/api/v1/me/password", json={"password": "another horse battery"})
    assert answer.status_code == expected, answer.text


async def test_a_new_password_needs_the_old_and_logs_out_everywhere(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    async with served.client(headers={"Origin": served.url}) as other:
        await logs_in(other)
        await logs_in(browser)
        for given, expected in (
            ({"password": "another horse"}, 403),
            ({"password": "another horse", "current": "wrong"}, 403),
            ({"password": "another horse", "current": RIGHT}, 204),
        ):
            assert (await browser.put("/api/v1/me/password", json=given)).status_code == expected
        assert (await other.get("/api/v1/me")).status_code == 401
        assert (await browser.get("/api/v1/me")).status_code == 200  # by a cookie that is new too
        assert (await logs_in(other)).status_code == 401
        assert (await logs_in(other, "another horse")).status_code == 200


async def test_all_browsers_can_be_logged_out(served: Answering, browser: httpx.AsyncClient) -> None:
    async with served.client(headers={"Origin": served.url}) as other:
        await logs_in(other)
        await logs_in(browser)
        listed = (await browser.get("/api/v1/me/browsers")).json()["items"]
        assert sorted(each["current"] for each in listed) == [False, True]
        assert (await browser.post("/api/v1/logout", json={"everywhere": True})).status_code == 204
        assert (await other.get("/api/v1/me")).status_code == 401


async def test_one_browser_can_be_logged_out_and_not_that_of_another(
    served: Answering, browser: httpx.AsyncClient
) -> None:
    eve = await served.accounts.add_user("eve", "member", LOCAL)
    theirs, _ = await served.accounts.browsers.begin(eve.id, began_by="link", address="", agent="")
    async with served.client(headers={"Origin": served.url}) as other:
        await logs_in(other)
        await logs_in(browser)
        listed = (await browser.get("/api/v1/me/browsers")).json()["items"]
        (mine,) = [each["id"] for each in listed if not each["current"]]
        assert (await browser.delete(f"/api/v1/me/browsers/{mine}")).status_code == 204
        assert (await other.get("/api/v1/me")).status_code == 401
    assert (await browser.delete(f"/api/v1/me/browsers/{theirs.id}")).status_code == 404


async def test_a_token_is_no_browser(served: Answering) -> None:
    token = await served.token(await served.accounts.users.find("ada"), "read", "write", "admin")
    async with served.client(headers=bearer(token)) as http:
        assert (await http.post("/api/v1/logout", json={})).status_code == 403
        assert (await http.put("/api/v1/me/password", json={"password": RIGHT})).status_code == 403
        assert (await http.get("/api/v1/me")).json()["by"] == "token"


async def test_another_page_cannot_log_a_browser_in(served: Answering) -> None:
    form = {"name": "ada", "password": RIGHT}
    async with served.client(headers={"Origin": "http://evil.example"}) as http:
        assert (await logs_in(http)).status_code == 403
        assert (await http.post("/api/v1/login", data=form)).status_code == 403
    async with served.client() as http:
        assert (await http.post("/api/v1/login", data=form)).status_code == 415


async def test_the_server_answers_others_while_it_hashes(tmp_path: Path) -> None:
    async with answering(tmp_path, login_and_account.routes) as served, served.client() as http:
        served.accounts.passwords = Passwords()  # the real, slow one
        owner = await served.accounts.ensure_owner("ada")
        await served.accounts.set_password(owner.id, RIGHT, LOCAL)
        names = ("ada", "nobody", "ada", "nobody")
        hashing = [asyncio.ensure_future(logs_in(http, "wrong", name)) for name in names]
        answered_meanwhile = 0
        while not any(task.done() for task in hashing):
            assert (await http.get("/api/v1/open")).status_code == 200  # meanwhile, again and again
            answered_meanwhile += not all(task.done() for task in hashing)
        assert answered_meanwhile  # all may have ended during the last one
        await asyncio.gather(*hashing)
        assert len(served.seen) > 1
