"""Edits by quoted text and by line number: results and refusals."""

import pytest

from hutch.domain.errors import BadRequest, Conflict
from hutch.edit.file_edits import MAX_EDITS, InsertLines, Plan, Replace, ReplaceLines, parse_edit, plan_edits
from hutch.edit.span_mapping_across_edits import Span

CODE = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"


def edited(content: str, *edits: Replace | ReplaceLines | InsertLines) -> str:
    return plan_edits(content, edits).content


def note(content: str, *edits: Replace | ReplaceLines | InsertLines) -> str:
    return " ".join(plan_edits(content, edits).notes)


def test_a_quote_is_replaced_and_its_span_returned() -> None:
    assert plan_edits("one two three\n", [Replace("two", "2")]) == Plan(
        "one 2 three\n", (Span(4, 7, 4, 5),), ()
    )


def test_each_edit_applies_to_the_result_of_the_one_before() -> None:
    assert edited("a b\n", Replace("a", "x"), Replace("x b", "done")) == "done\n"


def test_line_numbers_mean_the_file_before_the_call() -> None:
    plan = plan_edits(
        "1\n2\n3\n4\n5\n",
        [
            ReplaceLines(4, 4, "four\nmore\n"),
            InsertLines(1, "after 1"),
            Replace("2", "two"),
            ReplaceLines(5, 5, ""),
        ],
    )
    assert plan.content == "1\nafter 1\ntwo\n3\nfour\nmore\n"


def test_insertions_at_one_place_stay_in_order() -> None:
    assert (
        edited("a\nb\n", InsertLines(1, "x"), InsertLines(1, "y"), ReplaceLines(2, 2, "B")) == "a\nx\ny\nB\n"
    )


@pytest.mark.parametrize(
    "edits",
    [
        [ReplaceLines(2, 3, "x"), ReplaceLines(3, 4, "y")],
        [ReplaceLines(2, 3, "x"), InsertLines(2, "y")],
        [Replace("b\nc", "x"), ReplaceLines(3, 3, "y")],
    ],
)
def test_edits_that_overlap_are_refused(edits: list) -> None:
    with pytest.raises(
        Conflict, match=r"^Edit 2 of 2: It overlaps with an earlier edit.*Make one edit of the two\.$"
    ):
        plan_edits("a\nb\nc\nd\n", edits)


@pytest.mark.parametrize(
    ("content", "edit", "expected"),
    [
        ("a\nb", InsertLines(2, "c"), "a\nb\nc"),
        ("a\nb", ReplaceLines(2, 2, "c\nd\n"), "a\nc\nd"),
        ("a\nb", ReplaceLines(2, 2, ""), "a\n"),
        ("a\nb\n", ReplaceLines(2, 2, "c"), "a\nc\n"),
        ("a\nb\n", InsertLines(0, "c\n"), "c\na\nb\n"),
        ("a\nb\n", InsertLines(1, "\n"), "a\n\nb\n"),
        ("", InsertLines(0, "c"), "c\n"),
        ("a\r\nb\r\n", InsertLines(1, "c\nd"), "a\r\nc\r\nd\r\nb\r\n"),
        (
            "a\r\nb\nc\r\n",
            ReplaceLines(1, 3, "a\nb\nX\nc"),
            "a\r\nb\nX\r\nc\r\n",
        ),  # kept lines keep their ends
        ("a\n\f\u2028b\n", ReplaceLines(2, 2, "c"), "a\nc\n"),
    ],
)
def test_lines_are_written_with_the_files_ends(content: str, edit: ReplaceLines, expected: str) -> None:
    assert edited(content, edit) == expected


