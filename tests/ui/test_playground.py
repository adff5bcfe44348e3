"""Every tab of the playground does its work in a real browser, and what it draws is what the API answered."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browsing import TABS, Playground
from live_server import LiveServer, eventually
from PIL import Image
from tiny_detector import DETECTOR

pytestmark = pytest.mark.needs("chromium")

FORECASTER, CLIP, RECORDS, SCHEME = "itransformer-etth1", "clipself-tiny", "motor-tutorial", "tiny-mark"
NEAR: Any = {"rtol": 1e-5, "atol": 1e-4}  # a table holds as many digits as tell float32 numbers apart
DENSE, PRUNED = "smollm2", "smollm2-ria-2-4"
Json = dict[str, Any]


def ask(server: LiveServer, path: str, body: Json) -> Json:
    response = server.post(path, json=body, timeout=60)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def example(server: LiveServer, model: str) -> Json:
    found: Json = server.get(f"/v1/models/{model}").json()["example"]["request"]
    return found


def pixel(page: Playground, selector: str, x: float, y: float) -> list[int]:
    """Red, green, blue of a canvas."""
    text = "return [...arguments[0].getContext('2d').getImageData(arguments[1], arguments[2], 1, 1).data].slice(0, 3)"
    found: list[int] = page.script(text, page.one(selector), round(x), round(y))
    return found


def test_a_tab_for_every_family_that_is_served(page: Playground) -> None:
    assert [one.get_attribute("id") for one in page.all("[role=tab]")] == [f"tab-{name}" for name in TABS]


# --- forecast


def test_a_forecast_is_drawn_and_saved_as_it_was_answered(page: Playground, every_server: LiveServer) -> None:
    page.choose("Model", FORECASTER)
    page.answer("Forecast")
    sent = example(every_server, FORECASTER)["series"][0]
    told = ask(every_server, "/v1/forecast", {"model": FORECASTER, "series": [sent], "levels": [80, 95]})["series"][0]
    known, forecast = page.drawn("forecast")["lines"]
    assert np.allclose(known["values"][:96], sent["values"]["OT"], rtol=1e-7)
    assert np.allclose(forecast["values"][96:], told["values"]["OT"], **NEAR)
    for band, interval in zip(page.drawn("forecast")["bands"], reversed(told["intervals"]), strict=True):
        assert band["label"] == f"{interval['level']} %"
        assert np.allclose(band["lower"][96:], interval["lower"]["OT"], **NEAR)
    assert page.drawn("forecast")["x"][0] == pd.Timestamp(sent["timestamps"][0], tz="UTC").timestamp()
    page.press("Save the forecast as csv")
    file = eventually(lambda: next(page.downloads.glob("forecast*.csv"), None), "the file is saved")
    saved = pd.read_csv(file, index_col="time", parse_dates=True)
    assert np.allclose(saved["OT_95_upper"], told["intervals"][1]["upper"]["OT"], **NEAR)
    assert [str(stamp) for stamp in saved.index[:1]] == [told["timestamps"][0].replace("T", " ")]


def test_the_forecast_s_line_is_on_the_canvas_in_its_colour(page: Playground) -> None:
    page.answer("Forecast")
    text = """
        const canvas = document.querySelector(".plot canvas"), wanted = arguments[0];
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let found = 0;
        for (let at = 0; at < data.length; at += 4) if (wanted.every((part, i) => data[at + i] === part)) found += 1;
        return found;
    """
    page.until(lambda: page.script(text, [31, 95, 139]) > 100, "the line in --data-1")


def test_a_table_that_cannot_be_used_is_refused_in_words_and_never_as_markup(
    page: Playground, every_server: LiveServer
) -> None:
    page.write("Table", "a,b\n1,2\n3\n")
    assert "row 3 has 1 fields, the first row has 2" in page.answer("Forecast")
    evil = "<img src=x onerror=alert(1)>"
    columns = example(every_server, FORECASTER)["series"][0]["values"]
    page.write("Table", ",".join([*columns, evil]) + "\n" + "1,2,3,4,5,6,7,8\n" * 96)
    refused = page.answer("Forecast")
    assert "Field" in refused
    assert "What helps" in refused
    assert evil in refused
    assert page.all(".problem img, .problem *[onerror]") == []


def test_the_shown_command_gets_the_same_answer(page: Playground) -> None:
    page.answer("Forecast")
    page.one(".outcome summary").click()
    command = page.one(".curl").text
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)["series"][0]["values"]["OT"]
    assert np.allclose(page.drawn("forecast")["lines"][1]["values"][96:], told, **NEAR)


def test_pasted_tables_are_read_with_quotes_separators_and_gaps(page: Playground) -> None:
    text = '"when";"a ""b"", c"\r\n2020-01-01 00:00:00;1,5\r\n2020-01-01 01:00:00;\r\n'
    read = page.imported("csv.js", "module.asSeries(module.readTable(given[0]), 1)", text)
    assert read == {"timestamps": ["2020-01-01T01:00:00"], "values": {'a "b", c': [None]}}
    back = page.imported("csv.js", "module.readTable(module.writeTable(...given))", ['x,"', "y"], [["1\n2", None]])
    assert back == {"heads": ['x,"', "y"], "rows": [["1\n2", ""]]}


# --- detect


def test_boxes_and_map_are_drawn_where_the_answer_says(
    page: Playground, every_server: LiveServer, tmp_path: Path
) -> None:
    picture = Image.fromarray(np.full((150, 200, 3), (200, 40, 40), np.uint8))
    picture.paste((20, 160, 60), (100, 20, 180, 120))
    picture.save(tmp_path / "picture.png")
    page.tab("detect")
    page.labelled("Picture").send_keys(str(tmp_path / "picture.png"))
    page.write("Labels", "cat, <b>pizza</b>\nowl")
    page.write("Boxes from score", "0.4")
    page.write("Map from score", "0.4")
    shown = page.answer("Detect")
    sent = {
        "model": CLIP, "labels": ["cat", "<b>pizza</b>", "owl"],
        "image": base64.b64encode((tmp_path / "picture.png").read_bytes()).decode(),
    }  # fmt: skip
    more = {"threshold": 0.4, "max_detections": 6, "class_agnostic": True, "proposals": "grid"}
    found = ask(every_server, "/v1/detect", sent | more)["detections"]
    dense = ask(every_server, "/v1/segment", sent | {"background_threshold": 0.4})
    drawn = page.drawn("detect")
    assert [(one["label"], one["box"]) for one in drawn["boxes"]] == [(one["label"], one["box"]) for one in found]
    assert found
    assert all(one["label"] in shown for one in found)
    assert page.all(".outcome b b, .legend > li > b:first-child") == []
    page.script("arguments[0].click()", page.all(".check input")[1])  # boxes alone
    best, scale = found[0], drawn["scale"]
    colour = {one["label"]: one["color"] for one in dense["segments"]}[best["label"]]
    x, y = best["box"]["xmax"] * scale - 1, (best["box"]["ymin"] + best["box"]["ymax"]) / 2 * scale
    assert np.allclose(pixel(page, ".picture", min(x, drawn["width"] - 1), y), colour, atol=2)
    for box in page.all(".check input"):  # the map alone
        page.script("arguments[0].click()", box)
    values = np.asarray(Image.open(io.BytesIO(base64.b64decode(dense["png"]))))
    row, column = np.argwhere(values > 0)[0]
    label = next(one for one in dense["segments"] if one["value"] == values[row, column])
    under = np.array(picture.getpixel((int(column), int(row))))
    expected = 0.55 * np.array(label["color"]) + 0.45 * under
    place = [
        (part + 0.5) * scale * side / size
        for part, side, size in zip((column, row), (200, 150), values.shape[::-1], strict=True)
    ]
    assert np.allclose(pixel(page, ".picture", *place), expected, atol=3)


# --- text


def test_sentences_and_evidence_are_marked_where_they_stand(page: Playground, every_server: LiveServer) -> None:
    text = "🙂 " + example(every_server, DETECTOR)["text"] + " It was late. Nobody left before the lamps went out."
    page.tab("text")
    page.write("Text", text)
    shown = page.answer("Read")
    told = ask(every_server, "/v1/text/detect", {"model": DETECTOR, "text": text})["texts"][0]
    drawn = page.drawn("text")
    assert drawn["verdict"] == told["verdict"]
    scored = [one for one in told["sentences"] if one["score"] is not None and one["end"] > told["text"]["judged_from"]]
    assert scored
    sentences = [span for span in drawn["spans"] if span["kind"] == "sentence"]
    assert [span["end"] for span in sentences] == [one["end"] for one in scored]
    first = page.all(".marked .sentence")[0]
    assert page.script("return arguments[0].textContent", page.one("#panel-text .marked")) == text
    assert text[sentences[0]["start"] :].startswith(page.script("return arguments[0].textContent", first))
    assert "Called machine above" in shown


# --- watermark


def test_a_written_text_is_handed_on_and_read(page: Playground) -> None:
    page.tab("watermark")
    page.write("Message", "77")
    page.answer("Write and read", place=".bench:first-child")
    written = page.drawn("written")
    assert written["segments"] == 1
    page.until(lambda: page.all(".bench:last-child .explanation"), "the reading")
    handed_on = page.all("#panel-watermark textarea")[1].get_attribute("value")
    assert handed_on == re.sub(r"\r\n?", "\n", written["text"])  # a text area has no other ends of lines


def test_tokens_that_carry_the_message_are_coloured(page: Playground, every_server: LiveServer) -> None:
    body = {
        "prompt": "Hello",
        "guided_regex": "[A-Z0-9]{110}",
        "max_tokens": 110,
        "seed": 3,
        "watermark": {"message": 77},
    }
    text = ask(every_server, "/v1/watermark/generate", {"model": SCHEME, **body})["text"]
    page.tab("watermark")
    page.write("Text", text)
    shown = page.answer("Read", place=".bench:last-child")
    assert "Marked with message 77" in shown
    told = ask(every_server, "/v1/watermark/decode", {"model": SCHEME, "text": text, "return_marks": True})["results"][
        0
    ]
    drawn = page.drawn("watermark")
    assert drawn["carrying"] == told["segments"][0]["count"]
    carrying = "".join(text[one["start"] : one["end"]] for one in told["marks"] if one["available"])
    assert "".join(one.text for one in page.all(".bench:last-child .marked .carries")) == carrying
    assert f"{drawn['carrying']} of {drawn['counted']} counted" in shown


# --- records


def test_survival_curves_follow_from_the_answer_s_hazards(page: Playground, every_server: LiveServer) -> None:
    page.tab("records")
    page.press("Fill in a made-up patient")
    page.until(lambda: page.all(".events li"), "the patient")
    sent = example(every_server, RECORDS)
    events = len(sent["patients"][0]["events"])
    assert len(page.all(".events li")) == events
    page.press("Add an event")
    row = page.all(".events li")[-1]
    assert page.driver.switch_to.active_element == row.find_elements("css selector", "input")[0]
    page.all(".events li button")[-1].click()
    page.answer("Predict")
    told = ask(every_server, "/v1/ehr/predict", sent | {"tasks": ["nervous"], "horizons_days": [3652.5]})["patients"][0]
    hazard = told["tasks"][0]["hazard"]
    drawn = page.drawn("records")
    curve = np.array(drawn["lines"][0]["values"])
    assert drawn["lines"][0]["label"] == "nervous"
    assert curve[0] == 1
    assert np.all(np.diff(curve) <= 0)
    edges = [math.inf if edge is None else edge for edge in hazard["edges_days"]]
    for years, value in list(zip(drawn["x"], curve, strict=True))[::30]:
        parts = zip(hazard["per_day"], pairwise(edges), strict=True)
        total = sum(rate * max(0.0, min(years * 365.25, end) - begin) for rate, (begin, end) in parts)
        assert value == pytest.approx(math.exp(-total), rel=1e-6)
    assert curve[-1] == pytest.approx(told["tasks"][0]["survival"][0], rel=1e-6)
    page.one(".outcome .check input").click()
    page.until(lambda: page.drawn("records")["lines"] == [], "the curve is gone")


# --- chat


def test_twins_answer_side_by_side_with_speed_and_receipt(page: Playground, every_server: LiveServer) -> None:
    page.tab("chat")
    page.choose("Right", DENSE)
    page.write("Message", "Name three colours.")
    page.write("Tokens at most", "24")
    shown = page.answer("Send")
    asked = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 24, "temperature": 0}
    for model, told in zip((PRUNED, DENSE), page.drawn("chat"), strict=True):
        answer = ask(every_server, "/v1/chat/completions", {"model": model, **asked})
        assert (told["model"], told["text"]) == (model, answer["choices"][0]["message"]["content"])
        assert told["usage"]["completion_tokens"] == answer["usage"]["completion_tokens"]
    assert shown.count("Tokens a second") == 2
    receipt = every_server.get(f"/v1/models/{PRUNED}").json()["receipt"]
    figures = [float(f"{receipt['perplexity'][which]:.4g}") for which in ("pruned", "dense")]
    assert "Perplexity\n{:,g}, dense {:,g}".format(*figures) in shown
    page.answer("Send")
    assert len(page.all(".log")[0].find_elements("css selector", ".user")) == 2
    page.press("New conversation")
    assert page.all(".log p") == []


# --- models


def test_manifest_certificate_and_traffic_are_told(page: Playground, every_server: LiveServer) -> None:
    every_server.get("/v1/models")
    ask(every_server, "/v1/forecast", example(every_server, FORECASTER))
    page.tab("models")
    page.script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))",
        page.one("#panel-models select"), FORECASTER,
    )  # fmt: skip
    page.until(
        lambda: (page.drawn("models") or {}).get("id") == FORECASTER and page.all("#panel-models .note"), "the model"
    )
    details = every_server.get(f"/v1/models/{FORECASTER}").json()
    manifest = json.loads(
        (every_server.home / "models" / FORECASTER / details["version"] / "artifact.json").read_text()
    )
    drawn = page.drawn("models")
    assert sorted(drawn["files"]) == sorted(manifest["files"])
    assert (drawn["verdict"], drawn["cases"]) == ("ok", details["certificate"]["cases"])
    shown = page.one("#panel-models").text
    assert manifest["paper"]["title"] in shown
    assert details["digest"] in shown
    counted = [
        one for one in page.drawn("traffic")["requests"] if one["route"] == "/v1/forecast" and one["code"] == "ok"
    ]
    asked = every_server.metric("pressroom_requests_total", model=FORECASTER, route="/v1/forecast", code="ok")
    assert [one["count"] for one in counted] == [asked]


def test_percentiles_are_read_off_histograms_by_proportion(page: Playground) -> None:
    lines = [
        "# HELP x y",
        'pressroom_batch_rows_sum{model="m",version="1"} 6',
        'pressroom_batch_rows_count{model="m",version="1"} 4',
    ]
    for bound, count in (("0.001", 5), ("0.01", 95), ("+Inf", 100)):
        lines.append(f'pressroom_stage_seconds_bucket{{le="{bound}",model="m",version="1",stage="queue"}} {count}')
    lines += [
        f'pressroom_stage_seconds_{what}{{model="m",version="1",stage="queue"}} {value}'
        for what, value in (("sum", 0.5), ("count", 100))
    ]
    told = page.imported("exposition.js", "module.trafficOf(module.parse(given[0]), 'm', '1')", "\n".join(lines))
    assert told["rows"] == 1.5
    [queue] = told["stages"]
    assert queue["mean"] == pytest.approx(5)
    assert queue["p50"] == pytest.approx(1 + 9 * 45 / 90)
    assert queue["p99"] == 10
    odd = 'a{b="c\\"d\\\\,e\\n"} +Inf'
    [sample] = page.imported(
        "exposition.js", "module.parse(given[0]).map((one) => ({...one, value: String(one.value)}))", odd
    )
    assert sample == {"name": "a", "labels": {"b": 'c"d\\,e\n'}, "value": "Infinity"}
