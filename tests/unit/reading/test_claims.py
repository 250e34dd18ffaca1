# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nobody is connected to at an address that is another machine's, whoever claims it."""

from __future__ import annotations

import dataclasses
import socket
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import ip
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_addresses as addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_neighbours as neighbours,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import (
    _claims,
    _guests,
    _machines,
    _reading,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _from_host, _ssh

MAC = "52:54:00:00:00:01"
OTHER_MAC = "52:54:00:00:00:02"
ADDRESS = "192.0.2.66"
# Machines that guests may claim to be
MACHINES = _claims.Machines(
    hypervisors={
        "hv1": {"192.0.2.1"},
        "hv2": {"192.0.2.2"},
    },
    reported={
        "hv1": {"192.0.2.1", "198.51.100.1", "2001:db8::1", "192.168.122.1"},
        "hv2": {"192.0.2.2", "198.51.100.2", "192.168.200.1"},
    },
    hosts={"192.0.2.1": "hv1", "192.0.2.2": "hv2", "192.0.2.9": "nas"},
    local=lambda address: address in ("192.0.2.250", "2001:db8::250"),
    owners={"hv1": {"192.0.2.77": OTHER_MAC, "192.0.2.78": MAC}},
)


def entry(address: str, source: str, behind: bool = False) -> dict[str, t.Any]:
    return {"address": address, "source": source, "behind": behind}


def guest(name: str, *entries: dict[str, t.Any], **values: t.Any) -> dict[str, t.Any]:
    whole = {"name": name, "uuid": f"uuid of {name}", "state": "running", "macs": [MAC]}
    return {**whole, "addresses": list(entries), "pinned": False, **values}


def settled(
    *found: tuple[str, dict[str, t.Any]], machines: _claims.Machines = MACHINES
) -> tuple[dict[str, list[str]], list[str]]:
    """The addresses that are left by name, and what was said."""
    said = _claims.settle(found, machines, lambda one: bool(one["pinned"]))
    left = {one["name"]: [each["address"] for each in one["addresses"]] for _name, one in found}
    return left, said


# What a guest of hv1 says that its address is; ADDRESS is really its own
_SPOOFED = [
    "127.0.0.1",
    "127.0.0.2",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "0.0.0.0",  # noqa: S104
    "0.0.0.1",
    "::",
    "255.255.255.255",
    "224.0.0.1",
    "ff02::1",
    "240.0.0.1",
    "169.254.1.1",
    "fe80::1",
    "fe80::1%br0",
    "192.0.2.1",  # its hypervisor
    "192.0.2.1/24",
    "::ffff:192.0.2.1",
    "2001:db8::1",
    "2001:DB8:0:0::1",
    "198.51.100.1",  # that one's storage network
    "198.51.100.2",  # the other hypervisor's
    "192.168.122.1",  # a network of libvirt there
    "192.0.2.250",  # the controller
    "2001:db8::250",
    "192.0.2.9",  # a host of the inventory
    "192.0.2.77",  # whoever has that
    "192.0.2.10",  # a guest with a lease
    "192.0.2.11",  # a guest with a static address
    "192.0.2.12",  # a guest whose agent says so too
    "-oProxyCommand=touch x",
    "hv1",
    "127.1",
    "2130706433",
]


@pytest.mark.parametrize("source", ["agent", "arp", "neighbour", "console"])
@pytest.mark.parametrize("spoofed", _SPOOFED)
def test_a_guest_reaches_nobody_elses_machine(spoofed: str, source: str) -> None:
    usable = [one for one in (ip.usable(spoofed), ADDRESS) if one is not None]
    liar = guest("liar", *(entry(one, source) for one in usable))
    others = [
        guest("leased", entry("192.0.2.10", "lease")),
        guest("static", entry("192.0.2.11", "static")),
        guest("agent", entry("192.0.2.12", "agent")),
    ]
    left, said = settled(("hv1", liar), *(("hv2", one) for one in others))
    assert left["liar"] == [ADDRESS]
    assert bool(said) is (len(usable) == 2)
    assert all("VM 'liar' of hv1" in text or "VM 'agent' of hv2" in text for text in said)
    assert (left["leased"], left["static"]) == (["192.0.2.10"], ["192.0.2.11"])
    found = _guests.address_of(liar, through=True)
    assert found is not None
    assert found["address"] == ADDRESS


@pytest.mark.parametrize(
    ("one", "left"),
    [
        # a pinned key keeps others out; what is certainly wrong is dropped all the same
        (guest("a", entry("192.0.2.250", "agent"), pinned=True), ["192.0.2.250"]),
        (guest("a", entry("192.0.2.77", "agent"), pinned=True), ["192.0.2.77"]),
        (guest("a", entry("192.0.2.2", "agent"), pinned=True), []),
        (guest("a", entry("192.0.2.2", "static")), []),
        (guest("a", entry("198.51.100.2", "static")), []),
        # a hypervisor that says that it has all of them is no reason
        (guest("a", entry("198.51.100.2", "agent"), pinned=True), ["198.51.100.2"]),
        (guest("a", entry("192.0.2.250", "static")), []),
        # the administrator lists it under another name
        (guest("a", entry("192.0.2.9", "static")), ["192.0.2.9"]),
        (guest("a", entry("192.0.2.9", "lease")), ["192.0.2.9"]),
        (guest("a", entry("192.0.2.78", "agent")), ["192.0.2.78"]),
        # behind its hypervisor it is another network
        (guest("a", entry("192.168.122.1", "agent", behind=True)), []),
        (guest("a", entry("192.168.200.1", "lease", behind=True)), ["192.168.200.1"]),
        (guest("a", entry("192.0.2.250", "lease", behind=True)), ["192.0.2.250"]),
    ],
)
def test_other_machines(one: dict[str, t.Any], left: list[str]) -> None:
    found, said = settled(("hv1", one))
    assert found == {"a": left}
    assert len(said) == (not left)


_X = "192.0.2.100"


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (guest("a", entry(_X, "static")), guest("b", entry(_X, "lease")), "a"),
        (guest("a", entry(_X, "lease")), guest("b", entry(_X, "agent")), "a"),
        (guest("a", entry(_X, "agent")), guest("b", entry(_X, "agent")), ""),
        (guest("a", entry(_X, "agent")), guest("b", entry(_X, "console")), ""),
        (guest("a", entry(_X, "static")), guest("b", entry(_X, "static")), ""),
        (guest("a", entry(_X, "agent"), pinned=True), guest("b", entry(_X, "agent")), "a"),
        (guest("a", entry(_X, "agent"), pinned=True), guest("b", entry(_X, "lease")), "b"),
        (
            guest("a", entry(_X, "agent"), pinned=True),
            guest("b", entry(_X, "agent"), pinned=True),
            "ab",
        ),
        (guest("a", entry(_X, "static"), state="shutoff"), guest("b", entry(_X, "static")), "b"),
        (guest("a", entry(_X, "static"), state="shutoff"), guest("b", entry(_X, "agent")), ""),
        (
            guest("a", entry(_X, "lease", behind=True)),
            guest("b", entry(_X, "lease", behind=True)),
            "ab",
        ),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_two_guests_with_one_address(
    first: dict[str, t.Any], second: dict[str, t.Any], left: str, turned: bool
) -> None:
    # settling takes addresses away
    both = [{**one, "addresses": list(one["addresses"])} for one in (first, second)]
    pairs = list(zip(("hv1", "hv2"), both))
    found, said = settled(*(reversed(pairs) if turned else pairs))
    assert "".join(sorted(name for name, some in found.items() if some)) == left
    assert len(said) == 2 - len(left)


def test_the_neighbour_table_tells_whose_better_source_is_wrong() -> None:
    """Of two that say so themselves it cannot: who answers now may be another in a moment."""
    machines = _claims.Machines(owners={"hv1": {_X: MAC}})
    honest = guest("honest", entry(_X, "agent"))
    for source in ("agent", "static"):
        one = {**honest, "addresses": list(honest["addresses"])}
        liar = guest("liar", entry(_X, source), macs=[OTHER_MAC])
        left, said = settled(("hv1", one), ("hv1", liar), machines=machines)
        assert left == {"honest": [_X] if source == "static" else [], "liar": []}
        assert len(said) == (1 if source == "static" else 2)


def test_one_that_moves_is_no_rival_of_itself() -> None:
    found = [("hv1", guest("a", entry(_X, "agent"))), ("hv2", guest("a", entry(_X, "agent")))]
    assert settled(*found) == ({"a": [_X]}, [])


def test_many_lies_are_one_warning() -> None:
    lies = [f"203.0.113.{number}" for number in range(1, 65)]
    machines = _claims.Machines({"hv2": lies})
    said = settled(("hv1", guest("a", *(entry(one, "agent") for one in lies))), machines=machines)[
        1
    ]
    assert said == [
        "VM 'a' of hv1 (agent): not connecting to 203.0.113.1, 203.0.113.2, 203.0.113.3 and 61"
        " more: address of hypervisor hv2"
    ]


def _outside() -> str | None:
    """An address of this machine that is not loopback, if it has one."""
    return next((one for one in neighbours.own_addresses() if ip.usable(one)), None)


def test_addresses_of_this_machine() -> None:
    assert addresses.is_local("127.0.0.1")
    assert not addresses.is_local("203.0.113.7")
    assert not addresses.is_local("no address")
    assert "127.0.0.1" in neighbours.own_addresses()
    outside = _outside()
    assert outside is None or addresses.is_local(outside)


def test_a_hypervisor_says_which_addresses_it_has() -> None:
    """The program runs, here on this machine; who is silent or unknown is known by its name."""
    here = _reading.Hypervisor("hv1", _ssh.Reached("qemu:///system", local=True), None, ("::2",))
    dead = _ssh.Reached("x", _ssh.Ssh("203.0.113.2", executable="/no/such/ssh"))
    tls = _reading.Hypervisor("hv3", _ssh.Reached("qemu+tls://localhost/system"))
    hypervisors = [here, _reading.Hypervisor("hv2", dead), tls]
    assert _machines.ask(hypervisors, {"hv1": []}, _reading.ReadingSettings()) == {}
    kept = _machines.ask(
        hypervisors, {"hv1": ["127.0.0.9", "2001:db8::1"]}, _reading.ReadingSettings()
    )
    assert "127.0.0.1" in kept["hv1"]["own"]
    assert set(kept) == {"", "hv1", "hv2", "hv3"}
    machines = _machines.known(hypervisors, [], kept)
    assert machines.hypervisor_at("203.0.113.2") == "hv2"
    outside = _outside()
    assert outside is None or machines.hypervisor_at(outside) == "hv1"
    names = _machines.names(hypervisors, [])
    assert {"203.0.113.2", "localhost", socket.gethostname().casefold()} <= names


@pytest.mark.parametrize("said", ["", "x", "[]", '{"own": 3, "owners": []}', '{"own": {}}'])
def test_answers_of_another_shape(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_from_host, "_asked", lambda *_args: said)
    assert _from_host.about(_ssh.Reached("x", local=True), [], 5) == _from_host.About([], {})


def test_doubtful() -> None:
    guests = [
        guest("a", entry("192.0.2.5", "agent"), entry("192.0.2.6", "lease")),
        guest("b", entry("192.0.2.7", "agent"), pinned=True),
        guest("c", entry("192.168.122.7", "agent", behind=True)),
        guest("d", entry("192.0.2.8", "static")),
    ]
    found = _machines.doubtful(guests, lambda one: bool(one["pinned"]))
    assert found == ["192.0.2.5", "192.0.2.6", "192.168.122.7", "192.0.2.8"]


@pytest.mark.parametrize("behind", [False, True])
def test_a_lease_that_was_taken_by_the_number_of_another_client(behind: bool) -> None:
    """The network's server gives it, but the other still has the address."""
    victim = guest("victim", entry("192.0.2.77", "agent", behind), macs=[OTHER_MAC])
    thief = guest("thief", entry("192.0.2.77", "lease", behind))
    left, said = settled(("hv1", thief), ("hv1", victim))
    assert left == {"thief": [], "victim": ["192.0.2.77"]}
    assert said == [
        "VM 'thief' of hv1 (lease): not connecting to 192.0.2.77:"
        f" another machine has it ({OTHER_MAC})"
    ]


def test_whom_the_controller_itself_would_connect_to() -> None:
    machines = dataclasses.replace(
        MACHINES, owners={}, here={ADDRESS: OTHER_MAC, "192.0.2.67": "52:54:00:00:00:99"}
    )
    both = entry(ADDRESS, "agent"), entry("192.0.2.67", "agent")
    victim, thief = guest("victim", *both), guest("thief", macs=[OTHER_MAC])
    left, said = settled(("hv1", victim), ("hv2", thief), machines=machines)
    assert left["victim"] == ["192.0.2.67"]  # a router may answer for it
    assert said == [
        f"VM 'victim' of hv1 (agent): not connecting to {ADDRESS}:"
        f" another VM responds at it ({OTHER_MAC})"
    ]
    pinned = guest("victim", *both, pinned=True)
    assert settled(("hv1", pinned), ("hv2", thief), machines=machines)[1] == []


@pytest.mark.parametrize("source", ["agent", "neighbour"])
@pytest.mark.parametrize("pinned", [False, True])
def test_who_answers_for_another_is_not_connected_to(source: str, pinned: bool) -> None:
    """It may stop a moment later, and what was for it would run on the other."""
    victim = guest("victim", entry("192.0.2.77", "agent"), pinned=pinned)
    thief = guest("thief", entry("192.0.2.77", source), macs=[OTHER_MAC])
    left, said = settled(("hv1", victim), ("hv1", thief))
    assert left == {"victim": ["192.0.2.77"] if pinned else [], "thief": []}
    assert any("'thief'" in text and "has it too" in text for text in said)
