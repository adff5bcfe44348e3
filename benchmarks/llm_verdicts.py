"""What is claimed about our engine, and whether a run bears it out."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.llm_contenders import ours
from benchmarks.llm_figures import Figures
from benchmarks.verdicts import Verdict

DEFAULT = ours("int8")  # the precision `pressroom export llm` chooses
FIRST_TOKEN = 2.5  # times the idle one, at most
ROOFLINE = 0.6
BEGUN = 0.5  # of the answers of a generator that is not broken

# (task, peers of whom the best counts, at least so many times)
CLAIMS = (
    ("alone", ("transformers-fp32", "transformers-bf16"), 2.0),
    ("eight", ("transformers-batching-fp32", "transformers-batching-bf16"), 2.0),
    ("mixed", ("transformers-batching-fp32", "transformers-batching-bf16"), 2.0),
    ("eight", ("vllm-bf16",), 1.0),
    ("mixed", ("vllm-bf16",), 1.0),
    ("eight", ("llama.cpp-q4_1",), 1.0),
    ("mixed", ("llama.cpp-q4_1",), 1.0),
)
_WORDS = {"alone": "one at a time", "eight": "8 at once", "mixed": "8 at once, unequal prompts"}


def verdicts(found: Mapping[str, Figures], roofs: Mapping[str, tuple[float, float]], complete: bool) -> list[Verdict]:
    """Every claim the measured contenders can decide."""
    claims = [
        _faster(task, peer, least, found)
        for task, peers, least in CLAIMS
        for peer in peers
        if task in found.get(peer, {}) and task in found.get(DEFAULT, {})
    ]
    if DEFAULT in roofs:
        limit, share = roofs[DEFAULT]
        words = f"int8 reaches {ROOFLINE} of what memory allows, one at a time"
        claims.append(Verdict(words, f"{share:.2f} of {limit:.0f} tokens/s", share >= ROOFLINE))
    claims += [_first_token(name, numbers) for name, numbers in found.items() if _is_ours(name, numbers)]
    return [*claims, *_answers(found, complete)]


def _faster(task: str, peer: str, least: float, found: Mapping[str, Figures]) -> Verdict:
    mine, theirs = found[DEFAULT][task], found[peer][task]
    claim = f"{_WORDS[task]}: int8 at least {least:g} x {peer}"
    return Verdict(claim, f"{mine / theirs:.2f} x ({mine:.0f} / {theirs:.0f})", mine / theirs >= least)


def _is_ours(name: str, numbers: Figures) -> bool:
    return name.startswith(ours("")) and "loaded" in numbers


def _first_token(name: str, numbers: Figures) -> Verdict:
    ratio = numbers["loaded"] / numbers["idle"]
    claim = f"first token while 8 are answered at most {FIRST_TOKEN} x idle: {name}"
    return Verdict(claim, f"{ratio:.2f} x ({numbers['loaded']:.0f} / {numbers['idle']:.0f} ms)", ratio <= FIRST_TOKEN)


def _answers(found: Mapping[str, Figures], complete: bool) -> list[Verdict]:
    begun = {name: numbers["begun"] for name, numbers in found.items() if "begun" in numbers}
    claims = [Verdict("every answer has all its tokens", "yes" if complete else "no", complete)]
    if begun:
        worst = min(begun, key=lambda name: begun[name])
        words = f"everybody begins at least {BEGUN:.0%} of the answers as transformers fp32 does"
        claims.append(Verdict(words, f"{begun[worst]:.0%}, {worst}", begun[worst] >= BEGUN))
    exact = found.get(ours("fp32"), {}).get("exact")
    if exact is not None:
        claims.append(
            Verdict("pressroom fp32 answers as transformers fp32, token by token", f"{exact:.0%}", exact == 1)
        )
    return claims
