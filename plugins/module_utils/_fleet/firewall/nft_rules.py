# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a ruleset of nftables (``nft -j list ruleset``) does with one kind of packet.

A verdict of another table cannot undo a drop, so opening a port requires knowing the chains that
drop its packets. A rule matches certainly, certainly not, or depending on what is not known here
(addresses, interfaces, sets, marks). An uncertain match decides nothing, except for a jump into a
chain that drops: opening a chain unnecessarily does no harm.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base.json_values import as_list, as_mapping, as_mappings, as_text

Rule = t.Mapping[str, object]
Key = tuple[str, str]  # family and table

_TERMINAL = {"accept": "accept", "drop": "drop", "reject": "drop"}
_HARMLESS = ("counter", "log", "notrack", "mangle", "meta", "ct helper")
_DEPTH = 16  # the kernel's own limit of jumps


@dataclass(frozen=True)
class Packet:
    """The first packet of a TCP connection; ``port`` is None if unknown."""

    port: int | None = None
    state: str = "new"


@dataclass(frozen=True)
class Chain:
    """A chain with its rules in order; ``hook`` and ``policy`` of a base chain."""

    family: str
    table: str
    name: str
    hook: str | None = None
    kind: str | None = None
    policy: str = "accept"
    rules: tuple[Rule, ...] = ()

    @property
    def key(self) -> Key:
        return self.family, self.table

    def __str__(self) -> str:
        return f"{self.family} {self.table} {self.name}"


@dataclass
class Ruleset:
    """Chains by family, table and name."""

    chains: dict[tuple[str, str, str], Chain] = field(default_factory=dict)

    def base(self, hook: str) -> list[Chain]:
        """The filtering base chains of a hook that see packets of IP."""
        return [
            chain
            for chain in self.chains.values()
            if chain.hook == hook
            and chain.kind == "filter"
            and chain.family in ("inet", "ip", "ip6")
        ]

    def verdict(
        self, chain: Chain, packet: Packet, ours: t.Callable[[Rule], bool] = lambda _rule: False
    ) -> str:
        """``accept`` or ``drop``: what base chain ``chain`` does, ignoring ``ours`` rules."""
        return self._walk(chain, packet, ours, 0) or chain.policy

    def _walk(
        self, chain: Chain, packet: Packet, ours: t.Callable[[Rule], bool], depth: int
    ) -> str | None:
        if depth > _DEPTH:
            return None
        for rule in chain.rules:
            if ours(rule):
                continue
            certain, ending = _apply(as_list(rule.get("expr")), packet)
            if certain is False or ending is None:
                continue
            word, target = ending
            if word in _TERMINAL:
                if certain:
                    return _TERMINAL[word]
                continue
            if word == "return":
                if certain:
                    return None
                continue
            inner = self.chains.get((chain.family, chain.table, target))
            verdict = self._walk(inner, packet, ours, depth + 1) if inner else None
            if verdict == "drop" or (verdict and certain):
                return verdict
            if word == "goto" and certain:
                return verdict
        return None

    def mentions(self, key: Key, words: t.Collection[str]) -> bool:
        """Whether any rule of a table names one of ``words`` (an interface, a match)."""
        return any(
            _mentions(rule, words)
            for chain in self.chains.values()
            if chain.key == key
            for rule in chain.rules
        )


def parse(document: Rule) -> Ruleset:
    """The ruleset that ``nft -j list ruleset`` printed."""
    heads: dict[tuple[str, str, str], Rule] = {}
    rules: dict[tuple[str, str, str], list[Rule]] = {}
    for item in as_mappings(document.get("nftables")):
        if "chain" in item:
            chain = as_mapping(item["chain"])
            heads[_place(chain, "name")] = chain
        elif "rule" in item:
            rule = as_mapping(item["rule"])
            rules.setdefault(_place(rule, "chain"), []).append(rule)
    return Ruleset(
        {
            place: Chain(
                *place,
                hook=as_text(head.get("hook")),
                kind=as_text(head.get("type")),
                policy=str(head.get("policy", "accept")),
                rules=tuple(rules.get(place, ())),
            )
            for place, head in heads.items()
        }
    )


