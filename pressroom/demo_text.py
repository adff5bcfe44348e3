"""The demo's language models: one question to the dense model and to its pruned twin, and what the pruning cost.

Both are asked over the same HTTP routes; time is what the client saw.
"""

from __future__ import annotations

import textwrap
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pressroom.demo_report import print_aligned

if TYPE_CHECKING:
    from export.artifact import Artifact
    from export.store import Stored

QUESTION = "What is the capital of France, and what is it known for?"
TOKENS = 48
WIDTH = 100  # columns of printed text
CLOSING = """\
Half of the weights are gone, which a model this small pays for with its fluency, and this int8 graph is neither
smaller nor faster: stock kernels store and multiply zeros. `pressroom export llm FOLDER --precision packed-2:4`
stores and multiplies what is left; `pressroom inspect` shows receipts, docs/pruning.md has milder patterns."""


@dataclass(frozen=True)
class Told:
    """One model's answer. first_ms: until its first piece; rate: tokens a second after that, 0 for a single piece."""

    tag: str
    text: str
    tokens: int
    first_ms: float
    rate: float


def ask_twin(tag: str, url: str) -> Told:
    """Ask the question. Raises PressroomError."""
    from pressroom_client import Client

    messages = [{"role": "user", "content": QUESTION}]
    with Client(url) as client:
        client.ready()  # opens the connection, so that the time below is the request's
        began = time.perf_counter()
        stream = client.chat(messages, model=tag, max_tokens=TOKENS, temperature=0, stream=True)
        arrived = [time.perf_counter() for _ in stream]
    result = stream.result
    tokens = 0 if result.usage is None else result.usage.completion_tokens
    lasted = arrived[-1] - arrived[0]
    rate = (tokens - 1) / lasted if tokens > 1 and lasted > 0 else 0.0
    return Told(tag, result.text, tokens, (arrived[0] - began) * 1e3, rate)


def show_twins(stored: list[Stored], told: list[Told]) -> None:
    """A table of both, then what each said."""
    from export.artifact import open_artifact

    rows = [
        [one.name, *_figures(open_artifact(one.name, one.version)), f"{answer.first_ms:.0f}", f"{answer.rate:.0f}"]
        for one, answer in zip(stored, told, strict=True)
    ]
    headings = ["model", "removed", "perplexity before pruning", "after", "after export", "MB", "first ms", "tokens/s"]
    print_aligned(headings, rows, words=("model",))
    print(f"\nasked: {QUESTION}")
    for answer in told:
        print(f"{answer.tag}:")
        print(textwrap.indent(textwrap.fill(" ".join(answer.text.split()), WIDTH), "    "))
    print(f"\n{CLOSING}")


def _figures(artifact: Artifact) -> list[str]:
    """Share removed, perplexities and size; "-" for what a dense model has not."""
    found = {metric.name: metric.value for metric in artifact.manifest.metrics}
    size = sum(entry.bytes for entry in artifact.manifest.files.values())
    removed = f"{found['removed']:.2f}" if "removed" in found else "-"
    perplexities = (f"{found[name]:.1f}" if name in found else "-" for name in _PERPLEXITIES)
    return [removed, *perplexities, f"{size / 1e6:.0f}"]


_PERPLEXITIES = ("perplexity_dense", "perplexity_pruned", "perplexity")
