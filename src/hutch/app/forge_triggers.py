"""The triggers: process requests that arrive from a forge."""

from hutch.app.forges import forges_of
from hutch.app.vault_secrets_and_redactor import secrets_of
from hutch.flows.flow_services import Services
from hutch.flows.forge_request_handler import TriggerOptions, Triggers
from hutch.settings import LoadedSettings

SECRET = "github_webhook_secret"


def triggers_of(loaded: LoadedSettings, services: Services) -> Triggers:
    options = TriggerOptions(
        run_as=loaded.settings.github.run_as or "",
        public_url=loaded.settings.server.public_url or "",
        max_busy=loaded.settings.tasks.agents_per_repository,
    )
    return Triggers(services, forges_of(loaded).github, options)


def webhook_secret(loaded: LoadedSettings) -> str:
    """The secret with which GitHub signs webhooks; empty when it is not set."""
    return secrets_of(loaded, {SECRET}).get(SECRET, "").strip()
