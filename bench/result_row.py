"""A row of the table, and functions that take measurements."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A claim: our figure, the alternative's, and the limit that must hold."""

    claim: str
    ours: float
    theirs: float | None
    unit: str
    bar: float
    alternative: str = ""
    at_least: bool = False  # the limit is a minimum, not a maximum

    @property
    def figure(self) -> float:
        return self.ours / self.theirs if self.theirs else self.ours

    @property
    def holds(self) -> bool:
        return self.figure >= self.bar if self.at_least else self.figure <= self.bar

    def cells(self) -> tuple[str, ...]:
        sign = "≥" if self.at_least else "≤"
        if self.theirs is None:
            return self.claim, self._show(self.ours), "", "", "", f"{sign} {self._show(self.bar)}"
        ratio = f"{self.figure:.2f}x"
        return (
            self.claim,
            self._show(self.ours),
            self.alternative,
            self._show(self.theirs),
            ratio,
            f"{sign} {self.bar:g}x",
        )

    def _show(self, value: float) -> str:
        return f"{value:,.0f} {self.unit}" if value >= 100 else f"{value:.3g} {self.unit}"


def percentile(values: Sequence[float], rank: int) -> float:
    return statistics.quantiles(values, n=100)[rank - 1]
