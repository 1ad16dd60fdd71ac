"""The contexts of the flows about changes, built from the settings."""

from functools import partial

from hutch.app import vault_secrets_and_redactor
from hutch.app.forges import forges_of
from hutch.app.owner_policies import policies_of
from hutch.app.sandbox_opener import sandbox_opener
from hutch.app.workspaces import workspaces_of
from hutch.domain.commit_text import DEFAULT_AUTHOR
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.delivery.delivery_steps import DeliveryContext
from hutch.flows.delivery.snapshot_test_sandbox import ScratchSandboxes
from hutch.settings import LoadedSettings
from hutch.store.event_log_interface import EventLog
from hutch.store.table_access_interface import Rows
from hutch.system.file_lock import locked_by_name


def change_context(loaded: LoadedSettings, rows: Rows, log: EventLog) -> ChangeContext:
    return ChangeContext(
        rows,
        log,
        forges_of(loaded),
        vault_secrets_and_redactor.redactor(loaded),
        partial(locked_by_name, loaded.paths.data / "locks"),
        loaded.settings.delivery.author or DEFAULT_AUTHOR,
    )


def delivery_context(loaded: LoadedSettings, rows: Rows, log: EventLog) -> DeliveryContext:
    scratch = ScratchSandboxes(
        workspaces_of(loaded),
        policies_of(loaded, rows),
        lambda id, policy: sandbox_opener(loaded).open(id, lambda _: policy),
    )
    return DeliveryContext(
        change_context(loaded, rows, log), scratch, loaded.settings.server.public_url or ""
    )
