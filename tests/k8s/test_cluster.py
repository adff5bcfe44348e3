"""Our image on a real cluster: rollouts under load, evictions, a refused artifact, and autoscaling (rung 7).

Callers ask all the time: some with the client's retries over kept connections, some with none over new ones. Neither
may lose a request, whatever is done to the pods.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import etth1
import httpx
import pytest
import yaml
from box import SYSCTLS, settings
from cluster import Cluster
from cluster_api import RefusedError
from deployed import KEY, METRICS_KEY, MOST, NAME, PODS, Deployed, deployed
from forecast_callers import RETRIES, Caller, by_client, by_new_connections
from live_server import eventually, free_ports
from manifests import ROOT
from pressroom_client import Client, PressroomError, Timeout
from programs import HINTS, missing, program
from queue_adapter import Adapter, serving

pytestmark = [pytest.mark.cluster, pytest.mark.needs("kubectl")]
ANSWERS = 30  # after every change, at least
CALLERS = 2  # of each kind
PAUSE = 0.05  # s between a caller's requests: two cores have a control plane to run, too
HEAVY, ROWS = 6, 100  # callers that fill the queues, rows a request
LONG = Timeout(total=120, connect=5, read=60)


@dataclass(eq=False)
class World:
    """Everything that runs."""

    deployed: Deployed
    callers: list[Caller]

    def settle(self) -> None:
        """Every caller has had ANSWERS answers since, and none went wrong."""
        before = [caller.answers for caller in self.callers]
        eventually(
            lambda: all(c.answers >= b + ANSWERS for c, b in zip(self.callers, before, strict=True)), "answers", 120
        )
        self.check()

    def check(self) -> None:
        assert [fault for caller in self.callers for fault in caller.faults] == []

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Note what was done, how long it took and how many requests were answered meanwhile."""
        before = sum(caller.answers for caller in self.callers)
        yield
        answered = sum(caller.answers for caller in self.callers) - before
        self.deployed.note(f"{what}; {answered} requests meanwhile, none lost")


@pytest.fixture(scope="module")
def world(running_cluster: Cluster, pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as running:
        made = running.enter_context(deployed(running_cluster, pressed_home, tmp_path_factory.mktemp("deployed")))
        asks = [running.enter_context(by_client(made.url, api_key=KEY)) for _ in range(CALLERS)]
        asks += [by_new_connections(made.url, KEY)] * CALLERS
        callers = [Caller(ask, etth1.official("card").units[0], PAUSE) for ask in asks]
        for caller in callers:
            caller.start()
            running.callback(caller.stop)
        world = World(made, callers)
        world.settle()
        yield world
        log = ROOT / "out" / "k8s-cluster.txt"
        log.write_text("\n".join(made.notes) + "\n")


def test_a_changed_setting_rolls_every_pod_without_a_lost_request(world: World) -> None:
    before = world.deployed.wait(2)
    with world.noted("rollout of a changed setting: both pods replaced"):
        world.deployed.apply(max_delay_ms=3)
        eventually(lambda: before.isdisjoint(world.deployed.pods()), "every pod is a new one", 180)
        world.deployed.wait(2)
        world.settle()


def test_the_budget_refuses_the_second_eviction(world: World) -> None:
    first, second = sorted(world.deployed.wait(2))
    api = world.deployed.cluster.api
    eventually(lambda: _allowed(world) == 1, "the budget allows one disruption")
    with world.noted("one pod evicted, the eviction of the other refused, two pods ready again"):
        api.evict(first)
        with pytest.raises(RefusedError, match="disruption budget") as refused:
            api.evict(second)
        assert refused.value.status == 429
        eventually(lambda: first not in world.deployed.pods(), "the evicted pod has gone", 120)
        assert second in world.deployed.wait(2)
        world.settle()


def _allowed(world: World) -> int:
    budget = world.deployed.cluster.api.get("policy/v1beta1", "PodDisruptionBudget", NAME)
    return int(budget["status"].get("disruptionsAllowed", 0))


def test_an_artifact_that_is_not_the_pinned_one_stops_the_rollout(world: World) -> None:
    """The new pod says why and is never ready; the old ones go on."""
    before = world.deployed.wait(2)
    with world.noted("an artifact of another digest refused: the old pods went on, the rollout was taken back"):
        world.deployed.apply([f"{etth1.CARD}:1@sha256:{'0' * 64}"])
        new = eventually(lambda: set(world.deployed.pods()) - before, "a new pod", 60).pop()
        eventually(lambda: "digest" in _log(world, new), "the new pod names the digest", 120)
        world.settle()
        assert not world.deployed.pods()[new]
        assert all(world.deployed.pods()[name] for name in before)
        world.deployed.apply()
        assert world.deployed.wait(2) == before


def _log(world: World, pod: str) -> str:
    try:
        return world.deployed.cluster.logs(pod)
    except RefusedError:  # not started yet
        return ""


@pytest.fixture(scope="module")
def waiting(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], dict[str, float]]]:
    """Prometheus on the pods, and the custom-metrics API over it; yields what says how many rows wait in each pod."""
    if missing("prometheus"):
        pytest.skip(HINTS["prometheus"])
    folder = tmp_path_factory.mktemp("metrics")
    (port,) = free_ports(1)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(_scrapes(folder / "pods.json")))
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    adapter = Adapter(world.deployed.cluster, f"http://127.0.0.1:{port}", folder / "pods.json")
    with program(command, folder / "prometheus.log"), serving(adapter, folder):

        def rows() -> dict[str, float]:
            return adapter.waiting(PODS)

        eventually(lambda: _answers(adapter.prometheus), "Prometheus is ready", 60)
        eventually(lambda: len(rows()) >= 2, "Prometheus has found the pods", 60)
        yield rows


