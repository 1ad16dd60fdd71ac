"""Snapshots, commands and terminals over HTTP."""

from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def url(api: Api) -> str:
    return f"{V1}/sessions/{await api.ready_session(purpose='work')}"


async def test_snapshots_are_taken_compared_and_gone_back_to(api: Api, url: str) -> None:
    await api.put(f"{url}/files/s/a.txt", content=b"one\n")
    first = await api.post(f"{url}/snapshots", json={"reason": "one"})
    assert (first.status_code, first.json()["reason"]) == (201, "one")
    await api.put(f"{url}/files/s/a.txt", content=b"two\n")
    second = (await api.post(f"{url}/snapshots")).json()
    between = {"old": first.json()["id"], "new": second["id"]}
    diff = (await api.get(f"{url}/diff", params=between)).json()
    assert [(each["path"], each["kind"]) for each in diff["files"]] == [("s/a.txt", "modified")]
    assert "-one\n+two\n" in diff["patch"]
    text = await api.get(f"{url}/diff", params=between, headers={"Accept": "text/x-diff"})
    assert (text.text, text.headers["content-type"]) == (diff["patch"], "text/x-diff; charset=utf-8")
    back = await api.post(f"{url}/snapshots/{first.json()['id']}/restore")
    assert back.status_code == 200
    assert (await api.get(f"{url}/files/s/a.txt")).content == b"one\n"
    forth = await api.post(f"{url}/snapshots/{back.json()['id']}/restore", json={"path": "s/a.txt"})
    assert forth.status_code == 200
    assert (await api.get(f"{url}/files/s/a.txt")).content == b"two\n"
    assert (await api.post(f"{url}/snapshots/99999/restore")).status_code == 404
    assert (await api.get(f"{url}/diff?old=99999")).status_code == 404
    assert (await api.post(f"{url}/snapshots/0/restore")).status_code == 422


async def test_snapshots_are_listed_in_pages(api: Api, url: str) -> None:
    for number in range(4):
        await api.put(f"{url}/files/listed", content=b"%d" % number)
        await api.post(f"{url}/snapshots", json={"reason": f"{number}"})
    every = (await api.get(f"{url}/snapshots?limit=200")).json()["items"]
    found, next = [], f"{url}/snapshots?limit=3"
    while next:
        page = await api.get(next)
        found += page.json()["items"]
        next = page.links.get("next", {}).get("url", "")
    assert found == every
    ids = [each["id"] for each in found]
    assert ids == sorted(ids, reverse=True)


async def test_a_shell_keeps_its_directory_and_variables(api: Api, url: str) -> None:
    async def run(command: str, **more: object) -> dict[str, object]:
        answered = await api.post(f"{url}/commands", json={"command": command, **more})
        assert answered.status_code == 200, answered.text
        return dict(answered.json())

    await run("mkdir -p sub && cd sub && export WORD=kept")
    kept = await run("pwd; echo $WORD; echo oops >&2; false")
    assert (kept["exit_code"], kept["stdout"], kept["stderr"]) == (1, "/workspace/sub\nkept\n", "oops\n")
    other = await run("pwd; echo $WORD", shell="other")
    assert other["stdout"] == "/workspace\n\n"
    late = await run("sleep 60", timeout_s=0.3)
    assert late["timed_out"] is True
    for bad in ({"command": ""}, {"command": "x", "shell": "../x"}, {"command": "x", "timeout_s": -1}):
        assert (await api.post(f"{url}/commands", json=bad)).status_code == 422
    nul = await api.post(f"{url}/commands", json={"command": "echo \0"})
    assert nul.status_code == 400


async def test_a_program_runs_without_a_shell(api: Api, url: str) -> None:
    ran = await api.post(f"{url}/exec", json={"argv": ["printf", "%s|", "$(id)", "a b", "*"], "cwd": "/tmp"})
    assert (ran.status_code, ran.json()["stdout"], ran.json()["cwd"]) == (200, "$(id)|a b|*|", "/tmp")
    fails = await api.post(
        f"{url}/exec", json={"argv": ["sh", "-c", "cat; echo no >&2; exit 4"], "stdin": "in"}
    )
    assert [fails.json()[name] for name in ("exit_code", "stdout", "stderr")] == [4, "in", "no\n"]
    events = (await api.get(f"{url}/events?limit=500")).json()["items"]
    found = [each["event"] for each in events if each["event"].get("shell") == "exec"]
    assert [each["type"] for each in found if each["type"] != "shell.printed"] == [
        *("command.started", "command.ended", "command.started", "command.ended")
    ]
    assert found[0]["command"] == "printf '%s|' '$(id)' 'a b' '*'" and found[0]["by"]
    for wrong in ({"argv": []}, {"argv": "ls"}, {}, {"argv": ["ls"], "timeout_s": 601}, {"argv": [1]}):
        assert (await api.post(f"{url}/exec", json=wrong)).status_code == 422, wrong
    assert (await api.post(f"{url}/exec", json={"argv": ["a\0b"]})).status_code == 400


