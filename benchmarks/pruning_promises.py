"""What the pruning table must show: bounds on perplexities and on their ratios."""

from __future__ import annotations

from dataclasses import dataclass

Values = dict[str, float]  # row name -> perplexity
REFERENCE = 31.0  # the dense model under this protocol, measured once by other code


@dataclass(frozen=True)
class Promise:
    """`of` / `to` (a row's perplexity, or a number) lies within [low, high]."""

    of: str
    to: str | float
    high: float
    low: float = 0.0

    def measured(self, values: Values) -> bool:
        """Are both rows there?"""
        return self.of in values and (isinstance(self.to, float) or self.to in values)

    def ratio(self, values: Values) -> float:
        return values[self.of] / (self.to if isinstance(self.to, float) else values[self.to])

    def holds(self, values: Values) -> bool:
        return self.low <= self.ratio(values) <= self.high

    def row(self, values: Values) -> list[str]:
        """Promise, measured, holds."""
        bound = f"within {self.low:g} to {self.high:g}" if self.low else f"at most {self.high:g}"
        words = f"{self.of} / {self.to}: {bound}"
        return [words, f"{self.ratio(values):.4g}", "yes" if self.holds(values) else "NO"]


PROMISES = (
    Promise("dense", REFERENCE, 1.02, 0.98),
    Promise("Wanda 50 %", "magnitude 50 %", 0.15),
    Promise("RIA 50 %", "magnitude 50 %", 0.15),
    Promise("RIA 2:4", "magnitude 2:4", 0.15),
    Promise("RIA 2:4, permuted", "RIA 2:4", 0.75),
    Promise("RIA 4:8, permuted", "RIA 4:8", 0.9),
    Promise("Surgeon 20 % structured", "magnitude 20 % structured", 0.01),
)
