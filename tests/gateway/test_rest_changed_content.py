"""The content of every recorded change over HTTP: before, after, and as a diff."""

import pytest

from tests.gateway.api_server import V1, Api

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def session(api: Api) -> str:
    return await api.ready_session(purpose="changes")


async def changed(api: Api, session: str, path: str) -> list[int]:
    """The numbers of the changes of a path."""
    events = (await api.get(f"{V1}/sessions/{session}/events")).json()["items"]
    return [each["seq"] for each in events if each["event"].get("path") == path]


async def test_every_version_of_a_file_can_be_read(api: Api, session: str) -> None:
    url = f"{V1}/sessions/{session}"
    versions = [b"one\n", b"one\ntwo\n", b"\x00\xff"]
    for version in versions:
        await api.put(f"{url}/files/a.txt", content=version)
    await api.delete(f"{url}/files/a.txt")
    numbers = await changed(api, session, "a.txt")
    assert len(numbers) == 4
    for seq, before, after in zip(numbers, [None, *versions], [*versions, None], strict=True):
        for name, content in (("before", before), ("after", after)):
            got = await api.get(f"{url}/events/{seq}/content", params={"version": name})
            assert (got.status_code, got.content if content else None) == (200 if content else 404, content)
    got = await api.get(f"{url}/events/{numbers[0]}/content")
    assert got.content == b"one\n"
    assert got.headers["content-disposition"] == "attachment"


async def test_the_diff_of_a_change(api: Api, session: str) -> None:
    url = f"{V1}/sessions/{session}"
    await api.put(f"{url}/files/d.txt", content=b"one\n")
    await api.put(f"{url}/files/other.txt", content=b"other\n")
    await api.put(f"{url}/files/d.txt", content=b"one\ntwo\n")
    seq = (await changed(api, session, "d.txt"))[-1]
    found = (await api.get(f"{url}/events/{seq}/diff")).json()
    assert [each["path"] for each in found["files"]] == ["d.txt"]
    patch = await api.get(f"{url}/events/{seq}/diff", headers={"Accept": "text/x-diff"})
    assert patch.text.splitlines()[-2:] == [" one", "+two"]


@pytest.mark.parametrize(
    ("seq", "status", "words"),
    [
        (1, 400, "Only changes of files"),
        (999_999, 404, "no event 999999"),
        (0, 422, "path.seq"),
        ("x", 422, "path.seq"),
    ],
)
async def test_what_has_no_content_is_refused(
    api: Api, session: str, seq: int | str, status: int, words: str
) -> None:
    for kind in ("content", "diff"):
        got = await api.get(f"{V1}/sessions/{session}/events/{seq}/{kind}")
        assert got.status_code == status and words in got.text, got.text


async def test_other_users_get_nothing(api: Api, session: str) -> None:
    url = f"{V1}/sessions/{session}"
    await api.put(f"{url}/files/secret.txt", content=b"one\n")
    [seq] = await changed(api, session, "secret.txt")
    stranger = await api.as_user("stranger")
    for kind in ("content", "diff"):
        assert (await stranger.get(f"{url}/events/{seq}/{kind}")).status_code == 404
