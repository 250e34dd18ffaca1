# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One hypervisor host: a systemd machine of its own in namespaces of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import cgroups, counts, fabric, preloaded, processes, proxy
from .errors import LabError
from .recipe import QEMU_CONF
from .record import HostRecord, Record

__all__ = ["Host"]

# Everything here lives in private namespaces and goes with its processes. The device nodes are
# made anew: a bind of the machine's own would let the host's systemd change their owner and mode.
# The MAC is fixed: with another one after a power cut, neighbours keep the stale one for 50 s.
_BOOT = """
set -e
folder=$1 root=$2 host=$3 mac=$4 keeper=$5 kvm=$6 mark=$7
shift 7
for group; do
  mkdir -p "$group"
  echo $$ > "$group/cgroup.procs"
done
ip link set lo up
nsenter "--net=/proc/$keeper/ns/net" ip link del "$host" 2>/dev/null || true
ip link add eth0 address "$mac" type veth peer name "$host" netns "$keeper"
nsenter "--net=/proc/$keeper/ns/net" ip link set "$host" master br0 up
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/nodes/net
mknod -m 666 /run/nodes/fuse c 10 229
mknod -m 666 /run/nodes/net/tun c 10 200
set -- --bind=/run/nodes/fuse:/dev/fuse --bind=/run/nodes/net/tun:/dev/net/tun
if [ "$kvm" = yes ]; then
  mknod -m 666 /run/nodes/kvm c 10 232
  set -- "$@" --bind=/run/nodes/kvm:/dev/kvm
fi
mount -t overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" \
  overlay "$folder/merged"
exec systemd-nspawn --quiet --boot --directory="$folder/merged" --machine="$host" --register=no \
  --keep-unit --network-namespace-path=/proc/self/ns/net --resolv-conf=off --timezone=off \
  --link-journal=no --console=pipe --capability=all \
  --system-call-filter="@raw-io @module bpf keyctl add_key pidfd_getfd" --setenv="$mark" "$@"
"""

# quickack: two thirds of the time that a login takes is waiting for acknowledgements that the other
# side holds back. Not for a bare host: its interface is what the bridge's role rewrites.
_BRIDGED = """\
auto lo
iface lo inet loopback

iface eth0 inet manual

auto br0
iface br0 inet static
    address {address}/24
    gateway {gateway}
    bridge_ports eth0
    hwaddress {mac}
    bridge_stp off
    bridge_fd 0
    bridge_maxwait 0
    up ip route change {network} dev br0 proto kernel scope link src {address} quickack 1
"""

_PLAIN = """\
auto lo
iface lo inet loopback

auto eth0
iface eth0 inet static
    address {address}/24
    gateway {gateway}
"""


# A bare host gets what a ready one has in its root tree as soon as libvirt comes, whoever brings
# it: without the first a container starts no guest, without the second all hosts look like one.
_ARRIVAL = """\
cd /etc/libvirt 2>/dev/null || exit 0
if [ -f qemu.conf ] && ! grep -q '^# The laboratory' qemu.conf; then
  cat /etc/lab/qemu.conf >> qemu.conf
fi
if [ -f libvirtd.conf ] && ! grep -q '^host_uuid' libvirtd.conf; then
  echo 'host_uuid = "{uuid}"' >> libvirtd.conf
fi
"""
_AFTER_DPKG = 'DPkg::Post-Invoke { "sh /etc/lab/arrival"; };\n'


# How sshd starts root's shell: nothing is handed on of what is set or ignored here
_AS_SSHD = (
    *("--ignore-environment", "--default-signal", "--chdir=/root"),
    *("HOME=/root", "LOGNAME=root", "SHELL=/bin/bash", "USER=root"),
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)


