"""Reading a session's files changes nothing, is bounded, and reveals no secrets."""

import hashlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest

from hutch.store.vault import Vault
from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio

SECRET = "kept-in-the-vault-for-a-forge"  # without digits, which ids in answers have too


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with serving(tmp_path_factory.mktemp("server")) as opened:
        opened.server.redactor.set_values([SECRET])
        yield opened


async def shared(api: Api, name: str = "reader") -> tuple[Api, str]:
    """A session of the owner, and somebody who may only read it."""
    reader = await api.as_user(name, "observer")
    session = await api.ready_session(purpose="read")
    users = (await api.get(f"{V1}/users")).json()["items"]
    id = next(each["id"] for each in users if each["name"] == name)
    made = await api.put(f"{V1}/sessions/{session}/shares/{id}", json={"role": "observer"})
    assert made.status_code in (200, 201, 204), made.text
    return reader, f"{V1}/sessions/{session}"


async def command(api: Api, url: str, text: str) -> None:
    ran = await api.post(f"{url}/commands", json={"command": text})
    assert ran.json()["exit_code"] == 0, ran.text


async def snapshots_and_events(api: Api, url: str) -> tuple[Any, list[dict[str, Any]]]:
    """The snapshots there are, and what the log says of them."""
    events = await api.events(url.rpartition("/")[2])
    taken = [each for each in events if each["type"].startswith(("snapshot.", "file."))]
    return (await api.get(f"{url}/snapshots")).json(), taken


async def test_a_diff_takes_no_snapshot(api: Api) -> None:
    reader, url = await shared(api)
    first = (await api.get(f"{url}/snapshots")).json()["items"][-1]["id"]
    await command(api, url, "echo one > a.txt; mkdir d; echo two > d/b.txt")

    async def has_snapshot() -> bool:
        events = await api.events(url.rpartition("/")[2])
        return any(each.get("reason") == "after a command in main" for each in events)

    await eventually(has_snapshot)
    before = await snapshots_and_events(api, url)
    for who in (reader, api):
        found = (await who.get(f"{url}/diff")).json()
        assert (found["old"], found["new"], found["total"]) == (first, None, 2)
        assert [each["path"] for each in found["files"]] == ["a.txt", "d/b.txt"]
        assert "+one\n" in found["patch"] and "+two\n" in found["patch"]
        below = (await who.get(f"{url}/diff?path=d")).json()
        assert [each["path"] for each in below["files"]] == ["d/b.txt"]
    assert await snapshots_and_events(api, url) == before
    data = api.server.loaded.paths.data
    assert list(data.glob("workspaces/*/comparing/*")) == []
    second = (await api.post(f"{url}/snapshots", json={"reason": "second"})).json()["id"]
    then = (await reader.get(f"{url}/diff?new={second}")).json()
    assert (then["new"], then["patch"]) == (second, found["patch"])


async def test_a_difference_comes_in_pages(api: Api) -> None:
    reader, url = await shared(api, "pages")
    await api.post(f"{url}/snapshots", json={"reason": "first"})
    await command(api, url, "for n in $(seq 1000 3499); do echo $n > $n; done")
    seen: list[str] = []
    cursor = ""
    while True:
        found = (await reader.get(f"{url}/diff", params={"cursor": cursor, "limit": 1000})).json()
        assert found["total"] == 2500 and len(found["files"]) <= 1000
        assert bool(found["patch"]) == (cursor == "")
        seen += [each["path"] for each in found["files"]]
        if found["next"] is None:
            break
        cursor = found["next"]
    assert seen == [str(number) for number in range(1000, 3500)]
    assert (await reader.get(f"{url}/diff?limit=100000")).status_code == 422
    assert (await reader.get(f"{url}/diff?cursor=x")).status_code == 400


