"""Kubernetes' API as these tests ask it: objects in and out as JSON, whatever their kind."""

from __future__ import annotations

import json
from typing import Any

import httpx

Object = dict[str, Any]
WHO = "pressroom-tests"


class RefusedError(Exception):
    """The API server's no: its status code and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class Api:
    """Calls as an administrator. `namespace` is where objects without one go."""

    def __init__(self, url: str, token: str, namespace: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        # The server's certificate is its own; nobody is between two ends of one cable.
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=30, trust_env=False)
        self._resources: dict[tuple[str, str], Object] = {}
        self.namespace = namespace

    def close(self) -> None:
        self._http.close()

    def call(self, method: str, path: str, **options: Any) -> Object:
        answer = self._http.request(method, path, **options)
        found: Object = answer.json() if "json" in answer.headers.get("content-type", "") else {"text": answer.text}
        if answer.is_error:
            raise RefusedError(answer.status_code, found.get("message", answer.text))
        return found

    def healthy(self) -> bool:
        try:
            return self.call("GET", "/readyz")["text"] == "ok"
        except (RefusedError, httpx.TransportError):
            return False

    def path(self, version: str, kind: str, name: str = "", namespace: str | None = None) -> str:
        """Where objects of a kind are; discovered once a kind."""
        known = (version, kind)
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if known not in self._resources:
            for one in self.call("GET", root)["resources"]:
                if "/" not in one["name"]:
                    self._resources[(version, one["kind"])] = one
        if known not in self._resources:
            raise RefusedError(404, f"{version} has no {kind}")
        resource = self._resources[known]
        within = f"/namespaces/{namespace or self.namespace}" if resource["namespaced"] else ""
        return f"{root}{within}/{resource['name']}" + (f"/{name}" if name else "")

    def apply(self, one: Object, *, dry_run: bool = False) -> Object:
        """Server-side apply: a field that the server does not know is refused, too."""
        meta = one["metadata"]
        path = self.path(one["apiVersion"], one["kind"], meta["name"], meta.get("namespace"))
        options = {"fieldManager": WHO, "force": "true"} | ({"dryRun": "All"} if dry_run else {})
        headers = {"Content-Type": "application/apply-patch+yaml"}
        return self.call("PATCH", path, params=options, headers=headers, content=json.dumps(one))

    def create(self, one: Object) -> Object:
        """As `apply`, where that is not to be had: 1.20 does not apply APIServices."""
        return self.call("POST", self.path(one["apiVersion"], one["kind"]), json=one)

    def get(self, version: str, kind: str, name: str) -> Object:
        return self.call("GET", self.path(version, kind, name))

    def list(self, version: str, kind: str, **labels: str) -> list[Object]:
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found: list[Object] = self.call("GET", self.path(version, kind), params={"labelSelector": selector})["items"]
        return found

    def delete(self, version: str, kind: str, name: str) -> None:
        self.call("DELETE", self.path(version, kind, name), params={"propagationPolicy": "Background"})

    def evict(self, pod: str) -> None:
        """What a node drain asks for. Raises RefusedError(429) where a disruption budget forbids it."""
        body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod}}
        self.call("POST", f"{self.path('v1', 'Pod', pod)}/eviction", json=body)
