"""Every command of `hutch`, in one table.

Help, completion, the reference and dispatch all read this table. It names the code of a command
without importing it, so `hutch --help` stays fast however heavy the commands become.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Command(NamedTuple):
    """A command: the location of its code, and its one-line help."""

    group: str
    name: str
    target: str  # module:attribute; the attribute is a function or a typer.Typer
    help: str
    takes: str = ""  # its first argument, so that completion need not load the command


# Below each group: a command with its first argument | its target | its help.
TABLE = """\
Work
    run             | hutch.cli.commands.run:run_command | Turn a prompt into a tested change.
    resume SESSION  | hutch.cli.commands.run:resume_command | Continue a run that was stopped.
    rerun SESSION   | hutch.cli.commands.rerun:rerun_command | Run a recorded session again from a point.
    approvals       | hutch.cli.commands.permanent_approvals:app | List and withdraw permanent approvals.
    tasks           | hutch.cli.commands.tasks:app | List, change and sync the tasks of a repository.
    changes         | hutch.cli.commands.proposed_changes:app | Review and merge changes of runs.
    review          | hutch.cli.commands.review:review_command | Have an agent review a change.
    eval            | hutch.cli.commands.eval:eval_command | Run a set of tasks and grade the results.
    test            | hutch.cli.commands.test:test_command | Run the tests of a repository in a jail.
    shell           | hutch.cli.commands.shell:shell_command | Run a shell or a command in a jail.
    workspace       | hutch.cli.commands.workspaces_and_snapshots:app | Prepare and restore workspaces.
    environment     | hutch.cli.commands.dependencies:app | Install and list dependencies of repositories.
    questions       | hutch.cli.commands.interview_questions:app | Write, check and share interview questions.
    interviews      | hutch.cli.commands.interviews:app | Plan, conduct and read interviews.
    webhooks        | hutch.cli.commands.webhooks:app | Tell other systems about interviews.
    acp             | hutch.cli.commands.acp:acp_command | Serve the agent to an editor (ACP).
    mcp             | hutch.cli.commands.mcp:app | Serve the jailed tools to editors and other agents.
    usage           | hutch.cli.commands.usage:usage_command | Show tokens, cost and time used.
    analytics       | hutch.cli.commands.analytics:app | Show outcomes, spend, reliability and latency.
    tail            | hutch.cli.commands.event_tail:tail_command | Show the newest events over all sessions.
    log SESSION     | hutch.cli.commands.session_log:log_command | Show the events of a session.
Sessions
    sessions        | hutch.cli.commands.sessions:app | Create, watch and end sessions of the server.
    attach SESSION  | hutch.cli.commands.attach:attach_command | Watch a session and talk to its agent.
    files           | hutch.cli.commands.session_files:app | List, read, write and move files of a session.
    debug SESSION   | hutch.cli.commands.debug:debug_command | Debug a file or a test of a session.
    edit SESSION    | hutch.cli.commands.edit:edit_command | Edit a file of a session in your editor.
    diff SESSION    | hutch.cli.commands.diff:diff_command | Show the changes in a session.
    undo SESSION    | hutch.cli.commands.undo_and_redo:undo_command | Undo a session's last run, or one step.
    redo SESSION    | hutch.cli.commands.undo_and_redo:redo_command | Take back the last undo.
Record
    export SESSION  | hutch.cli.commands.export:export_command | Write a session's log to a file.
    verify RECORD   | hutch.cli.commands.record_verification:verify_command | Verify a record, offline.
    receipt SESSION | hutch.cli.commands.signed_log_receipt:receipt_command | Sign the current state of a log.
    erase SESSION   | hutch.cli.commands.erase_and_prune:erase_command | Erase event content, keep the proof.
    prune           | hutch.cli.commands.erase_and_prune:prune_command | Erase sessions past retention.days.
Server
    up              | hutch.cli.commands.up:up_command | Start the server.
    down            | hutch.cli.commands.down:down_command | Stop the server.
    status          | hutch.cli.commands.server_status:status_command | Show the state of the server.
    logs            | hutch.cli.commands.server_log:logs_command | Show the log of the server.
    backup          | hutch.cli.commands.backup:app | Write a backup to one file, and check backups.
    restore FILE    | hutch.cli.commands.backup:restore_command | Restore a backup into an empty place.
    migrate         | hutch.cli.commands.migrate:migrate_command | Move to a database in PostgreSQL, or back.
    login           | hutch.cli.commands.login_and_logout:login_command | Use a server on another machine.
    logout          | hutch.cli.commands.login_and_logout:logout_command | Forget that server.
Set-up
    doctor          | hutch.cli.commands.doctor:doctor_command | Check that this machine can run Hutch.
    config          | hutch.cli.commands.config_and_secrets:app | Show settings, manage secrets.
    users           | hutch.cli.commands.users:app | Manage users.
    extensions      | hutch.cli.commands.extensions:app | Add MCP servers and programs as tools.
    hooks           | hutch.cli.commands.hooks:app | List and trust the hooks of a repository.
    policy          | hutch.cli.commands.policy:app | Bind rules to roles, repositories and categories.
    tokens          | hutch.cli.commands.tokens:app | Create and revoke API tokens.
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
