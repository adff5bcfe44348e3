"""The receipt: what pruning did to quality, size and speed, and what it did not, read off the written files.

Every matrix is read back from disk and held against the pattern; a matrix that breaks it fails the run. Gains are
claimed only where the measured ratio beyond noise says so; everything else is listed under `not_gained` with why.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from export.environment import cpu_flags, versions
from export.errors import ExportError
from export.llm_folder import ModelFolder, Tensors
from export.llm_speed import Speed, protocol
from export.prune_layers import GATHER, NONE
from export.prune_plan import CHANNELS, STRUCTURED, SURGEON, PruneJob
from export.prune_write import PERMUTATIONS
from models.llm.blocks import ATTENTION, MLP, matrix_name

FORMAT = 1
NOISE = 0.05  # ratios within this of 1 are no gain


@dataclass(frozen=True)
class Perplexity:
    """Before and after, on a named text."""

    text: str
    sha256: str
    windows: int
    tokens: int
    computed_in: str
    dense: float
    pruned: float
    same_as_calibration: bool


@dataclass(frozen=True)
class Twins:
    """Sizes in bytes, and speeds where they were measured."""

    dense_bytes: int
    pruned_bytes: int
    speed: dict[str, Speed] | None


def matrices(
    dense: Tensors, out: ModelFolder, layers: int, job: PruneJob, facts: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One entry a matrix, read from the written files. facts: what was done to each layer's matrices."""
    orders = load_file(out.path / PERMUTATIONS) if (out.path / PERMUTATIONS).is_file() else {}
    found = []
    for index in range(layers):
        for part in (*ATTENTION, *MLP):
            name = matrix_name(index, part)
            known = facts[index].get(part, {"permutation": NONE})
            entry = _matrix(name, out.read(name), orders.get(name), known, job)
            if job.pattern == STRUCTURED:
                entry["verified"] = _only_structures(out.read(name), dense.read(name))
            found.append(entry)
    if broken := [entry["name"] for entry in found if not entry["verified"]]:
        raise ExportError(f"{broken[0]} breaks the pattern it was pruned to", "this is a fault here; please report it")
    return found


def _matrix(name: str, weight: Tensor, order: Tensor | None, known: dict[str, Any], job: PruneJob) -> dict[str, Any]:
    zeros = weight == 0
    rows, columns = int(zeros.all(dim=1).sum()), int(zeros.all(dim=0).sum())
    entry = {
        "name": name,
        "shape": list(weight.shape),
        "zeros": int(zeros.sum()),
        "sparsity": round(float(zeros.float().mean()), 6),
        "zero_rows": rows,
        "zero_columns": columns,
        "verified": _keeps(weight if order is None else weight[:, order], job),
    }
    return entry | {"pattern": pattern_words(job)} | known


def _keeps(weight: Tensor, job: PruneJob) -> bool:
    """Does a matrix, in the order its pattern holds in, obey it?"""
    if job.is_layerwise:
        return job.rule.obeyed_by(weight)
    if job.is_nm and job.share == job.nm.sparsity:
        return job.nm.obeyed_by(weight)
    return True  # channels: shapes say it; the surgeon's unstructured threshold speaks of the whole network


def _only_structures(weight: Tensor, dense: Tensor) -> bool:
    """Do all new zeros lie in rows and columns that are zero throughout? Quantised models bring zeros of their own."""
    live = (weight != 0).any(dim=1)[:, None] & (weight != 0).any(dim=0)
    return not bool(((weight == 0) & live & (dense != 0)).any())


def pattern_words(job: PruneJob) -> str:
    """The pattern as a receipt names it."""
    if job.pattern == CHANNELS:
        return f"channels {job.share:g}" + (f", {job.kv_groups} attention groups" if job.kv_groups else "")
    if job.pattern == STRUCTURED or (job.method == SURGEON and not job.is_nm):
        return f"{job.pattern} {job.share:g} of the network"
    return str(job.rule) if job.method != SURGEON else f"{job.pattern} in {job.share:g} of the network"


