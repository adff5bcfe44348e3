"""The receipt of `pressroom prune` beside the weights: does it belong to them, and what does it say in short.

A receipt that was copied beside other weights would make claims about quality that nobody measured; so every
matrix's shape and zeros are counted again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from export.artifact import Metric
from export.errors import CheckpointFileError
from export.llm_folder import ModelFolder

RECEIPT = "receipt.json"
FORMAT = 1


@dataclass(frozen=True)
class Receipt:
    """A receipt that fits its folder."""

    document: dict[str, Any]

    @property
    def method(self) -> str:
        """magnitude, wanda, ria or surgeon."""
        return str(self.document["method"]["method"])

    @property
    def source(self) -> str:
        """How the dense model was named when it was pruned."""
        return str(self.document["model"]["source"])

    @property
    def words(self) -> str:
        """What was done, in one line."""
        removed = self.document["total"]["removed"]
        return f"pruned with {self.method}, {self.document['method']['pattern']}: {removed:.4f} of the weights removed"

    def metrics(self) -> list[Metric]:
        """Share removed, sizes, and both perplexities where they were measured."""
        total, size, quality = (self.document[name] for name in ("total", "size", "perplexity"))
        found = [
            _metric("removed", total["removed"], "weights", "decoder layers"),
            _metric("weights_bytes_ratio", size["pruned_bytes"] / size["dense_bytes"], "weights", "all"),
        ]
        if quality:
            split, windows = f"{quality['tokens']} tokens", quality["windows"]
            for twin in ("dense", "pruned"):
                found.append(_metric(f"perplexity_{twin}", quality[twin], quality["text"], split, windows))
        return found


def read_receipt(folder: ModelFolder) -> Receipt | None:
    """The folder's receipt, if it has one. Raises CheckpointFileError where it does not describe these weights."""
    path = folder.path / RECEIPT
    if not path.is_file():
        return None
    hint = f"remove {RECEIPT} if the weights changed since they were pruned, or prune again"
    try:
        receipt = Receipt(json.loads(path.read_bytes()))
        if receipt.document["format"] != FORMAT:
            raise ValueError(f"format {receipt.document['format']}, expected {FORMAT}")
        found = _mismatch(folder, receipt.document["matrices"])
        if found is None:
            found = _wrong_size(folder, receipt.document["size"])
            _ = receipt.words, receipt.source, receipt.metrics()  # whatever is missing is missed now
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointFileError(f"{RECEIPT} is not a receipt this version reads ({error})", hint) from error
    if found:
        raise CheckpointFileError(f"{RECEIPT} does not belong to these weights: {found}", hint)
    return receipt


def _mismatch(folder: ModelFolder, entries: list[dict[str, Any]]) -> str | None:
    for entry in entries:
        name = entry["name"]
        if name not in folder.files:
            return f"it lists {name}, which is not there"
        weight = folder.read(name)
        shape, zeros = list(weight.shape), int((weight == 0).sum())
        if shape != entry["shape"] or zeros != entry["zeros"]:
            return f"{name} is {shape} with {zeros} zeros, it says {entry['shape']} with {entry['zeros']}"
    return None


def _wrong_size(folder: ModelFolder, size: dict[str, int]) -> str | None:
    found = folder.weight_bytes()
    return None if found == size["pruned_bytes"] else f"{found} bytes of weights, it says {size['pruned_bytes']}"


def _metric(name: str, value: float, data: str, split: str, windows: int | None = None) -> Metric:
    value = float(f"{value:.5g}")
    return Metric(name=name, value=value, data=data, split=split, windows=windows, origin="checkpoint")
