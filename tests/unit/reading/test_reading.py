# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading hypervisors for the inventory, on libvirt's own test driver."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _reading
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _from_host, _ssh

DOCUMENT = """\
<node>
  <domain type='test'>
    <name>web1</name>
    <metadata><fleet xmlns='urn:fleet.virt:1'>{metadata}</fleet></metadata>
    <memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
    <devices>
      <interface type='network'>
        <mac address='52:54:00:00:00:01'/><source network='{network}'/>
      </interface>
    </devices>
  </domain>
  <domain type='test'>
    <name>other</name>
    <memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
  </domain>
  <network>
    <name>default</name><bridge name='virbr0'/><forward/>
    <ip address='192.168.122.1' netmask='255.255.255.0'/>
  </network>
  <network>
    <name>routed</name><bridge name='virbr1'/><forward mode='route'/>
    <ip address='192.168.123.1' netmask='255.255.255.0'/>
  </network>
</node>
"""


def hypervisor(folder: Path, metadata: str = "", network: str = "default") -> _reading.Hypervisor:
    path = folder / "node.xml"
    path.write_text(DOCUMENT.format(metadata=metadata, network=network))
    return _reading.Hypervisor("hv1", _ssh.Reached(f"test://{path}"))


def read(one: _reading.Hypervisor, **settings: t.Any) -> dict[str, _reading.Entry]:
    guests = _reading.read(one.reached, _reading.ReadingSettings(**settings))
    assert json.loads(json.dumps(guests)) == guests  # a cache can keep it
    return {guest["name"]: guest for guest in guests}


def test_only_what_is_ours_unless_asked(tmp_path: Path) -> None:
    one = hypervisor(tmp_path)
    assert set(read(one)) == {"web1"}
    assert set(read(one, unmanaged=True)) == {"web1", "other"}


def test_in_the_order_of_sources(tmp_path: Path) -> None:
    """The driver leases 192.168.122.3 (or so) to the NIC; the rest is in the metadata."""
    metadata = "<address>2001:db8::7</address><address>192.0.2.7/24</address><address>x</address>"
    found = read(hypervisor(tmp_path, metadata))["web1"]["addresses"]
    assert [(one["address"], one["source"]) for one in found[:2]] == [
        ("192.0.2.7", "static"),
        ("2001:db8::7", "static"),
    ]
    leased = found[2]
    assert leased["source"] == "lease"
    assert leased["address"].startswith("192.168.122.")
    assert [one["behind"] for one in found] == [False, False, True]


def test_a_static_address_may_be_behind_as_well(tmp_path: Path) -> None:
    found = read(hypervisor(tmp_path, "<address>192.168.122.77</address>"))["web1"]["addresses"]
    assert found[0] == {"address": "192.168.122.77", "source": "static", "behind": True}


def test_on_this_machine_nothing_is_behind(tmp_path: Path) -> None:
    reached = _ssh.Reached(hypervisor(tmp_path).reached.uri, local=True)
    found = read(_reading.Hypervisor("hv1", reached))["web1"]["addresses"]
    assert found
    assert not any(one["behind"] for one in found)


def test_routed_networks_are_not_behind(tmp_path: Path) -> None:
    found = read(hypervisor(tmp_path, network="routed"))["web1"]["addresses"]
    assert found
    assert not any(one["behind"] for one in found)


def test_without_addresses(tmp_path: Path) -> None:
    assert read(hypervisor(tmp_path), addresses=False)["web1"]["addresses"] == []


def test_what_is_near_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only where nothing else is known; what is no address of a guest is left out."""
    asked: list[str] = []

    def answer(_reached: t.Any, guests: t.Any, _seconds: float) -> t.Any:
        asked.extend(guest["name"] for guest in guests)
        said = ["127.0.0.1", "-oProxyCommand=x", "192.0.2.9"]
        return {guest["uuid"]: {"neighbour": said, "console": ["192.0.2.10"]} for guest in guests}

    monkeypatch.setattr(_from_host, "ask", answer)
    read(hypervisor(tmp_path))
    assert asked == []
    one = hypervisor(tmp_path, network="none")  # no such network: no lease
    assert read(one, from_host=False)["web1"]["addresses"] == []
    found = read(one)["web1"]["addresses"]
    assert asked == ["web1"]
    assert [(one["address"], one["source"]) for one in found] == [
        ("192.0.2.9", "neighbour"),
        ("192.0.2.10", "console"),
    ]


def test_one_that_hangs_costs_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = hypervisor(tmp_path)
    silent = _reading.Hypervisor("hv2", _ssh.Reached("silent"))
    real = _reading.read

    def hanging(reached: t.Any, settings: t.Any) -> t.Any:
        if reached.uri == "silent":
            time.sleep(30)
        return real(reached, settings)

    monkeypatch.setattr(_reading, "read", hanging)
    started = time.monotonic()
    settings = _reading.ReadingSettings(host_timeout=1.0, parallel=2)
    outcomes = _reading.read_all([silent, good, silent], settings)
    assert time.monotonic() - started < 5
    assert [type(one) for one in outcomes] == [deadline.Failed, deadline.Ok, deadline.Failed]


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FleetVirtError):
        _reading.read(_ssh.Reached(f"test://{tmp_path}/none"), _reading.ReadingSettings())
