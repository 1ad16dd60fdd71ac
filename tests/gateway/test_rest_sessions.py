"""Sessions over HTTP: opened, listed, read, forked and removed."""

from pathlib import Path
from typing import Any

import pytest

from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import Accounts
from hutch.gateway.rest.sessions import DeliveryOut
from hutch.sessions.live_session_host import LocalHost
from tests.forge.repositories import make_repository
from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio


async def test_a_session_is_made_ready_and_does_its_prompt(api: Api) -> None:
    made = await api.post(f"{V1}/sessions", json={"purpose": "Try it", "prompt": "Say something"})
    assert made.status_code == 201
    session = made.json()
    assert made.headers["location"] == f"{V1}/sessions/{session['id']}"
    assert (session["purpose"], session["state"], session["deliver"]) == ("Try it", "queued", False)
    await api.until(session["id"], "idle")
    shown = (await api.get(made.headers["location"])).json()
    events = (await api.get(f"{V1}/sessions/{session['id']}/events")).json()
    assert shown["head"] == {key: events["items"][-1][key] for key in ("seq", "hash", "at_ms")}
    types = [entry["event"]["type"] for entry in events["items"]]
    assert (types[0], types[-1]) == ("session.opened", "run.ended")
    [run] = (await api.get(f"{V1}/sessions/{session['id']}/runs")).json()["items"]
    assert (run["prompt"], run["state"], run["outcome"]) == ("Say something", "ended", "done")
    assert (await api.get(f"{V1}/runs/{run['id']}")).json() == run


async def test_sessions_are_listed_in_pages_without_gap_or_repetition(api: Api) -> None:
    made = [(await api.new_session(purpose=f"paged {number}"))["id"] for number in range(5)]
    found, url = [], f"{V1}/sessions?q=paged&limit=2"
    while url:
        page = await api.get(url)
        found += [each["id"] for each in page.json()["items"]]
        url = page.links.get("next", {}).get("url", "")
        assert bool(url) == (page.json()["next"] is not None)
    assert found == made[::-1]


async def test_sessions_are_found_by_state_and_by_words(api: Api) -> None:
    one = await api.ready_session(purpose="Mend the frobnicator", prompt="Look for zyzzyva")
    await api.give(one, type="end", reason="")
    await api.until(one, "ended")
    for query in ("q=FROBNICATOR", "q=zyzzyva+mend", f"q={one}", "state=ended&q=frobnicator"):
        found = (await api.get(f"{V1}/sessions?{query}")).json()["items"]
        assert [each["id"] for each in found] == [one], query
    assert (await api.get(f"{V1}/sessions?state=idle&q=frobnicator")).json()["items"] == []
    assert [s["id"] for s in (await api.get(f"{V1}/search?q=frobnicator")).json()["items"]] == [one]
    assert (await api.get(f"{V1}/search?q=%25%5F")).json()["items"] == []
    assert (await api.get(f"{V1}/sessions?state=nonsense")).status_code == 422
    for path in ("sessions", "search"):
        many = await api.get(f"{V1}/{path}", params={"q": "a " * 11})
        assert (many.status_code, many.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "asked",
    [
        {"persona": "pair\nreviewer"},
        {"revision": "main\x1b]0;x\x07"},
        {"delivery": {"title": "Two\r\nlines"}},
        {"delivery": {"title": "from \u202eright to left"}},
        {"delivery": {"branch": "main\u2028x"}},
        {"delivery": {"labels": ["good", "bad\x00"]}},
        {"delivery": {"reviewers": ["a\tb"]}},
        {"delivery": {"issue": "https://example.com/1\x85"}},
    ],
)
async def test_names_and_titles_are_one_line(api: Api, asked: dict[str, Any]) -> None:
    refused = await api.post(f"{V1}/sessions", json={"prompt": "Say something", **asked})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert "is one line of text" in refused.json()["detail"]
    assert refused.json()["detail"].isprintable()


