"""Personas: a prompt, the tools it may use, and its rules.

A persona is a Markdown file: front matter, then the prompt. Hutch comes with some;
users may add their own or replace these. A repository may have a file of the same
name too, but it is untrusted: it can only remove tools, add rules that ask or deny,
and lower limits. The rest of it reaches the model as text marked as the repository's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hutch.agent.run_budget import LimitFields
from hutch.agent.tool_call_rules import Action, Policy, Rule, parse_rule
from hutch.domain import validation_messages
from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.domain.generation_option_fields import GenerationFields
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.one_line_text import check_model_name
from hutch.domain.run_limits import DEFAULT_LIMITS, NO_LIMITS, LimitName, RunLimits
from hutch.llm.model_and_key_names import near_names
from hutch.system.lazy_dataclass import dataclass

REPOSITORY_FOLDER = ".hutch/personas"
MAX_BYTES = 64 * 1024
MAX_FRONT = 8 * 1024  # characters of front matter: 64 KiB of YAML take half a second to read
DEFAULT = "engineer"
ReadFile = Callable[[str], bytes | None]  # a file of the repository, by path

LimitSetter = Literal["", "persona", "repository"]


@dataclass(frozen=True, slots=True)
class Persona:
    """The role in which the agent works on a prompt."""

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...]
    policy: Policy
    model: str | None
    limits: RunLimits
    from_repository: str = ""  # the prompt of the repository's file, shown to the model as data
    repository_limits: RunLimits = NO_LIMITS
    generation: Generation = NO_GENERATION
    extensions: tuple[str, ...] = ()  # that it gets: `files`, or single tools such as `files__read_*`
    extension_limits: tuple[tuple[str, ...], ...] = ()  # each of them must name what it gets
    ignored: tuple[str, ...] = ()  # a sentence about each part of the repository's file that has no effect

    def limits_for(self, requested: RunLimits) -> RunLimits:
        """The limits of a run: the tighter of the persona's and the caller's, else the defaults; and never
        above the repository's."""
        return self.limits.tightened(requested).or_else(DEFAULT_LIMITS).tightened(self.repository_limits)

    def sets_limit(self, name: LimitName, limit: float | None) -> LimitSetter:
        """Which file set this limit; empty when the caller did, or the defaults."""
        if limit is not None and getattr(self.repository_limits, name) == limit:
            return "repository"
        return "persona" if limit is not None and getattr(self.limits, name) == limit else ""

    def narrowed_to(self, other: "Persona") -> "Persona":
        """This persona with no more rights than the other: for one that a repository has chosen."""
        return replace(
            self,
            tools=tuple(tool for tool in self.tools if tool in other.tools),
            extension_limits=(*self.extension_limits, other.extensions),
            policy=replace(
                other.policy.narrowed(self.policy.rules),
                default=_stricter(self.policy.default, other.policy.default),
            ),
            model=other.model,
            generation=other.generation,
            limits=self.limits.tightened(other.limits.or_else(DEFAULT_LIMITS)),
        )


def _stricter(one: Action, other: Action) -> Action:
    return max(one, other, key=get_args(Action).index)


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    default: Action = "allow"
    rules: list[str] = Field(default_factory=list)


class _Front(GenerationFields):
    """The front matter, between two lines of three hyphens."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    description: str = ""
    model: str | None = None
    tools: list[str] | None = None  # None: all
    extensions: list[str] | None = None  # None: those that the catalogue gives it
    policy: _Rules = _Rules()
    limits: LimitFields = LimitFields()


def load_persona(
    name: str, *, known_tools: Iterable[str], folder: Path | None = None, read: ReadFile | None = None
) -> Persona:
    """A persona by name: the user's own or a built-in one, narrowed by the repository's if it has one."""
    every = tuple(known_tools)
    own = read and _from_repository(name, read)
    text = _from_folder(name, folder) or built_in().get(name)
    if text is None and own is None:
        known = sorted(built_in() | {file.stem: "" for file in folder.glob("*.md")} if folder else built_in())
        near = near_names(name, known)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise NotFound(f"There is no persona '{name}'.{hint} Known personas: {', '.join(known)}.")
    persona = parse_persona(name, text or built_in()[DEFAULT], every)
    return _narrowed(persona, own, every) if own else persona


def parse_persona(name: str, text: str, every_tool: tuple[str, ...]) -> Persona:
    """Read a persona's file."""
    front, prompt = _split(name, text)
    unknown = sorted(set(front.tools or ()) - set(every_tool))
    if unknown:
        raise BadRequest(
            f"Persona '{name}' names tools that do not exist: {', '.join(unknown)}. "
            f"Known tools: {', '.join(every_tool)}."
        )
    check_model_name(front.model or "")
    return Persona(
        name=name,
        description=front.description,
        prompt=prompt.strip(),
        tools=tuple(tool for tool in every_tool if front.tools is None or tool in front.tools),
        policy=Policy(
            tuple(parse_rule(line, f"persona {name}") for line in front.policy.rules), front.policy.default
        ),
        model=front.model,
        limits=front.limits.for_run(),
        generation=front.to_generation(),
        extensions=tuple(front.extensions or ()),
    )


