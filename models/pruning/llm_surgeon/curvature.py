"""Kronecker-factored curvature: Fisher of a matrix ~ G (x) A, expectations taken apart (LLM Surgeon, section 3.1).

In   n sequences of T tokens, one forward and backward pass each; loss = mean next-token cross entropy of a sequence
Out  A  float32 [C, C]   sum over sequences and tokens of a a^T / (n T)    a: inputs of the matrix
     G  float32 [R, R]   sum over sequences and tokens of g g^T / (n T)    g: loss gradients of its outputs
both rescaled to the geometric mean of their Frobenius norms. Labels are the data's own next tokens ("empirical").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

ForwardHook = Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]


@dataclass
class Curvature:
    """Unscaled sums of one matrix, and how to read them."""

    inputs: Tensor  # [C, C]
    outputs: Tensor  # [R, R]

    def factors(self) -> tuple[Tensor, Tensor]:
        """(A, G) of equal Frobenius norm; zero if either is."""
        a, g = float(self.inputs.norm()), float(self.outputs.norm())
        if a == 0 or g == 0:
            return torch.zeros_like(self.inputs), torch.zeros_like(self.outputs)
        common = math.sqrt(a * g)
        return self.inputs * (common / a), self.outputs * (common / g)


def collect(
    network: nn.Module,
    matrices: dict[str, nn.Linear],
    sequences: Iterable[Tensor],
    count: int,
    seen: Callable[[int], None] = lambda done: None,
) -> dict[str, Curvature]:
    """Curvature of every named matrix. sequences: int64 [1, T]; count: how many (n); seen: called after each."""
    found = {name: _empty(linear) for name, linear in matrices.items()}
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    embedding: nn.Module = network.get_submodule("model.embed_tokens")
    handles = [embedding.register_forward_hook(lambda module, inputs, output: output.requires_grad_())]
    handles += [linear.register_forward_hook(_watch(found, name, count)) for name, linear in matrices.items()]
    try:
        for done, ids in enumerate(sequences, start=1):
            torch.autograd.backward(_next_token_loss(network, ids))
            seen(done)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _next_token_loss(network: nn.Module, ids: Tensor) -> Tensor:
    logits: Tensor = network(input_ids=ids, use_cache=False).logits
    return functional.cross_entropy(logits[0, :-1].float(), ids[0, 1:])


def _empty(linear: nn.Linear) -> Curvature:
    r, c = linear.out_features, linear.in_features
    return Curvature(torch.zeros(c, c), torch.zeros(r, r))


def _watch(found: dict[str, Curvature], name: str, count: int) -> ForwardHook:
    """Forward hook: adds a^T a now and g^T g once the backward pass comes by."""

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        a = _rows(inputs[0])
        scale = 1 / math.sqrt(len(a) * count)
        found[name].inputs += _second_moment(a * scale)

        def add_outputs(gradient: Tensor) -> None:
            found[name].outputs += _second_moment(torch.nan_to_num(_rows(gradient), nan=0.0) * scale)

        output.register_hook(add_outputs)  # type: ignore[no-untyped-call]

    return hook


def _rows(x: Tensor) -> Tensor:  # [1, T, C] -> float32 [T, C]
    return x.detach().reshape(-1, x.shape[-1]).float()


def _second_moment(rows: Tensor) -> Tensor:
    return (rows.T @ rows).cpu()
