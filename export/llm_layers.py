"""A network whose decoder layers are empty until needed: memory is embeddings, head and one layer.

Everything outside the layers is loaded at once; a layer is filled on entry and emptied on exit. Both are in the
precision that is computed in: float32, or bfloat16 as such models are trained and used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from export.environment import cpu_flags
from export.errors import CheckpointFileError
from export.hugging_face import transformers
from export.llm_folder import Tensors
from models.llm.blocks import NotLlamaStyleError, decoder_layers, projections

LAYERS = "model.layers."
NATIVE_BFLOAT16 = {"avx512_bf16", "amx_bf16"}  # CPU flags; without one, bfloat16 is slower than float32


def computing_dtype(asked: str, stored: str | None) -> torch.dtype:
    """asked: "float32", "bfloat16", or "auto": bfloat16 where it is stored so and this CPU multiplies it natively."""
    native = stored == "bfloat16" and bool(NATIVE_BFLOAT16 & set(cpu_flags()["flags"]))
    return torch.bfloat16 if asked == "bfloat16" or (asked == "auto" and native) else torch.float32


class LayerwiseNetwork:
    """`network` runs as `models.llm.walk` needs it; `layer(i)` lends one layer with its weights.

    config    folder with config.json
    rest      where tensors outside the layers come from
    dtype     what is computed in
    """

    def __init__(self, config: Path, rest: Tensors, dtype: torch.dtype = torch.float32) -> None:
        from accelerate import init_empty_weights

        library = transformers()
        self.dtype = dtype
        try:
            settings = library.AutoConfig.from_pretrained(config, local_files_only=True)
            with init_empty_weights():
                network = library.AutoModelForCausalLM.from_config(settings, dtype=dtype)
            layers = decoder_layers(network)
            projections(layers[0])
        except (OSError, ValueError, NotLlamaStyleError) as error:
            raise CheckpointFileError(f"{config}: {error}", "choose a Llama-style decoder") from error
        self.network: nn.Module = network.eval()
        self.layers = layers
        self._fill_rest(rest, tied=bool(settings.tie_word_embeddings))
        self.network.requires_grad_(False)

    def _fill_rest(self, rest: Tensors, *, tied: bool) -> None:
        names = [name for name in self.network.state_dict() if not name.startswith(LAYERS)]
        state = {name: rest.read(name).to(self.dtype) for name in names if not (tied and name == "lm_head.weight")}
        self.network.load_state_dict(state, strict=False, assign=True)
        if tied:
            embedding = self.network.get_submodule("model.embed_tokens")
            head = self.network.get_submodule("lm_head")
            head.register_parameter("weight", embedding.get_parameter("weight"))

    @contextmanager
    def layer(self, index: int, tensors: Tensors) -> Iterator[nn.Module]:
        """Layer `index` with its weights while open. Raises CheckpointFileError where they do not fit."""
        layer = self.layers[index]
        try:
            layer.load_state_dict(self.layer_state(index, tensors), strict=True, assign=True)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[-1].strip()
            raise CheckpointFileError(f"layer {index}: {first}", "config.json and tensors disagree") from error
        layer.requires_grad_(False)
        try:
            yield layer
        finally:
            layer.to("meta")

    def layer_state(self, index: int, tensors: Tensors) -> dict[str, Tensor]:
        """Tensors of a layer under its own names."""
        names = self.layers[index].state_dict()
        return {name: tensors.read(f"{LAYERS}{index}.{name}").to(self.dtype) for name in names}

    def rest_names(self) -> list[str]:
        """Tensors outside the layers, as the checkpoint names them."""
        return [name for name in self.network.state_dict() if not name.startswith(LAYERS)]
