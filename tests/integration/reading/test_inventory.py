# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: guests of all hypervisors as hosts, and nothing they say is executed."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.reading.conftest import HV1, HV2, Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_PLUGIN = """\
plugin: fleet.virt.virt
unmanaged: true
groups:
  running_guests: virt_state == 'running'
keyed_groups:
  - key: virt_hypervisor
    prefix: hypervisor
  - key: virt_metadata.groups
    prefix: group
compose:
  virt_address_count: virt_addresses | length
"""


@pytest.fixture
def folder(lab: Laboratory, tmp_path: Path) -> Path:
    """An inventory folder as users have it: hypervisors, then the plugin's file."""
    shutil.copy(lab.inventory / "10-hypervisors.yml", tmp_path)
    (tmp_path / "20-guests.virt.yml").write_text(_PLUGIN, encoding="utf-8")
    return tmp_path


def _marked(value: dict[str, Any]) -> Any:
    """ansible-inventory shows text that is never evaluated as {"__ansible_unsafe": text}."""
    return value.get("__ansible_unsafe", value)


def _listed(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.succeeded().stdout, object_hook=_marked)
    return found


def _vars(listed: dict[str, Any], host: str) -> dict[str, Any]:
    found: dict[str, Any] = listed["_meta"]["hostvars"][host]
    return found


@contextlib.contextmanager
def _asking_for_a_password(lab: Laboratory, password: str) -> Iterator[None]:
    """The sudo of hv2's user asks for that password."""
    rule = "/etc/sudoers.d/admin"
    lab.ssh("hv2", f"cp -a {rule} /root/admin.rule; cp -a /etc/shadow /root/shadow.right")
    try:
        lab.ssh("hv2", "chpasswd", input=f"admin:{password}\n")
        lab.ssh("hv2", f"cat >{rule}", input="admin ALL=(ALL:ALL) ALL\n")
        yield
    finally:
        lab.ssh("hv2", f"mv /root/admin.rule {rule}; mv /root/shadow.right /etc/shadow")


@pytest.mark.usefixtures("fleet")
def test_hypervisor_whose_sudo_asks_for_password_is_read(
    lab: Laboratory, ansible: Ansible, folder: Path, tmp_path: Path
) -> None:
    """With ansible_become_password, which is in no file of the cache; without, it says so."""
    password = "se'cret $word"  # noqa: S105 - of a user in the laboratory
    stored = tmp_path / "cache"
    plugin = f"{_PLUGIN}cache: true\ncache_plugin: jsonfile\ncache_connection: {stored}\n"
    (folder / "20-guests.virt.yml").write_text(plugin, encoding="utf-8")
    with _asking_for_a_password(lab, password):
        run = ansible.run("ansible-inventory", ["--list"], inventory=folder).succeeded()
        assert not set(HV2) & set(_listed(run)["_meta"]["hostvars"]), str(run)
        said = " ".join(str(run).split())
        assert "sudo on hv2 asks for a password: set the variable ansible_become_password" in said
        (folder / "host_vars").mkdir()
        text = json.dumps({"ansible_become_password": password})
        (folder / "host_vars" / "hv2.yml").write_text(text, encoding="utf-8")
        run = ansible.run("ansible-inventory", ["--list"], inventory=folder).succeeded()
        assert set(HV2) <= set(_listed(run)["_meta"]["hostvars"]), str(run)
    assert all("virt_unreachable" not in one for one in _listed(run)["_meta"]["hostvars"].values())
    texts = [path.read_text(encoding="utf-8") for path in stored.iterdir()]
    assert any(HV2[0] in text for text in texts)
    assert not any(password in text for text in texts)


def test_guests_of_both_hypervisors(ansible: Ansible, fleet: Fleet, folder: Path) -> None:
    """Each with its hypervisor, state and address; hv2 is reached as a user with sudo."""
    listed = _listed(ansible.run("ansible-inventory", ["--list"], inventory=folder))
    leases = {mac: address for mac, address, *_ in reversed(fleet.guests.lab.leases())}
    for hypervisor, names in (("hv1", HV1), ("hv2", HV2)):
        for name in names:
            assert _vars(listed, name)["virt_hypervisor"] == hypervisor
        assert set(listed[f"hypervisor_{hypervisor}"]["hosts"]) == set(names)
    for name in ("web1", "web2"):
        variables = _vars(listed, name)
        assert variables["virt_managed"] is (name == "web2")
        assert variables["virt_address_source"] == "agent"
        assert variables["virt_state"] == "running"
        assert variables["ansible_host"] == variables["virt_addresses"][0]
        assert set(variables["virt_addresses"]) <= set(leases.values())
    assert int(_vars(listed, "web1")["virt_address_count"]) == 3  # 2.18 makes text of it
    assert "ansible_host" not in _vars(listed, "off1")
    assert set(listed["running_guests"]["hosts"]) == {"liar2", "web1", "web2"}
    assert set(listed["group_web"]["hosts"]) == {"web2"}
    assert set(listed["web"]["hosts"]) == {"web2"}


