# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing an existing VM: its current state, and the changes it needs."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ... import _lxml
from ..._errors import LibvirtFailure, PlanRefused, error_message
from ..._libvirt import (
    DOMAIN_RUNNING,
    DOMAIN_XML_INACTIVE,
    DOMAIN_XML_SECURE,
)
from ..._records import dataclass, field
from ..._units import MIB
from ..base.effects_lookup import AFFECT_CONFIG, is_saved, read_metadata, write_metadata
from ..base.json_values import require_type
from ..base.metadata import BEGUN, Metadata, Owner, OwnVolume
from ..base.settings import Setting
from ..base.states import reason_name, state_name
from ..engine import effects_verb as verb
from ..engine.steps import Plan, Step, predict
from ..hosts import read_secrets as secrets
from ..hosts.read_host import is_in_maintenance
from ..placement import demand
from ..spec import difference, difference_devices, settings
from ..spec.devices import Disk
from ..spec.domain import Domain
from ..state.actions import StateFacts
from ..storage import huge_pages
from . import definition, power
from . import plan as change_plan
from . import read_accepted as accepted
from . import read_schema as schema
from .actions import ForgetLeft
from .definition import DefinitionRequest, Device
from .effects_batch import DiskPlan, Draft, Host, ProvisionJob
from .pending import pending
from .plan import PHASE, Changed, ChangeFacts, Converged
from .power import Power
from .remains import is_attached

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..base.effects_connection import Connection
    from . import read_capacity as creation_capacity

_WHOLE = DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE
_SECONDS = 300.0


@dataclass
class ChangeJob(ProvisionJob[ChangeFacts]):
    """An existing VM, its specification, and the steps to get there.

    ``after`` is the VM after the steps so far, ``waits`` are settings that wait for its next start.
    ``held``: it is marked as being changed. ``remaining`` are the problems of rolling back.
    """

    dom: VirDomain
    wanted: DefinitionRequest
    volumes: dict[str, OwnVolume]
    plans: dict[str, DiskPlan]
    changes: tuple[Changed, ...]
    owner: Owner = field(init=False)
    power: Power = field(default_factory=lambda: Power("running"), init=False)
    waits: list[str] = field(default_factory=list, init=False)
    held: bool = field(default=False, init=False)
    remaining: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.existed = True

    @property
    def has_work(self) -> bool:
        return bool(self.plan.steps or self.power.steps)

    @property
    def added_macs(self) -> list[str]:
        """Those of NICs that are added."""
        if not self.plan.steps:
            return []
        root = _lxml.parse(self.facts.inactive, self.name)
        return difference_devices.added_macs(self.domain, root, self.facts.metadata)

    @property
    def differences(self) -> list[str]:
        """The changes, for users."""
        texts = [setting.text for setting in self.changes]
        if self.plan.steps and not texts:
            return ["complete what an earlier run has begun"]
        return texts

    def waiting(self, facts: ChangeFacts | None = None) -> list[str]:
        """The settings that wait for the next start, once the plan is carried out or then."""
        facts = facts or predict(self.facts, self.plan.steps)
        return pending(facts.inactive, facts.live, self.domain.xml)

    def entry(self) -> verb.Shown:
        steps = [*self.differences, *self.power.steps]
        return {
            **super().entry(),
            # also of one that is yet to be changed: they identify it
            "steps": steps if self.altered or (self.has_work and not self.problem) else [],
            "restart_required": bool(self.waits),
            "pending": self.waits,
            "state": None if self.problem else self.power.after,
            "started": self.altered and bool(self.power.steps),
            "note": None if self.plan.refusals else "; ".join(filter(None, self._notes())) or None,
        }

    def _notes(self) -> list[str]:
        left = [step.action for step in self.plan.steps]
        stay = [self.facts.stays[one.volume.path] for one in left if isinstance(one, ForgetLeft)]
        return [self.power.note, *stay]

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        before = {setting.path: setting.real for setting in self.changes}
        after = {setting.path: setting.asked for setting in self.changes}
        if self.power.steps:
            before["state"], after["state"] = self.power.state, self.power.after
        return before, after

    def step_is_done(self) -> None:
        self.after = self.following()
        super().step_is_done()

    def following(self) -> ChangeFacts:
        """The VM after the step, with the owner and the created files, known to the run only."""
        step: Step[ChangeFacts] = self.step
        before, after = self.after.metadata, step.effect(self.after)
        made = {volume.path: volume.made for volume in before.volumes}
        volumes = tuple(
            dataclasses.replace(volume, made=made.get(volume.path, volume.made))
            for volume in after.metadata.volumes
        )
        owner = before.owner if after.metadata.phase is not None else None
        stored = dataclasses.replace(after.metadata, volumes=volumes, owner=owner)
        return dataclasses.replace(after, metadata=stored)

    def stays(self, error: Exception) -> None:
        text = f"could not roll back {self.step.text!r}: {error_message(error)}"
        self.remaining.append(text)  # the other steps are to be undone nevertheless

    def finish(self) -> None:
        """Release the VM, unless its steps were undone, which ends the mark."""
        if not self.held or self.undoing:
            return
        stored = read_metadata(self.connection, self.dom)
        owner = self.after.metadata.owner
        if stored is not None and stored.phase == PHASE and stored.owner == owner:
            self.write(dataclasses.replace(stored, phase=None, owner=None))

    # --- what several steps need ---

    def call(self, action: str, function: t.Callable[..., object], *arguments: object) -> None:
        """Call libvirt, which may take long."""
        self.connection.call(f"{action} of {self.name}", function, *arguments, seconds=_SECONDS)

    def live(self) -> Element:
        """The running VM."""
        text = self.connection.call(f"read domain {self.name}", self.dom.XMLDesc, DOMAIN_XML_SECURE)
        return _lxml.parse(text, f"domain {self.name}")

    def before(self) -> Element:
        """The running VM as it was."""
        return _lxml.parse(self.facts.live or "", self.name)

    def located(self, root: Element, device: Device) -> Element | None:
        """The device in ``root``."""
        return definition.located(root, self.domain, device, self.after.metadata)

    def write(self, stored: Metadata, flags: int = AFFECT_CONFIG) -> None:
        """Replace our metadata."""
        write_metadata(self.connection, self.dom, stored, flags)


