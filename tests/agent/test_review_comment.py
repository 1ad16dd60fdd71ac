"""comment: the tool of a reviewer, which knows the patch and changes nothing."""

from pathlib import Path
from typing import Any

import pytest

from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.review_comment import MAX_COMMENTS, Comment, CommentArguments
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.git_patch import parse_patch
from tests.agent.run_setups import open_tool_env

pytestmark = pytest.mark.anyio
FILES = {"a.py": b"one\ntwo\nthree\n", "logo.png": b"\x89PNG\r\n\x1a\n" + bytes(100), "empty": b""}
PATCH = parse_patch(
    b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n one\n+two\n"
    b"diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n"
    b"@@ -1 +0,0 @@\n-x\n"
)


def comment_arguments(**changes: Any) -> CommentArguments:
    return CommentArguments(**{"path": "a.py", "line": 2, "severity": "should", "body": "Why?", **changes})


def test_only_a_review_has_it() -> None:
    assert "comment" not in built_in_tools().names


async def test_a_line_of_the_patch_or_of_the_file(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        box = Toolbox([Comment(PATCH)])
        for path, line in (("a.py", 2), ("./a.py", 1), ("/workspace/a.py", 3)):
            result = await box.use("comment", comment_arguments(path=path, line=line), env.context)
            assert (result.ok, result.text) == (True, f"Noted on a.py:{line}.")
        assert result.data == {"path": "a.py", "line": 3, "severity": "should", "body": "Why?"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": "b.py"}, "There is no file 'b.py'. The change touches: a.py, gone.py."),
        ({"path": "gone.py", "line": 7}, "The change deletes 'gone.py'."),
        ({"line": 4}, "'a.py' has 3 lines, so there is no line 4"),
        ({"path": "logo.png", "line": 1}, "'logo.png' is not text"),
        ({"path": "empty", "line": 1}, "empty"),
        ({"body": " \n"}, "body is blank"),
        ({"path": "../../../etc/passwd"}, ""),
    ],
)
async def test_a_line_that_does_not_exist_is_refused_with_a_hint(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        result = await Toolbox([Comment(PATCH)]).use("comment", comment_arguments(**changes), env.context)
    assert not result.ok and words in result.text


async def test_the_number_of_comments_is_limited_also_after_a_resume(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, FILES) as env:
        box = Toolbox([Comment(PATCH, MAX_COMMENTS - 1)])
        assert (await box.use("comment", comment_arguments(), env.context)).ok
        last = await box.use("comment", comment_arguments(), env.context)
    assert not last.ok and "into the summary of finish" in last.text