def totals(entries: list[dict[str, Any]], dense_weights: int, job: PruneJob) -> dict[str, Any]:
    """Of all prunable weights: how many are left, against what was asked."""
    stored = sum(entry["shape"][0] * entry["shape"][1] for entry in entries)
    nonzero = stored - sum(entry["zeros"] for entry in entries)
    return {
        "dense_weights": dense_weights,
        "stored_weights": stored,
        "nonzero_weights": nonzero,
        "removed": round(1 - nonzero / dense_weights, 6),
        "asked": job.share,
        "asked_of": "MLP channels" if job.pattern == CHANNELS else "weights in decoder layers",
    }


def gains(twins: Twins, entries: list[dict[str, Any]], job: PruneJob) -> tuple[list[str], list[dict[str, str]]]:
    """(gained, not gained with why), from measured numbers only."""
    gained: list[str] = []
    missed: list[dict[str, str]] = []
    size = twins.pruned_bytes / twins.dense_bytes
    _weigh(f"file size and memory for weights: {size:.3f} of dense", size < 1 - NOISE, _why_size(job), gained, missed)
    if twins.speed is None:
        missed.append({"what": "speed", "why": "not measured in this run"})
    else:
        dense, pruned = twins.speed["dense"], twins.speed["pruned"]
        ratio = pruned.tokens_per_cpu_second / dense.tokens_per_cpu_second
        _weigh(f"tokens per CPU second: {ratio:.2f} of dense", ratio > 1 + NOISE, _why_speed(job), gained, missed)
        first = pruned.ttft_ms / dense.ttft_ms
        _weigh(f"time to first token: {first:.2f} of dense", first < 1 - NOISE, _why_speed(job), gained, missed)
    if size >= 1 - NOISE:
        missed.append({"what": "loading time", "why": "as many bytes are read as before (not timed)"})
    if any(entry["permutation"] == GATHER for entry in entries):
        why = "q, k, v, o, gate and up keep their inputs' order in the file; a 2:4 kernel must gather x[p] first"
        missed.append({"what": "the stored order obeys the pattern everywhere", "why": f"{why} ({PERMUTATIONS})"})
    return gained, missed


def _weigh(what: str, is_gain: bool, why: str, gained: list[str], missed: list[dict[str, str]]) -> None:
    if is_gain:
        gained.append(what)
    else:
        missed.append({"what": what, "why": why})


def _why_size(job: PruneJob) -> str:
    if job.pattern == CHANNELS:
        return "embeddings, head and attention keep their size; only what was cut off is saved"
    why = "zeros are stored like any other number, so that every loader reads the file"
    return f"{why}; {_PACKED}" if _packs(job) else why


def _why_speed(job: PruneJob) -> str:
    if job.pattern == CHANNELS:
        return "the matrices that became smaller are a part of the time; the rest is unchanged"
    if job.is_nm:
        pays = _PACKED if _packs(job) else f"{job.pattern} pays with a packed kernel or sparse tensor cores only"
        return f"stock CPU kernels multiply zeros too; {pays}"
    return "stock kernels multiply zeros too; scattered zeros or unaligned rows let none be skipped"


_PACKED = "press it with --precision packed-2:4, which packs what is left and has kernels for it"


def _packs(job: PruneJob) -> bool:
    """Is every matrix 2:4?"""
    return job.is_nm and str(job.nm) == "2:4" and job.share == job.nm.sparsity


def receipt(
    job: PruneJob,
    model: dict[str, Any],
    entries: list[dict[str, Any]],
    total: dict[str, Any],
    texts: dict[str, Any],
    twins: Twins,
    run: dict[str, Any],
) -> dict[str, Any]:
    """The document. texts: perplexity and calibration; run: seconds and memory."""
    gained, missed = gains(twins, entries, job)
    speed = None if twins.speed is None else {name: asdict(one) for name, one in twins.speed.items()}
    return {
        "format": FORMAT,
        "model": model,
        "method": job.settings() | {"pattern": pattern_words(job)},
        **texts,
        "total": total,
        "size": {"dense_bytes": twins.dense_bytes, "pruned_bytes": twins.pruned_bytes},
        "speed": None if speed is None else speed | {"protocol": protocol(), "host": _host()},
        "gained": gained,
        "not_gained": missed,
        "run": run | {"versions": versions() | {"transformers": _version("transformers")}},
        "matrices": entries,
    }


def _host() -> dict[str, Any]:
    return cpu_flags() | {"system": platform.system(), "torch_threads": torch.get_num_threads()}


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)
