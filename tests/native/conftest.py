"""The kernels at every level this processor has; without a compiler there are none, and the tests say so."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from packed_layers import packed_layer, weights
from packed_layers import pruned as pruned_weights
from tiny_llm import TEXT, make_tiny_llama

from export.prune import prune
from export.prune_plan import PruneJob
from models.packed.library import is_built

LEVELS = ("avx512", "avx2", "portable")
KERNEL_TESTS = ("test_linear8.py", "test_packed_kernels.py", "test_packed_graph.py", "test_packed_artifact.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if is_built():
        return
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name in KERNEL_TESTS:
            item.add_marker(pytest.mark.skip(reason="packed kernels are not built: `make setup` needs a C++ compiler"))


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A level of the kernels, forced for the sessions of this test."""
    name: str = request.param
    monkeypatch.setenv("PRESSROOM_SIMD", name)
    try:
        packed_layer(pruned_weights(weights(1, 4, short=True)))
    except Exception as error:
        if "cannot run" not in str(error):
            raise
        pytest.skip(f"this processor has no {name}")
    return name


@pytest.fixture(scope="session")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama of tied bfloat16 weights, pruned to 2:4 by RIA with channel permutation."""
    folder = tmp_path_factory.mktemp("pruned")
    dense = make_tiny_llama(folder / "dense", dtype=torch.bfloat16, tie_word_embeddings=True)
    short = {"windows": 4, "tokens": 64, "evaluation_windows": 2, "speed": False, "compute": "float32"}
    text = {"calibration": TEXT, "evaluation": TEXT}
    out = folder / "pruned"
    prune(PruneJob(model=str(dense), out=out, method="ria", pattern="2:4", permute=True, **short, **text))
    return out
