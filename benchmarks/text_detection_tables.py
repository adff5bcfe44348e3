"""The tables of docs/text-detection.md from scored texts.

Thresholds come from one half of the human texts and one half of SmolLM2's; rates and areas are those of the other half.
The halves are drawn by turns within each source, so that both have the same mixture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scipy.stats import binom

from benchmarks.report import table
from benchmarks.text_detection_scores import LENGTHS, Row
from models.dna_gpt.calibration import Calibration, area_under_curve, binomial_rate, calibrate
from models.dna_gpt.detector import CURVATURE, MEAN_LOG_PROB, W_SCORE
from models.dna_gpt.weighting import WEIGHTINGS

RATE = 0.05
GENERATOR = "smollm2"
ONCE, ASKED = (CURVATURE, MEAN_LOG_PROB), (W_SCORE, *WEIGHTINGS)
NAMES = {
    CURVATURE: "curvature (one pass)",
    MEAN_LOG_PROB: "mean log-probability (one pass)",
    W_SCORE: "W-score",
    "demo": "overlap, demo weights",
    "notebook": "overlap, notebook weights",
    "formula": "overlap, formula",
}


@dataclass(frozen=True)
class Halves:
    """Scores of one statistic: a half to calibrate on, a half to measure."""

    human: tuple[list[float], list[float]]
    machine: tuple[list[float], list[float]]

    def calibration(self) -> Calibration:
        return calibrate(self.human[0], self.machine[0], RATE)

    @property
    def threshold(self) -> float:
        return self.calibration().threshold


@dataclass(frozen=True)
class Tables:
    """once: one pass over whole texts; asked: regenerations of the first words of some."""

    once: Sequence[Row]
    asked: Sequence[Row]

    def everything(self) -> str:
        """All tables with their headings."""
        parts = (
            ("### Calibrated on one half, measured on the other", self.held_out()),
            ("### By length", self.by_length()),
            ("### Texts of other models", self.others()),
        )
        return "\n\n".join(f"{heading}\n\n{body}" for heading, body in parts)

    def held_out(self) -> str:
        """One line a statistic."""
        rows = []
        for statistic in (*ONCE, *ASKED):
            halves = split(self.once if statistic in ONCE else self.asked, score_of(statistic))
            human, machine = halves.human[1], halves.machine[1]
            threshold = halves.threshold
            above = sum(score > threshold for score in human)
            found = sum(score > threshold for score in machine)
            low, high = (float(binom.ppf(tail, len(human), RATE)) / len(human) for tail in (0.025, 0.975))
            rows.append(
                [
                    NAMES[statistic],
                    f"{len(human)} / {len(machine)}",
                    _area(human, machine),
                    f"{threshold:.3g}",
                    f"{above / len(human):.1%}",
                    f"{low:.1%} to {high:.1%}",
                    "ABOVE" if above / len(human) > high else "below" if above / len(human) < low else "yes",
                    _rate(found, len(machine)),
                ]
            )
        return table(
            ["score", "humans / SmolLM2's", "AUROC", "threshold", f"FPR, {RATE:.0%} declared", "binomial interval",
             "inside", "SmolLM2 found"],
            rows,
        )  # fmt: skip

    def by_length(self) -> str:
        """One line a length; thresholds are those of the table above, whatever the length."""
        rows = []
        for length in LENGTHS:
            line = [f"{length} words"]
            for statistic in ONCE:
                threshold = split(self.once, score_of(statistic)).threshold
                line += _accuracy(split(self.once, beginning_of(statistic, length)), threshold)
            rows.append(line[:5] + line[6:])  # both statistics are of the same texts
        headings = ["AUROC", "FPR", "found"]
        return table(
            ["length", "humans / SmolLM2's", *(f"{name}: {one}" for name in ("curvature", "mean") for one in headings)],
            rows,
        )

    def others(self) -> str:
        """One line a model, against all human texts of the same source."""
        rows = []
        authors = [author for author in Counter(row.author for row in self.once) if author not in ("human", GENERATOR)]
        for author in authors:
            line = [author]
            for statistic in ONCE:
                score = score_of(statistic)
                sources = {row.source for row in self.once if row.author == author}
                machine = _scores((row for row in self.once if row.author == author), score)
                human = _scores((row for row in self.once if row.is_human and row.source in sources), score)
                found = sum(value > split(self.once, score).threshold for value in machine)
                line += [f"{len(human)} / {len(machine)}", _area(human, machine), _rate(found, len(machine))]
            rows.append(line[:4] + line[5:])
        headings = ["curvature: AUROC", "curvature: found", "mean: AUROC", "mean: found"]
        return table(["written by", "humans / machine", *headings], rows)


Score = Callable[[Row], float | None]


def score_of(statistic: str) -> Score:
    """Of the whole text."""
    return lambda row: row.scores.get(statistic)


def beginning_of(statistic: str, length: int) -> Score:
    """Of the first so many words, where there are as many."""
    return lambda row: row.beginnings.get(str(length), {}).get(statistic)


def split(rows: Iterable[Row], score: Score) -> Halves:
    """By turns within each source and author; texts nothing can be said about are left out."""
    turns: Counter[tuple[str, str]] = Counter()
    sides: dict[tuple[bool, int], list[float]] = {(human, half): [] for human in (True, False) for half in (0, 1)}
    for row in rows:
        if row.author in ("human", GENERATOR) and row.refused is None:
            half = turns[row.author, row.source] % 2
            turns[row.author, row.source] += 1
            if (value := score(row)) is not None:
                sides[row.is_human, half].append(value)
    return Halves((sides[True, 0], sides[True, 1]), (sides[False, 0], sides[False, 1]))


def _scores(rows: Iterable[Row], score: Score) -> list[float]:
    return [value for row in rows if row.refused is None and (value := score(row)) is not None]


def _accuracy(halves: Halves, threshold: float) -> list[str]:
    human, machine = halves.human[1], halves.machine[1]
    rates = [_rate(sum(score > threshold for score in side), len(side)) for side in (human, machine)]
    return [f"{len(human)} / {len(machine)}", _area(human, machine), *rates]


def _area(human: Sequence[float], machine: Sequence[float]) -> str:
    if len(human) < 2 or len(machine) < 2:
        return "-"
    area = area_under_curve(human, machine)
    return f"{area.value:.3f} ({area.low:.3f} to {area.high:.3f})"


def _rate(count: int, total: int) -> str:
    if not total:
        return "-"
    rate = binomial_rate(count, total)
    return f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"
