"""Memory of a pruning run, estimated before it starts, held against the cap, and measured at its end."""

from __future__ import annotations

import re
import resource
import sys

import psutil
from torch import nn

from export.errors import OptionError
from export.llm_layers import LAYERS
from export.prune_plan import SURGEON, PruneJob
from export.prune_surgeon import needed_bytes

UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
COPIES = 4  # of one layer at work: weights, scores, masks and sorting, what is written
FLOAT = 4  # bytes


def parse_bytes(text: str) -> int:
    """ "4GB", "512MiB", "1e9" -> bytes. Raises OptionError."""
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([kmg]i?)?b?", text.strip().lower())
    try:
        if found is not None and (size := int(float(found[1]) * UNITS[found[2] or ""])) > 0:
            return size
    except ValueError:
        pass
    raise OptionError(f"memory cap {text!r} is no size", "say 4GB, 512MiB or a number of bytes")


def check_cap(job: PruneJob, network: nn.Module) -> int:
    """Estimated peak in bytes for a network (weights may be on the meta device). OptionError beyond the limit."""
    estimate: int = psutil.Process().memory_info().rss + estimated_bytes(job, network)
    limit = memory_limit(job)
    if estimate > limit:
        whole = job.method == SURGEON
        layerwise, fewer = "choose ria or wanda, which hold one layer at a time", "ask for fewer --windows or --tokens"
        way_out = layerwise if whole else fewer
        named = "this machine's memory" if job.memory_cap is None else "memory cap"
        raise OptionError(
            f"{named} {_words(limit)}: this run needs about {_words(estimate)}", f"raise it, or {way_out}"
        )
    return estimate


def memory_limit(job: PruneJob) -> int:
    """The cap in bytes, or what this process holds and may still get."""
    free: int = psutil.virtual_memory().available
    held: int = psutil.Process().memory_info().rss
    return job.memory_cap or free + held


def room_for_twins(job: PruneJob) -> int:
    """Bytes that two whole networks may take to be timed; what does not fit waits on disk."""
    held: int = psutil.Process().memory_info().rss
    return max(memory_limit(job) - held, 0)


def estimated_bytes(job: PruneJob, network: nn.Module) -> int:
    """What the run adds to a process that holds the network's parts outside the layers."""
    layer = sum(p.numel() for name, p in network.named_parameters() if name.startswith(f"{LAYERS}0."))
    embedding = network.get_parameter("model.embed_tokens.weight")
    widest = max(max(p.shape) for name, p in network.named_parameters() if name.startswith(f"{LAYERS}0."))
    sequences = max(job.windows if job.reads_text else 0, job.evaluation_windows if job.evaluation else 0)
    hidden = 2 * sequences * job.tokens * embedding.shape[1]
    inside = 4 * job.tokens * widest
    logits = 3 * job.tokens * embedding.shape[0]
    whole = needed_bytes(network) if job.method == SURGEON else 0
    return whole + FLOAT * (COPIES * layer + hidden + inside + logits)


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _words(size: int) -> str:
    return f"{size / 1000**3:.2f} GB"
