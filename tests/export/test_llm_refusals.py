"""What is no language model that can be pressed is refused in words, before anything is stored."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_llm import make_tiny_llama

from export import llm, llm_parity
from export.artifact import stored_versions
from export.errors import CheckpointFileError, ExportError, OptionError, ParityError
from export.llm import LlmJob, press
from export.llm_checks import context_length
from export.llm_folder import ModelFolder
from models.llm.spec import Precision

Invoke = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_llama(tmp_path_factory.mktemp("sound") / "model")


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(sound, tmp_path / "model"))


def change_config(folder: Path, **entries: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | entries))


def change_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def refusal(folder: Path, kind: type[ExportError] = CheckpointFileError, **settings: Any) -> str:
    with pytest.raises(kind) as caught:
        press(LlmJob(model=str(folder), name="refused", **settings))
    assert caught.value.hint
    return f"{caught.value.message} / {caught.value.hint}"


pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' cannot be pressed / supported: llama, mistral, qwen2"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "is not a language model of type llama"),
        ({"quantization_config": {"quant_method": "gptq"}}, "the weights are quantised (gptq)"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rotary embedding 'yarn'"),
        ({"max_position_embeddings": 20}, "a context of 20 tokens is too short"),
        ({"head_dim": 24}, "heads of 24 numbers cannot be pressed / expected a multiple of 16"),
        ({"vocab_size": None}, "vocab_size is None, expected a number"),
    ],
)
def test_a_config_that_cannot_be_pressed_is_refused_by_name(entries: dict[str, Any], words: str, folder: Path) -> None:
    change_config(folder, **entries)
    assert words in refusal(folder)
    assert stored_versions() == {}


def test_layers_of_different_widths_are_refused_with_the_layer(folder: Path) -> None:
    change_tensors(folder, lambda t: t.update({"model.layers.1.mlp.up_proj.weight": torch.zeros(96, 64)}))
    assert "mlp.up_proj is [96, 64] in layer 1, [128, 64] in layer 0" in refusal(folder)


def test_integer_weights_are_refused_with_the_tensor(folder: Path) -> None:
    change_tensors(folder, lambda t: t.update({"model.norm.weight": torch.zeros(64, dtype=torch.int8)}))
    assert "model.norm.weight is stored as I8: quantised weights" in refusal(folder)


def test_pickled_weights_are_refused_unopened(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02cos\nsystem\n")
    assert "only pickled weights (pytorch_model.bin)" in refusal(folder)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert "no usable tokenizer" in refusal(folder)


def test_a_tokenizer_with_more_tokens_than_the_network_is_refused(folder: Path) -> None:
    change_config(folder, vocab_size=300)
    assert "the tokenizer knows 320 tokens, the network 300" in refusal(folder)


def test_a_chat_template_that_fails_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ raise_exception('system first') }}")
    assert "the chat template fails on a user's question: system first" in refusal(folder, windows=1)


def test_a_receipt_that_was_copied_beside_other_weights_is_refused(folder: Path) -> None:
    entry = {"name": "model.layers.0.mlp.up_proj.weight", "shape": [128, 64], "zeros": 4096}
    (folder / "receipt.json").write_text(json.dumps({"format": 1, "matrices": [entry], "size": {}}))
    assert "does not belong to these weights: model.layers.0.mlp.up_proj.weight is [128, 64] with 0 zeros" in refusal(
        folder
    )


def test_a_receipt_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "receipt.json").write_text("[]")
    assert "receipt.json is not a receipt this version reads" in refusal(folder)


def test_a_breach_of_the_bounds_stores_nothing(
    folder: Path, tiny_llm_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is the shared store's, of the same model: building it again would show nothing more."""

    def built_before(model: ModelFolder, precision: Precision, made: Path, files: Path) -> int:
        (graph,) = (tiny_llm_home / "models" / f"tiny-{precision}").glob("*/model.onnx")
        for file in (graph, graph.with_name("model.onnx.data")):
            shutil.copyfile(file, files / file.name)
        return 22

    monkeypatch.setattr(llm, "make_graph", built_before)
    impossible = llm_parity.Bounds(logprob=None, kl=1e-9, top1=0.0, greedy=0.0, perplexity_ratio=9.0)
    monkeypatch.setitem(llm_parity.BOUNDS, "int8", impossible)
    assert "parity breach (int8): mean divergence is" in refusal(folder, ParityError, windows=1)
    assert stored_versions() == {}


def test_words_that_mean_nothing_are_misuse(invoke: Invoke, folder: Path) -> None:
    for arguments, words in (
        ((str(folder / "absent"), "--name", "x"), "no such model"),
        ((str(folder), "--name", "x", "--precision", "int3"), "precision 'int3' is not known"),
        ((str(folder), "--name", "No Name"), "--name 'No Name' cannot be used"),
        ((str(folder), "--name", "x", "--evaluation-windows", "0"), "at least one window"),
    ):
        done = invoke("export", "llm", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_a_sliding_window_ends_the_context_where_it_would_begin_to_slide() -> None:
    assert context_length({"max_position_embeddings": 32768, "sliding_window": 4096}) == 4096
    assert context_length({"max_position_embeddings": 512, "sliding_window": None}) == 512
    unused = {"max_position_embeddings": 512, "sliding_window": 64, "use_sliding_window": False}
    assert context_length(unused) == 512


def test_a_job_without_evaluation_windows_makes_no_sense() -> None:
    with pytest.raises(OptionError, match="at least one window"):
        LlmJob(model="smollm2", name="x", tokens=1)
