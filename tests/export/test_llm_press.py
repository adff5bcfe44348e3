"""A tiny Llama pressed at every precision, and what it answers against transformers; what stands in the artifact."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from tiny_llm import CHAT_TEMPLATE, CONTEXT, make_tiny_llama
from tokenizers import Tokenizer

from export.artifact import Artifact, open_artifact
from export.hugging_face import load_network, load_tokenizer
from export.llm import LlmJob, press
from export.llm_cases import SCRIPTS
from export.llm_example import Completer, largest_difference
from export.llm_graph import GRAPH, WEIGHTS
from export.llm_parity import BOUNDS, breach, recheck, totals
from export.llm_runner import GraphRunner
from models.llm.spec import LanguageModelSpec, Precision
from models.packed.library import is_built

Press = Callable[..., Artifact]


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose embedding is its head."""
    return make_tiny_llama(tmp_path_factory.mktemp("tied") / "model", tie_word_embeddings=True)


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_llama(tmp_path_factory.mktemp("mistral") / "model", kind="Mistral", head_dim=16)


@pytest.fixture(scope="module")
def pressed(tied: Path, mistral: Path, llm_store: Path) -> Callable[[Precision], Artifact]:
    """pressed(precision) -> an artifact, pressed once for this file: of `tied`, int4 of `mistral`."""
    kept: dict[str, Artifact] = {}

    def find(precision: Precision) -> Artifact:
        if precision not in kept:
            name = f"tied-{precision}"
            model = str(mistral if precision == "int4" else tied)
            press(LlmJob(model=model, name=name, precision=precision, windows=2, licence="CC0-1.0"))
            kept[precision] = open_artifact(name)
        return kept[precision]

    return find


def spec_of(artifact: Artifact) -> LanguageModelSpec:
    return LanguageModelSpec.from_settings(artifact.manifest.settings)


def test_float32_answers_as_transformers_does_token_for_token(tied: Path, pressed: Any) -> None:
    """Prompts of 1 to 200 tokens, 24 greedy tokens each: logits within 1e-4, tokens equal."""
    artifact = pressed("fp32")
    network, tokenizer = load_network(tied), load_tokenizer(tied)
    text = "Wisdom begins in wonder, and a long prompt needs more words than a short one does. " * 6
    for length in (1, 2, 31, 130, 200):
        prompt = tokenizer(text)["input_ids"][:length]
        runner = GraphRunner(artifact.file(GRAPH), spec_of(artifact), rows=1, capacity=CONTEXT)
        logits, tokens = runner.last(0, prompt), []
        for _ in range(24):
            tokens.append(int(logits.argmax()))
            logits = runner.step(tokens[-1:])[0]
        with torch.inference_mode():
            expected = network(torch.tensor([prompt + tokens])).logits[0].numpy()
        assert len(prompt) == length
        assert tokens == expected[length - 1 : -1].argmax(axis=1).tolist()
        np.testing.assert_allclose(logits, expected[-1], atol=1e-4)


@pytest.mark.parametrize("kind", ["Qwen2", "Gemma", "Granite"])
def test_other_kinds_of_decoders_are_pressed_too(kind: str, llm_store: Path, tmp_path: Path) -> None:
    """Mistral is pressed as int4 in this file, Qwen3 when it was pruned."""
    folder = make_tiny_llama(tmp_path / kind, kind=kind, head_dim=16)
    pressed = press(LlmJob(model=str(folder), name=f"kind-{kind.lower()}", precision="fp32", windows=1))
    assert pressed.certificate["greedy"] == 1.0
    if kind == "Qwen2":  # its class adds an end token of its own, here number 320 of 0..319
        assert "token '<|endoftext|>' lies beyond the network's vocabulary and is left out" in pressed.notes
        written = Tokenizer.from_file(str(pressed.stored.path / "tokenizer.json"))
        assert max(written.encode("<|endoftext|>").ids) < 320
    assert open_artifact(pressed.stored.name).manifest.architecture == kind.lower()


@pytest.mark.parametrize("precision", ["fp32", "int8", "int4"])
def test_every_precision_keeps_its_bounds_on_seven_kinds_of_prompts(precision: Precision, pressed: Any) -> None:
    artifact = pressed(precision)
    recorded = artifact.read_json("parity.json")
    assert recorded["verdict"] == "ok"
    ways = ["pressroom", "onnxruntime"] if precision == "int8" and is_built() else ["onnxruntime"]
    names = ["short", "one-token", "code", "scripts", "long", "chat", "ragged-7"]
    assert [(case["kernels"], case["name"]) for case in recorded["cases"]] == list(product(ways, names))
    assert {case["rows"] for case in recorded["cases"]} == {1, 7}
    assert recorded["perplexity"]["ratio"] <= recorded["tolerance"]["perplexity_ratio"]
    again = recheck(artifact, spec_of(artifact))
    assert breach(totals(again), BOUNDS[precision]) is None
    assert totals(again).kl == pytest.approx(recorded["kl"], abs=1e-3)