def look(
    host: Host, dom: VirDomain, stored: Metadata, domain: Domain, inactive: str | None = None
) -> ChangeJob:
    """Plan the changes of a domain that this collection created; ``inactive`` is its definition,
    if it was just read."""
    bases = {key: base.path for key, base in host.settings.images.items() if base is not None}
    facts = read(host.connection, dom, stored, domain, inactive)
    differing = change_plan.differences(facts, DefinitionRequest(domain, ""), facts.inactive)
    paths = {setting.path for setting in differing} | _unplugged(facts, domain)
    missing = [disk for disk in domain.disks if f"disks.{disk.name}" in paths]
    sizes, problems = demand.disk_sizes(domain, host.settings.facts)
    if problems:
        raise PlanRefused("; ".join(map(str, problems)))
    plans = {}
    for disk in missing:
        if disk.device == "disk" and not disk.exists:
            base = host.settings.images.get(disk.image.value) if disk.image else None
            pool, name = host.pool(disk.pool), domain.volume_name(disk)
            plans[disk.name] = DiskPlan(disk, disk.pool, pool, name, sizes[disk.name], base)
    volumes = {
        name: OwnVolume(plan.pool.name, plan.volume, plan.path, name, "new", BEGUN)
        for name, plan in plans.items()
    }
    own = [volume.path for volume in (*volumes.values(), *stored.volumes)]
    there = frozenset(path for path in own if os.path.lexists(path))
    text = (
        _rendered(host, domain, missing, list(plans.values()), str(dom.UUIDString()))
        if paths
        else ""
    )
    wanted = DefinitionRequest(domain, text, tuple(disk.name for disk in missing), bases)
    facts = dataclasses.replace(facts, files=there, stays=_stays(host, dom, stored, domain))
    converged = change_plan.plan(facts, wanted, volumes, None if bases else differing)
    plan = _accepted(host, facts, converged)
    new = [disk.base.path for disk in plans.values() if disk.base and disk.disk.overlay]
    plan = accepted.by_cell(host.connection, dom, facts, plan, new)
    uuid = str(dom.UUIDString())
    _require_sources(host, missing, uuid)
    if "xml" in {setting.path for setting in converged.changes}:
        whose = f"the fragment xml of {domain.name!r}"
        schema.require_valid(whose, predict(facts, plan.steps).inactive)
    job = ChangeJob(
        *(host.connection, domain.name, uuid, facts, plan, host, domain),
        *(dom, wanted, volumes, plans, converged.changes),
    )
    job.power = _power(job)
    return job


