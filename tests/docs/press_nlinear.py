"""Follows docs/add_architecture.md in a process and a store of its own: `python press_nlinear.py FOLDER`.

Presses an NLinear of random weights from a file written as its official program would, loads the artifact through the
service's family, and prints the largest difference between the served forecast and the definition of the network.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import torch

import models
from export.artifact import open_artifact
from export.forecast import ForecastJob, press
from export.forecast_data import DataOptions
from export.hyperparameters import Stated
from models.forecasting.registry import ARCHITECTURES, detect
from services.core.call import Call
from services.core.settings import Settings
from services.forecast import ForecastFamily

LOOK_BACK, HORIZON = 24, 6


def main(folder: Path) -> float:
    models.__path__.append(str(folder))  # where the page's file lies as nlinear/__init__.py
    ARCHITECTURES["nlinear"] = "models.nlinear"
    torch.set_num_threads(1)
    torch.manual_seed(7)
    state = torch.nn.ModuleDict({"Linear": torch.nn.Linear(LOOK_BACK, HORIZON)}).state_dict()
    assert detect(state) == "nlinear"
    torch.save(state, folder / "checkpoint.pth")
    options = DataOptions(scaler="none", freq="h")
    job = ForecastJob(
        architecture="nlinear", checkpoint=folder / "checkpoint.pth", name="nlinear-test", data=options,
        stated=Stated(flags=("enc_in=3",)),
    )  # fmt: skip
    pressed = press(job)
    assert pressed.certificate["verdict"] == "ok"
    return asyncio.run(difference(state))


async def difference(state: dict[str, torch.Tensor]) -> float:
    """Largest |served - defined| for one raw series of two columns, of which the model has never heard."""
    model = ForecastFamily().load(open_artifact("nlinear-test"), Settings())
    await model.warm_up()
    history = np.sin(np.arange(LOOK_BACK)[:, None] / [3.0, 5.0])
    values = {"a": history[:, 0].tolist(), "b": history[:, 1].tolist()}
    answer = await model.answer({"series": {"values": values}}, Call("test", "none", "test"))
    await model.close()
    weight, bias = state["Linear.weight"].numpy(), state["Linear.bias"].numpy()
    expected = weight @ (history - history[-1]) + bias[:, None] + history[-1]
    got = np.array([answer["series"][0]["values"][name] for name in values]).T
    return float(np.abs(got - expected).max())


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
