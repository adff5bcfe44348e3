"""A Llama of two layers in a Hugging Face folder, with a tokenizer, and a text it has never seen: made in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from export.hugging_face import transformers

LAYERS, WIDTH, CHANNELS, HEADS, GROUPS, VOCABULARY = 2, 32, 64, 4, 2, 96
TEXT = Path(__file__).parents[2] / "data" / "text" / "wikitext2_calibration.txt"


def tiny_network(seed: int = 0, kind: str = "Llama", **settings: Any) -> nn.Module:
    """float32, evaluation mode; large weights, so that predictions differ. kind: the family's name in transformers."""
    torch.manual_seed(seed)
    library = transformers()
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": CHANNELS,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "initializer_range": 0.2,
    }
    network: nn.Module = getattr(library, f"{kind}ForCausalLM")(getattr(library, f"{kind}Config")(**sizes | settings))
    return network.eval().requires_grad_(False)


def tiny_folder(folder: Path, dtype: torch.dtype = torch.float32, **settings: Any) -> Path:
    """The network and a byte-pair tokenizer of the same vocabulary, as transformers saves them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>"], limit_alphabet=60)
    tokenizer.train_from_iterator(TEXT.read_text(encoding="utf-8").splitlines()[:40], trainer)
    fast = transformers().PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>")
    fast.save_pretrained(folder)
    network: Any = tiny_network(**settings)
    network.to(dtype).save_pretrained(folder)
    return folder


def tiny_text(path: Path, lines: slice) -> Path:
    """Some lines of the calibration text as a file of its own."""
    path.write_text("\n".join(TEXT.read_text(encoding="utf-8").splitlines()[lines]), encoding="utf-8")
    return path
