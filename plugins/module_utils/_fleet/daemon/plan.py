# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps that bring libvirt's units and files from their current to the desired state.

libvirt can be set up in three ways: one daemon for which systemd opens the sockets (V(sockets)),
one daemon that opens them itself (``--listen``, V(listen)), and a daemon for each driver with a
proxy for the network (V(modular)). A machine's units show which one it has.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base import config_block
from ..base.config_block import Block

PORT = 16514
GUESTS = "libvirt-guests.service"
LOCK = "virtlockd.socket"
QEMU_CONF = "/etc/libvirt/qemu.conf"
VIRTQEMUD_CONF = "/etc/libvirt/virtqemud.conf"
_DRIVERS = (
    *("virtinterfaced", "virtnetworkd", "virtnodedevd", "virtnwfilterd"),
    *("virtqemud", "virtsecretd", "virtstoraged"),
)


@dataclass(frozen=True)
class Unit:
    """An installed unit: ``state`` as in systemctl is-enabled; since: start of its process."""

    state: str
    active: bool = False
    since: float | None = None

    @property
    def enabled(self) -> bool:
        """Whether it starts at boot."""
        return self.state in ("enabled", "static", "indirect", "alias", "generated")

    @property
    def masked(self) -> bool:
        """Whether it cannot start at all."""
        return self.state.startswith("masked")


