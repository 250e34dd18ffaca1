# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters: whether a VM can be on a hypervisor, and if not, why, with the figures.

Two kinds: properties of a hypervisor (``fixed_rejection``; the same for every VM with the same
demands, so it is evaluated once for a batch) and its remaining capacity (``load_rejection``,
``storage_rejection``, ``name_rejection``; evaluated for every placement). Both return the first
filter that fails.
"""

from __future__ import annotations

import shlex
import typing as t

from ..base.machine_types import uses_uefi
from ..base.names import playbook_command
from . import offers
from .hosts import ANSWERED, PlacementHost
from .load import FleetLoad, HostLoad, PoolLoad, Space
from .types import NAMES_ANOTHER, SOFT, Policy, Rejection, Request

Wishes = tuple[object, ...]


def wishes_of(request: Request) -> Wishes:
    """The parts of ``request`` that ``fixed_rejection`` depends on."""
    return (
        request.host,
        request.zone,
        request.tags,
        request.domain_type,
        request.arch,
        request.networks,
        request.bridges,
        request.tagged_networks,
        request.tagged_bridges,
        request.firmware,
        request.tpm,
        request.wants,
    )


def fixed_rejection(host: PlacementHost, request: Request) -> Rejection | None:
    """Why ``host`` is not of the kind the VM demands, or not in service; None if it is."""
    for name, check in _FIXED:
        reason = check(host, request)
        if reason is not None:
            # the hypervisor's own filter is more specific about what it failed to report
            return Rejection(host.name, host.problem_filter if name == ANSWERED else name, reason)
    return None


def load_rejection(load: HostLoad, request: Request) -> Rejection | None:
    """Why the VM does not fit next to the others, disks apart; None if it does."""
    host = load.host
    needed = request.ordinary_mib
    if needed and load.memory + needed > load.memory_limit:
        return Rejection(host.name, "memory", _memory_reason(load, needed))
    if request.wants.hugepages:
        reason = _pages_reason(load, request)
        if reason is not None:
            return Rejection(host.name, "hugepages", reason)
    if load.vcpus + request.vcpus > load.vcpus_limit or request.vcpus > host.vcpus_max:
        return Rejection(host.name, "vcpus", _vcpus_reason(load, request.vcpus))
    if not request.relaxed:
        for reason in _too_near(load, request, "", "must"):
            return Rejection(host.name, "anti_affinity", reason)
        for reason in _too_far(load, request, "", "must"):
            return Rejection(host.name, "affinity", reason)
    return None


def room_rejection(load: HostLoad, request: Request, policy: Policy) -> Rejection | None:
    """Why the VM does not fit next to the others, with its disks; None if it does."""
    rejection = load_rejection(load, request)
    if rejection is not None:
        return rejection
    rejections = (storage_rejection(load, one, policy) for one in load.spaces(request, policy))
    return next(filter(None, rejections), None)


def broken_rules(load: HostLoad, request: Request) -> list[str]:
    """The rules that do not prevent the VM from being there, and would be broken: soft ones, and
    all where the request is ``relaxed``."""
    soft = [*_too_near(load, request, SOFT, "should"), *_too_far(load, request, SOFT, "should")]
    if not request.relaxed:
        return soft
    return [*_too_near(load, request, "", "must"), *_too_far(load, request, "", "must"), *soft]


def _too_far(load: HostLoad, request: Request, ending: str, verb: str) -> t.Iterator[str]:
    """Of which groups no VM is there, although the VM is to be beside one by the rules of affinity
    with this ending, and other hypervisors in service have some."""
    for rule in request.affinity:
        group = rule[: len(rule) - len(ending)]
        is_rule = rule == group + ending and (ending or not rule.endswith(SOFT))
        if is_rule and load.together.get(group) and not load.groups.get(group):
            yield f"no VM of group {group} is on it, and the VM {verb} be beside one of that group"


def _too_near(load: HostLoad, request: Request, ending: str, verb: str) -> t.Iterator[str]:
    """Which VMs are there that the VM keeps away from, or that keep away from it, by the rules of
    anti-affinity with this ending."""
    for rule in request.anti_affinity:
        group = rule[: len(rule) - len(ending)]
        if rule == group + ending and load.groups.get(group):
            here = _some(vm.name for vm in load.vms() if group in vm.groups)
            yield f"{here} of group {group} is on it, and the VM {verb} keep away from that group"
    if load.avoided:
        for group in request.groups:
            if load.avoided.get(group + ending):
                here = _some(vm.name for vm in load.vms() if group + ending in vm.anti_affinity)
                yield f"{here} is on it and {verb} keep away from the VM's group {group}"


def storage_rejection(load: HostLoad, space: Space, policy: Policy) -> Rejection | None:
    """Why a pool cannot take the VM's disks, by promises or real free space; None if it can."""
    pool = load.pools.get(space.pool)
    if pool is None:
        there = (name for name, one in load.pools.items() if one.facts is not None)
        known = ", ".join(sorted(name for name in there if "/" not in name)) or "no pool"
        reason = f"has no pool {space.pool}; it has {known}"
        if space.pool.startswith("/"):
            reason = (
                f"has no pool at {space.pool}, where a disk is; it has {known}; define one there"
                f" (virsh pool-define-as NAME dir --target {shlex.quote(space.pool)}, virsh"
                " pool-start NAME)"
            )
        return Rejection(load.host.name, "storage", reason)
    facts = pool.facts
    if facts is None:
        return None  # to be created; its space is only known then
    if facts.problem is not None:
        return Rejection(load.host.name, "storage", facts.problem)
    if pool.promised + space.virtual_mib > pool.limit:
        free = pool.limit - pool.promised
        taken = pool.promised - facts.promised_mib
        reason = (
            f"needs {space.virtual_mib} MiB in pool {facts.name}, "
            f"{_left(free, pool.limit, 'MiB', taken)}"
        )
        return Rejection(load.host.name, "storage", reason)
    real = _real(pool, space)
    if real + policy.pool_floor_mib > facts.available_mib:
        already = _real(pool, Space(space.pool, 0, 0))
        reason = (
            f"needs {real - already} MiB really free in pool {facts.name}, it has "
            f"{facts.available_mib} MiB, of which {policy.pool_floor_mib} MiB must stay free"
            + (f" and {already} MiB go to others in this batch" if already else "")
        )
        return Rejection(load.host.name, "storage", reason)
    return None