async def test_a_search_does_not_follow_a_link_out_of_the_workspace(api: Api) -> None:
    reader, url = await shared(api, "links")
    await command(api, url, "mkdir /tmp/out in; echo needle > /tmp/out/x; echo needle > in/y")
    await command(api, url, "ln -s /tmp/out out; ln -s /tmp/out/x file; ln -s in inside; ln -s /proc proc")
    for path in ("out", "out/x", "file", "proc/self", "in/../out"):
        for what in ({"pattern": "needle"}, {"pattern": "needle", "output": "files"}):
            found = await reader.get(f"{url}/grep", params={**what, "path": path})
            assert found.status_code in (400, 403), (path, found.text)
        listed = await reader.get(f"{url}/glob", params={"pattern": "**", "path": path})
        assert listed.status_code in (400, 403), (path, listed.text)
    inside = (await reader.get(f"{url}/grep", params={"pattern": "needle", "path": "inside"})).json()
    assert [each["path"] for each in inside["lines"]] == ["in/y"]
    whole = (await reader.get(f"{url}/grep", params={"pattern": "needle"})).json()
    assert [each["path"] for each in whole["lines"]] == ["in/y"]


def secrets_in(output: Any) -> bool:
    return SECRET in str(output)


async def test_no_answer_shows_a_secret_of_the_vault(api: Api) -> None:
    reader, url = await shared(api, "secrets")
    await api.post(f"{url}/snapshots", json={"reason": "first"})
    half, rest = SECRET[:9], SECRET[9:]
    await command(api, url, f"a={half}; b={rest}; echo key=$a$b > kept.txt; touch name-$a$b; ln -s $a$b link")
    for who in (reader, api):
        for address in (
            *("files", "files?recursive=true", "grep?pattern=key", "grep?pattern=key&output=count"),
            *("glob?pattern=**", "diff", "files/kept.txt" if who is reader else "files"),
        ):
            result = await who.get(f"{url}/{address}")
            assert result.status_code == 200 and not secrets_in(result.text), address
        patch = await who.get(f"{url}/diff", headers={"Accept": "text/x-diff"})
        assert "[redacted:" in patch.text and not secrets_in(patch.text)
        fields = 'file(path: "kept.txt") { text } files { items { path } } diff { patch files { path } }'
        asked = f'{{ session(id: "{url[-30:]}") {{ {fields} }} }}'
        graph = await who.post("/api/graphql", json={"query": asked})
        assert graph.status_code == 200 and "redacted" in graph.text and not secrets_in(graph.text)
    raw = await api.get(f"{url}/files/kept.txt")
    shown = await reader.get(f"{url}/files/kept.txt")
    assert raw.text == f"key={SECRET}\n"  # who may write it may also read it
    assert shown.text == f"key={'*' * len(SECRET)}\n" and shown.headers["etag"] != raw.headers["etag"]
    part = await reader.get(f"{url}/files/kept.txt", headers={"Range": "bytes=10-14"})
    assert (part.status_code, part.text) == (206, "*****")


async def test_a_secret_across_two_chunks_of_a_large_file_is_masked(api: Api, tmp_path: Path) -> None:
    reader, url = await shared(api, "pieces")
    edge = 512 * 1024
    data = b"x" * (edge - 5) + f" {SECRET} ".encode() + b"y" * edge
    assert (await api.put(f"{url}/files/large", content=data)).status_code == 201
    shown = (await reader.get(f"{url}/files/large")).content
    assert shown == data.replace(SECRET.encode(), b"*" * len(SECRET))
    assert (await api.get(f"{url}/files/large")).content == data


def shows_a_part(output: Any, length: int = 4) -> bool:
    """True if any `length` characters of the secret in a row are in an answer."""
    return any(SECRET[at : at + length] in str(output) for at in range(len(SECRET) - length + 1))


async def test_a_search_hides_a_secret_that_goes_on_in_the_next_line(api: Api) -> None:
    reader, url = await shared(api, "broken")
    text = f"one\n{SECRET[:13]}\n{SECRET[13:]}\ntwo {SECRET}\n"
    assert (await api.put(f"{url}/files/broken", content=text.encode())).status_code == 201
    for who in (reader, api):
        for asked in ({"pattern": "."}, {"pattern": "one", "context": "3"}):
            found = (await who.get(f"{url}/grep", params=asked)).json()
            assert found["total"] and not shows_a_part(found), found
    assert [(line["number"], line["text"]) for line in found["lines"]] == [
        (1, "one"),
        (2, "*" * 13),
        (3, "*" * (len(SECRET) - 13)),
        (4, "two [redacted:secret]"),
    ]


KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
async def test_a_match_shows_no_part_of_a_secret_whose_other_lines_do_not_match(
    api: Api, tmp_path: Path, encoding: str
) -> None:
    _, url = await shared(api, f"parts {encoding}")
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *[KEY_LINE] * 200, "-----END PRIVATE KEY-----"])
    text = f"\u00e4 one\n{SECRET[:13]}\n{SECRET[13:]}\n{key}\ntwo {SECRET}\nMIIE\n"
    assert (await api.put(f"{url}/files/parts", content=text.encode(encoding))).status_code == 201
    for pattern in (SECRET[2:8], SECRET[15:22], "one", "MII"):
        for context in ("0", "1"):
            asked = {"pattern": pattern, "context": context, "limit": "150"}
            found = await api.get(f"{url}/grep", params=asked)
            assert found.json()["total"] and not shows_a_part(found.text), (asked, found.text)
            assert "wggSjAg" not in found.text, (asked, found.text)
    last = (await api.get(f"{url}/grep", params={"pattern": "MIIE$"})).json()["lines"]
    assert [line["text"] for line in last] == ["MIIE"]


async def test_a_search_shows_no_part_of_a_secret_where_a_long_line_is_cut(api: Api) -> None:
    reader, url = await shared(api, "long")
    text = f"one\n{'k' * 4976}{SECRET}\nend\n"
    assert (await api.put(f"{url}/files/long", content=text.encode())).status_code == 201
    for who in (reader, api):
        for asked in ({"pattern": "k"}, {"pattern": "one", "context": "1"}):
            found = await who.get(f"{url}/grep", params=asked)
            assert found.status_code == 200 and not shows_a_part(found.text), asked
    shown = found.json()["lines"][1]["text"]
    assert shown == "k" * 4976 + " [... omitted end of long line]"


async def test_a_search_does_not_reveal_to_readers_whether_a_guess_is_right(api: Api) -> None:
    reader, url = await shared(api, "guesses")
    text = f"x {SECRET}\ny\n{SECRET[:13]}\n{SECRET[13:]}\nx other\n{'k' * 70_000}{SECRET}\n"
    assert (await api.put(f"{url}/files/kept", content=text.encode())).status_code == 201
    assert (await api.put(f"{url}/files/{SECRET}.txt", content=b"named\n")).status_code == 201
    right, wrong = SECRET[:6], "not-it"
    for asked in (
        *({"pattern": each} for each in ("x {}", "^{}", "{}.*$", "k{}")),
        *({"pattern": each, "multiline": "true"} for each in ("y\n{}", "y[^x]*{}", "y\n(.|\n)*{}")),
        *({"pattern": "named", "glob": each} for each in ("{}*", "*{}*")),
    ):
        for output in ("content", "files", "count"):
            answers = [
                (
                    await reader.get(
                        f"{url}/grep",
                        params={name: value.replace("{}", guess) for name, value in asked.items()}
                        | {"output": output, "context": "1"},
                    )
                ).json()
                for guess in (right, wrong)
            ]
            assert answers[0] == answers[1], asked
    ahead = await reader.get(f"{url}/grep", params={"pattern": f"y(?=\n{right})", "multiline": "true"})
    assert (ahead.status_code, ahead.json()["code"]) == (400, "bad_request")
    names = [await reader.get(f"{url}/glob", params={"pattern": f"{each}*"}) for each in (right, wrong)]
    assert names[0].json() == names[1].json()
    for output, found in (("count", {"counts": {"kept": 1}}), ("files", {"paths": ["kept"]})):
        result = (await reader.get(f"{url}/grep", params={"pattern": "^x", "output": output})).json()
        assert result == {
            "lines": [],
            "counts": {},
            "paths": [],
            "total": 1,
            "cut": False,
            "next": None,
            "left_out": [],
            **found,
        }
    owner = (await api.get(f"{url}/grep", params={"pattern": "^x", "output": "count"})).json()
    assert owner["counts"] == {"kept": 2}  # callers who may write can read the file as it is


async def test_a_part_of_a_secret_is_no_match_when_its_rest_is_not_shown(api: Api) -> None:
    reader, url = await shared(api, "parts")
    text = "".join(f"{each}\n" for each in ("one", SECRET[:13], SECRET[13:], "two"))
    assert (await api.put(f"{url}/files/kept", content=text.encode())).status_code == 201
    for half in (SECRET[:13], SECRET[13:]):
        assert (await reader.get(f"{url}/grep", params={"pattern": half})).json()["total"] == 0
    found = (await reader.get(f"{url}/grep", params={"pattern": "one", "context": "1"})).json()
    assert [line["text"] for line in found["lines"]] == ["one", "*" * 13]


