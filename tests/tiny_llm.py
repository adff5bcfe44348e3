"""A Llama of two layers with a byte-level tokenizer in a Hugging Face folder, seeded: pressed in seconds.

Every text has tokens (bytes at worst), characters fall into several tokens, `<s>` begins plain text, `</s>` ends it,
and there is a chat template. Weights are large, so that the likeliest token is clearly the likeliest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from export.hugging_face import transformers

VOCABULARY, WIDTH, LAYERS, HEADS, GROUPS, CHANNELS, CONTEXT = 320, 64, 2, 4, 2, 128, 256
BOS, EOS = "<s>", "</s>"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
TEXT = Path(__file__).parents[1] / "data" / "text" / "wikitext2_calibration.txt"


def make_tiny_llama(
    folder: Path, *, seed: int = 0, kind: str = "Llama", dtype: torch.dtype = torch.float32, **settings: Any
) -> Path:
    """Write config.json, model.safetensors and the tokenizer; returns the folder.

    kind      the family's name in transformers: Llama, Mistral, Qwen2, ...
    settings  further entries of config.json, e.g. tie_word_embeddings=True
    """
    library = transformers()
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": CHANNELS,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "initializer_range": 0.2,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    network = getattr(library, f"{kind}ForCausalLM")(getattr(library, f"{kind}Config")(**sizes | settings))
    torch.random.set_rng_state(state)
    network.to(dtype).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_tokenizer() -> Any:
    """320 tokens: the two special ones, all bytes, and the commonest pairs of a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[BOS, EOS], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT.read_text(encoding="utf-8").splitlines()[:40], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    return transformers().PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, chat_template=CHAT_TEMPLATE
    )
