# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare hosts whose network is managed by this or that, and whether they are reached."""

from __future__ import annotations

import json
import socket
import threading
import time
from types import TracebackType
from typing import Any

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

BACKENDS = ("ifupdown", "networkd", "networkmanager", "netplan")
# networkd is Debian 13's here, the others Debian 12's
SUITES = {"networkd": "trixie"}
_PACKAGES = {"networkmanager": "network-manager", "netplan": "netplan.io"}
_INSTALL = "export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get -qy install {}"
_SSHD = "/etc/ssh/sshd_config.d/probe.conf"
_LOOPBACK = "auto lo\niface lo inet loopback\n"
# An address of its own, by which it is reached, and one from DHCP besides
_FILES = {
    "ifupdown": {
        "/etc/network/interfaces": f"""\
{_LOOPBACK}
auto eth0
iface eth0 inet static
    address {{address}}/24
    gateway {{gateway}}
iface eth0 inet dhcp
""",
    },
    "networkd": {
        "/etc/network/interfaces": _LOOPBACK,
        "/etc/systemd/network/10-lan.network": """\
[Match]
Name=eth0

[Network]
DHCP=ipv4
Address={address}/24
Gateway={gateway}
""",
    },
    "networkmanager": {
        "/etc/network/interfaces": _LOOPBACK,
        "/etc/NetworkManager/system-connections/lan.nmconnection": """\
[connection]
id=lan
uuid=0c8bb2f0-6a6b-4a2b-8d3e-0d4b4a6b3f10
type=ethernet
interface-name=eth0

[ipv4]
method=auto
address1={address}/24,{gateway}

[ipv6]
method=auto
""",
    },
    "netplan": {
        "/etc/network/interfaces": _LOOPBACK,
        "/etc/netplan/50-lan.yaml": """\
# The wired network
network:
  version: 2
  ethernets:
    eth0:
      dhcp4: true
      addresses: [{address}/24]
      routes:
        - to: default
          via: {gateway}
""",
    },
}
_UNITS = {
    "ifupdown": ("systemd-networkd.service", "networking.service"),
    "networkd": ("networking.service", "systemd-networkd.service"),
    "networkmanager": ("networking.service", "NetworkManager.service"),
    "netplan": ("networking.service", "systemd-networkd.service"),
}
_LEASE = "sed -n s/^CLIENTID=//p /run/systemd/netif/leases/$(cat /sys/class/net/{link}/ifindex)"
_IDENTITY = {
    "ifupdown": "sed -n 's/^default-duid //p' /var/lib/dhcp/dhclient.{link}.leases | tail -n 1",
    "networkd": _LEASE,
    "networkmanager": "nmcli -t -f DHCP4 device show {link}"
    " | sed -n 's/.*dhcp_client_identifier = //p'",
    "netplan": _LEASE,
}
# Everything that says how the network is to be, and how it is
_STATE = r"""
import hashlib, json, os, subprocess
found = {}
for folder in ("/etc/network", "/etc/systemd/network", "/etc/NetworkManager/system-connections",
               "/etc/netplan", "/etc/systemd/system"):
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            status = os.lstat(path)
            text = os.readlink(path) if os.path.islink(path) else open(path, "rb").read().hex()
            found[path] = [status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, text]
def told(*words):
    return json.loads(subprocess.run(["ip", "-json", *words], capture_output=True).stdout or "[]")
links = {
    link["ifname"]: [link.get("master"), sorted(
        f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"] if a["scope"] == "global")]
    for link in told("address") if link
}
routes = sorted([r["dst"], r.get("gateway", ""), r["dev"]] for r in told("route"))
print(json.dumps({"files": found, "links": links, "routes": routes}))
"""


def hand_over(lab: Laboratory, name: str, backend: str) -> None:
    """Let ``backend`` manage the network of a bare host, which is as it comes under ifupdown."""
    if backend in _PACKAGES:
        lab.ssh(name, _INSTALL.format(_PACKAGES[backend]), timeout=180)
    if lab.ssh(name, "sshd -T | grep -qi ^persourcepenalties", check=False).returncode == 0:
        # OpenSSH 9.8 and newer shut out for a while who asks, as a probe does, and never logs in.
        # After a reload nobody listens for a moment; a restart returns when it listens again
        lab.ssh(name, f"echo PerSourcePenalties no > {_SSHD}; systemctl restart ssh")
    host = lab.host(name)
    for path, text in _FILES[backend].items():
        content = text.format(address=host.address, gateway=lab.gateway)
        folder = path.rpartition("/")[0]
        command = f"mkdir -p {folder}; umask 077; cat > {path}; chmod --reference {folder} {path}"
        mode = "600" if "NetworkManager" in path else "644"
        lab.ssh(name, f"{command}; chmod {mode} {path}", input=content)
    former, now = _UNITS[backend]
    lab.ssh(name, f"systemctl disable -q {former}; systemctl enable -q {now}; sync")
    lab.kill(name)
    lab.start(name)


def identity(lab: Laboratory, name: str, backend: str, link: str) -> str:
    """What an interface goes by at the DHCP server, as its client keeps it.

    The laboratory's server goes by the MAC address only, so the address alone proves nothing.
    """
    return lab.ssh(name, _IDENTITY[backend].format(link=link)).stdout.strip()


def state(lab: Laboratory, name: str) -> dict[str, Any]:
    """The files of every kind of network configuration, and addresses, ports and routes."""
    done = lab.ssh(name, ["/usr/bin/python3", "-"], input=_STATE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Probe:
    """Asks a host's ssh server for its banner, again and again, over new connections."""

    _PAUSE = 0.1
    _LIMIT = 0.7

    def __init__(self, address: str) -> None:
        self._address = address
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers: list[tuple[float, bool]] = []

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._PAUSE):
            asked = time.monotonic()
            self.answers.append((asked, self._answers()))

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self._address, 22), self._LIMIT) as connection:
                connection.settimeout(self._LIMIT)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    @property
    def up(self) -> bool:
        """Whether it answered last."""
        return bool(self.answers) and self.answers[-1][1]

    def outages(self) -> list[float]:
        """How long it did not answer, each time, in seconds."""
        found: list[float] = []
        begun: float | None = None
        for asked, answered in self.answers:
            if not answered and begun is None:
                begun = asked
            elif answered and begun is not None:
                found.append(asked - begun)
                begun = None
        return found