async def test_an_author_without_an_address_is_refused(api: Api) -> None:
    refused = await api.post(f"{V1}/sessions", json={"delivery": {"author": "no address"}})
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "'no address' is not an author. Write it as: Name <address>.",
    )


async def test_a_persona_a_revision_and_a_script_must_exist_before_a_session_does(
    api: Api, tmp_path: Path
) -> None:
    repo = tmp_path / "repo"
    make_repository(repo, {"a": "1\n", ".hutch/personas/mine.md": "Be brief.\n"})
    (tmp_path / "wrong.json").write_text('{"replies": 1}')
    before = len((await api.get(f"{V1}/sessions")).json()["items"])
    here = {"repository": str(repo), "prompt": "Say something"}
    for wrong, result in (
        ({"persona": "nobody"}, "There is no persona 'nobody'"),
        ({"revision": "nowhere"}, "has no branch, tag or commit 'nowhere'"),
        ({"model": f"scripted:{tmp_path}/none.json"}, "There is no cassette"),
        ({"model": f"scripted:{tmp_path}/wrong.json"}, "is wrong at replies"),
    ):
        refused = await api.post(f"{V1}/sessions", json={**here, **wrong})
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request"), refused.text
        assert result in refused.json()["detail"]
    assert len((await api.get(f"{V1}/sessions")).json()["items"]) == before
    made = await api.post(f"{V1}/sessions", json={**here, "persona": "mine", "revision": "main"})
    assert made.status_code == 201, made.text


async def test_a_title_may_be_in_any_language(api: Api) -> None:
    title = "Prüfe 日本語 👩\u200d💻\u00a0x"
    made = await api.post(f"{V1}/sessions", json={"delivery": {"title": title}})
    assert (made.status_code, made.json()["delivery"]["title"]) == (201, title)
    assert made.json()["delivery"].keys() == DeliveryOut.model_fields.keys()  # and nothing that is our own


async def test_a_session_of_another_is_as_if_it_were_not_there(api: Api) -> None:
    mine = await api.ready_session(purpose="private matters", prompt="Say it")
    run = (await api.get(f"{V1}/sessions/{mine}/runs")).json()["items"][0]["id"]
    bob = await api.as_user("bob")
    gone = "ses_01jd2m4c9k7w6t0q8n5x3vbaeh"
    asked = [
        ("GET", ""),
        ("DELETE", ""),
        *(("GET", f"/{what}") for what in ("inputs", "events", "runs", "files", "snapshots", "diff")),
        *(("GET", f"/{what}") for what in ("commands", "terminals", "record", "receipt", "previews")),
        *(
            ("GET", f"/{what}")
            for what in ("files/a.txt", "grep?pattern=a", "glob?pattern=a", "commands/bg_1", "events/stream")
        ),
        ("PUT", "/files/a.txt"),
        ("DELETE", "/files/a.txt"),
        ("DELETE", "/commands/bg_1"),
        ("DELETE", "/terminals/t1"),
        *(("POST", f"/{what}") for what in ("inputs", "fork", "move", "directories", "edit", "patch")),
        *(("POST", f"/{what}") for what in ("snapshots", "snapshots/1/restore", "commands", "terminals")),
    ]
    bodies = {
        "/inputs": {"type": "prompt", "text": "x"},
        "/move": {"path": "a", "to": "b"},
        "/directories": {"path": "a"},
        "/edit": {"path": "a", "edits": [{"old": "a", "new": "b"}]},
        "/patch": {"patch": "x"},
        "/commands": {"command": "true"},
    }
    for method, rest in asked:
        answers = []
        for session_id in (mine, gone):
            body = bodies.get(rest) if method == "POST" else None
            answered = await bob.request(method, f"{V1}/sessions/{session_id}{rest}", json=body)
            assert answered.status_code == 404, (method, rest, answered.text)
            said = answered.json()
            del said["trace_id"]
            answers.append({**said, "detail": said["detail"].replace(session_id, "ID")})
        assert answers[0] == answers[1], (method, rest)
    there, not_there = [await bob.get(f"{V1}/runs/{id}") for id in (run, "run_" + gone[4:])]
    assert there.status_code == not_there.status_code == 404
    assert there.json()["detail"].replace(run, "ID") == not_there.json()["detail"].replace(
        "run_" + gone[4:], "ID"
    )
    assert (await bob.get(f"{V1}/sessions?q=private")).json()["items"] == []
    assert (await bob.get(f"{V1}/search?q=private")).json()["items"] == []
    assert (await api.get(f"{V1}/sessions/{mine}")).status_code == 200


