"""A machine inside this one, for programs that take a machine for themselves: a kubelet, a container runtime.

Namespaces of its own for network, mounts, processes, host name and shared memory. Its network has one link to this
machine and no default route. /run, /var/lib and /var/log are folders of the box, and files stand over the kernel's
settings that a kubelet writes. When the box is closed, or the process that opened it ends in any way, all of its
processes are killed, its mounts and links go, and this machine is as it was. Needs root.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from live_server import eventually

NAME = "pressroom-box"
NETWORK = "10.232.0.0/24"
OUTSIDE, INSIDE = "10.232.0.1", "10.232.0.2"  # this machine's end of the link, and the box's
_LINK = "prbox"
_NAMESPACES = ["--mount", "--net", "--pid", "--ipc", "--uts"]
_OWN = ("run", "var/lib", "var/log")
# Settings of the whole machine that a kubelet would change: in the box they are files.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
CGROUPS = Path("/sys/fs/cgroup")
# The first process of the box. It ends when its input does, and takes all others with it.
_INIT = """
set -e
mount --make-rslave /
for name in {own}; do mount --bind {folder}/$name /$name; done
for name in {sysctls}; do mount --bind {folder}/sysctl/${{name//\\//.}} /proc/sys/$name; done
mount --make-rshared /
hostname {name}
echo ready
read -r _ || true
"""


def settings() -> dict[str, str]:
    """This machine's."""
    return {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}


@dataclass(eq=False)
class Box:
    """An open box; `folder` holds its files and the programs' logs."""

    folder: Path
    init: int
    settings: dict[str, str]  # of this machine, when the box was opened
    programs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def inside(self, *command: str | Path) -> list[str]:
        """A command that runs in the box."""
        return ["nsenter", "--target", str(self.init), *_NAMESPACES, "--", *map(str, command)]

    def run(self, *command: str | Path, data: IO[bytes] | None = None) -> str:
        """Run to its end and give back what it printed."""
        done = subprocess.run(self.inside(*command), stdin=data, capture_output=True, check=False)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr.decode()[-2000:]}"
        return done.stdout.decode()

    def start(self, name: str, *command: str | Path, environment: Mapping[str, str] | None = None) -> None:
        """Start a program that runs as long as the box; its output goes to `name`.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.programs[name] = subprocess.Popen(
                self.inside(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def check(self) -> None:
        """AssertionError with the log's end if a program has stopped."""
        for name, process in self.programs.items():
            assert process.poll() is None, f"{name} ended:\n{self.log(name)}"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]


@contextmanager
def box(folder: Path) -> Iterator[Box]:
    """Open a box, with its files in `folder`."""
    for name in _OWN:
        (folder / name).mkdir(parents=True)
    (folder / "sysctl").mkdir()
    before = settings()
    for name, value in before.items():
        (folder / "sysctl" / name.replace("/", ".")).write_text(value)
    script = _INIT.format(own=" ".join(_OWN), sysctls=" ".join(SYSCTLS), folder=folder, name=NAME)
    unshare = ["unshare", *_NAMESPACES, "--fork", "--mount-proc", "--kill-child", "bash", "-c", script]
    outer = subprocess.Popen(unshare, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    opened: Box | None = None
    try:
        assert outer.stdout is not None
        assert outer.stdout.readline() == b"ready\n", "the box did not open"
        opened = Box(folder, int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()), before)
        _connect(opened)
        yield opened
    finally:
        outer.communicate(timeout=30)  # closes its input
        for process in opened.programs.values() if opened else ():
            process.wait(30)
        _remove_cgroups()


def _connect(opened: Box) -> None:
    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    ip("link", "add", _LINK, "type", "veth", "peer", "name", "eth0", "netns", str(opened.init))
    ip("addr", "add", f"{OUTSIDE}/24", "dev", _LINK)
    ip("link", "set", _LINK, "up")
    opened.run("ip", "addr", "add", f"{INSIDE}/24", "dev", "eth0")
    for link in ("lo", "eth0"):
        opened.run("ip", "link", "set", link, "up")
    opened.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")


def route(destination: str) -> None:
    """This machine sends what goes there into the box; the route goes with the link."""
    subprocess.run(["ip", "route", "add", destination, "via", INSIDE, "dev", _LINK], check=True)


def cgroup_parents() -> list[Path]:
    """The box's folder in every hierarchy of control groups."""
    return [hierarchy / NAME for hierarchy in CGROUPS.iterdir() if hierarchy.is_dir() and not hierarchy.is_symlink()]


def _remove_cgroups() -> None:
    """A group goes when its last process has gone, deepest first."""
    for parent in cgroup_parents():
        groups = sorted((path for path in [parent, *parent.rglob("*")] if path.is_dir()), reverse=True)
        for group in groups:
            eventually(lambda group=group: _gone(group), f"{group} is empty")


def _gone(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def usable() -> bool:
    """Are the programs for boxes there? (Not whether the kernel allows them.)"""
    return all(shutil.which(name) for name in ("unshare", "nsenter", "ip", "iptables", "runc"))
