"""What a record model's `artifact.json` says: request and answer in words, where everything came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from export.artifact import FileEntry, Manifest, Metric, Official, Paper, Runtime, Signature, Source, document
from models.motor.config import MotorConfig
from models.motor.spec import EhrSpec

FAMILY = "ehr"
COMMITS = {
    "v0": "b8d7d25154166a82e293c11bd2c1e1ef9160c11b",
    "v1": "f6c180712fcecf94e98a4055de7f1959439e1a77",
    "v2": "37a99749637b36777770064f87b071a1c74bffd0",
}  # of the program each layout is read from: tags 0.1.16 and 0.2.3, and the code of 0.2.4
PAPER = Paper(
    title="MOTOR: A Time-To-Event Foundation Model For Structured Medical Records",
    venue="ICLR 2024",
    url="https://arxiv.org/abs/2301.03150",
)


SIGNATURE = Signature(
    inputs=[document("request", "JSON, the body of /v1/ehr/predict")],
    outputs=[document("response", "JSON, the answer of that route")],
)


@dataclass(frozen=True, kw_only=True)
class EhrFacts:
    """What a pressed record model is made of; `manifest` adds name and version."""

    config: MotorConfig
    hyper_parameters: dict[str, Any]
    spec: EhrSpec
    source: Source
    licence: str
    runtime: Runtime
    files: dict[str, FileEntry]
    metrics: list[Metric]

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest for a name and version."""
        layout = self.config.layout
        return Manifest(
            name=name,
            version=version,
            family=FAMILY,
            architecture=f"motor-{layout}",
            paper=PAPER,
            official=Official(
                repository="https://github.com/som-shahlab/femr", commit=COMMITS[layout], licence=self.licence
            ),
            source=self.source,
            hyper_parameters=self.hyper_parameters,
            hyper_parameter_origins=dict.fromkeys(self.hyper_parameters, "config.json"),
            signature=SIGNATURE,
            request="patients' events under MEDS names, a birth, and a prediction time; tasks and horizons in days",
            pipeline=pipeline_in_words(self.config, self.spec),
            settings=self.spec.settings(),
            runtime=self.runtime,
            files=self.files,
            metrics=self.metrics,
        )


def hyper_parameters(config: MotorConfig) -> dict[str, Any]:
    """Sizes under their own names; the tasks' codes are a file of their own."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(config).items() if name != "tasks"}


def pipeline_in_words(config: MotorConfig, spec: EhrSpec) -> list[str]:
    """What is done with a request, step by step."""
    cut = f"the last {spec.reach} positions: no other can have an influence" if spec.reach else "all positions"
    return [
        "drop what is later than the prediction time; sort; count equal events once; refuse what cannot be meant",
        "events to bags of the dictionary's tokens" + (", ancestors included" if spec.hierarchical else ""),
        cut,
        f"network: features of {len(spec.time_bins)} time bins after the last position (layout {config.layout})",
        "task vectors to hazards; hazards to survival, risk and median time",
    ]
