"""Random files and random edits: no byte changes that should not, and only Hutch's errors come out."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, HutchError
from hutch.edit.atomic_apply import apply_patch, edit_file
from hutch.edit.encoded_file_text import ending, split_lines, without_ending
from hutch.edit.encoding_detection import decode
from hutch.edit.file_edits import InsertLines, Replace, ReplaceLines, plan_edits
from hutch.edit.hunk_application import plan_hunks
from hutch.edit.patch_operation_types import Hunk
from tests.edit.edited_files import edited_files
from tests.hypothesis_examples import examples

MANY = settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
SOME = settings(MANY, max_examples=examples(60))

words = st.sampled_from(
    [
        "foo",
        "bar(x)",
        "x = 1",
        "}",
        "",
        "  return y",
        "\tif z:",
        "a\fb",
        "u\u2028v",
        "“q” – …",
        "é",
        "дом",
        "  ",
    ]
)
endings = st.sampled_from(["\n", "\r\n", "\r"])
encodings = st.sampled_from(
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "latin-1", "cp1251", "utf-32"]
)
new_text = st.lists(st.sampled_from(["new", "  deep", "", "x = 1", "zzz"]), min_size=1, max_size=4).map(
    "\n".join
)


@st.composite
def contents(draw: st.DrawFn, *, mixed: bool | None = None) -> str:
    lines = draw(st.lists(words, max_size=25))
    mixed = draw(st.booleans()) if mixed is None else mixed
    usual = draw(endings)
    content = "".join(line + (draw(endings) if mixed else usual) for line in lines)
    return content if draw(st.booleans()) else content[: len(content) - len(ending(content))]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file in some encoding, that is text without doubt."""
    content, encoding = draw(contents()), draw(encodings)
    try:
        data = content.encode(encoding)
        decode(data)
    except (UnicodeEncodeError, BadRequest):
        assume(False)
    return data


def raw_lines(data: bytes) -> list[bytes]:
    """The lines of a file as its own bytes."""
    text = decode(data)
    return [text.encode(line)[len(text.bom) :] for line in split_lines(text.content)]


@MANY
@given(data=files(), script=st.data())
def test_line_edits_preserve_the_bytes_of_all_other_lines(data: bytes, script: st.DataObject) -> None:
    lines = raw_lines(data)
    text = decode(data)
    edits, expected = [], []
    at = 0
    while at <= len(lines):
        choice = script.draw(st.sampled_from(["keep", "keep", "keep", "insert", "replace", "delete"]))
        if choice == "insert":
            number = len(edits)
            edits.append(InsertLines(at, f"new {number}\n"))
            expected.append(f"new {number}")
        if at == len(lines):
            break
        if choice in ("replace", "delete"):
            count = script.draw(st.integers(1, 3))
            last = min(at + count, len(lines))
            number = len(edits)
            edits.append(ReplaceLines(at + 1, last, f"new {number}" if choice == "replace" else ""))
            if choice == "replace":
                expected.append(f"new {number}")
            at = last
            continue
        expected.append(lines[at])
        at += 1
    assume(edits)
    edits = script.draw(st.permutations(edits))
    plan = plan_edits(text.content, edits)
    result = raw_lines(text.encode(plan.content)) if plan.content else []
    assert len(result) == len(expected)
    for number, (have, want) in enumerate(zip(result, expected, strict=True)):
        if isinstance(want, str):
            assert without_ending(have.decode(text.encoding)) == want
        elif have != want and want == lines[-1] and have.startswith(want):
            assert number + 1 < len(result)  # it got the end that it lacked, since lines follow now
        elif have != want:  # an empty line that ended with LF, and now follows one that ends with CR
            before = result[number - 1].decode(text.encoding)
            assert (want.decode(text.encoding), have.decode(text.encoding)) == ("\n", "\r\n")
            assert number and ending(before) == "\r"


