"""Alerts, dashboard and scalers: queries parse, name metrics that exist, and alerts fire when they should (rung 3)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest
import yaml
from live_server import LiveServer
from manifests import K8S, ROOT, Object, built, find

from pressroom.k8s_checks import of_kind

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own imports warn
    import services.gateway  # noqa: F401  its families register their metrics

pytestmark = [pytest.mark.needs("kubectl")]
PROMETHEUS = K8S / "components" / "prometheus" / "prometheusrule.yaml"
RULES: Object = yaml.safe_load(PROMETHEUS.read_text())["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]
DASHBOARD: Object = json.loads((K8S / "components" / "grafana" / "pressroom.json").read_text())
NAMED = re.compile(r"\bpressroom_[a-z_]+\b")
SUFFIXES = ("_bucket", "_sum", "_count")


def dashboard_queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def scaler_queries() -> Iterator[str]:
    for one in of_kind(built("cpu", "hpa"), "HorizontalPodAutoscaler"):
        yield from (metric["pods"]["metric"]["name"] for metric in one["spec"]["metrics"])
    for one in of_kind(built("cpu", "keda"), "ScaledObject"):
        yield from (trigger["metadata"]["query"] for trigger in one["spec"]["triggers"])
    rules = find(built("cpu", "hpa"), "ConfigMap", "pressroom-adapter-rules")["data"]["config.yaml"]
    yield from (rule["seriesQuery"] for rule in yaml.safe_load(rules)["rules"])


def rule_queries() -> Iterator[str]:
    yield from (rule["expr"] for group in RULES["groups"] for rule in group["rules"])


def registered() -> set[str]:
    """Every metric the server can have."""
    names = {sample for family in prometheus_client.REGISTRY.collect() for sample in [family.name, *_samples(family)]}
    return {name for name in names if name.startswith("pressroom_")}


def _samples(family: prometheus_client.Metric) -> list[str]:
    kinds = {"counter": ("_total",), "histogram": SUFFIXES}
    return [family.name + suffix for suffix in kinds.get(family.type, ())]


@pytest.mark.parametrize("source", [dashboard_queries, scaler_queries, rule_queries])
def test_every_metric_that_is_asked_for_exists(source: object) -> None:
    assert callable(source)
    named = {name for query in source() for name in NAMED.findall(query)}
    assert len(named) > 0
    assert named <= registered(), named - registered()


def test_a_live_server_has_the_series_of_the_rules(server: LiveServer) -> None:
    """Before the first request: rates must be right from the start. Those of texts are another family's."""
    exposed = {name for name, _ in server.samples()}
    named = {name for query in [*rule_queries(), *scaler_queries()] for name in NAMED.findall(query)}
    assert named <= exposed, named - exposed


@pytest.mark.needs("promtool")
def test_the_rules_are_sound_and_fire_when_they_should(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    tests = (ROOT / "tests" / "k8s" / "alerts.yaml").read_text()
    (tmp_path / "alerts.yaml").write_text(tests)
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "alerts.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    fired = {
        case["alertname"] for t in yaml.safe_load(tests)["tests"] for case in t["alert_rule_test"] if case["exp_alerts"]
    }
    assert fired == {alert["alert"] for alert in ALERTS}


@pytest.mark.needs("promtool")
def test_every_query_of_the_dashboard_parses(tmp_path: Path) -> None:
    queries = [_filled(query) for query in dashboard_queries()]
    assert len(queries) > 25
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", "queries.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
def test_an_alert_that_cannot_be_parsed_would_be_found(tmp_path: Path) -> None:
    broken = {"groups": [{"name": "x", "rules": [{"record": "y", "expr": "sum(rate(a[5m])"}]}]}
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(broken))
    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "broken.yaml")], check=False, capture_output=True
    )
    assert done.returncode != 0


@pytest.mark.needs("promtool")
def test_the_exposition_is_what_prometheus_lints(server: LiveServer) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=server.get("/metrics").text, capture_output=True, text=True, check=False
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("pressroom_")]
    assert ours == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_has_its_section_in_the_runbook(alert: Object) -> None:
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert alert["annotations"]["summary"]
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in [heading.lower() for heading in headings]
    section = (ROOT / page).read_text().split(f"## {alert['alert']}\n")[1].split("\n## ")[0]
    assert all(
        f"**{part}**" in section.replace("**remedy**", "**Remedy**") for part in ("Means", "First look", "Remedy")
    )


def test_the_dashboard_fits_its_grid() -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    taken = {
        (x, y)
        for p in panels
        for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
        for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])
    }
    assert len(taken) == sum(p["gridPos"]["w"] * p["gridPos"]["h"] for p in panels), "panels overlap"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(panel["description"] for panel in panels)


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "scripts/generate_k8s.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def _filled(query: str) -> str:
    """A query as Grafana sends it."""
    return query.replace("$__rate_interval", "5m").replace("$component", ".*").replace("$model", ".*")