def _place(entry: Rule, name: str) -> tuple[str, str, str]:
    return str(entry["family"]), str(entry["table"]), str(entry[name])


def _apply(
    expressions: t.Sequence[object], packet: Packet
) -> tuple[bool | None, tuple[str, str] | None]:
    """Whether the rule matches (None: it depends), and what it then does."""
    certain: bool | None = True
    for expression in expressions:
        if not isinstance(expression, dict):
            certain = None
            continue
        ((word, value),) = list(expression.items())[:1] or [("", None)]
        if word in _TERMINAL or word == "return":
            return certain, (word, "")
        if word in ("jump", "goto"):
            return certain, (word, str(value["target"]))
        if word == "vmap":
            ending = _mapped(value, packet)
            return certain, ending
        if word == "match":
            matched = _match(value, packet)
            if matched is False:
                return False, None
            if matched is None:
                certain = None
        elif word not in _HARMLESS:
            certain = None
    return certain, None


def _mapped(vmap: Rule, packet: Packet) -> tuple[str, str] | None:
    data = vmap.get("data")
    known = _known(vmap.get("key"), packet)
    if known is None or not isinstance(data, dict):
        return None
    for key, action in data.get("set", ()):
        if _among(known, key) and isinstance(action, dict):
            ((word, value),) = action.items()
            return word, str(value["target"]) if word in ("jump", "goto") else ""
    return None


def _known(left: object, packet: Packet) -> str | int | None:
    """The packet's value of an expression; None if unknown."""
    if not isinstance(left, dict):
        return None
    payload, meta, ct = left.get("payload"), left.get("meta"), left.get("ct")
    if isinstance(payload, dict):
        place = payload.get("protocol"), payload.get("field")
        if place in (("tcp", "dport"), ("th", "dport")):
            return packet.port
        if place[0] in ("udp", "icmp", "icmpv6", "igmp", "sctp", "dccp"):
            return "no such packet"
        if place in (("ip", "protocol"), ("ip6", "nexthdr")):
            return "tcp"
    if isinstance(meta, dict) and meta.get("key") == "l4proto":
        return "tcp"
    if isinstance(ct, dict) and ct.get("key") == "state":
        return packet.state
    return None


def _match(match: Rule, packet: Packet) -> bool | None:
    left, right, op = match.get("left"), match.get("right"), match.get("op", "==")
    if _loopback(left, right):
        return bool(op == "!=")
    known = _known(left, packet)
    if known is None or op not in ("==", "!=", "in"):
        return None
    if known == "no such packet":
        return False
    contained = _among(known, right)
    if contained is None:
        return None
    return bool(contained != (op == "!="))


def _loopback(left: object, right: object) -> bool:
    meta = left.get("meta") if isinstance(left, dict) else None
    return isinstance(meta, dict) and meta.get("key") in ("iifname", "iif") and right == "lo"


def _among(value: str | int, right: object) -> bool | None:
    """Whether ``value`` is ``right`` or in it; None for a named set or if unknown."""
    if isinstance(right, dict):
        if "range" in right:
            low, high = right["range"]
            return isinstance(value, int) and bool(low <= value <= high)
        right = right.get("set")
    if isinstance(right, list):
        matches = [_among(value, member) for member in right]
        return True if True in matches else None if None in matches else False
    if isinstance(right, str) and right.startswith("@"):
        return None
    if right is None:
        return None
    if isinstance(value, int) and not isinstance(right, int):
        return None
    return value in (right, {6: "tcp"}.get(right) if isinstance(right, int) else None)


def _mentions(value: object, words: t.Collection[str]) -> bool:
    if isinstance(value, dict):
        return any(_mentions(one, words) for pair in value.items() for one in pair)
    if isinstance(value, (list, tuple)):
        return any(_mentions(one, words) for one in value)
    return isinstance(value, str) and value in words


def legacy_drops(listed: str, words: t.Collection[str]) -> bool:
    """Whether the chain that ``iptables -S`` listed drops by policy and names none of ``words``."""
    lines = [line.split() for line in listed.splitlines()]
    drops = any(line[:1] == ["-P"] and line[-1] == "DROP" for line in lines)
    return drops and not any(word in line for line in lines for word in words)