def _power(job: ChangeJob) -> Power:
    """Whether the VM is to be started once it is changed, and may be."""
    facts, domain = job.facts, job.domain
    now = StateFacts(
        facts.name,
        facts.state,
        facts.reason,
        active=facts.live is not None,
        managed_save=facts.saved,
    )
    if not (power.says_start(domain) and power.is_off(now)):
        return power.decide(domain, now, first=facts.metadata.first_boot)
    from ..state import read_start_blockers as start_blockers  # few VMs are off and to be started

    settings = job.host.settings
    after = predict(facts, job.plan.steps).inactive
    incoming = [*(volume.path for volume in job.volumes.values()), *job.wanted.bases.values()]
    return power.decide(
        domain,
        now,
        maintenance=is_in_maintenance(
            job.connection, settings.base_pool, settings.pool_paths.get(settings.base_pool)
        ),
        blockers=start_blockers.read(job.connection, job.dom, after, incoming),
    )


def _unplugged(facts: ChangeFacts, domain: Domain) -> set[str]:
    """The requested devices that the running VM has not, whatever its definition says."""
    if facts.live is None:
        return set()
    devices = {f"disks.{disk.name}" for disk in domain.disks}
    devices |= {f"nics.{nic.name}" for nic in domain.nics}
    changes = change_plan.differences(facts, DefinitionRequest(domain, ""), facts.live)
    return devices & {change.path for change in changes}


def _accepted(host: Host, facts: ChangeFacts, converged: Converged) -> Plan[ChangeFacts]:
    """The plan; refused if libvirt would refuse its definition."""
    plan = converged.plan
    if not plan.steps or not converged.changes:
        return plan
    after = predict(facts, plan.steps).inactive
    if after == facts.inactive:
        return plan
    problem = accepted.refusal(host.connection, facts.name, facts.inactive, after)
    return plan if problem is None else Plan(refusals=(problem,))


def _require_sources(host: Host, missing: t.Sequence[Disk], uuid: str) -> None:
    problems = []
    if any(disk.encryption_secret for disk in missing):
        problems = secrets.problems(host.connection, host.settings.home, missing)
    if any(disk.exists for disk in missing):
        from . import read_sources as sources  # few VMs have a disk that is not their own

        problems += sources.problems(host, missing, uuid)
    if problems:
        raise PlanRefused("; ".join(problems))


def reread(job: ChangeJob) -> ChangeFacts:
    """Read the current facts."""
    stored = read_metadata(job.connection, job.dom) or Metadata()
    facts = read(job.connection, job.dom, stored, job.domain)
    own = [volume.path for volume in (*stored.volumes, *job.volumes.values())]
    there = frozenset(path for path in (*job.facts.files, *own) if os.path.lexists(path))
    return dataclasses.replace(facts, files=there, stays=job.facts.stays)


def read_inactive(connection: Connection, dom: VirDomain, name: str) -> str:
    """The domain's definition, with what libvirt shows only if asked for."""
    return str(connection.call(f"read domain {name}", dom.XMLDesc, _WHOLE))


