"""The file tools: their results and their limits."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.agent.tool_call_rules import Policy, parse_rule
from hutch.agent.tools.glob_and_grep import LINE_CHARS as GREP_LETTERS
from hutch.agent.tools.read_file import LINE_CHARS, MAX_CHARS
from hutch.domain.redaction import Redactor
from tests.agent.run_setups import open_tool_env

pytestmark = pytest.mark.anyio
FILES = {
    "src/app.py": b"def main():\n    return 1\n",
    "src/odd.txt": "one\ftwo\u2028three\r\nfour\rfive\n".encode(),
    "logo.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "empty": b"",
    "long.txt": "".join(f"line {number} {'x' * 90}\n" for number in range(1, 2001)).encode(),
    "wide.txt": b"y" * 50_000 + b"\nshort\n",
}


async def test_lines_are_numbered_as_the_edit_tools_count_them(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        odd = await env.use("read_file", path="src/odd.txt")
        part = await env.use("read_file", path="/workspace/src/app.py", start_line=2, end_line=2)
        edited = await env.use(
            "edit_file", path="src/odd.txt", edits=[{"start_line": 3, "end_line": 3, "new": "5\n"}]
        )
        after = await env.use("read_file", path="./src/odd.txt")
    assert odd.text == "     1\tone\ftwo\u2028three\n     2\tfour\n     3\tfive"
    assert part.text == "     2\t    return 1"
    assert edited.ok and after.text.endswith("     3\t5")


async def test_a_long_file_is_read_in_parts_that_join(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        numbers, start = [], 1
        while start <= 2000:
            result = await env.use("read_file", path="long.txt", start_line=start)
            assert len(result.text) < MAX_CHARS + 200
            lines = [line for line in result.text.splitlines() if "\t" in line]
            numbers += [int(line.split("\t")[0]) for line in lines]
            assert result.data["last_line"] == numbers[-1]
            assert result.data["text"].count("\n") == len(lines)
            if numbers[-1] < 2000:
                assert f"of 2,000; continue with start_line {numbers[-1] + 1})" in result.text
            start = numbers[-1] + 1
        wide = await env.use("read_file", path="wide.txt")
    assert numbers == list(range(1, 2001))
    assert f"({50_000 - LINE_CHARS:,} more characters; read them with bash)\n     2\tshort" in wide.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "empty"}, "(the file is empty)"),
        ({"path": "src/app.py", "start_line": 9}, "'src/app.py' has 2 lines, so there is no line 9."),
        ({"path": "src/app.py", "start_line": 2, "end_line": 1}, "are no range"),
        ({"path": "logo.png"}, "is no PNG, JPEG, GIF or WebP"),
        ({"path": "src/ap.py"}, "'src/ap.py' does not exist"),
        ({"path": "src"}, "directory"),
        ({"path": "a\0b"}, "NUL"),
        ({"path": ""}, "directory"),
        ({"path": "x" * 5000}, "longer than a path can be"),
    ],
)
async def test_content_that_cannot_be_shown_is_described(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        result = await env.use("read_file", **arguments)
    assert words in result.text
    assert len(result.text) < 1000


OUTSIDE = ["/etc/passwd", "../secret", "src/../../secret", "link/secret", "/workspace/../secret", "src/x"]


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_path_leads_out_of_the_workspace(tmp_path: Path, path: str) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        (tmp_path / "secret").write_text("root: hidden")
        await env.use("bash", command=f"ln -s {tmp_path} link; ln -s {tmp_path}/secret src/x")
        calls = {
            "read_file": {"path": path},
            "write_file": {"path": path, "content": "x"},
            "edit_file": {"path": path, "edits": [{"insert_line": 0, "new": "x\n"}]},
            "apply_patch": {"patch": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"},
        }
        for tool, arguments in calls.items():
            result = await env.use(tool, **arguments)
            assert not result.ok and result.changes == (), tool
            assert "root:" not in result.text, tool
        for tool in ("glob", "grep"):
            result = await env.use(tool, pattern="hidden" if tool == "grep" else "*", path=path)
            assert "root:" not in result.text, tool
        assert (tmp_path / "secret").read_text() == "root: hidden"


async def test_a_file_is_written_and_described(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        new = await env.use("write_file", path="deep/er/new.py", content="a\nb")
        over = await env.use("write_file", path="/workspace/deep/er/new.py", content="c\n")
        folder = await env.use("write_file", path="src", content="c\n")
        read = await env.use("read_file", path="deep/er/new.py")
    assert (new.text, over.text) == (
        "Created 'deep/er/new.py' (2 lines).",
        "Modified 'deep/er/new.py' (1 line).",
    )
    assert [change.kind for change in (*new.changes, *over.changes)] == ["created", "modified"]
    assert not folder.ok and "directory" in folder.text
    assert read.text == "     1\tc"


async def test_a_written_file_that_does_not_parse_is_reported(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        new = await env.use("write_file", path="new.py", content="x = 1\ndef f(:\n")
        over = await env.use("write_file", path="src/app.py", content="def main(:\n")
        still = await env.use("write_file", path="src/app.py", content="def main((:\n")
        valid = await env.use("write_file", path="new.json", content='{"a": 1}\n')
        empty = await env.use("write_file", path="empty.json", content="")
        binary = await env.use("write_file", path="odd.py", content="\0\1(((")
        added = await env.use(
            "apply_patch", patch="*** Begin Patch\n*** Add File: b.py\n+def g(:\n*** End Patch"
        )
    warning = "'new.py' does not parse as Python, from line 2: def f(:"
    assert (new.ok, new.text) == (True, f"Created 'new.py' (2 lines). Warning: {warning}.")
    assert new.data["warnings"] == [warning]
    assert "Warning: 'src/app.py' no longer parses as Python, from line 1" in over.text
    assert "Warning: 'b.py' does not parse as Python" in added.text
    assert [each.data["warnings"] for each in (still, valid, empty, binary)] == [[], [], [], []]


@pytest.mark.parametrize(
    ("before", "content", "after", "note"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", "The file keeps its CRLF line ends."),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n", "The file keeps its byte order mark."),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n", "The file keeps its byte order mark."),
        (
            "\ufeffa\r\n".encode("utf-16-le"),
            "x\n",
            "\ufeffx\r\n".encode("utf-16-le"),
            "The file keeps its byte order mark and its CRLF line ends.",
        ),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n", ""),  # mixed: nothing to keep
        (b"a\nb\n", "x\r\n", b"x\r\n", ""),  # CRLF written explicitly
        (b"a\r\nb", "x\r\ny\n", b"x\r\ny\n", ""),
    ],
)
async def test_a_rewritten_file_keeps_its_encoding_and_line_ends(
    tmp_path: Path, before: bytes, content: str, after: bytes, note: str
) -> None:
    async with open_tool_env(tmp_path, {"file.txt": before}) as env:
        written = await env.use("write_file", path="file.txt", content=content)
        assert (await env.context.workspace.read_range("file.txt")).data == after
    assert written.text.partition(").")[2].strip() == note


async def test_a_quote_may_begin_with_the_byte_order_mark_that_the_file_keeps(tmp_path: Path) -> None:
    files = {"file.txt": b"\xef\xbb\xbfone\r\ntwo\r\n"}
    diff = "--- a/file.txt\n+++ b/file.txt\n@@ -1,2 +1,2 @@\n-\ufeffONE\r\n+\ufeff1\r\n two\r\n"
    async with open_tool_env(tmp_path, files) as env:
        edit = {"old": "\ufeffone\n", "new": "\ufeffONE\n"}
        edited = await env.use("edit_file", path="file.txt", edits=[edit])
        assert edited.ok, edited.text
        patched = await env.use("apply_patch", patch=diff)
        assert patched.ok, patched.text
        data = (await env.context.workspace.read_range("file.txt")).data
    assert data == b"\xef\xbb\xbf1\r\ntwo\r\n"


async def test_a_file_changed_since_it_was_read_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        await env.use("read_file", path="src/app.py")
        await env.use("bash", command="echo '# mine' >> src/app.py")
        refused = await env.use("write_file", path="src/app.py", content="gone\n")
        tail = await env.use("bash", command="tail -1 src/app.py")
        again = await env.use("write_file", path="src/app.py", content="meant\n")
    assert not refused.ok and "was changed by something else since you read it. Read it again" in refused.text
    assert tail.text == "# mine" and again.ok


@pytest.mark.parametrize(
    "edit", [{"start_line": 1, "end_line": 1, "new": "x"}, {"insert_line": 1, "new": "x"}]
)
async def test_line_numbers_of_a_file_that_has_changed_are_refused_once(
    tmp_path: Path, edit: dict[str, Any]
) -> None:
    async with open_tool_env(tmp_path, {"a.txt": b"one\ntwo\n"}) as env:
        await env.use("read_file", path="a.txt")
        await env.use("bash", command="sed -i '1i zero' a.txt")
        by_text = await env.use("edit_file", path="a.txt", edits=[{"old": "two", "new": "2"}])
        refused = await env.use("edit_file", path="a.txt", edits=[edit])
        same = await env.use("bash", command="cat a.txt")
        again = await env.use("edit_file", path="a.txt", edits=[edit])
        more = await env.use("edit_file", path="a.txt", edits=[edit])
    assert by_text.ok and same.text == "zero\none\n2"
    assert not refused.ok and "was changed by something else since you read it" in refused.text
    assert again.ok and more.ok


async def test_an_edit_shows_its_result_and_a_refusal_has_a_hint(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        done = await env.use("edit_file", path="src/app.py", edits=[{"old": "return 1", "new": "return 2"}])
        wrong = await env.use("edit_file", path="src/app.py", edits=[{"old": "return 3", "new": "x"}])
        none = await env.use("edit_file", path="src/none.py", edits=[{"old": "a", "new": "b"}])
    assert done.ok and "+    return 2" in done.data["diff"] and "return 2" in done.text
    assert not wrong.ok and "return 2" in wrong.text  # the lines that are most like it
    assert not none.ok and "'src/none.py' does not exist" in none.text


async def test_a_patch_is_applied_completely_or_not_at_all(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: src/app.py\n@@\n-    return 1\n+    return 2\n"
    async with open_tool_env(tmp_path, FILES) as env:
        half = await env.use("apply_patch", patch=f"{patch}*** Delete File: not/there\n*** End Patch")
        same = await env.use("read_file", path="src/app.py")
        done = await env.use("apply_patch", patch=f"{patch}*** Add File: b.txt\n+b\n*** End Patch")
        nonsense = await env.use("apply_patch", patch="please change it")
    assert not half.ok and "return 1" in same.text
    assert done.ok and sorted(done.data["changed"]) == ["b.txt", "src/app.py"]
    assert not nonsense.ok and "Begin Patch" in nonsense.text


async def test_searches_are_short_and_say_how_to_narrow(tmp_path: Path) -> None:
    files = {f"src/f{number}.py": b"needle\nhay\n" for number in range(300)} | {"b.txt": b"needle\n"}
    async with open_tool_env(tmp_path, files) as env:
        found = await env.use("glob", pattern="**/*.py")
        none = await env.use("glob", pattern="*.rs")
        lines = await env.use("grep", pattern="need.e", limit=3)
        count = await env.use("grep", pattern="needle", output="count", glob="*.txt")
        missing = await env.use("grep", pattern="nowhere")
        bad = await env.use("grep", pattern="(")
        near = await env.use("grep", pattern="hay", path="/workspace/src/f1.py", context=1)
        paths = await env.use("grep", pattern="needle", output="files", path="b.txt")
    assert "(300 in all; shown: the newest 200. Narrow the pattern, or raise limit.)" in found.text
    assert none.text == "No file matches. list_directory shows what is there."
    assert lines.text.count("needle") == 3 and "Narrow the pattern, or raise limit.)" in lines.text
    assert count.text == "b.txt: 1" and paths.text == "b.txt"
    assert missing.text == "No match. Try another pattern or path, or ignore_case."
    assert not bad.ok and "(" in bad.text
    assert near.text == "src/f1.py\n     1- needle\n     2: hay"


IGNORED = {
    ".gitignore": b"build/\n*.log\n",
    "src/a.py": b"needle\n",
    "build/out.py": b"needle\nneedle\n",
    "x.log": b"needle\n",
    "private/key": b"needle\n",
}


async def test_grep_says_how_many_matches_ignore_rules_hide(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, IGNORED) as env:
        env.context = replace(env.context, ignore=("private",))
        found = await env.use("grep", pattern="needle")
        files = await env.use("grep", pattern="needle", output="files")
        all_ = await env.use("grep", pattern="needle", output="count", include_ignored=True)
        none = await env.use("grep", pattern="thread")
    assert found.text.endswith(
        "(More matches in files that .gitignore lists: 3. Pass include_ignored to see them.)"
    )
    assert (found.data["total"], found.data["ignored"]) == (1, 3)
    assert files.text == "src/a.py\n(More files that .gitignore lists: 2. Pass include_ignored to see them.)"
    assert all_.data["counts"] == {"build/out.py": 2, "src/a.py": 1, "x.log": 1}
    assert none.text == "No match. Try another pattern or path, or ignore_case."


async def test_a_rule_hides_ignored_files_from_the_count_too(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, IGNORED) as env:
        env.context = replace(
            env.context, hides=lambda tool, path: lambda each: each.startswith(("build", "private"))
        )
        found = await env.use("grep", pattern="needle")
    assert (found.data["total"], found.data["ignored"]) == (1, 1)


async def test_glob_finds_directories(tmp_path: Path) -> None:
    files = {"src/tests/a.py": b"", "src/tests/deep/b.py": b"", "lib/tests/c.py": b"", "test_runs.py": b""}
    async with open_tool_env(tmp_path, {**files, ".gitignore": b"lib/\n"}) as env:
        found = await env.use("glob", pattern="**/tests/", directories=True)
        below = await env.use("glob", pattern="*", path="src", directories=True)
        none = await env.use("glob", pattern="*.py", directories=True)
    assert found.data["paths"] == ["src/tests/"]
    assert sorted(below.data["paths"]) == ["src/tests/", "src/tests/deep/"]
    assert none.text == "No directory matches. list_directory shows what is there."


async def test_text_is_found_in_files_that_are_not_utf_8(tmp_path: Path) -> None:
    files = {"old.txt": "un caf\u00e9 noir\n".encode("latin-1"), "new.txt": "th\u00e9\n".encode()}
    async with open_tool_env(tmp_path, files) as env:
        old = await env.use("grep", pattern="CAF\u00c9", ignore_case=True)
        counted = await env.use("grep", pattern="caf\u00e9", output="count")
        new = await env.use("grep", pattern="th\u00e9")
        neither = await env.use("grep", pattern="ni\u00f1o")
    note = "(no match in UTF-8; these files were read as Latin-1)"
    assert old.text == f"old.txt\n     1: un caf\u00e9 noir\n{note}"
    assert counted.data["counts"] == {"old.txt": 1}
    assert new.text == "new.txt\n     1: th\u00e9"
    assert neither.text.startswith("No match.")


async def test_names_that_are_not_utf_8_are_shown_escaped_and_accepted_escaped(tmp_path: Path) -> None:
    make = "mkdir \"$(printf 'b\\377d')\"; printf 'needle\\n' > \"$(printf 'b\\377d/caf\\351')\"; cd b*"
    name = r"b\xffd/caf\xe9"
    async with open_tool_env(tmp_path, FILES) as env:
        moved = await env.use("bash", command=make)
        found = await env.use("glob", pattern="caf*", path=r"b\xffd")
        lines = await env.use("grep", pattern="needle", path=name)
        read = await env.use("read_file", path=f"/workspace/{name}")
        edited = await env.use("edit_file", path=name, edits=[{"old": "needle", "new": "thread"}])
        unified = '--- "a/b\\377d/caf\\351"\n+++ "b/b\\377d/caf\\351"\n@@ -1 +1 @@\n-thread\n+rope\n'
        patched = await env.use("apply_patch", patch=unified)
        written = await env.use("write_file", path=name, content="sail\n")
        missing = await env.use("read_file", path=r"b\xffd/caf\xea")
        there = await env.use("bash", command="cat *; ls /workspace | wc -l")
    assert (moved.data["cwd"], found.data["paths"], read.data["path"]) == (
        "/workspace/b\ufffdd",  # what a shell says of itself is read as text
        [name],
        name,
    )
    assert lines.text == f"{name}\n     1: needle" and read.text == "     1\tneedle"
    for result in (edited, patched, written):
        assert [change.path for change in result.changes] == [name]
    for result in (moved, found, lines, read, edited, patched, written, missing):
        json.dumps([result.text, result.data], ensure_ascii=False).encode()
    assert not missing.ok and r"'b\xffd/caf\xea' does not exist" in missing.text
    assert there.text.startswith("sail\n")


async def test_a_name_that_looks_escaped_is_used_literally(tmp_path: Path) -> None:
    policy = Policy((parse_rule("deny * secr\u00e9ts/**"),))
    files = {r"caf\xe9": b"as it is\n", "secr\u00e9ts/key": b"hidden\n", "abc": b"plain\n"}
    async with open_tool_env(tmp_path, files) as env:
        await env.use("bash", command="printf 'other\\n' > \"$(printf 'caf\\351')\"")
        literal = await env.use("read_file", path=r"caf\xe9")
        # A second spelling of a name would bypass a rule about it.
        around = [r"secr\xc3\xa9ts/key", r"\x61bc"]
        refused = [await env.use("read_file", path=path) for path in around]
    assert literal.text == "     1\tas it is"
    assert [result.ok for result in refused] == [False, False]
    assert policy.decide("read_file", paths=["secr\u00e9ts/key"]).action == "deny"


async def test_no_half_of_a_secret_is_left_where_a_line_is_cut(tmp_path: Path) -> None:
    key = "sk-ant-" + "K3y" * 20
    files = {
        "wide.json": ("." * (LINE_CHARS - 10) + key + "." * 5000 + "\n").encode(),
        "min.js": ("." * (GREP_LETTERS - 10) + key + "." * 5000 + "\n").encode(),
        "key.pem": (
            b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\nafter\n"
        ),
    }
    async with open_tool_env(tmp_path, files) as env:
        env.redact(Redactor())
        wide = await env.use("read_file", path="wide.json")
        found = await env.use("grep", pattern="^[.]", path="min.js")
        pem = await env.use("read_file", path="key.pem")
    for result, instead in ((wide, "[redact"), (found, "[... omit")):
        shown = f"{result.text} {result.data}"
        assert "K3y" not in shown and "sk-ant" not in shown and instead in shown
    assert pem.text == "     1\t[redacted:private_key]\n     4\tafter"
    assert "MII" not in str(pem.data)


async def test_no_part_of_a_secret_is_read_in_one_answer_and_the_rest_in_another(tmp_path: Path) -> None:
    value, body = "Zq7-KvRwtE93kxl", [f"MIIEvQIBADANBgkqhkiG9w0B{number:02}" for number in range(30)]
    pem = ["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"]
    files = {
        "broken.txt": f"one\n{value[:7]}\n{value[7:]}\r\nfour\n".encode(),
        "key.pem": "\n".join([*pem, "after", ""]).encode(),
        "long.txt": (
            ("." * 100 + "\n") * (MAX_CHARS // 109) + f"{'.' * 30}{value[:7]}\n{value[7:]}\n"
        ).encode(),
    }
    redactor, answers = Redactor([value]), []
    async with open_tool_env(tmp_path, files) as env:
        env.redact(redactor)
        for name in files:
            total = len(files[name].splitlines())
            for first, last in [(1, 2), (2, 2), (3, 3), (3, 4), (2, 40), (20, 25), (20, 40), (1, 400)]:
                if first <= total:
                    answers.append(await env.use("read_file", path=name, start_line=first, end_line=last))
        plain = await env.use("read_file", path="broken.txt", start_line=4)
        start = await env.use("read_file", path="long.txt")
        rest = await env.use("read_file", path="long.txt", start_line=start.data["last_line"] + 1)
        ending = await env.use("read_file", path="broken.txt", start_line=3, end_line=3)
    for result in (*answers, start, rest):
        assert result.ok
        shown = f"{result.text} {result.data}"
        assert not any(value[at : at + 4] in shown for at in range(len(value) - 3)), shown
        assert "MIIE" not in shown
    assert plain.text == "     4\tfour"
    assert (ending.text, ending.data["text"]) == (
        "     3\t********\n(lines 3 to 3 of 4; continue with start_line 4)",
        "********\r\n",
    )


async def test_data_of_a_file_is_no_longer_than_its_text(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"wide.txt": b"y" * 900_000 + b"\nshort\r\n"}) as env:
        wide = await env.use("read_file", path="wide.txt")
    more = f"({900_000 - LINE_CHARS:,} more characters; read them with bash)"
    assert wide.data["text"] == f"{'y' * LINE_CHARS}… {more}\nshort\r\n"


async def test_a_user_is_asked_if_one_is_connected(tmp_path: Path) -> None:
    async def answer(question: str, call_id: str, choices: Sequence[str]) -> str:
        assert not call_id
        return f"You asked: {question} {', '.join(choices)}"

    async with open_tool_env(tmp_path, FILES) as env:
        alone = await env.use("ask_user", question="Tabs or spaces?")
        env.context = replace(env.context, ask=answer)
        answered = await env.use("ask_user", question="Which?", choices=["tabs", "spaces"])
    assert (alone.ok, answered.ok) == (False, True)
    assert alone.text.startswith("No user is here to answer. Decide for yourself")
    assert answered.text == "The user answers: You asked: Which? tabs, spaces"


async def test_finish_has_a_title_of_one_line(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        result = await env.use("finish", title=" Two\n lines ", summary="Why.")
    assert (result.ok, result.data) == (True, {"title": "Two lines", "summary": "Why."})


async def test_no_part_of_a_secret_is_shown_from_any_start_line(tmp_path: Path) -> None:
    value = "Zq7-KvRwtE93kxl"
    redactor = Redactor([value])
    key = ["-----BEGIN PRIVATE KEY-----", *["MIIEvQIBADANBgkqhkiG9w0B"] * 300, "-----END PRIVATE KEY-----"]
    text = "\n".join([value[:7], value[7:], *key, f"two {value}", "MIIE", ""])
    large = "\n".join(["x" * 60] * 160_000 + [text])  # not read at once
    async with open_tool_env(tmp_path, {"a": text.encode(), "large": large.encode()}) as env:
        env.redact(redactor)
        for path, before in (("a", 0), ("large", 160_000)):
            for line in (1, 2, 3, 4, 150, 303, 304):
                read = await env.use("read_file", path=path, start_line=before + line, end_line=before + line)
                shown = f"{read.text} {read.data}"
                assert not any(value[at : at + 4] in shown for at in range(len(value) - 3)), shown
                assert "BADANB" not in shown, (line, shown)
            after = await env.use("read_file", path=path, start_line=before + 305)
            assert after.text.split("\n")[:2] == [
                f"{before + 305:>6}\ttwo [redacted:secret]",
                f"{before + 306:>6}\tMIIE",
            ]


async def test_grep_hides_a_secret_that_continues_in_the_next_line_also_in_data(tmp_path: Path) -> None:
    value = "Zq7-KvRwtE93kxl"
    redactor = Redactor([value])
    text = f"one\n{value[:7]}\n{value[7:]}\ntwo {value}\n"
    async with open_tool_env(tmp_path, {"a": text.encode()}) as env:
        env.redact(redactor)
        found = await env.use("grep", pattern=".")
    assert [line["text"] for line in found.data["lines"]] == [
        "one",
        "*" * 7,
        "*" * 8,
        "two [redacted:secret]",
    ]
    assert not any(value[at : at + 4] in found.text for at in range(len(value) - 3))
