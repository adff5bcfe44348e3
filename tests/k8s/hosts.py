"""Several hosts on one machine: network namespaces, and a Service's address that leads to those that are ready.

As in a cluster: every host has its own network, `Service` probes readiness as kubelet does and balances new connections
over what is ready as kube-proxy does (iptables), and a host can be cut off. Needs root, iproute2 and iptables.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import httpx

PORT = 3000
ADDRESS = "10.231.99.1"  # of the Service
_CHAIN = "PRESSROOM-TEST"
_PROBE_SECONDS, _MISSES = 0.3, 2


def usable() -> bool:
    """Can this process make network namespaces?"""
    if os.geteuid() or not (shutil.which("ip") and shutil.which("iptables")):
        return False
    probe = f"pressroom-probe-{os.getpid()}"  # several test processes ask at once
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode == 0
    if made:
        run("ip", "netns", "del", probe)
    return made


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@dataclass(frozen=True)
class Host:
    """One network of its own, reached at `address`."""

    number: int

    @property
    def name(self) -> str:
        return f"pressroom-{self.number}"

    @property
    def link(self) -> str:
        return f"prh{self.number}"

    @property
    def address(self) -> str:
        return f"10.231.{self.number}.2"

    @property
    def target(self) -> str:
        return f"{self.address}:{PORT}"

    def inside(self, *command: str) -> tuple[str, ...]:
        """A command that runs on this host."""
        return ("ip", "netns", "exec", self.name, *command)

    def _make(self) -> None:
        gateway = f"10.231.{self.number}.1"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "addr", "add", f"{gateway}/24", "dev", self.link)
        run("ip", "link", "set", self.link, "up")
        run(*self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0"))
        for link in ("lo", "eth0"):
            run(*self.inside("ip", "link", "set", link, "up"))
        run(*self.inside("ip", "route", "add", "default", "via", gateway))

    def _remove(self) -> None:
        subprocess.run(["ip", "link", "del", self.link], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)

    @contextmanager
    def cut_off(self, how: Literal["drop", "reset"]) -> Iterator[None]:
        """Nothing gets there: packets vanish, or connections are reset."""
        verdict = ["DROP"] if how == "drop" else ["REJECT", "--reject-with", "tcp-reset"]
        rule = ["OUTPUT", "-d", self.address, "-p", "tcp", "-j", *verdict]
        run("iptables", "-I", *rule)
        try:
            yield
        finally:
            run("iptables", "-D", *rule)


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts, and the Service's address on this machine."""
    made = [Host(number) for number in range(1, count + 1)]
    try:
        for host in made:
            host._remove()  # what a run that was killed left
            host._make()
        run("ip", "addr", "replace", f"{ADDRESS}/32", "dev", "lo")
        yield made
    finally:
        subprocess.run(["ip", "addr", "del", f"{ADDRESS}/32", "dev", "lo"], capture_output=True, check=False)
        for host in made:
            host._remove()


class Service(threading.Thread):
    """The address ADDRESS:PORT, leading to hosts that are ready. Use as a context manager."""

    def __init__(self, members: list[Host]) -> None:
        super().__init__(name="service", daemon=True)
        self._members = members
        self._misses = dict.fromkeys(members, _MISSES)
        self._ended = threading.Event()
        self.ready: list[Host] = []

    def __enter__(self) -> Service:
        self._remove()
        run("iptables", "-t", "nat", "-N", _CHAIN)
        run("iptables", "-t", "nat", "-I", "OUTPUT", "-d", ADDRESS, "-p", "tcp", "--dport", str(PORT), "-j", _CHAIN)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        self._remove()

    def run(self) -> None:
        while not self._ended.wait(_PROBE_SECONDS):
            for host in self._members:
                self._misses[host] = 0 if _answers(host) else self._misses[host] + 1
            found = [host for host in self._members if self._misses[host] < _MISSES]
            if found != self.ready:
                self._balance(found)
                self.ready = found

    def _balance(self, found: list[Host]) -> None:
        run("iptables", "-t", "nat", "-F", _CHAIN)
        for place, host in enumerate(found):
            share = 1 / (len(found) - place)  # of the connections that no rule before took
            chance = ["-m", "statistic", "--mode", "random", "--probability", f"{share:.6f}"] if share < 1 else []
            leads = ["-j", "DNAT", "--to-destination", host.target]
            run("iptables", "-t", "nat", "-A", _CHAIN, "-p", "tcp", *chance, *leads)

    def _remove(self) -> None:
        rule = ["OUTPUT", "-d", ADDRESS, "-p", "tcp", "--dport", str(PORT), "-j", _CHAIN]
        for command in (["-D", *rule], ["-F", _CHAIN], ["-X", _CHAIN]):
            subprocess.run(["iptables", "-t", "nat", *command], capture_output=True, check=False)


def _answers(host: Host) -> bool:
    try:
        return httpx.get(f"http://{host.target}/readyz", timeout=1).status_code == 200
    except httpx.TransportError:
        return False
