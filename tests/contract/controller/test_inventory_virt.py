# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin within Ansible, on documents of libvirt's test driver.

Ansible's loader of collections is for whole processes: one reads all inventories of this file.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import typing as t
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Z4o5w1n9wYt3V0pQ1m0xQ3xZg3q1v0m0Q0m0Q0m0Q"
_DOMAIN = """\
<domain type='test'>
  <name>{name}</name><title>{title}</title>{metadata}
  <memory unit='MiB'>{memory}</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
</domain>
"""
_READER = """\
import contextlib, json, sys
from pathlib import Path
from ansible.errors import AnsibleUndefinedVariable
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader()
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible.vars.manager import VariableManager
said = []
Display.warning = lambda self, msg, *_args, **_more: said.append(str(msg))
results = []
for folder, files, extra in json.load(sys.stdin):
    load_extra_vars.extra_vars = extra
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    said.clear()
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[folder])
    variables = VariableManager(loader=loader, inventory=manager)
    hosts = {}
    for host in manager.get_hosts():
        values = variables.get_vars(host=host, include_hostvars=False)
        templar = Templar(loader=loader, variables=values)
        hosts[host.name] = {}
        for key, value in values.items():
            if key.startswith(("virt_", "ansible_", "my_")):
                with contextlib.suppress(AnsibleUndefinedVariable):
                    hosts[host.name][key] = templar.template(value)
    groups = {name: [host.name for host in one.get_hosts()] for name, one in manager.groups.items()}
    results.append({"hosts": hosts, "groups": groups, "said": list(said)})
print("\\n" + json.dumps(results, default=str))
"""


def domain(
    name: str, ours: str | None = "", title: str = "", memory: int = 64, **lists: t.Any
) -> str:
    """A domain; ``ours`` is the content of our metadata, None for a domain that is not ours."""
    texts = [
        f"<{tag}>{escape(text)}</{tag}>"
        for tag, some in lists.items()
        for text in ([some] if isinstance(some, str) else some)
    ]
    inner = (ours or "") + "".join(texts)
    metadata = f"<metadata><fleet xmlns='urn:fleet.virt:1'>{inner}</fleet></metadata>"
    return _DOMAIN.format(
        name=escape(name),
        title=escape(title),
        memory=memory,
        metadata="" if ours is None else metadata,
    )


@dataclass
class Case:
    """An inventory to be read; ``nodes`` are the hypervisors' domains."""

    plugin: dict[str, t.Any] = field(default_factory=dict)
    hosts: dict[str, t.Any] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    extra: dict[str, t.Any] = field(default_factory=dict)  # extra variables
    again: str | None = None  # the case whose folder is read once more, with these nodes


def _evil(trap: str) -> str:
    return f"evil {{{{ lookup('pipe', 'touch {trap}') }}}}"


