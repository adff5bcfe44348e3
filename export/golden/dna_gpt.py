"""Golden cases of DNA-GPT: n-gram scores of texts with regenerations, and scores of log-probabilities.

Official per-n tables count regenerations with words only; cases with `prefix` and `remainder` but no `text` were cut
beforehand. The demo program shortens regenerations, the notebooks do not; the demo shows the first regeneration with
the longest shared n-gram up to its own longest, so that 25-grams do not count there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from export.golden.case import GoldenCase
from export.golden.compare import OutputResult, Tolerance, compare
from models.dna_gpt.black_box import BlackBoxReading, read_black_box
from models.dna_gpt.calibration import area_under_curve
from models.dna_gpt.cut import REGENERATION_WORDS, TEXT_WORDS, cut, limit_words
from models.dna_gpt.overlap import LONGEST
from models.dna_gpt.weighting import DEMO, DEMO_THRESHOLD, FORMULA, NOTEBOOK
from models.dna_gpt.white_box import after_prefix, read_white_box
from models.dna_gpt.words import stems

EXACT = Tolerance(0.0)
AREA = Tolerance(1e-4)  # of areas rounded to four digits


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours."""
    if "items" not in case.document:
        return list(_white_box(case))
    results = [result for item in case.document["items"] for result in _item(case, item)]
    return results + list(_areas(case))


def _item(case: GoldenCase, item: dict[str, Any]) -> Iterator[OutputResult]:
    name, bound = item["id"], _bound(case)
    whole = regenerations = item["regenerations"]
    if "text" in item:
        most = int(case.config.get("max_words_text", TEXT_WORDS))
        parts = cut(limit_words(item["text"], most), ratio=_ratio(case), unit="character")
        short = int(case.config.get("max_words_regeneration", REGENERATION_WORDS))
        regenerations = [limit_words(text, short) for text in regenerations]
        yield _same(f"{name}.cut", [parts.prefix, parts.remainder], [item["prefix"], item["remainder"]])
    remainder = item["remainder"]
    if "remainder_tokens" in item:
        expected = [item["remainder_tokens"], *item["regeneration_tokens"]]
        yield _same(f"{name}.tokens", [stems(remainder), *map(stems, regenerations)], expected)
    reading = read_black_box(remainder, regenerations)
    threshold = float(case.config.get("decision_threshold_demo", DEMO_THRESHOLD))
    scores = _scores(reading, threshold) | _notebook_scores(read_black_box(remainder, whole))
    for output, ours in scores.items():
        if output in item:
            yield _close(f"{name}.{output}", ours, item[output], bound)
    yield from _tables(case, name, reading, bound)
    if "wscore" in item:
        white = read_white_box(item["logprobs_remainder"], item["logprobs_regenerations"])
        yield _close(f"{name}.wscore", white and white.score, item["wscore"], bound)


def _scores(reading: BlackBoxReading, threshold: float) -> dict[str, Any]:
    """Everything a case may state, by its name there; None and [] where no regeneration is usable."""
    demo = reading.score(DEMO)
    return {
        "score_demo": demo,
        "score_demo_per_regen": reading.scores(DEMO),
        "decision_demo": demo is not None and demo > threshold,
        "most_matched": reading.most_matched(LONGEST),
        "usable_regenerations": len(reading.usable),
        "score_formula_per_regen": reading.scores(FORMULA),
        "score_formula": reading.score(FORMULA),
    }


def _notebook_scores(reading: BlackBoxReading) -> dict[str, Any]:
    scores = reading.scores(NOTEBOOK)
    return {
        "score_notebook_per_regen": scores,
        "score_notebook_sum": sum(scores),
        "score_notebook_mean": reading.score(NOTEBOOK),
    }


def _tables(case: GoldenCase, name: str, reading: BlackBoxReading, bound: Tolerance) -> Iterator[OutputResult]:
    """Overlap counts and ratios by n, as many n as the case has."""
    if not case.tensors_path.is_file():
        return
    for kind in ("ngram_overlap", "ngram_ratio"):
        expected = case.tensors.get(f"output.{name}.{kind}")
        if expected is not None:
            rows = [one.shared if kind == "ngram_overlap" else one.ratio for one in reading.overlaps]
            ours = torch.from_numpy(np.stack(rows))[:, : expected.shape[1]].to(expected.dtype)
            yield compare(f"{name}.{kind}", ours, expected, bound)


def _white_box(case: GoldenCase) -> Iterator[OutputResult]:
    """Texts named in the case's outputs as <name>_wscore."""
    bound, scores = _bound(case), []
    for output, expected in case.document["outputs"].items():
        if not output.endswith("_wscore"):
            continue
        text = case.document[output.removesuffix("_wscore")]
        ours = read_white_box(after_prefix(text["full"], int(text["truncated_len"])), text["regenerations"])
        scores.append(ours.score if ours else float("nan"))
        yield _close(output, scores[-1], expected, bound)
    stated = case.tensors.get("output.wscore") if case.tensors_path.is_file() else None
    if stated is not None:
        yield compare("wscore", torch.tensor(scores, dtype=stated.dtype), stated, bound)


def _areas(case: GoldenCase) -> Iterator[OutputResult]:
    """Areas under the curve, stated in the notes as JSON by the item's field, from the items' own values."""
    found = re.search(r"AUROC on these items: (\{.*?\})", str(case.document.get("notes", "")))
    items = case.document["items"]
    for field, expected in (json.loads(found[1]) if found else {}).items():
        human = [item[field] for item in items if item["label"] == 0]
        machine = [item[field] for item in items if item["label"] == 1]
        yield _close(f"auroc.{field}", area_under_curve(human, machine).value, expected, AREA)


def _bound(case: GoldenCase) -> Tolerance:
    stated = case.document["tolerance"].get("scores", case.document["tolerance"])
    return Tolerance(float(stated.get("atol", 1e-12)), float(stated.get("rtol", 0.0)))


def _ratio(case: GoldenCase) -> float:
    return float(case.config.get("truncate_ratio", 0.5))


def _close(output: str, ours: Any, expected: Any, bound: Tolerance) -> OutputResult:
    """Numbers within the tolerance, whole ones and truth values exactly; null only for null."""
    if ours is None or expected is None:
        return _same(output, ours, expected)
    return compare(output, _tensor(ours), _tensor(expected), bound)


def _tensor(values: Any) -> Tensor:
    whole = isinstance(values, bool | int)
    return torch.tensor(values) if whole else torch.tensor(values, dtype=torch.float64)


def _same(output: str, ours: Sequence[Any] | None, expected: Sequence[Any] | None) -> OutputResult:
    """Texts, compared as they are."""
    same = ours == expected
    return OutputResult(
        output=output,
        verdict="ok" if same else "fail",
        shape=() if expected is None else (len(expected),),
        max_abs=0.0 if same else None,
        tolerance="exact",
        detail="" if same else "differs from the official program's",
    )
