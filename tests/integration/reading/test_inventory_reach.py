# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests of the inventory are reached: by their own keys only, through hypervisors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_neighbours as neighbours,
)
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import CONSOLES, NIC, Guests
from ansible_collections.fleet.virt.tests.integration.support.nat import Nat
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

# A range of one address on each hypervisor: both guests there have the same one
_NAT = Nat("natted", "virbr7", "192.168.150", last=10)
_ADDRESS = "192.168.150.10"
_NATTED = "<interface type='network'><source network='natted'/><model type='virtio'/></interface>"
# name: hypervisor, NIC, whether it has an agent
_GUESTS = {
    "nat1": ("hv1", _NATTED, True),
    "nat2": ("hv2", _NATTED, True),
    "lan1": ("hv1", NIC, True),
    "near1": ("hv1", NIC, False),
    "near2": ("hv2", NIC, False),
}
_OURS = "<metadata><fleet xmlns='urn:fleet.virt:1'><user>root</user></fleet></metadata>"
_AUTHORIZE = """
mkdir -p /root/.ssh; echo {key} > /root/.ssh/authorized_keys; chmod 0700 /root/.ssh
chmod 0600 /root/.ssh/authorized_keys; hostname {name}
"""
# What cloud-init says of a NIC on the console, one line an address
_DEVICES = "ci-info: ++++++Net device info++++++"
_DEVICE = "ci-info: | eth0 | True | {address} | 255.255.255.0 | global | {mac} |"
# A lease for whoever has had one by this name and this number of a client
_LEASE = """
kill $(cat /run/udhcpc.eth1); ip link set eth1 up
udhcpc -n -q -i eth1 -s /etc/udhcpc.sh -x hostname:{name} -x 0x3d:01{mac} -t 15 -T 1
"""
# QEMU looks once a second whether somebody is at the console
_TYPE = "exec 3<>$(virsh -q ttyconsole {name}); stty raw -echo <&3; sleep 1.2; cat >&3; sleep 0.5"
# Nobody's key is verified but a guest's own, and connections are kept
_LAX = {
    "ANSIBLE_HOST_KEY_CHECKING": "false",
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s -o ConnectTimeout=5"
    " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
}
_READ_KEY = "/usr/bin/dropbearkey -y -f /etc/dropbear/dropbear_ed25519_host_key > /run/key"
_PLUGIN = """\
plugin: fleet.virt.virt
compose:
  ansible_ssh_private_key_file: "'{key}'"
"""


@dataclass(frozen=True)
class Reach:
    """Guests that the controller may log in to, and their host keys as they themselves say."""

    ansible: Ansible
    guests: Guests
    folder: Path
    keys: Mapping[str, str]

    def record(self, name: str, key: str | None, address: str | None = None) -> None:
        """Have the guest's metadata name this host key and this address."""
        given = [("user", "root"), ("host_key", key), ("address", address)]
        inner = "".join(f"<{tag}>{text}</{tag}>" for tag, text in given if text)
        xml = f"<fleet>{inner}</fleet>"
        words = ["metadata", name, "urn:fleet.virt:1", "--key", "fleet", "--set", xml]
        self.guests.virsh(_GUESTS[name][0], *words)

    def run(self, *names: str, **environment: str) -> Run:
        """``hostname`` on these guests, by Ansible's raw module."""
        words = [",".join(names), "-m", "ansible.builtin.raw", "-a", "hostname"]
        return self.ansible.run(
            "ansible", words, inventory=self.folder, environment=environment or None
        )

    def listed(self) -> dict[str, dict[str, Any]]:
        """The variables of each host."""
        run = self.ansible.run("ansible-inventory", ["--list"], inventory=self.folder)
        found = json.loads(
            run.succeeded().stdout, object_hook=lambda one: one.get("__ansible_unsafe", one)
        )
        variables: dict[str, dict[str, Any]] = found["_meta"]["hostvars"]
        return variables