@dataclass(frozen=True)
class Daemon:
    """A daemon: its service, the sockets that must be open for it, the files it reads."""

    service: str
    sockets: tuple[str, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """How libvirt is set up on this machine."""

    name: str
    proxy: str  # the daemon that has the port
    config: str

    @property
    def service(self) -> str:
        """The unit that has the port, or opens it."""
        return f"{self.proxy}.service"

    @property
    def tls(self) -> str | None:
        """The socket with the port; None where the daemon opens it."""
        return None if self.name == "listen" else f"{self.proxy}-tls.socket"

    @property
    def uuid_config(self) -> str:
        """The file that says where the UUID of the machine is from, of the daemon that says it."""
        return VIRTQEMUD_CONF if self.name == "modular" else self.config

    @property
    def plain(self) -> str:
        """The socket without encryption."""
        return f"{self.proxy}-tcp.socket"


@dataclass(frozen=True)
class DaemonFacts:
    """Current state: units by name, texts and times of files by path, ports of the daemons."""

    units: t.Mapping[str, Unit]
    files: t.Mapping[str, str] = field(default_factory=dict)
    times: t.Mapping[str, float] = field(default_factory=dict)
    ports: frozenset[int] = frozenset()
    guests_running: bool = False


@dataclass(frozen=True)
class Write:
    """A file that gets a new text."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"write {self.path}"


@dataclass(frozen=True)
class Control:
    """``systemctl verb units``."""

    verb: str
    units: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.verb} {' '.join(self.units)}"


@dataclass(frozen=True)
class Restart:
    """Restart a daemon, behind ``sockets``, some of which may not be open yet."""

    service: str
    sockets: tuple[str, ...]

    def __str__(self) -> str:
        return f"restart {self.service}"


Step = t.Union[Write, Control, Restart]


def shape(units: t.Mapping[str, Unit]) -> Shape | None:
    """How libvirt is set up, None if it is not installed."""
    modular = units.get("virtqemud.socket")
    whole = units.get("libvirtd.service")
    socket = units.get("libvirtd.socket")
    prefers_whole = whole is not None and (
        whole.active or whole.enabled or (socket is not None and socket.enabled)
    )
    if modular is not None and not modular.masked and (modular.enabled or not prefers_whole):
        return Shape("modular", "virtproxyd", "/etc/libvirt/virtproxyd.conf")
    if whole is None:
        return None
    by_itself = socket is None or socket.masked or "libvirtd-tls.socket" not in units
    return Shape("listen" if by_itself else "sockets", "libvirtd", "/etc/libvirt/libvirtd.conf")


def daemons(setup: Shape, facts: DaemonFacts, listen: bool, environment: str) -> list[Daemon]:
    """The daemons of that setup, each with the sockets that are installed for it."""

    def sockets(name: str) -> tuple[str, ...]:
        every = (f"{name}.socket", f"{name}-ro.socket", f"{name}-admin.socket")
        return tuple(
            socket for socket in every if socket in facts.units and not facts.units[socket].masked
        )

    port = (setup.tls,) if listen and setup.tls else ()
    if setup.name == "listen":
        return [Daemon("libvirtd.service", (), (setup.config, QEMU_CONF, environment))]
    if setup.name == "sockets":
        own = (*sockets("libvirtd"), *port)
        return [Daemon("libvirtd.service", own, (setup.config, QEMU_CONF))]
    drivers = [
        Daemon(
            f"{name}.service",
            sockets(name),
            (QEMU_CONF, VIRTQEMUD_CONF) if name == "virtqemud" else (),
        )
        for name in _DRIVERS
        if sockets(name)
    ]
    return [
        *drivers,
        Daemon("virtproxyd.service", (*sockets("virtproxyd"), *port), (setup.config,)),
    ]


def plan(
    setup: Shape, facts: DaemonFacts, blocks: t.Sequence[Block], *, listen: bool, environment: str
) -> list[Step]:
    """All steps, in order. None of them stops a guest.

    ``listen`` says whether the port is to be open; ``environment`` is the file with the daemon's
    arguments. Raises PlanRefused for steps that must not be taken while guests run.
    """
    writes = []
    for block in blocks:
        before = facts.files.get(block.path, "")
        after = config_block.put(before, block)
        if before != after:
            writes.append(Write(block.path, before, after))
    _refuse_other_leases(facts, writes)
    steps: list[Step] = list(writes)
    # Unencrypted access is closed before anything else
    unwanted = [setup.plain] if listen else [setup.plain, setup.tls or ""]
    for name in unwanted:
        unit = facts.units.get(name)
        if unit is not None and (unit.active or unit.state == "enabled"):
            steps.append(Control("disable --now", (name,)))
    every = daemons(setup, facts, listen, environment)
    # At boot a daemon is started by its service, so that guests with autostart start with it
    wanted = [daemon.service for daemon in every if daemon.service in ("libvirtd.service", _QEMU)]
    wanted += [name for daemon in every for name in daemon.sockets]
    if any(block.path.endswith("qemu-lockd.conf") and block.lines for block in blocks):
        wanted.append(LOCK)
    off = [name for name in (*wanted, GUESTS) if _is_off(facts, name)]
    if off:
        steps.append(Control("enable", tuple(off)))
    if LOCK in wanted and not _active(facts, LOCK):
        steps.append(Control("start", (LOCK,)))
    changed = {write.path for write in writes}
    # A daemon keeps the sockets that it was passed, even after systemd has closed them
    stray = bool(facts.ports - allowed_ports(listen))
    for daemon in every:
        steps += _begin(daemon, facts, changed, stray and daemon.service == setup.service)
    if GUESTS in facts.units and not _active(facts, GUESTS):
        steps.append(Control("start", (GUESTS,)))
    return steps


_QEMU = "virtqemud.service"


def allowed_ports(listen: bool) -> frozenset[int]:
    """The ports that libvirt may listen on."""
    return frozenset({PORT} if listen else ())


def _begin(
    daemon: Daemon, facts: DaemonFacts, changed: t.AbstractSet[str], stray: bool
) -> list[Step]:
    service = facts.units.get(daemon.service, Unit("disabled"))
    shut = tuple(name for name in daemon.sockets if not _active(facts, name))
    stale = service.since is not None and any(
        facts.times.get(path, 0.0) > service.since for path in daemon.files
    )
    if service.active and (stray or shut or stale or changed & set(daemon.files)):
        # systemd opens no socket for a running service
        return [Restart(daemon.service, shut)]
    if not service.active and (shut or not daemon.sockets):
        # Without sockets nothing would start it; with them it may stay stopped until used
        return [Control("start", (*shut, daemon.service))]
    return []


def _refuse_other_leases(facts: DaemonFacts, writes: t.Sequence[Write]) -> None:
    for write in writes:
        if write.path != QEMU_CONF or not facts.guests_running:
            continue
        before, after = (
            dict(reversed(config_block.assignments(text.splitlines()))).get("lock_manager")
            for text in (write.before, write.after)
        )
        if before != after:
            raise PlanRefused(
                f"lockspace: lock_manager in {write.path} would change from {before or 'none'} to"
                f" {after or 'none'} while guests are running, which hold no leases or keep theirs;"
                " migrate them away or shut them down first"
            )


def _is_off(facts: DaemonFacts, name: str) -> bool:
    unit = facts.units.get(name)
    if unit is not None and unit.masked:
        raise PlanRefused(f"{name} is masked, so it cannot start: run systemctl unmask {name}")
    return unit is not None and unit.state == "disabled"


def _active(facts: DaemonFacts, name: str) -> bool:
    unit = facts.units.get(name)
    return unit is not None and unit.active
