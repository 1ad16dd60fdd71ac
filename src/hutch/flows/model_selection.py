"""The model for a run: the named one, or the best available."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.redaction import Redactor
from hutch.flows.model_list import UsableModels, list_models
from hutch.flows.personas import find_model_options
from hutch.llm.generation_option_check import check_generation
from hutch.llm.interface import Model
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, Choice, check_usable, default_model, open_model
from hutch.llm.recording_model import RecordingModel
from hutch.llm.scripted_model import OFFLINE
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models that an installation can use, with its defaults."""

    read_access: Callable[[str], Access]  # the own keys of the named user come first. Blocks the thread
    default_model: str | None
    default_persona: str
    personas: Path

    async def choose(
        self, name: str | None, record: Path | None, user_id: str, redactor: Redactor
    ) -> tuple[Model, Choice]:
        """Open the named model or the best available one, and say why it was chosen.

        Replies are recorded in the file `record`, without secrets.

        The HTTP client is loaded in a thread, so that the rest of the run is prepared meanwhile.
        """
        granted = await asyncio.to_thread(self.read_access, user_id)
        if name is None:
            choice = await default_model(granted, scripted=OFFLINE)
        else:
            choice = Choice(name, "requested explicitly")
        model = await asyncio.to_thread(open_model, parse_model_name(choice.name), granted)
        if record is not None:
            model = RecordingModel(model, record, clean=redactor.redact)
        return model, choice

    def check(
        self, name: str, persona: str = "", user_id: str = "", generation: Generation = NO_GENERATION
    ) -> None:
        """Refuse the model of a request if it cannot be used: the named one, the persona's, or that of the
        settings. Blocks the thread."""
        preferred = find_model_options(persona or self.default_persona, self.personas)
        if named := name or preferred.model or self.default_model:
            check_generation(named, generation.or_else(preferred.generation))
            check_usable(parse_model_name(named), self.read_access(user_id))

    async def list_usable(self, user_id: str = "") -> UsableModels:
        """The models that can be used, also with the own keys of a user."""
        granted = await asyncio.to_thread(self.read_access, user_id)
        return await list_models(granted, self.default_model)
