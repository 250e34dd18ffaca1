# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's daemons on this machine: reading their units and files, and putting them right.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from .._errors import DependencyMissing, FleetVirtError, PlanRefused
from .._model import config_block, daemon_files, daemon_plan
from .._model.config_block import Block
from .._model.daemon_plan import Control, Facts, Restart, Shape, Step, Unit, Write
from . import config_files, listeners
from .connection import connect

_KEYS = (
    "/etc/pki/CA/cacert.pem",
    "/etc/pki/libvirt/servercert.pem",
    "/etc/pki/libvirt/private/serverkey.pem",
)
_LENS = "/usr/share/augeas/lenses/libvirtd_qemu.aug"
_LOCKD_CONF = "/etc/libvirt/qemu-lockd.conf"
_SYSCTL = "/etc/sysctl.d/60-fleet-virt-libvirtd.conf"
_USERFAULT = "/proc/sys/vm/unprivileged_userfaultfd"
_RUNNING = "/run/libvirt/qemu"
# Words of libvirt's daemons, and of systemd when it cannot open a port
_COMPLAINT = re.compile(r"failed: |Failed to create listening socket")
_COMPLAINING = (
    *("libvirtd.service", "virtqemud.service", "virtproxyd.service"),
    *("libvirtd-tls.socket", "virtproxyd-tls.socket"),
)
_LIMIT = 120.0
_TRIES = 20


@dataclass(frozen=True)
class Settings:
    """What the module's options say."""

    uri: str
    timeout: float
    listen: bool
    allowed: tuple[str, ...]
    qemu_conf: t.Mapping[str, t.Any]
    lockspace: str | None
    postcopy: bool
    shutdown_timeout: int
    shutdown_parallel: int


@dataclass
class _Result:
    shape: str | None = None
    listening: bool = False
    reason: str | None = None
    steps: list[str] = field(default_factory=list)
    overruled: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    def returned(self) -> dict[str, t.Any]:
        return {
            "changed": bool(self.steps),
            "shape": self.shape,
            "listening": self.listening,
            "reason": self.reason,
            "steps": self.steps,
            "overruled": self.overruled,
            "diff": self.diff,
        }


def configure(settings: Settings, check: bool) -> dict[str, t.Any]:
    """Have libvirt's daemons as the settings want them; in check mode, say what that takes.

    Raises DependencyMissing without libvirt, except in check mode: it may be about to be installed.
    """
    units = _read_units()
    found = daemon_plan.shape(units)
    if found is None and not check:
        raise DependencyMissing(
            "libvirt's daemon is not installed here; the role fleet.virt.libvirtd installs it"
        )
    if found is None:
        found = Shape("sockets", "libvirtd", "/etc/libvirt/libvirtd.conf")
    environments = _environments(found, units)
    blocks, missing = _blocks(settings, found, environments)
    facts = _read_facts(units, [block.path for block in blocks])
    listen = settings.listen and not missing
    steps = daemon_plan.plan(
        found, facts, blocks, listen=listen, environment=environments[found.service]
    )
    result = _Result(found.name, listen)
    if settings.listen and missing:
        result.reason = f"no keys yet: {', '.join(missing)}"
    elif not settings.listen:
        result.reason = "switched off by the option listen"
    for block in blocks:
        result.overruled += config_block.overruled(facts.files.get(block.path, ""), block)
    kernel = _kernel_steps(settings.postcopy, check)
    result.steps = [*(str(step) for step in steps), *kernel]
    result.diff = _diff(steps, blocks, kernel)
    if check:
        return result.returned()
    if steps:
        _carry_out(steps, settings, units)
    _no_other_port(listen)
    return result.returned()