def test_only_ours_unless_asked(ansible: Ansible, fleet: Fleet, folder: Path) -> None:
    assert fleet.guests.made
    (folder / "20-guests.virt.yml").write_text("plugin: fleet.virt.virt\n", encoding="utf-8")
    listed = _listed(ansible.run("ansible-inventory", ["--list"], inventory=folder))
    assert set(listed["_meta"]["hostvars"]) == {"hv1", "hv2", "web2"}


def test_nothing_a_guest_says_is_executed(ansible: Ansible, fleet: Fleet, folder: Path) -> None:
    """Lookups in title, description, metadata and host name stay text, also when they are used."""
    tasks = [
        {"name": "All", "ansible.builtin.debug": {"var": "hostvars[inventory_hostname]"}},
        {"name": "Title", "ansible.builtin.debug": {"msg": "{{ virt_title }}"}},
        {"name": "Host name", "ansible.builtin.debug": {"msg": "{{ virt_hostname }}"}},
        {"name": "Group", "ansible.builtin.debug": {"msg": "{{ virt_metadata.groups[0] }}"}},
        {
            "name": "Copied",
            "ansible.builtin.set_fact": {"copied": "{{ virt_title }}"},
        },
        {"name": "Again", "ansible.builtin.debug": {"msg": "{{ copied }}"}},
    ]
    run = ansible.play(tasks, "web2", inventory=folder).succeeded()
    for task in ("Title", "Group", "Again"):
        assert run.of(task)["web2"]["msg"] == fleet.evil("evil")
    assert run.of("Host name")["web2"]["msg"] == fleet.evil("h")
    listed = _listed(ansible.run("ansible-inventory", ["--list", "--export"], inventory=folder))
    for name in listed:
        assert "lookup" not in name or not set(name) & set("{}'() ")
    assert not fleet.trap.exists()


# An agent in the guest that lies: it answers with text that would be an option of ssh, a template,
# addresses of the controller itself. On guest-mute it falls silent, still connected. It starts no
# program to answer: where that takes longer than libvirt waits, each answer is to an earlier
# question, and while somebody goes on asking there is none in time. Until libvirt has connected,
# which it does once the port is open, there is nothing to read: it must not end by that.
_LIAR = r"""
cat > /sbin/agent <<'END'
#!/bin/sh
for port in /sys/class/virtio-ports/*; do
  grep -qsx org.qemu.guest_agent.0 "$port/name" && break
done
read -r mac < /sys/class/net/eth0/address
say="{\"return\": [{\"name\": \"EVIL\", \"hardware-address\": \"$mac\", \"ip-addresses\": ["
for lie in "-oProxyCommand=touch TRAP" "EVIL" 127.0.0.1 ::ffff:127.0.0.1 fe80::1 0.0.0.0; do
  say="$say{\"ip-address-type\": \"ipv4\", \"ip-address\": \"$lie\", \"prefix\": 24}, "
done
say="$say{\"ip-address-type\": \"ipv4\", \"ip-address\": \"192.0.2.7\", \"prefix\": 24}]}]}"
exec 3<> "/dev/${port##*/}"
while :; do
  read -r line <&3 || { sleep 0.2; continue; }
  case $line in
  *guest-sync*)
    id=${line##*\"id\":}
    id=${id# }
    echo "{\"return\": ${id%%[!0-9]*}}" >&3 ;;
  *guest-network-get-interfaces*) echo "$say" >&3 ;;
  *guest-mute*)
    echo '{"return": {}}' >&3
    while :; do sleep 60; done ;;
  *) echo '{"return": {}}' >&3 ;;
  esac
done
END
grep -q guest-mute /sbin/agent
"""
# At once: one that is told to end may be in the middle of an answer
_NEXT_AGENT = "kill -9 $(pidof qemu-ga)"


def _lie(guests: Guests) -> str:
    """What the new agent says, asked on the hypervisor: connections to that would take what the
    guest needs."""
    told = guests.lab.ssh("hv2", _ASK_LIAR, check=False, timeout=150).stdout
    assert "192.0.2.7" in told, f"{told}\n{guests.standing('hv2', 'liar2')}"
    return told