_EVIL = _evil("TRAP")
CASES = {
    "whole": Case(
        plugin={
            "groups": {"big": "virt_memory_mib > 100", "broken": "no_such_variable.x"},
            "compose": {"my_double": "virt_memory_mib * 2", "ansible_ssh_args": "'-4'"},
            "keyed_groups": [
                {"key": "virt_zone", "prefix": "zone"},
                {"key": "virt_image", "prefix": "image"},
                {"key": "virt_tags", "prefix": "tag"},
                {"key": "virt_hypervisor", "prefix": "on"},
                {"key": "virt_state", "prefix": "state"},
            ],
        },
        hosts={"hv1": {"virt_zone": "a"}, "hv2": {}},
        nodes={
            "hv1": [
                domain(
                    "web1",
                    "<image name='debian12.qcow2' digest='ab' format='qcow2'/>",
                    memory=128,
                    zone="asked",
                    group=["web", "prod-eu"],
                    tag="ssd",
                    user="ansible",
                    host_key=f"{KEY} root@web1",
                    address="192.0.2.7",
                ),
                domain("foreign", None),
                domain("claimed", phase="creating"),
            ],
            "hv2": [domain("db1", zone="b")],
        },
    ),
    "cells": Case(
        plugin={"keyed_groups": [{"key": "virt_cell", "prefix": "cell"}]},
        hosts={
            "hv1": {"virt_ha_cell": "{{ my_rack }}", "my_rack": "rack1"},
            "hv2": {},
            "hv3": {"virt_ha_cell": "{{ known_to_a_play_alone }}"},
        },
        nodes={
            "hv1": [domain("ha1", ha="yes"), domain("plain1")],
            "hv2": [domain("ha2", ha="yes")],
            "hv3": [domain("ha3", ha="yes")],
        },
    ),
    "unmanaged": Case(
        plugin={"unmanaged": True},
        hosts={"hv1": {}},
        nodes={"hv1": [domain("web1"), domain("foreign", None)]},
    ),
    "filters": Case(
        plugin={"filters": ["virt_memory_mib >= 100", "'web' in virt_groups"]},
        hosts={"hv1": {}},
        nodes={
            "hv1": [
                domain("web1", group="web", memory=100),
                domain("web2", group="web", memory=99),
                domain("db1", group="db", memory=100),
            ]
        },
    ),
    "filter fails": Case(
        plugin={"filters": ["no_such.x == 1"]}, hosts={"hv1": {}}, nodes={"hv1": [domain("web1")]}
    ),
    "filter fails, strict": Case(
        plugin={"filters": ["no_such.x == 1"], "strict": True},
        hosts={"hv1": {}},
        nodes={"hv1": [domain("web1")]},
    ),
    "evil": Case(
        plugin={
            "unmanaged": True,
            "keyed_groups": [{"key": "virt_tags", "prefix": "tag"}],
            "compose": {"my_copy": "virt_title"},
        },
        hosts={"hv1": {"my_control": _evil("CONTROL")}},
        nodes={
            "hv1": [
                domain(
                    "web1",
                    "<image name=\"{{ lookup('pipe', 'touch TRAP') }}\" digest='' format=''/>",
                    title=_EVIL,
                    zone=_EVIL,
                    group=_EVIL,
                    tag=_EVIL,
                    user=_EVIL,
                    host_key=f"{KEY} {_EVIL}",
                    address=_EVIL,
                ),
                domain(_EVIL, None),
                domain("-oProxyCommand=touch TRAP", None),
            ]
        },
    ),
    "names": Case(
        hosts={"hv1": {}},
        nodes={
            "hv1": [
                domain("hypervisors", user="root"),
                domain("hv1", user="root"),
                domain("web1", group=["hypervisors", "all", "fleet", "db1", "web"]),
                domain("db1"),
            ]
        },
    ),
    # the group of hypervisors has a child that is empty, and a parent with another child
    "closed groups": Case(
        plugin={
            "keyed_groups": [
                {"key": "virt_tags", "prefix": "", "separator": ""},
                {"key": "virt_zone", "prefix": "z", "parent_group": "{{ virt_zone }}"},
            ],
            "groups": {"spares": "true", "machines": "true", "web3": "true", "fine": "true"},
        },
        hosts={"hv1": {}},
        nodes={
            "hv1": [
                domain("web1", group=["spares", "machines", "localhost", "LocalHost", "web2"]),
                domain("web2", tag=["hypervisors", "machines", "localhost", "web3", "good"]),
                domain("web3", zone="hypervisors", tag="spares"),
                domain("web4", zone="site", group=["hv1", "ungrouped"]),
            ]
        },
        files={
            "11-more.yml": json.dumps(
                {
                    "hypervisors": {"children": {"spares": {}}},
                    "estate": {"children": {"fleet": {}, "machines": {}}},
                    "vms": {"children": {"good": {}}},
                }
            )
        },
    ),
    # groups of the administrator, with and without hosts, and what only metadata names
    "groups of earlier files": Case(
        plugin={"guest_groups": ["web"], "keyed_groups": [{"key": "virt_tags", "separator": ""}]},
        hosts={"hv1": {}},
        nodes={
            "hv1": [
                domain("web1", group=["spare_hosts", "dbservers", "web", "estate", "own"]),
                domain("web2", group=["own"], tag="tagged"),
            ]
        },
        files={
            "11-more.yml": json.dumps(
                {
                    "spare_hosts": {},
                    "dbservers": {"hosts": {"db1": {}}},
                    "web": {},
                    "tagged": {},
                    "estate": {"children": {"hypervisors": {}}},
                }
            ),
            "21-again.virt.yml": json.dumps({"plugin": "fleet.virt.virt", "uris": []}),
        },
    ),
    "names of machines": Case(
        hosts={"hv1": {"ansible_host": "node1.example.org"}},
        nodes={
            "hv1": [
                domain(name, None)
                for name in (
                    *("HV1", "node1.example.org", "Node1", "NAS", "nas.example.org"),
                    *("10.9.8.7", "127.1", "2130706433", "::ffff:127.0.0.1", "fe80::1%eth0"),
                    *("LOCALHOST", "localhost.localdomain", "ip6-loopback", "localhost4"),
                    *("hv*", "!web1", "&web1", "~h.*", "web1,hv1", "web[1]", "all:hv1", "@file"),
                    *("web1", "Windows 10", "x.example.org"),
                )
            ]
        },
        plugin={"unmanaged": True},
        files={
            "11-more.yml": json.dumps(
                {"others": {"hosts": {"nas": {"ansible_host": "nas.example.org"}}}}
            )
        },
    ),
    "later": Case(
        hosts={"hv1": {}},
        nodes={"hv1": [domain("nas", address="192.0.2.7"), domain("web1"), domain("web2")]},
        files={
            "30-others.yml": json.dumps({"others": {"hosts": {"nas": {}, "tape": {}}}}),
            "31-others": "[others]\nnas\nweb2\n",
        },
    ),
    "addresses": Case(
        plugin={"compose": {"ansible_host": "virt_title or virt_addresses[0]"}},
        hosts={
            "hv1": {"ansible_host": "192.0.2.1"},
            "hv2": {"ansible_host": "node2.example.org", "virt_migration_address": "198.51.100.2"},
        },
        nodes={
            "hv1": [
                domain("honest", address="192.0.2.7"),
                domain("first", address=["192.0.2.1", "192.0.2.8"]),
                domain("storage", address="198.51.100.2"),
                domain("mapped", address="::ffff:127.0.0.1"),
                domain("zone", address="2001:db8::7%\n-oProxyCommand=x"),
                domain("twin1", address="192.0.2.20"),
                domain("titled", title="node2.example.org"),
                domain("titled2", title="192.0.2.1"),
                domain("titled3", title="::ffff:192.0.2.1"),
                domain("titled4", title="localhost"),
                domain("titled5", title="127.0.0.1"),
                domain("titled6", title="titled6.example.org"),
            ],
            "hv2": [
                domain("twin2", address="192.0.2.20"),
                domain("pinned", address="192.0.2.20", host_key=KEY),
            ],
        },
    ),
    "ssh": Case(
        hosts={"hv1": {}},
        nodes={"hv1": [domain("web1", host_key=KEY), domain("web2"), domain("web3", host_key="x")]},
        files={"group_vars/all.yml": "ansible_ssh_args: '-o StrictHostKeyChecking=no'\n"},
    ),
    "not strict": Case(
        plugin={"strict_host_keys": False},
        hosts={"hv1": {}},
        nodes={"hv1": [domain("web1", host_key=KEY)]},
    ),
    "cache": Case(
        plugin={"cache": True, "cache_plugin": "ansible.builtin.jsonfile"},
        hosts={"hv1": {}, "hv2": {}},
        nodes={"hv1": [domain("web1", title=_EVIL)]},
    ),
    "cache, again": Case(again="cache", nodes={"hv1": [domain("web2")], "hv2": [domain("db1")]}),
    "lost": Case(
        plugin={"lost": ["hv4"]},
        hosts={
            "hv1": {},
            "hv2": {"virt_hypervisors_lost": "{{ my_gone }}"},
            "hv3": {},
            "hv4": {},
        },
        nodes={name: [domain(f"on-{name}")] for name in ("hv1", "hv2", "hv3", "hv4")},
        files={
            "group_vars/hypervisors.yml": "virt_hypervisors_lost: 'hv9, hv3'\nmy_gone: [hv2]\n",
        },
    ),
    "lost, extra": Case(
        hosts={"hv1": {"virt_hypervisors_lost": ["hv1"]}, "hv2": {}},
        nodes={name: [domain(f"on-{name}")] for name in ("hv1", "hv2")},
        extra={"virt_hypervisors_lost": "hv9,hv2"},
    ),
    "lost and cached": Case(
        plugin={"cache": True, "cache_plugin": "ansible.builtin.jsonfile"},
        hosts={"hv1": {}, "hv2": {}},
        nodes={name: [domain(f"on-{name}")] for name in ("hv1", "hv2")},
    ),
    "lost and cached, again": Case(
        again="lost and cached", extra={"virt_hypervisors_lost": ["hv2"]}
    ),
    "migrating": Case(
        hosts={"hv1": {}, "hv2": {}},
        nodes={"hv1": [domain("web1")], "hv2": [domain("web1")]},
    ),
}


