"""Names of spans, metrics and attributes by OpenTelemetry's conventions for HTTP and agents."""

SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"

HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_SCHEME = "url.scheme"
ERROR_TYPE = "error.type"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"

TOKEN_TYPE = "gen_ai.token.type"
TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
TOOL_ERROR = "tool_error"

# The bounds of histograms that the conventions recommend.
TOKEN_BOUNDS = tuple(4**power for power in range(14))
DURATION_BOUNDS = tuple(2**power / 100 for power in range(14))

# Hutch's own: no convention has them.
RUN_ID = "hutch.run.id"
RUN_OUTCOME = "hutch.run.outcome"
RUN_TURNS = "hutch.run.turns"
COST_USD = "hutch.cost_usd"
TOOL_OK = "hutch.tool.ok"
