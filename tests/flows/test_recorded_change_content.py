"""The content and the diff of a recorded change, also of files that git ignores, and of an undo."""

from pathlib import Path

import pytest

from hutch.domain import inputs
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.events import FileChanged
from hutch.flows.recorded_change_content import read_content, read_diff
from hutch.sessions import file_and_command_requests as requests
from tests.sessions.session_server import call, serving
from tests.sessions.undo_setup import IGNORING, Stage

pytestmark = pytest.mark.anyio


async def patch(stage: Stage, seq: int) -> str:
    return (await read_diff(stage.server.services, stage.caller, stage.id, seq)).patch.decode()


async def test_diffs_of_ignored_files_and_of_an_undo(tmp_path: Path) -> None:
    command = "mkdir -p build/deep; echo s > .env; echo b > build/deep/out; echo A > a.txt; git add a.txt"
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, call("bash", command=command), files=IGNORING)
        ignored = await patch(stage, await stage.seq("files.changed", ignored=True))
        assert "+++ b/.env\n@@ -0,0 +1 @@\n+s\n" in ignored
        assert "+++ b/build/deep/out\n@@ -0,0 +1 @@\n+b\n" in ignored
        assert "a.txt" not in ignored and ".git/" not in ignored
        await stage.write(".env", "t\n")
        assert "-s\n+t\n" in await patch(stage, await stage.seq("file.changed", path=".env"))
        await stage.undo(inputs.Undo(keep=True))
        undone = await stage.seq("session.rewound")
        shown = await patch(stage, undone)
        assert "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-A\n+a\n" in shown
        assert "--- a/build/deep/out\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n" in shown
        with pytest.raises(BadRequest, match="has no content of its own"):
            await read_content(server.services, stage.caller, stage.id, undone)


async def changes(stage: Stage, path: str) -> list[tuple[int, FileChanged]]:
    numbered = enumerate(await stage.events(), 1)
    return [(seq, each) for seq, each in numbered if isinstance(each, FileChanged) and each.path == path]


async def contents(stage: Stage, path: str) -> list[tuple[str, bytes | None]]:
    """The author and the content of each recorded version of a file; None if it was deleted."""
    services, who = stage.server.services, stage.caller
    return [
        (each.by, await read_content(services, who, stage.id, seq) if each.after else None)
        for seq, each in await changes(stage, path)
    ]


async def test_a_write_that_a_program_replaces_at_once_keeps_its_content(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, files=IGNORING)
        program = {"a.txt": "program\n", "gone.txt": None, ".env": "program\n", "new/deep.txt": None}
        async with stage.overwriting(program):
            for path in program:
                await stage.write(path, f"request {path}\n")
        assert await contents(stage, "a.txt") == [("usr_x", b"request a.txt\n"), ("", b"program\n")]
        for path in ("gone.txt", "new/deep.txt"):
            assert await contents(stage, path) == [("usr_x", f"request {path}\n".encode()), ("", None)]
        assert await contents(stage, ".env") == [("usr_x", b"request .env\n")]  # its own change is counted
        [(written, first), (replaced, second)] = await changes(stage, "a.txt")
        assert first.previous_snapshot < first.snapshot == second.previous_snapshot < second.snapshot
        assert "-a\n+request a.txt\n" in await patch(stage, written)
        assert "-request a.txt\n+program\n" in await patch(stage, replaced)
        assert (await stage.read("a.txt"), await stage.read("gone.txt")) == ("program\n", None)


