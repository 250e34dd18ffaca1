# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that let peers reach libvirt, in the syntax of each firewall, and their changes.

Every rule carries a mark, by which a later run distinguishes its own rules from the site's.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..._errors import PlanRefused, Problem, SpecError
from ..._records import dataclass
from ..base import ip
from ..base.json_values import as_mapping, as_mappings
from . import nft_rules

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

MARK = "fleet.virt"
CHAIN = "fleet_virt"
# Rich rules have no comment: this otherwise unused number is the mark
PRIORITY = -16514
_UFW = re.compile(
    r"ufw allow from (?P<source>\S+) to any port (?P<ports>\S+) proto tcp"
    rf" comment '{re.escape(MARK)}'"
)
_PORTS = re.compile(r"(\d+)(?:[-:](\d+))?")


@dataclass(frozen=True)
class Ports:
    """A range of TCP ports; ``first`` and ``last`` are the same for one."""

    first: int
    last: int

    def written(self, between: str = "-") -> str:
        return str(self.first) if self.first == self.last else f"{self.first}{between}{self.last}"


@dataclass(frozen=True)
class RulesChange:
    """Our rules as they are (``before``) and as they should be (``after``): lines, in order."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def add(self) -> list[str]:
        return [line for line in self.after if line not in self.before]

    @property
    def remove(self) -> list[str]:
        return [line for line in self.before if line not in self.after]

    @property
    def changed(self) -> bool:
        return self.before != self.after


def parse_ports(values: t.Sequence[str]) -> tuple[Ports, ...]:
    """Ports and ranges as people write them; raises SpecError with every problem."""
    ranges, problems = [], []
    for index, value in enumerate(values):
        match = _PORTS.fullmatch(str(value).strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= 65535:
            problems.append(
                Problem(f"ports[{index}]", f"{value!r} is not a port; write 16514 or 49152-49215")
            )
        ranges.append(Ports(first, last))
    if problems:
        raise SpecError(problems)
    return tuple(sorted(set(ranges), key=lambda ports: (ports.first, ports.last)))


def parse_network(value: str) -> Network | None:
    """The network or address ``value``; None if it is neither, so perhaps a name.

    Host bits are cut off (192.0.2.7/24 is 192.0.2.0/24). Everything (0.0.0.0/0) is refused.
    """
    try:
        network = ip.network(value.strip(), strict=False)
    except ValueError:
        return None
    if network.prefixlen == 0:
        raise PlanRefused(
            f"networks: {value!r} matches every address; give the addresses or networks of the"
            " hypervisors"
        )
    return network


def tidy(networks: t.Iterable[Network]) -> tuple[Network, ...]:
    """The networks in order, IPv4 before IPv6, without those contained in another."""
    known = list(networks)
    four = [one for one in known if isinstance(one, ipaddress.IPv4Network)]
    six = [one for one in known if isinstance(one, ipaddress.IPv6Network)]
    return (*ipaddress.collapse_addresses(four), *ipaddress.collapse_addresses(six))


def short(network: Network) -> str:
    """An address without its prefix, a network with it."""
    if network.prefixlen == network.max_prefixlen:
        return str(network.network_address)
    return str(network)


# nftables


def is_ours(rule: nft_rules.Rule) -> bool:
    """Whether a rule of nftables is the jump into our chain."""
    return rule.get("comment") == MARK or rule.get("chain") == CHAIN


def shut_chains(ruleset: nft_rules.Ruleset, ports: t.Sequence[Ports]) -> list[nft_rules.Chain]:
    """The input chains that drop a new connection to one of ``ports``, our rules aside."""
    packets = [nft_rules.Packet(port) for one in ports for port in (one.first, one.last)]
    return [
        chain
        for chain in ruleset.base("input")
        if any(ruleset.verdict(chain, packet, is_ours) == "drop" for packet in packets)
    ]


def opened_chains(ruleset: nft_rules.Ruleset) -> list[nft_rules.Chain]:
    """The input chains that contain our jump."""
    return [chain for chain in ruleset.base("input") if any(is_ours(one) for one in chain.rules)]


def jump_handles(chain: nft_rules.Chain) -> list[int]:
    """Handles of our jumps in a chain."""
    return [int(str(rule["handle"])) for rule in chain.rules if rule.get("comment") == MARK]


def refuse_iptables(chains: t.Sequence[nft_rules.Chain], ports: t.Sequence[Ports]) -> None:
    """Raise PlanRefused for a chain created by iptables, which nft must not write to."""
    for chain in chains:
        if chain.family in ("ip", "ip6") and (chain.table, chain.name) == ("filter", "INPUT"):
            listed = ",".join(one.written(":") for one in ports)
            raise PlanRefused(
                f"the chain INPUT of {'iptables' if chain.family == 'ip' else 'ip6tables'} drops"
                f" everything not listed in it, and it is unknown which program manages its rules;"
                f" add this rule there: -p tcp -m multiport --dports {listed} -s PEER -j ACCEPT"
            )


def nft_rules_of(
    chain: nft_rules.Chain, networks: t.Sequence[Network], ports: t.Sequence[Ports]
) -> list[str]:
    """The accepting rules for a table of that family, as nft reads them."""
    listed = ", ".join(one.written() for one in ports)
    rules = []
    for word, version, families in (("ip", 4, ("inet", "ip")), ("ip6", 6, ("inet", "ip6"))):
        sources = ", ".join(short(one) for one in networks if one.version == version)
        if sources and chain.family in families:
            rules.append(f"{word} saddr {{ {sources} }} tcp dport {{ {listed} }} accept")
    return rules


def nft_listed(rule: nft_rules.Rule) -> str:
    """A rule of our chain in the form of :func:`nft_rules_of`, however nft lists its sets."""
    words = []
    for expression in as_mappings(rule.get("expr")):
        match = as_mapping(expression.get("match"))
        payload = as_mapping(as_mapping(match.get("left")).get("payload"))
        members = _members(match.get("right"))
        if payload.get("field") == "saddr":
            networks = tidy(one for member in members for one in _networks(member))
            shown = ", ".join(short(one) for one in networks)
            words.append(f"{payload.get('protocol')} saddr {{ {shown} }}")
        elif payload.get("field") == "dport":
            ports = parse_ports(["-".join(map(str, _bounds(member))) for member in members])
            words.append(f"tcp dport {{ {', '.join(one.written() for one in ports)} }}")
        elif "accept" in expression:
            words.append("accept")
    return " ".join(words)


def _members(right: object) -> list[object]:
    members = right.get("set", right) if isinstance(right, dict) else right
    return list(members) if isinstance(members, list) else [members]


def _bounds(member: object) -> list[object]:
    return list(member["range"]) if isinstance(member, dict) else [member]


def _networks(member: object) -> list[Network]:
    if isinstance(member, dict) and "prefix" in member:
        prefix = member["prefix"]
        return [ipaddress.ip_network(f"{prefix['addr']}/{prefix['len']}")]
    bounds = [ipaddress.ip_address(str(one)) for one in _bounds(member)]
    return list(ipaddress.summarize_address_range(bounds[0], bounds[-1]))


def nft_open(
    chain: nft_rules.Chain, networks: t.Sequence[Network], ports: t.Sequence[Ports], jump: bool
) -> list[str]:
    """Commands that fill our chain next to ``chain``, and with ``jump`` make it the first rule.

    Table and chain are added again because adding an existing one does nothing: if the site
    renames them, the ruleset still loads.
    """
    table = f"{chain.family} {chain.table}"
    commands = [f"add table {table}", f"add chain {table} {chain.name}"]
    commands += [f"add chain {table} {CHAIN}", f"flush chain {table} {CHAIN}"]
    for rule in nft_rules_of(chain, networks, ports):
        commands.append(f"add rule {table} {CHAIN} {rule}")
    if jump:
        commands.append(f'insert rule {table} {chain.name} jump {CHAIN} comment "{MARK}"')
    return commands


def nft_close(opened: t.Sequence[nft_rules.Chain], shut: t.Sequence[nft_rules.Chain]) -> list[str]:
    """Commands that remove our rules from those ``opened`` that are no longer ``shut``."""
    names = {str(chain) for chain in shut}
    commands = [
        f"delete rule {chain} handle {handle}"
        for chain in opened
        if str(chain) not in names
        for handle in jump_handles(chain)
    ]
    kept = {chain.key for chain in shut}
    for family, table in dict.fromkeys(chain.key for chain in opened):
        if (family, table) not in kept:
            place = f"{family} {table} {CHAIN}"
            commands += [f"flush chain {place}", f"delete chain {place}"]
    return commands


def nft_lines(
    chains: t.Sequence[nft_rules.Chain], networks: t.Sequence[Network], ports: t.Sequence[Ports]
) -> list[str]:
    """The whole file that opens ``chains``, line by line."""
    lines = ["# Written by fleet.virt: lets the peers of this hypervisor reach libvirt.", ""]
    for chain in chains:
        lines += [*nft_open(chain, networks, ports, jump=True), ""]
    return lines[:-1] if chains else []


def with_include(text: str, path: str, *, wanted: bool) -> str:
    """The text of nftables' own file with, or without, the line that includes ``path``."""
    line = f'include "{path}"'
    kept = [one for one in text.splitlines() if one.strip() != line]
    present = len(kept) != len(text.splitlines())
    if wanted == present:
        return text
    if wanted:
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n"
    return "".join(f"{one}\n" for one in kept)