def name_rejection(fleet: FleetLoad, load: HostLoad, request: Request) -> Rejection | None:
    """A rejection if a VM of that name exists anywhere: a second one would be fatal."""
    where = fleet.where.get(request.name)
    if not where:
        return None
    host = load.host.name
    if host in where:
        uuid = load.names.get(request.name)
        known = f" (uuid {uuid})" if uuid else ""
        return Rejection(host, "name", f"a VM named {request.name} is already defined here{known}")
    places = ", ".join(sorted(where))
    reason = f"a VM named {request.name} is already defined on {places}; there can be only one"
    return Rejection(host, "name", reason)


def leftover_rejection(fleet: FleetLoad, host: str, request: Request) -> Rejection | None:
    """A rejection if the hypervisor has a definition of that name from before the VM was restarted
    elsewhere."""
    if (host, request.name) not in fleet.left:
        return None
    reason = f"has a leftover of {request.name}; {playbook_command('repair_vms')} clears it"
    return Rejection(host, "name", reason)


def excess(
    host: PlacementHost, pools: t.Collection[str], policy: Policy | None = None
) -> tuple[Rejection, ...]:
    """What is promised beyond the hypervisor's limits, checked after a claim was made.

    Unlike placement it looks at the hypervisor as it is, including the claim; any entry means
    that the claim has to be withdrawn. ``pools`` are those of the claim, as its request names them:
    others may be over-promised for reasons that no claim can change. A host that did not report
    enough has an entry too.
    """
    if host.problem is not None:
        return (Rejection(host.name, host.problem_filter, host.problem),)
    load = HostLoad(host, policy or Policy())
    rejections = []
    if load.memory > load.memory_limit:
        rejections.append(Rejection(host.name, "memory", _memory_reason(load, 0)))
    for pages in host.pages or ():
        if pages.promised_mib > pages.total_mib:
            left = _left(pages.total_mib - pages.promised_mib, pages.total_mib, "MiB", 0)
            reason = f"huge pages of {_page(pages.size_kib)}: {left}"
            rejections.append(Rejection(host.name, "hugepages", reason))
    if load.vcpus > load.vcpus_limit:
        rejections.append(Rejection(host.name, "vcpus", _vcpus_reason(load, 0)))
    claimed = {
        pool.facts.name: pool.facts
        for name in pools
        if (pool := load.pools.get(name)) and pool.facts
    }
    for facts in claimed.values():
        if facts.problem is None and facts.promised_mib > facts.limit_mib:
            left = _left(facts.limit_mib - facts.promised_mib, facts.limit_mib, "MiB", 0)
            rejections.append(Rejection(host.name, "storage", f"pool {facts.name}: {left}"))
    return tuple(rejections)