async def test_the_rights_of_a_share(api: Api) -> None:
    mine = await api.ready_session(purpose="shared")
    ada, eve = await api.as_user("ada"), await api.as_user("eve")
    for name, role in (("ada", "member"), ("eve", "observer")):
        user = (await api.get(f"{V1}/users")).json()["items"]
        [id] = [each["id"] for each in user if each["name"] == name]
        shared = await api.put(f"{V1}/sessions/{mine}/shares/{id}", json={"role": role})
        assert shared.status_code < 300, shared.text
    assert [each["id"] for each in (await eve.get(f"{V1}/sessions")).json()["items"]] == [mine]
    assert (await eve.get(f"{V1}/sessions/{mine}/files")).status_code == 200
    refused = await eve.put(f"{V1}/sessions/{mine}/files/a.txt", content=b"x")
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert (await ada.put(f"{V1}/sessions/{mine}/files/a.txt", content=b"x")).status_code == 201
    assert (await ada.delete(f"{V1}/sessions/{mine}")).status_code == 403


async def test_without_a_token_nothing_is_returned(api: Api) -> None:
    mine = await api.new_session(purpose="x")
    nobody = await api.as_nobody()
    for path in ("/sessions", f"/sessions/{mine['id']}", "/personas", "/models", "/settings", "/changes"):
        refused = await nobody.get(f"{V1}{path}")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert refused.headers["www-authenticate"] == "Bearer"


