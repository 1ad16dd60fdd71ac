"""The positions of hunks, and refusals when they are ambiguous."""

import re
from dataclasses import replace

import pytest

from hutch.domain.errors import BadRequest, Conflict
from hutch.edit.fuzzy_match import IndexedText, MatchLevel
from hutch.edit.hunk_placement import place_hunks
from hutch.edit.patch_operation_types import Hunk

TWICE = "def a():\n    x = 1\n    return x\n\ndef b():\n    x = 1\n    return x\n"


def hunk(text: str, *anchors: str, at_end: bool = False, line: int | None = None) -> Hunk:
    return Hunk(tuple((each[0], each[1:]) for each in text.split("\n")), anchors, at_end, line)


def lines(content: str, *hunks: Hunk) -> list[int]:
    return [placed.line for placed in place_hunks(IndexedText(content), hunks)]


def test_a_hunk_goes_where_its_lines_are() -> None:
    assert lines("a\nb\nc\n", hunk(" b\n-c\n+d")) == [1]


def test_two_possible_positions_are_refused() -> None:
    with pytest.raises(Conflict) as refused:
        lines(TWICE, hunk("-    x = 1\n+    x = 2"))
    assert str(refused.value) == (
        "The hunk matches in 2 places: lines 2, 6. Give more lines around the intended one,"
        " or name a line above it with '@@'."
    )


@pytest.mark.parametrize("anchor", ["def b():", "  def b():  ", "def b", "def b(): @@"])
def test_an_anchor_decides(anchor: str) -> None:
    assert lines(TWICE, hunk("-    x = 1\n+    x = 2", anchor)) == [5]


def test_anchors_follow_each_other() -> None:
    nested = "class A:\n  def f():\n    1\nclass B:\n  def f():\n    1\nclass C:\n  def f():\n    1\n"
    assert lines(nested, hunk("-    1\n+    2", "class B:", "  def f():")) == [5]
    with pytest.raises(Conflict, match="lines 3, 6, 9"):
        lines(nested, hunk("-    1\n+    2", "  def f():"))


@pytest.mark.parametrize("anchors", [("def zzz():",), ("def a():", "def zzz():"), ("ef b",), ("def bb():",)])
@pytest.mark.parametrize("text", [" def b():\n-    x = 1", "+new text", "-nowhere\n+x"])
def test_a_missing_anchor_is_refused_by_name(anchors: tuple[str, ...], text: str) -> None:
    with pytest.raises(Conflict, match=rf"the line '{re.escape(anchors[-1])}' after '@@' is not in the file"):
        lines(TWICE, hunk(text, *anchors))


QUOTES = [
    "# def zzz():",
    "    #def zzz():",
    "x = 1  # def zzz():",
    'x = "def zzz():"',
    "// def zzz():",
    "    raise Error('no def zzz():')",
    "async def zzz():",
]


@pytest.mark.parametrize("quote", QUOTES)
def test_an_anchor_is_not_found_behind_other_text_of_a_line(quote: str) -> None:
    with pytest.raises(Conflict, match=r"the line 'def zzz\(\):' after '@@' is not in the file"):
        lines(f"{quote}\n{TWICE}", hunk("-    x = 1\n+    x = 2", "def zzz():"))


@pytest.mark.parametrize("quote", QUOTES)
def test_a_heading_is_not_found_behind_other_text_of_a_line(quote: str) -> None:
    with_heading = replace(hunk("-    x = 1\n+    x = 2", line=3), heading="def zzz():")
    with pytest.raises(Conflict, match=r"the heading 'def zzz\(\):' after its line numbers is not in"):
        lines(f"{quote}\n{TWICE}", with_heading)


def test_a_line_that_quotes_the_anchor_is_not_the_anchor() -> None:
    assert lines(f"# like def b():\n{TWICE}", hunk("-    x = 1\n+    x = 2", "def b")) == [6]


def test_a_missing_anchor_gets_the_most_similar_line() -> None:
    with pytest.raises(Conflict, match=r"Did you mean these lines\?\n     2\tdef compute_all\(x\):"):
        lines("import os\ndef compute_all(x):\n    y\n", hunk("-    y\n+    z", "def compute_all(x, y):"))


def test_a_hunk_that_is_not_below_its_anchor_is_refused_with_both_places() -> None:
    with pytest.raises(Conflict, match="its lines are at line 1, which is not below 'a' at line 2"):
        lines("b\na\n", hunk("-b\n+c", "a"))
    with pytest.raises(Conflict, match="'def a\\(\\):' after '@@' is at line 1, which is not below 'def b"):
        lines(TWICE, hunk("-    x = 1\n+    x = 2", "def b():", "def a():"))
    assert lines("b\na\n", hunk("-b\n+c\n a", "a")) == [0]  # the anchor is one of its own lines


