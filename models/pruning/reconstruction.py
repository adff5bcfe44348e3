"""Second-order reconstruction: kept weights make up for the removed ones (Frantar and Alistarh, 2023, section 3).

In   weight  float32 [R, C]     gram float32 [C, C] (see `activations`)     keep bool [R, C]
Out  weight  float32 [R, C]     zero outside `keep`
Inputs are visited in order; the error a removed weight makes is spread over the inputs not yet visited by the inverse
Hessian's Cholesky factor. Blocks only group the arithmetic. The Hessian is damped by 1 % of its mean diagonal.
"""

from __future__ import annotations

import torch
from torch import Tensor

DAMPING = 0.01
STRONGER_DAMPING = 0.1  # second try where the first is not positive definite
BLOCK = 128


def reconstruct(weight: Tensor, gram: Tensor, keep: Tensor) -> Tensor:
    """Best kept weights for the given mask; inputs that never fired are set to zero."""
    silent = gram.diagonal() == 0
    w = torch.where(silent, 0.0, weight.float())
    factor = _inverse_factor(gram + torch.diag(silent.to(gram.dtype)))
    for start in range(0, w.shape[1], BLOCK):
        here = slice(start, min(start + BLOCK, w.shape[1]))
        w[:, here], errors = _visit(w[:, here], keep[:, here], factor[here, here])
        w[:, here.stop :] -= errors @ factor[here, here.stop :]
    return w


def _visit(block: Tensor, keep: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """One block's inputs in order: (weights, errors per input), both [R, block]."""
    w, errors = block.clone(), torch.zeros_like(block)
    for i in range(w.shape[1]):
        column = w[:, i]
        error = torch.where(keep[:, i], 0.0, column) / factor[i, i]
        w[:, i:] -= torch.outer(error, factor[i, i:])
        errors[:, i] = error
    return torch.where(keep, w, 0.0), errors


def _inverse_factor(gram: Tensor) -> Tensor:
    """Upper Cholesky factor of the damped inverse."""
    damped, failed = torch.linalg.cholesky_ex(_damped(gram, DAMPING))
    if int(failed):
        damped = torch.linalg.cholesky(_damped(gram, STRONGER_DAMPING))
    factor: Tensor = torch.linalg.cholesky(torch.cholesky_inverse(damped), upper=True)
    return factor


def _damped(gram: Tensor, share: float) -> Tensor:
    return gram + torch.eye(len(gram), dtype=gram.dtype) * (share * gram.diagonal().mean())
