"""Golden cases of MOTOR: networks of all three layouts, a published checkpoint, tokenisation, task adapters, metrics.

`kind` in the JSON says which; a case without one is a network.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult, Tolerance, compare
from export.golden.outputs import compare_outputs
from export.golden.survival import survival_results
from models.motor import adapter
from models.motor import head as survival
from models.motor.checkpoint import layout_of, translate
from models.motor.config import parse_femr, parse_haiku
from models.motor.network import Motor, build
from models.motor.vocabulary import Event, Ontology, Position, Vocabulary, position_before, training_targets

Made = dict[str, Tensor]
SLOT = "valid_tokens"  # only v0 cases hold padding


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises CaseError, MotorConfigError or CheckpointError."""
    return _kind(str(case.document.get("kind", "network")))(case)


def _kind(name: str) -> Callable[[GoldenCase], list[OutputResult]]:
    kinds: dict[str, Callable[[GoldenCase], list[OutputResult]]] = {
        "network": _network,
        "published checkpoint": _published,
        "tokenisation": _tokenisation,
        "task adapter": _adapter,
        "survival metrics": survival_results,
    }
    for start, kind in kinds.items():
        if name.startswith(start):
            return kind
    raise CaseError(f'kind: got "{name}", expected one of {", ".join(kinds)}')


def _network(case: GoldenCase) -> list[OutputResult]:
    network = _load(case.group("state"), case.config)
    inputs, expected = case.group("input"), case.group("output")
    with torch.inference_mode():
        made = _outputs(network, inputs, expected)
    if "event_time" not in inputs and "log2_time_in_bin" not in expected:
        expected.pop("loss", None)  # the case holds no labels to compute it from
    return _compared(case, made, expected)


def _compared(case: GoldenCase, made: Made, expected: Made) -> list[OutputResult]:
    return compare_outputs(case, made, dict(sorted(expected.items())))


def _load(state: Made, document: Mapping[str, Any]) -> Motor:
    layout = layout_of(state)
    if layout is None:
        raise CaseError("the state dict is of no published MOTOR layout")
    config = parse_haiku(document) if layout == "v0" else parse_femr(_without_words(document), layout)
    network = build(config)
    network.load_state_dict(translate(state, config).state, strict=True)
    return network


def _without_words(document: Mapping[str, Any]) -> dict[str, Any]:
    """Cases write infinity as the word "inf"."""
    plain: dict[str, Any] = json.loads(json.dumps(document).replace('"inf"', "Infinity"))
    return plain


def _outputs(network: Motor, inputs: Made, expected: Made) -> Made:
    """What the network makes of packed patients, under the cases' names."""
    representations = _represent(network, inputs)
    made = {"representations": representations}
    labels = inputs.get("label_indices")
    chosen = representations if labels is None else representations[labels]
    logits = network.head(chosen)
    made |= {"label_representations": chosen, "log2_hazard": logits, "hazard_per_minute": torch.exp2(logits)}
    horizons = inputs.get("horizons_seconds", inputs.get("horizons_minutes"))
    starts = torch.tensor(network.config.time_bins)
    if horizons is not None:
        made["cumulative_hazard"] = survival.cumulative_hazard(logits, starts, horizons)
        made["survival"] = survival.survival(logits, starts, horizons)
    if "event_time" in inputs:
        log2_time, is_event = _label_bins(inputs, starts)
        made |= {"log2_time_in_bin": log2_time, "is_event": is_event}
        made["loss"] = survival.loss(logits, log2_time, is_event).reshape(1)
    elif "log2_time_in_bin" in expected:
        made["loss"] = survival.loss(logits, expected["log2_time_in_bin"], expected["is_event"]).reshape(1)
    return made


def _label_bins(inputs: Made, starts: Tensor) -> tuple[Tensor, Tensor]:
    """log2 of the time at risk in each bin (half precision, as published) and where each event falls: [P, b, t]."""
    event_time, censor = inputs["event_time"], inputs["censor_time"].unsqueeze(-1)
    observed = event_time > 0
    until = torch.where(observed, event_time, censor)
    ends = torch.cat([starts[1:], starts.new_full((1,), math.inf)])
    until_bins = until.unsqueeze(1)
    low, high = starts.reshape(1, -1, 1), ends.reshape(1, -1, 1)
    at_risk = (torch.minimum(until_bins, high) - low).clamp(min=0)
    falls = observed.unsqueeze(1) & (until_bins >= low) & (until_bins < high)
    return torch.log2(at_risk).half().float(), falls.long()


