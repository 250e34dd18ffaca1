# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network configuration in a seed: options, checks against the VM's NICs."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t
from collections.abc import Mapping

from ..._errors import Problem
from ..base import ip
from ..base.options import Reader, join, show, unknown_message
from ..base.settings import names
from . import settings
from .documents import actual_nic
from .types import NicConfig, Route, Seed, SeededNic, on_link

_BROADCAST = ip.address("255.255.255.255")
_EXAMPLE = "[{name: eth0, addresses: [192.0.2.10/24], gateway: 192.0.2.1}]"


def read(reader: Reader, seed: Seed) -> Seed:
    """``seed`` with the values of the network options."""
    return dataclasses.replace(
        seed,
        network=_nics(reader),
        dns_servers=_servers(reader),
        dns_search=settings.DNS_SEARCH.read(reader),
    )


def _nics(reader: Reader) -> tuple[NicConfig, ...]:
    value = reader.structure("network")
    if value is None:
        return ()
    origin = reader.at("network")
    entries: list[tuple[str, object, str | None]] = []
    if isinstance(value, Mapping):
        entries = [(f"{origin}.{name}", entry, str(name)) for name, entry in value.items()]
    elif isinstance(value, (list, tuple)):
        entries = [(f"{origin}[{index}]", entry, None) for index, entry in enumerate(value)]
    else:
        reader.problem("network", f"{show(value)} is not a list of NICs; write {_EXAMPLE}")
    configs: list[NicConfig] = []
    for path, entry, name in entries:
        if not isinstance(entry, Mapping):
            message = f"{show(entry)} is not a mapping; write {_EXAMPLE}"
            reader.problems.append(Problem(path, message))
            continue
        inner = Reader(entry if name is None else {"name": name, **entry}, path, reader.problems)
        configs.append(_nic(inner))
    _check_once(
        configs, [path for path, entry, _n in entries if isinstance(entry, Mapping)], reader
    )
    return tuple(configs)


def _nic(reader: Reader) -> NicConfig:
    name = settings.GuestNicSettings.name.read(reader)
    mac = settings.GuestNicSettings.mac.read(reader)
    if reader.given("name") == reader.given("mac"):
        reader.problem("name", f"a NIC is identified by either its name or its mac; {_EXAMPLE}")
    addresses = _addresses(reader)
    has = {address.version for address in addresses}
    gateways = _gateways(reader, addresses)
    dhcp4 = settings.GuestNicSettings.dhcp4.read(reader)
    nic = NicConfig(
        name=name,
        mac=mac.lower() if mac else None,
        dhcp4=4 not in has if dhcp4 is None else dhcp4,
        dhcp6=settings.GuestNicSettings.dhcp6.read(reader),
        addresses=tuple(str(address) for address in addresses),
        gateways=gateways,
        routes=_routes(reader, addresses),
        dns_servers=_servers(reader),
        dns_search=settings.GuestNicSettings.dns_search.read(reader),
        mtu=settings.GuestNicSettings.mtu.read(reader),
    )
    reader.finish(names(settings.NETWORK.settings))
    return nic


def _items(reader: Reader, key: str) -> list[tuple[str, str]]:
    """Path and text of each item of a list, or of text with commas."""
    value = reader.structure(key)
    if value is None:
        return []
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",") if word.strip()]
    if not isinstance(value, (list, tuple)):
        reader.problem(key, f"{show(value)} is not a list; write [a, b]")
        return []
    return [(f"{reader.at(key)}[{index}]", str(item)) for index, item in enumerate(value)]


def _addresses(reader: Reader) -> list[ip.Interface]:
    addresses: list[ip.Interface] = []
    for path, text in _items(reader, "addresses"):
        message = None
        try:
            address = ip.interface(text)
        except ValueError:
            message = f"{show(text)} is not an address; write address/prefix: 192.0.2.10/24"
        else:
            network = address.network
            if "/" not in text:
                message = f"{show(text)} has no prefix length; write for example {text}/24"
            elif (
                address.ip.is_multicast
                or address.ip.is_unspecified
                or address.ip.is_loopback
                or address.ip == _BROADCAST
            ):
                message = f"{show(text)} cannot be a NIC's: multicast, loopback or unspecified"
            elif (
                network.version == 4
                and network.prefixlen < 31
                and address.ip
                in (
                    network.network_address,
                    network.broadcast_address,
                )
            ):
                message = (
                    f"{show(text)} is the network or broadcast address; choose one"
                    f" between {network.network_address} and {network.broadcast_address}"
                )
            elif address in addresses:
                message = f"{show(text)} is given twice; give it once"
            else:
                addresses.append(address)
        if message:
            reader.problems.append(Problem(path, message))
    return addresses


def _ip(text: str) -> ip.Address | None:
    try:
        return ip.address(text)
    except ValueError:
        return None


