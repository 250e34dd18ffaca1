# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change touches what differs, and leaves what stands beside it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    unsupported as undescribed,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import definition
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    effects_creation_definition as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import difference
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid, assert_xml_equal

_DOMAIN = (
    "<domain type='kvm'><name>v</name><memory unit='KiB'>1048570</memory><vcpu>4</vcpu>"
    "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>{top}"
    "<devices>{devices}</devices></domain>"
)


def _changed(top: str = "", devices: str = "", **options: t.Any) -> str:
    text = _DOMAIN.format(top=top, devices=devices)
    plain = {"name": "v", "disk_profile": "none", "nic_profile": "none", **options}
    domain, problems = from_options(plain)
    assert domain is not None, problems
    stored = Metadata(adopted="yes")
    found = difference.differences(domain, difference.Existing(text, stored, False, {}))
    assert found
    made = _lxml.tostring(undescribed.rendered(domain, _lxml.parse(text, "v")))
    after = definition.changed(text, definition.DefinitionRequest(domain, made), found, stored)
    assert_valid(after, "domain")
    return after


@pytest.mark.parametrize(
    ("before", "after", "options"),
    [
        (
            "<clock offset='utc'><timer name='rtc' tickpolicy='catchup' track='wall'>"
            "<catchup slew='1'/></timer>"
            "<timer name='hpet' present='no'/></clock>",
            "<clock offset='utc'><timer name='rtc' tickpolicy='delay' track='wall'/>"
            "<timer name='hpet' present='no'/></clock>",
            {"clock": {"rtc": "delay"}},
        ),
        (
            "<cpu mode='custom' match='exact' check='partial'><model fallback='allow'>EPYC</model>"
            "<feature policy='force' name='svm'/><feature policy='require' name='pcid'/></cpu>",
            "<cpu mode='custom' match='exact' check='partial'><model fallback='allow'>EPYC</model>"
            "<feature policy='force' name='svm'/><feature policy='require' name='vmx'/></cpu>",
            {"cpu": {"model": "EPYC", "require": ["vmx"]}},
        ),
        (
            "<cpu mode='custom' match='exact' check='partial'><model fallback='allow'>EPYC</model>"
            "<feature policy='force' name='svm'/></cpu>",
            "<cpu mode='host-model'><feature policy='force' name='svm'/></cpu>",
            {"cpu": "host-model"},
        ),
    ],
)
def test_what_stands_beside_it_stays(before: str, after: str, options: dict[str, t.Any]) -> None:
    assert_xml_equal(_changed(before, **options), _DOMAIN.format(top=after, devices=""))


def test_memory_that_is_no_whole_mib_is_written_only_if_it_is_to_be_another() -> None:
    after = _lxml.parse(_changed(memory=1024, memory_max=2048), "v")
    assert after.findtext("memory") == str(2048 * 1024)
    assert after.findtext("currentMemory") == str(1024 * 1024)
    after = _lxml.parse(_changed("<currentMemory>524285</currentMemory>", memory_max=2048), "v")
    assert after.findtext("currentMemory") == "524285"


def test_addresses_of_the_seed_are_those_of_its_nics() -> None:
    """By the name of a NIC or its MAC address, as libvirt's definition has it."""
    other = "52:54:00:AA:00:02"
    seed = {
        "ssh_public_keys": [
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIISFKZORN6s68Y7QSAYATVaW7/MW11nJOj4UAWkhXyaT"
        ],
        "network": [
            {"name": "eth0", "addresses": ["192.0.2.10/24", "2001:db8::a/64"]},
            {"mac": other, "addresses": ["192.0.2.11/24"]},
        ],
    }
    nics = [{"name": "eth0", "bridge": "br0"}, {"name": "eth1", "bridge": "br0", "mac": other}]
    plain = {"name": "v", "disk_profile": "none", "nic_profile": "none", "nics": nics, "seed": seed}
    domain, problems = from_options(plain)
    assert domain is not None, problems
    assert creation._addresses(domain) == {
        domain.nics[0].mac.lower(): ("192.0.2.10/24", "2001:db8::a/64"),
        other.lower(): ("192.0.2.11/24",),
    }