async def test_a_command_continues_in_the_background(api: Api, url: str) -> None:
    wanted = {"command": "echo begun; sleep 300", "yield_s": 0.2, "shell": "back"}
    started = (await api.post(f"{url}/commands", json=wanted)).json()
    # On a busy machine, it may print later.
    assert started["running"] and started["stdout"] in ("begun\n", "")

    async def printed() -> bool:
        return bool((await api.get(f"{url}/commands/{started['id']}")).json()["text"])

    await eventually(printed)
    listed = (await api.get(f"{url}/commands")).json()["items"]
    assert started["id"] in [each["id"] for each in listed if each["running"]]
    output = (await api.get(f"{url}/commands/{started['id']}")).json()
    assert (output["text"], output["start"], output["end"]) == ("begun\n", 0, 6)
    rest = (await api.get(f"{url}/commands/{started['id']}?offset=6")).json()
    assert (rest["text"], rest["start"]) == ("", 6)
    signalled = await api.post(f"{url}/commands/{started['id']}/signal", json={"signal": "sigterm"})
    assert (signalled.status_code, signalled.content) == (204, b"")

    async def over() -> bool:
        return not (await api.get(f"{url}/commands/{started['id']}")).json()["running"]

    await eventually(over)
    again = (await api.post(f"{url}/commands", json=wanted)).json()
    assert (await api.delete(f"{url}/commands/{again['id']}")).status_code == 204
    assert not (await api.get(f"{url}/commands/{again['id']}")).json()["running"]
    for method, path in (("GET", "nope"), ("DELETE", "nope"), ("GET", "%00"), ("GET", "x" * 101)):
        answered = await api.request(method, f"{url}/commands/{path}")
        assert answered.status_code in (404, 422), path
    assert (await api.post(f"{url}/commands/nope/signal", json={})).status_code == 404
    for wrong in (999, 0, "NOPE", True, None):
        answered = await api.post(f"{url}/commands/nope/signal", json={"signal": wrong})
        assert (answered.status_code, "Give TERM, INT, KILL" in answered.text) == (422, True), wrong
    for right in (15, "TERM", "SIGKILL", "int"):
        answered = await api.post(f"{url}/commands/nope/signal", json={"signal": right})
        assert answered.status_code == 404, right


KEY = "sk-ant-" + "K3y" * 12
ABOUT = ("id", "cwd", "running", "exit_code", "signal", "timed_out")  # of a command, in all answers


@pytest.mark.parametrize(
    ("command", "timeout_s", "ended"),
    [
        ("sleep 0.5; exit 3", None, (3, None, False)),
        ("sleep 0.5; kill -9 $$", None, (None, 9, False)),
        ("sleep 300", 0.5, (None, 9, True)),
    ],
)
async def test_all_responses_report_the_end_of_a_command_alike(
    api: Api, url: str, command: str, timeout_s: float | None, ended: tuple[int | None, int | None, bool]
) -> None:
    wanted = {"command": command, "yield_s": 0, "shell": "ends", "timeout_s": timeout_s}
    started = (await api.post(f"{url}/commands", json=wanted)).json()
    path = f"{url}/commands/{started['id']}"

    async def over() -> dict[str, Any] | None:
        result: dict[str, Any] = (await api.get(path)).json()
        return None if result["running"] else result

    result = await eventually(over)
    [listed] = [
        each for each in (await api.get(f"{url}/commands")).json()["items"] if each["id"] == result["id"]
    ]
    assert (result["exit_code"], result["signal"], result["timed_out"]) == ended
    assert {name: result[name] for name in listed} == listed
    waited = (await api.post(f"{url}/commands", json={**wanted, "yield_s": None})).json()
    assert [waited[name] for name in ABOUT if name != "id"] == [
        result[name] for name in ABOUT if name != "id"
    ]
    assert set(ABOUT) <= started.keys() & result.keys() & listed.keys()


async def test_a_list_of_commands_shows_no_secret_of_them(api: Api, url: str) -> None:
    wanted = {"command": f"sleep 300 # {KEY}", "yield_s": 0, "shell": "lists"}
    started = (await api.post(f"{url}/commands", json=wanted)).json()
    for path in ("commands", f"commands/{started['id']}"):
        assert "K3y" not in (await api.get(f"{url}/{path}")).text
    await api.delete(f"{url}/commands/{started['id']}")