def _gateways(reader: Reader, addresses: t.Sequence[ip.Interface]) -> tuple[str, ...]:
    gateways: dict[int, str] = {}
    for path, text in _items(reader, "gateway"):
        gateway = _ip(text)
        message = None
        if gateway is None:
            message = f"{show(text)} is not an address; write for example 192.0.2.1"
        elif gateway.version in gateways:
            message = f"{show(text)} is a second IPv{gateway.version} gateway; give one of each"
        else:
            message = _unreachable(gateway, addresses)
        if message:
            reader.problems.append(Problem(path, message))
        elif gateway is not None:
            gateways[gateway.version] = str(gateway)
    return tuple(gateways.values())


def _unreachable(via: ip.Address, addresses: t.Sequence[ip.Interface]) -> str | None:
    """Why a NIC with these addresses cannot send to ``via``; None if it can."""
    if isinstance(via, ipaddress.IPv6Address) and via.is_link_local:
        return None
    networks = [address.network for address in addresses if address.version == via.version]
    if any(address.ip == via for address in addresses):
        return f"{show(str(via))} is the NIC's own address; give the router's"
    if any(via in network for network in networks):
        return None
    if via.is_multicast or via.is_unspecified or via.is_loopback or via == _BROADCAST:
        return f"{show(str(via))} cannot be a router's; give the router's address"
    if on_link(via, addresses):
        return None
    if not networks:
        return (
            f"{show(str(via))} needs a static IPv{via.version} address of the NIC as well; with"
            " DHCP the server provides the router"
        )
    listed = ", ".join(str(network) for network in networks)
    return f"{show(str(via))} is not in the NIC's network ({listed}); give the router's address"


def _routes(reader: Reader, addresses: t.Sequence[ip.Interface]) -> tuple[Route, ...]:
    value = reader.structure("routes")
    example = "[{to: 198.51.100.0/24, via: 192.0.2.254}]"
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        reader.problem("routes", f"{show(value)} is not a list; write {example}")
        return ()
    routes: list[Route] = []
    for index, entry in enumerate(value):
        inner = Reader(entry, f"{reader.at('routes')}[{index}]", reader.problems)
        if not isinstance(entry, Mapping):
            if entry is None:
                inner.problems.append(Problem(inner.path, f"this is empty; write {example}"))
            continue
        to, via = str(inner.value("to") or ""), str(inner.value("via") or "")
        metric = settings.GuestNicSettings.metric.read(inner)
        inner.finish(names(settings.GuestNicSettings.routes.settings))
        router = _ip(via)
        try:
            network = ip.network(to)
        except ValueError:
            inner.problem("to", f"{show(to)} is not a network; write for example 198.51.100.0/24")
            continue
        if router is None or router.version != network.version:
            inner.problem(
                "via", f"{show(via)} is not an IPv{network.version} address; write {example}"
            )
            continue
        message = _unreachable(router, addresses)
        if message:
            inner.problem("via", message)
            continue
        routes.append(Route(str(network), str(router), metric))
    return tuple(routes)


def _servers(reader: Reader) -> tuple[str, ...]:
    servers: list[str] = []
    for path, text in _items(reader, "dns_servers"):
        server = _ip(text)
        if server is None:
            message = f"{show(text)} is not an address; write for example 192.0.2.53"
            reader.problems.append(Problem(path, message))
        elif str(server) not in servers:
            servers.append(str(server))
    return tuple(servers)


def _check_once(nics: t.Sequence[NicConfig], paths: t.Sequence[str], reader: Reader) -> None:
    seen: dict[str, str] = {}
    for nic, path in zip(nics, paths):
        values = [("NIC", nic.name), ("NIC", nic.mac)]
        values += [("address", address.partition("/")[0]) for address in nic.addresses]
        for kind, value in values:
            if value is None:
                continue
            first = seen.setdefault(value, path)
            if first != path:
                message = f"{kind} {show(value)} is also that of {first}; give it once"
                reader.problems.append(Problem(path, message))


def problems(seed: Seed, nics: t.Sequence[SeededNic], path: str) -> list[Problem]:
    """Problems: parts of the seed's network that do not match the VM's NICs."""
    mismatches: list[Problem] = []
    taken: dict[str, str] = {}
    where = join(path, "network")
    for nic in seed.network:
        key = nic.name or nic.mac or ""
        actual = actual_nic(nic, nics)
        if actual is None:
            kind = "NIC" if nic.name else "MAC address"
            known = [seeded.name if nic.name else seeded.mac for seeded in nics]
            mismatches.append(Problem(where, unknown_message(kind, key, known)))
        elif actual.mac in taken:
            message = f"{show(key)} and {show(taken[actual.mac])} are the same NIC; give it once"
            mismatches.append(Problem(where, message))
        else:
            taken[actual.mac] = key
    if (seed.dns_servers or seed.dns_search) and not nics:
        mismatches.append(Problem(join(path, "dns_servers"), "the VM has no NIC; leave it out"))
    return mismatches


def twins(nics: t.Sequence[SeededNic]) -> list[Problem]:
    """A problem for NICs of one VM with the same MAC address: libvirt allows that, a seed not."""
    macs = [nic.mac for nic in nics]
    twice = dict.fromkeys(mac for mac in macs if macs.count(mac) > 1)
    message = (
        "two NICs of the VM have the MAC address {}, by which the guest tells them apart; give one"
        " of them another"
    )
    return [Problem("network", message.format(mac)) for mac in twice]
