"""Two replicas on hosts of their own, Prometheus and Alertmanager beside them (rung 5).

Whatever becomes of one replica, a client with retries loses nothing, the alert fires, and it resolves.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import etth1
import httpx
import psutil
import pytest
import yaml
from forecast_callers import Caller, by_client
from hosts import ADDRESS, PORT, Host, Service, hosts, usable
from live_server import PRESSROOM, clean_environment, eventually, free_ports
from manifests import K8S
from programs import program

pytestmark = [
    pytest.mark.skipif(not usable(), reason="network namespaces need root, iproute2 and iptables"),
    pytest.mark.needs("prometheus", "prometheus-alertmanager"),
]
RULE = "PressroomTargetDown"
ANSWERS = 25  # after every change, at least
CALLERS = 3


@dataclass(eq=False)
class Replica:
    """A server on a host; may be killed and started again."""

    host: Host
    home: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = self.host.inside(PRESSROOM, "serve", "forecast", "--host", "0.0.0.0", "--insecure")
        settings = {"PRESSROOM_PORT": str(PORT), "PRESSROOM_GRPC_PORT": "0", "PRESSROOM_MODELS": etth1.CARD}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env=clean_environment(self.home, settings),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """All of its processes at once, as when a node loses power."""
        if self.process is None:
            return
        one = psutil.Process(self.process.pid)
        for process in [one, *one.children(recursive=True)]:
            process.kill()
        self.process.wait()
        self.process = None


@dataclass(eq=False)
class World:
    """Everything that runs."""

    replicas: list[Replica]
    service: Service
    callers: list[Caller]
    alerts: Callable[[], dict[str, str]]  # instance -> state, of RULE

    def answered(self) -> int:
        return min(caller.answers for caller in self.callers)

    def settle(self, ready: int) -> None:
        """The Service leads to so many hosts, and every caller has had ANSWERS answers since."""
        eventually(lambda: len(self.service.ready) == ready, f"{ready} hosts are ready", 90)
        before = self.answered()
        eventually(lambda: self.answered() >= before + ANSWERS, "callers are answered", 120)

    def check(self) -> None:
        assert [fault for caller in self.callers for fault in caller.faults] == []


@pytest.fixture(scope="module")
def world(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("hosts")
    with ExitStack() as running:
        made = running.enter_context(hosts(2))
        replicas = [Replica(host, pressed_home, folder / f"{host.name}.log") for host in made]
        for replica in replicas:
            replica.start()
            running.callback(replica.kill)
        service = running.enter_context(Service(made))
        eventually(lambda: len(service.ready) == 2, "both replicas are ready", 120)
        alerts = running.enter_context(watched(made, folder))
        asks = [running.enter_context(by_client(f"http://{ADDRESS}:{PORT}")) for _ in range(CALLERS)]
        callers = [Caller(ask, etth1.official("card").units[0]) for ask in asks]
        for caller in callers:
            caller.start()
            running.callback(caller.stop)
        world = World(replicas, service, callers, alerts)
        world.settle(2)
        yield world


@contextmanager
def watched(members: list[Host], folder: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """Prometheus with our rules and Alertmanager; yields what says the state of RULE for each instance."""
    prometheus, alertmanager, cluster = free_ports(3)
    rules = yaml.safe_load((K8S / "components" / "prometheus" / "prometheusrule.yaml").read_text())["spec"]
    rules["groups"] = [hurried(group) for group in rules["groups"]]
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    targets = {"targets": [host.target for host in members], "labels": {"component": "forecast"}}
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms", "evaluation_interval": "500ms"},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [{"job_name": "pressroom-forecast", "static_configs": [targets]}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alertmanager.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    commands = [
        [
            "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'p'}",
            f"--web.listen-address=127.0.0.1:{prometheus}", "--rules.alert.resend-delay=1s",
        ],
        [
            "prometheus-alertmanager", f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'a'}", f"--web.listen-address=127.0.0.1:{alertmanager}",
            f"--cluster.listen-address=127.0.0.1:{cluster}",
        ],
    ]  # fmt: skip
    with ExitStack() as running:
        for number, command in enumerate(commands):
            running.enter_context(program(command, folder / f"program-{number}.log"))

        def states() -> dict[str, str]:
            try:
                found = httpx.get(f"http://127.0.0.1:{alertmanager}/api/v2/alerts", timeout=10).json()
            except httpx.TransportError:
                return {}
            ours = [alert for alert in found if alert["labels"]["alertname"] == RULE]
            return {alert["labels"]["instance"]: alert["status"]["state"] for alert in ours}

        yield states


def hurried(group: dict[str, Any]) -> dict[str, Any]:
    """The same rules with seconds for minutes: how long they wait is promtool's test."""
    rules = [rule | ({"for": "1s"} if "alert" in rule else {}) for rule in group["rules"]]
    return group | {"rules": rules, "interval": "500ms"}


def test_both_replicas_answer_and_no_alert_is_up(world: World) -> None:
    counts = [httpx.get(f"http://{replica.host.target}/metrics", timeout=10).text for replica in world.replicas]
    assert all('code="ok"' in text for text in counts)
    assert world.alerts() == {}
    world.check()


def test_a_replica_is_killed_and_comes_back(world: World) -> None:
    lost = world.replicas[0]
    lost.kill()
    world.settle(1)
    eventually(lambda: world.alerts().get(lost.host.target) == "active", "the alert fires", 60)
    lost.start()
    world.settle(2)
    eventually(lambda: lost.host.target not in world.alerts(), "the alert resolves", 60)
    world.check()


@pytest.mark.parametrize("how", ["drop", "reset"])
def test_a_host_is_cut_off_and_comes_back(world: World, how: Any) -> None:
    lost = world.replicas[1].host
    cut: AbstractContextManager[None] = lost.cut_off(how)
    with cut:
        world.settle(1)
        eventually(lambda: world.alerts().get(lost.target) == "active", "the alert fires", 60)
    world.settle(2)
    eventually(lambda: lost.target not in world.alerts(), "the alert resolves", 60)
    world.check()
