"""Every request that changes something is checked as a tool that rules can name."""

import inspect
from typing import Any

import pytest

from hutch.flows.policies.user_action_check import ToolUse, describe
from hutch.sessions import file_and_command_requests as requests
from hutch.workspace.ripgrep_search import GrepQuery

PATCH = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End Patch\n"
CHECKED: list[tuple[requests.Request[Any], ToolUse]] = [
    (requests.RunCommand("ls"), ToolUse("bash", "commands", command="ls")),
    (requests.RunProgram(("git", "push x")), ToolUse("exec", "commands", command="git 'push x'")),
    (requests.SignalCommand("1"), ToolUse("signal", "commands")),
    (requests.StartTests(), ToolUse("run_tests", "commands")),
    (requests.CancelTests("1"), ToolUse("signal", "commands")),
    (requests.StopWatchingTests(), ToolUse("signal", "commands")),
    (requests.OpenTerminal(), ToolUse("terminal", "terminals")),
    (requests.CloseTerminal("1"), ToolUse("terminal", "terminals")),
    (requests.WriteFile("a", b""), ToolUse("write_file", "files", paths=("a",))),
    (requests.MakeDirectory("a"), ToolUse("write_file", "files", paths=("a",))),
    (requests.DeleteFile("a"), ToolUse("write_file", "files", paths=("a",), changes_as="write_file")),
    (
        requests.MoveFile("a", "b"),
        ToolUse("edit_file", "files", paths=("a", "b"), changes_as="edit_file"),
    ),
    (requests.CheckUndo(3), ToolUse("undo", changes_as="edit_file")),
    (requests.StatFile("a"), ToolUse("read_file", paths=("a",))),
    (requests.StatFile("a", hashed=False), ToolUse("glob", paths=("a",))),
    (requests.EditFile("a", ()), ToolUse("edit_file", "files", paths=("a",))),
    (requests.ApplyPatch(PATCH), ToolUse("apply_patch", "files", paths=("a", "b"))),
    (requests.RestoreSnapshot(1), ToolUse("write_file", "files", below=("",))),
    (requests.TakeSnapshot("x"), ToolUse("snapshot", "files")),
    (requests.ReadFile("a"), ToolUse("read_file", paths=("a",))),
    (requests.ReadSnapshotFile(1, "a"), ToolUse("read_file", paths=("a",))),
    (requests.Diff(path="a"), ToolUse("read_file", below=("a",))),
    (requests.SearchFiles(GrepQuery(pattern="x", path="a")), ToolUse("grep", below=("a",))),
    (requests.FindFiles("x", "a"), ToolUse("glob", below=("a",))),
    (requests.ListFiles("a"), ToolUse("glob", below=("a",))),
    (
        requests.ChangeWithTool("write_file", {"path": "a", "content": "x"}),
        ToolUse("write_file", "files", paths=("a",)),
    ),
    (requests.ListPorts(), ToolUse("preview", "previews")),
]


@pytest.mark.parametrize(("request_", "use"), CHECKED, ids=lambda each: type(each).__name__)
def test_a_request_is_checked_as_a_tool(request_: requests.Request[Any], use: ToolUse) -> None:
    assert describe(request_) == use


def test_no_request_that_changes_something_is_left_to_a_guess() -> None:
    changing = {
        kind
        for _, kind in inspect.getmembers(requests, inspect.isclass)
        if issubclass(kind, requests.Changing) and kind is not requests.Changing
    }
    assert changing <= {type(request) for request, _ in CHECKED}
