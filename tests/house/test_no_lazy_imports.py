"""Imports stand at the top of a module, where a reader looks for them."""

import ast
from collections.abc import Iterator

# module -> what it imports late, and why
LATE = {
    ("hutch", "hutch.library.connection"): "only scripts that connect need a client",
    ("hutch.cli.console_script", "hutch.cli.main"): "Ctrl-C while it loads must not print a traceback",
    ("hutch.cli.main", "hutch.cli.top_level_help"): "a command that runs does not need the help of all",
    ("hutch.cli.main", "hutch.cli.dispatch"): "`hutch --help` must not wait for typer",
    (
        "hutch.cli.main",
        "hutch.cli.server_tasks.shell_prompt_status_line",
    ): "a shell prompt must not wait for typer",
    **dict.fromkeys(
        (
            *(
                ("hutch.cli.commands.tasks", f"hutch.cli.{name}")
                for name in ("server_tasks.server_task_requests", "local_task_requests")
            ),
            *(
                ("hutch.cli.commands.task_assignments", f"hutch.cli.{name}")
                for name in ("server_tasks.server_task_assignments", "local_task_assignments")
            ),
            *(
                ("hutch.cli.commands.tasks_file_sync_and_import", f"hutch.cli.{name}")
                for name in ("tasks_file_sync", "backlog_folder_import_and_export", "github_issue_import")
            ),
            ("hutch.cli.server_tasks.server_task_requests", "hutch.cli.server_tasks.outbox_delivery"),
        ),
        "offline, tasks come from a copy: neither a database nor a client is needed",
    ),
    ("hutch.cli.main", "hutch.cli.completion_candidates"): "neither must completion of command names",
    (
        "hutch.cli.completion_candidates",
        "hutch.cli.remote_session_completion",
    ): "only a login elsewhere needs a client",
    ("hutch.cli.completion_candidates", "hutch.domain.events"): "only the kinds of events are named there",
    ("hutch.cli.main", "hutch.cli.screens.app"): "the full-screen library is needed only for the full screen",
    ("hutch.cli.commands.export", "hutch.cli.remote_session_log"): "a log of this machine needs no client",
    ("hutch.app", "hutch"): "a client of a server logs nothing, and the logging library loads slowly",
    ("hutch.app", "hutch.store.vault_redactor"): "as above",
    ("hutch.llm.http_get", "http.client"): "Ollama is looked for only without a named model and a key",
    (
        "hutch.store.optional_vault",
        "hutch.store.vault",
    ): "most commands need no secrets, and ciphers take a while",
    (
        "hutch.forge.github_token_selection",
        "hutch.forge.github_app",
    ): "only an App needs signatures",
    **dict.fromkeys(
        (
            ("hutch.cli.commands.session_file_prune", f"hutch.app.{name}")
            for name in ("event_log", "session_file_retention")
        ),
        "the other commands of `hutch sessions` only ask a server",
    ),
    **dict.fromkeys(
        (
            ("hutch.cli.commands.mcp", "hutch.gateway.mcp.directory_tool_server"),
            ("hutch.cli.commands.mcp", "hutch.gateway.mcp"),
            ("hutch.cli.commands.mcp", "hutch.app"),
        ),
        "the protocol's library takes a second, and help and completion need none of it",
    ),
    (
        "hutch.cli.commands.acp",
        "hutch.cli.acp.stdio_server",
    ): "the protocol's library and the agent; help and completion need none of it",
    (
        "hutch.agent.extensions.extension_host",
        "hutch.agent.extensions",
    ): "the protocol's library takes a second, and most runs use no server",
    ("hutch.cli.commands.mcp", "hutch.jail.egress"): "only a server with hosts to allow needs it to answer",
    ("hutch.cli.commands.shell", "hutch.cli.shell_recording"): "it is loaded while the jail starts",
    **dict.fromkeys(
        (
            ("hutch.cli.commands.shell", f"hutch.cli.commands.{name}")
            for name in ("session_shell", "command_in_session")
        ),
        "a jail here needs no client of a server",
    ),
    **dict.fromkeys(
        (
            ("hutch.cli.commands.up", module)
            for module in ("hutch.app.server", "hutch.gateway.server_lifecycle")
        ),
        "help and completion need nothing of a server",
    ),
    (
        "hutch.gateway.mcp.endpoint",
        "hutch.gateway.mcp",
    ): "the protocol's library, at the first request of an MCP client",
    (
        "hutch.gateway.graphql.endpoint",
        "hutch.gateway.graphql",
    ): "half a second; not needed to be ready",
    **dict.fromkeys(
        (
            ("hutch.gateway.trace_collector_export", f"opentelemetry{module}")
            for module in (
                "",
                ".exporter.otlp.proto.http.trace_exporter",
                ".sdk.resources",
                ".sdk.trace",
                ".sdk.trace.export",
                ".sdk.trace.id_generator",
            )
        ),
        "only installations with a collector need it",
    ),
    **dict.fromkeys(
        (
            ("hutch.gateway.metrics_collector_export", f"opentelemetry{module}")
            for module in (
                ".exporter.otlp.proto.http.metric_exporter",
                ".sdk.metrics",
                ".sdk.metrics.export",
                ".sdk.resources",
            )
        ),
        "only installations with a collector need it",
    ),
    **dict.fromkeys(
        (
            ("hutch.cli.commands.run", module)
            for module in (
                "hutch.cli.early_session_request",
                "hutch.cli.git_author",
                "hutch.cli.run_lifecycle",
                "hutch.settings.author_setting_without_pydantic",
            )
        ),
        "help and completion need nothing of a run",
    ),
    (
        "hutch.cli.directory_copy_consent",
        "hutch.cli.directory_copy_question",
    ): "looking into a directory takes much code",
    ("hutch.cli.dependency_setup_question", "hutch.cli.dependency_setup_confirmation"): "as above",
    (
        "hutch.cli.dependency_setup_question",
        "hutch.cli.temporary_repository_workspace",
    ): "as above",
    ("hutch.cli.session_client", "hutch.cli.local_session_client"): "with a server, no jail is needed here",
    **dict.fromkeys(
        (
            ("hutch.cli.run_lifecycle", module)
            for module in (
                "hutch.app.forges",
                "hutch.app.workspaces",
                "hutch.flows.uncommitted_files_warning",
            )
        ),
        "as above",
    ),
    ("hutch.system.fast_imports", "structlog"): "only where rich is kept from it",
    ("hutch.edit.encoding_detection", "charset_normalizer"): "only a file in an old encoding needs a guess",
    ("hutch.flows.password_hashing", "argon2"): "only logins need password hashes",
    ("hutch.flows.password_hashing", "argon2.exceptions"): "as above",
    ("hutch.environment.detection.manifest_parsing", "yaml"): "most lock files are JSON or TOML",
    **dict.fromkeys(
        (
            (f"hutch.sessions.collaborative_editing.{name}", "pycrdt")
            for name in ("open_document", "shared_text")
        ),
        "only a session with an open editor needs shared texts",
    ),
    ("hutch.agent.persona", "yaml"): "only files with front matter need it",
    ("hutch.agent.untrusted_repository_text", "yaml"): "takes 20 ms, and few repositories have such files",
    **dict.fromkeys(
        (
            ("hutch.llm.model_factory", f"hutch.llm.{module}")
            for module in ("anthropic", "gemini", "openai_chat", "openai_responses")
        ),
        "the HTTP client is loaded only when a provider is asked",
    ),
    ("hutch.llm.embedding_model", "hutch.llm.embeddings_request"): "as above",
    (
        "hutch.gateway.auth.optional_oidc_import",
        "hutch.gateway.auth.oidc",
    ): "only installations with an identity provider need it",
    ("hutch.llm.reply_cost", "genai_prices"): "half a second; only models with a price need it",
    ("hutch.llm.scripted_reply_file", "yaml"): "only cassettes in YAML need it",
    ("hutch.settings", "hutch.settings"): "completion needs the paths, and cannot wait for pydantic",
    (
        "hutch.settings.author_setting_without_pydantic",
        "hutch.settings.layered_loading",
    ): "only a file that is wrong needs the words for it",
    ("hutch.store.database", "alembic"): "half of a quick start, and only for a new or old database",
    ("hutch.store.database", "alembic.config"): "as above",
    (
        "hutch.store.open_database",
        "hutch.store.postgresql_database",
    ): "the driver takes 50 ms, and only a database in PostgreSQL needs it",
    ("hutch.flows.doctor_checks.postgresql_database", "hutch.store.postgresql_check"): "as above",
    ("hutch.cli.commands.migrate", "hutch.store.database_migration"): "as above",
}
BY_NAME = {
    "hutch.cli.dispatch": "loads a command from the table when it is wanted",
    "hutch.jail": "most importers of the package need one of its modules, and should not wait for the others",
    "hutch.edit.syntax_parser_program": "loads the one grammar that it is started for",
    "hutch.flows.code_execution.drivers.python_driver": "loads the given code, in a jail",
}


def test_no_import_hides_in_a_function(modules: dict[str, ast.Module]) -> None:
    late = [(name, imported) for name, tree in modules.items() for imported in _late(tree)]
    assert [each for each in late if each not in LATE] == []


def test_modules_are_imported_by_name_in_one_place(modules: dict[str, ast.Module]) -> None:
    importers = {name for name, tree in modules.items() if any(map(_imports_by_name, ast.walk(tree)))}
    assert importers <= set(BY_NAME)


def _late(tree: ast.Module) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield node.module or ""


def _imports_by_name(node: ast.AST) -> bool:
    names = {"import_module", "__import__"}
    return (isinstance(node, ast.Name) and node.id in names) or (
        isinstance(node, ast.Attribute) and node.attr in names
    )