def _make(guests: Guests, name: str) -> None:
    host, nic, agent = _GUESTS[name]
    guests.prepare(host)
    guests.define(host, name, nics=(nic,), top=_OURS)
    if not agent:
        xml = guests.xml(name, nics=(nic,), top=_OURS)
        xml = xml.replace("org.qemu.guest_agent.0", "org.example.nobody")
        guests.virsh(host, "undefine", name)
        guests.script(host, "cat > /run/domain.xml; virsh -q define /run/domain.xml", input=xml)
    guests.virsh(host, "start", name)


def _host_key(guests: Guests, name: str, public: str) -> str:
    """Let the controller in; the guest's own host key, as it says inside."""
    host = _GUESTS[name][0]
    guests.wait_agent(host, name)
    guests.execute(host, name, _AUTHORIZE.format(key=shlex.quote(public), name=name))
    guests.execute(host, name, _READ_KEY)
    handle = guests.agent(host, name, "guest-file-open", path="/run/key", mode="r")
    content = guests.agent(host, name, "guest-file-read", handle=handle)["buf-b64"]
    text = subprocess.run(
        ["base64", "-d"], input=content, capture_output=True, text=True, check=True
    ).stdout
    ask = f"virsh -q domifaddr {name} --source agent | grep -v 127.0.0.1 | grep -c ipv4"
    wait_for(
        lambda: guests.lab.ssh(host, ask, check=False).stdout.strip() not in ("", "0"),
        90,
        f"address of {name}",
    )
    return next(line for line in text.splitlines() if line.startswith("ssh-ed25519 "))


@pytest.fixture(scope="module")
def reach(
    ansible: Ansible, all_guests: Guests, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reach]:
    """Two guests behind their hypervisors, one on the LAN, and one on each that has no agent."""
    folder = tmp_path_factory.mktemp("reach")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text(encoding="utf-8").strip()
    inventory = folder / "inventory"
    inventory.mkdir()
    shutil.copy(all_guests.lab.inventory / "10-hypervisors.yml", inventory)
    plugin = _PLUGIN.format(key=key)
    (inventory / "20-guests.virt.yml").write_text(plugin, encoding="utf-8")
    try:
        for host in ("hv1", "hv2"):
            _NAT.start(all_guests.lab, host)
        for name in _GUESTS:
            _make(all_guests, name)
        ready = [name for name, (_host, _nic, agent) in _GUESTS.items() if agent]
        with ThreadPoolExecutor() as pool:
            keys = dict(zip(ready, pool.map(lambda one: _host_key(all_guests, one, public), ready)))
        made = Reach(ansible, all_guests, inventory, keys)
        for name, one in keys.items():
            made.record(name, one)
        yield made
    finally:
        for name, (host, _nic, _agent) in _GUESTS.items():
            all_guests.remove(host, name)
        for host in ("hv1", "hv2"):
            _NAT.end(all_guests.lab, host)


def test_through_their_hypervisors(reach: Reach) -> None:
    """Two guests with one address, on two hypervisors: each is who it is. hv2 is no root login."""
    listed = reach.listed()
    for name in ("nat1", "nat2"):
        assert listed[name]["ansible_host"] == _ADDRESS
        assert "ProxyCommand=" in listed[name]["ansible_ssh_args"]
    assert "ProxyCommand=" not in listed["lan1"]["ansible_ssh_args"]
    for _turn in range(2):  # the second time over connections that were kept
        run = reach.run("nat1", "nat2", "lan1").succeeded()
        said = {event.host: event.result["stdout"].strip() for event in run.events}
        assert said == {name: name for name in ("nat1", "nat2", "lan1")}


