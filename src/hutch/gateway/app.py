"""The ASGI application: all routes and the middleware around them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from starlette.routing import Route

from hutch.flows.session_option_changes import apply_caps
from hutch.flows.user_accounts import Accounts
from hutch.gateway import health_and_status, metrics, openapi, trace_collector_export, web_app
from hutch.gateway.auth import one_time_link_page
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.auth.host_origin_and_rate_filter import RequestFilter
from hutch.gateway.auth.optional_oidc_import import open_provider_login
from hutch.gateway.gateway_context import Server
from hutch.gateway.graphql.endpoint import routes as graphql_routes
from hutch.gateway.idempotency import Answered
from hutch.gateway.mcp import endpoint
from hutch.gateway.problem_json import handle_problems
from hutch.gateway.rest import (
    analytics,
    budgets_and_alerts,
    change_comments,
    debugger,
    edits_and_search,
    events_and_changed_content,
    execution_of_given_code,
    extensions,
    file_content,
    files,
    incoming_webhooks,
    installed_dependencies,
    interview_notes_and_ratings,
    interview_question_list,
    interview_report_and_record,
    interviews,
    language_models,
    live_events,
    login_and_account,
    oidc,
    outgoing_webhooks,
    permanent_approvals,
    personas,
    policies,
    preferences_and_model_keys,
    preview_list,
    prompt_to_pull_request,
    proposed_changes,
    record_and_log_download,
    repository_branches,
    reviews,
    runs,
    saved_task_filters,
    secrets,
    session_commands,
    session_inputs,
    session_option_changes,
    session_reruns,
    session_search,
    session_shares,
    sessions,
    settings_with_origins,
    snapshots_and_diff,
    task_assignments,
    tasks,
    tasks_files_on_branches,
    terminals,
    test_runs,
    tokens,
    usage,
    users_invites_and_audit,
)
from hutch.gateway.stream.jail_page_previews import PreviewNames, Previews
from hutch.gateway.stream.open_streams import Streams
from hutch.gateway.stream.routes import preview_routes
from hutch.gateway.stream.routes import routes as stream_routes
from hutch.gateway.stream.stream_quota import StreamQuota, StreamQuotaMiddleware
from hutch.gateway.trace_id_middleware import Traced

REST = (
    prompt_to_pull_request,
    sessions,
    session_option_changes,
    session_search,
    repository_branches,
    session_inputs,
    events_and_changed_content,
    runs,
    files,
    file_content,
    edits_and_search,
    snapshots_and_diff,
    session_commands,
    test_runs,
    debugger,
    execution_of_given_code,
    installed_dependencies,
    terminals,
    preview_list,
    proposed_changes,
    change_comments,
    reviews,
    task_assignments,
    saved_task_filters,
    tasks,
    tasks_files_on_branches,
    record_and_log_download,
    personas,
    language_models,
    settings_with_origins,
    usage,
    analytics,
    budgets_and_alerts,
    live_events,
    policies,
    extensions,
    preferences_and_model_keys,
    secrets,
    session_reruns,
    session_shares,
    interviews,
    interview_notes_and_ratings,
    interview_report_and_record,
    interview_question_list,
    login_and_account,
    oidc,
    users_invites_and_audit,
    tokens,
    permanent_approvals,
    incoming_webhooks,
    outgoing_webhooks,
    one_time_link_page,
    web_app,
    health_and_status,
    metrics,
)


def make_app(server: Server) -> FastAPI:
    """The application for a server."""
    serving = server.loaded.settings.server
    accounts = Accounts(server.rows)
    accounts.on_role_changed = partial(apply_caps, server.services)
    authenticator = Authenticator(accounts, serving)
    server.interviews.access_changed.append(authenticator.note_access_change)
    provider = open_provider_login(server.loaded, server.read_secrets)
    measured = metrics.Metrics(server)
    spans = trace_collector_export.open_spans(server)
    mcp = endpoint.McpMount(server)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        async with measured.measuring(), trace_collector_export.sending(spans, server):
            yield
        await mcp.close()
        await authenticator.close()
        if provider is not None:
            await provider.close()

    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
    )
    app.state.server = server
    app.state.authenticator = authenticator
    app.state.oidc = provider
    app.state.answered = Answered(server.rows)
    app.state.streams = Streams(authenticator.access_changes)
    app.state.stream_quota = StreamQuota(serving.streams_per_user)
    app.state.metrics = measured
    add_routes(app)
    app.router.routes.append(Route(endpoint.PATH, mcp, methods=["POST"]))
    previews = Previews(server, authenticator, app.state.streams, app.state.stream_quota)
    authenticator.access_changes.listeners.append(previews.access_changed)
    app.router.routes.extend(preview_routes(previews))
    app.add_api_route(openapi.URL, openapi.serve, include_in_schema=False)
    app.router.default = web_app.PageOrNotFound(app.router.default)
    handle_problems(app, server.redactor, server.database_files.check)
    app.add_middleware(PreviewNames, previews=previews)
    app.add_middleware(StreamQuotaMiddleware)
    app.add_middleware(metrics.Routed)
    app.add_middleware(
        RequestFilter,
        server=serving,
        buckets=authenticator.buckets,
        refused=authenticator.note_refusal,
        is_preview=previews.is_named,
        is_known=authenticator.is_known,
    )
    if spans is not None:
        app.add_middleware(trace_collector_export.Spanned, spans=spans)
    app.add_middleware(Traced)
    # The last one added is the outermost.
    app.add_middleware(metrics.Measured, metrics=measured, is_preview=previews.is_named)
    return app


def add_routes(app: FastAPI) -> None:
    """Add all routes. `include_router` would build each of them again at the first request."""
    for module in REST:
        app.router.routes.extend(module.routes.routes)
    app.router.routes.extend([*stream_routes(), *graphql_routes()])
