"""A Hugging Face folder -> the ONNX graph of onnxruntime-genai's model builder, for the CPU.

The builder is a program with modules named `builders` and `quantization`, prints what it does, and wants a cache
folder; so it runs as a process of its own, offline, in a folder that is thrown away. Its graph is then fitted by
`export.llm_graph`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from export.errors import ConversionError
from export.hugging_face import SETTINGS
from models.llm.spec import Precision

BUILT = "built"
SECONDS = 3600.0  # a model of some billion weights takes minutes
_OPTIONS: dict[Precision, tuple[str, ...]] = {
    "fp32": (),
    # Blocks of 32 take 1.25 times as long a token. From 128 on, a row alone is summed in another order than in a batch,
    # and its logits differ from then on.
    "int8": ("block_size=64",),
    "int4": ("algo_config=k_quant_mixed",),  # plain int4 loses three times as much perplexity
}


def build(source: Path, precision: Precision, scratch: Path) -> Path:
    """Folder in `scratch` with model.onnx and model.onnx.data. Raises ConversionError with the builder's last word."""
    out = scratch / BUILT
    program = [sys.executable, str(_builder()), "-i", str(source.resolve()), "-o", str(out.resolve())]
    program += ["-p", precision, "-e", "cpu", "-c", str((scratch / "cache").resolve())]
    program += ["--extra_options", "hf_token=false", *_OPTIONS[precision]]
    environment = os.environ | SETTINGS
    try:
        done = subprocess.run(
            program, cwd=scratch, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConversionError(f"the model builder took more than {SECONDS:.0f} s", "try a faster machine") from error
    if done.returncode:
        raise ConversionError(f"the model builder failed: {_last_line(done.stderr)}", "int8 and fp32 fail least")
    return out


def _builder() -> Path:
    """The builder's program; the package around it, which loads a runtime of its own, is not imported."""
    spec = importlib.util.find_spec("onnxruntime_genai")
    places = list(spec.submodule_search_locations or ()) if spec else []
    program = Path(places[0]) / "models" / "builder.py" if places else Path("builder.py")
    if not program.is_file():
        raise ConversionError("onnxruntime-genai is not installed", "pip install onnxruntime-genai (or `make setup`)")
    return program


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no word why"
