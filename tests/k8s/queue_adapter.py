"""The custom-metrics API as prometheus-adapter serves it, from our own adapter rules and a real Prometheus.

The cluster's API server passes /apis/custom.metrics.k8s.io here; a question for a metric of pods becomes the rule's
`metricsQuery` with its placeholders filled, asked of Prometheus.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import yaml
from box import OUTSIDE
from cluster import NAMESPACE, Cluster
from manifests import K8S

GROUP, VERSION = "custom.metrics.k8s.io", "v1beta1"
SERVICE = "custom-metrics"
_QUESTION = re.compile(rf"/apis/{GROUP}/{VERSION}/namespaces/([^/]+)/pods/\*/([^/]+)")
(RULE,) = yaml.safe_load((K8S / "components" / "hpa" / "adapter-rules.yaml").read_text())["rules"]

Object = dict[str, Any]


@dataclass(frozen=True)
class Adapter:
    """Answers for one cluster, from the Prometheus at `prometheus`, which scrapes what is in the file `targets`.

    Debian's Prometheus is built without discovery in Kubernetes: the pods are written into that file instead.
    """

    cluster: Cluster
    prometheus: str
    targets: Path

    def answer(self, path: str, selector: str) -> Object | None:
        name = RULE["name"]["as"]
        if path == f"/apis/{GROUP}/{VERSION}":
            resource = {"name": f"pods/{name}", "singularName": "", "namespaced": True, "kind": "MetricValueList"}
            kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
            return {**kind, "resources": [{**resource, "verbs": ["get"]}]}
        asked = _QUESTION.fullmatch(path)
        if asked is None or asked[2] != name:
            return None
        labels = dict(pair.split("=", 1) for pair in selector.split(",") if pair)
        items = [self._item(pod, value) for pod, value in self.waiting(labels).items()]
        return {"kind": "MetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}

    def waiting(self, labels: dict[str, str]) -> dict[str, float]:
        """The metric's value for each pod with these labels that has one."""
        pods = [pod for pod in self.cluster.api.list("v1", "Pod", **labels) if "podIP" in pod["status"]]
        names = {pod["metadata"]["name"]: f"{pod['status']['podIP']}:3000" for pod in pods}
        found = [{"targets": [a], "labels": {"namespace": NAMESPACE, "pod": name}} for name, a in names.items()]
        self._write(json.dumps(found))
        matchers = f'namespace="{NAMESPACE}",pod=~"{"|".join(names)}"'
        filled = {"Series": RULE["name"]["as"], "LabelMatchers": matchers, "GroupBy": "pod"}
        query = re.sub(r"<<\.(\w+)>>", lambda found: filled[found[1]], RULE["metricsQuery"])
        answer = httpx.get(f"{self.prometheus}/api/v1/query", params={"query": query}, timeout=10).raise_for_status()
        return {one["metric"]["pod"]: float(one["value"][1]) for one in answer.json()["data"]["result"]}

    def _write(self, text: str) -> None:
        """At once, or not at all: Prometheus reads the file whenever it changes."""
        if not self.targets.exists() or self.targets.read_text() != text:
            new = self.targets.with_suffix(f".{threading.get_ident()}")
            new.write_text(text)
            new.replace(self.targets)

    @staticmethod
    def _item(pod: str, value: float) -> Object:
        return {
            "describedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": pod, "apiVersion": "/v1"},
            "metric": {"name": RULE["name"]["as"], "selector": None},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": f"{round(value * 1000)}m",
        }


@contextmanager
def serving(adapter: Adapter, folder: Path) -> Iterator[None]:
    """Serve it on this machine's end of the link, and register it with the cluster."""
    server = ThreadingHTTPServer((OUTSIDE, 0), _handler(adapter.answer))
    server.socket = _with_certificate(folder).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="adapter", daemon=True)
    thread.start()
    try:
        for one in _registration(server.server_port):
            adapter.cluster.api.create(one)
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _registration(port: int) -> list[Object]:
    """A Service without pods that leads here, and the API behind it."""
    meta = {"name": SERVICE}
    service = {"ports": [{"port": 443, "targetPort": port, "protocol": "TCP"}]}
    ends = [{"addresses": [{"ip": OUTSIDE}], "ports": [{"port": port, "protocol": "TCP"}]}]
    served = {
        "group": GROUP,
        "version": VERSION,
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": SERVICE, "namespace": NAMESPACE},
    }
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": ends},
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{VERSION}.{GROUP}"},
            "spec": served,
        },
    ]


def _handler(answer: Callable[[str, str], Object | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            found = answer(unquote(asked.path), parse_qs(asked.query).get("labelSelector", [""])[0])
            body = json.dumps(found or {}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: the cluster asks every few seconds."""

    return Handler


def _with_certificate(folder: Path) -> ssl.SSLContext:
    made = folder / "adapter.pem"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(made)]
    name = ["-subj", f"/CN={SERVICE}", "-days", "2", "-out", str(folder / "adapter.crt")]
    subprocess.run(["openssl", "req", "-x509", *new, *name], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "adapter.crt", made)
    return context
