"""SmolLM2 pruned to 2:4 in every form, decoding through the backend that serves it.

Forms: fp32 and int8 as pressed, packed-2:4 of the bfloat16 checkpoint, and packed-2:4 of a checkpoint whose numbers
are no bfloat16 ones (the same weights times 1 + 2^-12), which keeps float32 values and a float32 head.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from export.hugging_face import load_tokenizer
from export.llm import make_graph
from export.llm_folder import ModelFolder
from export.llm_model import make_spec
from export.llm_pack import GRAPH, WEIGHTS
from export.prune import prune
from export.prune_plan import PruneJob
from models.llm.spec import PACKED, LanguageModelSpec, Precision
from services.core.runtime import RuntimeOptions
from services.generation.onnx_backend import OnnxBackend

PROMPT, STEPS, SLOTS, CHUNK = 64, 48, 8, 128
CAPACITY = 512
LONG = "packed-2:4, float32 values"
FORMS: dict[str, Precision] = {"fp32": "fp32", "int8": "int8", "packed-2:4": PACKED, LONG: PACKED}
MODEL_HEADINGS = (
    "form", "weights, MB", "of fp32", "of the bfloat16 checkpoint", "batch 1", "batch 8", "128-token prompt, CPU ms",
    "load, ms",
)  # fmt: skip


@dataclass(frozen=True)
class FormFigures:
    """One form: tokens per CPU second at batch 1 and 8, CPU seconds of a prompt, wall seconds of loading, bytes."""

    decode_1: float
    decode_8: float
    prompt_seconds: float
    load_seconds: float
    file_bytes: int
    checkpoint_bytes: int


def measure_model(kept: Path, rounds: int) -> dict[str, FormFigures]:
    """Press what is missing in `kept`, then let the forms take turns."""
    checkpoint, spec = _pressed(kept)
    loads, backends = {}, {}
    for form in FORMS:
        began = time.perf_counter()
        options = RuntimeOptions(threads=1)
        backends[form] = OnnxBackend(kept / form / GRAPH, spec, SLOTS, CAPACITY, CHUNK, options)
        loads[form] = time.perf_counter() - began
    what: tuple[Callable[[OnnxBackend], float], ...] = (_decode_one, _decode_eight, _prompt)
    found: dict[str, list[list[float]]] = {form: [[] for _ in what] for form in FORMS}
    for turn in range(rounds + 1):
        for form, backend in backends.items():
            for measure, numbers in zip(what, found[form], strict=True):
                value = measure(backend)
                if turn:  # the first warms
                    numbers.append(value)
    dense_bytes = checkpoint.weight_bytes()
    return {
        form: FormFigures(*(median(n) for n in found[form]), loads[form], _size(kept / form), dense_bytes)
        for form in FORMS
    }


def model_rows(figures: dict[str, FormFigures]) -> list[list[str]]:
    """The table's lines."""
    dense = figures["fp32"]
    return [
        [
            form,
            f"{one.file_bytes / 1e6:.0f}",
            f"{one.file_bytes / dense.file_bytes:.2f}",
            f"{one.file_bytes / one.checkpoint_bytes:.2f}",
            f"{one.decode_1:.0f} ({one.decode_1 / dense.decode_1:.2f} x)",
            f"{one.decode_8:.0f} ({one.decode_8 / dense.decode_8:.2f} x)",
            f"{1000 * one.prompt_seconds:.0f}",
            f"{1000 * one.load_seconds:.0f}",
        ]
        for form, one in figures.items()
    ]


def _decode_one(backend: OnnxBackend) -> float:
    return _decode(backend, 1)


def _decode_eight(backend: OnnxBackend) -> float:
    return _decode(backend, 8)


def _decode(backend: OnnxBackend, rows: int) -> float:
    """Greedy tokens per CPU second of `rows` sequences after a prompt, whose own cost is left out."""
    for slot in range(rows):
        logits = backend.prefill(slot, 0, list(range(1000 + slot, 1000 + slot + PROMPT)), False)
    tokens = np.full(rows, int(logits[-1].argmax()), np.int64)
    lengths = np.full(rows, PROMPT, np.int64)
    began = time.process_time()
    for _ in range(STEPS):
        tokens = backend.decode(0, tokens, lengths).argmax(axis=1)
        lengths += 1
    return rows * STEPS / (time.process_time() - began)


def _prompt(backend: OnnxBackend) -> float:
    """CPU seconds of a prompt of CHUNK tokens, fed at once."""
    began = time.process_time()
    backend.prefill(0, 0, list(range(1000, 1000 + CHUNK)), False)
    return time.process_time() - began


def _pressed(kept: Path) -> tuple[ModelFolder, LanguageModelSpec]:
    """The pruned checkpoint; every form's graph lies in kept/FORM when this returns."""
    kept.mkdir(parents=True, exist_ok=True)
    pruned = kept / "checkpoint"
    if not pruned.is_dir():
        half = kept / "unfinished"
        shutil.rmtree(half, ignore_errors=True)
        plan: dict[str, Any] = {
            "method": "magnitude",
            "pattern": "2:4",
            "speed": False,
            "evaluation_windows": 1,
            "tokens": 64,
        }
        prune(PruneJob(model="smollm2", out=half, **plan))
        half.rename(pruned)
    folder = ModelFolder(pruned, "smollm2")
    for form, precision in FORMS.items():
        if not (kept / form / GRAPH).is_file():
            with tempfile.TemporaryDirectory(dir=kept) as made:
                source = _lengthened(folder, Path(made) / "long") if form == LONG else folder
                (kept / form).mkdir(exist_ok=True)
                make_graph(source, precision, Path(made), kept / form)
    return folder, make_spec(folder, load_tokenizer(pruned), PACKED)


def _lengthened(folder: ModelFolder, target: Path) -> ModelFolder:
    """The checkpoint in float32 with numbers that need it."""
    from safetensors.torch import save_file

    target.mkdir()
    folder.copy_beside(target)
    config = {name: value for name, value in folder.config.items() if name not in ("dtype", "torch_dtype")}
    (target / "config.json").write_text(json.dumps(config | {"dtype": "float32", "torch_dtype": "float32"}))
    tensors = {name: folder.read(name).float() * (1 + 2**-12) for name in folder.files}
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return ModelFolder(target, folder.source)


def _size(folder: Path) -> int:
    return (folder / WEIGHTS).stat().st_size
