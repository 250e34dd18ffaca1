# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of each firewall, and telling ours from the site's."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall import nft_rules
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall import plan as firewall
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall.plan import Ports

PORTS = (Ports(16514, 16514), Ports(49152, 49215))


def networks(*values: str) -> tuple[firewall.Network, ...]:
    found = [firewall.parse_network(value) for value in values]
    return firewall.tidy(one for one in found if one is not None)


MIXED = networks("198.51.100.7", "2001:db8::1", "198.51.100.128/25", "198.51.100.129")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["16514", "49152-49215"], PORTS),
        (["49152:49215", " 16514 ", "16514"], PORTS),
        (["x"], "'x' is not a port"),
        (["0"], "'0' is not a port"),
        (["9-5"], "'9-5' is not a port"),
        (["65536"], "'65536' is not a port"),
    ],
)
def test_ports(values: list[str], expected: tuple[Ports, ...] | str) -> None:
    if isinstance(expected, str):
        with pytest.raises(SpecError, match=expected):
            firewall.parse_ports(values)
    else:
        assert firewall.parse_ports(values) == expected


def test_every_wrong_port_is_named() -> None:
    with pytest.raises(SpecError) as error:
        firewall.parse_ports(["x", "16514", "70000"])
    assert [problem.path for problem in error.value.problems] == ["ports[0]", "ports[2]"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("198.51.100.7/24", "198.51.100.0/24"),
        ("2001:db8::/64", "2001:db8::/64"),
        ("hv1.example.com", None),
        ("", None),
    ],
)
def test_network(value: str, expected: str | None) -> None:
    found = firewall.parse_network(value)
    assert (firewall.short(found) if found else None) == expected


@pytest.mark.parametrize("value", ["0.0.0.0/0", "::/0"])
def test_everybody_is_refused(value: str) -> None:
    with pytest.raises(PlanRefused, match="matches every address"):
        firewall.parse_network(value)


def test_what_another_contains_is_left_out() -> None:
    assert [firewall.short(one) for one in MIXED] == [
        "198.51.100.7",
        "198.51.100.128/25",
        "2001:db8::1",
    ]


def test_ufw_lines_come_back_as_they_were_written() -> None:
    lines = firewall.ufw_lines(MIXED, PORTS)
    assert lines[0] == (
        "ufw allow from 198.51.100.7 to any port 16514,49152:49215 proto tcp comment 'fleet.virt'"
    )
    site = [
        "ufw allow 22/tcp",
        "ufw allow from 198.51.100.7 to any port 16514 proto tcp",
        "ufw allow from 198.51.100.7 to any port 16514 proto tcp comment 'fleet.virtual'",
    ]
    shown = "\n".join(["Added user rules (see 'ufw status' for running firewall):", *site, *lines])
    assert firewall.ufw_own(shown) == lines


def test_ufw_words() -> None:
    (line,) = firewall.ufw_lines(networks("198.51.100.7"), PORTS)
    rule = [
        "allow",
        "from",
        "198.51.100.7",
        "to",
        "any",
        "port",
        "16514,49152:49215",
        "proto",
        "tcp",
    ]
    assert firewall.ufw_words(line, "prepend") == ["prepend", *rule, "comment", "fleet.virt"]
    assert firewall.ufw_words(line, "delete") == ["delete", *rule]
    with pytest.raises(ValueError, match="ufw allow 22"):
        firewall.ufw_words("ufw allow 22", "delete")


def test_rich_rules_are_known_by_their_priority() -> None:
    rules = firewall.rich_rules(networks("198.51.100.7", "2001:db8::/64"), PORTS)
    assert rules[0] == (
        'rule priority="-16514" family="ipv4" source address="198.51.100.7"'
        ' port port="16514" protocol="tcp" accept'
    )
    assert 'family="ipv6" source address="2001:db8::/64" port port="49152-49215"' in rules[3]
    site = (
        'rule family="ipv4" source address="198.51.100.7" port port="16514" protocol="tcp" accept'
    )
    listed = "\n".join(["public (active)", "  target: default", f"\t{site}"])
    shown = listed + "".join(f"\n\t{rule}" for rule in rules)
    assert firewall.own_rich_rules(shown) == rules


@pytest.mark.parametrize(
    ("active", "expected"),
    [
        ("", ["public"]),
        ("internal\n  interfaces: br0 eth0\n", ["internal", "public"]),
        ("libvirt\n  interfaces: virbr0\npublic (default)\n  sources: 192.0.2.1\n", ["public"]),
    ],
)
def test_zones(active: str, expected: list[str]) -> None:
    assert firewall.zones("public", active) == expected


def test_change() -> None:
    change = firewall.RulesChange(("a", "b"), ("b", "c"))
    assert (change.add, change.remove, change.changed) == (["c"], ["a"], True)
    assert not firewall.RulesChange(("a",), ("a",)).changed


# nftables


def ruleset(family: str = "inet", policy: str = "drop", **more: t.Any) -> nft_rules.Ruleset:
    head = {"family": family, "table": "filter", "name": "input", "handle": 1}
    place = {"family": family, "table": "filter"}
    items = [{"chain": {**head, "type": "filter", "hook": "input", "policy": policy, **more}}]
    items.append({"chain": {**place, "name": "fleet_virt"}})
    jump = {"jump": {"target": "fleet_virt"}}
    for chain, comment, expr in (
        ("input", "fleet.virt", [jump]),
        ("fleet_virt", None, [{"accept": None}]),
    ):
        rule = {**place, "chain": chain, "handle": 9, "comment": comment, "expr": expr}
        items.append({"rule": rule})
    return nft_rules.parse({"nftables": items})