@pytest.mark.parametrize(
    ("content", "old", "new", "expected", "words"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\nc\r\n", "other line ends"),
        ("1\r\n2\r3\n4\r\n", "1\n2\n3\n4\n", "1\n2\nX\n4\n", "1\r\n2\rX\r\n4\r\n", "other line ends"),
        ("bar\r\nfoo\r\n", "\nfoo", "\nbaz\nfoo", "bar\r\nbaz\r\nfoo\r\n", "other line ends"),
        ("a\nlast", "last\n", "new\n", "a\nnew", "other line ends"),
        ("f(): \n  x\t\n  y\n", "f():\n  x\n", "f():\n  z\n", "f(): \n  z\n  y\n", "space at the end"),
        ("f()\n  x\n", "f()  \n  x", "g()\n  x", "g()\n  x\n", "space at the end"),
        (
            "say “hi” – now…\n",
            'say "hi" - now...',
            'say "hi" - later...',
            "say “hi” – later…\n",
            "typographic",
        ),
        ("a\u00a0b = ‘c’\n", "a b = 'c'", "a b = 'd'", "a\u00a0b = ‘d’\n", "typographic"),
        (
            "    x = “a”\n    y\n",
            'x = "a"\ny\n',
            'x = "b"\ny\n',
            "    x = “b”\n    y\n",
            "another indentation, with",
        ),
    ],
)
def test_common_mistakes_are_tolerated_with_a_note(
    content: str, old: str, new: str, expected: str, words: str
) -> None:
    plan = plan_edits(content, [Replace(old, new)])
    assert plan.content == expected
    assert words in plan.notes[0]


def test_new_text_is_indented_as_much_as_the_quote_was_off() -> None:
    plan = plan_edits(
        CODE,
        [
            Replace(
                "def f(self):\n    return 1\n", "def f(self):\n    if x:\n        return 3\n\n    return 1\n"
            )
        ],
    )
    assert plan.content == CODE.replace(
        "        return 1\n", "        if x:\n            return 3\n\n        return 1\n"
    )
    assert plan.notes == ("Matched at another indentation; the new text was indented to fit.",)


def test_tabs_of_the_file_stay_tabs() -> None:
    old, new = (
        "    def g(self):\n        return 2\n",
        "    def g(self):\n        while x:\n            pass\n",
    )
    tabs = CODE.replace("    ", "\t")
    assert edited(tabs, Replace(old, new)).endswith("\tdef g(self):\n\t\twhile x:\n\t\t\tpass\n")


def test_an_exact_match_wins_over_looser_ones() -> None:
    assert edited("a \nb\na\nb\n", Replace("a\nb\n", "c\n")) == "a \nb\nc\n"


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nb\r\n", "a\nx\nb\n", "a\r\nx\r\nb\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b\r\n", "x\ny\r\n", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r", "x\r", "x\r\nb\r\n"),  # half of a line end
        ("a\nb\n", "a", "x\r", "x\nb\n"),
        ("a\nb\n", "a\n", "x\r\ny\r\n", "x\ny\nb\n"),
        ("a\nb\n", "a", "x\ry", "x\ny\nb\n"),
        ("a\r\nb\r\n", "a", "x\ry", "x\r\ny\r\nb\r\n"),
        ("a\rb\nc\n", "a\rb", "a\rx", "a\rx\nc\n"),  # a lone CR that was there stays
        ("a\rX\nb\n", "X", "", "a\r\r\nb\n"),  # two line ends stay two
        ("a\rX\n\nb\n", "X\n", "", "a\r\r\nb\n"),
        ("abc", "b", "x\ry", "ax\ryc"),
        ("a\rb\rc\r", "b\r", "x\ny\n", "a\rx\ry\rc\r"),
        ("a\r\nb\nc\nd\n", "a", "a\nx", "a\r\nx\r\nb\nc\nd\n"),  # mixed: as the replaced line
        ("a\r\nb\r\nc\r\nd\n", "d\n", "d\r\nx\r\n", "a\r\nb\r\nc\r\nd\nx\n"),
        ("a\r\nb\nc\r\n", "a\r\nb\nc", "a\nb\nx\nc", "a\r\nb\nx\r\nc\r\n"),  # shared lines keep theirs
    ],
)
def test_the_line_ends_of_the_file_win_over_those_of_an_edit(
    content: str, old: str, new: str, expected: str
) -> None:
    assert edited(content, Replace(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new"), [("\r\n", "\n"), ("\r", ""), ("a\r\n", "a\n"), ("a\r", "a"), ("\r", "x")]
)
def test_an_edit_of_line_ends_only_is_refused_with_a_remedy(old: str, new: str) -> None:
    with pytest.raises(
        BadRequest, match=r"differ in their line ends only.*use bash: sed -i 's/\\r\$//' FILE"
    ):
        edited("a\r\nb\r\n", Replace(old, new, replace_all=True))


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        ("a\nb\n", "b\n", "c", "a\nc\n"),
        ("a\r\nb\r\n", "b\n", "c", "a\r\nc\r\n"),
        ("a\nb", "b", "c\nd\n", "a\nc\nd"),
        ("a\nb\n", "b\n", "b", "a\nb"),  # meant: nothing else is changed
        ("a\nb", "b", "b\n", "a\nb\n"),
        ("a\nb\n", "b\n", "", "a\n"),
    ],
)
def test_a_file_ends_with_a_line_end_after_an_edit_if_it_did_before(
    content: str, old: str, new: str, expected: str
) -> None:
    assert edited(content, Replace(old, new)) == expected


