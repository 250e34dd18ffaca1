# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From units and files to steps, for each shape of libvirt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import config_block
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.config_block import Block
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import plan as daemon_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon.plan import (
    Control,
    DaemonFacts,
    Restart,
    Unit,
    Write,
)

ON = Unit("enabled", active=True)
OFF = Unit("disabled")
CONF = "/etc/libvirt/libvirtd.conf"
PROXY_CONF = "/etc/libvirt/virtproxyd.conf"
QEMU = daemon_plan.QEMU_CONF
ARGS = "/etc/default/libvirtd"
NAMES = ("libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket")
SOCKETS = {
    "libvirtd.service": Unit("enabled", active=True, since=100.0),
    **dict.fromkeys(NAMES, ON),
    "libvirtd-tls.socket": ON,
    "libvirtd-tcp.socket": OFF,
    "libvirt-guests.service": ON,
    "virtlockd.socket": ON,
}
MASKED = Unit("masked")
LISTEN = {
    **SOCKETS,
    **dict.fromkeys((*NAMES, "libvirtd-tls.socket", "libvirtd-tcp.socket"), MASKED),
}
MODULAR = {
    "virtqemud.service": Unit("enabled", active=True, since=100.0),
    "virtqemud.socket": ON,
    "virtqemud-ro.socket": ON,
    "virtqemud-admin.socket": ON,
    "virtstoraged.service": Unit("disabled"),
    "virtstoraged.socket": ON,
    "virtproxyd.service": Unit("disabled", active=True, since=100.0),
    "virtproxyd.socket": ON,
    "virtproxyd-tls.socket": ON,
    "virtproxyd-tcp.socket": OFF,
    "libvirt-guests.service": ON,
    "libvirtd.service": OFF,
    "libvirtd.socket": OFF,
    "libvirtd-tls.socket": OFF,
}
BLOCKS = (Block(CONF, ("listen_tcp = 0",), top=True), Block(QEMU, ("vnc_tls = 1",), top=True))
FILES = {block.path: config_block.put("", block) for block in BLOCKS}


def facts(units: dict[str, Unit], **others: Unit) -> DaemonFacts:
    changed = {name.replace("__", "-").replace("_", "."): unit for name, unit in others.items()}
    assert set(changed) <= set(units)
    return DaemonFacts({**units, **changed}, FILES, dict.fromkeys(FILES, 50.0))


def plan(found: DaemonFacts, listen: bool = True, blocks: tuple[Block, ...] = BLOCKS) -> list[str]:
    shape = daemon_plan.shape(found.units)
    assert shape is not None
    steps = daemon_plan.plan(shape, found, blocks, listen=listen, environment=ARGS)
    return [str(step) for step in steps]


@pytest.mark.parametrize(
    ("units", "name"),
    [
        (SOCKETS, "sockets"),
        (LISTEN, "listen"),
        ({"libvirtd.service": ON}, "listen"),
        (MODULAR, "modular"),
        ({**MODULAR, "virtqemud.socket": OFF, "libvirtd.socket": ON}, "sockets"),
        ({**MODULAR, "virtqemud.socket": OFF}, "modular"),
        ({"virtqemud.socket": OFF}, "modular"),
    ],
)
def test_shape(units: dict[str, Unit], name: str) -> None:
    found = daemon_plan.shape(units)
    assert found is not None
    assert found.name == name


def test_no_libvirt_has_no_shape() -> None:
    assert daemon_plan.shape({}) is None
    assert daemon_plan.shape({"virtlogd.service": ON}) is None


@pytest.mark.parametrize("units", [SOCKETS, MODULAR, LISTEN], ids=["sockets", "modular", "listen"])
def test_what_is_right_is_left_alone(units: dict[str, Unit]) -> None:
    assert plan(facts(units)) == []


def test_a_daemon_that_rests_is_left_resting() -> None:
    assert plan(facts(SOCKETS, libvirtd_service=Unit("enabled"))) == []


