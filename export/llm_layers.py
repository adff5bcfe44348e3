"""A network whose decoder layers are empty until needed: memory is embeddings, head and one layer.

Everything outside the layers is loaded at once in float32; a layer is filled on entry and emptied on exit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from export.errors import CheckpointFileError
from export.hugging_face import transformers
from export.llm_folder import Tensors
from models.llm.blocks import NotLlamaStyleError, decoder_layers, projections

LAYERS = "model.layers."


class LayerwiseNetwork:
    """`network` runs as `models.llm.walk` needs it; `layer(i)` lends one layer with its weights.

    config    folder with config.json
    rest      where tensors outside the layers come from
    """

    def __init__(self, config: Path, rest: Tensors) -> None:
        from accelerate import init_empty_weights

        library = transformers()
        try:
            settings = library.AutoConfig.from_pretrained(config, local_files_only=True)
            with init_empty_weights():
                network = library.AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
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
        state = {name: rest.read(name).float() for name in names if not (tied and name == "lm_head.weight")}
        self.network.load_state_dict(state, strict=False, assign=True)
        if tied:
            embedding = self.network.get_submodule("model.embed_tokens")
            head = self.network.get_submodule("lm_head")
            head.register_parameter("weight", embedding.get_parameter("weight"))

    @contextmanager
    def layer(self, index: int, tensors: Tensors) -> Iterator[nn.Module]:
        """Layer `index` with weights in float32 while open. Raises CheckpointFileError where they do not fit."""
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
        """float32 tensors of a layer under its own names."""
        return {name: tensors.read(f"{LAYERS}{index}.{name}").float() for name in self.layers[index].state_dict()}

    def rest_names(self) -> list[str]:
        """Tensors outside the layers, as the checkpoint names them."""
        return [name for name in self.network.state_dict() if not name.startswith(LAYERS)]
