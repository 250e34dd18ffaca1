# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of VMs, host names, and what is made of them."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import (
    check_host_name,
    check_vm_name,
    mac_address,
    seed_volume_name,
    volume_name,
)

GOOD = ["centos1", "a", "Web-1", "db1.example.org", "1a", "a" * 63, f"{'a' * 31}.{'b' * 31}"]
# value, part of the message that names the rule
BAD: list[tuple[t.Any, str]] = [
    ("", "is not a name"),
    (None, "is not a name"),
    (True, "is not a name"),
    (["a"], "is not a name"),
    (7, "no letter"),
    ("10.0.0.1", "no letter"),
    ("a/b", "('/')"),
    ("../etc/passwd", "('/')"),
    ("..", "empty part"),
    ("a..b", "empty part"),
    (".", "starts with '.'"),
    ("a.", "empty part"),
    (".hidden", "starts with '.'"),
    ("a b", "(' ')"),
    (" a", "(' ')"),
    ("a\t", "('\\t')"),
    ("a\n", "('\\n')"),
    ("a\x00b", "('\\x00')"),
    ("a\x7f", "('\\x7f')"),
    ("-rf", "starts with '-'"),
    ("--help", "starts with '-'"),
    ("a<b>&c\"'", "characters that are not allowed"),
    ("müller", "('ü')"),
    ("a\udcffb", "characters that are not allowed"),
    ("a" * 64, "64 characters"),
    ("a" * 300, "300 characters"),
    ("a-", "starts or ends with '-'"),
    ("a-.b", "starts or ends with '-'"),
    ("web_1", "or set seed.hostname"),
    ("all", "reserved by Ansible"),
    ("LocalHost", "reserved by Ansible"),
    ("web1.migration", "reserved for the claim of a VM"),
    ("fleet-virt-proof-web1", "reserved for what proves backups"),
    ("Web1.Migration", "reserved for the claim of a VM"),
    ("${IFS}", "characters that are not allowed"),
    ("{{ x }}", "characters that are not allowed"),
    ("%s", "('%')"),
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_name_has_no_problem(name: str) -> None:
    assert check_vm_name(name, "vm_name") == []
    assert check_host_name(name, "seed.hostname") == []


@pytest.mark.parametrize(("value", "rule"), BAD, ids=lambda value: repr(value)[:30])
def test_a_bad_name_is_refused_with_value_rule_and_remedy(value: t.Any, rule: str) -> None:
    problems = check_vm_name(value, "vms[2].name")
    assert {problem.path for problem in problems} == {"vms[2].name"}
    assert any(rule in problem.message for problem in problems), problems
    for problem in problems:
        assert re.search("rename|shorten|choose|add a letter|write", problem.message)
        assert problem.message.isprintable()
        assert len(problem.message) < 400
        problem.message.encode("utf-8")


@pytest.mark.parametrize("name", ["web_1", "a" * 128, "a-"])
def test_a_name_that_is_no_host_name_may_be_libvirts(name: str) -> None:
    assert check_vm_name(name, "", host_name=False) == []


@pytest.mark.parametrize("name", ["a" * 129, "a/b", "..", "-a", "_a", ".a", "a b", "ä", "12", "a<"])
def test_libvirts_and_file_names_rules_hold_without_a_host_name(name: str) -> None:
    assert check_vm_name(name, "", host_name=False)


def test_every_finding_about_a_name_is_reported_at_once() -> None:
    messages = [problem.message for problem in check_vm_name("-" + "ä/" * 100, "")]
    assert len(messages) == 3  # characters, length, first character


def test_volume_names_end_in_their_format() -> None:
    assert volume_name("web1", "system", "qcow2") == "web1_system.qcow2"
    assert volume_name("web1", "data", "raw") == "web1_data.raw"
    assert seed_volume_name("web1") == "web1_seed.iso"


def test_mac_addresses_are_unicast_local_stable_and_distinct() -> None:
    names = [(fleet, f"vm{n}", nic) for fleet in ("a", "b") for n in range(2000)
             for nic in ("eth0", "eth1")]  # fmt: skip
    addresses = [mac_address(*name) for name in names]
    assert addresses == [mac_address(*name) for name in names]
    assert len(set(addresses)) == len(addresses)
    for address in addresses:
        first = int(address[:2], 16)
        assert re.fullmatch("[0-9a-f]{2}(:[0-9a-f]{2}){5}", address)
        assert (first & 1, first & 2, first == 0xFE) == (0, 2, False)
    # the names do not run into each other
    assert mac_address("a", "bc", "d") != mac_address("ab", "c", "d")
    # a change of the rule would give existing VMs new addresses
    assert mac_address("lab", "centos1", "eth0") == "52:45:ae:f2:f8:25"