def read(
    connection: Connection,
    dom: VirDomain,
    stored: Metadata,
    domain: Domain,
    inactive: str | None = None,
) -> ChangeFacts:
    """Read the domain from libvirt, but for its definition if that is given."""
    name = domain.name
    if inactive is None:
        inactive = read_inactive(connection, dom, name)
    active = bool(connection.call(f"read the state of {name}", dom.isActive))
    live = (
        connection.call(f"read domain {name}", dom.XMLDesc, DOMAIN_XML_SECURE) if active else None
    )
    number, reason = connection.call(f"read the state of {name}", dom.state, 0)[:2]
    state = state_name(number)
    running = number == DOMAIN_RUNNING
    balloon: bool | None = None
    if running and _has_other_memory(live, domain):
        balloon = _has_balloon_driver(connection, dom, str(live))
    sizes, not_grown = _sizes(connection, dom, stored, domain, inactive, live)
    return ChangeFacts(
        name,
        inactive,
        live,
        stored,
        autostart=bool(connection.call(f"read autostart of {name}", dom.autostart)),
        sizes=sizes,
        running=running,
        saved=not active and is_saved(connection, dom),
        balloon=balloon,
        not_grown=not_grown,
        state=state,
        reason=reason_name(state, reason),
    )


def _sizes(
    connection: Connection,
    dom: VirDomain,
    stored: Metadata,
    domain: Domain,
    inactive: str,
    live: str | None,
) -> tuple[dict[str, int], dict[str, str]]:
    """Bytes by path of the disks whose size is requested, and why some cannot be grown.

    libvirt knows, and grows, the disks that a running VM has, and those of one that is off; not one
    that a running VM gets at its next start.
    """
    paths = difference.sized_disks(domain, inactive, stored)
    root = None if live is None else _lxml.parse(live, domain.name)
    runs = None if root is None else change_plan.disk_paths(root)
    sizes, resting = {}, {}
    for target, path in paths.items():
        if runs is None or path in runs:
            info = connection.call(f"read disk {target} of {domain.name}", dom.blockInfo, path, 0)
            sizes[path] = int(info[0])
        if runs is None:
            resting[path] = sizes[path]
    if not paths or (runs is not None and runs >= set(paths.values())):
        return sizes, {}
    if runs is not None:
        unplugged = [path for path in paths.values() if path not in runs]
        resting = accepted.volume_sizes(connection, unplugged)
    reasons = accepted.not_grown(connection, domain, inactive, stored, resting)
    return {**sizes, **resting}, reasons


def _has_other_memory(live: str | None, domain: Domain) -> bool:
    """Whether the running VM has other memory than its specification."""
    if live is None or "memory" not in domain.written:
        return False
    return settings.Rows.memory.found(_lxml.parse(live, domain.name)) != domain.memory


def _has_balloon_driver(connection: Connection, dom: VirDomain, live: str) -> bool | None:
    """Whether the guest's balloon driver is loaded: only then it reports its unused memory.

    None where QEMU does not ask for that (no ``<stats period>``).
    """
    try:
        stats = connection.call(f"read the memory of {dom.name()}", dom.memoryStats)
    except LibvirtFailure:
        return False  # no balloon, or the VM is shutting down
    period = _lxml.parse(live, str(dom.name())).find("devices/memballoon/stats[@period]")
    return True if "unused" in stats else None if period is None else False


def _rendered(
    host: Host, domain: Domain, missing: t.Sequence[Disk], plans: list[DiskPlan], uuid: str
) -> str:
    """The definition that creation would write, with only the missing disks."""
    if host.machine(domain) is None:
        raise PlanRefused(
            f"QEMU on {host.settings.home} does not support machine type {domain.machine!r}"
        )
    from . import (
        effects_creation_definition as creation_definition,  # where nothing differs none is written
    )

    part = dataclasses.replace(domain, disks=tuple(missing), boot=())
    return creation_definition.final_xml(host, Draft(part, plans), uuid, None)


