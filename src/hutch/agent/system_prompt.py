"""The system prompt: the persona, the workspace, and the repository's notes for agents.

The text is built once per run and stays the same to the byte, so that caches of
providers hit. Text of the repository is marked as untrusted data. Nothing in it can
lift a rule, because code enforces the rules.
"""

from collections.abc import Callable

from hutch.agent.persona import Persona
from hutch.agent.repository_testing.workspace_test_suite_runs import list_files
from hutch.agent.skills import SKILL, find_skills, list_skills, own_skills
from hutch.agent.text_for_model import strip_escapes
from hutch.agent.untrusted_repository_text import PLAIN_PATH, marked
from hutch.domain.errors import BadRequest
from hutch.workspace.files.directory_listing import Page
from hutch.workspace.workspace import Workspace

NOTES = ("AGENTS.md", "CLAUDE.md")  # the first that exists
MAX_PATHS = 20
DELIVERED = "Hutch delivers your changes as a commit when you finish: you need not commit or push."
NOT_DELIVERED = "Your changes stay in the workspace: Hutch does not commit them."
PROPOSAL = (
    "If packages or services are missing or their set-up fails, propose a set-up in .hutch/config.toml, "
    '[environment]: setup = ["COMMAND"], inputs = ["FILE"], variables, services. Say so in your summary: '
    "a person must accept it, after this session."
)
NOT_INSTALLED = "Hutch has installed no packages for this repository."


def system_prompt(
    persona: Persona,
    workspace: Workspace,
    *,
    jail_path: str,
    network: tuple[str, ...],
    notes: str,
    brief: str = "",
    delivers: bool = False,
    start_in: str = "",
) -> str:
    """The system prompt of a run, with the notes that the repository had when the session began.

    Later changes to the notes do not reach it: an agent must not write its own system prompt. `brief` is the
    session as its user described it; `delivers`: the changes become a commit when the run ends.
    """
    parts = [persona.prompt, _where(workspace, jail_path, network, delivers=delivers)]
    if PLAIN_PATH.fullmatch(start_in):
        parts[-1] += f" The user works in the directory {start_in}: the shell starts there."
    environment = workspace.record.environment
    if environment:
        parts.append(marked("the set-up of dependencies", environment))
    if "write_file" in persona.tools:
        parts.append(PROPOSAL if environment else f"{NOT_INSTALLED} {PROPOSAL}")
    if SKILL in persona.tools:
        parts.append(own_skills())
    if brief:
        parts.append(brief)
    if notes:
        parts.append(notes)
    if persona.from_repository:
        parts.append(marked(f".hutch/personas/{persona.name}.md", persona.from_repository))
    return "\n\n".join(parts)


def describe_session(purpose: str, role: str, expectations: str, company: str = "") -> str:
    """The user's description of a session; may be empty."""
    named = {
        "Purpose": purpose,
        "Company": company,
        "Your role": role,
        "Expected result": expectations,
    }
    lines = [f"{name}: {strip_escapes(text).strip()}" for name, text in named.items() if text.strip()]
    return "\n".join(["The user described this session:", *lines]) if lines else ""


def _where(workspace: Workspace, jail_path: str, network: tuple[str, ...], *, delivers: bool) -> str:
    reach = f"only {', '.join(network)}" if network else "none"
    named = workspace.record.branch or ""  # untrusted: a branch name may be a sentence, with no-break spaces
    branch = f", branch {named}" if PLAIN_PATH.fullmatch(named) else ""
    commit = f", commit {workspace.record.commit[:12]}" if workspace.record.commit else ""
    return (
        f"The workspace is {jail_path}{branch}{commit}; paths are relative to it. Network: {reach}. "
        f"{DELIVERED if delivers else NOT_DELIVERED}"
    )


async def repository_notes(
    workspace: Workspace, clean: Callable[[str], str] = str, listed: Page | None = None
) -> str:
    """The repository's notes for agents: the text of the top file, and the paths of those in subdirectories.

    `clean` removes secrets, before the text is cut. `listed` are the files, if the caller has listed them.
    """
    text = ""
    for name in NOTES:
        raw = await _small(workspace, name)
        if raw is not None and raw.strip():
            text = marked(name, clean(raw.decode(errors="replace")))
            break
    page = listed or await list_files(workspace)
    deeper: dict[str, str] = {}
    for name in reversed(NOTES):  # in one directory, the first name in NOTES wins
        deeper |= {
            entry.path.removesuffix(f"/{name}"): entry.path
            for entry in page.entries
            # A file name may be a sentence: only plain paths may appear outside of the marks.
            if entry.path.endswith(f"/{name}") and PLAIN_PATH.fullmatch(entry.path)
        }
    skills = list_skills(await find_skills(workspace, [each.path for each in page.entries]), clean)
    text += f"\n\n{skills}" if skills else ""
    if deeper:
        paths = ", ".join(sorted(deeper.values())[:MAX_PATHS])
        text += f"\n\nMore notes, which you get when you work in their directories: {clean(paths)}."
    return text.strip()


async def _small(workspace: Workspace, name: str) -> bytes | None:
    try:
        return await workspace.read_small(name)
    except BadRequest:
        return None  # too large, or not a file