@pytest.mark.parametrize(
    ("changes", "listen", "wanted"),
    [
        ({"libvirtd__tcp_socket": ON}, True, ["disable --now libvirtd-tcp.socket"]),
        (
            {"libvirtd__tls_socket": OFF},
            True,
            ["enable libvirtd-tls.socket", "restart libvirtd.service"],
        ),
        # Killed between enabling and starting
        ({"libvirtd__tls_socket": Unit("enabled")}, True, ["restart libvirtd.service"]),
        # Killed between stopping the daemon and starting the socket
        (
            {"libvirtd__tls_socket": Unit("enabled"), "libvirtd_service": Unit("enabled")},
            True,
            ["start libvirtd-tls.socket libvirtd.service"],
        ),
        ({}, False, ["disable --now libvirtd-tls.socket"]),
        ({"libvirtd_service": replace(SOCKETS["libvirtd.service"], since=49.0)}, True, ["restart"]),
        ({"libvirt__guests_service": OFF}, True, ["enable libvirt-guests", "start libvirt-guests"]),
        (
            {"libvirtd_service": OFF, "libvirtd_socket": OFF},
            True,
            ["enable libvirtd.service libvirtd.socket", "start libvirtd.socket libvirtd.service"],
        ),
    ],
)
def test_sockets(changes: dict[str, Unit], listen: bool, wanted: list[str]) -> None:
    steps = plan(facts(SOCKETS, **changes), listen)
    assert len(steps) == len(wanted)
    assert all(step.startswith(start) for step, start in zip(steps, wanted)), steps


def test_a_changed_file_begins_the_daemon_anew_with_all_its_sockets_open() -> None:
    found = replace(facts(SOCKETS), files={CONF: FILES[CONF]})
    shape = daemon_plan.shape(found.units)
    assert shape is not None
    assert daemon_plan.plan(shape, found, BLOCKS, listen=True, environment=ARGS) == [
        Write(QEMU, "", FILES[QEMU]),
        Restart("libvirtd.service", ()),
    ]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"virtproxyd__tls_socket": OFF},
            ["enable virtproxyd-tls.socket", "restart virtproxyd.service"],
        ),
        ({"virtproxyd__tcp_socket": ON}, ["disable --now virtproxyd-tcp.socket"]),
        (
            {"virtqemud_service": replace(MODULAR["virtqemud.service"], since=49.0)},
            ["restart virtqemud.service"],
        ),
        (
            {"virtstoraged_socket": OFF},
            [
                "enable virtstoraged.socket",
                "start virtstoraged.socket virtstoraged.service",
            ],
        ),
    ],
)
def test_modular(changes: dict[str, Unit], wanted: list[str]) -> None:
    assert plan(facts(MODULAR, **changes)) == wanted


@pytest.mark.parametrize(
    ("ports", "listen", "again"),
    [({16514}, True, False), ({16514, 16509}, True, True), ({16514}, False, True)],
)
def test_a_daemon_with_a_socket_that_is_closed_begins_anew(
    ports: set[int], listen: bool, again: bool
) -> None:
    units = {**SOCKETS, "libvirtd-tls.socket": ON if listen else OFF}
    steps = plan(replace(facts(units), ports=frozenset(ports)), listen)
    assert steps == (["restart libvirtd.service"] if again else [])


def test_a_daemon_that_listens_by_itself() -> None:
    block = Block(ARGS, ('LIBVIRTD_ARGS="--listen"',), top=False)
    assert plan(facts(LISTEN), blocks=(*BLOCKS, block)) == [
        f"write {ARGS}",
        "restart libvirtd.service",
    ]


def test_masked_is_not_overruled() -> None:
    with pytest.raises(PlanRefused, match=r"systemctl unmask libvirt-guests\.service"):
        plan(facts(SOCKETS, libvirt__guests_service=MASKED))


def test_leases_do_not_change_under_running_guests() -> None:
    leases = Block(QEMU, ('lock_manager = "lockd"',), top=True)
    lockd = Block("/etc/libvirt/qemu-lockd.conf", ("auto_disk_leases = 1",), top=True)
    blocks = (BLOCKS[0], leases, lockd)
    with pytest.raises(
        PlanRefused, match=r"lock_manager .* from none to .*lockd.* guests are running"
    ):
        plan(replace(facts(SOCKETS), guests_running=True), blocks=blocks)
    steps = plan(facts(SOCKETS, virtlockd_socket=OFF), blocks=blocks)
    assert "start virtlockd.socket" in steps
    assert not any("restart virtlockd" in step or "stop" in step for step in steps)


def test_nothing_ends_what_must_not_end() -> None:
    """Whatever is wrong: these two are begun, never begun anew and never ended."""
    for state in (ON, OFF, Unit("enabled"), Unit("disabled", active=True)):
        units = dict.fromkeys(SOCKETS, state)
        found = DaemonFacts(units, {}, dict.fromkeys(FILES, 500.0))
        shape = daemon_plan.shape(units)
        assert shape is not None
        for step in daemon_plan.plan(shape, found, BLOCKS, listen=True, environment=ARGS):
            names = step.units if isinstance(step, Control) else ()
            ends = isinstance(step, Control) and step.verb not in ("enable", "start")
            assert not ends or not {"libvirt-guests.service", "virtlockd.socket"} & set(names)
            assert not isinstance(step, Restart) or step.service == "libvirtd.service"