def _stays(host: Host, dom: VirDomain, stored: Metadata, domain: Domain) -> dict[str, str]:
    """Why volumes of disks that are to be absent, and what dead runs left, may not be removed, by
    path."""
    going = [
        volume
        for volume in stored.volumes
        if volume.target in domain.absent_disks
        or (volume.role == "new" and os.path.lexists(volume.path))
        if volume.role != "seed"
    ]
    if not going:
        return {}
    from ..storage import read_file_users as ownership  # few VMs lose a disk

    references = ownership.read(host.connection)
    reasons = {}
    for own in going:
        # the VM itself may have it open
        users = sorted(
            {user.text for user in references.users(own.path) if user.uuid != str(dom.UUIDString())}
        )
        pool = references.pools.get(own.pool)
        if users:
            reasons[own.path] = f"{own.path} is used by others: {'; '.join(users)}"
        elif pool is not None and pool.shared:
            detach = "" if own.role == "new" else "detach it with virsh, and "
            reasons[own.path] = (
                f"{own.path} is on storage that other hypervisors can reach, which are not checked"
                f" here; {detach}remove it once no hypervisor uses it"
            )
    return reasons


def remove(
    job: ChangeJob, own: OwnVolume, *, proven: bool = False, verified_unused: bool = False
) -> None:
    """Remove a volume that the VM owns; raises PlanRefused if it must stay."""
    from ..storage import effects_own_files as owned  # few VMs lose a disk
    from ..storage import read_file_users as ownership

    _require_detached(job, own)
    references = ownership.read(job.connection)
    stays = owned.remove(
        job.connection, own, str(job.uuid), references, proven=proven, asked=verified_unused
    )
    if stays is not None:
        raise PlanRefused(str(stays))


def _require_detached(job: ChangeJob, own: OwnVolume) -> None:
    """Raise PlanRefused if the VM itself still has the volume, running or in its definition."""
    name, dom = job.name, job.dom
    for flags, where in ((_WHOLE, "the definition of"), (0, "the running VM")):
        if not flags and not job.connection.call(f"read the state of {name}", dom.isActive):
            continue
        text = job.connection.call(f"read domain {name}", dom.XMLDesc, flags)
        if is_attached(_lxml.parse(text, f"domain {name}"), own):
            raise PlanRefused(f"{own.path} is attached to {where} {name!r}")


def require_room(host: Host, changes: t.Sequence[ChangeJob]) -> dict[str, str]:
    """Why this hypervisor has no room for the changes of a VM, by name."""
    from . import read_capacity as creation_capacity  # where nothing differs nothing grows

    growing = [_growth(change) for change in changes if change.changes]
    growing = [growth for growth in growing if growth != creation_capacity.Growth(growth.name)]
    return creation_capacity.grown(host, growing) if growing else {}


def _growth(change: ChangeJob) -> creation_capacity.Growth:
    before = _lxml.parse(change.facts.inactive, change.domain.name)
    predicted = predict(change.facts, change.plan.steps)
    after = _lxml.parse(predicted.inactive, change.domain.name)

    def more(row: Setting[object]) -> int:
        now, later = (require_type(row.found(root), int) for root in (before, after))
        return max(0, later - now)

    paths = {setting.path for setting in change.changes}
    disks: dict[str, int] = {}
    for plan in change.plans.values():
        disks[plan.pool.name] = disks.get(plan.pool.name, 0) - (-plan.size // MIB)
    pools = {volume.path: volume.pool for volume in change.facts.metadata.volumes}
    for path, size in predicted.sizes.items():
        pool = pools.get(path)
        if pool is not None and size > change.facts.sizes.get(path, size):
            disks[pool] = disks.get(pool, 0) + (size - change.facts.sizes[path]) // MIB
    from . import read_capacity as creation_capacity

    memory, pages = huge_pages.growth(before, after)  # in huge pages, or beside them
    nics = tuple(
        nic for nic in change.domain.nics if {f"nics.{nic.name}", f"nics.{nic.name}.source"} & paths
    )
    return creation_capacity.Growth(
        change.domain.name,
        memory,
        more(settings.Rows.vcpus_max),
        disks,
        nics,
        pages,
    )
