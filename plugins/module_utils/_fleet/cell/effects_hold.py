# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holding a VM of a cell while a run works on it, and telling the cell of it afterwards.

Where a hypervisor is a member of no cell, or has a VM that is none's, all of this does nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..._libvirt import DOMAIN_RUNNING
from ..._records import dataclass
from ..base import effects_locks as locks
from ..base import effects_programs as programs
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_uuid, read_metadata
from ..cards import effects_cards, effects_keep, keep, read_cards
from ..cards import read_vms as cards
from . import hold as rules
from . import read
from .facts import HELD_BY

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Metadata
    from ..cards.card import CardFile
    from .facts import CellView, CellVm

_SECONDS = 60.0
_SEEN = 60.0  # in which Pacemaker has asked its agents what runs where
_STARTED = 180.0
_FAILED = 20.0  # after a failure, in which it may be tried on another member
_PAUSE = 0.5
_AGAIN = 15.0  # a QEMU that waited for a VM ends a while after its move was broken off
_NO_JOB = 0
_NO_DOMAIN_PHASES = ("creating", "purging")
# The locks of the VMs that this process holds, which end with it: so another one knows whether the
# run that held a VM lives
_working: dict[str, contextlib.ExitStack] = {}


def hold(connection: Connection, uuid: str | None) -> bool:
    """Have the cell leave the VM alone; whether it is a VM of this hypervisor's cell.

    Raises PlanRefused, having changed nothing, if the cell has no quorum here.
    """
    name = _name_in_cell(connection, uuid)
    if uuid is None or name is None:
        return False
    view = _view(name)
    if uuid not in _working:
        _working[uuid] = contextlib.ExitStack()
        try:
            _working[uuid].enter_context(locks.shared(f"cell-{uuid}", _SECONDS, "held {path}"))
        except PlanRefused:
            del _working[uuid]
            raise
    if uuid in view.vms:
        _leave_alone(name, uuid, view)
    return True


def _leave_alone(name: str, uuid: str, view: CellView) -> None:
    """Have the cell leave the VM alone. What it has begun goes on nevertheless, and may have the VM
    elsewhere in a moment: then nothing is done."""
    _require_rest(name, view, uuid)
    try:
        _set(uuid, HELD_BY, caller.host())
        _set(uuid, rules.MANAGED, "false")
        _require_rest(name, _view(name), uuid)
    except FleetVirtError:
        if view.vms[uuid].managed:
            with contextlib.suppress(FleetVirtError):
                _manage(uuid)
        raise


def _require_rest(name: str, view: CellView, uuid: str) -> None:
    problem = rules.refusal(name, caller.host(), view, uuid)
    if problem is not None:
        raise PlanRefused(problem)


@contextlib.contextmanager
def working(uuid: str, *, seconds: float = _SECONDS) -> t.Iterator[None]:
    """Be the only process of this hypervisor that holds the VM or has its cell manage it."""
    with locks.shared(f"cell-{uuid}", seconds, "held {path}"):
        yield


def is_held(uuid: str) -> bool:
    """Whether a process of this hypervisor works on the VM while its cell leaves it alone."""
    try:
        with locks.shared(f"cell-{uuid}", 0, "held {path}"):
            return False
    except PlanRefused:
        return True


def refusal(connection: Connection, uuid: str | None) -> str | None:
    """Why nothing may be done with the VM now; None if it may, or is none of a cell."""
    name = _name_in_cell(connection, uuid)
    view = None if name is None else read.here()
    return None if name is None or view is None else rules.refusal(name, caller.host(), view, uuid)


def settle(
    connection: Connection, name: str, uuid: str | None, *, held: bool, to: str | None = None
) -> None:
    """Have the cell manage the VM as it is now: a resource made, changed or removed, what runs
    where seen by Pacemaker, and ``is-managed=false`` taken back.

    ``held``: this run holds it. ``to`` is where it is if it has left. One whose move is open stays
    as it is, unless it executes here: both ends may have it. Raises PlanRefused, saying that it
    stays unmanaged and why.
    """
    if uuid is None or not connection.local or not read.is_member():
        return
    now = _read(connection, uuid)
    if not held and not (now is not None and now.is_new):
        return
    with _working.pop(uuid, contextlib.ExitStack()):
        _settle(connection, name, uuid, now, to)


def _settle(connection: Connection, name: str, uuid: str, now: _Now | None, to: str | None) -> None:
    try:
        view = _view(name)
        vm = view.vms.get(uuid)
        if now is None:
            _settle_gone(connection, name, uuid, vm, to)
        elif now.stored.phase == keep.MIGRATING and not _executes(connection, now.dom):
            raise PlanRefused("its move is not finished, so another hypervisor may have it")
        elif not now.stored.in_cell or (now.stored.phase in _NO_DOMAIN_PHASES and not now.active):
            _remove(uuid, vm)
        else:
            folder = _folder(connection, now.dom, name)
            _settle_here(uuid, folder, vm, running=now.active)
    except FleetVirtError as error:
        raise PlanRefused(rules.left(name, str(error))) from None