def _blocks(
    settings: Settings, found: Shape, environments: t.Mapping[str, str]
) -> tuple[list[Block], tuple[str, ...]]:
    missing = tuple(path for path in _KEYS if not os.path.exists(path))
    known = _known()
    blocks = [
        Block(found.config, daemon_files.daemon(settings.allowed), top=True),
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
    if found.name == "listen":
        path = environments[found.service]
        _ours, others = config_block.split(config_files.read(path) or "", path)
        before = dict(config_block.assignments(others)).get("LIBVIRTD_ARGS", "")
        lines = daemon_files.arguments(before, settings.listen and not missing)
        blocks.append(Block(path, lines, top=False))
    return blocks, missing


def _known() -> frozenset[str] | None:
    """The settings qemu.conf may have here: as shipped it names all, and so does its lens."""
    texts = [config_files.read(path) for path in (daemon_plan.QEMU_CONF, _LENS)]
    lens = frozenset(part for part in (texts[1] or "").split('"') if part.isidentifier())
    known = config_block.named(texts[0] or "") | lens
    return known or None


def _read_facts(units: dict[str, Unit], paths: t.Sequence[str]) -> Facts:
    files = {path: text for path in paths if (text := config_files.read(path)) is not None}
    now = time.time()
    times = {path: os.stat(path).st_mtime for path in files}
    return Facts(
        units,
        files,
        # A file from the future says nothing: the clock was wrong
        {path: changed for path, changed in times.items() if changed <= now},
        frozenset(listeners.ports(listeners.LIBVIRT)),
        guests_running=any(Path(_RUNNING).glob("*.xml")),
    )


# systemd


def systemctl(*words: str, may_fail: bool = False) -> str:
    """What ``systemctl`` prints; raises PlanRefused with its words when it fails."""
    command = ["systemctl", "--no-pager", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT, check=False, stdin=_NULL
        )
    except FileNotFoundError:
        raise DependencyMissing("systemctl is missing: this collection needs systemd") from None
    except subprocess.TimeoutExpired:
        raise PlanRefused(f"{' '.join(command)}: no end within {_LIMIT:g} seconds") from None
    if done.returncode and not may_fail:
        said = (done.stderr or done.stdout).strip()
        raise PlanRefused(f"{' '.join(command)} failed: {said}")
    return done.stdout


_NULL = subprocess.DEVNULL


def _read_units() -> dict[str, Unit]:
    # It fails where there are none
    listed = systemctl(
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
    shown = systemctl("show", properties, *sorted(states))
    found = {name: Unit(state) for name, state in states.items()}
    booted = time.time() - time.monotonic()
    for block in shown.split("\n\n"):
        fields = dict(line.partition("=")[::2] for line in block.splitlines())
        name = fields.get("Id", "")
        if name in states:
            active = fields.get("ActiveState") in ("active", "activating", "reloading")
            began = int(fields.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
            since = booted + began if active and began else None
            found[name] = Unit(states[name], active, since)
    return found


def _environments(found: Shape, units: t.Mapping[str, Unit]) -> dict[str, str]:
    """The file with the settings of a service, as its unit names it."""
    folder = "/etc/sysconfig" if os.path.isdir("/etc/sysconfig") else "/etc/default"
    names = (found.service, daemon_plan.GUESTS)
    paths = {name: f"{folder}/{name.partition('.')[0]}" for name in names}
    for name in names:
        if name in units:
            shown = systemctl("show", "--property=EnvironmentFiles", "--value", name)
            if shown.strip():
                paths[name] = shown.split()[0]
    return paths


# Carrying it out


def _carry_out(steps: t.Sequence[Step], settings: Settings, units: t.Mapping[str, Unit]) -> None:
    """Do it, and see that libvirt answers; if it does not, put everything back."""
    done: list[Step] = []
    began = int(time.time())
    try:
        for step in steps:
            done.append(step)
            _do(step)
        with connect(settings.uri, settings.timeout) as connection:
            connection.call("ask for the version", connection.raw.getLibVersion)
    except FleetVirtError as error:
        said = _journal(began)
        _undo(done, _open_sockets(units))
        raise PlanRefused(
            f"libvirt does not work with these settings, so the former ones are back: {error}"
            f"{said and '; its log: '}{said}"
        ) from error


def _do(step: Step) -> None:
    if isinstance(step, Write):
        config_files.write(step.path, step.after)
    elif isinstance(step, Restart):
        _restart(step)
    elif step.verb == "start" and any(name.endswith(".socket") for name in step.units):
        # It was idle when it was looked at; by now it may begin, or still be ending
        _restart(Restart(step.units[-1], step.units[:-1]))
    else:
        systemctl(*step.verb.split(), *step.units)


def _restart(step: Restart) -> None:
    """Guests go on: they are no children of the daemon that systemd would end with it."""
    if not step.sockets:
        systemctl("restart", step.service)
        return
    for left in range(_TRIES, 0, -1):
        systemctl("stop", step.service)
        # One that failed too often, without keys perhaps, is not started again before
        systemctl("reset-failed", step.service, *step.sockets, may_fail=True)
        try:
            systemctl("start", *step.sockets)
            break
        except PlanRefused:
            # Somebody asked in between, and an open socket has begun the service again
            if left == 1 or not _is_active(step.service):
                raise
    systemctl("start", step.service)


def _is_active(service: str) -> bool:
    return "ActiveState=active" in systemctl("show", "--property=ActiveState", service)


def _open_sockets(units: t.Mapping[str, Unit]) -> list[str]:
    """The sockets of the daemons that begin anew."""
    others = ("virtlockd", "virtlogd")
    return [
        name
        for name, unit in units.items()
        if name.endswith(".socket") and unit.active and not name.startswith(others)
    ]


def _undo(done: t.Sequence[Step], sockets: t.Sequence[str]) -> None:
    """The former files, and the daemons with the sockets that were open before."""
    services: list[str] = []
    for step in reversed(done):
        with contextlib.suppress(FleetVirtError):
            if isinstance(step, Write):
                config_files.write(step.path, step.before)
            elif isinstance(step, Control) and step.verb == "enable":
                opened = [unit for unit in step.units if unit.endswith("-tls.socket")]
                if opened:
                    systemctl("disable", "--now", *opened)
            elif isinstance(step, Restart):
                services.append(step.service)
            elif step.verb == "start":
                kept = (daemon_plan.GUESTS, daemon_plan.LOCK)
                services += [one for one in step.units if one not in kept]
    services = [one for one in dict.fromkeys(services) if one.endswith(".service")]
    if not services:
        return
    # systemd closes the sockets of a service that failed too often
    for words in (("stop", *services), ("reset-failed", *services, *sockets)):
        with contextlib.suppress(FleetVirtError):
            systemctl(*words)
    for word in (*sockets, *services):
        with contextlib.suppress(FleetVirtError):
            systemctl("start", word)


def _journal(began: int) -> str:
    """What libvirt's daemons complained of since then; it may take a moment to be there."""
    command = ["journalctl", "--no-pager", "--output=cat", f"--since=@{began}"]
    command += [f"_SYSTEMD_UNIT={unit}" for unit in _COMPLAINING]
    # systemd opens a port in a short-lived child, which is gone before the journal asks for its
    # unit; --unit finds only what the first process says of a unit
    command += ["+", *(f"UNIT={unit}" for unit in _COMPLAINING)]
    for _try in range(_TRIES):
        try:
            # what a busy machine has still to write, too
            for words in (["journalctl", "--sync"], command):
                done = subprocess.run(
                    words, capture_output=True, text=True, timeout=_LIMIT, check=False, stdin=_NULL
                )
        except (FileNotFoundError, subprocess.TimeoutExpired):
            break
        lines = [line for line in done.stdout.splitlines() if _COMPLAINT.search(line)]
        if lines:
            return " | ".join(dict.fromkeys(lines[-3:]))
        time.sleep(0.1)
    return ""


def _no_other_port(listen: bool) -> None:
    found = frozenset(listeners.ports(listeners.LIBVIRT))
    others = sorted(found - daemon_plan.allowed_ports(listen))
    if others:
        raise PlanRefused(
            f"libvirt listens on port {', '.join(map(str, others))}, which no setting of this role"
            " opens; find out which unit does (systemctl list-sockets) and switch it off"
        )


# The kernel


def _kernel_steps(postcopy: bool, check: bool) -> list[str]:
    """Let QEMU, as its own user, receive a guest's memory while the guest runs (post-copy)."""
    text = "vm.unprivileged_userfaultfd = 1\n" if postcopy else None
    steps = []
    before = config_files.read(_SYSCTL)
    if before != text:
        steps.append(f"{'write' if text else 'remove'} {_SYSCTL}")
        if not check and text:
            config_files.write(_SYSCTL, text)
        elif not check:
            os.unlink(_SYSCTL)
    live = (config_files.read(_USERFAULT) or "1").strip()
    if postcopy and live != "1":
        steps.append(f"set {_USERFAULT} to 1")
        if not check:
            try:
                Path(_USERFAULT).write_text("1\n", encoding="ascii")
            except OSError as error:
                raise PlanRefused(
                    f"postcopy: {_USERFAULT} cannot be set ({error.strerror}); a container cannot"
                    " do that, its machine has to"
                ) from None
    return steps


def _diff(
    steps: t.Sequence[Step], blocks: t.Sequence[Block], kernel: t.Sequence[str]
) -> list[dict[str, str]]:
    """Our blocks before and after: what else is in the files may be a secret."""
    found = []
    top = {block.path for block in blocks}
    for step in steps:
        if isinstance(step, Write) and step.path in top:
            before, after = (
                "".join(f"{line}\n" for line in config_block.split(text, step.path)[0])
                for text in (step.before, step.after)
            )
            found.append(
                {"before_header": step.path, "before": before}
                | {"after_header": step.path, "after": after}
            )
    units = [str(step) for step in steps if not isinstance(step, Write)]
    units += kernel
    if units:
        found.append({"prepared": "".join(f"+ {unit}\n" for unit in units)})
    return found
