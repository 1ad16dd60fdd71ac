"""The tools that come with Hutch, in the order in which models see them."""

from hutch.agent.tools.ask_user_and_finish import AskUser, Finish
from hutch.agent.tools.bash import Bash, BashKill, BashOutput
from hutch.agent.tools.delegate import Delegate, HelperChanges
from hutch.agent.tools.exec_without_shell import Exec
from hutch.agent.tools.glob_and_grep import Glob, GrepTool
from hutch.agent.tools.interface import Tool
from hutch.agent.tools.list_directory import ListDirectory
from hutch.agent.tools.read_file import ReadFile
from hutch.agent.tools.run_tests import RunTests
from hutch.agent.tools.search_code import Outline, SearchCode
from hutch.agent.tools.session_tool_registry import ToolRegistry
from hutch.agent.tools.shared_debugger import Debug
from hutch.agent.tools.skill import LoadSkill
from hutch.agent.tools.terminal_read_and_type import TerminalRead, TerminalType
from hutch.agent.tools.write_edit_and_patch import ApplyPatch, EditFile, WriteFile

TOOLS: tuple[Tool, ...] = (
    ReadFile(),
    WriteFile(),
    EditFile(),
    ApplyPatch(),
    ListDirectory(),
    Glob(),
    GrepTool(),
    SearchCode(),
    Outline(),
    Bash(),
    BashOutput(),
    BashKill(),
    Exec(),
    RunTests(),
    Debug(),
    TerminalRead(),
    TerminalType(),
    LoadSkill(),
    Delegate(),
    HelperChanges(),
    AskUser(),
    Finish(),
)


def built_in_tools() -> ToolRegistry:
    """A new registry of the tools that come with Hutch, for a new session."""
    return ToolRegistry(TOOLS)