def test_an_ambiguous_quote_is_refused_with_every_line() -> None:
    with pytest.raises(Conflict) as refused:
        edited("x\ny\nx\nz\nx\n", Replace("x", "w"))
    assert str(refused.value) == (
        "'old' is in the file 3 times: lines 1, 3, 5."
        " Quote more of the lines around the intended one, or set replace_all."
    )


def test_matches_that_overlap_are_ambiguous_too() -> None:
    with pytest.raises(Conflict, match="2 times: lines 1, 2"):
        edited("}\n}\n}\n", Replace("}\n}\n", "}\n"))


def test_replace_all_reports_the_count() -> None:
    plan = plan_edits("x\nx  \nx\n", [Replace("x", "yy", replace_all=True)])
    assert (plan.content, plan.notes) == ("yy\nyy  \nyy\n", ("Replaced in 3 places.",))
    assert edited("  a\n  b\n\n  a\n  b\n", Replace("a\nb\n", "c\n", replace_all=True)) == "  c\n\n  c\n"


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        ("x = 2\n", "x = 1", "x = 2"),
        ("x = 10\n", "x = 1", "x = 10"),  # the quote is in there, as part of the new text
        ("import a\nimport b\n", "import a\n", "import a\nimport b\n"),
        ("a\r\nimport b\r\n", "a\nimport c\n", "a\nimport b\n"),
        ("    y = 2\n    z = 3\n", "y = 1\nz = 3", "y = 2\nz = 3"),
    ],
)
def test_an_edit_that_is_already_applied_changes_nothing_with_a_note(
    content: str, old: str, new: str
) -> None:
    assert plan_edits(content, [Replace(old, new)]).content == content
    assert note(content, Replace(old, new)).startswith("Already applied: ")


def test_new_text_elsewhere_does_not_hide_that_the_quote_was_wrong() -> None:
    content = "def first(a, b):\n    return None\n\ndef second(a, b):\n    return compute(a, b)\n"
    with pytest.raises(Conflict, match="Did you mean"):
        edited(content, Replace("    return compute(a, c)", "    return None"))
    with pytest.raises(Conflict, match="not in the file"):
        edited("x = [1, 2]\n", Replace("gone", "2"))  # too short to be significant


def test_identical_lines_change_nothing() -> None:
    assert (
        note("a\nb\n", ReplaceLines(2, 2, "b")) == "Already applied: line 2 has this text; nothing changed."
    )


def test_an_unknown_quote_gets_the_most_similar_lines() -> None:
    with pytest.raises(Conflict) as refused:
        edited(CODE, Replace("    def g(this):\n        return 2\n", "x"))
    assert str(refused.value) == (
        "'old' is not in the file. Did you mean these lines?\n"
        "     5\t    def g(self):\n"
        "     6\t        return 2\n"
        "Line 5 is 'def g(self):', quoted as 'def g(this):'."
        " Quote them exactly as they are, without the numbers."
    )


