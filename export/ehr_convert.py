"""`pressroom convert motor-v0`: a femr 0.1 checkpoint -> the folder `pressroom export ehr` takes. Offline, opt in.

In   FOLDER/model/config.msgpack, FOLDER/model/best (a pickle, see `export.ehr_pickle`), FOLDER/dictionary
Out  config.json, model.safetensors (Haiku's names, `module/parameter`), dictionary.msgpack (entries by name and kind)
The dictionary's ages are minutes and become seconds. Codes of the tasks are not among the files femr 0.1 needs to run a
model; `codes` takes them from the batch information of its training run (`survival_dict`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from export.ehr_pickle import read_arrays
from export.ehr_source import CONFIG, DICTIONARY, WEIGHTS, read_dictionary
from export.errors import CheckpointFileError, HyperParameterError, OptionError

_KINDS = {0: "code", 1: "numeric", 2: "text", 3: "unused"}
_MINUTE = 60.0
_HINT = "expected femr 0.1's model/best"

Arrays = dict[str, npt.NDArray[Any]]


def convert_v0(folder: Path, out: Path, codes: Path | None = None) -> list[Path]:
    """Convert a folder; returns the files written. Raises ExportError; an existing file is not replaced."""
    model = folder / "model"
    for path in (model / "config.msgpack", model / "best", folder / "dictionary"):
        if not path.is_file():
            raise OptionError(f"{path.name} is missing in {folder.name}", "give a femr 0.1 folder: dictionary, model/")
    targets = [out / name for name in (CONFIG, WEIGHTS, DICTIONARY)]
    if held := [path for path in targets if path.exists()]:
        raise OptionError(f"{held[0].name} exists in {out.name}", "choose an empty folder")
    config = _config(model / "config.msgpack", codes)
    arrays = flatten(read_arrays((model / "best").read_bytes()))
    size = int(config["transformer"].get("vocab_size", 0))
    dictionary = modern_dictionary(
        read_dictionary(folder / "dictionary"), size, hierarchical=bool(config["transformer"].get("is_hierarchical"))
    )
    out.mkdir(parents=True, exist_ok=True)
    targets[0].write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    save_file(arrays, targets[1])
    targets[2].write_bytes(msgpack.packb(dictionary))
    return targets


def flatten(document: Any, prefix: str = "") -> Arrays:
    """Nested dicts of arrays -> `module/parameter` -> float32. Raises CheckpointFileError."""
    if not isinstance(document, Mapping):
        raise CheckpointFileError("the file holds no dicts of arrays", _HINT)
    found: Arrays = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{prefix}{name}/")
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            found[f"{prefix}{name}"] = np.ascontiguousarray(value, dtype=np.float32)
        else:
            raise CheckpointFileError(
                f"{prefix}{name}: expected floating-point arrays", "expected femr 0.1's model/best"
            )
    return found


def modern_dictionary(document: Mapping[str, Any], size: int, *, hierarchical: bool) -> dict[str, Any]:
    """femr 0.1's dictionary with the entries one network uses; ages in seconds. Raises CheckpointFileError."""
    if "vocab" in document:
        return dict(document)
    entries = document.get("ontology_rollup" if hierarchical else "regular")
    stats = document.get("age_stats")
    if not isinstance(entries, list) or not isinstance(stats, Mapping):
        raise CheckpointFileError("dictionary: expected regular, ontology_rollup and age_stats", "see femr 0.1.16")
    return {
        "vocab": [_entry(entry) for entry in entries[: size or None]],
        "is_hierarchical": hierarchical,
        "age_stats": {name: float(stats[name]) * _MINUTE for name in ("mean", "std")},
    }


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One entry with its kind in words; values belong to the code they were measured under."""
    kind = entry.get("type")
    kept = {"type": _KINDS.get(kind, kind) if isinstance(kind, int) else kind, "weight": entry.get("weight", 0.0)}
    names = {"code": (), "numeric": ("val_start", "val_end"), "text": ("text_string",)}.get(str(kept["type"]), ())
    return kept | {name: entry[name] for name in ("code_string", *names) if name in entry}


def _config(path: Path, codes: Path | None) -> dict[str, Any]:
    config = read_dictionary(path)
    if not all(isinstance(config.get(part), dict) for part in ("transformer", "task")):
        raise HyperParameterError("config.msgpack: expected transformer and task", "see femr 0.1.16")
    kept = {"transformer": config["transformer"], "task": config["task"]}
    if codes is not None:
        document = read_dictionary(codes)
        task = document.get("config", document).get("task", document)
        found = task.get("survival_dict", task).get("codes") if isinstance(task, dict) else None
        if not isinstance(found, list) or len(found) != kept["task"].get("num_codes"):
            raise OptionError(
                f"{codes.name} holds no {kept['task'].get('num_codes')} task codes", "give batch_info.msgpack"
            )
        kept["task"]["survival_dict"] = {"codes": found, "time_bins": kept["task"].get("time_bins")}
    return kept
