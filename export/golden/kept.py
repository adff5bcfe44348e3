"""Do two pruning masks agree? Near ties may fall either way, so what is allowed is a number of differing entries."""

from __future__ import annotations

from torch import Tensor

from export.golden.compare import OutputResult

NEAR_TIE = 1e-5  # relative margin of the deciding pair up to which rounding may decide
TIED = 2  # entries that may then differ: one in, one out


def allowed_by(margin: float | None) -> int:
    """Entries that may differ; margin: smallest relative margin of a deciding pair, None = not recorded."""
    return 0 if margin is not None and margin > NEAR_TIE else TIED


def compare_kept(output: str, kept: Tensor, expected: Tensor, allowed: int, note: str = "") -> OutputResult:
    """Compare masks entry by entry; any dtype, nonzero = kept."""
    shape = tuple(expected.shape)
    if kept.shape != expected.shape:
        detail = f"shape {list(kept.shape)}, expected {list(shape)}"
        return OutputResult(output=output, verdict="fail", shape=shape, detail=detail)
    differing = int(((kept != 0) != (expected != 0)).sum())
    return OutputResult(
        output=output,
        verdict="ok" if differing <= allowed else "fail",
        shape=shape,
        max_abs=float(differing > 0),
        max_rel=differing / max(expected.numel(), 1),
        tolerance=f"{allowed} entries" if allowed else "exact",
        detail=note or (f"{differing} of {expected.numel()} entries differ" if differing > allowed else ""),
    )