def test_the_example_is_repeated_exactly_from_the_files_alone(pressed: Any) -> None:
    artifact = pressed("fp32")
    example = artifact.read_json("example.json")
    worst, holds = largest_difference(example, Completer(artifact.path, spec_of(artifact)))
    assert (holds, worst) == (True, pytest.approx(0, abs=1e-5))
    (choice,) = example["response"]["choices"]
    assert len(choice["tokens"]) == example["tolerance"]["first_tokens"] == example["request"]["max_tokens"]
    choice["tokens"][0] += 1
    assert not largest_difference(example, Completer(artifact.path, spec_of(artifact)))[1]


def test_tokens_come_out_the_same_from_the_tokenizers_library_alone(tied: Path, pressed: Any) -> None:
    alone = Tokenizer.from_file(str(pressed("fp32").file("tokenizer.json")))
    assert alone.encode(SCRIPTS).ids == load_tokenizer(tied)(SCRIPTS)["input_ids"]
    assert alone.decode(alone.encode(SCRIPTS).ids) == SCRIPTS


def test_the_manifest_says_what_serving_needs_and_where_the_weights_come_from(pressed: Any) -> None:
    manifest = pressed("int8").manifest
    assert (manifest.family, manifest.architecture, manifest.runtime.file) == ("llm", "llama", GRAPH)
    assert manifest.settings == {
        "vocabulary": 320, "layers": 2, "kv_heads": 2, "head_dim": 16, "context_length": 256, "precision": "int8",
        "bos_token": 0, "end_tokens": [1], "add_bos": True, "bos_text": "<s>", "eos_text": "</s>",
        "cache_dtype": "float32",
    }  # fmt: skip
    assert manifest.official.licence == "weights: CC0-1.0"
    assert (manifest.source.file, manifest.source.format, manifest.source.tensors) == (
        "model.safetensors", "safetensors", 20,
    )  # fmt: skip
    assert [spec.name for spec in manifest.signature.inputs] == ["request"]
    assert {metric.name for metric in manifest.metrics} == {"perplexity", "perplexity_before_export"}
    assert pressed("int8").file("chat_template.jinja").read_text() == CHAT_TEMPLATE


def test_tied_weights_are_stored_once(pressed: Any) -> None:
    """fp32: 4 bytes a weight, int8 little more than 1; rotary tables aside. The embedding is a quarter of all."""
    network, tables = 320 * 64 + 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128) + 5 * 64, 2 * 256 * 8 * 4
    size = {precision: pressed(precision).manifest.files[WEIGHTS].bytes for precision in ("fp32", "int8")}
    assert size["fp32"] - tables < 4.1 * network
    assert size["int8"] - tables < 1.3 * network


def test_the_graph_tells_nothing_of_the_machine_it_was_made_on(pressed: Any, tied: Path) -> None:
    model = onnx.load(pressed("int8").file(GRAPH), load_external_data=False)
    assert (model.producer_name, model.producer_version, model.doc_string) == ("pressroom", "", "")
    raw = pressed("int8").file(GRAPH).read_bytes()
    assert str(tied).encode() not in raw
    assert str(Path.home()).encode() not in raw


def test_pressing_again_finds_the_same_artifact_and_leaves_no_file_behind(
    tied: Path, pressed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = pressed("int8")
    monkeypatch.chdir(tmp_path)
    again = press(LlmJob(model=str(tied), name="tied-int8", windows=2, licence="CC0-1.0"))
    assert (again.stored.unchanged, again.stored.digest) == (True, first.digest)
    assert again.peak_bytes > 50_000_000
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_row_of_a_ragged_batch_is_bit_for_bit_what_it_is_alone(pressed: Any) -> None:
    artifact = pressed("int8")
    prompts = [[0], [0, 5, 9], list(range(2, 160)), [7] * 40]
    together = GraphRunner(artifact.file(GRAPH), spec_of(artifact), rows=4, capacity=CONTEXT)
    for row, prompt in enumerate(prompts):
        together.last(row, prompt)
    stepped = together.step([3, 3, 3, 3])
    for row, prompt in enumerate(prompts):
        alone = GraphRunner(artifact.file(GRAPH), spec_of(artifact), rows=1, capacity=CONTEXT)
        alone.last(0, prompt)
        np.testing.assert_array_equal(stepped[row], alone.step([3])[0])


def test_settings_survive_the_manifest(pressed: Any) -> None:
    spec = spec_of(pressed("int4"))
    assert LanguageModelSpec.from_settings(json.loads(json.dumps(spec.as_settings()))) == spec
    assert spec.cache_bytes_per_token == 2 * 2 * 2 * 16 * 4