def _represent(network: Motor, inputs: Made) -> Tensor:
    """Packed patients one by one: a row that holds one patient is what the service runs, too."""
    tokens, weights = _bags(inputs, len(inputs["ages"]))
    times = inputs.get("time_data", inputs.get("normalized_ages"))
    found = torch.zeros(len(inputs["ages"]), network.config.hidden)
    for first, last in _patients(inputs):
        here = slice(first, last)
        channels = None if times is None else times[here].reshape(1, last - first, -1)
        found[here] = network(tokens[None, here], weights[None, here], inputs["ages"][None, here], channels)[0]
    return found


def _patients(inputs: Made) -> list[tuple[int, int]]:
    """Where each patient's positions begin and end."""
    lengths = inputs.get("patient_lengths", inputs.get("subject_lengths"))
    if lengths is not None:
        return list(pairwise([0, *torch.cumsum(lengths, 0).tolist()]))
    if SLOT not in inputs:
        return [(0, len(inputs["ages"]))]
    valid, ages = inputs[SLOT].bool().tolist(), inputs["ages"].tolist()
    found: list[tuple[int, int]] = []
    for i, real in enumerate(valid):
        if real and found and found[-1][1] == i and ages[i] >= ages[i - 1]:
            found[-1] = (found[-1][0], i + 1)
        elif real:
            found.append((i, i + 1))
    return found


def _bags(inputs: Made, positions: int) -> tuple[Tensor, Tensor]:
    """Token ids [N, K] and weights, whichever way the case holds them; padded with weight 0."""
    if "tokens" in inputs:
        return inputs["tokens"].unsqueeze(-1), torch.ones(positions, 1)
    if "token_positions" in inputs:
        rows, ids, shares = inputs["token_positions"], inputs["token_rows"], inputs["token_weights"]
    else:
        counts = inputs["token_indices"].diff()
        rows = torch.repeat_interleave(torch.arange(positions), counts)
        ids, shares = inputs["hierarchical_tokens"], inputs["hierarchical_weights"]
    size = max(1, int(torch.bincount(rows, minlength=positions).max()))
    tokens, weights, used = (
        torch.zeros(positions, size, dtype=torch.long),
        torch.zeros(positions, size),
        [0] * positions,
    )
    for row, token, weight in zip(rows.tolist(), ids.tolist(), shares.tolist(), strict=True):
        tokens[row, used[row]], weights[row, used[row]] = token, weight
        used[row] += 1
    return tokens, weights


def _published(case: GoldenCase) -> list[OutputResult]:
    """A checkpoint folder as published: dictionary, configuration and weights beside the case."""
    folder = case.path.parent
    document = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = _load(dict(load_file(folder / "model.safetensors")), document)
    vocabulary = _vocabulary(folder / "dictionary.msgpack", case)
    stored = dict(load_file(folder / "expected.safetensors"))
    results = []
    with torch.inference_mode():
        for patient in case.document["patients"]:
            events = [_event(entry) for entry in patient["events"]]
            birth = next(e.time for e in events if e.code == case.document["birth_code"])
            made = _of_patient(network, vocabulary.positions(events, birth), patient["subject_id"])
            wanted = {n.removeprefix("output."): t for n, t in stored.items() if n.startswith("output.")}
            mine = {name: want for name, want in wanted.items() if name.startswith(f"{patient['subject_id']}.")}
            results += _compared(case, made, mine)
    return results


def _vocabulary(path: Path, case: GoldenCase) -> Vocabulary:
    dictionary = msgpack.unpackb(path.read_bytes(), strict_map_key=False)
    return Vocabulary(dictionary, Ontology(case.document["ontology_parents"]))


def _of_patient(network: Motor, positions: list[Position], subject: int) -> Made:
    """From events to hazards, the product's whole way."""
    size = max(len(p.tokens) for p in positions)
    tokens = torch.tensor([[*p.tokens, *[0] * (size - len(p.tokens))] for p in positions])
    weights = torch.tensor([[*p.weights, *[0.0] * (size - len(p.weights))] for p in positions])
    ages = torch.tensor([p.age_days for p in positions])
    times = torch.tensor([p.standardised_age for p in positions]).reshape(1, -1, 1)
    found = network(tokens[None], weights[None], ages[None], times)[0]
    return {f"{subject}.representations": found, f"{subject}.log2_hazard": network.head(found)}