def render_persona(front: Mapping[str, Any], prompt: str) -> str:
    """The file of a persona with this front matter and prompt."""
    import yaml  # takes 20 ms, so only where a persona is written

    head = yaml.safe_dump(dict(front), sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{head}---\n{prompt.strip()}\n"


@cache
def built_in() -> dict[str, str]:
    """The files of the personas that come with Hutch, by name."""
    folder = resources.files("hutch.agent") / "personas"
    return {file.name[:-3]: file.read_text() for file in folder.iterdir() if file.name.endswith(".md")}


def _narrowed(persona: Persona, text: str, every_tool: tuple[str, ...]) -> Persona:
    path = f"{REPOSITORY_FOLDER}/{persona.name}.md"
    try:
        front, prompt = _split(persona.name, text)
        rules = [parse_rule(line, f"{path} of the repository") for line in front.policy.rules]
    except HutchError as error:
        # An invalid file of the repository narrows nothing. The model and the user see the reason.
        unusable = f"(its persona file cannot be used: {error})"
        return replace(persona, from_repository=unusable, ignored=(f"'{path}' is ignored: {error}",))
    allowed = set(every_tool if front.tools is None else front.tools)
    default = _stricter(persona.policy.default, front.policy.default)
    return replace(
        persona,
        tools=tuple(tool for tool in persona.tools if tool in allowed),
        extension_limits=() if front.extensions is None else (tuple(front.extensions),),
        policy=replace(persona.policy.narrowed(rules), default=default),
        repository_limits=front.limits.for_run(),
        from_repository=prompt.strip(),
        ignored=tuple(f"'{path}' {part}" for part in _without_effect(front, rules, every_tool)),
    )


def _without_effect(front: _Front, rules: Iterable[Rule], every_tool: tuple[str, ...]) -> Iterator[str]:
    """The parts of a repository's file that have no effect, and why."""
    own = "set it in your own persona if you want it"
    for name in ("model", *GenerationFields.model_fields):
        if (value := getattr(front, name)) is not None:
            yield f"sets {name} to {value!r}, ignored: a repository may not set it; {own}."
    for rule in rules:
        if rule.action == "allow":
            yield f"has the rule '{rule}', ignored: a repository may only ask or deny."
    if unknown := sorted(set(front.tools or ()) - set(every_tool)):
        yield f"names tools that do not exist: {', '.join(unknown)}."


def _from_folder(name: str, folder: Path | None) -> str | None:
    if folder is None or not name.replace("-", "").replace("_", "").isalnum():
        return None
    try:
        return (folder / f"{name}.md").read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"The persona {folder / name}.md cannot be read: {error}.") from None


def _from_repository(name: str, read: ReadFile) -> str | None:
    raw = read(f"{REPOSITORY_FOLDER}/{name}.md")
    return raw[:MAX_BYTES].decode(errors="replace") if raw is not None else None


def _split(name: str, text: str) -> tuple[_Front, str]:
    text = text.replace("\r\n", "\n")
    if not text.startswith("---\n"):
        return _Front(), text
    head, found, prompt = text[4:].partition("\n---\n")
    if not found:
        raise BadRequest(f"Persona '{name}' opens front matter with --- and does not close it.")
    if len(head) > MAX_FRONT:
        raise BadRequest(
            f"The front matter of persona '{name}' has {len(head):,} characters, over {MAX_FRONT:,}. "
            "Shorten it."
        )
    import yaml  # takes 20 ms, so only where a persona is read

    class Plain(yaml.SafeLoader):
        """Refuses aliases: a few lines of them can expand to more than the memory holds."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("it has aliases (*name), which are not supported")
            return super().compose_node(parent, index)

    try:
        values: Any = yaml.load(head, Plain) or {}
        return _Front.model_validate(values), prompt
    except yaml.YAMLError as error:
        raise BadRequest(f"The front matter of persona '{name}' is not YAML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        problem = validation_messages.describe(first)
        at = validation_messages.location(first) or "front matter"
        raise BadRequest(f"Persona '{name}' is wrong at {at}: {problem}.") from None
    except RecursionError:
        raise BadRequest(f"The front matter of persona '{name}' is nested too deep.") from None
    except (ValueError, OverflowError) as error:  # such as an impossible date
        raise BadRequest(f"The front matter of persona '{name}' is invalid: {error}.") from None