class Host:
    """A host of a laboratory: what is known of it and what can be done to it."""

    def __init__(self, record: Record, entry: HostRecord) -> None:
        self._record = record
        self._entry = entry
        self.name = entry.name
        self.address = entry.address
        self.mac = entry.mac
        self.user = entry.user
        self.suite = entry.suite
        self.bare = entry.bare
        self.uuid = entry.uuid
        self.directory = Path(record.directory) / "hosts" / entry.name
        self.root = Path(entry.root)

    def __repr__(self) -> str:
        return f"Host({self.name}, {self.address}, {self.suite}{', bare' if self.bare else ''})"

    @property
    def console_log(self) -> Path:
        """What the host's own systemd printed."""
        return self.directory / "console.log"

    @property
    def leader(self) -> int | None:
        """The process that supervises the host, or None when it is off."""
        return processes.started(Path(self._record.directory), self.name, self.console_log)

    @property
    def prepared(self) -> bool:
        """Whether its own files are all written."""
        return self._public.exists()

    @property
    def public_key(self) -> str:
        """Its real ssh host key."""
        return self._public.read_text().strip()

    @property
    def _public(self) -> Path:
        return self.directory / "host_key.pub"

    @property
    def python(self) -> str:
        """Ansible's Python on it."""
        return preloaded.python(Path(self._record.directory), self._entry)

    @property
    def state(self) -> str:
        """``running``, ``cut`` (running without its network) or ``stopped``."""
        if self.leader is None:
            return "stopped"
        if fabric.keeper(self._record) is None:
            return "cut"
        links = fabric.inside(self._record, ["ip", "-o", "link", "show", "up"], check=False)
        return "running" if f" {self.name}@" in links else "cut"

    def prepare(self, root_keys: Sequence[str], admin_keys: Sequence[str]) -> None:
        """Write what differs from the shared root."""
        upper = self.directory / "upper"
        for folder in (upper / "etc/ssh", upper / "etc/network", self.directory / "work"):
            folder.mkdir(parents=True, exist_ok=True)
        (self.directory / "merged").mkdir(exist_ok=True)
        os.chmod(self.directory, 0o700)
        etc = upper / "etc"
        (etc / "hostname").write_text(f"{self.name}\n")
        # This machine's name servers are out of reach: a lookup would wait for them in vain.
        (etc / "resolv.conf").write_text("# the laboratory's names are in /etc/hosts\n")
        (etc / "machine-id").write_text(f"{secrets.token_hex(16)}\n")
        (etc / "hosts").write_text(
            f"127.0.0.1 localhost\n127.0.1.1 {self.name}.lab.test {self.name}\n"
            "::1 localhost ip6-localhost ip6-loopback\n"
        )
        style = _PLAIN if self.bare else _BRIDGED
        (etc / "network/interfaces").write_text(
            style.format(
                address=self.address,
                network=self._record.network,
                gateway=self._record.gateway,
                mac=self.mac,
            )
        )
        apt = etc / "apt/apt.conf.d/91proxy"
        apt.parent.mkdir(parents=True, exist_ok=True)
        apt.write_text(f'Acquire::http::Proxy "{proxy.address(self._record)}";\n')
        if self.bare:
            (etc / "lab").mkdir(exist_ok=True)
            (etc / "lab/arrival").write_text(_ARRIVAL.format(uuid=self.uuid))
            (etc / "lab/qemu.conf").write_text(QEMU_CONF)
            (etc / "apt/apt.conf.d/92lab").write_text(_AFTER_DPKG)
        else:
            configuration = "etc/libvirt/libvirtd.conf"
            (upper / configuration).parent.mkdir(mode=0o755, exist_ok=True)
            shipped = (self.root / configuration).read_text()
            (upper / configuration).write_text(f'{shipped}\nhost_uuid = "{self.uuid}"\n')
        preloaded.bring(Path(self._record.directory), upper, self.bare)
        counts.bring(upper)
        key = etc / "ssh/ssh_host_ed25519_key"
        key.unlink(missing_ok=True)
        processes.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)])
        for path in upper.rglob("*"):  # whatever the umask is here, it is not the host's
            program = path.stat().st_mode & 0o100
            os.chmod(path, 0o755 if path.is_dir() or program else 0o644)
        counts.open_to_all(upper)
        for home, owner, keys in (("root", 0, root_keys), ("home/admin", 1000, admin_keys)):
            if keys:
                self._authorise(upper / home, owner, keys)
        os.chmod(key, 0o600)
        # Last: with this the host counts as prepared.
        os.replace(shutil.copy(key.with_suffix(".pub"), self.directory / "new"), self._public)

    def _authorise(self, home: Path, owner: int, keys: Sequence[str]) -> None:
        folder = home / ".ssh"
        folder.mkdir(parents=True, exist_ok=True)
        os.chmod(home.parent, 0o755)
        file = folder / "authorized_keys"
        file.write_text("".join(f"{key}\n" for key in keys))
        for path, mode in ((home, 0o700), (folder, 0o700), (file, 0o600)):
            os.chmod(path, mode)
        for path in (home, folder, file):
            os.chown(path, owner, owner)

    def introduce(self, others: Sequence[HostRecord]) -> None:
        """Let a stopped host know its neighbours by name, keeping what else its file says."""
        path = self.directory / "upper/etc/hosts"
        text = path.read_text()
        known = {word for line in text.splitlines() for word in line.split()[1:]}
        for other in others:
            if other.name not in known:
                text += f"{other.address} {other.name}.lab.test {other.name}\n"
        path.write_text(text)

    def power_on(self) -> None:
        """Start it (it must be off); it is ready when it answers.

        :raises LabError: the laboratory has no network, or the host cannot be started.
        """
        keeper = fabric.keeper(self._record)
        if keeper is None:
            raise LabError(f"laboratory {self._record.name!r} has no network: bring it up again")
        directory = Path(self._record.directory)
        group = cgroups.group_name(self._record.name, self.name)
        command = "exec unshare --net --mount --propagation private bash -c "
        processes.spawn(
            directory,
            self.name,
            f'{command}{shlex.quote(_BOOT)} _ "$@"',
            [
                str(self.directory),
                str(self.root),
                self.name,
                self.mac,
                str(keeper),
                "yes" if self._record.kvm else "no",
                f"{processes.MARK}={directory}:{self.name}",
                *(str(path / group) for path in cgroups.hierarchies()),
            ],
            self.console_log,
        )

    def power_cut(self) -> None:
        """End it at once, with everything in it; the page cache stays, so it proves nothing about
        durability."""
        processes.kill(Path(self._record.directory), self.name)
        cgroups.remove(self._record.name, self.name)

    def shut_down(self, limit: float = 30) -> None:
        """Stop it in order, as its power button would; after ``limit`` seconds cut the power."""
        pid = self.leader
        if pid is not None:
            processes.send([pid], signal.SIGTERM)
            with contextlib.suppress(LabError):
                processes.wait_for(lambda: self.leader is None, limit, lambda: self.name)
        self.power_cut()

    def died(self) -> str | None:
        """Why a host that was just started is not running, or None."""
        if self.leader is not None:
            return None
        return f"{self.name} died: {processes.tail(self.console_log)}"

    def ssh_command(self, key: Path, known_hosts: Path, user: str) -> list[str]:
        """The start of an ssh command to it that asks and believes nothing."""
        options = {
            "UserKnownHostsFile": str(known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "3",
            "LogLevel": "ERROR",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", "-F", "none", "-i", str(key), *words, "-l", user, self.address]

    def shell_command(self) -> list[str] | None:
        """The start of a command by root's shell in its namespaces, or None when it is off."""
        leader = self.leader
        try:
            inside = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        except OSError:
            return None
        if not inside:
            return None
        namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
        enter = ["nsenter", "--target", inside[0], *namespaces]
        return [*enter, "env", *_AS_SSHD, "/bin/bash", "-c"]

    def execute(
        self,
        login: Sequence[str],
        command: str | Sequence[str],
        *,
        input: str | None = None,  # noqa: A002 - as subprocess names it
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on it behind the start of one; a list is quoted for its shell.

        :raises subprocess.TimeoutExpired: it took longer than ``timeout`` seconds.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        return subprocess.run(
            [*login, "--", text],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            umask=0o022,
            # So that it is found, and does not wait for a dead host, when its starter is killed.
            env={**os.environ, processes.MARK: f"{self._record.directory}:ssh"},
        )
