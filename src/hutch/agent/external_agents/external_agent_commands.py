"""The commands that start known external agents, such as codex, in the jail.

Each reads its prompt, its model endpoint and the endpoint's token from variables, so that none of them is in
the recorded command.
"""

import re
from collections.abc import Mapping

from hutch.domain.errors import BadRequest

CODEX = (
    "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m hutch"
    " -c model_provider=hutch -c model_providers.hutch.name=Hutch"
    ' -c model_providers.hutch.base_url="$OPENAI_BASE_URL"'
    " -c model_providers.hutch.env_key=OPENAI_API_KEY -c model_providers.hutch.wire_api=responses"
    ' -- "$HUTCH_PROMPT"'
)
OPENCODE_CONFIG = (
    '{"provider":{"hutch":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"{env:OPENAI_BASE_URL}",'
    '"apiKey":"{env:OPENAI_API_KEY}"},"models":{"hutch":{}}}},"model":"hutch/hutch"}'
)
COMMANDS = {
    "codex": CODEX,
    "claude": 'claude -p --dangerously-skip-permissions "$HUTCH_PROMPT"',
    "opencode": f"OPENCODE_CONFIG_CONTENT='{OPENCODE_CONFIG}' opencode run \"$HUTCH_PROMPT\"",
    "goose": (
        'GOOSE_PROVIDER=openai GOOSE_MODEL=hutch GOOSE_MODE=auto goose run --no-session -t "$HUTCH_PROMPT"'
    ),
}
ONE_WORD = re.compile(r"[\w.-]+")


def known_agent(agent: str) -> str:
    """The same text, if it can be run."""
    if agent:
        external_agent_command(agent)
    return agent


def external_agent_command(agent: str) -> str:
    """The shell command of a known agent, or the command that `agent` itself is."""
    if agent in COMMANDS:
        return COMMANDS[agent]
    if ONE_WORD.fullmatch(agent):
        raise BadRequest(
            f"There is no known agent {agent!r}. Known are {', '.join(COMMANDS)}; or give a whole command, "
            'which finds its task in "$HUTCH_PROMPT".'
        )
    return agent


def external_agent_environment(port: int, token: str, prompt: str) -> Mapping[str, str]:
    """The variables by which agents find their model and their task."""
    address = f"http://127.0.0.1:{port}"
    return {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_HOST": address,
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": token,
        "HUTCH_PROMPT": prompt,
        # Nothing of these could be reached.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
