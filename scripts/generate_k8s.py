"""Write the generated files of k8s/: the Grafana dashboard, from the table of panels here, and the values' JSON schema.

python scripts/generate_k8s.py            write them
python scripts/generate_k8s.py --check    exit 1 if they are not what this would write
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from pressroom.k8s_values import Values

K8S = Path(__file__).resolve().parents[1] / "k8s"
DASHBOARD, SCHEMA = K8S / "components" / "grafana" / "pressroom.json", K8S / "values.schema.json"
WIDTH, COLUMNS, HEIGHT = 24, 3, 8  # Grafana's grid, panels in a row, units of height
CHOSEN = 'component=~"$component",model=~"$model"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


class Panel(NamedTuple):
    """One graph. queries: PromQL by legend; unit: Grafana's name of it."""

    title: str
    meaning: str
    unit: str
    queries: dict[str, str]


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{CHOSEN}{more}}}[$__rate_interval]))"


def _quantile(share: float, metric: str, by: str, more: str = "") -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', f'le, {by}', more)})"


def _level(metric: str, by: str = "model, version") -> str:
    return f"sum by ({by}) ({metric}{{{CHOSEN}}})"


def _mean_stage(stage: str) -> str:
    chosen = f',stage="{stage}"'
    seconds = _rate("pressroom_stage_seconds_sum", "stage", chosen)
    return f"{seconds} / {_rate('pressroom_stage_seconds_count', 'stage', chosen)}"


def _coverage() -> str:
    return f"avg by (model, level, method) (pressroom_forecast_coverage_ratio{{{CHOSEN}}})"


STAGES = ("preprocess", "queue", "inference", "postprocess")
ROWS: dict[str, list[Panel]] = {
    "Traffic": [
        Panel(
            "Requests",
            "Finished requests a second, by model and version.",
            "reqps",
            {"{{model}}:{{version}}": _rate("pressroom_requests_total", "model, version")},
        ),
        Panel(
            "Errors by reason",
            "Requests a second that were refused or failed, by error code.",
            "reqps",
            {"{{code}}": _rate("pressroom_requests_total", "code", ',code!="ok"')},
        ),
        Panel(
            "Error share",
            "Share of requests that failed for our fault; the objective is 0.1 %.",
            "percentunit",
            {"{{component}}": 'pressroom:error_share:rate5m{component=~"$component"}'},
        ),
        Panel(
            "In flight",
            "Requests being handled, by protocol.",
            "short",
            {"{{protocol}}": 'sum by (protocol) (pressroom_in_flight_requests{component=~"$component"})'},
        ),
        Panel(
            "Models and versions",
            "Workers in which a version is loaded, verified and warm.",
            "short",
            {"{{model}}:{{version}}": _level("pressroom_model_ready")},
        ),
        Panel(
            "Refused artifacts",
            "Artifacts that were asked for and are not served.",
            "short",
            {"{{pod}}": 'max by (pod) (pressroom_models_refused{component=~"$component"})'},
        ),
    ],
    "Time": [
        Panel(
            "Where the time goes",
            "Mean seconds a request by stage; they add up to the request.",
            "s",
            {stage: _mean_stage(stage) for stage in STAGES},
        ),
        Panel(
            "Queue, 99th percentile",
            "Seconds from being queued to the forward pass.",
            "s",
            {"{{model}}": _quantile(0.99, "pressroom_stage_seconds", "model", ',stage="queue"')},
        ),
        Panel(
            "Inference, 99th percentile",
            "Seconds of the forward pass.",
            "s",
            {"{{model}}": _quantile(0.99, "pressroom_stage_seconds", "model", ',stage="inference"')},
        ),
    ],
    "Batches and memory": [
        Panel("Waiting rows", "Rows in the queue.", "short", {"{{model}}": _level("pressroom_queue_rows", "model")}),
        Panel(
            "Rows a forward pass",
            "How full batches are.",
            "short",
            {
                "{{model}}": f"{_rate('pressroom_batch_rows_sum', 'model')}"
                f" / {_rate('pressroom_batch_rows_count', 'model')}"
            },
        ),
        Panel(
            "Padding",
            "Elements a second that only pad batches to a common shape.",
            "short",
            {"{{model}}": _rate("pressroom_padding_elements_total", "model")},
        ),
        Panel(
            "Open circuits",
            "Workers in which a model rests after failures.",
            "short",
            {"{{model}}": _level("pressroom_circuit_open", "model")},
        ),
        Panel(
            "Memory",
            "Resident bytes of each worker process.",
            "bytes",
            {"{{pod}}": 'max by (pod) (pressroom_worker_resident_bytes{component=~"$component"})'},
        ),
    ],
    "Language models": [
        Panel(
            "Tokens",
            "Tokens a second: of prompts, of these from the prefix cache, and generated.",
            "short",
            {
                word: _rate(f"pressroom_llm_{word}_tokens_total", "component")
                for word in ("prompt", "cached", "generated")
            },
        ),
        Panel(
            "Time to first token",
            "Seconds, median and 99th percentile.",
            "s",
            {
                "p50": _quantile(0.5, "pressroom_llm_first_token_seconds", "model"),
                "p99": _quantile(0.99, "pressroom_llm_first_token_seconds", "model"),
            },
        ),
        Panel(
            "Between tokens",
            "Seconds from one token of a text to its next.",
            "s",
            {
                "p50": _quantile(0.5, "pressroom_llm_token_interval_seconds", "model"),
                "p99": _quantile(0.99, "pressroom_llm_token_interval_seconds", "model"),
            },
        ),
        Panel(
            "Sequences",
            "Running, waiting, and how many can run.",
            "short",
            {
                "running": _level("pressroom_llm_running_sequences", "model"),
                "waiting": _level("pressroom_llm_waiting_sequences", "model"),
                "slots": _level("pressroom_llm_slots", "model"),
            },
        ),
        Panel(
            "Cache",
            "Share of the cache's tokens that running sequences have reserved.",
            "percentunit",
            {
                "{{model}}": f"{_level('pressroom_llm_kv_reserved_tokens', 'model')}"
                f" / {_level('pressroom_llm_kv_tokens', 'model')}"
            },
        ),
        Panel(
            "Sequences that ended",
            "A second, by outcome.",
            "short",
            {"{{outcome}}": _rate("pressroom_llm_sequences_total", "outcome")},
        ),
    ],
    "Forecasts": [
        Panel(
            "Coverage",
            "Share of truths inside the interval, by level in percent and method: should be the level.",
            "percentunit",
            {"{{model}} {{level}} {{method}}": _coverage()},
        ),
        Panel(
            "Drift",
            "Population stability index of each column's inputs against the training data; above 0.25 is a shift.",
            "short",
            {"{{model}} {{column}}": f"max by (model, column) (pressroom_forecast_drift_psi{{{CHOSEN}}})"},
        ),
        Panel(
            "Truths",
            "Values a second that were sent as truth and met a forecast.",
            "short",
            {"{{model}}": _rate("pressroom_forecast_truths_total", "model")},
        ),
    ],
}


