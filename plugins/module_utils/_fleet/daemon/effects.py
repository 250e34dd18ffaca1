# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's daemons on this machine: reading and correcting their units and files."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t
from pathlib import Path

from ..._errors import DependencyMissing, FleetVirtError, PlanRefused
from ..._records import dataclass, field
from ..base import config_block
from ..base import effects_config_files as config_files
from ..base import effects_systemd as systemd
from ..base.config_block import Block
from ..base.effects_connection import connect
from ..hosts import host_info, machine_uuid
from ..hosts import read_listeners as listeners
from . import effects_autostart as daemon_autostart
from . import effects_kernel as daemon_kernel
from . import files as daemon_files
from . import identity as daemon_identity
from . import plan as daemon_plan
from . import read_consoles as daemon_consoles
from . import read_identity
from .consoles import require_closed
from .plan import Control, DaemonFacts, Restart, Shape, Step, Unit, Write

_KEYS = (
    "/etc/pki/CA/cacert.pem",
    "/etc/pki/libvirt/servercert.pem",
    "/etc/pki/libvirt/private/serverkey.pem",
)
_LENS = "/usr/share/augeas/lenses/libvirtd_qemu.aug"
_LOCKD_CONF = "/etc/libvirt/qemu-lockd.conf"
_RUNNING = "/run/libvirt/qemu"


@dataclass(frozen=True)
class DaemonSettings:
    """The module's options."""

    uri: str
    timeout: float
    listen: bool
    allowed: tuple[str, ...]
    qemu_conf: t.Mapping[str, object]
    lockspace: str | None
    postcopy: bool
    shutdown_timeout: int
    shutdown_parallel: int
    ordered_autostart: bool = True
    host_uuid_source: str | None = None
    # "ask": leave everything as it is where it is to be decided whether libvirt may take the
    # machine ID as its UUID; "take": it may
    stage: str = "all"


class Asks(t.TypedDict):
    """The result of a machine that was left as it is."""

    changed: bool
    asks: bool


class Returned(t.TypedDict):
    """The module's result."""

    changed: bool
    shape: str | None
    listening: bool
    reason: str | None
    steps: list[str]
    overruled: list[str]
    diff: list[dict[str, str]]


@dataclass
class _Result:
    shape: str | None = None
    listening: bool = False
    reason: str | None = None
    steps: list[str] = field(default_factory=list)
    overruled: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    def returned(self) -> Returned:
        return {
            "changed": bool(self.steps),
            "shape": self.shape,
            "listening": self.listening,
            "reason": self.reason,
            "steps": self.steps,
            "overruled": self.overruled,
            "diff": self.diff,
        }


def configure(settings: DaemonSettings, check: bool) -> Returned | Asks:
    """Configure libvirt's daemons according to the settings; in check mode, report the steps.

    Raises DependencyMissing without libvirt, except in check mode: it may be about to be installed.
    """
    units = _read_units()
    shape = daemon_plan.shape(units)
    if shape is None and not check:
        raise DependencyMissing(
            "no libvirt daemon is installed on this machine; the role fleet.virt.libvirtd installs"
            " it"
        )
    if shape is None:
        shape = Shape("sockets", "libvirtd", "/etc/libvirt/libvirtd.conf")
    environments = _environments(shape, units)
    identity = read_identity.read(shape.uuid_config)
    source = daemon_identity.source(identity, settings.host_uuid_source)
    if daemon_identity.needs(identity, settings.host_uuid_source):
        if settings.stage == "ask":
            return {"changed": False, "asks": True}
        if settings.stage == "take":
            source = daemon_identity.MACHINE_ID
    blocks, missing = _blocks(settings, shape, environments, source)
    facts = _read_facts(units, [block.path for block in blocks])
    listen = settings.listen and not missing
    steps = daemon_plan.plan(
        shape, facts, blocks, listen=listen, environment=environments[shape.service]
    )
    result = _Result(shape.name, listen)
    if settings.listen and missing:
        result.reason = f"no keys yet: {', '.join(missing)}"
    elif not settings.listen:
        result.reason = "switched off by the option listen"
    for block in blocks:
        result.overruled += config_block.overruled(facts.files.get(block.path, ""), block)
    _require_closed_screens(steps)
    kernel = daemon_kernel.read(settings.postcopy)
    at_boot = daemon_autostart.plan(wanted=settings.ordered_autostart)
    result.steps = [*(str(step) for step in steps), *kernel.steps, *at_boot.steps]
    result.diff = [*_diff(steps, blocks, kernel.steps), *at_boot.diff]
    if check:
        return result.returned()
    if steps or kernel.steps:
        _carry_out(steps, kernel, settings, units, daemon_identity.expected(identity, source))
    at_boot.apply()
    _no_other_port(listen)
    return result.returned()


