"""docs/pruning.md: how to prune, what the table measured, and what to expect of a pruned model."""

from __future__ import annotations

from typing import Any

from benchmarks.pruning_promises import PROMISES, Values
from benchmarks.report import table, write_page

HEADINGS = ("model", "perplexity", "weights removed", "file, MB", "CPU seconds")
COMMAND = "python -m benchmarks.pruning --write-docs"

GUIDE = """# Pruning language models

```text
pressroom prune smollm2 --method ria --pattern 2:4 --permute \\
  --calibration data/text/wikitext2_calibration.txt --out out/smollm2-2-4
```

MODEL is a Hugging Face folder with safetensors (Llama, Mistral, Qwen2, Qwen3, SmolLM and their kin), a GGUF file,
or the word `smollm2`. What comes out is an ordinary folder that transformers and vLLM load, and `receipt.json`.
Nothing uses the network.

| pattern | methods | leaves |
| --- | --- | --- |
| `unstructured` | magnitude, wanda, ria, surgeon | zeros anywhere |
| `2:4`, `4:8`, any `N:M` | magnitude, wanda, ria, surgeon | at most N nonzero weights of every M inputs |
| `structured` | magnitude, surgeon | whole rows and columns zero; shapes stay |
| `channels` | magnitude, wanda, ria, surgeon | fewer MLP channels (`--kv-groups`: and heads), smaller matrices |

Layers are pruned one after another, each with activations from the pruned ones before it, so memory is about one
layer, the calibration's hidden states and one shard of the result; the surgeon needs the whole network and its
curvature. `--memory-cap 4GB` refuses to start beyond it. A stopped run goes on with `--resume` and writes the same
bytes.

`--permute` reorders input channels so that N:M costs less. The order of `down_proj`'s inputs is folded into
`gate_proj` and `up_proj`, which is exact; the other six matrices keep their inputs' order in the file, and
`pruning/permutations.safetensors` holds the order p in which W[:, p] obeys the pattern, for kernels that compute
W[:, p] x[p].

## What the receipt says

Per matrix: shape, zeros, the pattern, and that it was found to hold in the written file. Perplexity before and
after on a named text; file sizes; tokens per CPU second and time to first token of both twins on this machine; and
what was *not* gained, with the reason:

- *The file is the same size*: zeros are stored like any number. Only `channels` makes it smaller.
- *It is not faster*: stock kernels multiply zeros. N:M pays with a packed kernel or sparse tensor cores, `channels`
  everywhere.
- *It loads as slowly*: loading moves the same bytes."""


def rows(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The table's lines."""
    return [
        [
            name,
            f"{entry['perplexity']:,.1f}",
            f"{entry['removed']:.3f}" if entry["removed"] else "-",
            f"{entry['bytes'] / 1e6:.1f}",
            f"{entry['cpu_seconds']:.0f}" if entry["cpu_seconds"] else "-",
        ]
        for name, entry in found.items()
    ]


def write(found: dict[str, dict[str, Any]], values: Values, windows: int) -> None:
    """Write the page."""
    measured = f"""## SmolLM2-135M-Instruct

Perplexity on `data/text/wikitext2_eval.txt`: 24 windows of 512 tokens at equal strides, tokens 2 to 512 scored,
float32; {windows} calibration windows of 512 tokens from the other file, seed 0; single runs, one thread. Comparable
with each other only.

{table(HEADINGS, rows(found))}"""
    promises = [promise.row(values) for promise in PROMISES if promise.measured(values)]
    held = f"""## What must hold

{table(("ratio of perplexities", "measured", "holds"), promises)}

The surgeon's damping is 0.1 unless said otherwise: with this little calibration text the paper's 0.01 (meant for 128
sequences of thousands of tokens) lets corrections follow the noise of the curvature.

On this model RIA at a = 0.5 is not better than Wanda. A model this small shows what pruning costs; it is not for use
at 50 %."""
    write_page("pruning.md", COMMAND, [GUIDE, measured, held])
