"""The sender of webhooks, by the settings."""

from hutch.flows.outgoing_webhooks.webhook_sender import WebhookSender
from hutch.jail.egress.blocked_addresses import parse_networks
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog
from hutch.store.webhook_secrets import WebhookSecrets


def webhook_sender(loaded: LoadedSettings, log: SqlLog) -> WebhookSender:
    secrets = WebhookSecrets(loaded.paths.vault, loaded.paths.vault_keys)
    private = parse_networks(loaded.settings.webhooks.private_networks)
    sender = WebhookSender(log, secrets, private)
    log.listeners.append(sender.note)
    return sender
