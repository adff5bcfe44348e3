"""What a graph is tried on before it is served: rows drawn at random, or the caller's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from export.errors import DataError
from export.onnx_file import DATATYPES, Declared

BATCHES = ((1, 1.0), (2, 0.0), (3, 0.1), (5, 4.0), (7, 1.0))  # rows, and the scale of what is random
FREE_AXIS = 8  # size of an axis that the graph leaves free
_SEED = 2024

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

NUMPY = {name: onnx.helper.tensor_dtype_to_np_dtype(kind).type for kind, name in DATATYPES.items()}


@dataclass(frozen=True)
class Case:
    """One batch. inputs: name -> rows first."""

    name: str
    inputs: Arrays

    @property
    def rows(self) -> int:
        return len(next(iter(self.inputs.values())))


def plan_cases(inputs: Sequence[Declared], sample: Arrays | None) -> list[Case]:
    """Batches of 1, 2, 3, 5 and 7 rows.

    sample  rows of the caller's; they are repeated in turn where a batch needs more. None: floats are normal numbers
            times the scale of the batch, whole numbers and booleans are 0 or 1
    """
    generator = np.random.default_rng(_SEED)
    if sample is None:
        return [
            _case(rows, {one.name: _draw(one, rows, scale, generator) for one in inputs}) for rows, scale in BATCHES
        ]
    return [_case(rows, {name: _turn(values, rows) for name, values in sample.items()}) for rows, _ in BATCHES]


def _case(rows: int, inputs: Arrays) -> Case:
    return Case(f"batch_{rows}", inputs)


def _draw(one: Declared, rows: int, scale: float, generator: np.random.Generator) -> Array:
    dtype = NUMPY[one.datatype]
    shape = (rows, *(size if isinstance(size, int) else FREE_AXIS for size in one.shape[1:]))
    if np.issubdtype(dtype, np.floating):
        return np.round(generator.standard_normal(shape) * scale, 4).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def _turn(values: Array, rows: int) -> Array:
    return values[np.arange(rows) % len(values)]


def read_sample(path: Path, inputs: Sequence[Declared]) -> Arrays:
    """Rows of every input from an .npz file. Raises DataError naming what does not fit the graph."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError):
        raise DataError(
            f"{path.name} is not an .npz file of plain arrays", "numpy.savez(FILE, INPUT=ROWS, ...)"
        ) from None
    expected = {one.name: one for one in inputs}
    if found.keys() != expected.keys():
        raise DataError(f"{path.name} holds {', '.join(found) or 'nothing'}", f"the inputs are {', '.join(expected)}")
    for name, one in expected.items():
        _check_sample(name, found[name], one, path)
    rows = [len(found[name]) for name in expected]
    if len(set(rows)) > 1 or not rows[0]:
        raise DataError(
            f"{path.name}: the inputs have {', '.join(map(str, rows))} rows",
            "give as many rows of every input, at least one",
        )
    return {name: np.ascontiguousarray(found[name]) for name in expected}


def _check_sample(name: str, values: Array, one: Declared, path: Path) -> None:
    if values.dtype != NUMPY[one.datatype]:
        raise DataError(f"{path.name}: {name} is {values.dtype}, the graph takes {one.datatype}")
    fits = values.ndim == len(one.shape) and all(
        not isinstance(wanted, int) or wanted == size for wanted, size in zip(one.shape, values.shape, strict=True)
    )
    if not fits:
        raise DataError(f"{path.name}: {name} has shape {list(values.shape)}, the graph takes {one.shape}")


def arrays_of(cases: Sequence[tuple[Case, Mapping[str, Array]]]) -> Arrays:
    """Inputs and reference outputs of every case, as they are kept with the artifact."""
    kept: Arrays = {}
    for case, reference in cases:
        kept |= {f"{case.name}/in/{name}": np.ascontiguousarray(values) for name, values in case.inputs.items()}
        kept |= {f"{case.name}/out/{name}": np.ascontiguousarray(values) for name, values in reference.items()}
    return kept