def test_numbers_copied_from_a_listing_are_recognised() -> None:
    with pytest.raises(Conflict, match=r"begin with their numbers.*omit them\. Without them it matches\."):
        edited("a\nb\n", Replace("     1\ta\n     2\tb", "x"))
    with pytest.raises(BadRequest, match=r"begin with their numbers \(2, \.\.\.\)"):
        edited("a\nb\n", ReplaceLines(2, 2, "     2\tB\n     3\tC"))
    assert edited("1\ta\n2\tb\n", Replace("2\tb\n", "2\tb\n3\tc\n")) == "1\ta\n2\tb\n3\tc\n"  # the file's own


@pytest.mark.parametrize(
    "edit",
    [
        Replace("    b\n    c\n", "    # ... existing code ...\n"),
        ReplaceLines(2, 3, "# rest of code unchanged"),
    ],
)
def test_placeholders_are_refused(edit: Replace | ReplaceLines) -> None:
    with pytest.raises(BadRequest, match=r"is a placeholder for code.*Write it out"):
        edited("a\n    b\n    c\n", edit)


def test_a_placeholder_that_the_file_has_may_stay() -> None:
    content = "# ... existing code ...\nx = 1\n"
    assert edited(content, Replace(content, content.replace("1", "2"))) == content.replace("1", "2")


@pytest.mark.parametrize(
    ("content", "edit", "words"),
    [
        ("a\n", Replace("a", "a"), "the same text"),
        ("a\nb\n", Replace("", "x"), r"insert_line \(0 is the start, 2 the end\)"),
        ("a\n", InsertLines(3, "x"), "insert_line is 3, but the file has 1 line.*0 is the start, 1 the end"),
        ("a\n", InsertLines(0, ""), "nothing would be inserted"),
        ("a\nb\n", ReplaceLines(2, 9, "x"), "Lines 2 to 9 cannot be replaced: the file has 2 lines"),
        ("a\nb\n", ReplaceLines(2, 1, "x"), "Lines 2 to 1"),
        ("a\nb\n", ReplaceLines(0, 1, "x"), "count from 1"),
    ],
)
def test_invalid_edits_are_refused_with_a_hint(content: str, edit: Replace, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        edited(content, edit)


def test_an_empty_quote_fills_an_empty_file() -> None:
    assert edited("", Replace("", "hello\n")) == "hello\n"


def test_the_edit_that_failed_is_named() -> None:
    with pytest.raises(Conflict, match=r"^Edit 2 of 3: 'old' is not in the file"):
        edited("a\nb\n", Replace("a", "x"), Replace("nothing", "y"), Replace("b", "z"))


def test_no_edit_and_too_many_are_refused() -> None:
    with pytest.raises(BadRequest, match="no edit"):
        plan_edits("a", [])
    with pytest.raises(BadRequest, match="1,001 edits, more than 1,000"):
        plan_edits("a", [InsertLines(0, "x")] * (MAX_EDITS + 1))


@pytest.mark.parametrize(
    ("data", "edit"),
    [
        ({"old": "a", "new": "b"}, Replace("a", "b")),
        (
            {"old": "a", "new": "b", "replace_all": True, "start_line": None},
            Replace("a", "b", replace_all=True),
        ),
        ({"start_line": 2, "new": ""}, ReplaceLines(2, 2, "")),
        ({"start_line": 2, "end_line": 4, "new": "x"}, ReplaceLines(2, 4, "x")),
        ({"insert_line": 0, "new": "x"}, InsertLines(0, "x")),
    ],
)
def test_edits_are_parsed_from_client_data(data: dict, edit: Replace) -> None:
    assert parse_edit(data) == edit


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "An edit is {old, new, replace_all}.*has nothing"),
        ({"new": "x"}, r"has \['new'\]"),
        ({"old": 1, "new": "x"}, "'old' of an edit must be text, not 1"),
        ({"old": "a"}, "'new' of an edit must be text, not None"),
        ({"insert_line": "3", "new": "x"}, "'insert_line' of an edit must be a whole number, not '3'"),
        ({"insert_line": True, "new": "x"}, "must be a whole number"),
        ({"old": "a", "new": "b", "all": True}, "An edit with 'old' has no 'all'"),
        ({"old": "a", "new": "b", "insert_line": 3}, "An edit with 'old' has no 'insert_line'"),
    ],
)
def test_an_invalid_edit_gets_the_valid_forms(data: dict, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_edit(data)
