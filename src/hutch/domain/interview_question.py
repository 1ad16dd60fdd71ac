"""An interview question: a statement, tests that are shown and hidden, and proof that they work.

A question is a folder that people edit and share in git; `flows/interview_questions` reads and checks it.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from hutch.domain.errors import NotFound
from hutch.domain.given_code_test_case import CodeCase, Language
from hutch.domain.user_given_starter_files import StarterFile, StarterFiles
from hutch.system.lazy_dataclass import dataclass

Level = Literal["consultant", "pair", "copilot"]
LEVELS: tuple[Level, ...] = ("consultant", "pair", "copilot")
ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MAX_ID_CHARS = 60
MAX_MINUTES = 8 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One line of the rubric: what an assessor rates, and how to recognise it."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How to find a correct solution that is slow: `generator` prints a case for each size.

    `generator` is a Python program of the question that runs in a jail; it reads the size from its input.
    """

    generator: str
    sizes: tuple[int, ...]
    max_exponent: float  # of the time as a power of the size: 1 is linear, 2 is quadratic


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageVariant:
    """The files of a question in one language. Paths are relative to the directory of the work."""

    language: Language
    starter: StarterFiles
    visible_tests: StarterFiles  # the candidate sees and runs them, beside the starter
    hidden_tests: StarterFiles = field(default_factory=dict)  # for the language's test runner
    solution: StarterFiles = field(default_factory=dict)  # replaces files of the starter
    wrong_solutions: Mapping[str, StarterFiles] = field(default_factory=dict)  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question at one version. `digest` changes with any of its files."""

    id: str
    version: int
    title: str
    statement: str  # Markdown
    time_minutes: int
    levels: tuple[Level, ...]
    rubric: tuple[Criterion, ...]
    module: str  # the file that cases call, without its extension
    variants: Mapping[Language, LanguageVariant]
    hidden_cases: tuple[CodeCase, ...] = ()  # the same for all languages
    growth: Growth | None = None
    digest: str = ""

    @property
    def languages(self) -> tuple[Language, ...]:
        return tuple(self.variants)

    def variant(self, language: str) -> LanguageVariant:
        """The files for a language; an error names the languages that there are."""
        for known, found in self.variants.items():
            if known == language:
                return found
        raise NotFound(
            f"Question '{self.id}' has no files for {language}. It has: {', '.join(self.variants)}."
        )

    def candidate_files(self, language: str) -> dict[str, StarterFile]:
        """The files that a candidate starts with: the starter and the visible tests."""
        found = self.variant(language)
        return {**found.starter, **found.visible_tests}


def is_slow_solution(name: str) -> bool:
    """True for wrong solutions that are correct but slow: only the growth of their time shows it."""
    return name.startswith("slow")
