"""A language model opened for pressing: folder, tokenizer, sizes, and the receipt if it was pruned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.errors import CheckpointFileError
from export.hugging_face import load_tokenizer
from export.llm_checks import check_folder, context_length, head_dim
from export.llm_folder import ModelFolder
from export.llm_receipt import Receipt, read_receipt
from export.llm_source import open_model
from export.llm_tokens import special_tokens
from export.progress import Report
from models.llm.spec import LanguageModelSpec, Precision


@dataclass(frozen=True)
class Model:
    """A readable, checked model."""

    folder: ModelFolder
    tokenizer: Any
    spec: LanguageModelSpec
    receipt: Receipt | None


def open_checked(model: str, precision: Precision, work: Path, report: Report) -> Model:
    """The model with its tokenizer, its sizes and, if it was pruned, its receipt. Raises ExportError."""
    folder = open_model(model, work, report)
    check_folder(folder)
    receipt = read_receipt(folder)
    tokenizer = load_tokenizer(folder.path)
    return Model(folder, tokenizer, make_spec(folder, tokenizer, precision), receipt)


def make_spec(folder: ModelFolder, tokenizer: Any, precision: Precision) -> LanguageModelSpec:
    """Sizes from config.json, special tokens from the tokenizer."""
    config, special = folder.config, special_tokens(folder, tokenizer)
    try:
        return LanguageModelSpec(
            vocabulary=config["vocab_size"],
            layers=config["num_hidden_layers"],
            kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
            head_dim=head_dim(config),
            context_length=context_length(config),
            precision=precision,
            bos_token=special.bos,
            end_tokens=special.ends,
            add_bos=special.add_bos,
            bos_text=special.bos_text,
            eos_text=special.eos_text,
        )
    except ValueError as error:
        raise CheckpointFileError(f"config.json and tokenizer disagree: {error}", "take both from one model") from error
