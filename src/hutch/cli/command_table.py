"""Every command of `hutch`, in one table.

Help, completion, the reference and dispatch all read this table. It names the
code of a command without importing it, so that `hutch --help` stays quick
however heavy the commands become.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Command(NamedTuple):
    """A command: where its code is, and the one line that help says of it."""

    group: str
    name: str
    target: str  # module:attribute; the attribute is a function or a typer.Typer
    help: str
    takes: str = ""  # its first argument, when completion is to know it without loading the command


# Under its group: a command with what it takes, its target, its help.
TABLE = """\
Work
    run             | hutch.cli.commands.run:run_command | Turn a prompt into a tested change.
    resume SESSION  | hutch.cli.commands.run:resume_command | Go on with a run that was stopped.
    approvals       | hutch.cli.commands.approvals:app | List and withdraw what you have allowed always.
    changes         | hutch.cli.commands.changes:app | Review and merge what runs have proposed.
    review          | hutch.cli.commands.review:review_command | Have an agent read a change.
    eval            | hutch.cli.commands.eval:eval_command | Run a set of tasks and grade what came of them.
    shell           | hutch.cli.commands.shell:shell_command | Run a shell or a command in a jail.
    workspace       | hutch.cli.commands.workspace:app | Prepare, change and restore workspaces.
    mcp             | hutch.cli.commands.mcp:app | Let editors and other agents use the tools, jailed.
    usage           | hutch.cli.commands.usage:usage_command | Show tokens, money and time used.
    log SESSION     | hutch.cli.commands.log:log_command | Show what happened in a session.
Sessions
    sessions        | hutch.cli.commands.sessions:app | Make, watch and end sessions of the server.
    attach SESSION  | hutch.cli.commands.attach:attach_command | Watch a session and speak with its agent.
    files           | hutch.cli.commands.files:app | List, read, write and move files of a session.
    diff SESSION    | hutch.cli.commands.diff:diff_command | Show what has changed in a session.
    undo SESSION    | hutch.cli.commands.undo:undo_command | Take a session's last run back.
Record
    export SESSION  | hutch.cli.commands.record:export_command | Write a session's record to a file.
    verify RECORD   | hutch.cli.commands.verify:verify_command | Check a record, offline.
    receipt SESSION | hutch.cli.commands.record:receipt_command | Sign what a log says now.
    erase SESSION   | hutch.cli.commands.record:erase_command | Erase what an event said, keep the proof.
    prune           | hutch.cli.commands.record:prune_command | Erase sessions past retention.days.
Server
    up              | hutch.cli.commands.up:up_command | Start the server.
    down            | hutch.cli.commands.down:down_command | End the server in good order.
    status          | hutch.cli.commands.status:status_command | Tell whether the server runs, and how.
    logs            | hutch.cli.commands.logs:logs_command | Show the log of the server.
    login           | hutch.cli.commands.login:login_command | Speak with a server on another machine.
    logout          | hutch.cli.commands.login:logout_command | Forget that server.
Set-up
    doctor          | hutch.cli.commands.doctor:doctor_command | Check that this machine can run Hutch.
    config          | hutch.cli.commands.config:app | Show the settings, keep secrets.
    users           | hutch.cli.commands.users:app | Manage who may come in.
    tokens          | hutch.cli.commands.tokens:app | Make and revoke API tokens.
    completion      | hutch.cli.commands.completion:completion_command | Print a completion script.
    version         | hutch.cli.commands.version:version_command | Print the version.
    help            | hutch.cli.commands.help:help_command | Show this message, or the help of a command.
"""


def _commands() -> Iterator[Command]:
    group = ""
    for line in TABLE.splitlines():
        if not line.startswith(" "):
            group = line
            continue
        words, target, help_ = (cell.strip() for cell in line.split(" | "))
        name, _, takes = words.partition(" ")
        yield Command(group, name, target, help_, takes)


COMMANDS = tuple(_commands())
BY_NAME = {command.name: command for command in COMMANDS}
