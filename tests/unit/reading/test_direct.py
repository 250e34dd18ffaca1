# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypervisors that the controller reads itself, in threads, by documents of the test driver."""

from __future__ import annotations

import socket
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _direct

_DOCUMENT = """\
<node><domain type='test'>
  <name>{name}</name><memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type>hvm</type></os>
</domain></node>
"""
ALL = _direct.domains((), addresses=False, storage=False)


def variables(**hosts: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"hostvars": hosts}


@pytest.fixture
def documents(tmp_path: Path) -> dict[str, dict[str, t.Any]]:
    """Return variables of twenty hypervisors with one domain each."""
    hosts = {}
    for number in range(20):
        path = tmp_path / f"{number}.xml"
        path.write_text(_DOCUMENT.format(name=f"vm{number}"))
        hosts[f"hv{number}"] = {"virt_inventory_uri": f"test://{path}"}
    return hosts


def names(answer: t.Mapping[str, t.Any]) -> list[str]:
    return [domain["name"] for domain in answer["domains"]]


def test_each_gives_its_own(documents: dict[str, dict[str, t.Any]]) -> None:
    found = _direct.answers([*documents], ALL, variables(**documents), seconds=60)
    assert {host: names(answer) for host, answer in found.items()} == {
        f"hv{number}": [f"vm{number}"] for number in range(20)
    }


def test_names(documents: dict[str, dict[str, t.Any]]) -> None:
    one = _direct.domains(["vm1"], addresses=True, storage=True)
    found = _direct.answers(["hv0", "hv1"], one, variables(**documents), seconds=0)
    assert [names(answer) for answer in found.values()] == [[], ["vm1"]]


def test_who_fails_is_alone(documents: dict[str, dict[str, t.Any]], tmp_path: Path) -> None:
    hosts = {
        "absent": {"virt_inventory_uri": f"test://{tmp_path}/absent.xml"},
        "imposed": {"virt_tags": ["x"], "ansible_facts": {"virt_tags": ["x"]}, **documents["hv2"]},
        "lost": documents["hv3"],
        "program": {"virt_inventory_uri": "qemu+ext:///system?command=/bin/true"},
        "unsaid": {},
        "well": documents["hv1"],
    }
    found = _direct.answers([*hosts], ALL, variables(**hosts), seconds=60, lost={"lost"})
    assert names(found.pop("well")) == ["vm1"]
    said = {host: answer["msg"] for host, answer in found.items()}
    assert "cannot connect to libvirt at test:///" in said.pop("absent")
    assert "imposed: its facts set virt_tags" in said.pop("imposed")
    assert "lost is declared lost (virt_hypervisors_lost)" in said.pop("lost")
    assert "names a program to start on the controller" in said.pop("program")
    assert "virt_inventory_uri: None is not a libvirt URI" in said.pop("unsaid")
    assert not said
    assert all(answer["failed"] for answer in found.values())


def test_a_fault_of_ours_is_that_hypervisors_alone(
    documents: dict[str, dict[str, t.Any]],
) -> None:
    def reader(connection: t.Any) -> dict[str, t.Any]:
        answer = ALL(connection)
        return {"domains": [1 // (one["name"] != "vm1") and one for one in answer["domains"]]}

    found = _direct.answers(["hv0", "hv1"], reader, variables(**documents), seconds=60)
    assert names(found["hv0"]) == ["vm0"]
    assert "unexpected ZeroDivisionError" in found["hv1"]["msg"]


def test_who_hangs_costs_the_limit_and_holds_nobody(
    documents: dict[str, dict[str, t.Any]],
) -> None:
    """One that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        frozen = {"virt_inventory_uri": f"qemu+tcp://127.0.0.1:{server.getsockname()[1]}/system"}
        hosts = {"frozen": frozen, **documents}
        found = _direct.answers([*hosts], ALL, variables(**hosts), seconds=1)
    assert found.pop("frozen")["msg"] == "read frozen: no answer within 1 seconds"
    assert all("domains" in answer for answer in found.values())


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+ext:///system?command=/tmp/x",
        "QEMU+EXT:///system",
        "qemu+ssh://hv1/system?command=/tmp/x",
        "qemu+ssh://hv1/system?no_tty=1;Command=/tmp/x",
        "qemu+ssh://hv1/system?a=b&comm%61nd=/tmp/x",
        "qemu+e\nxt:///system",
        "",
        None,
        ["qemu+tls:///system"],
    ],
)
def test_no_uri_starts_a_program(uri: t.Any) -> None:
    with pytest.raises(PlanRefused, match="virt_inventory_uri: "):
        _direct.require_harmless(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "qemu:///system",
        "qemu+ssh:///system",
        "qemu+ssh://root@hv1/system?keyfile=/root/.ssh/command",
        "qemu+tls:///system?pkipath=/srv/keys",
        "test:///srv/ext.xml",
    ],
)
def test_others_are_opened(uri: str) -> None:
    _direct.require_harmless(uri)