def test_a_chain_we_opened_is_still_one_that_drops() -> None:
    (chain,) = firewall.shut_chains(ruleset(), PORTS)
    assert str(chain) == "inet filter input"
    assert firewall.jump_handles(chain) == [9]
    assert firewall.opened_chains(ruleset()) == [chain]
    assert firewall.shut_chains(ruleset(policy="accept"), PORTS) == []


@pytest.mark.parametrize(("family", "word"), [("ip", "iptables"), ("ip6", "ip6tables")])
def test_iptables_is_told_from_nftables(family: str, word: str) -> None:
    chains = firewall.shut_chains(ruleset(family, name="INPUT"), PORTS)
    with pytest.raises(PlanRefused, match=rf"INPUT of {word} drops.*16514,49152:49215"):
        firewall.refuse_iptables(chains, PORTS)
    firewall.refuse_iptables(firewall.shut_chains(ruleset(family), PORTS), PORTS)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("inet", ["ip saddr { 198.51.100.7, 198.51.100.128/25 }", "ip6 saddr { 2001:db8::1 }"]),
        ("ip", ["ip saddr { 198.51.100.7, 198.51.100.128/25 }"]),
        ("ip6", ["ip6 saddr { 2001:db8::1 }"]),
    ],
)
def test_each_table_gets_the_rules_of_its_family(family: str, expected: list[str]) -> None:
    (chain,) = firewall.shut_chains(ruleset(family), PORTS)
    ends = " tcp dport { 16514, 49152-49215 } accept"
    assert firewall.nft_rules_of(chain, MIXED, PORTS) == [rule + ends for rule in expected]


def test_the_commands_open_and_close() -> None:
    (chain,) = firewall.shut_chains(ruleset(), PORTS)
    commands = firewall.nft_open(chain, networks("198.51.100.7"), PORTS, jump=True)
    assert commands == [
        "add table inet filter",
        "add chain inet filter input",
        "add chain inet filter fleet_virt",
        "flush chain inet filter fleet_virt",
        "add rule inet filter fleet_virt"
        " ip saddr { 198.51.100.7 } tcp dport { 16514, 49152-49215 } accept",
        'insert rule inet filter input jump fleet_virt comment "fleet.virt"',
    ]
    assert firewall.nft_open(chain, networks("198.51.100.7"), PORTS, jump=False) == commands[:-1]
    assert firewall.nft_close([chain], [chain]) == []
    assert firewall.nft_close([chain], []) == [
        "delete rule inet filter input handle 9",
        "flush chain inet filter fleet_virt",
        "delete chain inet filter fleet_virt",
    ]
    lines = firewall.nft_lines([chain], networks("198.51.100.7"), PORTS)
    assert [line for line in lines if line and not line.startswith("#")] == commands
    assert firewall.nft_lines([], MIXED, PORTS) == []


def _rule(saddr: t.Any, dport: t.Any) -> dict[str, t.Any]:
    def match(protocol: str, field: str, right: t.Any) -> dict[str, t.Any]:
        left = {"payload": {"protocol": protocol, "field": field}}
        return {"match": {"op": "==", "left": left, "right": right}}

    return {"expr": [match("ip", "saddr", saddr), match("tcp", "dport", dport), {"accept": None}]}


@pytest.mark.parametrize(
    ("saddr", "dport", "expected"),
    [
        (
            "198.51.100.7",
            16514,
            "ip saddr { 198.51.100.7 } tcp dport { 16514 } accept",
        ),
        (
            {"set": [{"prefix": {"addr": "198.51.100.128", "len": 25}}, "198.51.100.7"]},
            {"set": [{"range": [49152, 49215]}, 16514]},
            "ip saddr { 198.51.100.7, 198.51.100.128/25 } tcp dport { 16514, 49152-49215 } accept",
        ),
        (
            {"set": [{"range": ["198.51.100.2", "198.51.100.4"]}]},
            {"range": [49152, 49215]},
            "ip saddr { 198.51.100.2/31, 198.51.100.4 } tcp dport { 49152-49215 } accept",
        ),
    ],
)
def test_a_rule_is_known_however_nft_lists_it(saddr: t.Any, dport: t.Any, expected: str) -> None:
    assert firewall.nft_listed(_rule(saddr, dport)) == expected


LINE = 'include "/etc/x.nft"\n'


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("flush ruleset\n", True, f"flush ruleset\n{LINE}"),
        ("flush ruleset", True, f"flush ruleset\n{LINE}"),
        ("", True, LINE),
        (f"a\n{LINE}b\n", True, f"a\n{LINE}b\n"),
        (f"a\n{LINE}", False, "a\n"),
        ("a\r\nb", False, "a\r\nb"),
    ],
)
def test_only_our_line_of_the_sites_file(before: str, wanted: bool, after: str) -> None:
    assert firewall.with_include(before, "/etc/x.nft", wanted=wanted) == after