def follow_card(connection: Connection, name: str, uuid: str | None) -> None:
    """Have the cell know where the card of a VM that this run holds is by now: a run that is killed
    later leaves it where it would be looked for."""
    now = None if uuid is None or uuid not in _working else _read(connection, uuid)
    vm = None if now is None else _view(name).vms.get(str(uuid))
    if uuid is not None and now is not None and vm is not None:
        _set_folder(uuid, vm, _folder(connection, now.dom, name))


def repair(connection: Connection, name: str, uuid: str, *, to: str | None = None) -> None:
    """Have the cell manage a VM again that a run, which is dead, has held on this hypervisor, or on
    one that is proven off. The caller has the lease of the VM; ``to`` as for :func:`settle`."""
    if was_held(uuid):  # what it left here is what there is
        effects_keep.keep_cards(connection, [name], sure=True)
    settle(connection, name, uuid, held=True, to=to)


def was_held(uuid: str) -> bool:
    """Whether a run on this hypervisor holds the VM, or did when it died: the cell has not started
    it elsewhere since."""
    view = read.here()
    vm = None if view is None else view.vms.get(uuid)
    return vm is not None and not vm.managed and vm.by == caller.host()


def start(connection: Connection, name: str, vm: CellVm) -> None:
    """Have the cell start a VM that is off and defined nowhere, where it finds best; wait until it
    runs."""
    view = _view(name)
    problem = rules.no_start(name, view.cell, view.vms.get(vm.uuid, vm))
    if problem is not None:
        raise PlanRefused(problem)
    with effects_cards.lock():
        file = _card(connection, [vm.cards], name, vm.uuid)
        if file is None or file.card is None:
            raise PlanRefused(
                f"{name!r} has no card in {vm.cards}, so its cell cannot define it; see what is"
                " there, and restore it from a backup if its disks are gone"
            )
        if not file.card.running:
            card = dataclasses.replace(file.card, running=True, kept_by=None)
            connection.call(f"write the card of {name}", effects_cards.write, vm.cards, card)
    _set(vm.uuid, rules.TARGET, rules.STARTED)
    _call("crm_resource", "--cleanup", "--resource", rules.resource(vm.uuid))
    limit = give_up = time.monotonic() + _STARTED
    while True:
        view = _view(name)
        seen = view.vms.get(vm.uuid)
        if seen is not None and seen.nodes and not seen.failed and not seen.pending:
            return
        now = time.monotonic()
        refused = seen is not None and seen.failed and not seen.pending
        give_up = min(give_up, now + _FAILED) if refused else limit
        if now > give_up:
            reason = seen.reason if seen is not None else None
            raise PlanRefused(
                f"the cell {view.cell!r} has not started {name!r}"
                f"{f' ({reason})' if reason else ''}; it goes on trying, see crm_mon -1 on"
                f" {caller.host()}"
            )
        time.sleep(_PAUSE)


# --- what is there ---


@dataclass(frozen=True)
class _Now:
    """The VM as this hypervisor has it."""

    dom: VirDomain
    stored: Metadata
    active: bool

    @property
    def is_new(self) -> bool:
        """Whether it may have become one of the cell's VMs."""
        return self.stored.in_cell and self.stored.phase is None


def _name_in_cell(connection: Connection, uuid: str | None) -> str | None:
    """The name of a VM that this hypervisor has and its cell restarts; None of any other."""
    if uuid is None or not connection.local or not read.is_member():
        return None
    dom = find_uuid(connection, uuid)
    stored = None if dom is None else read_metadata(connection, dom)
    return str(dom.name()) if dom is not None and stored is not None and stored.in_cell else None


def _read(connection: Connection, uuid: str) -> _Now | None:
    dom = find_uuid(connection, uuid)
    stored = None if dom is None else read_metadata(connection, dom)
    if dom is None or stored is None:
        return None
    active = connection.call(f"read whether {dom.name()} runs", dom.isActive)
    return _Now(dom, stored, bool(active))


def _executes(connection: Connection, dom: VirDomain) -> bool:
    """Whether the guest runs, and libvirt does nothing with it that could change where."""
    name = dom.name()
    if connection.call(f"read the state of {name}", dom.state, 0)[0] != DOMAIN_RUNNING:
        return False
    return int(connection.call(f"read the job of {name}", dom.jobInfo)[0]) == _NO_JOB


def _view(name: str) -> CellView:
    """What Pacemaker says, if there is quorum."""
    view = read.here()
    if view is None:
        raise PlanRefused(f"{caller.host()} is in no cell any more")
    problem = rules.refusal(name, caller.host(), view)
    if problem is not None:
        raise PlanRefused(problem)
    return view


def _folder(connection: Connection, dom: VirDomain, name: str) -> str:
    """Where the VM's card is."""
    vm = cards.vm_of(connection, dom)
    shared = cards.shared_folders(connection)
    folder = None if vm is None else keep.place(cards.root(vm), shared)
    if folder is None:
        raise PlanRefused(f"the disks of {name!r} are not all on shared storage")
    return folder


