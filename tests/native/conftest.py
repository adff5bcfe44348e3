"""The kernels at every level this processor has; without a compiler there are none, and the tests say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from packed_layers import packed_layer, pruned, weights

from models.packed.library import is_built

LEVELS = ("avx512", "avx2", "portable")
KERNEL_TESTS = ("test_packed_kernels.py", "test_packed_graph.py")


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
        packed_layer(pruned(weights(1, 4, short=True)))
    except Exception as error:
        if "cannot run" not in str(error):
            raise
        pytest.skip(f"this processor has no {name}")
    return name
