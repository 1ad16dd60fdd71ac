"""Every command of `hutch`, in one table.

Help, completion, the reference and dispatch all read this table. It names the
code of a command without importing it, so that `hutch --help` stays quick
however heavy the commands become.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: where its code is, and the one line that help says of it."""

    group: str
    name: str
    target: str  # module:attribute; the attribute is a function or a typer.Typer
    help: str
    takes: str = ""  # its first argument, when completion is to know it without loading the command


COMMANDS = (
    Command("Work", "run", "hutch.cli.run:run_command", "Turn a prompt into a tested change."),
    Command(
        "Work", "resume", "hutch.cli.run:resume_command", "Go on with a run that was stopped.", "SESSION"
    ),
    Command(
        "Work", "approvals", "hutch.cli.approvals:app", "List and withdraw what you have allowed always."
    ),
    Command("Work", "changes", "hutch.cli.changes:app", "Review and merge what runs have proposed."),
    Command("Work", "review", "hutch.cli.review:review_command", "Have an agent read a change."),
    Command("Work", "eval", "hutch.cli.eval:eval_command", "Run a set of tasks and grade what came of them."),
    Command("Work", "shell", "hutch.cli.shell:shell_command", "Run a shell or a command in a jail."),
    Command("Work", "workspace", "hutch.cli.workspace:app", "Prepare, change and restore workspaces."),
    Command("Work", "mcp", "hutch.cli.mcp:app", "Let editors and other agents use the tools, jailed."),
    Command("Work", "log", "hutch.cli.log:log_command", "Show what happened in a session.", "SESSION"),
    Command("Sessions", "sessions", "hutch.cli.sessions:app", "Make, watch and end sessions of the server."),
    Command(
        "Sessions",
        "attach",
        "hutch.cli.attach:attach_command",
        "Watch a session and speak with its agent.",
        "SESSION",
    ),
    Command("Sessions", "files", "hutch.cli.files:app", "List, read, write and move files of a session."),
    Command(
        "Sessions", "diff", "hutch.cli.diff:diff_command", "Show what has changed in a session.", "SESSION"
    ),
    Command("Sessions", "undo", "hutch.cli.undo:undo_command", "Take a session's last run back.", "SESSION"),
    Command(
        "Record",
        "export",
        "hutch.cli.record:export_command",
        "Write a session's record to a file.",
        "SESSION",
    ),
    Command("Record", "verify", "hutch.cli.verify:verify_command", "Check a record, offline.", "RECORD"),
    Command("Record", "receipt", "hutch.cli.record:receipt_command", "Sign what a log says now.", "SESSION"),
    Command(
        "Record",
        "erase",
        "hutch.cli.record:erase_command",
        "Erase what an event said, keep the proof.",
        "SESSION",
    ),
    Command("Record", "prune", "hutch.cli.record:prune_command", "Erase sessions past retention.days."),
    Command("Server", "up", "hutch.cli.up:up_command", "Start the server."),
    Command("Server", "down", "hutch.cli.down:down_command", "End the server in good order."),
    Command("Server", "status", "hutch.cli.status:status_command", "Tell whether the server runs, and how."),
    Command("Server", "logs", "hutch.cli.logs:logs_command", "Show the log of the server."),
    Command("Server", "login", "hutch.cli.login:login_command", "Speak with a server on another machine."),
    Command("Server", "logout", "hutch.cli.login:logout_command", "Forget that server."),
    Command("Set-up", "doctor", "hutch.cli.doctor:doctor_command", "Check that this machine can run Hutch."),
    Command("Set-up", "config", "hutch.cli.config:app", "Show the settings, keep secrets."),
    Command("Set-up", "users", "hutch.cli.users:app", "Manage who may come in."),
    Command("Set-up", "tokens", "hutch.cli.tokens:app", "Make and revoke API tokens."),
    Command("Set-up", "completion", "hutch.cli.completion:completion_command", "Print a completion script."),
    Command("Set-up", "version", "hutch.cli.version:version_command", "Print the version."),
    Command("Set-up", "help", "hutch.cli.help:help_command", "Show this message, or the help of a command."),
)
BY_NAME = {command.name: command for command in COMMANDS}
