"""A settings file in which every setting is described and commented out, to be kept under version control.

Lines with a description begin with `# `, lines with a setting with `#` and its name, so removing that one
character sets it. A setting without a default shows an example.
"""

import re
import textwrap
from collections.abc import Collection, Iterator

from hutch.domain.hutch_secret_names import SECRETS
from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.schema import FIELDS, Settings, repository_access
from hutch.settings.value_as_toml import to_toml

WIDTH = 100
HEAD = """\
Settings of Hutch. Every setting is here with its default, commented out: remove the # in front of a name to
change it. This file holds no secrets and can be kept under version control: secrets are stored with `hutch
config set-secret NAME`, or stay where [secrets] says. `hutch config show` prints the values in effect. \
Reference: docs/settings.md."""
REPOSITORY_HEAD = """\
Settings of Hutch for this repository; they count from the commit in which a session starts. Remove the # in
front of a name to change it. A repository may set only what is listed here, and of limits only lower values
than those of the user or server; others are ignored. At most 8 KiB."""
EXAMPLES = {
    "database.url": "postgresql://hutch@db.example.com/hutch",
    "model": "anthropic:claude-sonnet-4-5",
    "models.anthropic_base_url": "https://api.anthropic.com",
    "models.openai_base_url": "https://api.openai.com/v1",
    "models.gemini_base_url": "https://generativelanguage.googleapis.com",
    "models.ollama_base_url": "http://127.0.0.1:11434",
    "models.openai_compatible_base_url": "http://127.0.0.1:8000/v1",
    "extensions.catalogue": "/etc/hutch/extensions.json",
    "search.embeddings": "openai:text-embedding-3-small",
    "search.dimensions": 512,
    "tests.command": "make test",
    "tests.report": "build/**/TEST-*.xml",
    "execution.concurrency": 4,
    "jail.cpus": 2.0,
    "jail.cpu_time_s": 600,
    "jail.file_bytes": "1GiB",
    "members.memory_bytes": "2GiB",
    "members.processes": 512,
    "members.cpus": 2.0,
    "members.cpu_time_s": 600,
    "members.workspace_growth_bytes": "2GiB",
    "members.workspace_growth_files": 100_000,
    "members.open_files": 4096,
    "members.file_bytes": "1GiB",
    "members.command_timeout_s": 60,
    "members.command_total_s": 600,
    "members.output_bytes": "1MiB",
    "members.run_turns": 100,
    "members.run_tokens": 1_000_000,
    "members.run_cost_usd": 5.0,
    "members.run_timeout_s": 3600,
    "delivery.author": "Ada Lovelace <ada@example.org>",
    "retention.days": 365,
    "server.public_url": "https://hutch.example.com",
    "server.tls_cert": "/etc/hutch/cert.pem",
    "server.tls_key": "/etc/hutch/key.pem",
    "oidc.issuer": "https://login.example.com",
    "oidc.client_id": "hutch",
    "github.app_id": "123456",
    "github.unix_socket": "/run/github-proxy.sock",
    "github.run_as": "ada",
    "telemetry.otlp_endpoint": "http://127.0.0.1:4318",
    "reports.daily_at": "07:00",
    "reports.weekly_on": "monday",
    "reports.smtp_host": "smtp.example.com",
    "reports.smtp_user": "hutch",
    "reports.webhook_url": "https://hooks.example.com/hutch",
    "reports.directory": "/var/lib/hutch/reports",
    **{f"secrets.{name}": f"file:/run/secrets/{name}" for name in SECRETS},
}
"""Valid values of the settings that are not set by default."""


def user_template() -> str:
    """The file of a user or a server, with every setting."""
    return _template(HEAD, FIELDS)


def repository_template() -> str:
    """The file of a repository, with the settings that a repository may set."""
    allowed = [name for name in FIELDS if repository_access(name) is not RepositoryAccess.NEVER]
    return _template(REPOSITORY_HEAD, allowed)


def _template(head: str, names: Collection[str]) -> str:
    lines = [*_comment(head.replace("\n", " "))]
    for section in dict.fromkeys(name.rpartition(".")[0] for name in names):
        if section:
            about = Settings.model_fields[section].annotation.__doc__ or ""
            lines += ["", "", f"[{section}]", *_comment(_plain(about))]
        for name in names:
            if name.rpartition(".")[0] == section:
                lines += ["", *_setting(name)]
    return "\n".join(lines) + "\n"


def _setting(name: str) -> Iterator[str]:
    field, key = FIELDS[name], name.rpartition(".")[2]
    description = _plain(field.description or "")
    if repository_access(name) is RepositoryAccess.TIGHTEN:
        description += " A repository may lower it."
    if field.default is not None:
        yield from _comment(description)
        yield f"#{key} = {to_toml(field.default)}"
    elif name in EXAMPLES:
        yield from _comment(f"{description} Not set by default; an example:")
        yield f"#{key} = {to_toml(EXAMPLES[name])}"
    else:
        yield from _comment(f"{name}: {description} Not set by default.")


def _plain(text: str) -> str:
    """The text without links, which are for pages."""
    return re.sub(r"\[([^\]]+)\]\(([^)#]+\.md)?[^)]*\)", r"\1", text)


def _comment(text: str) -> list[str]:
    wrapped = textwrap.wrap(text, WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]