@pytest.mark.parametrize("name", ["lan1", "nat1"])
def test_another_key_is_refused(reach: Reach, name: str) -> None:
    """Also where everything else is let in."""
    lax = {
        "ANSIBLE_HOST_KEY_CHECKING": "false",
        "ANSIBLE_SSH_ARGS": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
    }
    other = reach.keys["nat2"]
    reach.record(name, other)
    try:
        run = reach.run(name, **lax)
        assert [event.status for event in run.events] == ["unreachable"]
        assert "Host key verification failed" in str(run)
    finally:
        reach.record(name, reach.keys[name])
    reach.run(name, **lax).succeeded()


def test_without_agent_and_lease(reach: Reach) -> None:
    """Found where they are near; libvirt 11 reads the neighbour table itself, 9 leaves it to us."""
    lab = reach.guests.lab
    for name in ("near1", "near2"):
        host = _GUESTS[name][0]
        xml = reach.guests.virsh(host, "domiflist", name)
        mac = xml.split()[-1].lower()

        def leased(mac: str = mac) -> str | None:
            return next((one[1] for one in reversed(lab.leases()) if one[0].lower() == mac), None)

        address = wait_for(leased, 90, f"lease of {name}")
        found = reach.listed()[name]
        assert found["ansible_host"] == address
        assert found["virt_address_source"] in ("arp", "neighbour")


def test_nobody_is_taken_for_another(reach: Reach) -> None:
    """Who claims an address of another gets no command for it, and none of its own runs there.

    near1 claims lan1's, near2 hv1's, lan1 itself one that both hypervisors have. Where a host key
    is pinned, a connection that is kept lets nobody in who would be refused without it.
    """
    lab = reach.guests.lab
    alias = f"ip addr {{}} {_NAT.prefix}.1/32 dev eth0"
    before = reach.listed()
    address, hv1 = before["lan1"]["ansible_host"], before["hv1"]["ansible_host"]
    kept = before["hv1"]["ansible_ssh_common_args"].partition("-o ControlPath=")[2].split()[0]
    wrong = reach.keys["nat1"]
    try:
        reach.guests.execute("hv1", "lan1", alias.format("add"))
        reach.record("lan1", None)
        reach.record("near1", None, address)
        reach.record("near2", None, hv1)
        run = reach.ansible.run("ansible-inventory", ["--list"], inventory=reach.folder)
        said = " ".join(run.succeeded().stderr.split())
        hosts = json.loads(run.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))[
            "_meta"
        ]["hostvars"]
        assert hosts["lan1"]["ansible_host"] == address
        assert hosts["lan1"]["virt_addresses"] == [address], said
        for name, reason in (("near1", "another machine has it"), ("near2", "of hypervisor")):
            assert "ansible_host" not in hosts[name]
            assert f"VM '{name}' of {_GUESTS[name][0]} (static): not connecting to" in said
            assert reason in said

        reach.record("lan1", reach.keys["lan1"], address)
        reach.record("near1", wrong, address)
        reach.record("near2", wrong, hv1)
        # connections as hv1 has them, so that one to its address is found if it is looked for
        sharing = f"-o ControlMaster=auto -o ControlPersist=60s -o ControlPath={kept}"
        for environment in ({}, {"ANSIBLE_SSH_ARGS": sharing}):
            for _turn in range(2):
                run = reach.run("lan1", "near1", "hv1", **environment)
                found = {event.host: event for event in run.events}
                for name in ("lan1", "hv1"):
                    assert found[name].result["stdout"].strip() == name, str(run)
                assert found["near1"].status == "unreachable", str(run)
                assert "Host key verification failed" in str(found["near1"].result)
            words = ["near2", "-m", "ansible.builtin.raw", "-a", "hostname"]
            words += ["-e", f"ansible_host={hv1}"]
            run = reach.ansible.run(
                "ansible", words, inventory=reach.folder, environment=environment or None
            )
            assert [event.status for event in run.events] == ["unreachable"], str(run)
            assert "Host key verification failed" in str(run)
    finally:
        reach.guests.execute("hv1", "lan1", alias.format("del"))
        reach.record("lan1", reach.keys["lan1"])
        for name in ("near1", "near2"):
            reach.record(name, None)
    assert lab.ssh("hv1", "hostname").stdout.strip() == "hv1"


