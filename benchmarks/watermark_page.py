"""The measured part of docs/watermark.md, and what the numbers promise."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.report import machine_lines, table
from benchmarks.watermark_cost import BATCHES, TOKENS, Cost
from benchmarks.watermark_rates import AS_GENERATED, MORE, SUBSTITUTED, FalseAlarms, Recovery, WrongKeys
from benchmarks.watermark_served import SAMPLING
from benchmarks.watermark_texts import PROMPTS

MOST_OVERHEAD = {1: 0.10, 8: 0.30}
MOST_READING_MS = 10.0
MOST_ALARMS = 0.02
LEAST_TEXTS = 300


@dataclass(frozen=True)
class Promise:
    """What is claimed with the number found, and whether it holds."""

    claim: str
    holds: bool

    def line(self) -> str:
        """For people."""
        return f"{'ok  ' if self.holds else 'FAIL'} {self.claim}"


@dataclass(frozen=True)
class Measured:
    """All of one run; delta, reach: the scheme's."""

    delta: float
    reach: float
    recovery: Recovery
    alarms: FalseAlarms
    cost: Cost
    wrong: WrongKeys

    @property
    def ratio(self) -> float:
        """Self-perplexity of marked text over that of unmarked text."""
        plain, marked = self.recovery.perplexity
        return marked / plain

    def verdicts(self) -> list[Promise]:
        """Every promise of the page, and whether it holds."""
        whole, texts = self.recovery.rate(AS_GENERATED)
        edited, _ = self.recovery.rate(SUBSTITUTED)
        alarms, cost = self.alarms, self.cost
        wrong = self.wrong.marked / self.wrong.readings
        other = max(marked / readings for _, readings, marked in alarms.others)
        found = [
            Promise(
                f"20 bits come back from 200 tokens, delta {self.delta:g}: {whole} of {texts}", whole * 16 >= 15 * texts
            ),
            Promise(f"self-perplexity ratio {self.ratio:.2f}, at most 1.3", self.ratio <= 1.3),
            Promise(
                f"after 10 % of words were substituted: {edited} of {texts}, at least 7/8", edited * 8 >= 7 * texts
            ),
            Promise(f"{alarms.texts} human texts, at least {LEAST_TEXTS}", alarms.texts >= LEAST_TEXTS),
            Promise(
                f"human texts called marked: {alarms.marked / alarms.texts:.2%}, at most 2 % at a declared 1 %",
                alarms.marked <= MOST_ALARMS * alarms.texts,
            ),
            Promise(f"marked texts under wrong keys called marked: {wrong:.2%}, at most 2 %", wrong <= MOST_ALARMS),
            Promise(f"for other messages, or trying all keys: {other:.2%} at most, at most 2 %", other <= MOST_ALARMS),
            Promise(
                f"p-values of unmarked texts are even: KS p {alarms.uniform:.3f}, above 0.01", alarms.uniform > 0.01
            ),
        ]
        for batch in BATCHES:
            share = cost.overhead(batch)
            told = f"marking costs {share:.1%} of the tokens a CPU second at batch {batch}"
            found.append(Promise(f"{told}, at most {MOST_OVERHEAD[batch]:.0%}", share <= MOST_OVERHEAD[batch]))
        reading = max(cost.reading)
        found.append(Promise(f"reading 20 bits: {reading:.1f} ms a token, at most 10", reading <= MOST_READING_MS))
        return found


def page(measured: Measured) -> str:
    """The measured part of docs/watermark.md."""
    recovery, alarms, cost = measured.recovery, measured.alarms, measured.cost
    rows = [[name, f"{found} of {texts}", f"{marked} of {texts}"] for name, found, marked, texts in recovery.rows]
    plain, marked = recovery.perplexity
    corpora = [
        [name, str(texts), str(short), f"{found} ({found / texts:.1%})"] for name, texts, short, found in alarms.corpora
    ]
    corpora.append(["all", str(alarms.texts), "", f"{alarms.marked} ({alarms.marked / alarms.texts:.1%})"])
    others = [[name, str(readings), f"{found} ({found / readings:.1%})"] for name, readings, found in alarms.others]
    wrong = measured.wrong
    told = f"{wrong.marked} ({wrong.marked / wrong.readings:.1%})"
    others.append(["marked texts, wrong keys, each alone", str(wrong.readings), told])
    return "\n\n".join(
        [
            "### Messages come back",
            f"{len(PROMPTS)} prompts, 200 tokens each, {_sampling()}, delta {measured.delta:g}, reach "
            f"{measured.reach:g}, 20 bits at random, seeds fixed; texts that end earlier are drawn again. All readings "
            "start from the text, so decoding and encoding again is part of each.",
            table(
                [
                    "what was done to the text",
                    "likeliest message is the embedded one",
                    "verdict `marked`, message right",
                ],
                rows,
            ),
            f"Self-perplexity, {MORE} texts a prompt: {plain:.2f} unmarked, {marked:.2f} marked, ratio "
            f"{measured.ratio:.2f}. It is exp of the mean, over all tokens after the prompt, of -log p under the "
            "language model itself at temperature 1, whatever the text was drawn with.",
            "### Unmarked texts stay silent",
            table(["corpus", "texts", "too short", "called marked, declared 1 %"], corpora),
            f"Kolmogorov-Smirnov test of the {len(alarms.p_values)} p-values against an even distribution: "
            f"p {alarms.uniform:.3f}.",
            table(["other circumstances", "readings", "called marked"], others),
            "### Cost",
            f"CPU ms a token of the serving processes, {TOKENS} tokens a text, marked and unmarked in turns; medians "
            f"of {len(cost.reading)} rounds.",
            table(["", "unmarked", "marked", "share of tokens a CPU second"], _costs(cost)),
            f"Reading 20 bits under one key: {min(cost.reading):.1f} to {max(cost.reading):.1f} CPU ms a token.",
            "### Machine",
            machine_lines(),
        ]
    )


def _sampling() -> str:
    return ", ".join(f"{name} {value:g}" for name, value in SAMPLING.items())


def _costs(cost: Cost) -> list[list[str]]:
    rows = []
    for batch in BATCHES:
        plain, marked = median(cost.plain[str(batch)]), median(cost.marked[str(batch)])
        rows.append([f"{batch} at once", f"{plain:.2f}", f"{marked:.2f}", f"{cost.overhead(batch):.1%}"])
    return rows
