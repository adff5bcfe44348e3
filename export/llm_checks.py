"""What makes a Hugging Face folder unfit to be pressed, found before any work is done.

Sizes are read off the headers of the weights; nothing is loaded.
"""

from __future__ import annotations

from typing import Any

from safetensors import safe_open

from export.errors import CheckpointFileError
from export.llm_cases import NEW
from export.llm_folder import ModelFolder
from models.llm.blocks import MLP, matrix_name

# config.json's model_type -> the class name the builder wants; every one is pressed in a test
SUPPORTED = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "granite": "GraniteForCausalLM",
}
ROPE = {"default", "llama3"}  # the builder leaves linear scaling out; others change with a text's length
HEAD_DIM = 16  # the attention kernel takes multiples of it
PLAIN = {"F32", "F16", "BF16"}
_SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")


def check_folder(folder: ModelFolder) -> None:
    """Raises CheckpointFileError with what is wrong and the way out."""
    config = folder.config
    _check_type(config)
    for name in _SIZES:
        if not isinstance(config.get(name), int):
            raise CheckpointFileError(f"config.json: {name} is {config.get(name)!r}, expected a number", "complete it")
    if context_length(config) <= 2 * NEW:
        message = f"a context of {context_length(config)} tokens is too short, expected more than {2 * NEW}"
        raise CheckpointFileError(message, "the certificate needs room for prompts and answers")
    if head_dim(config) % HEAD_DIM:
        message = f"heads of {head_dim(config)} numbers cannot be pressed"
        raise CheckpointFileError(message, f"expected a multiple of {HEAD_DIM}")
    _check_tensors(folder)


def context_length(config: dict[str, Any]) -> int:
    """Tokens served at most: a sliding window is not kept, so the context ends where it would begin to slide."""
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    return min(int(config["max_position_embeddings"]), int(window or config["max_position_embeddings"]))


def head_dim(config: dict[str, Any]) -> int:
    """Numbers of a head, as stated or as the widths say."""
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _check_type(config: dict[str, Any]) -> None:
    kind, known = config.get("model_type"), ", ".join(SUPPORTED)
    if kind not in SUPPORTED:
        raise CheckpointFileError(f"model_type {kind!r} cannot be pressed", f"supported: {known}")
    if config.get("architectures", [SUPPORTED[kind]])[:1] != [SUPPORTED[kind]]:
        message = f"architecture {config['architectures']} is not a language model of type {kind}"
        raise CheckpointFileError(message, f"expected {SUPPORTED[kind]}")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    style = rope.get("rope_type", rope.get("type", "default"))
    if style not in ROPE:
        message = f"rotary embedding {style!r} cannot be pressed"
        raise CheckpointFileError(message, f"supported: {', '.join(sorted(ROPE))}")


def _check_tensors(folder: ModelFolder) -> None:
    shapes: dict[str, list[int]] = {}
    for file in folder.weight_files:
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118  not a mapping
                part = opened.get_slice(name)
                shapes[name] = part.get_shape()
                if part.get_dtype() not in PLAIN:
                    hint = "give the full-precision checkpoint it was made from"
                    raise CheckpointFileError(f"{name} is stored as {part.get_dtype()}: quantised weights", hint)
    for part_name in MLP:
        first = shapes.get(matrix_name(0, part_name))
        for layer in range(1, folder.config["num_hidden_layers"]):
            found = shapes.get(matrix_name(layer, part_name))
            if found != first:
                hint = "one width for all layers is needed; `pressroom prune --pattern channels` keeps one"
                raise CheckpointFileError(f"{part_name} is {found} in layer {layer}, {first} in layer 0", hint)
