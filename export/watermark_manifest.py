"""What a watermarking scheme's `artifact.json` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from export.watermark_text import ProxyText
from models.balance_marking.scheme import MarkingScheme

FAMILY, ARCHITECTURE = "watermark", "balance-marking"

PAPER = Paper(
    title="Towards Codable Watermarking for Injecting Multi-Bits Information to LLMs",
    venue="ICLR 2024",
    url="https://arxiv.org/abs/2307.15992",
)
OFFICIAL = Official(
    repository="lancopku/codable-watermarking-for-llm",
    commit="e4826b8c310d06df8e2cd22bf32a8eee45b75dc1",
    licence="none stated: the method is written from the paper, no code or weights of the repository are here",
)
OFFICIAL_NAMES = {
    "message_bits": "message_code_len",
    "tokens_per_bit": "encode_ratio",
    "delta": "delta",
    "window": "lm_prefix_len",
    "hash_window": "hash_prefix_len",
    "permutations": "random_permutation_num",
    "top_k": "top_k",
}


SIGNATURE = Signature(
    inputs=[document("request", "JSON, the body of /v1/watermark/generate, /decode or /verify")],
    outputs=[document("response", "JSON, the answer of that route")],
)


@dataclass(frozen=True, kw_only=True)
class WatermarkFacts:
    """What a pressed scheme is made of; `manifest` adds name and version."""

    scheme: MarkingScheme
    generator: Artifact
    text: ProxyText
    pairs: int
    files: dict[str, FileEntry]

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest for a name and version."""
        scheme = self.scheme.as_settings()
        return Manifest(
            name=name,
            version=version,
            family=FAMILY,
            architecture=ARCHITECTURE,
            paper=PAPER,
            official=OFFICIAL,
            source=Source(
                file=self.text.name,
                format="text",
                sha256=self.text.sha256,
                tensors=5,
                notes=[f"bigram proxy of {self.text.tokens} tokens: {self.pairs} pairs"],
            ),
            hyper_parameters={official: scheme[ours] for ours, official in OFFICIAL_NAMES.items()},
            hyper_parameter_origins=dict.fromkeys(OFFICIAL_NAMES.values(), "option or default"),
            signature=SIGNATURE,
            request="a prompt and a message; or a text to be read, or to be checked for messages",
            pipeline=self._pipeline(),
            settings={"scheme": scheme, "generator": self._generator()},
            runtime=Runtime(kind="engine", file=self.generator.tag),
            files=self.files,
            metrics=[Metric(name="proxy_pairs", value=self.pairs, data=self.text.name, split="all", unit="pairs")],
        )

    def _generator(self) -> dict[str, Any]:
        manifest = self.generator.manifest
        return {"name": manifest.name, "version": manifest.version, "digest": self.generator.digest}

    def _pipeline(self) -> list[str]:
        one = self.scheme
        return [
            f"generate: the language model {self.generator.tag}; from the answer's token {one.window + 1} on, tokens "
            f"that are unavailable to the message lose {one.delta:g} logits, among the {one.top_k} likeliest, and "
            f"so do those more than {one.reach:g} logits below the likeliest (0: none)",
            f"{one.message_bits} bits take {one.tokens_needed(1)} tokens; longer messages follow segment by segment",
            f"read: text to tokens; of all {1 << one.message_bits} messages of a segment, the one to which most of the "
            "different pairs of neighbours were available; p-value of the best of them",
        ]
