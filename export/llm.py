"""Press a language model: Hugging Face folder, GGUF file or the embedded model -> verified artifact in the store.

open -> check -> reference answers -> build -> fit the graph -> certify -> example -> describe -> store
The reference is let go before the graph is built, so that the peak is the larger of the two, not their sum. Nothing
is stored unless every step succeeded, and nothing uses the network.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from safetensors.numpy import save_file
from torch import Tensor

from export import llm_parity as parity
from export import llm_reference as reference
from export.artifact import EXAMPLE, PARITY, Metric
from export.errors import OptionError
from export.hugging_face import load_network
from export.llm_builder import build
from export.llm_cases import LONG, TEXTS, Case, plan_prompts, save_cases
from export.llm_example import Completer, make_example
from export.llm_folder import ModelFolder
from export.llm_graph import GRAPH, fit
from export.llm_manifest import LlmFacts, described
from export.llm_memory import PeakMemory
from export.llm_model import Model, open_checked
from export.llm_origin import official, publication, source
from export.llm_pack import pack_graph, read_orders
from export.llm_quality import Quality, graph_perplexity
from export.llm_receipt import RECEIPT
from export.llm_text import TokenText, equal_windows, read_tokens
from export.llm_tokens import CHAT_TEMPLATE, check_tokenizer, write_tokenizer
from export.progress import Report, silent
from export.prune import bundled_text
from export.store import Stored, check_tag, file_entries, store
from models.llm.spec import PACKED, PRECISIONS, Precision
from models.packed.library import HINT, is_built

_STEPS = ("open the model", "ask the reference", "build the graph", "certify", "store")
_ROOM = 0.7  # of the free memory for the reference; what does not fit is read from disk layer by layer


@dataclass(frozen=True, kw_only=True)
class LlmJob:
    """Everything `pressroom export llm` was told.

    evaluation  held text for perplexity and the long prompt; None: the repository's cut of WikiText-2
    windows     sequences of `tokens` tokens (or the context, if that is shorter) perplexity is measured on
    licence     of the weights, where the model's card does not say it
    """

    model: str
    name: str
    version: str | None = None
    precision: Precision = "int8"
    evaluation: Path | None = None
    windows: int = 8
    tokens: int = 512
    licence: str | None = None
    extra_metrics: tuple[Metric, ...] = ()

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise OptionError(f"precision {self.precision!r} is not known", f"choose {', '.join(PRECISIONS)}")
        if self.precision == PACKED and not is_built():
            raise OptionError(f"precision {PACKED!r}: its kernels are not built here", HINT)
        if self.windows < 1 or self.tokens < 2:
            raise OptionError("perplexity needs at least one window of two tokens", "leave both options away")


@dataclass(frozen=True)
class Pressed:
    """A finished export: where it is stored, its certificate, its metrics, and the most memory it held at once."""

    stored: Stored
    certificate: dict[str, Any]
    metrics: list[Metric]
    notes: list[str]
    peak_bytes: int


@dataclass(frozen=True)
class Answers:
    """What the reference said: the cases, and its perplexity on windows int64 [n, T] of a text."""

    cases: list[Case]
    text: TokenText
    windows: Tensor
    perplexity: float


def press(job: LlmJob, report: Report = silent, work: Path | None = None) -> Pressed:
    """Press one model. Raises ExportError with the reason and the way out; then nothing was stored.

    work  folder for what is made on the way; a GGUF file unpacked there is found again. None: a temporary one
    """
    check_tag(job.name, job.version)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch, PeakMemory() as memory:
        made, files = Path(scratch) / "made", Path(scratch) / "files"
        made.mkdir()
        files.mkdir()
        report(_STEPS[0], 0, len(_STEPS))
        model = open_checked(job.model, job.precision, work or made, report)
        left_out = write_tokenizer(model.tokenizer, model.spec.vocabulary, files)
        check_tokenizer(model.tokenizer, files, list(TEXTS.values()))
        report(_STEPS[1], 1, len(_STEPS))
        answers = ask(model, job)
        report(_STEPS[2], 2, len(_STEPS))
        opset = make_graph(model.folder, job.precision, made, files)
        report(_STEPS[3], 3, len(_STEPS))
        certificate = certify(model, answers, opset, files)
        report(_STEPS[4], 4, len(_STEPS))
        if model.receipt is not None:
            shutil.copyfile(model.folder.path / RECEIPT, files / RECEIPT)
        notes = [f"token {token!r} lies beyond the network's vocabulary and is left out" for token in left_out]
        facts = describe(model, job, certificate, opset, files, notes)
        manifest_for = partial(facts.manifest, job.name)
        stored = store(manifest_for, files, name=job.name, version=job.version, verdict=certificate["verdict"])
    report(_STEPS[4], len(_STEPS), len(_STEPS))
    return Pressed(stored, certificate, facts.metrics, facts.source.notes, memory.peak_bytes)


def make_graph(folder: ModelFolder, precision: Precision, made: Path, files: Path) -> int:
    """The served graph in `files`; returns its opset. made: a folder for what lies between."""
    sizes: dict[str, Any] = {
        "width": folder.config["hidden_size"],
        "tied": bool(folder.config.get("tie_word_embeddings")),
    }
    if precision != PACKED:
        return fit(build(folder.path, precision, made), files, **sizes)
    plain = made / "plain"
    plain.mkdir()
    opset = fit(build(folder.path, "fp32", made), plain, **sizes)
    pack_graph(plain, files, read_orders(folder.path))
    return opset


def ask(model: Model, job: LlmJob) -> Answers:
    """The reference's answers; the reference itself is gone when they are returned."""
    text = read_tokens(_evaluation(job), model.tokenizer)
    windows = equal_windows(text, job.windows, min(job.tokens, model.spec.context_length))
    prompts = plan_prompts(model.tokenizer, model.spec, text.ids[:LONG].tolist())
    with tempfile.TemporaryDirectory(prefix="pressroom-") as offload:
        room = int(_ROOM * psutil.virtual_memory().available)
        network = load_network(model.folder.path, room=room, offload=Path(offload))
        return Answers(reference.answer(network, prompts), text, windows, reference.perplexity(network, windows))


