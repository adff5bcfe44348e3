"""The detection benchmark's arithmetic: rows, gains, and what counts as a broken promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.detection import AFTER, BEFORE, RECIPE, broken_promises, said_of
from benchmarks.detection_accuracy import Accuracy, cut_out, labels, scenes
from benchmarks.detection_throughput import REGIONS, WAYS, Cost, beaten, rows


def costs(**dearer: float) -> list[Cost]:
    """At every number of boxes each way costs 1 ms, or what `dearer` says of "way_boxes"."""
    return [
        Cost(way, boxes, dearer.get(f"{way.replace(' ', '_')}_{boxes}", 1.0), 100.0)
        for boxes in REGIONS
        for way in WAYS
    ]


def test_gain_is_the_cost_of_crops_by_the_cost_of_regions() -> None:
    table = rows(costs(crops_together_16=6.0, images_together_16=1.5))
    assert [line[0] for line in table] == ["1", "16", "256"]
    assert [line[-1] for line in table] == ["1.0 x", "4.0 x", "1.0 x"]


def test_regions_must_be_cheaper_from_sixteen_boxes_on_one_by_one_and_together() -> None:
    dear = {f"{way}_{boxes}": 2.0 for way in ("one_crop", "crops_together") for boxes in (16, 256)}
    assert beaten(costs(**dear)) == []
    assert beaten(costs(**{**dear, "one_crop_256": 0.5})) == [256]
    assert beaten(costs()) == [16, 256]


def test_promises_are_the_published_accuracy_and_the_recipe_s(tmp_path: Path) -> None:
    run = {"training": {"cpu_seconds": 1200.0, "steps": 600, "batch_size": 16}}
    (tmp_path / "clipself.json").write_text(json.dumps(run))
    fine = costs(one_crop_16=2, crops_together_16=2, one_crop_256=2, crops_together_256=2)

    def accuracy(model: str, boxes: float) -> Accuracy:
        return Accuracy(model, boxes, 1.0, 1.0)

    kept = [accuracy(BEFORE, 15 / 285), accuracy(AFTER, 152 / 285)]
    assert broken_promises(kept, fine, None) == []
    assert [line.split(":")[0] for line in broken_promises([kept[0], accuracy(AFTER, 0.52)], fine, None)] == [AFTER]
    slow_and_poor = broken_promises([*kept, accuracy(RECIPE, 0.39)], fine, tmp_path)
    assert ["39.0%" in slow_and_poor[0], "20.0 CPU minutes" in slow_and_poor[1]] == [True, True]
    assert said_of(tmp_path).strip() == "The recipe's run: 600 steps of 16 images, 20.0 CPU minutes on one thread."


def test_the_scenes_have_285_boxes_of_known_labels() -> None:
    found = scenes()
    assert sum(len(scene["boxes"]) for scene in found) == 285
    assert {label for scene in found for label in scene["labels"]} <= set(labels())
    from benchmarks.detection_accuracy import SCENES

    assert cut_out(SCENES / found[0]["image"], [52, 85, 80, 123]).shape == (38, 28, 3)


@pytest.mark.parametrize("boxes", REGIONS)
def test_every_number_of_boxes_divides_its_regions(boxes: int) -> None:
    assert REGIONS[boxes] % boxes == 0