def _require_closed_screens(steps: t.Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, Write) and step.path == daemon_plan.QEMU_CONF:
            require_closed(step.before, step.after, daemon_consoles.open_screens())


def _blocks(
    settings: DaemonSettings,
    shape: Shape,
    environments: t.Mapping[str, str],
    source: str | None,
) -> tuple[list[Block], tuple[str, ...]]:
    missing = tuple(path for path in _KEYS if not os.path.exists(path))
    known = _known()
    own = daemon_identity.lines(source)
    apart = shape.uuid_config != shape.config
    blocks = [
        Block(
            shape.config,
            (*daemon_files.daemon(settings.allowed), *(() if apart else own)),
            top=True,
        ),
        Block(
            daemon_plan.QEMU_CONF,
            daemon_files.qemu(settings.qemu_conf, known, settings.lockspace),
            top=True,
        ),
        Block(
            environments[daemon_plan.GUESTS],
            daemon_files.guests(settings.shutdown_timeout, settings.shutdown_parallel),
            top=False,
        ),
        Block(_LOCKD_CONF, daemon_files.lockd(settings.lockspace), top=True),
    ]
    if apart:
        blocks.append(Block(shape.uuid_config, own, top=True))
    if shape.name == "listen":
        path = environments[shape.service]
        _ours, others = config_block.split(config_files.read(path) or "", path)
        before = dict(config_block.assignments(others)).get("LIBVIRTD_ARGS", "")
        lines = daemon_files.arguments(before, settings.listen and not missing)
        blocks.append(Block(path, lines, top=False))
    return blocks, missing


def _known() -> frozenset[str] | None:
    """The settings that qemu.conf supports here: as shipped it lists all, and so does its lens."""
    texts = [config_files.read(path) for path in (daemon_plan.QEMU_CONF, _LENS)]
    lens = frozenset(part for part in (texts[1] or "").split('"') if part.isidentifier())
    known = config_block.named(texts[0] or "") | lens
    return known or None


def _read_facts(units: dict[str, Unit], paths: t.Sequence[str]) -> DaemonFacts:
    files = {path: text for path in paths if (text := config_files.read(path)) is not None}
    now = time.time()
    times = {path: os.stat(path).st_mtime for path in files}
    return DaemonFacts(
        units,
        files,
        # A time in the future is ignored: the clock was wrong
        {path: changed for path, changed in times.items() if changed <= now},
        frozenset(listeners.ports(listeners.LIBVIRT)),
        guests_running=any(Path(_RUNNING).glob("*.xml")),
    )


# systemd


