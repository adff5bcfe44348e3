"""Small networks with random weights, and the two trained checkpoints that come with the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from forecasters import CHECKPOINTS, SMALL, Bundled, randomise
from one_thread import one_thread  # noqa: F401 (a fixture of this folder)
from safetensors.torch import load_file
from torch import nn

from models.forecasting.registry import architecture


@pytest.fixture
def small() -> Callable[..., nn.Module]:
    """small("card", stride=4) -> a randomised network of the small configuration with these hyper-parameters."""

    def make(name: str, **changes: Any) -> nn.Module:
        found = architecture(name)
        return randomise(found.build(found.parse_config(SMALL[name] | changes)))

    return make


@pytest.fixture(scope="session")
def bundled() -> Callable[[str], Bundled]:
    """bundled("card") -> the trained ETTh1 checkpoint of that architecture."""

    def read(name: str) -> Bundled:
        stem = f"{name}_etth1_96_96"
        document = json.loads((CHECKPOINTS / f"{stem}.json").read_text())
        samples = load_file(CHECKPOINTS / f"{stem}_samples.safetensors")
        return Bundled(document, load_file(CHECKPOINTS / f"{stem}.safetensors"), samples)

    return read
