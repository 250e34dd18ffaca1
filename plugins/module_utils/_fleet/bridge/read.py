# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a machine's network: interfaces, routes, and what manages them.

Detection is by what manages the interface now, not by what is installed.
"""

from __future__ import annotations

import glob
import json
import os
import re
import typing as t
from dataclasses import replace

from ..._errors import DeadlineExceeded, DependencyMissing, FleetVirtError
from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from . import facts as bridge_facts
from . import ifupdown as bridge_ifupdown
from . import networkd as bridge_networkd
from . import networkmanager as bridge_networkmanager
from .types import Link, Manager, NetworkFacts, RequestedBridge

if t.TYPE_CHECKING:
    from ..base.json_values import Json

_LIMIT = 20.0  # seconds for a command that reads
# netplan itself needs it, so the distribution's Python has yaml wherever netplan is
_YAML = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin), default=str))"


def run(command: t.Sequence[str], *, check: bool = False, text: str | None = None) -> str:
    """The output of a command; without ``check``, empty if it is not installed or fails.

    :raises FleetVirtError: the command failed, with ``check``.
    """
    try:
        done = programs.execute(command, text=text, seconds=_LIMIT)
    except FileNotFoundError:
        if check:
            raise DependencyMissing(f"{command[0]} is not installed; install it") from None
        return ""
    except DeadlineExceeded:
        raise FleetVirtError(f"`{' '.join(command)}` timed out after {_LIMIT:g} s") from None
    if done.status:
        if check:
            raise FleetVirtError(f"`{' '.join(command)}` failed ({done.status}): {done.error_text}")
        return ""
    return done.stdout.decode("utf-8", "surrogateescape")


def read(path: str) -> str:
    """The text of a file, whatever its encoding; empty if there is no file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def network() -> NetworkFacts:
    """The machine's current network configuration in the kernel."""
    wireless = {
        path.split("/")[4]
        for kind in ("wireless", "phy80211")
        for path in glob.glob(f"/sys/class/net/*/{kind}")
    }
    shown = run(["ip", "-json", "-details", "address", "show"], check=True)
    routes = (run(["ip", "-json", *family, "route", "show"]) for family in ((), ("-6",)))
    return NetworkFacts(
        bridge_facts.links(shown, wireless),
        bridge_facts.routes(*routes),
        bridge_facts.nameservers(read("/etc/resolv.conf")),
    )


def gather(wanted: t.Sequence[RequestedBridge]) -> NetworkFacts:
    """The network, with the managers of the relevant interfaces and their configuration."""
    facts = network()
    interfaces = _interfaces()
    managers = {}
    for name in sorted({bridge.uplink for bridge in wanted} | {facts.default_link}):
        if name in facts.links:
            manager = _manager(facts.links[name], interfaces)
            if manager is not None:
                managers[name] = manager
    backends = {manager.backend for manager in managers.values()}
    folders = (bridge_networkd.FOLDER, bridge_networkmanager.FOLDER)
    return replace(
        facts,
        managers=managers,
        interfaces=interfaces,
        netplan=_netplan() if "netplan" in backends else {},
        existing=frozenset(path for folder in folders for path in glob.glob(f"{folder}/*")),
        cloud_init=_cloud_init(),
    )


def _cloud_init() -> bool:
    """Whether cloud-init is installed, and neither it nor its network configuration disabled.

    Its settings are read as it reads them: a later file replaces what an earlier one says.
    """
    if programs.find("cloud-init") is None or os.path.exists("/etc/cloud/cloud-init.disabled"):
        return False
    given = read("/proc/cmdline").split()
    if "cloud-init=disabled" in given or "network-config=disabled" in given:
        return False
    network: Json = None
    for path in ["/etc/cloud/cloud.cfg", *sorted(glob.glob("/etc/cloud/cloud.cfg.d/*.cfg"))]:
        text = read(path)
        if "network" not in text:
            continue
        data = json.loads(run(["/usr/bin/python3", "-c", _YAML], text=text) or "null")
        if isinstance(data, dict) and "network" in data:
            network = data["network"]
    return not (isinstance(network, dict) and network.get("config") == "disabled")