# Until the lie comes, as long as a guest may take to boot
_ASK_LIAR = """
for try in $(seq 300); do
  told=$(timeout 20 virsh -q domifaddr liar2 --source agent 2>&1)
  case $told in *192.0.2.7*) break ;; esac
  [ $SECONDS -lt 120 ] || break
  sleep 0.3
done
echo "$told"
"""


def test_an_agent_that_lies_and_then_is_dead(ansible: Ansible, fleet: Fleet, folder: Path) -> None:
    """Only addresses come out of it; dead, it costs seconds and an error in its own entry."""
    guests = fleet.guests
    try:
        guests.wait_agent("hv2", "liar2")
        script = _LIAR.replace("TRAP", str(fleet.trap)).replace("EVIL", "{{ 7 * 191 }}")
        guests.execute("hv2", "liar2", script)  # it is there now, whole
        guests.execute("hv2", "liar2", _NEXT_AGENT, wait=False)
        lie = _lie(guests)
        assert "-oProxyCommand=touch" in lie  # libvirt passes on whatever it is told
        listed = _listed(ansible.run("ansible-inventory", ["--list"], inventory=folder))
        assert _vars(listed, "liar2")["virt_addresses"] == ["192.0.2.7"]
        assert _vars(listed, "liar2")["ansible_host"] == "192.0.2.7"
        assert not fleet.trap.exists()

        guests.agent("hv2", "liar2", "guest-mute")
        started = time.monotonic()
        args = {"addresses": True, "timeout": 6}
        answer = ansible.module("hv2", "virt_query", args)["hv2"]
        assert time.monotonic() - started < 40
        found = {one["name"]: one for one in answer["domains"]}
        assert "agent" in found["liar2"]["error"]
        assert found["liar2"]["state"] == "running"
        assert found["web2"]["error"] is None
        assert found["web2"]["nics"][0]["addresses"]
    finally:
        guests.virsh("hv2", "destroy", "liar2")


def test_a_dead_hypervisor_is_named_and_bounded(
    ansible: Ansible, lab: Laboratory, fleet: Fleet, folder: Path
) -> None:
    """Also one that died with a connection open; the others' guests are there."""
    assert fleet.guests.made
    with (folder / "10-hypervisors.yml").open("a", encoding="utf-8") as file:
        more = {"hv9": {"ansible_host": str(lab.network[250]), "ansible_user": "root"}}
        file.write(f"hypervisors2:\n  hosts: {json.dumps(more)}\n")
        file.write("fleet:\n  children: {hypervisors: {}, hypervisors2: {}}\n")
    plugin = _PLUGIN + "group: fleet\nhost_timeout: 6\ntimeout: 3\n"
    (folder / "20-guests.virt.yml").write_text(plugin, encoding="utf-8")
    lab.cut("hv2")
    try:
        started = time.monotonic()
        run = ansible.run("ansible-inventory", ["--list"], inventory=folder)
        assert time.monotonic() - started < 30
    finally:
        lab.heal("hv2")
    listed = _listed(run)
    assert "web1" in listed["_meta"]["hostvars"]
    assert "web2" not in listed["_meta"]["hostvars"]
    for name in ("hv2", "hv9"):
        assert f"hypervisor {name}: " in run.stderr
        assert _vars(listed, name)["virt_unreachable"]
    assert "virt_unreachable" not in _vars(listed, "hv1")


def test_without_its_group(ansible: Ansible, lab: Laboratory, tmp_path: Path) -> None:
    """A folder in the wrong order is told; nothing is read."""
    shutil.copy(lab.inventory / "10-hypervisors.yml", tmp_path / "30-hypervisors.yml")
    (tmp_path / "20-guests.virt.yml").write_text(_PLUGIN, encoding="utf-8")
    run = ansible.run("ansible-inventory", ["--list"], inventory=tmp_path)
    assert set(_listed(run)["_meta"]["hostvars"]) == {"hv1", "hv2"}
    words = " ".join(run.stderr.split())
    assert "no group 'hypervisors' in the inventory" in words
    assert "it must be in a file that sorts before this one" in words


def test_uris(ansible: Ansible, tmp_path: Path) -> None:
    """Without a group of hypervisors: connection URIs, here libvirt's test driver."""
    path = tmp_path / "test.virt.yml"
    text = "plugin: fleet.virt.virt\nuris: [test:///default]\nunmanaged: true\n"
    path.write_text(text, encoding="utf-8")
    listed = _listed(ansible.run("ansible-inventory", ["--list"], inventory=path))
    assert _vars(listed, "test")["virt_hypervisor"] == "test:///default"
    assert _vars(listed, "test")["virt_state"] == "running"
