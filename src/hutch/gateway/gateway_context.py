"""The services and settings that the gateway uses; its starter assembles them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field

from hutch.domain.redaction import Redactor
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.flow_services import Services
from hutch.flows.forge_request_handler import Triggers
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.model_list import UsableModels
from hutch.flows.outgoing_webhooks.webhook_sender import WebhookSender
from hutch.flows.task_work.task_work_services import TaskWorkServices
from hutch.sessions.interface import SessionHost
from hutch.settings import LoadedSettings
from hutch.store.event_log_interface import EventLog
from hutch.store.open_database import FileCheck
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(slots=True)
class Server:
    """The services of a server and its settings."""

    loaded: LoadedSettings
    services: Services
    triggers: Triggers
    interviews: InterviewServices
    webhooks: WebhookSender
    task_work: TaskWorkServices
    database_files: FileCheck
    changes: ChangeContext
    list_models: Callable[[str], Awaitable[UsableModels]]  # for a user, by id
    read_secrets: Callable[[Collection[str]], Mapping[str, str]]  # of the installation. Blocks the thread.
    webhook_secret: Callable[[], str]  # for GitHub's signatures; empty when none is set. Blocks the thread.
    started_ms: int = field(default_factory=lambda: wall_ms())
    closing: bool = False  # refuses new requests, and tells open streams

    @property
    def executor(self) -> CodeExecutor:
        return self.interviews.executor

    @property
    def log(self) -> EventLog:
        return self.services.log

    @property
    def rows(self) -> Rows:
        return self.services.rows

    @property
    def host(self) -> SessionHost:
        return self.services.host

    @property
    def redactor(self) -> Redactor:
        return self.services.redactor


OpenServer = Callable[[LoadedSettings], AbstractAsyncContextManager[Server]]
