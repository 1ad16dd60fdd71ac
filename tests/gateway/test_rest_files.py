"""Files over HTTP: listed, read in parts, written under conditions; and every trick with a path."""

import asyncio
import hashlib
from urllib.parse import quote

import httpx
import pytest

from tests.gateway.api_server import V1, Api

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def url(api: Api) -> str:
    """The address of a session that is ready."""
    return f"{V1}/sessions/{await api.ready_session(purpose='files')}"


def tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()}"'


async def test_a_file_comes_back_as_it_was_written(api: Api, url: str) -> None:
    content = bytes(range(256)) * 10
    made = await api.put(f"{url}/files/deep/er/bytes.bin", content=content)
    assert (made.status_code, made.json()["kind"], made.headers["etag"]) == (201, "created", tag(content))
    got = await api.get(f"{url}/files/deep/er/bytes.bin")
    assert (got.status_code, got.content, got.headers["etag"]) == (200, content, tag(content))
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"] == "attachment"
    again = await api.put(f"{url}/files/deep/er/bytes.bin", content=b"other")
    assert (again.status_code, again.json()["kind"]) == (200, "modified")
    assert again.json()["before"] == tag(content).strip('"')
    last = (await api.events(url.rpartition("/")[2]))[-1]
    assert (last["type"], last["path"], last["kind"]) == ("file.changed", "deep/er/bytes.bin", "modified")


@pytest.mark.parametrize(
    ("wanted", "status", "start", "end"),
    [
        ("bytes=0-3", 206, 0, 4),
        ("bytes=5-", 206, 5, 1000),
        ("bytes=-7", 206, 993, 1000),
        ("bytes=990-5000", 206, 990, 1000),
        ("bytes=-5000", 206, 0, 1000),
        ("bytes=1000-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=99999999999999999-", 416, 0, 0),
        ("bytes=5-2", 200, 0, 1000),
        ("bytes=0-1,4-5", 200, 0, 1000),
        ("lines=1-2", 200, 0, 1000),
        ("bytes=--", 200, 0, 1000),
        ("bytes=" + "9" * 100 + "-", 200, 0, 1000),
    ],
)
async def test_a_part_of_a_file(api: Api, url: str, wanted: str, status: int, start: int, end: int) -> None:
    content = bytes(number % 251 for number in range(1000))
    await api.put(f"{url}/files/parts", content=content)
    got = await api.get(f"{url}/files/parts", headers={"Range": wanted})
    assert got.status_code == status, got.text
    if status == 416:
        assert got.headers["content-range"] == "bytes */1000"
        assert got.json()["code"] == "range_not_satisfiable"
    else:
        assert got.content == content[start:end]
        assert got.headers["content-length"] == str(end - start)
    if status == 206:
        assert got.headers["content-range"] == f"bytes {start}-{end - 1}/1000"


async def test_a_file_that_the_caller_has_is_not_sent_again(api: Api, url: str) -> None:
    await api.put(f"{url}/files/cached", content=b"cached")
    for header in (tag(b"cached"), f"W/{tag(b'cached')}", f'"x", {tag(b"cached")}', "*"):
        got = await api.get(f"{url}/files/cached", headers={"If-None-Match": header})
        assert (got.status_code, got.content, got.headers["etag"]) == (304, b"", tag(b"cached"))
    assert (await api.get(f"{url}/files/cached", headers={"If-None-Match": '"x"'})).status_code == 200
    head = await api.head(f"{url}/files/cached")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "6")
    stale = {"Range": "bytes=0-1", "If-Range": '"x"'}
    assert (await api.get(f"{url}/files/cached", headers=stale)).status_code == 200
    fresh = {"Range": "bytes=0-1", "If-Range": tag(b"cached")}
    assert (await api.get(f"{url}/files/cached", headers=fresh)).content == b"ca"