def _interfaces() -> dict[str, str]:
    """The configuration files of ifupdown, by path."""
    files: dict[str, str] = {}
    waiting = [bridge_ifupdown.INTERFACES]
    while waiting:
        path = waiting.pop(0)
        if path in files or not os.path.isfile(path):
            continue
        files[path] = read(path)
        for pattern in bridge_ifupdown.sources(files[path]):
            waiting += sorted(glob.glob(pattern))
    return files


def _manager(link: Link, interfaces: t.Mapping[str, str]) -> Manager | None:
    return _networkmanager(link) or _networkd(link) or _ifupdown(link, interfaces)


def _ifupdown(link: Link, interfaces: t.Mapping[str, str]) -> Manager | None:
    up = re.search(rf"^{re.escape(link.name)}=", read("/run/network/ifstate"), re.MULTILINE)
    if up is None or not bridge_ifupdown.configures(interfaces, link.name):
        return None
    return Manager("ifupdown", bridge_ifupdown.INTERFACES)


def _index(link: Link) -> str:
    return read(f"/sys/class/net/{link.name}/ifindex").strip()


def _values(path: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in read(path).splitlines())
    return {key: value for key, _sep, value in pairs}


def _networkd(link: Link) -> Manager | None:
    """Read networkd's state file of the link, as `networkctl --json` lacks the drop-ins."""
    if not systemd.is_active("systemd-networkd.service", _LIMIT):
        return None
    state = _values(f"/run/systemd/netif/links/{_index(link)}")
    path = state.get("NETWORK_FILE", "")
    if not path or state.get("ADMIN_STATE") in ("unmanaged", "linger", None):
        return None
    parts = [path, *state.get("NETWORK_FILE_DROPINS", "").strip('"').split()]
    parts += sorted(glob.glob(f"/*/systemd/network/{os.path.basename(path)}.d/*.conf"))
    text = "\n".join(read(part) for part in dict.fromkeys(parts))
    identity = _values(f"/run/systemd/netif/leases/{_index(link)}").get("CLIENTID", "")
    ours = re.fullmatch(r"/run/systemd/network/\d+-netplan-(.+)\.network", path)
    if ours:
        return Manager("netplan", path, text, ours.group(1), identity)
    return Manager("networkd", path, text, "", identity)


def _networkmanager(link: Link) -> Manager | None:
    if not systemd.is_active("NetworkManager.service", _LIMIT):
        return None
    shown = run(["nmcli", "--terse", "--fields", "all", "device", "show", link.name])
    fields = dict(_field(line) for line in shown.splitlines() if ":" in line)
    state = fields.get("GENERAL.STATE", "")
    identifier = fields.get("GENERAL.CON-UUID", "")
    if not identifier or "externally" in state or not state.startswith("100"):
        return None
    path = ""
    for line in run(
        ["nmcli", "--terse", "--escape", "no", "--fields", "UUID,FILENAME", "connection", "show"]
    ).splitlines():
        uuid, _sep, file = line.partition(":")
        if uuid == identifier:
            path = file
    options = {
        key: value
        for name, text in fields.items()
        if name.startswith(("DHCP4.OPTION", "DHCP6.OPTION"))
        for key, _sep, value in [text.partition(" = ")]
    }
    if path.startswith("/run/NetworkManager/system-connections/netplan-"):
        return Manager("netplan", path, read(path), "")
    return Manager(
        "networkmanager",
        path,
        read(path) or "[connection]\n",
        identifier,
        options.get("dhcp_client_identifier", ""),
        options.get("iaid", ""),
    )


def _field(line: str) -> tuple[str, str]:
    name, _sep, value = line.partition(":")
    return name, value.replace("\\:", ":")


def _netplan() -> dict[str, tuple[str, Json]]:
    """netplan's files by path, with their content; /run shadows /etc, which shadows /lib."""
    names = {os.path.basename(path) for path in glob.glob("/*/netplan/*.yaml")}
    texts: dict[str, tuple[str, Json]] = {}
    for name in sorted(names):
        path = next(
            file
            for folder in ("/run", "/etc", "/lib")
            if os.path.exists(file := f"{folder}/netplan/{name}")
        )
        text = read(path)
        texts[path] = (
            text,
            json.loads(run(["/usr/bin/python3", "-c", _YAML], check=True, text=text)),
        )
    return texts