# ufw


def ufw_lines(networks: t.Sequence[Network], ports: t.Sequence[Ports]) -> list[str]:
    """Rules in the form of ``ufw show added``."""
    listed = ",".join(one.written(":") for one in ports)
    return [
        f"ufw allow from {short(one)} to any port {listed} proto tcp comment '{MARK}'"
        for one in networks
    ]


def ufw_own(added: str) -> list[str]:
    """Those of our rules that ``ufw show added`` lists."""
    return [line.strip() for line in added.splitlines() if _UFW.fullmatch(line.strip())]


def ufw_words(line: str, verb: str) -> list[str]:
    """Arguments of ufw that add (``prepend``) or ``delete`` the rule ``line``."""
    match = _UFW.fullmatch(line)
    if match is None:
        raise ValueError(line)
    words = [verb, "allow", "from", match["source"], "to", "any", "port", match["ports"]]
    words += ["proto", "tcp"]
    return words if verb == "delete" else [*words, "comment", MARK]


# firewalld


def rich_rules(networks: t.Sequence[Network], ports: t.Sequence[Ports]) -> list[str]:
    """Rich rules in the form in which ``firewall-cmd`` lists them."""
    return [
        f'rule priority="{PRIORITY}" family="ipv{one.version}" source address="{short(one)}"'
        f' port port="{port.written()}" protocol="tcp" accept'
        for one in networks
        for port in ports
    ]


def own_rich_rules(listed: str) -> list[str]:
    """Those with our mark among what ``--list-rich-rules`` printed."""
    return [
        line.strip() for line in listed.splitlines() if f'rule priority="{PRIORITY}" ' in line + " "
    ]


def zones(default: str, active: str) -> list[str]:
    """The zones through which a peer may connect: the default, and those of interfaces and sources.

    ``active`` is what ``--get-active-zones`` printed. The zone of libvirt's own networks is for
    guests.
    """
    named = [line.split()[0] for line in active.splitlines() if line and not line[0].isspace()]
    return sorted({default, *(name for name in named if not name.startswith("libvirt"))})
