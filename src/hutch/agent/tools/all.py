"""The tools that come with Hutch, in the order in which models see them."""

from hutch.agent.tools.apply_patch import ApplyPatch
from hutch.agent.tools.ask_user import AskUser
from hutch.agent.tools.bash import Bash
from hutch.agent.tools.bash_kill import BashKill
from hutch.agent.tools.bash_output import BashOutput
from hutch.agent.tools.edit_file import EditFile
from hutch.agent.tools.finish import Finish
from hutch.agent.tools.glob import Glob
from hutch.agent.tools.grep import GrepTool
from hutch.agent.tools.read_file import ReadFile
from hutch.agent.tools.registry import ToolRegistry
from hutch.agent.tools.run_tests import RunTests
from hutch.agent.tools.seam import Tool
from hutch.agent.tools.write_file import WriteFile

TOOLS: tuple[Tool, ...] = (
    ReadFile(),
    WriteFile(),
    EditFile(),
    ApplyPatch(),
    Glob(),
    GrepTool(),
    Bash(),
    BashOutput(),
    BashKill(),
    RunTests(),
    AskUser(),
    Finish(),
)


def built_in_tools() -> ToolRegistry:
    """A new registry of the tools that come with Hutch: the one that a session begins with."""
    return ToolRegistry(TOOLS)
