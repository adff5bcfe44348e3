"""MOTOR's three layouts, tokenisation, adapters and metrics answer as the published programs did; nothing leaks."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import models.motor.layers
from export.golden.case import read_case
from export.golden.motor import run
from models.motor import adapter, head, metrics
from models.motor.checkpoint import layout_of, translate
from models.motor.config import MotorConfig, MotorConfigError, parse_femr, parse_haiku
from models.motor.network import Motor, build
from models.motor.vocabulary import DictionaryError, Event, Ontology, Vocabulary, position_before
from models.statedict import CheckpointError

GOLDEN = Path(__file__).parents[1] / "golden" / "motor"
CASES = [*sorted(GOLDEN.glob("*.json")), GOLDEN / "official_tutorial_checkpoint_v1" / "case.json"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_output_is_within_the_stated_tolerance(path: Path) -> None:
    results = run(read_case(path))
    assert len(results) > 2
    assert [r for r in results if r.verdict != "ok"] == []


def test_half_precision_angles_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(models.motor.layers.Rotation):
        def __init__(self, ages: torch.Tensor, head_width: int) -> None:
            super().__init__(ages.half(), head_width)

    monkeypatch.setattr("models.motor.network.Rotation", Half)
    assert any(r.verdict == "fail" for r in run(read_case(GOLDEN / "motor_v1_gelu_hier.json")))


def network(layout: str, layers: int = 3, window: int = 4) -> Motor:
    if layout == "v0":
        sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "n_heads": 2, "n_layers": layers}
        sizes |= {"attention_width": window - 1, "with_age_beta": True}
        task = {"num_codes": 3, "dim": 5, "time_bins": [0.0, 10.0]}
        config = parse_haiku({"transformer": sizes, "task": task})
    else:
        sizes = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "n_heads": 2, "n_layers": layers}
        sizes |= {"attention_width": window, "is_hierarchical": True, "use_normed_ages": True, "hidden_act": "swiglu"}
        task = {"pretraining_task_info": [["A", 0.1], ["B", 0.1]], "time_bins": [0.0, 10.0, math.inf]}
        config = parse_femr(
            {"transformer_config": sizes, "task_config": {"task_kwargs": {**task, "final_layer_size": 4}}},
            "v2" if layout == "v2" else "v1",
        )
    made, generator = build(config), torch.Generator().manual_seed(1)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)
    return made


def inputs(made: Motor, length: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 20, (1, length, 2), generator=generator)
    weights = torch.rand(1, length, 2, generator=generator)
    ages = torch.rand(1, length, generator=generator).cumsum(1) * 1000
    return tokens, weights, ages, torch.randn(1, length, made.config.time_channels, generator=generator)


@pytest.mark.parametrize("layout", ["v0", "v1", "v2"])
def test_what_comes_later_changes_nothing_before(layout: str) -> None:
    made = network(layout)
    whole = inputs(made, 12)
    full = made(*whole)
    for length in (1, 5, 11):
        torch.testing.assert_close(made(*(part[:, :length] for part in whole)), full[:, :length])


@pytest.mark.parametrize("layout", ["v0", "v1"])
def test_history_beyond_the_reach_may_be_cut_off_exactly(layout: str) -> None:
    made = network(layout)
    whole = inputs(made, 25)
    reach = made.config.reach
    assert reach == 3 * (4 - 1) + 1
    full, cut = made(*whole)[:, -1], made(*(part[:, -reach:] for part in whole))[:, -1]
    torch.testing.assert_close(cut, full)
    shorter = made(*(part[:, 1 - reach :] for part in whole))[:, -1]
    assert not torch.allclose(shorter, full, atol=1e-6)


def test_layouts_are_recognised_and_others_are_not() -> None:
    for name, layout in (("v0_haiku", "v0"), ("v1_flat_vocab", "v1"), ("v2_hawk", "v2")):
        assert layout_of(read_case(GOLDEN / f"motor_{name}.json").group("state")) == layout
    assert layout_of({"bert.weight": torch.zeros(1)}) is None


def test_names_of_early_releases_are_read() -> None:
    case = read_case(GOLDEN / "motor_v1_flat_vocab.json")
    state, old = case.group("state"), {}
    for name, tensor in state.items():
        new = f"{name.removesuffix('weight')}scale" if name.endswith("norm.weight") else name
        old[new] = tensor
    old["task_model.task_embedding.weight"] = old.pop("task_model.task_layer.weight")
    old["task_model.task_embedding_bias.weight"] = old.pop("task_model.task_layer.bias").unsqueeze(-1)
    document = {**case.config}
    document["task_config"]["task_kwargs"]["time_bins"][-1] = math.inf
    config = parse_femr(document, "v1")
    expected = translate(state, config).state
    found = translate(old, config).state
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_a_contradicting_size_is_named() -> None:
    case = read_case(GOLDEN / "motor_v1_flat_vocab.json")
    document = {**case.config}
    document["task_config"]["task_kwargs"]["time_bins"][-1] = math.inf
    document["transformer_config"]["vocab_size"] = 81
    with pytest.raises(CheckpointError, match="check vocab_size"):
        translate(case.group("state"), parse_femr(document, "v1"))


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_heads", 3), ("hidden_size", 0), ("hidden_act", "relu"), ("n_layers", True)],
)
def test_an_unusable_configuration_is_refused_by_field(field: str, value: object) -> None:
    task = {"pretraining_task_info": [["A", 0.1]], "time_bins": [0.0, math.inf], "final_layer_size": 4}
    sizes = {"hidden_size": 16, "n_heads": 2, field: value}
    with pytest.raises(MotorConfigError, match=field):
        parse_femr({"transformer_config": sizes, "task_config": {"task_kwargs": task}}, "v1")


def test_bins_that_do_not_rise_are_refused() -> None:
    made = network("v1").config
    with pytest.raises(MotorConfigError, match="time_bins"):
        MotorConfig(**{**vars(made), "time_bins": (0.0, 5.0, 5.0)})


def test_survival_median_and_loss_have_their_closed_forms() -> None:
    starts = torch.tensor([0.0, 10.0])
    logits = torch.tensor([[[-3.0, -math.inf], [-1.0, -math.inf]]])  # hazards 1/8 then 1/2; never
    horizons = torch.tensor([4.0, 12.0])
    expected = torch.tensor([[[math.exp(-0.5), 1.0], [math.exp(-10 / 8 - 1), 1.0]]])
    torch.testing.assert_close(head.survival(logits, starts, horizons), expected)
    median = head.median_time(logits, starts)
    torch.testing.assert_close(median[0, 0].item(), 8 * math.log(2))
    assert median[0, 1].item() == math.inf
    torch.testing.assert_close(
        head.median_time(logits[..., :1] - 3, starts)[0, 0].item(), 10 + (math.log(2) - 10 / 64) * 16
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_half_of_all_have_had_the_event_at_the_median(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    starts = torch.tensor([0.0, 3.0, 7.0, 20.0], dtype=torch.float64)
    logits = torch.randn(1, 4, 5, generator=generator, dtype=torch.float64) - 4  # medians in every bin
    median = head.median_time(logits, starts)[0]
    at = torch.stack([head.survival(logits, starts, t.reshape(1))[0, 0, i] for i, t in enumerate(median)])
    torch.testing.assert_close(at, torch.full((5,), 0.5, dtype=torch.float64))


BIRTH = datetime(1980, 1, 1)
DICTIONARY = {
    "vocab": [
        {"type": "code", "code_string": "A"},
        {"type": "code", "code_string": "B"},
        {"type": "numeric", "val_start": 1.0, "val_end": math.inf},
        {"type": "numeric", "val_start": -math.inf, "val_end": 1.0},
        {"type": "text", "text_string": "mg/dl"},
    ],
    "is_hierarchical": True,
    "age_stats": {"mean": 1e9, "std": 5e8},
}


def test_bins_are_half_open_and_units_lose_blanks_and_case() -> None:
    vocabulary = Vocabulary(DICTIONARY, Ontology({"C": ["A", "B"], "A": ["C"]}))  # a cycle in the map, too
    assert vocabulary.bag(Event(BIRTH, "C", 0.999, None, "MG / dL")) == ((0, 1, 3, 4), (0.5, 0.5, 1.0, 1.0))
    assert vocabulary.bag(Event(BIRTH, "C", 1.0)) == ((0, 1, 2), (0.5, 0.5, 1.0))
    assert vocabulary.bag(Event(BIRTH, "unheard of")) == ((), ())


def test_a_day_repeats_nothing_and_the_next_day_starts_anew() -> None:
    vocabulary = Vocabulary(DICTIONARY, Ontology({}))
    noon = BIRTH + timedelta(hours=12)
    events = [Event(noon, "A"), Event(noon, "A"), Event(noon, "B"), Event(noon + timedelta(days=1), "A")]
    positions = vocabulary.positions(events, BIRTH)
    assert [p.event for p in positions] == [0, 2, 3]
    assert [p.age_days for p in positions] == [0.5, 0.5, 1.5]
    assert position_before(positions, noon) == 1
    assert position_before(positions, noon - timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    "broken", [{"vocab": []}, {"vocab": "A"}, {"age_stats": {"mean": 1.0, "std": 0.0}}, {"age_stats": {}}]
)
def test_an_unusable_dictionary_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(DictionaryError, match=next(iter(broken))):
        Vocabulary({**DICTIONARY, **broken}, Ontology({}))


def test_an_adapter_without_features_predicts_the_overall_rate() -> None:
    time, event = np.array([10.0, 30.0, 40.0, 20.0]), np.array([True, False, True, False])
    known = adapter.outcomes(time, event, np.array([0.0, 15.0]))
    found = adapter.fit(adapter.with_one(np.zeros((4, 2, 3))), known, 0.0)
    assert found.vector[-1] == pytest.approx(math.log2(2 / 100), abs=1e-9)
    assert found.gradient < 1e-10


def test_a_path_ends_at_the_fit_without_penalty() -> None:
    generator = np.random.default_rng(3)
    features = adapter.with_one(generator.normal(size=(60, 2, 2)))
    known = adapter.outcomes(generator.exponential(20, 60), generator.random(60) < 0.6, np.array([0.0, 10.0]))
    path = adapter.fit_path(features, known)
    alone = adapter.fit(features, known, 0.0)
    assert path[-1][0] == 0.0
    np.testing.assert_allclose(path[-1][1].vector, alone.vector, atol=1e-6)
    lengths = [float(np.square(f.vector[:-1]).sum()) for _, f in path]
    assert lengths == sorted(lengths)  # less penalty, longer vectors


def test_perfect_and_reversed_rankings_have_the_extreme_concordances() -> None:
    time, event = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, True, False])
    rising = np.array([[3.0], [2.0], [1.0], [0.0]])
    start = np.array([0.0])
    assert metrics.time_dependent_c(time, event, rising, start)[0] == 1.0
    assert metrics.time_dependent_c(time, event, -rising, start)[0] == 0.0
    assert metrics.harrell_c(time, event, rising[:, 0]) == 1.0
    assert metrics.harrell_c(time, event, np.zeros(4)) == 0.5