async def test_no_part_of_a_secret_is_shown_from_whatever_byte_it_is_read(api: Api, url: str) -> None:
    printed = f"before {KEY} after\n"
    wanted = {"command": f"printf '{printed}'; sleep 300", "yield_s": 0.2, "shell": "reads"}
    started = (await api.post(f"{url}/commands", json=wanted)).json()

    async def all_of_it() -> bool:
        return (await api.get(f"{url}/commands/{started['id']}")).json()["end"] == len(printed)

    await eventually(all_of_it)
    for offset in range(len(printed)):
        result = (await api.get(f"{url}/commands/{started['id']}?offset={offset}")).json()
        assert "K3y" not in result["text"] and "ant-" not in result["text"], offset
        assert (result["start"], result["end"]) == (offset, len(printed))
        assert result["text"].endswith(" after\n"[max(0, offset - len(printed) + 7) :]), offset
    await api.delete(f"{url}/commands/{started['id']}")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_no_half_of_a_secret_is_left_where_late_output_is_cut(api: Api, url: str, stream: str) -> None:
    """Output of a job, which comes after the end of its command."""
    after = api.server.loaded.settings.jail.output_bytes - len(KEY) // 2  # the cut is inside of the key
    printed = f"{'.' * 1000}{KEY}{'.' * (after - 5)}\nend\n"
    shell = f"late-{stream}"
    assert (await api.put(f"{url}/files/late.txt", content=printed.encode())).status_code < 300
    where = ">&2" if stream == "stderr" else ""
    command = f"(until test -e {shell}; do sleep 0.05; done; cat late.txt {where}) &"
    left = (await api.post(f"{url}/commands", json={"command": command, "shell": shell})).json()
    command = f"touch {shell}; sleep 0.5"
    other = (await api.post(f"{url}/commands", json={"command": command, "shell": shell})).json()
    assert (left["running"], left["stdout"], left["stderr"]) == (False, "", "")
    assert (other["id"], other["stdout"], other["stderr"]) == (None, "", "")

    async def all_of_it() -> bool:
        return await _end_of(api, f"{url}/commands/{left['id']}") == len(printed)

    await eventually(all_of_it)
    tape = (await api.get(f"{url}/commands/{left['id']}")).json()
    assert "K3y" not in tape["text"] and tape["text"].startswith("[redacted:anthropic_key]...")
    texts = [
        each["text"] for each in await api.events(url.rpartition("/")[2]) if each["type"] == "shell.printed"
    ]
    assert "K3y" not in "".join(texts)


async def _end_of(api: Api, command: str) -> int:
    """The number of bytes that a command has printed, as far as they can be read."""
    at = -1
    while (read := (await api.get(f"{command}?offset={max(at, 0)}")).json()["end"]) > at:
        at = read
    return at


async def test_no_half_of_a_secret_is_left_where_output_is_cut(api: Api, url: str) -> None:
    half = api.server.loaded.settings.jail.output_bytes // 2
    zeros, dots = f"%0{half - 20}d", f"head -c {half} /dev/zero | tr '\\0' ."
    command = f"printf '{zeros} {KEY}' 1; {dots}; printf '{KEY} {zeros}' 2"
    ran = (await api.post(f"{url}/commands", json={"command": command, "shell": "cut"})).json()
    assert ran["truncated"] and " bytes omitted " in ran["stdout"]
    assert ran["stdout"].startswith("000") and ran["stdout"].endswith("0002")
    assert "K3y" not in ran["stdout"] and "ant-" not in ran["stdout"]


async def test_half_of_a_secret_waits_for_the_other_half(api: Api, url: str) -> None:
    command = (
        f"printf 'one {KEY[:20]}'; until test -e go; do sleep 0.05; done; printf '{KEY[20:]} two'; sleep 300"
    )
    started = (
        await api.post(f"{url}/commands", json={"command": command, "yield_s": 0.2, "shell": "halves"})
    ).json()
    read, end = "", 0

    async def read_until(word: str) -> bool:
        nonlocal read, end
        result = (await api.get(f"{url}/commands/{started['id']}?offset={end}")).json()
        read, end = read + result["text"], result["end"]
        return word in read

    await eventually(lambda: read_until("one "))
    for _ in range(10):
        await read_until("")
    assert (read, end) == ("one ", 4)
    await api.put(f"{url}/files/go", content=b"")
    await eventually(lambda: read_until("two"))
    assert (read, end) == ("one [redacted:anthropic_key] two", len(f"one {KEY} two"))
    await api.delete(f"{url}/commands/{started['id']}")


async def test_terminals_are_opened_listed_and_closed(api: Api, url: str) -> None:
    made = await api.post(f"{url}/terminals", json={"columns": 100, "rows": 30})
    assert (made.status_code, made.json()["columns"], made.json()["rows"]) == (201, 100, 30)
    listed = (await api.get(f"{url}/terminals")).json()["items"]
    assert made.json()["id"] in [each["id"] for each in listed]
    assert (await api.delete(f"{url}/terminals/{made.json()['id']}")).status_code == 204
    assert (await api.delete(f"{url}/terminals/nope")).status_code == 404
    assert (await api.post(f"{url}/terminals", json={"columns": 0})).status_code == 422
    assert (await api.post(f"{url}/terminals", json={"columns": 10**30})).status_code == 422


