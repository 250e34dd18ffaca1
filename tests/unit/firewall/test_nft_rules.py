# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a ruleset of nftables does with a new connection to libvirt."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall.nft_rules import (
    Packet,
    Ruleset,
    legacy_drops,
    parse,
)

Rule = list[dict[str, t.Any]]
ACCEPT: dict[str, t.Any] = {"accept": None}
DROP: dict[str, t.Any] = {"drop": None}


def match(left: dict[str, t.Any], right: t.Any, op: str = "==") -> dict[str, t.Any]:
    return {"match": {"op": op, "left": left, "right": right}}


def payload(protocol: str, field: str) -> dict[str, t.Any]:
    return {"payload": {"protocol": protocol, "field": field}}


DPORT = payload("tcp", "dport")
SADDR = payload("ip", "saddr")
STATE = {"ct": {"key": "state"}}
L4 = {"meta": {"key": "l4proto"}}
IIFNAME = {"meta": {"key": "iifname"}}


def ruleset(chains: dict[str, list[Rule]], policy: str = "accept") -> Ruleset:
    """Table ``inet filter``; the chain ``input`` is hooked."""
    items: list[dict[str, t.Any]] = [{"metainfo": {"version": "1.0.6"}}]
    place = {"family": "inet", "table": "filter"}
    for name in chains:
        head = {**place, "name": name}
        if name == "input":
            head.update(type="filter", hook="input", prio=0, policy=policy)
        items.append({"chain": head})
    items += [
        {"rule": {**place, "chain": name, "handle": number, "expr": expr}}
        for name, rules in chains.items()
        for number, expr in enumerate(rules, 2)
    ]
    return parse({"nftables": items})


def jump(target: str, word: str = "jump") -> dict[str, t.Any]:
    return {word: {"target": target}}


ESTABLISHED = [match(STATE, ["established", "related"], "in"), ACCEPT]
SSH = [match(DPORT, 22), ACCEPT]
SOME = match(SADDR, {"prefix": {"addr": "198.51.100.0", "len": 24}})

