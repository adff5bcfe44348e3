"""A real Prometheus scrapes the server with a key and answers the questions operators ask."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator

import etth1
import httpx
import pytest
from asking import forecast_message, rpc
from keyring import KeyRing
from live_server import LiveServer, StartServer, eventually, free_ports
from programs import program

REQUESTS = 60
_CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 400ms}}
scrape_configs:
  - job_name: pressroom
    authorization: {{credentials: "{secret}"}}
    static_configs: [{{targets: ["{address}"]}}]
"""

pytestmark = pytest.mark.needs("prometheus")


@pytest.fixture(scope="module")
def keyed(start_server: StartServer, keys: KeyRing) -> LiveServer:
    return start_server("--models", etth1.CARD, "--keys-file", str(keys.path))


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, question: str) -> list[tuple[dict[str, str], float]]:
        """An instant query: labels and value of each series."""
        try:
            answer = httpx.get(f"{self._url}/api/v1/query", params={"query": question}, timeout=10)
        except httpx.TransportError:
            return []
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 503:  # still starting
            return []
        return [(series["metric"], float(series["value"][1])) for series in answer.json()["data"]["result"]]

    def number(self, question: str) -> float:
        found = self.ask(question)
        return found[0][1] if found else math.nan


@pytest.fixture(scope="module")
def prometheus(keyed: LiveServer, keys: KeyRing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder, (port,) = tmp_path_factory.mktemp("prometheus"), free_ports(1)
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(secret=keys.secrets["metrics"], address=keyed.address))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with program(command, folder / "log"):
        found = Prometheus(f"http://127.0.0.1:{port}")
        eventually(lambda: found.number('up{job="pressroom"}') == 1, "the first scrape succeeded", 60)
        yield found


@pytest.fixture(scope="module")
def asked(keyed: LiveServer, keys: KeyRing, prometheus: Prometheus) -> list[float]:
    """Total milliseconds of answered requests over both protocols, all scraped by now; ten were refused besides."""
    totals = []
    headers, request = keys.bearer("infer"), etth1.request(model=etth1.CARD)
    for _ in range(REQUESTS // 2):
        totals.append(keyed.post(etth1.FORECAST, json=request, headers=headers).json()["timings"]["total_ms"])
        answer = rpc(keyed, "ModelInfer", forecast_message(), metadata=keys.metadata("infer"))
        totals.append(answer.parameters["total_ms"].double_param)
    for _ in range(10):
        assert keyed.post(etth1.FORECAST, json={**request, "horizon": 97}, headers=headers).status_code == 422
    question = 'sum(pressroom_requests_total{code="horizon_too_long"})'
    eventually(lambda: prometheus.number(question) == 10, "all requests are scraped")
    return totals


@pytest.mark.usefixtures("asked")
def test_requests_are_counted_by_outcome_and_protocol(prometheus: Prometheus) -> None:
    found = prometheus.ask("sum by (protocol, code) (pressroom_requests_total) > 0")
    assert {(labels["protocol"], labels["code"]): value for labels, value in found} == {
        ("http", "ok"): REQUESTS / 2,
        ("grpc", "ok"): REQUESTS / 2,
        ("http", "horizon_too_long"): 10,
    }


def test_the_stages_add_up_to_the_requests(prometheus: Prometheus, asked: list[float]) -> None:
    assert prometheus.number("sum(pressroom_stage_seconds_sum)") == pytest.approx(sum(asked) / 1000, rel=1e-3)
    counts = prometheus.ask("sum by (stage) (pressroom_stage_seconds_count)")
    assert {labels["stage"]: value for labels, value in counts} == dict.fromkeys(
        ("preprocess", "queue", "inference", "postprocess"), REQUESTS
    )


@pytest.mark.usefixtures("asked")
def test_quantiles_of_every_stage_can_be_had(prometheus: Prometheus) -> None:
    question = "histogram_quantile(0.95, sum by (le, stage) (rate(pressroom_stage_seconds_bucket[5m])))"
    found = eventually(lambda: [q for q in prometheus.ask(question) if q[1] > 0], "rates exist", 20)
    assert {labels["stage"] for labels, _ in found} == {"preprocess", "queue", "inference", "postprocess"}
    assert all(0 < value <= 30 for _, value in found)


@pytest.mark.usefixtures("asked")
def test_error_share_and_queue_are_numbers_before_anything_went_wrong(prometheus: Prometheus) -> None:
    """Series exist from the start: no alert is silent because its series has not been born."""
    assert prometheus.number('sum(rate(pressroom_requests_total{code="internal"}[5m]))') == 0
    assert prometheus.number("sum(pressroom_queue_rows)") == 0
    assert prometheus.number("min(pressroom_model_ready)") == 1
    assert prometheus.number("sum(pressroom_circuit_open)") == 0


def test_the_exposition_passes_prometheus_s_own_linter(keyed: LiveServer, keys: KeyRing) -> None:
    text = keyed.get("/metrics", headers=keys.bearer("metrics")).text
    promtool = shutil.which("promtool")
    assert promtool
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