async def test_a_write_under_a_condition_that_does_not_hold_changes_nothing(api: Api, url: str) -> None:
    await api.put(f"{url}/files/held", content=b"one")
    for headers in (
        {"If-None-Match": "*"},
        {"If-Match": '"x"'},
        {"If-Match": f"W/{tag(b'one')}"},
        {"If-None-Match": tag(b"one")},
    ):
        refused = await api.put(f"{url}/files/held", content=b"two", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    missing = await api.put(f"{url}/files/not-there", content=b"x", headers={"If-Match": "*"})
    assert missing.status_code == 412
    assert (await api.get(f"{url}/files/held")).content == b"one"
    kept = await api.delete(f"{url}/files/held", headers={"If-Match": '"x"'})
    assert kept.status_code == 412
    written = await api.put(f"{url}/files/held", content=b"two", headers={"If-Match": tag(b"one")})
    assert written.status_code == 200
    new = await api.put(f"{url}/files/new", content=b"x", headers={"If-None-Match": "*"})
    assert new.status_code == 201


async def test_of_concurrent_writes_over_the_same_content_one_wins(api: Api, url: str) -> None:
    await api.put(f"{url}/files/raced", content=b"start")
    headers = {"If-Match": tag(b"start")}
    sent = [api.put(f"{url}/files/raced", content=b"%d" % n, headers=headers) for n in range(12)]
    codes = sorted(answer.status_code for answer in await asyncio.gather(*sent))
    assert codes == [200] + [412] * 11


async def test_moves_directories_and_removals(api: Api, url: str) -> None:
    made = await api.post(f"{url}/directories", json={"path": "made/here"})
    assert [each["path"] for each in made.json()] == ["made", "made/here"]
    await api.put(f"{url}/files/made/here/a", content=b"a")
    moved = await api.post(f"{url}/move", json={"path": "made/here", "to": "made/there"})
    assert [(each["path"], each["moved_from"]) for each in moved.json()] == [("made/there/a", "made/here/a")]
    taken = await api.post(f"{url}/move", json={"path": "made/there/a", "to": "made/there"})
    assert taken.status_code == 409
    assert (await api.delete(f"{url}/files/made")).status_code == 200
    assert (await api.get(f"{url}/files/made/there/a")).status_code == 404
    assert (await api.get(f"{url}/files/made/there/a?optional=true")).status_code == 204
    assert (await api.delete(f"{url}/files/made")).status_code == 404


async def test_a_directory_is_listed_in_pages(api: Api, url: str) -> None:
    for number in range(7):
        await api.put(f"{url}/files/listed/{number}.txt", content=b"x" * number)
    await api.put(f"{url}/files/listed/.gitignore", content=b"6.txt\n")
    found, next = [], f"{url}/files?path=listed&limit=3"
    while next:
        page = await api.get(next)
        found += [(each["path"], each["size"]) for each in page.json()["items"]]
        next = page.links.get("next", {}).get("url", "")
    assert found == [("listed/.gitignore", 6), *((f"listed/{n}.txt", n) for n in range(6))]
    every = (await api.get(f"{url}/files?path=listed&ignored=true")).json()["items"]
    assert "listed/6.txt" in [each["path"] for each in every]
    assert (await api.get(f"{url}/files?path=listed&limit=0")).status_code == 422
    assert (await api.get(f"{url}/files?path=listed&cursor=%00%ff")).status_code in (200, 400)


TRICKS = [
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "a/%2e%2e/%2e%2e/b",
    "%2fetc%2fpasswd",
    "%2f%2fetc",
    "a%00b",
    "%ff%fe",
    "a/%c3%28",
    "%ed%a0%80",
    "x" * 5000,
    "a/" * 2500,
    ".",
    "%2e/",
]


@pytest.mark.parametrize("path", TRICKS)
async def test_tricks_with_a_path_are_refused(api: Api, url: str, path: str) -> None:
    for method, more in (("GET", ""), ("PUT", "x"), ("DELETE", ""), ("HEAD", "")):
        status = await raw(api, method, f"{url}/files/{path}", more)
        assert status == 400, (method, path)


async def raw(api: Api, method: str, target: str, body: str = "") -> int:
    """A request whose target goes out as it is: client libraries tidy paths up."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {api.token}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    )
    writer.write(head.encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "a\0b", "x" * 5000, ""])
async def test_tricks_with_a_path_in_a_body_are_refused(api: Api, url: str, path: str) -> None:
    for rest, body in (
        ("move", {"path": path, "to": "y"}),
        ("move", {"path": "y", "to": path}),
        ("directories", {"path": path}),
        ("edit", {"path": path, "edits": [{"old": "a", "new": "b"}]}),
    ):
        assert (await api.post(f"{url}/{rest}", json=body)).status_code in (400, 422), rest
    for rest in ("files", "glob", "grep", "code-search"):
        if path:
            query = {"path": path, "pattern": "x", "query": "x"}
            assert (await api.get(f"{url}/{rest}", params=query)).status_code in (400, 422), rest


async def test_links_that_lead_out_are_not_followed(api: Api, url: str) -> None:
    made = "ln -s /etc/passwd out; ln -s ../../../../etc up; mkfifo pipe; mkdir dir"
    await api.post(f"{url}/commands", json={"command": made})
    for path in ("out", "up/passwd", "pipe", "dir"):
        got = await api.get(f"{url}/files/{path}")
        assert got.status_code in (400, 403), (path, got.text)
        assert "root:" not in got.text
    for path in ("up/passwd", "up/new"):
        assert (await api.put(f"{url}/files/{path}", content=b"x")).status_code in (400, 403, 409), path


async def test_unusual_names(api: Api, url: str) -> None:
    for name in ("with space", "per%cent", "ä/ö.txt", "?query#hash", "'\"<&>", "new\nline", "😀", "a\\b"):
        where = f"{url}/files/{quote(f'names/{name}')}"
        assert (await api.put(where, content=name.encode())).status_code == 201, name
        assert (await api.get(where)).content == name.encode()
    listed = (await api.get(f"{url}/files?path=names&recursive=true&limit=1000")).json()["items"]
    assert "names/new\nline" in [each["path"] for each in listed]


async def test_names_that_are_not_utf8_are_listed_and_break_nothing(api: Api, url: str) -> None:
    made = "mkdir odd; cd odd; printf 'needle' > \"$(printf 'b\\377d')\"; cd .. ; mv odd odd2; mv odd2 odd"
    assert (await api.post(f"{url}/commands", json={"command": made})).json()["exit_code"] == 0
    [entry] = (await api.get(f"{url}/files?path=odd")).json()["items"]
    assert (entry["path"], entry["utf8"]) == ("odd/b\ufffdd", False)
    for rest in ("grep?pattern=needle", "glob?pattern=odd/*", "diff"):
        assert (await api.get(f"{url}/{rest}")).status_code == 200, rest
    moved = await api.post(f"{url}/move", json={"path": "odd", "to": "even"})
    assert moved.status_code == 200, moved.text
    assert (await api.delete(f"{url}/files/even")).status_code == 200


async def test_a_large_file_is_sent_in_chunks(api: Api, url: str) -> None:
    made = "head -c 40000000 /dev/zero | tr '\\0' 'z' > large"
    await api.post(f"{url}/commands", json={"command": made})
    pieces, size = 0, 0
    async with api.stream("GET", f"{url}/files/large") as got:
        assert got.headers["content-length"] == "40000000"
        async for piece in got.aiter_raw():
            pieces, size = pieces + 1, size + len(piece)
            assert set(piece) == {ord("z")}
    assert size == 40_000_000
    assert pieces > 10


async def test_a_large_file_that_changes_while_it_is_sent_is_not_sent_to_its_end(api: Api, url: str) -> None:
    made = "head -c 40000000 /dev/zero > changing"
    await api.post(f"{url}/commands", json={"command": made})
    got = 0
    with pytest.raises(httpx.RemoteProtocolError):
        async with api.stream("GET", f"{url}/files/changing") as stream:
            async for piece in stream.aiter_raw():
                if not got:
                    change = "printf x | dd of=changing bs=1 seek=39999999 conv=notrunc"
                    await api.post(f"{url}/commands", json={"command": change})
                got += len(piece)
    assert got < 40_000_000


async def test_edits_patches_and_searches(api: Api, url: str) -> None:
    await api.put(f"{url}/files/e/code.py", content=b"one = 1\ntwo = 2\nthree = 3\n")
    edits = [{"old": "two = 2", "new": "two = 22"}, {"start_line": 3, "end_line": 3, "new": "three = 33"}]
    edited = await api.post(f"{url}/edit", json={"path": "e/code.py", "edits": edits})
    assert edited.status_code == 200, edited.text
    assert edited.json()["files"][0]["kind"] == "modified"
    assert "+two = 22" in edited.json()["files"][0]["diff"]
    missing = await api.post(
        f"{url}/edit", json={"path": "e/code.py", "edits": [{"old": "four", "new": "5"}]}
    )
    assert missing.status_code in (400, 404, 409)
    patch = "--- a/e/code.py\n+++ b/e/code.py\n@@ -1,1 +1,1 @@\n-one = 1\n+one = 11\n"
    patched = await api.post(f"{url}/patch", json={"patch": patch})
    assert patched.status_code == 200, patched.text
    assert (await api.get(f"{url}/files/e/code.py")).content == b"one = 11\ntwo = 22\nthree = 33\n"
    found = (await api.get(f"{url}/grep", params={"pattern": r"t\w+ = \d+", "path": "e"})).json()
    assert [(line["number"], line["text"]) for line in found["lines"]] == [(2, "two = 22"), (3, "three = 33")]
    counted = (await api.get(f"{url}/grep", params={"pattern": "=", "path": "e", "output": "count"})).json()
    assert counted["counts"] == {"e/code.py": 3}
    assert (await api.get(f"{url}/grep", params={"pattern": "("})).status_code == 400
    named = (await api.get(f"{url}/glob", params={"pattern": "**/*.py"})).json()
    assert named["paths"] == ["e/code.py"]


async def test_the_limit_that_stopped_a_command_is_named(api: Api) -> None:
    session_id = await api.ready_session()
    asked = {"command": "echo a; sleep 600", "timeout_s": 1}
    ran = (await api.post(f"{V1}/sessions/{session_id}/commands", json=asked)).json()
    assert ran["timed_out"] and ran["note"].startswith("The limit command_timeout_s 1 s was hit.")