@dataclass
class Spoofing:
    """Claims of addresses, and commands for one machine that ran on another meanwhile."""

    reach: Reach
    claims: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def at_console(self, name: str, commands: Sequence[str]) -> None:
        """Have the root shell on the console of a guest do this, which needs no agent."""
        typed = "".join(f"{one}\n" for one in commands)
        self.reach.guests.script(_GUESTS[name][0], _TYPE.format(name=name), input=typed)

    def on_console(self, name: str, lines: Sequence[str]) -> None:
        """Have a guest print these lines on its console, and wait until they are there.

        By one command: the terminal would echo a second one into the lines of the first.
        """
        self.at_console(
            name, ["printf '" + "".join(f"{one}\\n" for one in lines) + "' >/dev/console"]
        )
        ask = f"grep -c '^{lines[-1]}' {CONSOLES}/{name}.log"
        lab, host = self.reach.guests.lab, _GUESTS[name][0]
        wait_for(
            lambda: lab.ssh(host, ask, check=False).stdout.strip() not in ("", "0"), 60, lines[-1]
        )

    def names(self) -> tuple[dict[str, str], str]:
        """What each machine that is reached calls itself, and what Ansible printed."""
        run = self.reach.run(*_GUESTS, "hv1", "hv2", **_LAX)
        said = {one.host: str(one.result.get("stdout", "")).strip() for one in run.events}
        return {host: name for host, name in said.items() if name}, " ".join(str(run).split())

    def tried(self, kind: str, claimant: str, addresses: Sequence[str]) -> str:
        """Ansible runs everywhere while ``claimant`` claims all of ``addresses``; what it said."""
        said, text = self.names()
        found = [f"{kind}: {name} was {other}" for name, other in said.items() if other != name]
        self.wrong += found
        self.claims += [f"{kind}: {claimant} claims {one}" for one in addresses]
        print(f"{kind}: {claimant} claims {', '.join(addresses)}; reached: {sorted(said)}; {found}")
        assert (said["hv1"], said["hv2"]) == ("hv1", "hv2"), text
        return text

    def dropped(self, kind: str, claimant: str, addresses: Sequence[str]) -> None:
        """The same of addresses that are told of and not connected to."""
        text = self.tried(kind, claimant, addresses)
        for one in addresses:
            assert re.search(rf"'{claimant}' of hv. \(\w+\): not connecting to [^:]*{one}", text)


