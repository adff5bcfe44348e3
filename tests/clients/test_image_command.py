"""`pressroom image`: tables, JSON, COCO and pictures, and refusals that end the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_service import DIGEST, Behaviour, RefusalError

from pressroom.cli import main

LABELS = ["--labels", "cat, a red apple"]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.new("RGB", (40, 20), "white").save(path)
    return path


@pytest.fixture
def pressroom(url: str, server: Behaviour, photo: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run one command on the photograph; returns status, standard output and standard error."""

    def run(command: str, *options: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["image", command, str(photo), *options, "--url", url, "--model", "finder"])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_regions_come_as_a_table_with_boxes_in_order(pressroom: Any, tmp_path: Path) -> None:
    (tmp_path / "boxes.json").write_text("[[1, 2, 3, 4]]")
    status, out, _ = pressroom("regions", "--box", "0,0,10,99", "--boxes", str(tmp_path / "boxes.json"), *LABELS)
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][:7] == ["box", "0", "0.0", "0.0", "10.0", "20.0", "(clipped)"]
    assert lines[2][:6] == ["box", "1", "1.0", "2.0", "3.0", "4.0"]
    assert "cat 1.000, a red apple 0.000" in out
    assert f"finder:3  {DIGEST}" in out


def test_a_mask_file_is_sent_as_it_is(pressroom: Any, server: Behaviour, photo: Path) -> None:
    server.refusals.append(RefusalError("invalid_request", 422, "INVALID_ARGUMENT", field="masks[0]"))
    status, _, err = pressroom("regions", "--mask", str(photo), *LABELS)
    assert status == 1
    assert "invalid_request: about invalid_request [masks[0]]" in err
    sent = server.seen[-1].body
    asked = json.loads(sent if isinstance(sent, bytes) else sent.raw_input_contents[0][4:])
    assert asked["masks"] == [{"png": asked["image"]}]


def test_detections_are_drawn_and_printed(pressroom: Any, tmp_path: Path) -> None:
    plot = tmp_path / "new/plot.png"
    status, out, _ = pressroom("detect", *LABELS, "--threshold", "0.8", "--proposals", "grid", "--plot", str(plot))
    assert status == 0
    assert [line.split() for line in out.splitlines()][1] == ["cat", "0.900", "10.0", "5.0", "20.0", "20.0"]
    assert "this model is no detector" in out
    assert f"{plot} written" in out
    assert np.asarray(Image.open(plot)).min() < 255


def test_json_and_coco_are_one_document_each(pressroom: Any) -> None:
    status, out, _ = pressroom("detect", *LABELS, "--json")
    answer = json.loads(out)
    assert status == 0
    assert answer["detections"][1]["box"] == {"xmin": 10.0, "ymin": 5.0, "xmax": 20.0, "ymax": 20.0}
    assert answer["labels"] == ["cat", "a red apple"]
    _, out, _ = pressroom("detect", *LABELS, "--coco")
    assert json.loads(out)[0] == {"image_id": "photo", "category_id": 1, "bbox": [10, 5, 10, 15], "score": 0.9}


def test_a_label_map_is_written_with_its_values(pressroom: Any, tmp_path: Path) -> None:
    for extra in ((), ("--json",)):
        out_file = tmp_path / "map.png"
        status, out, _ = pressroom("segment", *LABELS, "--out", str(out_file), *extra)
        assert status == 0
        assert np.unique(np.asarray(Image.open(out_file))).tolist() == [1, 2]
        assert Image.open(out_file).convert("RGB").getpixel((0, 0)) == (254, 1, 0)
    assert json.loads(out)["segments"][0]["pixels"] == 400


def test_a_whole_picture_is_classified(pressroom: Any) -> None:
    status, out, _ = pressroom("classify", *LABELS, "--top-k", "1")
    assert status == 0
    assert [line.split() for line in out.splitlines()][1] == ["cat", "1.000", "0.500"]


MISUSE = [
    (["--box", "1,2,3"], "expected four numbers"),
    (["--box", "a,b,c,d"], "expected four numbers"),
    (["--boxes", "{photo}"], "is not JSON"),
]


@pytest.mark.parametrize(("options", "message"), MISUSE, ids=[message for _, message in MISUSE])
def test_boxes_that_cannot_be_read_are_misuse(pressroom: Any, photo: Path, options: list[str], message: str) -> None:
    status, _, err = pressroom("regions", *(option.format(photo=photo) for option in options), *LABELS)
    assert status == 2
    assert message in " ".join(err.split())


def test_without_a_server_the_hint_says_how_to_start_one(photo: Path, free_port: int, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["image", "classify", str(photo), *LABELS, "--url", f"http://127.0.0.1:{free_port}"])
    assert ended.value.code == 1
    assert "pressroom serve" in capsys.readouterr().err