def _files(folder: Path, case: Case) -> dict[str, str]:
    nodes = {
        f"{name}.xml.orig": f"<node>{''.join(some)}</node>" for name, some in case.nodes.items()
    }
    if case.again:
        return nodes
    for name, values in case.hosts.items():
        values["virt_inventory_uri"] = f"test://{folder}/{name}.xml.orig"
    plugin = {"plugin": "fleet.virt.virt", **case.plugin}
    if plugin.get("cache"):
        plugin["cache_connection"] = f"{folder}/cache.orig"
    groups = {
        "hypervisors": {"hosts": case.hosts},
        "fleet": {"children": {"hypervisors": {}}},
    }
    inventory = {
        "10-hypervisors.yml": json.dumps(groups),
        "20-guests.virt.yml": json.dumps(plugin),
    }
    return {**nodes, **inventory, **case.files}


@dataclass(frozen=True)
class Read:
    """An inventory as Ansible has it."""

    hosts: dict[str, dict[str, t.Any]]
    groups: dict[str, list[str]]
    said: list[str]
    folder: Path


@pytest.fixture(scope="module")
def inventories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    """Every case, read by one process whose working directory is where traps would be."""
    root = tmp_path_factory.mktemp("inventories")
    folders = {name: root / (case.again or name).replace(" ", "-") for name, case in CASES.items()}
    steps = [
        (str(folders[name]), _files(folders[name], case), case.extra)
        for name, case in CASES.items()
    ]
    done = subprocess.run(
        [sys.executable, "-c", _READER],
        input=json.dumps(steps),
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    return {name: Read(**one, folder=root) for name, one in zip(CASES, results, strict=True)}


def test_groups_and_variables(inventories: dict[str, Read]) -> None:
    read = inventories["whole"]
    assert set(read.hosts) == {"hv1", "hv2", "web1", "db1"}
    expected = {
        "web": ["web1"],
        "prod_eu": ["web1"],
        "zone_a": ["web1"],
        "zone_b": ["db1"],
        "image_debian12_qcow2": ["web1"],
        "tag_ssd": ["web1"],
        "on_hv1": ["web1"],
        "on_hv2": ["db1"],
        "state_running": ["web1", "db1"],
        "big": ["web1"],
    }
    assert {name: read.groups[name] for name in expected} == expected
    assert "broken" not in read.groups
    web1 = read.hosts["web1"]
    assert int(web1["my_double"]) == 256  # 2.18 makes text of it
    assert web1["ansible_user"] == "ansible"
    assert web1["ansible_host"] == "192.0.2.7"
    assert web1["virt_address_source"] == "static"
    assert web1["ansible_ssh_args"].endswith(" -4")


def test_vms_of_a_cell_have_its_name_and_group(inventories: dict[str, Read]) -> None:
    read = inventories["cells"]
    cells = {name: read.hosts[name]["virt_cell"] for name in ("ha1", "plain1", "ha2", "ha3")}
    assert cells == {"ha1": "rack1", "plain1": None, "ha2": None, "ha3": None}
    assert read.groups["cell_rack1"] == ["ha1"]


def test_only_ours_unless_asked(inventories: dict[str, Read]) -> None:
    assert set(inventories["unmanaged"].hosts) == {"hv1", "web1", "foreign"}
    assert inventories["unmanaged"].hosts["foreign"]["virt_managed"] is False


def test_filters(inventories: dict[str, Read]) -> None:
    assert set(inventories["filters"].hosts) == {"hv1", "web1"}
    assert set(inventories["filter fails"].hosts) == {"hv1"}
    assert inventories["filter fails"].said == []
    strict = inventories["filter fails, strict"]
    assert any("Unable to parse" in text for text in strict.said)
    assert set(strict.hosts) == {"hv1"}


def test_nothing_is_evaluated(inventories: dict[str, Read]) -> None:
    """Also not when it is used; what the administrator wrote is."""
    read = inventories["evil"]
    assert (read.folder / "CONTROL").exists()
    assert not (read.folder / "TRAP").exists()
    assert set(read.hosts) == {"hv1", "web1"}
    web1 = read.hosts["web1"]
    for key in ("virt_title", "virt_zone", "my_copy"):
        assert web1[key] == _EVIL
    assert web1["virt_groups"] == web1["virt_tags"] == [_EVIL]
    assert web1["virt_image"] == "{{ lookup('pipe', 'touch TRAP') }}"
    assert not {"ansible_user", "ansible_host"} & set(web1)
    assert "lookup" not in web1["ansible_ssh_args"]
    made = [name for name in read.groups if "lookup" in name]
    assert len(made) == 2
    assert not any(set(name) & set("{}'() ") for name in made)
    assert sum("is left out" in text for text in read.said) == 2


def test_no_guest_takes_a_name(inventories: dict[str, Read]) -> None:
    """Not a host's, nor a group's; nor does it get among the hypervisors."""
    read = inventories["names"]
    assert read.groups["hypervisors"] == read.groups["fleet"] == ["hv1"]
    assert read.groups["web"] == ["web1"]
    assert "db1" not in read.groups
    assert "ansible_user" not in read.hosts["hv1"]
    assert sum("is left out" in text for text in read.said) == 2
    assert sum("is not added to group" in text for text in read.said) == 4


def test_no_guest_gets_among_the_hypervisors(inventories: dict[str, Read]) -> None:
    """By no option, into no group below theirs or beside them, nor one with the name of a host."""
    read = inventories["closed groups"]
    assert set(read.hosts) == {"hv1", "web1", "web2", "web3", "web4"}
    groups = {name: set(hosts) for name, hosts in read.groups.items()}
    for name in ("hypervisors", "fleet", "estate"):
        assert groups[name] == {"hv1"}
    assert groups["spares"] == groups["machines"] == set()
    assert groups["good"] == groups["vms"] == {"web2"}
    assert groups["fine"] == {"web1", "web2", "web3", "web4"}
    assert groups["z_site"] == groups["site"] == {"web4"}
    assert not {"localhost", "LocalHost", "web2", "web3", "hv1"} & set(groups)
    said = [text for text in read.said if "not added to group" in text]
    for words in (
        "web1, web2, web3 and 1 more are not added to group 'spares': it is part of ",
        "web1, web2, web3 and 1 more are not added to group 'machines': it is part of 'estate',",
        "web1, web2 are not added to group 'localhost': that name is reserved by Ansible",
        "web1 is not added to group 'web2': a host has that name",
        "web2, z_hypervisors are not added to group 'hypervisors': it contains hypervisors",
        "web4 is not added to group 'ungrouped': it contains hypervisors",
    ):
        assert any(words in text for text in said), said


def test_guest_joins_group_of_earlier_file_only_if_permitted(
    inventories: dict[str, Read],
) -> None:
    """Whatever it is for: plays for its hosts would run on the guest. Its own groups stay."""
    read = inventories["groups of earlier files"]
    groups = {name: set(hosts) for name, hosts in read.groups.items()}
    assert groups["spare_hosts"] == groups["estate"] - {"hv1"} == set()
    assert groups["dbservers"] == {"db1"}
    assert groups["web"] == {"web1"}
    assert groups["own"] == {"web1", "web2"}
    assert groups["tagged"] == {"web2"}
    said = [text for text in read.said if "not added to group" in text]
    for name in ("spare_hosts", "dbservers"):
        words = f"web1 is not added to group '{name}': an earlier file of the inventory defines it"
        assert any(words in text and "guest_groups" in text for text in said), said
    assert any("'estate': it contains hypervisors" in text for text in said), said
    assert len(said) == 3


def test_no_guest_has_the_name_of_another_machine(inventories: dict[str, Read]) -> None:
    """Nor one that is an address, or a pattern that matches other hosts."""
    read = inventories["names of machines"]
    assert set(read.hosts) == {"hv1", "nas", "web1", "Windows 10", "x.example.org"}
    assert sum("is left out" in text for text in read.said) == 22


@pytest.mark.parametrize(
    ("case", "lost", "guests"),
    [
        ("lost", "hv2, hv3, hv4", {"on-hv1"}),
        ("lost, extra", "hv2", {"on-hv1"}),
        ("lost and cached", None, {"on-hv1", "on-hv2"}),
        ("lost and cached, again", "hv2", {"on-hv1"}),
    ],
)
def test_hypervisors_that_are_declared_lost_are_not_asked(
    inventories: dict[str, Read], case: str, lost: str | None, guests: set[str]
) -> None:
    """Whichever way that is declared; their documents exist, so asking would show their VMs."""
    read = inventories[case]
    assert {name for name in read.hosts if name.startswith("on-")} == guests
    told = [text for text in read.said if "not contacted" in text]
    assert [text.partition(": ")[0] for text in told] == ([lost] if lost else [])
    assert not [text for text in read.said if "groups may lack hosts" in text]
    for name in (lost or "").split(", ") if lost else ():
        assert "declared lost" in read.hosts[name]["virt_unreachable"]


def test_a_host_of_a_later_file_is_told(inventories: dict[str, Read]) -> None:
    """It cannot be known when VMs are made hosts; once for each."""
    read = inventories["later"]
    told = [text for text in read.said if "has the name of a VM" in text]
    assert len(told) == 2
    assert told[0].startswith("host 'nas' of ")
    assert "30-others.yml has the name of a VM of hv1" in told[0]
    assert "31-others" in told[1]
    assert all("they are one host, with the variables of both" in text for text in told)
    assert read.hosts["nas"]["ansible_host"] == "192.0.2.7"


def test_no_address_of_another_machine(inventories: dict[str, Read]) -> None:
    read = inventories["addresses"]
    hosts = {name: values.get("ansible_host") for name, values in read.hosts.items()}
    assert hosts == {
        "hv1": "192.0.2.1",
        "hv2": "node2.example.org",
        "honest": "192.0.2.7",
        "first": "192.0.2.8",
        "titled6": "titled6.example.org",
        "pinned": "192.0.2.20",
        **dict.fromkeys(("storage", "mapped", "zone", "twin1", "twin2")),
        **dict.fromkeys(("titled", "titled2", "titled3", "titled4", "titled5")),
    }
    assert sum("is another machine; not connecting to it" in text for text in read.said) == 5
    said = [text for text in read.said if "): not connecting to " in text]
    assert len(said) == 4
    assert (
        "VM 'first' of hv1 (static): not connecting to 192.0.2.1: address of hypervisor hv1" in said
    )


def test_strict_before_all_else(inventories: dict[str, Read]) -> None:
    hosts = inventories["ssh"].hosts
    words = shlex.split(hosts["web1"]["ansible_ssh_args"])
    strict = [word for word in words if word.startswith("StrictHostKeyChecking=")]
    assert strict == ["StrictHostKeyChecking=yes", "StrictHostKeyChecking=no"]
    assert any(word.startswith("KnownHostsCommand=") and KEY in word for word in words)
    for name in ("web2", "web3"):
        words = shlex.split(hosts[name]["ansible_ssh_args"])
        assert words == ["-o", 'ControlPath="none"', "-o", "StrictHostKeyChecking=no"]
    loose = inventories["not strict"].hosts["web1"]
    assert "ansible_ssh_args" not in loose
    assert loose["ansible_control_path"].startswith("%(directory)s/")


def test_cache(inventories: dict[str, Read]) -> None:
    """What was read is kept; who was silent is asked again; nothing kept is evaluated."""
    first, again = inventories["cache"], inventories["cache, again"]
    assert set(first.hosts) == {"hv1", "hv2", "web1"}
    assert first.hosts["hv2"]["virt_unreachable"]
    assert any("hypervisor hv2: " in text for text in first.said)
    lacking = "the VMs on hv2 are not in the inventory, so groups may lack hosts: all, "
    assert any(text.startswith(lacking) for text in first.said), first.said
    assert not any("may lack hosts" in text for text in again.said)
    assert set(again.hosts) == {"hv1", "hv2", "web1", "db1"}
    assert "virt_unreachable" not in again.hosts["hv2"]
    assert again.hosts["web1"]["virt_title"] == _EVIL


def test_two_of_one_name_are_told(inventories: dict[str, Read]) -> None:
    read = inventories["migrating"]
    assert read.hosts["web1"]["virt_hypervisor"] == "hv1"
    assert any("hypervisor hv2: domain 'web1' is left out" in text for text in read.said)