async def test_slow_work_on_many_files_does_not_block_the_loop(api: Api) -> None:
    reader, url = await shared(api, "loop")
    await api.post(f"{url}/snapshots", json={"reason": "first"})
    await command(api, url, "for n in $(seq 100 150); do echo needle > $n; done")
    on_loop: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        place, hutch, file = frame.f_code.co_filename.rpartition("/hutch/")
        if event == "call" and hutch and place.endswith("src"):
            on_loop.add((file, frame.f_code.co_name))

    sys.setprofile(note)  # of this thread, which is the loop's
    try:
        for address in ("diff", "glob?pattern=*", "grep?pattern=needle", "files", "snapshots"):
            assert (await reader.get(f"{url}/{address}")).status_code == 200
    finally:
        sys.setprofile(None)
    heavy = {
        *(("snapshots/comparison.py", name) for name in ("page", "_parse", "_fields")),
        *(
            ("workspace/ripgrep_search.py", name)
            for name in ("fitting", "_names", "_relative", "_lines", "_content")
        ),
        ("workspace/ripgrep_search.py", "_without_secrets"),
        ("workspace/search_match_redaction.py", "matches_without_secrets"),
        *(("workspace/files/directory_listing.py", name) for name in ("list_page", "entries", "_scan")),
        *(("sessions/response_redaction.py", name) for name in ("redacted", "_entry", "clean_bytes")),
        *(("snapshots/snapshot.py", name) for name in ("current_tree", "list", "get")),
    }
    assert (
        "workspace/difference_pages_and_patch.py",
        "find_differences",
    ) in on_loop  # it does see what is called
    assert on_loop & heavy == set()


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_no_part_of_a_flood_of_a_secret_is_shown_where_it_is_cut(api: Api, stream: str) -> None:
    url = f"{V1}/sessions/{await api.ready_session(purpose='flood')}"
    flood = f"s={SECRET}; s=$s$s$s$s; s=$s$s$s$s; for i in $(seq 5000); do printf %s $s; done {stream}"
    ran = (await api.post(f"{url}/commands", json={"command": flood})).json()
    shown = ran["stdout"] + ran["stderr"]
    assert ran["truncated"] and " bytes omitted " in shown and not shows_a_part(shown)
    waiting = {"command": f"{flood}; echo more {stream}; sleep 300", "yield_s": 1, "shell": "back"}
    begun = (await api.post(f"{url}/commands", json=waiting)).json()
    offset, text = 0, ""
    while "more" not in text:
        read = (await api.get(f"{url}/commands/{begun['id']}?offset={offset}")).json()
        assert not shows_a_part(read["text"]), read["start"]
        offset, text = read["end"], text + read["text"]
    await api.delete(f"{url}/commands/{begun['id']}")


async def test_a_cursor_that_no_page_came_with_is_refused(api: Api) -> None:
    _, url = await shared(api, "cursors")
    lists = ["sessions", "search?q=x", "changes", "users", "tokens", "invites", "me/browsers"]
    of_session = ["runs", "snapshots", "files", "diff", "grep?pattern=x", "glob?pattern=x"]
    for address in [*(f"{V1}/{each}" for each in lists), *(f"{url}/{each}" for each in of_session)]:
        refused = await api.get(address, params={**httpx.URL(address).params, "cursor": "zzz"})
        status = 400 if address.endswith(("/files", "/diff")) else 422  # which only the session can tell
        assert refused.status_code == status, (address, refused.text)
        assert "cursor" in refused.json()["detail"], refused.text
    for field in ('sessions(after: "zzz") { next }', 'changes(after: "zzz") { id }'):
        result = (await api.post("/api/graphql", json={"query": f"{{ {field} }}"})).json()
        assert "'zzz' is not a cursor" in result["errors"][0]["message"], result