def certify(model: Model, answers: Answers, opset: int, files: Path) -> dict[str, Any]:
    """Make the parity certificate and the example, or raise ParityError."""
    spec, graph = model.spec, files / GRAPH
    results = parity.check(answers.cases, graph, spec)
    rows, length = answers.windows.shape
    text, found = answers.text, graph_perplexity(graph, spec, answers.windows)
    quality = Quality(text.name, text.sha256, rows, length, answers.perplexity, found)
    parity.require(results, quality, spec.precision)
    certificate = parity.certificate(results, quality, spec, opset)
    save_file(save_cases(answers.cases), files / parity.CASES_FILE)
    _write_json(files / PARITY, certificate)
    _write_json(files / EXAMPLE, make_example(Completer(files, spec), spec.precision))
    return certificate


def describe(
    model: Model, job: LlmJob, certificate: dict[str, Any], opset: int, files: Path, notes: list[str]
) -> LlmFacts:
    """All the manifest says."""
    folder, receipt = model.folder, model.receipt
    origin = source(folder, receipt)
    pruning = [] if receipt is None else receipt.metrics()
    return LlmFacts(
        architecture=folder.config["model_type"],
        paper=publication(folder, receipt),
        official=official(folder, receipt, job.licence),
        source=origin.model_copy(update={"notes": [*origin.notes, *notes]}),
        config=described(folder.config),
        spec=model.spec,
        opset=opset,
        chats=(files / CHAT_TEMPLATE).is_file(),
        files=file_entries(files),
        metrics=[*_perplexities(certificate["perplexity"]), *pruning, *job.extra_metrics],
    )


def _perplexities(quality: dict[str, Any]) -> list[Metric]:
    """Of the graph, and of the weights before they were converted."""
    split = f"{quality['tokens']} tokens"
    figures = {"perplexity": quality["graph"], "perplexity_before_export": quality["reference"]}
    return [
        Metric(name=name, value=value, data=quality["text"], split=split, windows=quality["windows"])
        for name, value in figures.items()
    ]


def _evaluation(job: LlmJob) -> Path:
    found = job.evaluation or bundled_text("wikitext2_eval.txt")
    if found is None:
        raise OptionError("no evaluation text", "name one with --evaluation FILE")
    return found


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