def test_the_order_of_hunks_decides() -> None:
    same = "x\nx\nx\n"
    assert lines(same, *[hunk("-x\n+y")] * 3) == [0, 1, 2]
    assert lines("x\na\nx\nb\nx\n", hunk("-a\n+A"), hunk("-x\n+y"), hunk("-b\n+B")) == [1, 2, 3]
    with pytest.raises(Conflict, match="Hunk 1 of 2 matches in 3 places: lines 1, 2, 3"):
        lines(same, *[hunk("-x\n+y")] * 2)


def test_hunks_out_of_order_are_fine_when_each_has_one_place() -> None:
    assert lines("a\nb\nc\n", hunk("-c\n+C"), hunk("-a\n+A")) == [0, 2]


def test_the_end_of_the_file_decides() -> None:
    assert lines("m\nend\nm\nend\n", hunk("-m\n end", at_end=True)) == [2]
    assert lines("m\nx\n", hunk("-m\n+n", at_end=True)) == [0]  # wrong, but there is only one place


@pytest.mark.parametrize(("line", "found"), [(6, 5), (2, 1)])
def test_a_line_number_decides(line: int, found: int) -> None:
    assert lines(TWICE, hunk("-    x = 1\n+    x = 2", line=line)) == [found]


def test_a_wrong_line_number_does_not_matter_when_there_is_one_place() -> None:
    assert lines(TWICE, hunk(" def b():\n-    x = 1", line=40)) == [4]


def test_the_error_of_a_line_number_applies_to_the_next_hunk() -> None:
    content = "new\n" * 10 + "start\n" + "x\ny\n" * 4
    hunks = [hunk("-start\n+s", line=1), hunk("-x\n+z", line=4)]
    assert lines(content, *hunks) == [10, 13]


def test_line_numbers_of_a_diff_count_lf_only() -> None:
    assert lines("x\ra\nx\ra\n", hunk("-x\ra\n+y", line=2)) == [2]


def test_hunks_may_share_context_but_not_a_change() -> None:
    assert lines("a\nb\nc\n", hunk("-a\n+A\n b"), hunk(" b\n-c\n+C")) == [0, 1]
    with pytest.raises(Conflict, match="Hunk 2 of 2 overlaps with hunk 1: both change line 2"):
        lines("a\nb\nc\n", hunk("-a\n-b\n+A"), hunk("-b\n+B\n c"))


def test_lines_that_are_only_added_go_to_the_end_or_below_the_anchor() -> None:
    assert lines("a\nb\n", hunk("+new text")) == [2]
    assert lines("a\nb\n", hunk("+new text", "a")) == [1]
    assert lines("a\nb\n", hunk("+new text", line=1)) == [1]
    with pytest.raises(Conflict, match="after line 9, but the file has 2 lines"):
        lines("a\nb\n", hunk("+new text", line=9))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("start\nnew text\nend\n", " start\n-old text\n+new text\n end"),
        ("start\nnew text\n", " start\n+new text"),  # the context alone would match again
        ("new text\nstart\n", "+new text\n start"),
        ("start\nnew text\n", "+new text"),
        ("first line\nlast line\n", " first line\n-gone\n last line"),
        ("  start\n  new text\n", " start\n-old text\n+new text"),
    ],
)
def test_a_hunk_that_is_already_applied_is_recognised(content: str, text: str) -> None:
    (placed,) = place_hunks(IndexedText(content), [hunk(text)])
    assert placed.applied


def test_a_hunk_that_only_looks_applied_is_refused() -> None:
    content = "value = compute(first, second)\nother\nresult = None\n"
    with pytest.raises(Conflict, match="Did you mean"):
        lines(content, hunk("-value = compute(first, third)\n+result = None"))


def test_uneven_indentation_is_the_last_level() -> None:
    (placed,) = place_hunks(IndexedText("    foo   \n   bar\t\n"), [hunk("-foo\n-bar")])
    assert (placed.line, placed.level) == (0, MatchLevel.UNEVEN)


def test_a_hunk_without_match_gets_the_most_similar_lines() -> None:
    with pytest.raises(Conflict) as refused:
        lines(TWICE, hunk("-def a():\n+def z():"), hunk(" def b(x):\n-    x = 1"))
    assert str(refused.value).startswith(
        "Hunk 2 of 2: its lines are not in the file. Did you mean these lines?\n"
        "     5\tdef b():\n     6\t    x = 1\n"
    )