def _answers(prometheus: str) -> bool:
    try:
        return httpx.get(f"{prometheus}/-/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _scrapes(targets: Path) -> dict[str, object]:
    """Every second, with the key that a ServiceMonitor would bring."""
    job = {
        "job_name": "pressroom",
        "authorization": {"credentials": METRICS_KEY},
        "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
    }
    return {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}


def test_waiting_rows_scale_the_pods_up_and_back(world: World, waiting: Callable[[], dict[str, float]]) -> None:
    world.deployed.wait(2)
    with world.noted(f"HPA: 2 pods to {MOST} on waiting rows"), heavy_load(world):
        eventually(lambda: sum(waiting().values()) > 2 * 64, "rows wait", 60)
        eventually(lambda: world.deployed.replicas() == MOST, f"{MOST} pods are asked for", 120)
        eventually(lambda: sum(world.deployed.pods().values()) == MOST, f"{MOST} pods are ready", 180)
        world.deployed.apply()
        assert world.deployed.replicas() == MOST  # applying again does not undo the autoscaler
    with world.noted(f"HPA: {MOST} pods back to 2"):
        eventually(lambda: world.deployed.replicas() == 2, "2 pods are asked for", 240)
        world.deployed.wait(2)
        world.settle()


@contextmanager
def heavy_load(world: World) -> Iterator[None]:
    """Callers with many rows a request: more than the pods' queues can be rid of."""
    ended = threading.Event()
    history = etth1.history(*[etth1.START] * ROWS)

    def ask() -> None:
        with Client(world.deployed.url, api_key=KEY, timeout=LONG, retries=RETRIES) as client:
            while not ended.is_set():
                with suppress(PressroomError):  # too busy is what they make the pods
                    client.infer(etth1.CARD, {"history": history})

    threads = [threading.Thread(target=ask, name="heavy") for _ in range(HEAVY)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(120)


def test_this_machine_is_left_as_it_was(world: World) -> None:
    """The kubelet wrote its settings of the kernel into the box's files; the box leads nowhere but here."""
    box = world.deployed.cluster.box
    written = {name: (box.folder / "sysctl" / name.replace("/", ".")).read_text() for name in SYSCTLS}
    assert written["vm/overcommit_memory"].strip() == "1"
    assert settings() == box.settings
    assert box.run("ip", "route", "show", "default") == ""