def dashboard() -> Json:
    panels: list[Json] = []
    y = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        panels.append({"type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []})
        y += 1
        for number, panel in enumerate(row):
            x = number % COLUMNS * (WIDTH // COLUMNS)
            place = {"x": x, "y": y + number // COLUMNS * HEIGHT, "w": WIDTH // COLUMNS, "h": HEIGHT}
            panels.append(_graph(panel, place))
        y += -(-len(row) // COLUMNS) * HEIGHT
    for number, panel_json in enumerate(panels, 1):
        panel_json["id"] = number
    return {
        "uid": "pressroom",
        "title": "Pressroom",
        "tags": ["pressroom"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _graph(panel: Panel, place: dict[str, int]) -> Json:
    targets = [
        {"refId": chr(ord("A") + i), "expr": query, "legendFormat": legend, "datasource": SOURCE}
        for i, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "gridPos": place,
        "targets": targets,
    }


def _variables() -> list[Json]:
    def chosen(name: str, query: str) -> Json:
        return {
            "name": name,
            "type": "query",
            "datasource": SOURCE,
            "query": query,
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
            "refresh": 2,
            "current": {"text": "All", "value": "$__all"},
        }

    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        chosen("component", "label_values(pressroom_model_ready, component)"),
        chosen("model", 'label_values(pressroom_model_ready{component=~"$component"}, model)'),
    ]


def files() -> dict[Path, str]:
    """What each file holds."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Values.model_json_schema()
    documents = {DASHBOARD: dashboard(), SCHEMA: schema}
    return {path: json.dumps(document, indent=1) + "\n" for path, document in documents.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated files of k8s/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not up to date")
    if not parser.parse_args().check:
        for path, text in files().items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in files().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.name} is out of date: run python scripts/generate_k8s.py", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
