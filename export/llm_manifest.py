"""What a language model's `artifact.json` says: request and answer in words, where the weights come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from export.artifact import FileEntry, Manifest, Metric, Official, Paper, Runtime, Signature, Source, document
from models.llm.spec import LanguageModelSpec

FAMILY = "llm"


@dataclass(frozen=True, kw_only=True)
class LlmFacts:
    """What a pressed language model is made of; `manifest` adds name and version."""

    architecture: str
    paper: Paper
    official: Official
    source: Source
    config: dict[str, Any]
    spec: LanguageModelSpec
    opset: int
    chats: bool  # whether there is a chat template
    files: dict[str, FileEntry]
    metrics: list[Metric]

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest for a name and version."""
        return Manifest(
            name=name,
            version=version,
            family=FAMILY,
            architecture=self.architecture,
            paper=self.paper,
            official=self.official,
            source=self.source,
            hyper_parameters=self.config,
            hyper_parameter_origins=dict.fromkeys(self.config, "config.json"),
            signature=SIGNATURE,
            request=request_in_words(self.spec, chats=self.chats),
            pipeline=pipeline_in_words(self.spec, chats=self.chats),
            settings=self.spec.as_settings(),
            runtime=Runtime(kind="onnx", file="model.onnx", opset=self.opset),
            files=self.files,
            metrics=self.metrics,
        )


SIGNATURE = Signature(
    inputs=[document("request", "JSON, the body of /v1/completions or /v1/chat/completions")],
    outputs=[document("response", "JSON, the answer of that route")],
)


def described(config: dict[str, Any]) -> dict[str, Any]:
    """config.json's entries that say something about the network."""
    return {name: value for name, value in config.items() if not name.startswith("_") and name not in _ASIDE}


_ASIDE = {"architectures", "transformers_version", "torch_dtype", "use_cache"}


def request_in_words(spec: LanguageModelSpec, *, chats: bool) -> str:
    """What a client sends."""
    what = "a prompt, or the messages of a chat" if chats else "a prompt"
    return f"{what}; prompt and answer together at most {spec.context_length} tokens"


def pipeline_in_words(spec: LanguageModelSpec, *, chats: bool) -> list[str]:
    """What is done with it, step by step."""
    steps = ["write messages as text by the model's chat template"] if chats else []
    steps.append("text to tokens" + (f", {spec.bos_text!r} before a plain prompt" if spec.add_bos else ""))
    steps.append(f"network: logits of {spec.vocabulary} tokens after the last one, {spec.precision} weights")
    steps.append("processors, penalties, temperature, truncation; draw one token; again until an end token or a limit")
    return [*steps, "tokens to text"]