def test_twenty_claims_of_addresses_and_no_wrong_machine(reach: Reach) -> None:
    """By metadata, agent, answers to ARP, lease and console; with host keys and without.

    Every guest lets the controller in, so whoever is taken for another says so.
    """
    guests, lab = reach.guests, reach.guests.lab
    spoofing = Spoofing(reach)
    public = (reach.folder.parent / "key.pub").read_text(encoding="utf-8").strip()
    for name in ("near1", "near2"):
        ready = f"grep -c 'TINY READY' {CONSOLES}/{name}.log"
        host = _GUESTS[name][0]
        wait_for(
            lambda at=host, ask=ready: lab.ssh(at, ask, check=False).stdout[:1] == "1", 90, name
        )
        key = _AUTHORIZE.format(key=shlex.quote(public), name=name)
        spoofing.at_console(name, key.strip().splitlines())
    macs = {name: guests.virsh(_GUESTS[name][0], "domiflist", name).split()[-1] for name in _GUESTS}
    everybody = {name: name for name in (*_GUESTS, "hv1", "hv2")}
    said, text = spoofing.names()
    assert said == everybody, text
    listed = reach.listed()
    has = {name: listed[name]["ansible_host"] for name in everybody}
    machines = [has["hv1"], has["hv2"], str(lab.network.network_address + 1)]

    tags = "".join(f"<address>{one}</address>" for one in (has["lan1"], *machines))
    tags += "<address>::ffff:127.0.0.1</address>"
    words = ["metadata", "near1", "urn:fleet.virt:1", "--key", "fleet"]
    guests.virsh("hv1", *words, "--set", f"<fleet><user>root</user>{tags}</fleet>")
    spoofing.dropped("metadata", "near1", [has["lan1"], *machines])
    reach.record("near1", None)

    claimed = [has["near1"], has["near2"], has["hv1"], has["hv2"], f"{_NAT.prefix}.1"]
    alias = "; ".join(f"ip addr {{0}} {one}/32 dev eth0" for one in claimed)
    reach.record("lan1", None)
    guests.execute("hv1", "lan1", alias.format("add"))
    spoofing.dropped("agent", "lan1", claimed)
    guests.execute("hv1", "lan1", alias.format("del"))

    claimed = [has["lan1"], has["near2"]]
    spoofing.at_console("near1", [f"ip addr add {one}/32 dev eth0" for one in claimed])
    for with_key in (True, False):
        reach.record("lan1", reach.keys["lan1"] if with_key else None)
        spoofing.at_console("near1", [f"arping -U -c 5 -I eth0 {one} &" for one in claimed])
        for one in claimed:  # it is taken for the other, here too
            wait_for(
                lambda at=one: neighbours.table().get(at) == macs["near1"], 15, f"ARP for {one}"
            )
        spoofing.tried(f"ARP, {'with' if with_key else 'without'} a key", "near1", claimed)
    spoofing.at_console("near1", [f"ip addr del {one}/32 dev eth0" for one in claimed])
    # who gives an address back is taken for its owner for a moment yet; only keys see that
    for host in ("hv1", "hv2"):
        guests.script(host, "ip neigh flush all")
    guests.execute("hv1", "lan1", f"arping -U -c 3 -I eth0 {has['lan1']}")
    spoofing.at_console("near2", [f"arping -U -c 3 -I eth0 {has['near2']}"])
    for name in ("lan1", "near2"):
        wait_for(
            lambda one=name: neighbours.table().get(has[one]) == macs[one], 15, f"ARP of {name}"
        )

    guests.virsh("hv1", "attach-interface", "lan1", "network", "natted", "--model", "virtio")
    number = macs["nat1"].replace(":", "")
    guests.execute("hv1", "lan1", _LEASE.format(name="nat1", mac=number))

    def leased() -> bool:
        """Its number and name are, with another NIC; dnsmasq tells libvirt after it answered."""
        leases = guests.virsh("hv1", "net-dhcp-leases", "natted")
        return _ADDRESS in leases and f" {macs['nat1']} " not in leases

    wait_for(leased, 30, "libvirt knows the lease")
    for with_key in (True, False):
        reach.record("nat1", reach.keys["nat1"] if with_key else None)
        spoofing.tried(f"lease, {'with' if with_key else 'without'} a key", "lan1", [_ADDRESS])

    spoofing.at_console("near2", ["ip link set eth0 down"])
    guests.script("hv2", "ip neigh flush all")
    claimed = [has["lan1"], *machines]
    lines = [_DEVICE.format(address=one, mac=macs["near2"]) for one in claimed]
    lines.append(_DEVICE.format(address="::ffff:127.0.0.1", mac=macs["near2"]))
    spoofing.on_console("near2", (_DEVICES, *lines))
    spoofing.dropped("console", "near2", claimed)
    for kind, claimant in (("metadata", "near1"), ("console", "near2")):
        spoofing.claims.append(f"{kind}: {claimant} claims ::ffff:127.0.0.1")

    print(f"{len(spoofing.claims)} claims, {len(spoofing.wrong)} wrong machines")
    assert len(spoofing.claims) >= 20
    assert not spoofing.wrong
