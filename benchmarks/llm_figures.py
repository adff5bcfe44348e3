"""From raw answers to the figures that are reported: rates, first tokens, agreement, share of the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.llm_campaign import Campaign

REFERENCE = "transformers-fp32"  # what one answer at a time should say
REFERENCE_TOGETHER = "transformers-batching-fp32"

Figures = dict[str, float]


def figures(campaign: Campaign) -> dict[str, Figures]:
    """By contender, whatever of these was measured (medians over rounds; rates are tokens a CPU second):

    alone, eight, mixed   tokens of whole requests, prompts included in the CPU time
    decode                tokens after the first, one request at a time: without the prompt's CPU time
    idle, loaded          milliseconds to the first token
    agreement             share of an answer's leading tokens that the reference says, too
    begun                 share of answers whose first token is the reference's
    exact                 share of answers to one request at a time that are the reference's, token by token
    """
    return {name: _of(name, campaign) for name in campaign.results}


def _of(name: str, campaign: Campaign) -> Figures:
    measured = campaign.results[name]
    found = {task: median(map(_rate, measured[task])) for task in ("alone", "eight", "mixed") if measured.get(task)}
    if measured.get("alone"):
        found["decode"] = median(map(_decode_rate, measured["prompt"], measured["alone"]))
    for task in ("idle", "loaded"):
        if measured.get(task):
            found[task] = 1e3 * median(seconds for answer in measured[task] for seconds in answer["first"])
    return found | _agreement(name, campaign)


def _rate(answer: Mapping[str, Any]) -> float:
    return sum(len(tokens) for tokens in answer["tokens"]) / float(answer["cpu"])


def _decode_rate(prompt: Mapping[str, Any], alone: Mapping[str, Any]) -> float:
    """Both had prompts of one length; the first one made one token."""
    return (len(alone["tokens"][0]) - 1) / float(alone["cpu"] - prompt["cpu"])


def _agreement(name: str, campaign: Campaign) -> Figures:
    single = _shares(name, REFERENCE, "alone", campaign)
    both = [*single, *(s for task in ("eight", "mixed") for s in _shares(name, REFERENCE_TOGETHER, task, campaign))]
    found = {"exact": sum(share == 1 for share in single) / len(single)} if single else {}
    if both:
        found |= {"agreement": sum(both) / len(both), "begun": sum(share > 0 for share in both) / len(both)}
    return found


def _shares(name: str, reference: str, task: str, campaign: Campaign) -> list[float]:
    """Of each answer, the leading part that is the reference's."""
    results = campaign.results
    if reference not in results or task not in results[name]:
        return []
    return [
        _leading(*pair) / len(pair[1])
        for ours, theirs in zip(results[name][task], results[reference][task], strict=False)
        for pair in zip(ours["tokens"], theirs["tokens"], strict=True)
    ]


def _leading(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """Tokens before the first difference."""
    for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return place
    return min(len(ours), len(theirs))


def complete(campaign: Campaign) -> bool:
    """Every answer has as many tokens as were asked for."""
    tokens = {"alone": campaign.plan.tokens, "eight": campaign.plan.tokens, "mixed": campaign.plan.tokens}
    return all(
        len(answer) == tokens[task]
        for measured in campaign.results.values()
        for task in tokens
        for round_ in measured.get(task, [])
        for answer in round_["tokens"]
    )


def roofline(campaign: Campaign, read: Mapping[str, int]) -> dict[str, tuple[float, float]]:
    """By contender whose weights are known: (tokens a second memory allows one request at a time, share reached).

    read  bytes of weights a token needs
    """
    bandwidth = median(campaign.bandwidth)
    found = figures(campaign)
    limits = {name: bandwidth / size for name, size in read.items() if "decode" in found.get(name, {})}
    return {name: (limit, found[name]["decode"] / limit) for name, limit in limits.items()}
