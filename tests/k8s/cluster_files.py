"""What the programs of a one-node cluster are told: tokens, kubeconfigs, configuration files, command lines."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from box import INSIDE, NAME, NETWORK

API = f"https://{INSIDE}:6443"
SERVICES, PODS = "10.96.0.0/16", "10.244.0.0/24"
NODE = "node"
PAUSE = "localhost/pause:1"
SOCKET = "unix:///run/containerd/containerd.sock"
# Who calls the API server, and the groups that give them their built-in rights.
CALLERS = {
    "admin": ("admin", "system:masters"),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
}


@dataclass(frozen=True)
class Programs:
    """Where scripts/control_plane.sh put them."""

    folder: Path

    def kube(self, name: str) -> Path:
        return self.folder / "bin" / name

    def tool(self, name: str) -> Path:
        return self.folder / "tools" / "usr" / name


@dataclass(frozen=True)
class Files:
    """The files, in `folder`; a token for each caller."""

    folder: Path
    programs: Programs
    tokens: dict[str, str] = field(default_factory=lambda: {name: secrets.token_hex(16) for name in CALLERS})

    def write(self) -> None:
        rows = [f'{self.tokens[name]},{user},{name},"{group}"' for name, (user, group) in CALLERS.items()]
        self._write("tokens.csv", "\n".join(rows) + "\n")
        for name in CALLERS:
            self._write(f"{name}.kubeconfig", json.dumps(self._kubeconfig(name)))
        self._write("kubelet.yaml", json.dumps(self._kubelet()))
        self._write("proxy.yaml", json.dumps(self._proxy()))
        self._write("containerd.toml", self._containerd())
        self._write("10-bridge.conflist", json.dumps(_network()))

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def _kubeconfig(self, name: str) -> dict[str, Any]:
        context = {"cluster": "box", "user": name}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "box", "cluster": {"server": API, "insecure-skip-tls-verify": True}}],
            "users": [{"name": name, "user": {"token": self.tokens[name]}}],
            "contexts": [{"name": "box", "context": context}],
            "current-context": "box",
        }

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},  # nobody else is in the box
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{NAME}",
            "evictionHard": {"memory.available": "100Mi"},  # the disk is this machine's
            "imageGCHighThresholdPercent": 100,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "readOnlyPort": 0,
            "resolvConf": "",
            "syncFrequency": "5s",  # how soon a changed Secret reaches pods
        }

    def _proxy(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clientConnection": {"kubeconfig": str(self.folder / "kube-proxy.kubeconfig")},
            "clusterCIDR": PODS,
            "hostnameOverride": NODE,
            "oomScoreAdj": 0,
            "conntrack": {"maxPerCore": 0, "min": 0},  # a setting of the whole machine
        }

    def _containerd(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""
version = 2
[{cri}]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
[{cri}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
  SystemdCgroup = false
[{cri}.cni]
  bin_dir = "{self.programs.tool("lib/cni")}"
  conf_dir = "{self.folder}"
"""

    def commands(self) -> dict[str, list[str | Path]]:
        """Every program and its arguments, in the order they are started."""
        programs, folder = self.programs, self.folder
        data = folder / "etcd"
        key = folder / "accounts.key"  # signs the tokens of service accounts
        return {
            "etcd": [programs.tool("bin/etcd"), f"--data-dir={data}"],
            "containerd": [programs.tool("bin/containerd"), f"--config={folder / 'containerd.toml'}"],
            "kube-apiserver": [
                programs.kube("kube-apiserver"),
                "--etcd-servers=http://127.0.0.1:2379",
                f"--advertise-address={INSIDE}",
                "--authorization-mode=Node,RBAC",
                f"--cert-dir={folder / 'certificates'}",
                "--enable-admission-plugins=NodeRestriction",
                "--enable-aggregator-routing",
                "--kubelet-preferred-address-types=InternalIP",  # for logs; the node's name is in no DNS
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                f"--service-cluster-ip-range={SERVICES}",
                f"--token-auth-file={folder / 'tokens.csv'}",
            ],
            "kube-controller-manager": [
                programs.kube("kube-controller-manager"),
                f"--kubeconfig={folder / 'kube-controller-manager.kubeconfig'}",
                "--horizontal-pod-autoscaler-sync-period=2s",  # 15 s by default
                "--leader-elect=false",
                f"--service-account-private-key-file={key}",
                "--use-service-account-credentials",
            ],
            "kube-scheduler": [
                programs.kube("kube-scheduler"),
                f"--kubeconfig={folder / 'kube-scheduler.kubeconfig'}",
                "--leader-elect=false",
            ],
            "kubelet": [
                programs.kube("kubelet"),
                f"--config={folder / 'kubelet.yaml'}",
                f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
                "--container-runtime=remote",
                f"--container-runtime-endpoint={SOCKET}",
                f"--hostname-override={NODE}",
                f"--node-ip={INSIDE}",
                f"--pod-infra-container-image={PAUSE}",
            ],
            "kube-proxy": [programs.kube("kube-proxy"), f"--config={folder / 'proxy.yaml'}"],
        }

    def environment(self) -> dict[str, str]:
        """Programs and libraries that the packages' own would find in /usr."""
        tools = self.programs.tool("")
        path = f"{tools}/bin:{tools}/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "LD_LIBRARY_PATH": f"{tools}/lib/x86_64-linux-gnu", "HOME": str(self.folder)}


def _network() -> dict[str, Any]:
    """Pods on one bridge; the way back to this machine, and no other."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": NETWORK}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
