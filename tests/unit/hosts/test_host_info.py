# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capabilities as facts."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import host_info

FIXTURES = Path(__file__).parents[1] / "fixtures" / "capabilities"


def test_two_nodes() -> None:
    xml = (FIXTURES / "kvm_two_nodes.xml").read_text(encoding="utf-8")
    assert host_info.capabilities(xml) == {
        "uuid": "4c4c4544-0042-3510-8056-b4c04f383532",
        "arch": "x86_64",
        "domain_types": ["kvm", "qemu"],
        "machines": ["pc-i440fx-7.2"],
        "cpu_model": "EPYC-Rome",
        "cpu_vendor": "AMD",
        # libvirt's summary has 1 socket, that of one node
        "topology": {"sockets": 2, "cores": 2, "threads": 2},
        "numa": [
            {
                "id": 0,
                "memory_mib": 2047,
                "cpus": 4,
                "free_mib": None,
                "hugepages": [
                    {"size_kib": 2048, "total": 512},
                    {"size_kib": 1048576, "total": 0},
                ],
            },
            {"id": 1, "memory_mib": 4096, "cpus": 4, "free_mib": None, "hugepages": []},
        ],
        "iommu": True,
        "migration_transports": ["tcp", "rdma"],
    }


def test_no_nodes() -> None:
    xml = (FIXTURES / "emulated_no_nodes.xml").read_text(encoding="utf-8")
    assert host_info.capabilities(xml) == {
        "uuid": None,
        "arch": "aarch64",
        "domain_types": ["qemu"],
        "machines": [],
        "cpu_model": None,
        "cpu_vendor": None,
        "topology": {"sockets": 2, "cores": 16, "threads": 1},
        "numa": [],
        "iommu": None,
        "migration_transports": [],
    }


def test_the_test_drivers_own() -> None:
    libvirt = pytest.importorskip("libvirt")
    connection = libvirt.open("test:///default")
    try:
        facts = host_info.capabilities(connection.getCapabilities())
    finally:
        connection.close()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["domain_types"] == ["test"]
    assert facts["topology"] == {"sockets": 2, "cores": 8, "threads": 1}
    assert [(cell["id"], cell["cpus"], cell["memory_mib"]) for cell in facts["numa"]] == [
        (0, 8, 2048),
        (1, 8, 4096),
    ]
    assert facts["iommu"] is False


ODD: dict[str, tuple[str, str, t.Any]] = {
    "says nothing": ("", "domain_types", []),
    "no architecture": (
        "<guest><arch name='x86_64'><domain type='kvm'/></arch></guest>",
        "arch",
        None,
    ),
    "iommu": ("<host><iommu support='maybe'/></host>", "iommu", None),
    "absurd summary": (
        f"<host><cpu><topology sockets='-1' cores='{'9' * 400}' threads='x'/></cpu></host>",
        "topology",
        {"sockets": None, "cores": None, "threads": None},
    ),
    "absurd cell": (
        "<host><topology><cells><cell id='x'><memory unit='?'>1</memory>"
        "<pages size='y'>1</pages><pages size='4'>-1</pages></cell></cells></topology></host>",
        "numa",
        [{"id": None, "memory_mib": None, "cpus": 0, "free_mib": None, "hugepages": []}],
    ),
}


@pytest.mark.parametrize(("xml", "key", "expected"), ODD.values(), ids=ODD.keys())
def test_what_makes_no_sense_is_unknown(xml: str, key: str, expected: t.Any) -> None:
    assert host_info.capabilities(f"<capabilities>{xml}</capabilities>")[key] == expected


CPU = "<cpu id='{}' socket_id='0' die_id='{}' cluster_id='{}' core_id='{}'/>"
TOPOLOGIES = {
    "cores are numbered anew in each cluster": ([(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)], 4, 1),
    "cores are numbered anew in each die": ([(0, 0, 0), (1, 0, 0)], 2, 1),
    "some cores have two threads": ([(0, 0, 0), (0, 0, 0), (0, 0, 1)], 2, 2),
}


@pytest.mark.parametrize(("ids", "cores", "threads"), TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_topology(ids: list[tuple[int, int, int]], cores: int, threads: int) -> None:
    cpus = "".join(CPU.format(number, *place) for number, place in enumerate(ids))
    cells = f"<cells><cell id='0'><cpus>{cpus}</cpus></cell></cells>"
    xml = f"<capabilities><host><topology>{cells}</topology></host></capabilities>"
    assert host_info.capabilities(xml)["topology"] == {
        "sockets": 1,
        "cores": cores,
        "threads": threads,
    }


def test_another_document_is_refused() -> None:
    with pytest.raises(XmlError, match="capabilities of hv1: the document is a <domain>"):
        host_info.capabilities("<domain/>", "capabilities of hv1")


ENUM = "<enum name='firmware'>{}</enum><loader><enum name='type'><value>efi</value></enum></loader>"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (ENUM.format("<value>bios</value><value>efi</value>"), ["bios", "efi"]),
        (ENUM.format("<value>bios</value>"), ["bios"]),
        (ENUM.format(""), []),  # what libvirt says where no firmware is described
        ("", None),  # a driver that does not tell
    ],
)
def test_firmwares(system: str, expected: list[str] | None) -> None:
    xml = f"<domainCapabilities><os supported='yes'>{system}</os></domainCapabilities>"
    assert host_info.firmwares(xml) == expected


def _enum(name: str, *values: str) -> str:
    return f"<enum name='{name}'>{''.join(f'<value>{one}</value>' for one in values)}</enum>"


_MODELS = _enum("model", "tpm-tis", "tpm-crb")


@pytest.mark.parametrize(
    ("tpm", "expected"),
    [
        ("", None),
        (f"<tpm supported='yes'>{_MODELS}{_enum('backendModel', 'passthrough')}</tpm>", []),
        (
            f"<tpm supported='yes'>{_MODELS}{_enum('backendModel', 'passthrough', 'emulator')}"
            f"{_enum('backendVersion', '1.2', '2.0')}</tpm>",
            ["tpm-tis", "tpm-crb"],
        ),
        (
            f"<tpm supported='yes'>{_MODELS}{_enum('backendModel', 'emulator')}"
            f"{_enum('backendVersion', '1.2')}</tpm>",
            [],
        ),
        # libvirt 8.5 and before
        (
            f"<tpm supported='yes'>{_MODELS}{_enum('backendModel', 'emulator')}</tpm>",
            ["tpm-tis", "tpm-crb"],
        ),
    ],
)
def test_tpms(tpm: str, expected: list[str] | None) -> None:
    xml = f"<domainCapabilities><devices>{tpm}</devices></domainCapabilities>"
    assert host_info.tpms(xml) == expected


def test_firmwares_of_another_document() -> None:
    with pytest.raises(XmlError, match="expected <domainCapabilities>"):
        host_info.firmwares("<capabilities/>")