def _event(entry: Mapping[str, Any]) -> Event:
    return Event(
        datetime.fromisoformat(entry["time"]),
        entry["code"],
        entry.get("numeric_value"),
        entry.get("text_value"),
        entry.get("unit"),
    )


def _tokenisation(case: GoldenCase) -> list[OutputResult]:
    document = case.document
    ontology = Ontology(document["ontology_parents"])
    vocabulary = Vocabulary(_without_words(document["dictionary"]), ontology)
    results = []
    for patient, wanted in zip(document["patients"], document["expected"], strict=True):
        events = [_event(entry) for entry in patient["events"]]
        birth = next(e.time for e in events if e.code == document.get("birth_code", "MEDS_BIRTH"))
        positions = vocabulary.positions(events, birth)
        found = {"positions": _as_positions(positions), "prediction_positions": _asked(positions, wanted)}
        found["targets"] = _as_targets(
            training_targets(events, positions, document["tasks"], ontology), document["tasks"]
        )
        expected = {"positions": _as_positions_expected(wanted), "prediction_positions": wanted["prediction_positions"]}
        expected["targets"] = _as_targets_expected(wanted, document["tasks"])
        bound = {"positions": Tolerance(float(document["tolerance"]["age_days"]))}
        for name, rows in found.items():
            label = f"{wanted['subject_id']}.{name}"
            got, want = (torch.tensor(one, dtype=torch.float64) for one in (rows, expected[name]))
            results.append(compare(label, got, want, bound.get(name, Tolerance(0.0))))
    return results


def _asked(positions: list[Position], wanted: Mapping[str, Any]) -> list[int]:
    found = (position_before(positions, datetime.fromisoformat(time)) for time in wanted["prediction_times"])
    return list(dict.fromkeys(place for place in found if place is not None))


def _as_positions(positions: list[Position]) -> list[list[float]]:
    """One row a token: position, id, weight, age, standardised age."""
    return [
        [i, token, weight, p.age_days, p.standardised_age]
        for i, p in enumerate(positions)
        for token, weight in zip(p.tokens, p.weights, strict=True)
    ]


def _as_positions_expected(wanted: Mapping[str, Any]) -> list[list[float]]:
    return [
        [i, token, weight, p["age_days"], p["normalized_age"]]
        for i, p in enumerate(wanted["positions"])
        for token, weight in sorted(zip(p["tokens"], p["weights"], strict=True))
    ]


def _as_targets(targets: list[Any], tasks: list[str]) -> list[list[float]]:
    """One row a target: position, seconds to the end, seconds to each task (-1: none), single precision."""
    rows = [[t.position, t.censor_seconds, *(t.events.get(task, -1) for task in tasks)] for t in targets]
    return [[float(np.float32(value)) for value in row] for row in rows]


def _as_targets_expected(wanted: Mapping[str, Any], tasks: list[str]) -> list[list[float]]:
    return [
        [t["position"], t["censor_seconds"], *(t["events"].get(task, -1) for task in tasks)]
        for t in wanted["pretraining_targets"]
    ]


def _adapter(case: GoldenCase) -> list[OutputResult]:
    inputs, tolerance = case.document["inputs"], case.document["tolerance"]
    starts = np.array([float(edge) for edge in inputs["time_bins"] if not math.isinf(float(edge))])
    event = np.asarray(inputs["event"], dtype=bool)
    known = adapter.outcomes(np.asarray(inputs["time_seconds"], dtype=np.float64), event, starts)
    features = np.asarray(inputs["binned_features_with_one"], dtype=np.float64)
    results = []
    for wanted in case.document["expected"]:
        found = adapter.fit(features, known, float(wanted["l2"]))
        vector, loss = torch.from_numpy(found.vector), torch.tensor([found.loss], dtype=torch.float64)
        name, bound = f"l2={wanted['l2']:g}", Tolerance(float(tolerance["beta_atol"]))
        results.append(compare(f"{name}.beta", vector, torch.tensor(wanted["beta"], dtype=torch.float64), bound))
        expected = torch.tensor([wanted["loss_without_penalty"]], dtype=torch.float64)
        results.append(compare(f"{name}.loss", loss, expected, Tolerance(0.0, float(tolerance["loss_rtol"]))))
    return results
