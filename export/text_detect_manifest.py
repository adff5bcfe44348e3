"""What a detector's `artifact.json` says."""

from __future__ import annotations

from dataclasses import dataclass

from export.artifact import (
    Artifact,
    FileEntry,
    Manifest,
    Metric,
    Official,
    Paper,
    Runtime,
    Signature,
    Source,
    document,
)
from models.dna_gpt.detector import DetectorSpec

FAMILY, ARCHITECTURE = "text-detect", "dna-gpt"

PAPER = Paper(
    title="DNA-GPT: Divergent N-Gram Analysis for Training-Free Detection of GPT-Generated Text",
    venue="ICLR 2024",
    url="https://arxiv.org/abs/2305.17359",
)
OFFICIAL = Official(
    repository="Xianjun-Yang/DNA-GPT",
    commit="4130c939f1e302c8bf6fd0c9fea0d939a46fdd40",
    licence="MIT; the method is written from the paper, no code of the repository is here",
)
OFFICIAL_NAMES = {
    "ratio": "truncate_ratio",
    "regenerations": "regen_number",
    "temperature": "temperature",
    "regeneration_tokens": "max_new_tokens",
}


SIGNATURE = Signature(
    inputs=[document("request", "JSON, the body of /v1/text/detect")],
    outputs=[document("response", "JSON, the answer of that route")],
)


@dataclass(frozen=True, kw_only=True)
class DetectorFacts:
    """What a pressed detector is made of; `manifest` adds name and version."""

    spec: DetectorSpec
    generator: Artifact
    files: dict[str, FileEntry]

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest for a name and version."""
        spec = self.spec
        return Manifest(
            name=name,
            version=version,
            family=FAMILY,
            architecture=ARCHITECTURE,
            paper=PAPER,
            official=OFFICIAL,
            source=Source(
                file=self.generator.tag,
                format="artifact",
                sha256=self.generator.digest.removeprefix("sha256:"),
                tensors=0,
                notes=["no weights of its own: it asks the language model it names"],
            ),
            hyper_parameters={official: getattr(spec, ours) for ours, official in OFFICIAL_NAMES.items()},
            hyper_parameter_origins=dict.fromkeys(OFFICIAL_NAMES.values(), "option or default"),
            signature=SIGNATURE,
            request=f"one text or several, of {spec.fewest_words} words at least, English prose",
            pipeline=_pipeline(spec),
            settings=spec.as_settings(),
            runtime=Runtime(kind="engine", file=self.generator.tag),
            files=self.files,
            metrics=_metrics(spec),
        )


def _pipeline(spec: DetectorSpec) -> list[str]:
    return [
        f"read the first {spec.most_words} words; cut before the word after {spec.ratio:.0%} of them",
        f"log-probabilities of all tokens by {spec.generator.name}:{spec.generator.version}, in one pass",
        f"continue the first part {spec.regenerations} times at temperature {spec.temperature:g}, at most "
        f"{spec.regeneration_tokens} tokens",
        "scores: W (log-probabilities against the regenerations'), curvature and mean log-probability (one pass), "
        "n-gram overlaps by three weightings",
        "a calibrated threshold of that statistic and kind of text decides; without one the verdict is inconclusive",
    ]


def _metrics(spec: DetectorSpec) -> list[Metric]:
    return [
        Metric(
            name=f"auroc_{one.statistic}",
            value=one.area.value,
            data=f"calibration texts, {one.humans} human and {one.machines} machine",
            split=one.mode if not one.upstream else f"{one.mode}, {one.upstream}",
        )
        for one in spec.thresholds
    ]
