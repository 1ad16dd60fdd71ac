"""The patch envelope against the cases of other implementations.

`patch_cases/` holds test data of openai/codex (Apache-2.0) and anomalyco/opencode
(MIT); each file names its source and commit. Hutch differs on purpose in `DIFFERENCES`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import HutchError
from hutch.edit.atomic_apply import apply_patch
from hutch.edit.fuzzy_match import IndexedText
from hutch.edit.hunk_placement import place_hunks
from hutch.edit.patch_operation_types import Hunk
from tests.edit.edited_files import edited_files

FOLDER = Path(__file__).parent / "patch_cases"
SCENARIOS = json.loads((FOLDER / "scenarios.json").read_text())
UNIT = json.loads((FOLDER / "unit.json").read_text())
DIFFERENCES: dict[str, dict[str, Any]] = {
    # All or nothing: a file that was added before the step that fails does not stay.
    "codex/scenario/015_failure_after_partial_success_leaves_changes": {"expected": {}},
    "codex/unit/partial_failure": {"expected": {}},
    # Adding never overwrites.
    "codex/scenario/011_add_overwrites_existing_file": {
        "expected": {"duplicate.txt": "old content\n"},
        "ok": False,
    },
    # A last line that was not touched gets no line end.
    "codex/unit/crlf_for_new_trailing_newline": {"expected": {"n.txt": "ONE\r\ntwo"}},
}
CASES = [{**case, **DIFFERENCES.get(case["id"], {})} for case in (*SCENARIOS["cases"], *UNIT["cases"])]
LINKS = UNIT["symlink_no_follow"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_patch_leaves_the_tree_that_is_expected(tmp_path: Path, case: dict[str, Any]) -> None:
    for path, text in case["input"].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    with edited_files(tmp_path) as files:
        try:
            apply_patch(files, case["patch"])
            ok = True
        except HutchError:
            ok = False
        assert (ok, files.seen()) == (
            case["ok"],
            {path: text.encode() for path, text in case["expected"].items()},
        )


@pytest.mark.parametrize("patch", LINKS["must_all_fail_and_change_nothing"])
def test_a_patch_does_not_follow_links_that_lead_out(tmp_path: Path, patch: str) -> None:
    setup = dict(LINKS["setup"])
    links = setup.pop("symlinks")
    for path, text in setup.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    for path, target in links.items():
        (tmp_path / path).symlink_to(tmp_path / target)

    def tree() -> dict[str, str]:
        paths = sorted(tmp_path.rglob("*"))
        files = [path for path in paths if path.is_symlink() or path.is_file()]
        return {str(path): str(path.readlink()) if path.is_symlink() else path.read_text() for path in files}

    before = tree()
    with edited_files(tmp_path / "work") as files, pytest.raises(HutchError):
        apply_patch(files, patch)
    assert tree() == before


@pytest.mark.parametrize("case", UNIT["parse_errors"], ids=lambda case: case["patch"][:20])
def test_text_that_is_not_a_patch_is_refused(tmp_path: Path, case: dict[str, str]) -> None:
    which = "first" if "first" in case["error"] else "last"
    with (
        edited_files(tmp_path) as files,
        pytest.raises(HutchError, match=f"The {which} line of a patch must"),
    ):
        apply_patch(files, case["patch"])


@pytest.mark.parametrize("case", UNIT["seek_sequence"], ids=lambda case: "-".join(case["pattern"]))
def test_a_block_of_lines_is_found_where_it_is_expected(case: dict[str, Any]) -> None:
    hunk = Hunk(tuple(("-", line) for line in case["pattern"]))
    page = IndexedText("\n".join(case["lines"]) + "\n")
    if case["expected"] is None:
        with pytest.raises(HutchError, match="not in the file"):
            place_hunks(page, [hunk])
    else:
        assert [placed.line for placed in place_hunks(page, [hunk])] == [case["expected"]]