def test_short_lines_are_shown_as_well() -> None:
    with pytest.raises(Conflict, match=r"Did you mean these lines\?\n     2\tb\n     3\tc\n     4\td\n"):
        lines("a\nb\nc\nd\n", hunk("-b\n+B\n \n-d\n+D"))


def test_many_hunks_are_placed_by_an_index() -> None:
    content = "".join(f"line {n}\n" for n in range(5_000))
    assert lines(content, *(hunk(f"-line {n}\n+x") for n in range(5_000))) == list(range(5_000))


@pytest.mark.parametrize(
    "hunks",
    [
        [hunk("-a\n+b")] * 100_000,
        [hunk("-a\n+b", *["a"] * 100_000)],
        [hunk("-a\n+b", "a")] * 1_000,
    ],
    ids=["hunks", "anchors", "hunks with anchors"],
)
def test_work_is_bounded(hunks: list[Hunk]) -> None:
    with pytest.raises(BadRequest, match="too many hunks that match in many places"):
        lines("a\n" * 200_000, *hunks)


@pytest.mark.parametrize("above", [1, 100])
def test_similar_lines_are_searched_below_the_anchor_first(above: int) -> None:
    before = "".join(f"def aaa_{n}():\n    value = compute(1)\n    return value\n\n" for n in range(above))
    content = f"{before}def bbb():\n    value = compute(22)\n    return value\n"
    with pytest.raises(Conflict) as refused:
        lines(content, hunk("-    value = compute(2)\n+    value = 3\n     return value", "def bbb():"))
    first = 4 * above + 2
    assert f"these lines?\n{first:>6}\t    value = compute(22)\n" in str(refused.value)


def test_lines_above_the_anchor_are_shown_when_none_below_is_similar() -> None:
    content = "def aaa():\n    value = compute(1)\n\ndef bbb():\n    pass\n"
    with pytest.raises(Conflict, match=r"these lines\?\n     2\t    value = compute\(1\)\n"):
        lines(content, hunk("-    value = compute(2)\n+    value = 3", "def bbb():"))


def test_a_missing_anchor_is_searched_below_the_previous_one() -> None:
    content = "class A:\n  def compute_all(x):\n    y\nclass B:\n  def compute_all(x):\n    y\n"
    with pytest.raises(Conflict, match=r"these lines\?\n     5\t  def compute_all\(x\):"):
        lines(content, hunk("-    y\n+    z", "class B:", "  def compute_all(x, y):"))


@pytest.mark.parametrize("heading", ["def b():", "  def b():  ", "def b", "def b(\ufffd", ""])
def test_a_heading_may_be_the_beginning_of_a_line(heading: str) -> None:
    assert lines(TWICE, replace(hunk("-    x = 1\n+    x = 2", line=6), heading=heading)) == [5]


@pytest.mark.parametrize("line", [6, 1])
def test_a_missing_heading_is_refused_by_name(line: int) -> None:
    with_heading = replace(hunk(" def b():\n-    x = 1\n+    x = 2", line=line), heading="def zzz():")
    with pytest.raises(
        Conflict, match=r"The hunk: the heading 'def zzz\(\):' after its line numbers is not in"
    ):
        lines(TWICE, with_heading)


def test_a_heading_may_be_a_line_that_the_patch_changes() -> None:
    first = hunk("-def price():\n+class Total(Base):", line=1)
    second = replace(hunk("-    return 1\n+    return 2", line=2), heading="def price():")
    assert lines("class Total(Base):\n    return 1\n", first, second) == [0, 1]


def test_the_heading_of_an_already_applied_hunk_is_not_checked() -> None:
    assert lines("def c():\n    y = 20\n", replace(hunk("-    x = 10\n+    y = 20"), heading="def b():")) == [
        1
    ]


def test_similar_lines_are_those_below_the_anchor() -> None:
    content = "def first():\n    total = price * count\n\ndef second():\n    total = price * county\n"
    with pytest.raises(Conflict, match=r"not in the file\. Did you mean these lines\?\n     5\t"):
        lines(content, hunk("-    total = price * counts\n+    x", "def second():"))


def test_the_hint_says_when_nothing_below_the_anchor_is_similar() -> None:
    content = "def first():\n    total = price * count\n\ndef second():\n    pass\n"
    message = (
        r"not in the file\. Nothing below 'def second\(\):' at line 4 is similar, but lines above it are\."
        r" Did you mean these lines\?\n     2\t"
    )
    with pytest.raises(Conflict, match=message):
        lines(content, hunk("-    total = price * counts\n+    x", "def second():"))
    message = message.replace("def second", "def third").replace("line 4", "line 6")
    with pytest.raises(Conflict, match=message):
        lines(content + "def third():\n", hunk("+x", "def third():", "    total = price * counts"))