async def test_readers_change_nothing(api: Api) -> None:
    reader = await api.as_user("reader", "observer")
    refused = await reader.post(f"{V1}/sessions", json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")


async def test_only_an_owner_names_what_is_on_the_machine(api: Api, tmp_path: Path) -> None:
    make_repository(tmp_path / "repo", {"a.txt": "a\n"})
    member = await api.as_user("mallory")
    for what in ({"repository": str(tmp_path / "repo")}, {"model": "scripted:/etc/passwd"}):
        refused = await member.post(f"{V1}/sessions", json=what)
        assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    for what in (
        {"repository": "https://me:pass-word@example.com/x.git"},
        {"repository": "ext::sh -c id"},
        {"model": "nobody"},
        {"network": ["http://example.com/"]},
        {"network": ["example.com", "localhost"]},
        {"network": ["127.0.0.1:8080"]},
        {"network": ["10.1.2.3"]},
        {"network": ["*.localhost"]},
        {"persona": "nobody-here"},
        {"persona": "../../etc/passwd"},
        {"persona": "../x", "repository": str(tmp_path / "repo")},
        {"model": "antropic:claude"},
        {"model": f"scripted:{tmp_path}/none.json"},
        {"repository": str(tmp_path / "nowhere")},
        {"repository": f"file://{tmp_path}/{'x' * 300}"},
    ):
        refused = await api.post(f"{V1}/sessions", json=what)
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
        assert "pass-word" not in refused.text
    assert "Known personas: consultant" in (await api.post(f"{V1}/sessions", json={"persona": "x"})).text
    its_own = {"repository": str(tmp_path / "repo"), "persona": "of-the-repository"}
    assert "There is no persona" in (await api.post(f"{V1}/sessions", json=its_own)).text


async def test_a_model_without_its_key_is_refused_before_a_session_is_opened(
    api: Api, tmp_path: Path
) -> None:
    make_repository(tmp_path / "repo", {"a.txt": "a\n"})
    before = {each["id"] for each in (await api.get(f"{V1}/sessions")).json()["items"]}
    code = {"repoUrl": str(tmp_path / "repo"), "prompt": "Mend it."}
    for path, asked in ((f"{V1}/sessions", {}), ("/api/code", code)):
        refused = await api.post(path, json={**asked, "model": "gemini:some"})
        assert (refused.status_code, refused.json()["code"]) == (403, "denied"), refused.text
        assert "There is no key for gemini. Set it with" in refused.json()["detail"]
    assert {each["id"] for each in (await api.get(f"{V1}/sessions")).json()["items"]} == before


@pytest.mark.parametrize("sign", ["\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029"])
async def test_a_models_name_with_a_line_break_at_an_end_is_refused(
    api: Api, tmp_path: Path, sign: str
) -> None:
    make_repository(tmp_path / "repo", {"a.txt": "a\n"})
    code = {"repoUrl": str(tmp_path / "repo"), "prompt": "Mend it."}
    for name in (f"openai:gpt{sign}", f"{sign}openai:gpt"):
        for path, asked in ((f"{V1}/sessions", {}), ("/api/code", code)):
            refused = await api.post(path, json={**asked, "model": name})
            assert refused.status_code == 400, refused.text
            assert "is not a model name: it contains a line break" in refused.json()["detail"]


async def test_a_missing_path_is_reported_only_to_callers_who_may_name_it(tmp_path: Path) -> None:
    (tmp_path / "git").mkdir()
    server = {"repository_roots": [str(tmp_path / "git")]}
    async with serving(tmp_path, server=server, jail={"private_networks": ["10.1.2.0/24"]}) as api:
        member = await api.as_user("mallory")
        for path, status in ((tmp_path / "git/none", 400), (tmp_path / "none", 403), (tmp_path, 403)):
            refused = await member.post(f"{V1}/sessions", json={"repository": str(path)})
            assert refused.status_code == status, refused.text
        session = await api.ready_session(network=["10.1.2.3"])  # as the operator allows
        ran = await api.post(f"{V1}/sessions/{session}/commands", json={"command": "echo hello"})
        assert ran.json()["stdout"] == "hello\n"


async def test_a_fork_begins_with_the_files_of_a_snapshot(api: Api) -> None:
    first = await api.ready_session(purpose="forked")
    url = f"{V1}/sessions/{first}"
    await api.put(f"{url}/files/a.txt", content=b"one")
    then = (await api.post(f"{url}/snapshots", json={"reason": "one"})).json()["id"]
    await api.put(f"{url}/files/a.txt", content=b"two")
    for body, content in (({"snapshot": then}, b"one"), (None, b"two")):
        made = await api.post(f"{url}/fork", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["forked_from"].startswith(f"{first}@")
        await api.until(made.json()["id"], "idle", "parked")
        assert (await api.get(f"{V1}/sessions/{made.json()['id']}/files/a.txt")).content == content
    assert (await api.post(f"{url}/fork", json={"snapshot": 9999})).status_code == 404


async def test_a_removed_session_is_gone_with_its_workspace(api: Api) -> None:
    mine = await api.ready_session(purpose="to be removed", prompt="Say it")
    homes = api.server.loaded.paths.data / "workspaces"

    def workspaces() -> set[str]:
        return {each.name for each in homes.iterdir()}

    prepared = [each for each in await api.events(mine) if each["type"] == "session.prepared"]
    assert prepared[0]["workspace"] in workspaces()
    assert (await api.delete(f"{V1}/sessions/{mine}")).status_code == 204
    assert (await api.get(f"{V1}/sessions/{mine}")).status_code == 404
    assert (await api.get(f"{V1}/sessions?q=removed")).json()["items"] == []
    assert prepared[0]["workspace"] not in workspaces()
    head = await api.server.log.head(mine)  # what happened stays
    assert head.ended
    noted = (await api.get(f"{V1}/audit")).json()["items"][0]
    assert (noted["action"], noted["object"]) == ("session.removed", mine)


async def test_a_session_that_waits_has_a_place_in_the_queue(tmp_path: Path) -> None:
    slow = [{"text": "Thinking.", "delay_s": 30, "times": 100}]
    async with serving(tmp_path, replies=slow, sessions={"runs_per_user": 1}) as api:
        first = await api.new_session(prompt="one")
        waiting = [await api.new_session(prompt=f"{number}") for number in (2, 3)]
        await api.until(first["id"], "running")

        async def places() -> list[int | None]:
            shown = [(await api.get(f"{V1}/sessions/{each['id']}")).json() for each in waiting]
            return [each["queue_position"] for each in shown]

        async def settled() -> bool:
            return await places() == [1, 2]

        await eventually(settled)
        for each in (first, *waiting):
            await api.give(each["id"], type="end", reason="")


async def test_only_owners_and_members_open_sessions(api: Api) -> None:
    source = await api.ready_session()
    carl = await api.as_user("carl", "candidate")
    user = await Accounts(api.server.rows).users.find("carl")
    await Accounts(api.server.rows).shares.set(source, user.id, "candidate", created_by="")
    sent = {
        f"{V1}/sessions": {"purpose": "my own"},
        "/api/code": {"repoUrl": "https://example.org/a.git", "prompt": "x"},
        f"{V1}/sessions/{source}/fork": {},
        f"{V1}/reviews": {"url": "https://github.com/a/b/pull/1"},
    }
    answers = {url: await carl.post(url, json=body) for url, body in sent.items()}
    assert {url: answer.status_code for url, answer in answers.items()} == dict.fromkeys(sent, 403)
    assert "hutch users role carl member" in answers[f"{V1}/sessions"].json()["detail"]
    assert (await carl.get(f"{V1}/sessions/{source}")).status_code == 200
    assert [each["id"] for each in (await carl.get(f"{V1}/sessions")).json()["items"]] == [source]


async def network_of_jail(api: Api, session_id: str) -> tuple[str, ...]:
    """The hosts that the jail of a session lets through, as it is open now."""
    host = api.server.services.host
    assert isinstance(host, LocalHost)
    async with host.sandbox(SessionId(session_id)) as sandbox:
        return sandbox.jail.policy.network


async def test_members_allow_only_hosts_inside_the_cap_also_after_it_was_lowered(tmp_path: Path) -> None:
    wide, narrow = ["*.example.org", "files.example.net"], ["files.example.net"]
    async with serving(tmp_path, members={"network": wide}) as api:
        bob = await api.as_user("bob")
        for host in ("example.com", "files.example.net:22", "*.files.example.net"):
            refused = await bob.post(f"{V1}/sessions", json={"network": [host]})
            assert (refused.status_code, refused.json()["code"]) == (403, "denied")
        his = await bob.ready_session(network=["a.example.org", "files.example.net"])
        assert await network_of_jail(api, his) == ("a.example.org", "files.example.net")
        hers = await api.ready_session(network=["example.com", "files.example.net"])  # an owner may allow any
        assert await network_of_jail(api, hers) == ("example.com", "files.example.net")
        bob_id = (await bob.get(f"{V1}/me")).json()["user"]["id"]
        await Accounts(api.server.rows).shares.set(hers, bob_id, "member", created_by="")
        fork = (await bob.post(f"{V1}/sessions/{hers}/fork")).json()
        assert fork["network"] == ["files.example.net"]
    async with serving(tmp_path, members={"network": narrow}) as api:
        assert await network_of_jail(api, his) == ("files.example.net",)
        assert await network_of_jail(api, hers) == ("example.com", "files.example.net")