async def test_readers_get_the_tag_of_the_visible_content(api: Api) -> None:
    reader, url = await shared(api, "tags")
    large = b"k" * 600_000
    for path, content in (("secret", b"key="), ("large", large), ("plain", None)):
        data = b"plain" if content is None else content + SECRET.encode() + b"\n"
        assert (await api.put(f"{url}/files/{path}", content=data)).status_code == 201
        real = f'"{hashlib.sha256(data).hexdigest()}"'
        shown = await reader.get(f"{url}/files/{path}")
        if path != "large":  # of which nobody reads all for a tag
            assert shown.headers["etag"] == f'"{hashlib.sha256(shown.content).hexdigest()}"'
        assert (shown.headers["etag"] == real) == (content is None)
        assert (await api.get(f"{url}/files/{path}")).headers["etag"] == real
        guessed = {"If-None-Match": real}
        assert (await reader.get(f"{url}/files/{path}", headers=guessed)).status_code == (
            304 if content is None else 200
        )
        refused = await reader.get(f"{url}/files/{path}", headers={"If-Match": '"x"'})
        assert refused.status_code == 412 and (content is None or real.strip('"') not in refused.text)
        again = {"If-None-Match": shown.headers["etag"]}
        assert (await reader.get(f"{url}/files/{path}", headers=again)).status_code == 304
        part = {"Range": "bytes=1-3", "If-Range": shown.headers["etag"]}
        assert (await reader.get(f"{url}/files/{path}", headers=part)).content == shown.content[1:4]


async def test_an_error_echoes_no_half_of_a_secret(api: Api) -> None:
    wrong = "x" * 30
    for place in ("sessions", "runs"):
        result = await api.get(f"{V1}/{place}/{wrong}{wrong}{SECRET}")
        assert result.status_code in (400, 404) and not shows_a_part(result.text), result.text
    asked = {"query": f'{{ sessions(state: ["{wrong}{SECRET}"]) {{ items {{ id }} }} }}'}
    assert not shows_a_part((await api.post("/api/graphql", json=asked)).text)
    new = await api.post(f"{V1}/sessions", json={"revision": f"{wrong}{wrong}{SECRET}\n"})
    assert new.status_code == 400 and not shows_a_part(new.text), new.text


async def test_a_prompt_that_becomes_the_purpose_is_redacted_before_it_is_cut(api: Api) -> None:
    for before in range(200 - len(SECRET), 200):
        prompt = f"{'x' * before}{SECRET} and more"
        session = await api.new_session(prompt=prompt)
        assert not shows_a_part(session["purpose"]), before  # ids and times may have such digits


async def test_why_a_snapshot_was_taken_is_kept_without_secrets_and_controls(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        paths = api.server.loaded.paths
        Vault(paths.vault, paths.vault_keys).set("forge_token", SECRET)
        session = await api.ready_session(purpose="reasons")
        url = f"{V1}/sessions/{session}"
        await api.put(f"{url}/files/{SECRET}", content=b"one")
        reason = f"\x1b[31mred\x07 {SECRET[:9]}\r{SECRET[9:]}"
        taken = (await api.post(f"{url}/snapshots", json={"reason": reason})).json()
        await api.put(f"{url}/files/{SECRET}", content=b"two")
        await api.post(f"{url}/snapshots/{taken['id']}/restore", json={"path": SECRET})
        api.server.redactor.set_values([])  # so that all is shown as it is stored
        stored = (await api.get(f"{url}/snapshots")).json()["items"]
        events = [each for each in await api.events(session) if each["type"] == "snapshot.taken"]
    reasons = [str(each["reason"]) for each in (*stored, *events)]
    assert r"\x1b[31mred\x07 [redacted:secret]" in reasons
    assert f"restored snapshot {taken['id']}: [redacted:secret]" in reasons
    assert not [reason for reason in reasons if shows_a_part(reason) or not reason.isprintable()]


async def test_a_binary_file_with_a_secret_is_in_no_patch_for_readers(api: Api) -> None:
    """Git would show its bytes in an encoding that no redactor reads."""
    reader, url = await shared(api, "binary-reader")
    await command(api, url, f"printf '\\0{SECRET}' > secret.bin")
    session = url.rpartition("/")[2]
    query = {"query": f'{{ session(id: "{session}") {{ diff {{ patch }} }} }}'}
    for accept in ("application/json", "text/x-diff"):
        own, read = [(await who.get(f"{url}/diff", headers={"Accept": accept})).text for who in (api, reader)]
        assert "GIT binary patch" in own
        assert "GIT binary patch" not in read and "Binary files" in read and "secret.bin" in read
    asked = (await reader.post("/api/graphql", json=query)).text
    assert "GIT binary patch" not in asked and "Binary files" in asked
