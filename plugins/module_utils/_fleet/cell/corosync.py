# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""corosync.conf of a cell: written from its members, and read back as far as it concerns them."""

from __future__ import annotations

import re
import typing as t

from ..._records import dataclass, field

PATH = "/etc/corosync/corosync.conf"
_MARK = "# Of the collection fleet.virt, cell "
_PAIR = re.compile(r"\s*([\w.]+)\s*:\s*(.*?)\s*")
_LOOPBACK = "127."


@dataclass(frozen=True)
class CellMember:
    """A node: its name, its number, which it keeps, and an address for each ring."""

    name: str
    number: int
    addresses: list[str]


@dataclass(frozen=True)
class CellSettings:
    """What corosync.conf says. ``system`` is its section of that name."""

    cell: str = ""
    members: list[CellMember] = field(default_factory=list)
    token: int = 3000
    system: dict[str, str] = field(default_factory=dict)
    qdevice: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Configured:
    """What a file says: ``cell`` if it is ours, ``foreign`` if it is another cluster's; whether it
    has a quorum ``device``."""

    cell: str | None
    foreign: str | None
    numbers: t.Mapping[str, int]
    device: bool = False


def text_of(settings: CellSettings) -> str:
    """The file."""
    totem = {
        "version": "2",
        "cluster_name": settings.cell,
        "transport": "knet",
        "crypto_cipher": "aes256",
        "crypto_hash": "sha256",
        "token": str(settings.token),
    }
    quorum = [*_lines({"provider": "corosync_votequorum"})]
    if settings.qdevice:
        net = _block("net", _lines(settings.qdevice))
        quorum += _block("device", [*_lines({"model": "net", "votes": "1"}), *net])
    nodes = [
        line
        for member in settings.members
        for line in _block(
            "node",
            _lines(
                {
                    "name": member.name,
                    "nodeid": str(member.number),
                    **{f"ring{i}_addr": place for i, place in enumerate(member.addresses)},
                }
            ),
        )
    ]
    sections = [
        _block("totem", _lines(totem)),
        _block("system", _lines(settings.system)) if settings.system else [],
        _block("quorum", quorum),
        _block("nodelist", nodes),
        _block("logging", _lines({"to_stderr": "no", "to_logfile": "no", "to_syslog": "yes"})),
    ]
    lines = [f"{_MARK}{settings.cell}", *(line for section in sections for line in section)]
    return "\n".join(lines) + "\n"


def _lines(values: t.Mapping[str, str]) -> list[str]:
    return [f"{key}: {value}" for key, value in values.items()]


def _block(name: str, lines: t.Iterable[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def read(text: str | None) -> Configured:
    """What a file says, None for one that is not there.

    The one that Debian's package brings has a node on the loopback interface: no cluster at all.
    """
    if text is None:
        return Configured(None, None, {})
    nodes, names = _nodes(text)
    numbers = {node["name"]: int(node["nodeid"]) for node in nodes if _is_node(node)}
    first = text.partition("\n")[0]
    if first.startswith(_MARK):
        return Configured(first[len(_MARK) :].strip(), None, numbers, _has_device(text))
    places = [value for node in nodes for key, value in node.items() if key.endswith("_addr")]
    if all(place.startswith(_LOOPBACK) for place in places):
        return Configured(None, None, {})
    return Configured(None, names[0] if names else "without a name", numbers)


def _has_device(text: str) -> bool:
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    return ["device", "{"] in lines or ["device{"] in lines


def device_votes(text: str) -> bool:
    """Whether a quorum device votes, as ``corosync-quorumtool -s`` says it of the node that it runs
    on: the device is the node of the number 0, which has no votes while it casts none, and is not
    there while its daemon does not run."""
    return any(
        fields[0].isdigit() and int(fields[0]) == 0 and fields[1].isdigit() and int(fields[1]) > 0
        for line in text.splitlines()
        if len(fields := line.split()) > 2
    )


def _is_node(node: t.Mapping[str, str]) -> bool:
    return "name" in node and node.get("nodeid", "").isdigit()


def _nodes(text: str) -> tuple[list[dict[str, str]], list[str]]:
    """The nodes, and the names of clusters."""
    nodes: list[dict[str, str]] = []
    names: list[str] = []
    within: list[str] = []
    for line in text.splitlines():
        content = line.partition("#")[0].strip()
        pair = _PAIR.fullmatch(content)
        if content.endswith("{"):
            within.append(content[:-1].strip())
            if within[-1] == "node":
                nodes.append({})
        elif content == "}" and within:
            within.pop()
        elif pair is not None and within and within[-1] == "node":
            nodes[-1][pair[1]] = pair[2]
        elif pair is not None and pair[1] == "cluster_name":
            names.append(pair[2])
    return nodes, names


def running_differs(settings: CellSettings, values: t.Mapping[str, str]) -> bool:
    """Whether the running corosync, with these values of its map, has other members or another
    time limit: what it reads again without a restart."""
    nodes: dict[str, dict[str, str]] = {}
    for key, value in values.items():
        parts = key.split(".")
        if parts[:2] == ["nodelist", "node"] and len(parts) == 4:
            nodes.setdefault(parts[2], {})[parts[3]] = value
    present = {
        (node.get("name", ""), node.get("nodeid", ""), _addresses(node)) for node in nodes.values()
    }
    wanted = {(one.name, str(one.number), tuple(one.addresses)) for one in settings.members}
    return present != wanted or values.get("totem.token") != str(settings.token)


def _addresses(node: t.Mapping[str, str]) -> tuple[str, ...]:
    return tuple(node[key] for key in sorted(node) if re.fullmatch(r"ring\d_addr", key))


def needs_restart(settings: CellSettings, values: t.Mapping[str, str]) -> bool:
    """Whether the running corosync has other settings of the system, which it reads only once."""
    prefix = "system."
    present = {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
    return present != settings.system