def _card(
    connection: Connection, folders: t.Iterable[str], name: str, uuid: str
) -> CardFile | None:
    """The card of a VM that a cell runs; it may be another hypervisor's by now."""

    def look() -> list[CardFile]:
        return [
            file
            for folder in folders
            for file in read_cards.load_all(folder, lambda at: not at.hosts and at.name == name)
            if file.card is not None and file.card.uuid == uuid
        ]

    files = connection.call(f"look for the card of {name}", look)
    return files[0] if files else None


# --- what is told to Pacemaker ---


def _settle_gone(
    connection: Connection, name: str, uuid: str, vm: CellVm | None, to: str | None
) -> None:
    """The VM is not here any more: it has moved, or was removed."""
    if vm is None:
        return
    if vm.cards not in cards.shared_folders(connection):
        raise PlanRefused(f"{vm.cards}, which has its card, is not mounted on {caller.host()}")
    file = _card(connection, [vm.cards], name, uuid)
    if file is None:  # a run that moved its disks may have been killed before it said so
        folders = sorted({*cards.shared_folders(connection).values()} - {vm.cards})
        file = _card(connection, folders, name, uuid)
    if file is None or file.card is None:
        _remove(uuid, vm)
        return
    _set_folder(uuid, vm, file.folder)
    _refresh(uuid)
    if to is not None:
        _await(uuid, to, running=file.card.running)
    _manage(uuid)


def _settle_here(uuid: str, folder: str, vm: CellVm | None, *, running: bool) -> None:
    host = caller.host()
    role = rules.STARTED if running else rules.STOPPED
    if vm is None:
        xml = rules.primitive(uuid, folder, host, running=running)
        _call("cibadmin", "--create", "--scope", "resources", "--xml-pipe", text=xml)
    else:
        if vm.managed:
            _set(uuid, HELD_BY, host)
            _set(uuid, rules.MANAGED, "false")
        _set_folder(uuid, vm, folder)
        if vm.target_role != role:
            _set(uuid, rules.TARGET, role)
    _refresh(uuid)
    _await(uuid, host, running=running)
    _manage(uuid)


def _await(uuid: str, host: str, *, running: bool) -> None:
    """Wait until Pacemaker has seen the VM as it is: on ``host``, or off."""
    limit, again = time.monotonic() + _SEEN, time.monotonic() + _AGAIN
    while True:
        view = read.here()
        vm = None if view is None else view.vms.get(uuid)
        if vm is not None and rules.is_as_wanted(vm, host, running=running):
            return
        if time.monotonic() > again:
            _refresh(uuid)
            again = time.monotonic() + _AGAIN
        if time.monotonic() > limit:
            where = ", ".join(vm.nodes) if vm is not None else ""
            raise PlanRefused(
                f"for Pacemaker it is {f'on {where}' if where else 'off'} after {_SEEN:g} seconds"
            )
        time.sleep(_PAUSE)


def _refresh(uuid: str) -> None:
    """Have Pacemaker ask all members what they run of it."""
    _call("crm_resource", "--refresh", "--resource", rules.resource(uuid))


def _manage(uuid: str) -> None:
    for key in (rules.MANAGED, HELD_BY):  # a killed run leaves a name, never a VM that nobody holds
        _call("crm_resource", *_meta(uuid), "--delete-parameter", key)


def _remove(uuid: str, vm: CellVm | None) -> None:
    """Remove the resource, never the VM. An older cell would stop it, fail in that and fence the
    hypervisor: hence the property is read first."""
    if vm is None:
        return
    query = ("--type", "crm_config", "--name", rules.ORPHANS, "--query", "--quiet")
    done = programs.attempt(["crm_attribute", *query], seconds=_SECONDS)
    if done is None or done.out.strip() != "false":
        raise PlanRefused(
            f"the cell would stop what is removed from it ({rules.ORPHANS} is not false); run the"
            " playbook with the role fleet.virt.ha again, which sets that"
        )
    xml = f'<primitive id="{rules.resource(uuid)}"/>'
    _call("cibadmin", "--delete", "--scope", "resources", "--xml-pipe", text=xml)
    _refresh(uuid)


def _set_folder(uuid: str, vm: CellVm, folder: str) -> None:
    """Have the agent find the card there; as any parameter, while the VM is held."""
    if vm.cards != folder:
        name = rules.resource(uuid)
        _call("crm_resource", "--resource", name, "--set-parameter", "cards", "-v", folder)


def _set(uuid: str, key: str, value: str) -> None:
    words = ("--set-parameter", key, "--parameter-value", value)
    _call("crm_resource", *_meta(uuid), *words)


def _meta(uuid: str) -> tuple[str, ...]:
    return ("--resource", rules.resource(uuid), "--meta")


def _call(*argv: str, text: str | None = None) -> None:
    programs.run(list(argv), seconds=_SECONDS, text=text)