async def test_edits_moves_deletions_and_undo_that_a_program_replaces_at_once(tmp_path: Path) -> None:
    edit = call("write_file", path="agents.txt", content="agent\n")
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, edit, files={"a.txt": "a\n", "b.txt": "b\n"})
        ask = server.host.call
        program = "program\n"
        async with stage.overwriting({"a.txt": program, "c.txt": program, "agents.txt": program}):
            edits = [{"old": "a", "new": "edited"}]
            await ask(stage.id, requests.EditFile("a.txt", edits), by="usr_x")
            await ask(stage.id, requests.MoveFile("b.txt", "c.txt"), by="usr_x")
            await stage.undo()
        async with stage.overwriting({"a.txt": "again\n"}):
            await ask(stage.id, requests.DeleteFile("a.txt"), by="usr_x")
        assert await contents(stage, "a.txt") == [
            *(("usr_x", b"edited\n"), ("", b"program\n")),
            *(("usr_x", None), ("", b"again\n")),
        ]
        assert await contents(stage, "c.txt") == [("usr_x", b"b\n"), ("", b"program\n")]
        agents = [content for _, content in await contents(stage, "agents.txt")]
        assert agents == [b"agent\n", None, b"program\n"]


async def test_a_write_through_a_link_is_recorded_for_the_file(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        await stage.run("mkdir real; echo old > real/file; ln -s real way; ln -s way/file link")
        await stage.write("link", "one\n", by="usr_y")
        async with stage.overwriting({"real/file": "program\n"}):
            await stage.write("way/file", "two\n", by="usr_y")
        found = [("usr_x", b"old\n"), ("usr_y", b"one\n"), ("usr_y", b"two\n"), ("", b"program\n")]
        assert await contents(stage, "real/file") == found
        assert len(await contents(stage, "link")) == 1  # by the command


async def test_files_whose_names_are_not_utf8_have_content_and_diffs(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        names = [r"a\361", r"a\362", r"a\363", r"a\357\277\275"]
        await stage.run(r"mkdir $(printf 'd\376')")
        for name in names:
            await stage.run(f"printf '{name}' > $(printf 'd\\376/{name}')")
        await server.host.call(stage.id, requests.TakeSnapshot("now"), by="usr_x")
        shown = "d\ufffd/a\ufffd"
        made = await changes(stage, shown)
        found = {seq: await read_content(server.services, stage.caller, stage.id, seq) for seq, _ in made}
        written = {seq: content for seq, content in found.items() if content}  # one may be seen before it is
        assert sorted(written.values()) == [b"a\xef\xbf\xbd", b"a\xf1", b"a\xf2", b"a\xf3"]
        for seq, content in written.items():
            difference = await read_diff(server.services, stage.caller, stage.id, seq)
            assert (difference.total, content in difference.patch) == (1, True)
        await stage.run(r"echo 5 1<> $(printf 'd\376/a\362'); rm $(printf 'd\376/a\363')")
        await server.host.call(stage.id, requests.TakeSnapshot("now"), by="usr_x")
        [modified, deleted] = [seq for seq, _ in (await changes(stage, shown))[len(made) :]]
        patches = [
            (await read_diff(server.services, stage.caller, stage.id, seq)).patch
            for seq in (modified, deleted)
        ]
        assert b"-a\xf2\n\\ No newline at end of file\n+5\n" in patches[0]
        assert b"-a\xf3\n" in patches[1] and b"a\xf2" not in patches[1]


async def test_another_content_than_the_recorded_one_is_not_returned(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.empty(server)
        await stage.write("a", "one")
        seq = await stage.seq_of_change("a")
        event = (await changes(stage, "a"))[-1][1]
        unknown = event.model_copy(update={"after": "0" * 64})
        await server.log.append(stage.id, [unknown])
        assert await read_content(server.services, stage.caller, stage.id, seq) == b"one"
        with pytest.raises(NotFound, match="another process changed 'a' before"):
            await read_content(server.services, stage.caller, stage.id, await stage.seq_of_change("a"))


async def test_the_diff_of_a_move_names_both_paths(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, files={"a.txt": "1\n2\n3\n4\n"})
        await server.host.call(stage.id, requests.MoveFile("a.txt", "b.txt"), by="usr_x")
        found = await read_diff(server.services, stage.caller, stage.id, await stage.seq_of_change("b.txt"))
        assert [(each.kind, each.old_path, each.path) for each in found.files] == [
            ("renamed", "a.txt", "b.txt")
        ]
        assert "rename from a.txt\nrename to b.txt\n" in found.patch.decode()
