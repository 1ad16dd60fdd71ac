"""The services of requests about tasks."""

from fastapi import Request

from hutch.flows.tasks.task_requests import TaskServices
from hutch.gateway.gateway_context import Server
from hutch.gateway.rest.base_route import server_of


def task_services(request: Request) -> TaskServices:
    return task_services_of(server_of(request))


def task_services_of(server: Server) -> TaskServices:
    return TaskServices(
        server.rows, server.redactor, tuple(map(str, server.loaded.settings.server.repository_roots))
    )