def _real(pool: PoolLoad, space: Space) -> int:
    """MiB that must really be free for what was added to the pool and for ``space``.

    A thin disk counts divided by the disk ratio: with 1, it can be filled completely.
    """
    thin = pool.added_thin + space.thin_mib
    full = pool.added_full + space.virtual_mib - space.thin_mib
    ratio = pool.facts.disk_ratio if pool.facts else 1.0
    return full + (thin if ratio <= 1 else -int(-thin // ratio))


def _left(free: int, limit: int, unit: str, taken: int) -> str:
    """``1024 MiB of 24000 MiB are not promised``, or by how much the limit is exceeded."""
    batch = f"; others in this batch take {taken} {unit}" if taken else ""
    if free < 0:
        return f"{-free} {unit} more than the limit of {limit} {unit} are promised{batch}"
    return f"{free} {unit} of {limit} {unit} are not promised{batch}"


def _memory_reason(load: HostLoad, needed: int) -> str:
    host = load.host
    free = load.memory_limit - load.memory
    taken = load.memory - host.memory_promised_mib
    start = f"needs {needed} MiB, " if needed else ""
    aside = host.memory_in_pages_mib
    beside = f" without {aside} MiB in huge pages" if aside else ""
    return (
        f"{start}{_left(free, load.memory_limit, 'MiB', taken)} "
        f"(memory {host.memory_total_mib} MiB{beside} x {host.settings.memory_ratio:g}, "
        f"{host.memory_reserve_mib} MiB reserved)"
    )


def _pages_reason(load: HostLoad, request: Request) -> str | None:
    """Why the VM's memory does not fit into the huge pages, by promises or those really free."""
    facts = {pages.size_kib: pages for pages in load.host.pages or ()}
    drawn = load.host.drawn
    for size, needed in drawn(request.wants.hugepages).items():
        pages = facts[size]  # its fixed filter let the size pass
        start = f"needs {needed} MiB in huge pages of {_page(size)}, "
        free, added = pages.total_mib - load.pages[size], load.pages[size] - pages.promised_mib
        if needed > free:
            left = _left(free, pages.total_mib, "MiB", max(0, added))
            return f"{start}{left}; reserve more (sysctl vm.nr_hugepages, or at boot)"
        # what left it may have been shut off, and frees nothing
        batch = sum(drawn(one.wants.hugepages).get(size, 0) for one in load.added.values())
        if pages.free_mib is not None and needed + batch > pages.free_mib:
            others = f", of which others in this batch take {batch} MiB" if batch else ""
            return (
                f"{start}{pages.free_mib} MiB of {pages.total_mib} MiB are really free{others};"
                " end what else uses them, or reserve more (sysctl vm.nr_hugepages, or at boot)"
            )
    return None


def _page(size_kib: int) -> str:
    mib, rest = divmod(size_kib, 1024)
    return f"{size_kib} KiB" if rest else f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"


def _hugepages(host: PlacementHost, request: Request) -> str | None:
    if not request.wants.hugepages:
        return None
    if host.pages is None:
        return "needs huge pages; whether it has reserved any is not known"
    known = [pages.size_kib for pages in host.pages]
    for size in host.drawn(request.wants.hugepages):
        if size not in known:
            sizes = ", ".join(map(_page, known)) or "none"
            return f"needs huge pages of {_page(size)}, it has sizes {sizes}"
    return None


def _vcpus_reason(load: HostLoad, needed: int) -> str:
    host = load.host
    if needed > host.vcpus_max:
        return f"needs {needed} vCPUs, one VM can have at most {host.vcpus_max} here"
    free = load.vcpus_limit - load.vcpus
    taken = load.vcpus - host.vcpus_promised
    start = f"needs {needed} vCPUs, " if needed else ""
    return (
        f"{start}{_left(free, load.vcpus_limit, 'vCPUs', taken)} "
        f"({host.vcpus_total} CPUs x {host.settings.vcpu_ratio:g})"
    )


def _answered(host: PlacementHost, _request: Request) -> str | None:
    return host.problem


def _fixed_host(host: PlacementHost, request: Request) -> str | None:
    if request.host is None or request.host == host.name:
        return None
    return f"{NAMES_ANOTHER}{request.host}"


def _maintenance(host: PlacementHost, _request: Request) -> str | None:
    if host.maintenance is None:
        return (
            "whether it is in maintenance is not known: the pool that holds the mark is unreadable"
        )
    return "it is in maintenance" if host.maintenance else None


def _zone(host: PlacementHost, request: Request) -> str | None:
    if request.zone is None or request.zone == host.settings.zone:
        return None
    if host.settings.zone is None:
        return f"needs zone {request.zone}, it has none (virt_zone)"
    return f"needs zone {request.zone}, it is in {host.settings.zone}"


def _tags(host: PlacementHost, request: Request) -> str | None:
    missing = sorted(set(request.tags) - host.settings.tags)
    if not missing:
        return None
    return f"needs {_which('tag', missing)}, it has {_listed(host.settings.tags)} (virt_tags)"


def _domain_type(host: PlacementHost, request: Request) -> str | None:
    if not host.domain_types:
        return "it supports no domain type at all"
    if request.domain_type is None or request.domain_type in host.domain_types:
        return None
    return f"needs domain type {request.domain_type}, it has {_listed(host.domain_types)}"


def _arch(host: PlacementHost, request: Request) -> str | None:
    if request.arch is None or request.arch == host.arch:
        return None
    return f"needs architecture {request.arch}, it is {host.arch or 'unknown'}"


def _networks(host: PlacementHost, request: Request) -> str | None:
    known = host.networks or {}
    missing = sorted(set(request.networks) - set(known))
    if missing:
        return f"needs {_which('network', missing)}, it has {_listed(known)}"
    inactive = sorted(name for name in set(request.networks) if not known[name])
    if inactive:
        return f"{_which('network', inactive)} is not active; start it with virsh net-start"
    return None


def _bridges(host: PlacementHost, request: Request) -> str | None:
    if not request.bridges:
        return None
    wanted = _which("bridge", sorted(set(request.bridges)))
    if host.bridges is None:
        return f"needs {wanted}, which bridges it has is not known"
    missing = sorted(set(request.bridges) - host.bridges)
    if missing:
        return f"needs {_which('bridge', missing)}, it has {_listed(host.bridges)}"
    return None


def _vlans(host: PlacementHost, request: Request) -> str | None:
    bridges = sorted(set(request.tagged_bridges) - host.tagging_bridges)
    networks = sorted(set(request.tagged_networks) - host.tagging_networks)
    if not bridges and not networks:
        return None
    where = [_which("bridge", bridges)] if bridges else []
    where += [_which("network", networks)] if networks else []
    return (
        f"libvirt sets no VLAN tag on {' and '.join(where)}: on a Linux bridge it does so since"
        " version 11, if the bridge has vlan_filtering; leave vlan out and give the NIC a bridge"
        " that is on that VLAN, or a network on Open vSwitch"
    )


def _firmware(host: PlacementHost, request: Request) -> str | None:
    if not uses_uefi(request.firmware, host.arch):
        return None
    if host.firmwares is None:
        return "needs UEFI firmware; whether it has any is not known"
    if "efi" in host.firmwares:
        return None
    return (
        "needs UEFI firmware, and libvirt finds none there; install the package ovmf (Debian,"
        " Ubuntu; for ARM qemu-efi-aarch64) or edk2-ovmf (others)"
    )


def _tpm(host: PlacementHost, request: Request) -> str | None:
    if request.tpm is None:
        return None
    if host.tpms is None:
        return "needs a TPM; whether it can emulate one is not known"
    if not host.tpms:
        return (
            "needs a TPM, and libvirt finds no emulator there; install the packages swtpm and"
            " swtpm-tools"
        )
    if request.tpm and request.tpm not in host.tpms:
        return f"needs a TPM {request.tpm}, it has {_listed(host.tpms)}"
    return None


def _which(what: str, names: t.Sequence[str]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _some(names: t.Iterable[str]) -> str:
    """The first few of ``names``."""
    known = sorted(names)
    return ", ".join(known[:3]) + (f" and {len(known) - 3} more" if len(known) > 3 else "")


def _listed(names: t.Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


_FIXED: tuple[tuple[str, t.Callable[[PlacementHost, Request], str | None]], ...] = (
    (ANSWERED, _answered),
    ("host", _fixed_host),
    ("maintenance", _maintenance),
    ("zone", _zone),
    ("tags", _tags),
    ("domain_type", _domain_type),
    ("arch", _arch),
    ("networks", _networks),
    ("bridges", _bridges),
    ("vlans", _vlans),
    ("firmware", _firmware),
    ("tpm", _tpm),
    ("disks", lambda host, request: offers.disks(request.wants, host.offers)),
    ("interfaces", lambda host, request: offers.interfaces(request.wants, host.offers)),
    ("hugepages", _hugepages),
    ("virtiofs", lambda host, request: offers.virtiofs(request.wants, host.offers)),
    ("vsock", lambda host, request: offers.vsock(request.wants, host.offers)),
    ("secure_boot", lambda host, request: offers.secure_boot(request.wants, host.offers)),
    ("secrets", lambda host, request: offers.secrets(request.wants, host.offers)),
    ("names", lambda host, request: dict(request.wants.lacking).get(host.name)),
    ("cell", lambda host, request: offers.cell(request.wants, host.offers)),
)