async def test_listening_ports_have_previews(api: Api, url: str) -> None:
    assert (await api.get(f"{url}/previews")).json() == {"items": [], "next": None}
    serving = {"command": "python3 -m http.server 8123", "shell": "web", "yield_s": 0.1}
    assert (await api.post(f"{url}/commands", json=serving)).json()["running"]

    async def looked() -> list[dict[str, object]]:
        return list((await api.get(f"{url}/previews")).json()["items"])

    [preview] = await eventually(looked)
    session = url.rpartition("/")[2]
    assert preview == {"port": 8123, "url": f"{api.url}/preview/{session}/8123/"}
    assert "Directory listing" in (await api.get(preview["url"])).text


async def test_the_rest_of_a_long_private_key_is_not_shown_from_its_middle(api: Api, url: str) -> None:
    lines = "\n".join(f"{number:060d}ABCD" for number in range(620))  # 40 KB
    key = f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{lines}\n-----END PGP PRIVATE KEY BLOCK-----\n"
    assert (await api.put(f"{url}/files/key.asc", content=key.encode())).status_code < 300
    wanted = {"command": "cat key.asc; echo after; sleep 300", "yield_s": 0.2, "shell": "long"}
    started = (await api.post(f"{url}/commands", json=wanted)).json()

    async def all_of_it() -> bool:
        return (await api.get(f"{url}/commands/{started['id']}")).json()["end"] == len(key) + 6

    await eventually(all_of_it)
    for offset in (1000, 20_000, 39_000):
        result = (await api.get(f"{url}/commands/{started['id']}?offset={offset}")).json()["text"]
        assert "ABCD" not in result and result.endswith("after\n")
    await api.delete(f"{url}/commands/{started['id']}")


async def pages(api: Api, address: str) -> list[dict[str, Any]]:
    """All answers, each found by the link of the one before it."""
    found = []
    while address:
        answered = await api.get(address)
        found.append(answered.json())
        next_ = answered.links.get("next", {}).get("url", "")
        assert bool(next_) == (found[-1]["next"] is not None) == found[-1]["cut"]
        address = next_
    return found


async def test_a_search_continues_where_its_last_page_ended(api: Api) -> None:
    url = f"{V1}/sessions/{await api.ready_session(purpose='pages')}"
    for name in "abcde":
        await api.put(f"{url}/files/{name}.txt", content=f"x\nhit {name} 1\ny\nhit {name} 2\nz\n".encode())
    whole = (await api.get(f"{url}/grep?pattern=hit&context=1")).json()
    assert (whole["total"], whole["cut"], whole["next"]) == (10, False, None)
    found = await pages(api, f"{url}/grep?pattern=hit&context=1&limit=3")
    assert [line for page in found for line in page["lines"]] == whole["lines"]
    assert [sum(line["matched"] for line in page["lines"]) for page in found] == [3, 3, 3, 1]
    names = [f"{name}.txt" for name in "abcde"]
    files = await pages(api, f"{url}/grep?pattern=hit&output=files&limit=2")
    assert [path for page in files for path in page["paths"]] == names
    counts = await pages(api, f"{url}/grep?pattern=hit&output=count&limit=2")
    assert [item for page in counts for item in page["counts"].items()] == [(name, 2) for name in names]
    globbed = await pages(api, f"{url}/glob?pattern=*.txt&limit=2")
    assert sorted(path for page in globbed for path in page["paths"]) == names
    assert [len(page["paths"]) for page in globbed] == [2, 2, 1]
    for bad in ("grep?pattern=x&offset=-1", "glob?pattern=x&offset=a"):
        assert (await api.get(f"{url}/{bad}")).status_code == 422


async def test_a_session_that_began_empty_is_compared_with_that(api: Api) -> None:
    url = f"{V1}/sessions/{await api.ready_session(purpose='empty')}"
    nothing = (await api.get(f"{url}/diff")).json()
    assert (nothing["old"], nothing["files"]) == (1, [])
    await api.post(f"{url}/commands", json={"command": "mkdir d; echo one > d/new.txt"})
    for _ in range(2):
        found = (await api.get(f"{url}/diff")).json()
        assert ("d/new.txt", "added") in [(each["path"], each["kind"]) for each in found["files"]]
        assert "+++ b/d/new.txt\n@@ -0,0 +1 @@\n+one\n" in found["patch"]
        await api.put(f"{url}/files/other.txt", content=b"two\n")  # which takes a snapshot