def _read_units() -> dict[str, Unit]:
    # It fails if there are none
    listed = systemd.systemctl(
        "--no-legend", "--plain", "list-unit-files", "libvirt*", "virt*", may_fail=True
    )
    states = {}
    for line in listed.splitlines():
        name, state = line.split()[:2]
        if name.endswith((".service", ".socket")) and "@" not in name:
            states[name] = state
    if not states:
        return {}
    properties = "--property=Id,ActiveState,ExecMainStartTimestampMonotonic"
    shown = systemd.systemctl("show", properties, *sorted(states))
    by_name = {name: Unit(state) for name, state in states.items()}
    booted = time.time() - time.monotonic()
    for block in shown.split("\n\n"):
        fields = dict(line.partition("=")[::2] for line in block.splitlines())
        name = fields.get("Id", "")
        if name in states:
            active = fields.get("ActiveState") in ("active", "activating", "reloading")
            started = int(fields.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
            since = booted + started if active and started else None
            by_name[name] = Unit(states[name], active, since)
    return by_name


def _environments(shape: Shape, units: t.Mapping[str, Unit]) -> dict[str, str]:
    """The environment file of each service, as named in its unit."""
    folder = "/etc/sysconfig" if os.path.isdir("/etc/sysconfig") else "/etc/default"
    names = (shape.service, daemon_plan.GUESTS)
    paths = {name: f"{folder}/{name.partition('.')[0]}" for name in names}
    for name in names:
        if name in units:
            shown = systemd.systemctl("show", "--property=EnvironmentFiles", "--value", name)
            if shown.strip():
                paths[name] = shown.split()[0]
    return paths


# Carrying it out


def _carry_out(
    steps: t.Sequence[Step],
    kernel: daemon_kernel.KernelPlan,
    settings: DaemonSettings,
    units: t.Mapping[str, Unit],
    uuid: str | None,
) -> None:
    """Carry out the steps and check that libvirt responds; if not, roll everything back."""
    files: dict[str, str | None] = {
        step.path: step.after for step in steps if isinstance(step, Write)
    }
    done: list[Step] = []
    began = int(time.time())
    try:
        with config_files.replaced({**files, **kernel.files}):
            kernel.apply()
            try:
                for step in steps:
                    if not isinstance(step, Write):
                        done.append(step)
                        _do(step)
                if steps:
                    _require_answer(settings, uuid)
            except FleetVirtError as error:
                raise _NotWorking(str(error)) from error
    except _NotWorking as error:  # the former files are back
        stderr = systemd.complaints(began, str(error))
        _undo(done, _open_sockets(units))
        raise PlanRefused(
            f"libvirt does not work with these settings, so they were rolled back: {error}"
            f"{stderr and '; its log: '}{stderr}"
        ) from error


class _NotWorking(Exception):
    """With the new files, libvirt does not start or does not respond."""


def _require_answer(settings: DaemonSettings, uuid: str | None) -> None:
    """Raise FleetVirtError if libvirt does not respond, or has not this UUID of the machine."""
    with connect(settings.uri, settings.timeout) as connection:
        connection.call("read the version", connection.conn.getLibVersion)
        if uuid is None or not connection.local:
            return
        text = connection.call("read capabilities", connection.conn.getCapabilities)
        seen = host_info.capabilities(text, "capabilities")["uuid"] or ""
    if machine_uuid.plain(seen) != uuid:
        raise FleetVirtError(f"libvirt's UUID of this machine is {seen}, not its machine ID {uuid}")


def _do(step: Step) -> None:
    if isinstance(step, Restart):
        systemd.restart(step.service, step.sockets)
    elif not isinstance(step, Control):
        raise AssertionError("files are all replaced before")
    elif step.verb == "start" and any(name.endswith(".socket") for name in step.units):
        # It was idle when it was checked; by now it may be starting, or still stopping
        systemd.restart(step.units[-1], step.units[:-1])
    else:
        systemd.systemctl(*step.verb.split(), *step.units)


def _open_sockets(units: t.Mapping[str, Unit]) -> list[str]:
    """The sockets of the daemons that are restarted."""
    others = ("virtlockd", "virtlogd")
    return [
        name
        for name, unit in units.items()
        if name.endswith(".socket") and unit.active and not name.startswith(others)
    ]


def _undo(done: t.Sequence[Step], sockets: t.Sequence[str]) -> None:
    """Restart the daemons with the former files and the sockets that were open before."""
    services: list[str] = []
    for step in reversed(done):
        with contextlib.suppress(FleetVirtError):
            if isinstance(step, Control) and step.verb == "enable":
                opened = [unit for unit in step.units if unit.endswith("-tls.socket")]
                if opened:
                    systemd.systemctl("disable", "--now", *opened)
            elif isinstance(step, Restart):
                services.append(step.service)
            elif isinstance(step, Control) and step.verb == "start":
                never = (daemon_plan.GUESTS, daemon_plan.LOCK)
                services += [unit for unit in step.units if unit not in never]
    services = [unit for unit in dict.fromkeys(services) if unit.endswith(".service")]
    if not services:
        return
    # systemd closes the sockets of a service that failed too often
    for words in (("stop", *services), ("reset-failed", *services, *sockets)):
        with contextlib.suppress(FleetVirtError):
            systemd.systemctl(*words)
    for word in (*sockets, *services):
        with contextlib.suppress(FleetVirtError):
            systemd.systemctl("start", word)


def _no_other_port(listen: bool) -> None:
    ports = frozenset(listeners.ports(listeners.LIBVIRT))
    others = sorted(ports - daemon_plan.allowed_ports(listen))
    if others:
        raise PlanRefused(
            f"libvirt listens on port {', '.join(map(str, others))}, which no setting of this role"
            " opens; find the unit that opens it (systemctl list-sockets) and disable it"
        )


def _diff(
    steps: t.Sequence[Step], blocks: t.Sequence[Block], kernel: t.Sequence[str]
) -> list[dict[str, str]]:
    """Our blocks before and after; the rest of the files may contain secrets."""
    diffs = []
    top = {block.path for block in blocks}
    for step in steps:
        if isinstance(step, Write) and step.path in top:
            before, after = (
                "".join(f"{line}\n" for line in config_block.split(text, step.path)[0])
                for text in (step.before, step.after)
            )
            diffs.append(
                {"before_header": step.path, "before": before}
                | {"after_header": step.path, "after": after}
            )
    units = [str(step) for step in steps if not isinstance(step, Write)]
    units += kernel
    if units:
        diffs.append({"prepared": "".join(f"+ {unit}\n" for unit in units)})
    return diffs