def _joined(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@MANY
@given(content=contents(), new=new_text, script=st.data())
@example(content="a\r\nb\r\n", new="x\ny", script=None)
@example(content="a\nb\rc\rd", new="x\n\ny", script=None)
def test_replacing_a_quote_changes_nothing_around_it(
    content: str, new: str, script: st.DataObject | None
) -> None:
    assume(content)
    start = script.draw(st.integers(0, len(content) - 1)) if script else 1
    end = script.draw(st.integers(start + 1, len(content))) if script else 3
    old = content[start:end]
    assume(_joined(old) != _joined(new))
    assume(content[start - 1 : start + 1] != "\r\n" and content[end - 1 : end + 1] != "\r\n")
    places = [at for at in range(len(content)) if content.startswith(old, at)]
    places = [at for at in places if content[at - 1 : at + 1] != "\r\n" or at == 0]
    places = [at for at in places if content[at + len(old) - 1 : at + len(old) + 1] != "\r\n"]
    try:
        plan = plan_edits(content, [Replace(old, new)])
    except HutchError as error:
        assert len(places) > 1 and f"{len(places)} times" in str(error)
        return
    if plan.content == content:
        assert "lready applied" in plan.notes[0]
        return
    assert len(places) == 1
    assert plan.content.startswith(content[:start]) and plan.content.endswith(content[end:])
    middle = _joined(plan.content[start : len(plan.content) - (len(content) - end)])
    if end == len(content):  # the file keeps its final line end, or the lack of it
        assert middle in (new, without_ending(new), f"{new}\n")
    else:
        assert middle == new
    if len({*map(ending, split_lines(content))} - {""}) == 1:
        assert {*map(ending, split_lines(plan.content))} <= {*map(ending, split_lines(content)), ""}
    assert plan.notes == ()


@st.composite
def texts_with_line(draw: st.DrawFn) -> tuple[list[str], int]:
    """The lines of a text, one of which has another after it, and reads UNIQUE."""
    lines = [line + draw(endings) for line in draw(st.lists(words, min_size=2, max_size=8))]
    at = draw(st.integers(0, len(lines) - 2))
    lines[at] = "UNIQUE" + ending(lines[at])
    lines = split_lines("".join(lines))  # an empty line may have made one end of two
    return lines, next(number for number, line in enumerate(lines) if without_ending(line) == "UNIQUE")


@MANY
@given(
    text=texts_with_line(),
    new=st.lists(st.tuples(st.sampled_from(["new", "deep"]), endings), min_size=1, max_size=4),
)
@example(text=(["UNIQUE\n", "b\n"], 0), new=[("x", "\r"), ("y", "\n")])
def test_every_kind_of_edit_gives_new_text_the_line_ends_of_the_file(
    text: tuple[list[str], int], new: list[tuple[str, str]]
) -> None:
    lines, at = text
    content = "".join(lines)
    given_text = "".join(line + end for line, end in new)
    given_text = given_text[: len(given_text) - len(new[-1][1])]
    hunk = Hunk((("-", "UNIQUE"), *(("+", line) for line in given_text.split("\n"))), line=None)
    results = [
        plan_edits(content, [Replace("UNIQUE", given_text)]).content,
        plan_edits(content, [ReplaceLines(at + 1, at + 1, given_text)]).content,
        plan_hunks(content, [hunk]).content,
    ]
    expected = [*lines[:at], *(line for line, _ in new), *lines[at + 1 :]]
    for result in results:
        have = split_lines(result)
        assert [without_ending(line) for line in have] == [without_ending(line) for line in expected]
        assert {*map(ending, have)} <= {*map(ending, lines)} | {"\r\n"}
    assert {*map(ending, split_lines(results[0]))} <= {*map(ending, lines)} or "\r" in map(ending, lines)


@MANY
@given(text=texts_with_line())
@example(text=(["a\r", "UNIQUE\n", "\n"], 1))
def test_deleting_the_text_of_a_line_leaves_its_line_end(text: tuple[list[str], int]) -> None:
    lines, at = text
    result = split_lines(plan_edits("".join(lines), [Replace("UNIQUE", "")]).content)
    bare = [without_ending(line) for line in lines]
    assert [without_ending(line) for line in result] == [*bare[:at], "", *bare[at + 1 :]]


@MANY
@given(content=contents(mixed=False), new=new_text, script=st.data())
def test_replace_all_equals_str_replace(content: str, new: str, script: st.DataObject) -> None:
    end = next(filter(None, map(ending, split_lines(content))), "\n")
    lines = [line for line in {without_ending(line) for line in split_lines(content)} if line.strip()]
    assume(lines)
    old = script.draw(st.sampled_from(lines))
    assume(old not in new)
    plan = plan_edits(content, [Replace(old, new, replace_all=True)])
    expected = content.replace(old, new.replace("\n", end))
    stays_open = content.endswith(old) and without_ending(new)
    assert plan.content == (without_ending(expected) if stays_open else expected)


@MANY
@given(
    content=contents(mixed=False),
    slip=st.sampled_from(["trailing", "dedent", "indent", "tabs", "punctuation", "ends"]),
    script=st.data(),
)
def test_a_small_mistake_in_the_quote_gives_the_same_result(
    content: str, slip: str, script: st.DataObject
) -> None:
    lines = [without_ending(line) for line in split_lines(content)]
    lines = [f"    {line}" if slip == "dedent" else f"\t{line}" if slip == "tabs" else line for line in lines]
    content = "\n".join(lines) + "\n"
    assume(lines)
    first = script.draw(st.integers(0, len(lines) - 1))
    last = script.draw(st.integers(first + 1, len(lines)))
    quote = lines[first:last]
    assume(any(line.strip() for line in quote))
    wrong = {
        "trailing": lambda line: line + "  ",
        "dedent": lambda line: line[4:],
        "indent": lambda line: "    " + line if line.strip() else line,
        "tabs": lambda line: line.replace("\t", "    ", 1),
        "punctuation": lambda line: (
            line.replace("“", '"').replace("”", '"').replace("–", "-").replace("…", "...")
        ),
        "ends": lambda line: line + "\r",
    }[slip]
    old = "\n".join(map(wrong, quote)) + "\n"
    new = "\n".join([*map(wrong, quote), wrong("    added")]) + "\n"
    try:
        plan = plan_edits(content, [Replace(old, new)])
    except HutchError as error:
        assert " times" in str(error) or "not in the file" in str(error)
        return
    if plan.content == content:
        assert "lready applied" in plan.notes[0]
        return
    after = plan.content.split("\n")[:-1]
    assert after[:last] == lines[:last] and after[last + 1 :] == lines[last:]
    assert after[last].strip() == "added"


def _changed(draw: st.DrawFn, content: str) -> str:
    lines = split_lines(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        count = draw(st.integers(0, 3))
        added = draw(st.lists(st.tuples(words, endings).map("".join), max_size=3))
        lines[at : at + count] = added
    return "".join(lines)


@st.composite
def versions(draw: st.DrawFn) -> tuple[str, str]:
    before = draw(contents())
    after = _changed(draw, before)
    if draw(st.booleans()):
        after = after[: len(after) - len(ending(after))]
    assume(before != after)
    return before, after


@MANY
@given(pair=versions(), end=endings, context=st.integers(0, 3), git=st.booleans())
def test_a_diff_made_by_diff_or_git_gives_exactly_the_new_file(
    pair: tuple[str, str], end: str, context: int, git: bool
) -> None:
    # One kind of line end, as an added line gets that of the file.
    pair = (_joined(pair[0]).replace("\n", end), _joined(pair[1]).replace("\n", end))
    assume(pair[0] != pair[1])
    assume(context or end == "\n")  # without context, diffs count LF alone
    with TemporaryDirectory() as directory:
        root = Path(directory)
        for side, content in zip("ab", pair, strict=True):
            (root / side).mkdir()
            (root / side / "file.txt").write_bytes(content.encode())
        command = ["git", "diff", "--no-index", "--no-prefix", "--text"] if git else ["diff", "--text"]
        made = subprocess.run(
            [*command, f"-U{context}", "a/file.txt", "b/file.txt"], cwd=root, capture_output=True
        )
        assert made.returncode == 1, made.stderr
        with edited_files(root / "a") as store:
            apply_patch(store, made.stdout.decode())
            assert store.seen() == {"file.txt": pair[1].encode()}


@SOME
@given(pair=versions())
def test_git_can_apply_the_shown_diff(pair: tuple[str, str]) -> None:
    before, after = (text.replace("\r\n", "\n").replace("\r", "\n") for text in pair)
    assume(before != after and before and after)
    with TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "file.txt").write_bytes(before.encode())
        total = len(split_lines(before))
        with edited_files(root) as store:
            edited = edit_file(store, "file.txt", [ReplaceLines(1, total, after)])
        final = (root / "file.txt").read_bytes()
        if not edited.changes:
            return
        (root / "file.txt").write_bytes(before.encode())
        made = subprocess.run(
            ["git", "apply", "--unidiff-zero", "-"], cwd=root, input=edited.diff.encode(), capture_output=True
        )
        assert made.returncode == 0, made.stderr
        assert (root / "file.txt").read_bytes() == final


PATCH_LINES = r"""
*** Begin Patch|*** End Patch|*** Update File: f.txt|*** Add File: n/g.txt|*** Delete File: f.txt
*** Move to: h.txt|*** End of File|@@|@@ foo|@@ -1,2 +1,2 @@| foo|-foo|+foo|-bar(x)|+new| x = 1|| |+
-|\ No newline at end of file|--- a/f.txt|+++ b/f.txt|--- /dev/null|+++ /dev/null
diff --git a/f.txt b/f.txt|rename from f.txt|rename to g.txt|new file mode 100755
deleted file mode 100644|old mode 100644|new mode 100755|<<EOF|EOF|```|*** Update File: ../x
*** Add File: /x|GIT binary patch|@@@ -1 -1 +1 @@@"""
patch_lines = st.sampled_from([*PATCH_LINES.strip().replace("\n", "|").split("|"), "\x00", "+\ud800"])


@MANY
@given(lines=st.lists(patch_lines, max_size=18), content=contents(), wrap=st.booleans())
def test_any_patch_is_applied_completely_or_refused(lines: list[str], content: str, wrap: bool) -> None:
    patch = "\n".join(["*** Begin Patch", *lines, "*** End Patch"] if wrap else lines)
    with TemporaryDirectory() as directory, edited_files(Path(directory)) as store:
        (store.root / "f.txt").write_bytes(content.encode())
        before = store.seen()
        try:
            edited = apply_patch(store, patch)
        except HutchError as error:
            assert store.seen() == before
            str(error).encode()
        else:
            edited.text.encode()
            edited.diff.encode()
            assert bool(edited.changes) or store.seen() == before


@MANY
@given(
    content=contents(),
    edits=st.lists(
        st.one_of(
            st.builds(Replace, new_text | words, new_text | words, st.booleans()),
            st.builds(ReplaceLines, st.integers(-1, 9), st.integers(-1, 9), new_text),
            st.builds(InsertLines, st.integers(-1, 9), new_text),
        ),
        max_size=5,
    ),
)
def test_any_edits_are_all_applied_or_none(content: str, edits: list) -> None:
    with TemporaryDirectory() as directory, edited_files(Path(directory)) as store:
        (store.root / "f.txt").write_bytes(content.encode())
        before = store.seen()
        try:
            edited = edit_file(store, "f.txt", edits)
        except HutchError as error:
            assert store.seen() == before and "'f.txt' was not changed" in str(error)
        else:
            edited.text.encode()
            assert bool(edited.changes) == (store.seen() != before)
