"""An official MOTOR folder, read: configuration, weights, dictionary, ontology, and the digest adapters attach to.

    config.json  model.safetensors  dictionary.msgpack      as femr writes them (v1, v2), or `pressroom convert` (v0)
    ontology.json                                           ours, optional: {code: [parent codes]}

femr takes its ontology from OHDSI Athena at run time and saves none of it; here it is pressed with the network, because
without the same ancestors a record becomes other tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
from torch import Tensor

from export.artifact import Source, sha256_file
from export.checkpoint_files import load_safetensors
from export.errors import CheckpointFileError, DataError, HyperParameterError
from models.motor.checkpoint import layout_of
from models.motor.config import Layout, MotorConfig, MotorConfigError, parse_femr, parse_haiku

CONFIG, WEIGHTS, DICTIONARY, ONTOLOGY = "config.json", "model.safetensors", "dictionary.msgpack", "ontology.json"
Parents = dict[str, list[str]]


@dataclass(frozen=True, kw_only=True)
class EhrSource:
    """A checkpoint folder. backbone: digest of its four parts, "sha256:<hex>"."""

    folder: Path
    document: dict[str, Any]
    layout: Layout
    config: MotorConfig
    state: dict[str, Tensor]
    dictionary: dict[str, Any]
    parents: Parents
    backbone: str
    source: Source


def read_source(folder: Path, ontology: Path | None = None) -> EhrSource:
    """Read and check a folder; ontology: a file in place of the folder's own. Raises ExportError."""
    for name in (CONFIG, WEIGHTS, DICTIONARY):
        if not (folder / name).is_file():
            raise CheckpointFileError(
                f"{folder.name}: {name} is missing",
                "give a femr folder with config.json, model.safetensors and dictionary.msgpack; "
                "femr 0.1 checkpoints go through `pressroom convert motor-v0` first",
            )
    state = dict(load_safetensors(folder / WEIGHTS))
    layout = layout_of(state)
    if layout is None:
        raise CheckpointFileError(f"{folder.name}: {WEIGHTS} holds no MOTOR network", "expected femr's tensor names")
    document, parents = _config(folder / CONFIG), read_ontology(ontology or folder / ONTOLOGY)
    return EhrSource(
        folder=folder,
        document=document,
        layout=layout,
        config=_parsed(document, layout),
        state=state,
        dictionary=read_dictionary(folder / DICTIONARY),
        parents=parents,
        backbone=backbone_digest(folder, parents),
        source=Source(
            file=f"{folder.name}/{WEIGHTS}",
            format="safetensors",
            sha256=sha256_file(folder / WEIGHTS),
            tensors=len(state),
        ),
    )


def backbone_digest(folder: Path, parents: Mapping[str, list[str]]) -> str:
    """What adapters attach to: configuration, weights, dictionary and ontology, "sha256:<hex>"."""
    parts = {name: sha256_file(folder / name) for name in (CONFIG, DICTIONARY, WEIGHTS)}
    parts[ONTOLOGY] = hashlib.sha256(dump_ontology(parents)).hexdigest()
    lines = "".join(f"{name} {parts[name]}\n" for name in sorted(parts))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def dump_ontology(parents: Mapping[str, list[str]]) -> bytes:
    """`ontology.json`: codes that have parents, sorted, the same bytes every time."""
    kept = {code: sorted(set(above)) for code, above in parents.items() if above}
    return (json.dumps(kept, indent=0, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_ontology(path: Path) -> Parents:
    """Parents by code from `ontology.json` or a MEDS `codes.parquet`; a file that is not there is an empty ontology."""
    if not path.exists():
        return {}
    if path.suffix == ".parquet":
        return _codes_parquet(path)
    try:
        document = json.loads(path.read_bytes())
        return {str(code): [str(parent) for parent in above] for code, above in document.items()}
    except (ValueError, AttributeError, TypeError):
        raise DataError(
            f"{path.name} is no ontology", "expected JSON {code: [parent codes]}, or codes.parquet"
        ) from None


def _codes_parquet(path: Path) -> Parents:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["code", "parent_codes"])
    except (pa.ArrowException, OSError):
        raise DataError(f"{path.name} holds no MEDS codes", "expected columns code and parent_codes") from None
    rows = zip(table["code"].to_pylist(), table["parent_codes"].to_pylist(), strict=True)
    return {code: list(above) for code, above in rows if above}


def read_dictionary(path: Path) -> dict[str, Any]:
    """The msgpack document. Raises CheckpointFileError."""
    try:
        document = msgpack.unpackb(path.read_bytes(), strict_map_key=False)
    except (ValueError, msgpack.UnpackException):
        document = None
    if not isinstance(document, dict):
        raise CheckpointFileError(f"{path.name} is no msgpack map", "expected femr's dictionary.msgpack")
    return document


def _config(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())  # femr writes a bare Infinity, which Python's reader knows
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise HyperParameterError(f"{path.name} is no JSON object", "expected femr's config.json")
    return document


def _parsed(document: dict[str, Any], layout: Layout) -> MotorConfig:
    try:
        return parse_haiku(document) if layout == "v0" else parse_femr(document, layout)
    except MotorConfigError as fault:
        raise HyperParameterError(f"{CONFIG}: {fault}", "check the configuration beside the weights") from None
