"""Prune a language model: a readable folder in, an ordinary folder and a receipt out.

    open the model, read the texts, estimate memory, measure the dense model
    prune (layer by layer, or the surgeon's shots), resumable at every finished layer or shot
    write safetensors, read every matrix back against its pattern, measure the pruned model, write receipt.json
Nothing uses the network. The receipt is written last: a folder that has one is finished.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from export.errors import OptionError
from export.hugging_face import load_network, load_tokenizer
from export.llm_folder import ModelFolder
from export.llm_layers import LayerwiseNetwork, computing_dtype
from export.llm_source import open_model
from export.llm_speed import Speed, compare_speed
from export.llm_text import TokenText, drawn_windows, equal_windows, perplexity, read_tokens
from export.progress import Report, silent
from export.prune_layers import LayerRun, cutting, masking, shrinking
from export.prune_memory import check_cap, peak_bytes, room_for_twins
from export.prune_plan import CHANNELS, STRUCTURED, SURGEON, PruneJob, option_refusals
from export.prune_receipt import Perplexity, Twins, matrices, receipt, totals
from export.prune_surgeon import matrices_of, norm_threshold, operate, shrink
from export.prune_work import Work, WorkLayers, layer_stem
from export.prune_write import write_config, write_folder
from models.pruning.aligned import Aligned
from models.pruning.shrink import Heads, kept_width

RECEIPT = "receipt.json"


@dataclass(frozen=True)
class Texts:
    """Tokenised files and the windows taken from them, int64 [n, T]."""

    calibration: TokenText | None
    evaluation: TokenText | None
    windows: Tensor | None
    scored: Tensor | None


def prune(job: PruneJob, report: Report = silent) -> dict[str, Any]:
    """Run the job; returns the receipt it wrote. Raises ExportError (OptionError for misuse); no receipt then."""
    started = time.monotonic()
    work = Work(job.out, resume=job.resume)
    try:
        document = _run(job, work, report)
    finally:
        work.discard_if_bare()
    document["run"]["seconds"] = round(time.monotonic() - started, 1)
    (job.out / RECEIPT).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    work.remove()
    return document


def _run(job: PruneJob, work: Work, report: Report) -> dict[str, Any]:
    """Everything but the last write."""
    source = open_model(job.model, work.folder, report)
    run, aligned = _networks(job, source, work)
    estimate, dense_weights = check_cap(job, run.dense.network), _weights(run)
    texts = _read_texts(job, source)
    work.begin(_identity(job, run, texts))
    dense = _dense_perplexity(run, texts, report)
    _prune(run, job, aligned, texts.windows, report)
    write_folder(run, job.out)
    out = ModelFolder(job.out, str(job.out))
    entries = _verified(job, run, out, report)
    quality = _quality(job, run, texts, dense, report)
    memory = {"estimated_bytes": estimate, "peak_bytes": peak_bytes()}
    twins = Twins(source.weight_bytes(), out.weight_bytes(), _speed(job, source, work, texts, report))
    return receipt(job, _model_facts(source), entries, totals(entries, dense_weights, job), quality, twins, memory)


def _verified(job: PruneJob, run: LayerRun, out: ModelFolder, report: Report) -> list[dict[str, Any]]:
    """Every matrix read back from the written files."""
    count = len(run.dense.layers)
    report("verify matrices", 0, 1)
    facts = [run.work.facts(layer_stem(index))["matrices"] for index in range(count)]
    return matrices(run.source, out, count, job, facts)


def _weights(run: LayerRun) -> int:
    """Prunable weights of the dense network."""
    return sum(one.in_features * one.out_features for one in matrices_of(run.dense.network).values())


def _networks(job: PruneJob, source: ModelFolder, work: Work) -> tuple[LayerRun, Aligned | None]:
    """Dense and pruned networks without layers; config.json of the result is written here, as shapes follow from it."""
    dtype = computing_dtype(job.compute, stored_dtype(source))
    dense = LayerwiseNetwork(source.path, source, dtype)
    aligned = _aligned(job, dense) if job.pattern == CHANNELS else None
    write_config(source, job.out, {} if aligned is None else _widths(dense, aligned))
    pruned = dense if aligned is None else LayerwiseNetwork(job.out, source, dtype)
    return LayerRun(source, dense, pruned, work), aligned


def _aligned(job: PruneJob, dense: LayerwiseNetwork) -> Aligned:
    settings: Any = dense.network.config
    head_dim = getattr(settings, "head_dim", None) or settings.hidden_size // settings.num_attention_heads
    heads = Heads(settings.num_attention_heads, settings.num_key_value_heads, head_dim)
    with option_refusals():
        return Aligned(sparsity=job.share, heads=heads, groups=job.kv_groups, damping=job.damping)


def _widths(dense: LayerwiseNetwork, aligned: Aligned) -> dict[str, Any]:
    """The hyper-parameters that shrinking changes."""
    settings: Any = dense.network.config
    groups = aligned.heads.groups - aligned.groups
    with option_refusals():
        return {
            "intermediate_size": kept_width(settings.intermediate_size, aligned.sparsity),
            "num_key_value_heads": groups,
            "num_attention_heads": groups * (aligned.heads.heads // aligned.heads.groups),
            "head_dim": aligned.heads.head_dim,
        }


def _read_texts(job: PruneJob, source: ModelFolder) -> Texts:
    if job.calibration is None and job.evaluation is None:
        return Texts(None, None, None, None)
    tokenizer = load_tokenizer(source.path)
    calibration = read_tokens(job.calibration, tokenizer) if job.calibration and job.reads_text else None
    evaluation = read_tokens(job.evaluation, tokenizer) if job.evaluation else None
    return Texts(
        calibration,
        evaluation,
        None if calibration is None else drawn_windows(calibration, job.windows, job.tokens, job.seed),
        None if evaluation is None else equal_windows(evaluation, job.evaluation_windows, job.tokens),
    )


def _identity(job: PruneJob, run: LayerRun, texts: Texts) -> dict[str, Any]:
    """Everything the written weights depend on."""
    calibration = None if texts.calibration is None else texts.calibration.sha256
    made_of = {"model": run.source.digests(), "calibration": calibration, "compute": _compute(run)}
    return job.settings() | made_of


def _compute(run: LayerRun) -> str:
    """ "float32" or "bfloat16"."""
    return str(run.dense.dtype).removeprefix("torch.")


def _dense_perplexity(run: LayerRun, texts: Texts, report: Report) -> float | None:
    """Measured once a run, resumed or not."""
    if texts.scored is None or texts.evaluation is None:
        return None
    stem = f"dense-{texts.evaluation.sha256[:12]}-{texts.scored.shape[0]}"
    if not run.work.has(stem):
        count = len(run.dense.layers)
        found = perplexity(run.dense, run.source, texts.scored, lambda done: report("measure dense", done, count))
        run.work.save(stem, {}, {"perplexity": found})
    return float(run.work.facts(stem)["perplexity"])


def _prune(run: LayerRun, job: PruneJob, aligned: Aligned | None, windows: Tensor | None, report: Report) -> None:
    if job.method == SURGEON:
        assert windows is not None
        if aligned is None:
            operate(run, job, windows, report)
        else:
            shrink(run, job, aligned, windows, report)
    elif job.pattern == STRUCTURED:
        run.prune(cutting(norm_threshold(run, job.share, report)), None, report)
    elif aligned is not None:
        operation = shrinking(aligned, job.method, job.power, reads_text=job.reads_text)
        run.prune(operation, windows, report)
    else:
        run.prune(masking(job.recipe), windows, report)


def _quality(job: PruneJob, run: LayerRun, texts: Texts, dense: float | None, report: Report) -> dict[str, Any]:
    """Perplexity before and after, and what was calibrated on."""
    used, scored = texts.calibration, texts.evaluation
    found: Perplexity | None = None
    if scored is not None and texts.scored is not None and dense is not None:
        count, (windows, tokens) = len(run.dense.layers), texts.scored.shape
        layers = WorkLayers(run.work)
        after = perplexity(run.pruned, layers, texts.scored, lambda done: report("measure pruned", done, count))
        same = used is not None and used.sha256 == scored.sha256
        found = Perplexity(scored.name, scored.sha256, windows, tokens, _compute(run), dense, after, same)
    sizes = {"windows": job.windows, "tokens": job.tokens, "seed": job.seed}
    return {
        "perplexity": None if found is None else vars(found),
        "calibration": None if used is None else {"text": used.name, "sha256": used.sha256} | sizes,
    }


def _speed(job: PruneJob, source: ModelFolder, work: Work, texts: Texts, report: Report) -> dict[str, Speed] | None:
    """Both twins in transformers on this host; None where it was not asked for or there is no text to start from."""
    windows = texts.scored if texts.scored is not None else texts.windows
    if not job.speed or windows is None:
        return None
    report("measure speed", 0, 1)
    room = room_for_twins(job) // 2
    twins = {
        name: load_network(path, room=room, offload=work.folder / f"offload-{name}")
        for name, path in (("dense", source.path), ("pruned", job.out))
    }
    return compare_speed(twins, windows[0])


def _model_facts(source: ModelFolder) -> dict[str, Any]:
    return {
        "source": Path(source.source).name,
        "model_type": source.config.get("model_type"),
        "dtype": stored_dtype(source),
        "files": source.digests(),
    }


def stored_dtype(source: ModelFolder) -> str | None:
    """As config.json names it, in the key of old or of new."""
    found: str | None = source.config.get("dtype") or source.config.get("torch_dtype")
    return found


def bundled_text(name: str) -> Path | None:
    """A text of the repository, where the program runs inside a clone."""
    path = Path(__file__).resolve().parents[1] / "data" / "text" / name
    return path if path.is_file() else None


def with_bundled_texts(job: PruneJob) -> PruneJob:
    """The job with the repository's evaluation text where none was named. Raises OptionError outside a clone."""
    if job.evaluation is not None:
        return job
    found = bundled_text("wikitext2_eval.txt")
    if found is None:
        raise OptionError("no evaluation text", "name one with --evaluation FILE")
    return replace(job, evaluation=found)
