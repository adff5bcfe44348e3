"""The two checkpoints that come with the repository, pressed with their training data and recorded test errors.

A second call finds the work done: beside the store it keeps, per artifact, a digest of everything an export depends on
(input files, exporter and network sources, library versions). If that is unchanged and the artifact still opens with
every digest right, nothing is pressed. Any edit to those sources presses again; the same bytes give the same version.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.artifact import ArtifactError, Metric, open_artifact
from export.environment import versions
from export.errors import OptionError
from export.progress import Report, silent
from export.store import Stored, store_root

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
TRAINING_CSV = DATA / "ett" / "ETTh1.csv"
SPLIT = "ett-hourly"


@dataclass(frozen=True)
class Bundled:
    """One bundled checkpoint: artifact name, architecture, and the files' common stem."""

    name: str
    architecture: str
    stem: str

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


def press_bundled(report: Report = silent) -> list[Stored]:
    """Press (or find pressed) every bundled checkpoint. Raises OptionError outside a clone of the repository."""
    if not TRAINING_CSV.exists():
        raise OptionError("the bundled checkpoints are not here", "run this in a clone of the repository")
    return [up_to_date(one) or _press(one, report) for one in BUNDLED]


def _press(one: Bundled, report: Report) -> Stored:
    from export.forecast import ForecastJob, press
    from export.forecast_data import DataOptions
    from export.hyperparameters import Stated

    recipe = _recipe(one)
    job = ForecastJob(
        architecture=one.architecture,
        checkpoint=one.checkpoint,
        name=one.name,
        stated=Stated(config=one.config),
        data=DataOptions(data=TRAINING_CSV, split=SPLIT),
        evaluate=True,
        extra_metrics=_recorded_metrics(one),
    )
    stored = press(job, report).stored
    stamp = _stamp(one)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(json.dumps({"recipe": recipe, "version": stored.version, "digest": stored.digest}) + "\n")
    return stored


def up_to_date(one: Bundled) -> Stored | None:
    """The artifact an earlier call pressed from exactly the same inputs, if it is still whole."""
    try:
        stamp = json.loads(_stamp(one).read_bytes())
        if stamp["recipe"] != _recipe(one):
            return None
        artifact = open_artifact(one.name, stamp["version"])
    except (OSError, ValueError, KeyError, ArtifactError):
        return None
    if artifact.digest != stamp["digest"]:
        return None
    return Stored(one.name, artifact.manifest.version, artifact.digest, artifact.path, unchanged=True)


def _stamp(one: Bundled) -> Path:
    return store_root().parent / "pressroom" / f"bundled-{one.name}.json"


def _recipe(one: Bundled) -> str:
    """Digest of all an export of this checkpoint depends on."""
    folders = ("export", "models/forecasting", f"models/{one.architecture}")
    sources = [path for folder in folders for path in sorted((ROOT / folder).glob("*.py"))]
    state = hashlib.sha256(json.dumps(versions(), sort_keys=True).encode())
    for path in (one.checkpoint, one.config, TRAINING_CSV, *sources):
        state.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def _recorded_metrics(one: Bundled) -> tuple[Metric, ...]:
    """What the training run measured and what the paper prints, to be read beside our own measurement."""
    document: dict[str, Any] = json.loads(one.config.read_bytes())
    sources = (("checkpoint", "metrics_test"), ("paper", "paper_test"))
    return tuple(
        Metric.model_validate(
            {"name": name, "value": value, "data": TRAINING_CSV.name, "split": f"test ({SPLIT})", "origin": origin}
        )
        for origin, key in sources
        for name, value in document[key].items()
    )
