"""The proxy network of Balance-Marking cases (GPT-2, transformers' own), read as the official decoder and encoder do.

The encoder takes the window as it is. The decoder loses unknown tokens on the way through text, pads on the left and
takes the output at index (known tokens - 1), which is wrong for a padded row but is what was recorded.

The cases lack the attention's input biases ("c_attn.bias"). They are found again from some of the recorded
probabilities by least squares (keys' biases cancel in the softmax and stay 0); the others then check them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import least_squares
from torch import Tensor, nn
from torch.func import functional_call, jacfwd

from export.golden.case import CaseError, GoldenCase
from export.hugging_face import transformers
from models.balance_marking.proxy import Distribution

UNKNOWN, END = "<unk>", "<eos>"
FITTED_WINDOWS = 32  # of the recorded probabilities
FITS = 5e-7  # largest difference of a probability at which the biases count as found
LACKING = "c_attn.bias"
FOUND_AGAIN = 5e-6  # what biases found again allow a probability to differ by


class ProxyNetwork:
    """The case's network; built, and its biases found, when it is first asked."""

    def __init__(self, case: GoldenCase) -> None:
        self.window, self.vocabulary = int(case.config["lm_prefix_len"]), int(case.config["proxy_vocab"])
        ids = case.tensors["input.proxy_ids"].tolist()
        recorded = case.tensors["input.proxy_probs"]
        self.recorded: dict[tuple[int, ...], Tensor] = {
            tuple(ids[k : k + self.window]): row for k, row in enumerate(recorded)
        }
        words = case.config.get("proxy_vocabulary")
        words = words if isinstance(words, list) else case.config["vocabulary"]
        self.unknown, self._end = words.index(UNKNOWN), words.index(END)
        self._case = case
        self._network: Any = None

    @torch.no_grad()
    def read(self, windows: Sequence[tuple[int, ...]], *, decoding: bool) -> Tensor:
        """float32 [windows, vocabulary], as the decoder or as the encoder reads."""
        rows = []
        for window in windows:
            known = [token for token in window if not decoding or token != self.unknown] or [self._end]
            padding = self.window - len(known) if decoding else 0
            ids = torch.tensor([[self._end] * padding + known])
            mask = torch.tensor([[0] * padding + [1] * len(known)])
            logits = self._loaded()(input_ids=ids, attention_mask=mask, use_cache=False).logits
            rows.append(torch.softmax(logits[0, len(known) - 1], dim=-1))
        return torch.stack(rows)

    def _loaded(self) -> Any:
        if self._network is None:
            network, lacking = _network(self._case, self.vocabulary)
            if lacking:
                network.set_attn_implementation("eager")  # the fused one knows no forward derivative
                _find_biases(network, lacking, self._whole_windows())
                network.set_attn_implementation("sdpa")  # the official program's
            self._network = network.float()
        return self._network

    def _whole_windows(self) -> tuple[Tensor, Tensor]:
        """Recorded windows without an unknown token, spread over the text: int64 [n, window], float64 [n, V]."""
        whole = [window for window in self.recorded if self.unknown not in window]
        chosen = whole[:: max(1, len(whole) // FITTED_WINDOWS)]
        return torch.tensor(chosen), torch.stack([self.recorded[window] for window in chosen]).double()


class CaseProxy:
    """Recorded probabilities where the case has them, the network's elsewhere.

    decoding: as the decoder reads; else as the encoder does
    """

    def __init__(self, network: ProxyNetwork, *, decoding: bool) -> None:
        self.window, self.vocabulary = network.window, network.vocabulary
        self._network, self._decoding = network, decoding
        self._known: dict[tuple[int, ...], Distribution] = {}

    def __call__(self, context: tuple[int, ...]) -> Distribution:
        """Last `window` ids -> probabilities of the next."""
        if context not in self._known:
            self._known[context] = Distribution.dense(self._probabilities(context).numpy())
        return self._known[context]

    def _probabilities(self, context: tuple[int, ...]) -> Tensor:
        recorded = self._network.recorded.get(context)
        if recorded is not None and (self._decoding or self._network.unknown not in context):
            return recorded
        rows: Tensor = self._network.read([context], decoding=self._decoding)
        return rows.squeeze(0)


def _network(case: GoldenCase, vocabulary: int) -> tuple[Any, list[str]]:
    """float64 in evaluation mode, and the names of the biases the case lacks (0 so far)."""
    settings = {name: value for name, value in case.config["proxy"].items() if name != "class"}
    settings["activation_function"] = settings.pop("activation", "gelu_new")
    library = transformers()
    config = library.GPT2Config(vocab_size=vocabulary, bos_token_id=None, eos_token_id=None, **settings)
    network = library.GPT2LMHeadModel(config).double().eval()
    state = {name: tensor.double() for name, tensor in case.group("state").items()}
    lacking = [name for name, _ in network.named_parameters() if name.endswith(LACKING) and name not in state]
    state |= {name: torch.zeros_like(network.get_parameter(name)) for name in lacking}
    if "transformer.wte.weight" in state:
        state.setdefault("lm_head.weight", state["transformer.wte.weight"])
    try:
        network.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise CaseError(f"{case.path.name}: proxy weights and configuration disagree ({error})") from error
    return network.requires_grad_(False), lacking


def _find_biases(network: nn.Module, names: list[str], recorded: tuple[Tensor, Tensor]) -> None:
    """Set the named biases so that the network gives the recorded probabilities. Raises CaseError where none do."""
    windows, wanted = recorded
    width = network.get_parameter(names[0]).numel() // 3

    def biases(free: Tensor) -> dict[str, Tensor]:
        query, value = free.reshape(len(names), 2, width).unbind(1)
        whole = torch.cat([query, torch.zeros_like(query), value], dim=1)
        return dict(zip(names, whole, strict=True))

    def difference(free: Tensor) -> Tensor:
        answer: Any = functional_call(network, biases(free), kwargs={"input_ids": windows, "use_cache": False})
        ours: Tensor = torch.log_softmax(answer.logits[:, -1], dim=-1)
        return (ours - wanted.log()).flatten()

    slopes = jacfwd(difference)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch warns of itself when it first differentiates
        slopes(torch.zeros(2 * width * len(names), dtype=torch.float64))
    for seed in range(4):
        start = np.random.default_rng(seed).normal(0.0, 0.1 * seed, 2 * width * len(names))
        found = least_squares(
            lambda x: difference(torch.from_numpy(x)).numpy(),
            start,
            jac=lambda x: slopes(torch.from_numpy(x)).numpy(),
            max_nfev=100,
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
        )
        free = torch.from_numpy(found.x)
        if _largest(difference(free), wanted) < FITS:
            break
    else:
        raise CaseError("the proxy's missing attention biases cannot be found from the recorded probabilities")
    for name, bias in biases(free).items():
        network.get_parameter(name).copy_(bias)


def _largest(log_difference: Tensor, wanted: Tensor) -> float:
    """Largest difference of the probabilities themselves."""
    ours: npt.NDArray[np.float64] = (log_difference.reshape(wanted.shape) + wanted.log()).exp().numpy()
    return float(np.abs(ours - wanted.numpy()).max())
