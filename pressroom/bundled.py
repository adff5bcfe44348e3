"""The checkpoints that come with the repository, pressed with their training data and recorded test errors.

Two forecasters, and on request the plug-ins trained with our recipes: LIFT around either of them, and ARM.

A second call finds the work done (`pressroom.stamps`). Any edit to the exporter or the networks presses again; the
same bytes give the same version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from export.artifact import Metric
from export.environment import versions
from export.errors import OptionError
from export.progress import Report, silent
from export.store import Stored
from pressroom import stamps

if TYPE_CHECKING:
    from export.forecast import ForecastJob

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
TRAINING_CSV = DATA / "ett" / "ETTh1.csv"
SPLIT = "ett-hourly"
OTHER_FAMILIES = ("llm", "prune", "detect")  # how the names of exporters begin that forecasters do not depend on


@dataclass(frozen=True)
class Bundled:
    """One bundled checkpoint: artifact name, architecture, the files' common stem, and the artifact LIFT is around."""

    name: str
    architecture: str
    stem: str
    backbone: str | None = None

    @property
    def checkpoint(self) -> Path:
        return DATA / "checkpoints" / f"{self.stem}.safetensors"

    @property
    def config(self) -> Path:
        return DATA / "checkpoints" / f"{self.stem}.json"


BUNDLED = (
    Bundled("itransformer-etth1", "itransformer", "itransformer_etth1_96_96"),
    Bundled("card-etth1", "card", "card_etth1_96_96"),
)
PLUGINS = (
    Bundled("lift-itransformer-etth1", "lift", "lift_itransformer_etth1_96_96", "itransformer-etth1"),
    Bundled("lift-card-etth1", "lift", "lift_card_etth1_96_96", "card-etth1"),
    Bundled("arm-etth1", "arm", "arm_etth1_96_96"),
)
WRAPPING = ("lift", "arm", "itransformer", "card", "patchtst", "dlinear")  # folders a plug-in's network comes from


def press_bundled(report: Report = silent, *, plugins: bool = False) -> list[Stored]:
    """Press (or find pressed) every bundled checkpoint. Raises OptionError outside a clone of the repository."""
    if not TRAINING_CSV.exists():
        raise OptionError("the bundled checkpoints are not here", "run this in a clone of the repository")
    chosen = (*BUNDLED, *PLUGINS) if plugins else BUNDLED
    return [stamps.once(one.name, _recipe(one), partial(_press, one, report)) for one in chosen]


def up_to_date(one: Bundled) -> Stored | None:
    """The artifact an earlier call pressed from exactly the same inputs, if it is still whole."""
    return stamps.up_to_date(one.name, _recipe(one))


def job(one: Bundled) -> ForecastJob:
    """Everything its export is told: training data, split, recorded metrics; errors are measured again."""
    from export.forecast import ForecastJob
    from export.forecast_data import DataOptions
    from export.hyperparameters import Stated

    return ForecastJob(
        architecture=one.architecture,
        checkpoint=one.checkpoint,
        name=one.name,
        backbone=one.backbone,
        stated=Stated(config=one.config),
        data=DataOptions(data=TRAINING_CSV, split=SPLIT),
        evaluate=True,
        extra_metrics=_recorded_metrics(one),
    )


def _press(one: Bundled, report: Report) -> Stored:
    from export.forecast import press

    return press(job(one), report).stored


def _recipe(one: Bundled) -> str:
    """Digest of all an export of this checkpoint depends on."""
    networks = WRAPPING if one in PLUGINS else (one.architecture,)
    folders = ("export", "models/forecasting", *(f"models/{network}" for network in networks))
    sources = [path for folder in folders for path in sorted((ROOT / folder).glob("*.py"))]
    own = [path for path in sources if not path.name.startswith(OTHER_FAMILIES)]
    return stamps.recipe((one.checkpoint, one.config, TRAINING_CSV, *own), versions())


def _recorded_metrics(one: Bundled) -> tuple[Metric, ...]:
    """What the training run measured and what the paper prints, to be read beside our own measurement."""
    document: dict[str, Any] = json.loads(one.config.read_bytes())
    sources = (("checkpoint", "metrics_test"), ("paper", "paper_test"))
    return tuple(
        Metric.model_validate(
            {"name": name, "value": value, "data": TRAINING_CSV.name, "split": f"test ({SPLIT})", "origin": origin}
        )
        for origin, key in sources
        for name, value in document.get(key, {}).items()
    )
