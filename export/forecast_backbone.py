"""LIFT's backbone as a stored artifact: where the hyper-parameters come from, and what the manifest says about it.

The weights inside a LIFT artifact are its own, so it runs alone. `settings.backbone` names the artifact they came from:
name, version, digest, architecture, and `weights`: "as pressed" if the backbone inside answers every case of that
artifact's certificate as the artifact itself did, within its tolerance, else "tuned".
"""

from __future__ import annotations

from typing import Any

from safetensors.numpy import load_file
from torch import nn

from export.artifact import Artifact, ArtifactError, open_artifact
from export.errors import OptionError
from export.parity import CASES_FILE, OUTPUT, Tolerance, compare
from export.parity_cases import Case
from export.runner import module_runner
from models.forecasting.architecture import ForecasterConfig
from models.forecasting.spec import ForecastSpec
from models.lift.backbones import BACKBONES
from models.lift.config import LIGHT, LiftConfig

AS_PRESSED, TUNED = "as pressed", "tuned"


def open_backbone(tag: str) -> Artifact:
    """The artifact NAME[:VERSION] that LIFT is put around. Raises OptionError."""
    name, _, version = tag.partition(":")
    try:
        return open_artifact(name, version or None)
    except ArtifactError as fault:
        raise OptionError(f"--backbone {tag}: {fault.message}", fault.hint) from None


def stated_by(artifact: Artifact) -> dict[str, Any]:
    """What a backbone's artifact says about the hyper-parameters of the LIFT around it."""
    model = next((official for official, r in BACKBONES.items() if r.name == artifact.manifest.architecture), None)
    if model is None:
        raise OptionError(
            f"--backbone {artifact.tag} is a {artifact.manifest.architecture}; LIFT is served around "
            + ", ".join(record.name for record in BACKBONES.values()),
            "leave --backbone out for LightMTS, LIFT's own light model",
        )
    reads = artifact.manifest.settings["calendar"] is not None
    marks = {"backbone_marks": int(reads)} if BACKBONES[model].takes_marks else {}
    return {**artifact.manifest.hyper_parameters, "model": model, **marks}


def refer(artifact: Artifact, network: nn.Module, config: ForecasterConfig) -> dict[str, Any]:
    """The manifest's entry. Raises OptionError where the artifact cannot be this network's backbone."""
    if not isinstance(config, LiftConfig) or config.backbone == LIGHT:
        raise OptionError("--backbone is for LIFT around a forecaster", "leave it out")
    spec = ForecastSpec.from_settings(artifact.manifest.settings)
    if (spec.look_back, spec.horizon) != (config.seq_len, config.pred_len):
        raise OptionError(
            f"--backbone {artifact.tag} forecasts {spec.horizon} steps from {spec.look_back}, "
            f"this LIFT {config.pred_len} from {config.seq_len}",
            "name the artifact LIFT was trained around",
        )
    manifest = artifact.manifest
    return {
        "name": manifest.name,
        "version": manifest.version,
        "digest": artifact.digest,
        "architecture": manifest.architecture,
        "weights": AS_PRESSED if _answers_alike(artifact, network.get_submodule("backbone"), spec) else TUNED,
    }


def _answers_alike(artifact: Artifact, backbone: nn.Module, spec: ForecastSpec) -> bool:
    recorded = artifact.read_json("parity.json")
    arrays, run = load_file(artifact.file(CASES_FILE)), module_runner(backbone)
    tolerance = Tolerance(**recorded["tolerance"])
    for entry in recorded["cases"]:
        name = entry["name"]
        if not entry["raw"]:
            continue
        case = Case(name, arrays[f"{name}/history"], arrays.get(f"{name}/wall_clock"))
        if not compare(run(case.tensors(spec)), arrays[f"{name}/{OUTPUT}"], 1.0, tolerance).holds:
            return False
    return True
