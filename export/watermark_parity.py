"""The certificate of a watermarking scheme: texts drawn from its own proxy, marked, read, and counted a second time.

A text that carries all segments in full must give its message back with the verdict `marked`, an unmarked one must be
unsuspicious; of every text the counts of the likeliest messages, the embedded one and two others must equal those
of `export.watermark_reference`. Texts and keys are in `cases.safetensors`, so that they can be read again anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from export.environment import cpu_flags, versions
from export.errors import ParityError
from export.watermark_reference import Reference
from models.balance_marking.decoder import Decoder, Reading
from models.balance_marking.encoder import Marker
from models.balance_marking.proxy import BigramProxy
from models.balance_marking.scheme import MarkingScheme

CASES_FILE = "cases.safetensors"
LISTED, OTHERS = 2, 2  # messages that are counted a second time: the likeliest, and arbitrary ones
CHANCE = 100.0  # an unmarked text may fall below the level by chance, not so far below
RARE = -30.0  # logit of a token the proxy does not expect


@dataclass(frozen=True)
class Plan:
    """A text to draw. segments: of the message; marked: how many stand in full, 0 for an unmarked or too short text."""

    name: str
    key: int
    message: int
    segments: int
    tokens: int
    marked: bool


@dataclass(frozen=True)
class Finding:
    """What one text said. difference: the largest of two counts of one message; holds: all is as it must be."""

    name: str
    tokens: int
    embedded: list[int]
    read: list[int | None]
    verdict: str
    p_value: float
    counted: int
    difference: int
    holds: bool


def plans(scheme: MarkingScheme) -> list[Plan]:
    """Messages at the edges and between, one and two segments, an unmarked text and one too short."""
    most = (1 << scheme.message_bits) - 1
    one, two = scheme.tokens_needed(1), scheme.tokens_needed(2)
    return [
        Plan("lowest message", 1, 0, 1, one, True),
        Plan("highest message", 2**61 - 3, most, 1, one, True),
        Plan("another message", 0x5EED, most * 2 // 3, 1, one + 7, True),
        Plan("two segments", 0x5EED, (most // 3 << scheme.message_bits) + most // 5, 2, two, True),
        Plan("unmarked", 0x5EED, 0, 1, one, False),
        Plan("too short", 0x5EED, most // 7, 1, scheme.window + 3, False),
    ]


def draw_cases(scheme: MarkingScheme, proxy: BigramProxy, files: Path) -> None:
    """Write the texts of all plans."""
    texts = {f"{index}": _draw(plan, scheme, proxy) for index, plan in enumerate(plans(scheme))}
    save_file(texts, files / CASES_FILE)


def check_cases(scheme: MarkingScheme, proxy: BigramProxy, folder: Path) -> list[Finding]:
    """Read the written texts."""
    texts = load_file(folder / CASES_FILE)
    arrays = proxy.arrays()
    return [_check(plan, texts[f"{at}"].tolist(), scheme, proxy, arrays) for at, plan in enumerate(plans(scheme))]


def certificate(findings: list[Finding]) -> dict[str, Any]:
    """`parity.json`. Holds no dates and no host names. Raises ParityError where a text is not read as it must be."""
    if broken := next((one for one in findings if not one.holds), None):
        raise ParityError(
            f"{broken.name}: embedded {broken.embedded}, read {broken.read} with verdict {broken.verdict}, "
            f"counts differ by {broken.difference}",
            "a larger --tokens-per-bit or --delta carries more; a proxy of more text splits better",
        )
    return {
        "format_version": 1,
        "verdict": "ok",
        "max_abs": float(max(one.difference for one in findings)),
        "unit": "counts of available tokens",
        "tolerance": {"atol": 0.0, "rtol": 0.0},
        "stages": ["a second implementation in whole numbers, one token at a time", "the served decoder"],
        "runtime": "numpy",
        "versions": versions(),
        "cpu": cpu_flags(),
        "cases": [asdict(one) for one in findings],
    }


def _draw(plan: Plan, scheme: MarkingScheme, proxy: BigramProxy) -> npt.NDArray[np.int64]:
    """Token ids [tokens], each drawn from the proxy's guess after the one before."""
    random = np.random.default_rng(plan.key)
    bits = plan.segments * scheme.message_bits
    plain = MarkingScheme(**scheme.as_settings() | {"parity": 0})
    marker = Marker(plain.partition(plan.key, proxy), plain.encode(plan.message, bits)) if plan.segments else None
    ids: list[int] = []
    for _ in range(plan.tokens):
        logits = np.full(scheme.vocabulary, RARE, np.float32)
        guess = proxy(tuple(ids[-1:]))
        np.maximum.at(logits, guess.tokens, np.log(np.maximum(guess.weights, 1e-12)).astype(np.float32))
        if marker is not None and plan.marked:
            marker((), ids, logits)
        ids.append(int(np.argmax(logits + random.gumbel(size=len(logits)))))
    return np.array(ids, np.int64)


def _check(
    plan: Plan, ids: list[int], scheme: MarkingScheme, proxy: BigramProxy, arrays: Mapping[str, npt.NDArray[Any]]
) -> Finding:
    plain = MarkingScheme(**scheme.as_settings() | {"parity": 0})
    embedded = plain.encode(plan.message, plan.segments * scheme.message_bits)
    partition = plain.partition(plan.key, proxy)
    reading = Decoder(partition=partition, level=scheme.level).read(ids, segments=plan.segments)
    reference = Reference(scheme.as_settings(), plan.key, arrays)
    counted, largest = 0, 0
    for segment, message in enumerate(embedded):
        for other in _compared(reading, segment, message, 1 << scheme.message_bits):
            ours = Decoder(partition=partition).read(ids, segments=plan.segments, among=[other]).segments[segment]
            found = ours.candidates[0].count if ours.candidates else 0
            largest = max(largest, abs(found - reference.count(ids, plan.segments, segment, other)))
            counted += 1
    return Finding(
        name=plan.name,
        tokens=len(ids),
        embedded=list(embedded) if plan.marked else [],
        read=list(reading.messages),
        verdict=reading.verdict,
        p_value=reading.p_value,
        counted=counted,
        difference=largest,
        holds=largest == 0 and _as_planned(plan, reading, embedded, scheme.level),
    )


def _as_planned(plan: Plan, reading: Reading, embedded: tuple[int, ...], level: float) -> bool:
    if not plan.marked:
        return reading.p_value > level / CHANCE
    return reading.verdict == "marked" and reading.messages == embedded


def _compared(reading: Reading, segment: int, embedded: int, messages: int) -> list[int]:
    listed = [candidate.message for candidate in reading.segments[segment].candidates[:LISTED]]
    others = [(embedded * 7 + step * messages // 3 + 1) % messages for step in range(OTHERS)]
    return sorted({embedded, *listed, *others})