# rules of input, its policy, rules of the chain other, verdict for port 16514
TABLE: dict[str, tuple[list[Rule], str, list[Rule], str]] = {
    "nothing there": ([], "accept", [], "accept"),
    "policy": ([ESTABLISHED, SSH], "drop", [], "drop"),
    "last rule rejects": ([ESTABLISHED, SSH, [{"reject": None}]], "accept", [], "drop"),
    "counted and logged": ([[{"counter": None}, {"log": None}, DROP]], "accept", [], "drop"),
    "opened by the site": ([[match(DPORT, 16514), ACCEPT]], "drop", [], "accept"),
    "opened in a set": (
        [[match(DPORT, {"set": [22, {"range": [16000, 17000]}]}), ACCEPT]],
        "drop",
        [],
        "accept",
    ),
    "opened to some only": ([[SOME, match(DPORT, 16514), ACCEPT]], "drop", [], "drop"),
    "some are banned": ([[SOME, DROP]], "accept", [], "accept"),
    "all but ssh dropped": ([[match(DPORT, 22, "!="), DROP]], "accept", [], "drop"),
    "invalid dropped": ([[match(STATE, "invalid", "in"), DROP]], "accept", [], "accept"),
    "new dropped": ([[match(STATE, ["new"], "in"), DROP]], "accept", [], "drop"),
    "loopback accepted": ([[match(IIFNAME, "lo"), ACCEPT]], "drop", [], "drop"),
    "not loopback dropped": ([[match(IIFNAME, "lo", "!="), DROP]], "accept", [], "drop"),
    "one interface accepted": ([[match(IIFNAME, "eth0"), ACCEPT]], "drop", [], "drop"),
    "tcp accepted": ([[match(L4, "tcp"), ACCEPT]], "drop", [], "accept"),
    "tcp by number": ([[match(L4, 6), ACCEPT]], "drop", [], "accept"),
    "udp accepted": ([[match(L4, "udp"), ACCEPT]], "drop", [], "drop"),
    "udp port accepted": ([[match(payload("udp", "dport"), 53), ACCEPT]], "drop", [], "drop"),
    "set by name": ([[match(DPORT, "@open"), ACCEPT]], "drop", [], "drop"),
    "rate limited": ([[{"limit": {"rate": 1}}, ACCEPT]], "drop", [], "drop"),
    "extension of iptables": ([[{"xt": {"type": "match"}}, ACCEPT]], "drop", [], "drop"),
    "flags": (
        [[match({"&": [payload("tcp", "flags"), "syn"]}, "syn", "!="), DROP]],
        "accept",
        [],
        "accept",
    ),
    "jump that drops": ([[jump("other")]], "accept", [[DROP]], "drop"),
    "jump that comes back": ([[jump("other")]], "drop", [[{"return": None}], [ACCEPT]], "drop"),
    "jump that accepts": ([[jump("other")]], "drop", [[ACCEPT]], "accept"),
    "some jump, and are dropped": (
        [[match(IIFNAME, "eth0"), jump("other")]],
        "accept",
        [[DROP]],
        "drop",
    ),
    "some jump, and are accepted": (
        [[match(IIFNAME, "eth0"), jump("other")]],
        "drop",
        [[ACCEPT]],
        "drop",
    ),
    "goto ends with the policy": ([[jump("other", "goto")], [ACCEPT]], "drop", [], "drop"),
    "state map": (
        [[{"vmap": {"key": STATE, "data": {"set": [["invalid", DROP], ["new", jump("other")]]}}}]],
        "accept",
        [[DROP]],
        "drop",
    ),
    "port map": (
        [[{"vmap": {"key": DPORT, "data": {"set": [[22, ACCEPT], [16514, ACCEPT]]}}}]],
        "drop",
        [],
        "accept",
    ),
    "map by name": ([[{"vmap": {"key": DPORT, "data": "@ports"}}]], "drop", [], "drop"),
    "circle": ([[jump("other")]], "drop", [[jump("other")]], "drop"),
}


@pytest.mark.parametrize("case", TABLE)
def test_verdict(case: str) -> None:
    rules, policy, other, expected = TABLE[case]
    found = ruleset({"input": rules, "other": other}, policy)
    (chain,) = found.base("input")
    assert found.verdict(chain, Packet(16514)) == expected


def test_rules_that_are_ours_do_not_count() -> None:
    found = ruleset({"input": [[ACCEPT]]}, "drop")
    (chain,) = found.base("input")
    assert found.verdict(chain, Packet(16514)) == "accept"
    assert found.verdict(chain, Packet(16514), lambda rule: rule["handle"] == 2) == "drop"


def test_only_chains_that_filter_ip_count() -> None:
    items = [
        {"chain": {"family": family, "table": "x", "name": "in", "type": kind, "hook": "input"}}
        for family, kind in (("bridge", "filter"), ("inet", "nat"), ("ip", "filter"))
    ]
    found = parse({"nftables": items})
    assert [str(chain) for chain in found.base("input")] == ["ip x in"]
    assert found.base("forward") == []


def test_mentions() -> None:
    found = ruleset({"input": [[match(IIFNAME, "br0"), ACCEPT]]})
    assert found.mentions(("inet", "filter"), {"br0"})
    assert not found.mentions(("inet", "filter"), {"br1"})
    assert not found.mentions(("ip", "filter"), {"br0"})


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("-P FORWARD ACCEPT", False),
        ("-P FORWARD DROP\n-A FORWARD -j DOCKER", True),
        ("-P FORWARD DROP\n-A FORWARD -i br0 -j ACCEPT", False),
        ("-P FORWARD DROP\n-A FORWARD -m physdev --physdev-is-bridged -j ACCEPT", False),
    ],
)
def test_the_legacy_chain(listed: str, expected: bool) -> None:
    assert legacy_drops(listed, {"br0", "physdev"}) is expected
