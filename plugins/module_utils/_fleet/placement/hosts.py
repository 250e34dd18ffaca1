# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hypervisor as placement sees it, made from what ``virt_host_info`` returns.

Missing or invalid values are never guessed: such a host is included, with a ``problem`` that says
what is not known, and placement rejects it for that reason.
"""

from __future__ import annotations

import contextlib
import math
import re
import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..._units import MOST, parse_mib
from ..base.json_values import as_list, as_mappings, as_text
from ..base.options import show
from ..storage import huge_pages
from ..storage.base_name import BaseName
from .offers import NOTHING_KNOWN, Offers, offers_from

_DIGITS = re.compile(r"[0-9]{1,18}")
ANSWERED = "answered"  # the filter that a hypervisor fails which gave no answer
_MIB_KIB = 1024
_MOST_RATIO = 1000  # anything above is a typing error
# libvirt's "degraded" means running with less redundancy than configured
_USABLE_STATES = frozenset({"running", "active", "degraded"})


@dataclass(frozen=True)
class PoolFacts:
    """One storage pool. ``problem`` says why it cannot be used; figures are 0 then.

    ``limit_mib`` limits the sum of virtual sizes, ``available_mib`` is the real free space now.
    ``half_made``: it is defined, and was never started.
    """

    name: str
    path: str | None
    limit_mib: int
    promised_mib: int
    available_mib: int
    disk_ratio: float
    problem: str | None = None
    half_made: bool = False


@dataclass(frozen=True)
class PageFacts:
    """Memory in huge pages of one size; ``free_mib`` is None where it cannot be read."""

    size_kib: int
    total_mib: int
    promised_mib: int
    free_mib: int | None = None


@dataclass(frozen=True)
class DefinedVm:
    """A domain that is defined on a hypervisor, running or not."""

    name: str
    uuid: str | None = None
    groups: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()
    phase: str | None = None
    leftover: str | None = None


@dataclass(frozen=True)
class HostSettings:
    """The administrator's settings for one hypervisor; ``memory_reserve_mib`` None: the default."""

    zone: str | None = None
    tags: frozenset[str] = frozenset()
    memory_reserve_mib: int | None = None
    memory_ratio: float = 1.0
    vcpu_ratio: float = 4.0
    disk_ratio: float = 1.0


@dataclass(frozen=True)
class PlacementHost:
    """Everything placement knows about one hypervisor at one moment.

    ``problem`` (with ``problem_filter``) is set if it did not answer or did not report enough.
    ``memory_limit_mib`` and ``vcpus_limit`` limit the sums over all defined domains.
    ``maintenance``, ``bridges``, ``firmwares`` and ``tpms`` are None where they could not be read.
    ``tagging_networks`` and ``tagging_bridges`` are those on which NICs may have VLAN tags.
    ``pages`` are huge pages, the default size first, None where they are unknown; they and what is
    in them are no part of ``memory_limit_mib`` and ``memory_promised_mib``.
    """

    name: str
    settings: HostSettings = HostSettings()
    problem: str | None = None
    problem_filter: str = "facts"
    maintenance: bool | None = None
    domain_types: frozenset[str] = frozenset()
    arch: str = ""
    memory_total_mib: int = 0
    memory_reserve_mib: int = 0
    memory_limit_mib: int = 0
    memory_promised_mib: int = 0
    pages: tuple[PageFacts, ...] | None = None
    vcpus_total: int = 0
    vcpus_max: int = 0
    vcpus_limit: int = 0
    vcpus_promised: int = 0
    pools: tuple[PoolFacts, ...] = ()
    networks: t.Mapping[str, bool] | None = None
    bridges: frozenset[str] | None = None
    tagging_networks: frozenset[str] = frozenset()
    tagging_bridges: frozenset[str] = frozenset()
    firmwares: frozenset[str] | None = None
    tpms: frozenset[str] | None = None
    offers: Offers = NOTHING_KNOWN
    vms: tuple[DefinedVm, ...] = ()
    images: frozenset[str] = frozenset()

    @property
    def memory_in_pages_mib(self) -> int:
        """What is set aside for huge pages."""
        return sum(pages.total_mib for pages in self.pages or ())

    def drawn(self, wanted: t.Iterable[tuple[int, int]]) -> dict[int, int]:
        """MiB of huge pages by their size in KiB, for sizes (0: the default) and MiB."""
        drawn: dict[int, int] = {}
        known = [pages.size_kib for pages in self.pages or ()]
        for size, memory in wanted:
            real = huge_pages.real_size(size, known)
            drawn[real] = drawn.get(real, 0) + huge_pages.whole_pages(memory, real)
        return drawn


def default_reserve_mib(total_mib: int) -> int:
    """Memory reserved for the hypervisor itself: 5 % of its memory, at least 512 MiB.

    It covers the host's own services and what qemu needs beyond the guest's memory, also that of
    guests in huge pages.
    """
    return max(512, total_mib // 20)


def settings_from(variables: t.Mapping[str, object], host: str) -> HostSettings:
    """The ``virt_*`` settings of one hypervisor; every value may be a string, as with ``-e``.

    Unset, None and the empty string mean the default. Raises SpecError naming every bad one.
    """
    problems: list[Problem] = []

    def given(key: str) -> object:
        value = variables.get(key)
        return None if isinstance(value, str) and not value.strip() else value

    def ratio(key: str, default: float) -> float:
        value = given(key)
        if value is None:
            return default
        number = math.nan
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            with contextlib.suppress(ValueError):
                number = float(value)
        if not (math.isfinite(number) and 0 < number <= _MOST_RATIO):
            text = (
                f"{value!r} is not a ratio; write a number above 0 and up to {_MOST_RATIO}, for"
                f" example {default:g}"
            )
            problems.append(Problem(f"{host}.{key}", text))
            return default
        return number

    reserve: int | None = None
    if given("virt_memory_reserve") is not None:
        try:
            reserve = parse_mib(given("virt_memory_reserve"))
        except ValueError as error:
            problems.append(Problem(f"{host}.virt_memory_reserve", str(error)))
    zone = given("virt_zone")
    if zone is not None and not isinstance(zone, (str, int, float)):
        problems.append(Problem(f"{host}.virt_zone", f"{zone!r} is not a zone name"))
    tags = given("virt_tags")
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    if not isinstance(tags, (list, tuple, set, frozenset, type(None))):
        text = f"{tags!r} is not a list of tags; write [ssd, fast] or 'ssd,fast'"
        problems.append(Problem(f"{host}.virt_tags", text))
        tags = None
    settings = HostSettings(
        zone=None if zone is None else str(zone).strip(),
        tags=frozenset(str(tag) for tag in tags or ()),
        memory_reserve_mib=reserve,
        memory_ratio=ratio("virt_memory_ratio", 1.0),
        vcpu_ratio=ratio("virt_vcpu_ratio", 4.0),
        disk_ratio=ratio("virt_disk_ratio", 1.0),
    )
    if problems:
        raise SpecError(problems)
    return settings


def silent_host(name: str, reason: str, settings: HostSettings | None = None) -> PlacementHost:
    """A hypervisor that gave no answer; ``reason`` is shown to the user."""
    return PlacementHost(
        name=name,
        settings=settings or HostSettings(),
        problem=reason,
        problem_filter=ANSWERED,
    )


def host_from_info(
    info: t.Mapping[str, object],
    settings: t.Mapping[str, object],
    domains: t.Sequence[t.Mapping[str, object]] | None = None,
    name: str | None = None,
) -> PlacementHost:
    """The host that ``info`` (the ``host`` of ``virt_host_info``) describes.

    ``settings`` are the hypervisor's variables (virt_zone, virt_tags, virt_memory_reserve,
    virt_memory_ratio, virt_vcpu_ratio, virt_disk_ratio). ``domains`` (each with name, uuid,
    groups, anti_affinity) replaces ``info["vms"]``. ``name`` is the name in the inventory, where
    it is not the one in ``info``. Beyond the documented result, ``cpu.max_vcpus``, ``firmwares``,
    ``tpms``, ``tagging_networks``, ``tagging_bridges``, ``offers``, ``images`` (names in the base
    pool) and a
    pool's ``claimed_mib`` (disks of VMs in creation, whose volumes do not exist yet) and
    ``volume_allocation_mib`` (what its volumes really take) are used.

    Raises SpecError for bad settings; what is wrong with ``info`` ends up in ``problem``.
    """
    host = name or str(info.get("name") or "")
    parsed = settings_from(settings, host)
    try:
        return _read(host, info, parsed, domains)
    except _NotKnownError as error:
        return PlacementHost(name=host, settings=parsed, problem=str(error))


class _NotKnownError(Exception):
    """A fact that placement needs is missing or invalid."""


def _read(
    name: str,
    info: t.Mapping[str, object],
    settings: HostSettings,
    domains: t.Sequence[t.Mapping[str, object]] | None,
) -> PlacementHost:
    unread = info.get("errors")
    if unread:  # what was promised to them is missing in every sum
        raise _NotKnownError(
            f"domains cannot be read: {'; '.join(map(str, as_list(unread) or [unread]))}"
        )
    memory = _mapping(info.get("memory_mib"), "its memory")
    cpu = _mapping(info.get("cpu"), "its CPUs")
    total = _number(memory.get("total"), "its memory")
    cpus = _number(cpu.get("total"), "the number of its CPUs")
    reserve = settings.memory_reserve_mib
    if reserve is None:
        reserve = default_reserve_mib(total)
    vms = _vms(info.get("vms") if domains is None else domains)
    networks = _networks(info.get("networks"))
    bridges = _names(info.get("bridges"))
    if bridges is not None:
        bridges |= {bridge for active, bridge in networks.values() if active and bridge}
    offers = offers_from(info.get("offers"))
    pages = _pages(memory.get("hugepages"), offers)
    in_pages = sum(one.total_mib for one in pages or ())
    maximum = cpu.get("max_vcpus")
    maintenance = info.get("maintenance")
    return PlacementHost(
        name=name,
        settings=settings,
        maintenance=maintenance if isinstance(maintenance, bool) else None,
        domain_types=_names(info.get("domain_types")) or frozenset(),
        arch=str(info.get("arch") or ""),
        memory_total_mib=total,
        memory_reserve_mib=reserve,
        memory_limit_mib=_scaled(max(0, total - in_pages), settings.memory_ratio) - reserve,
        memory_promised_mib=_number(memory.get("defined"), "the memory of its defined VMs"),
        pages=pages,
        vcpus_total=cpus,
        vcpus_max=cpus
        if maximum is None
        else min(cpus, _number(maximum, "its maximum number of vCPUs")),
        vcpus_limit=_scaled(cpus, settings.vcpu_ratio),
        vcpus_promised=_number(cpu.get("defined"), "the vCPUs of its defined VMs"),
        pools=tuple(_pool(pool, settings.disk_ratio) for pool in _list(info.get("pools"), "pools")),
        networks={name: active for name, (active, _bridge) in networks.items()},
        bridges=bridges,
        tagging_networks=_names(info.get("tagging_networks")) or frozenset(),
        tagging_bridges=_names(info.get("tagging_bridges")) or frozenset(),
        firmwares=_names(info.get("firmwares")),
        tpms=_names(info.get("tpms")),
        offers=offers,
        vms=vms,
        images=image_keys(_names(info.get("images")) or ()),
    )


def image_keys(volumes: t.Iterable[str]) -> frozenset[str]:
    """Everything a base image can be identified by: ``<digest>-<name>.qcow2``, digest, name.

    The name is given with and without the ending that the base pool adds.
    """
    keys: set[str] = set()
    for volume in volumes:
        keys.add(volume)
        base = BaseName.parse(volume)
        if base is not None:
            keys.update((str(base.digest), base.file_name))
            if base.format == "qcow2":
                keys.add(base.name)
    return frozenset(keys)


def _pool(pool: t.Mapping[str, object], ratio: float) -> PoolFacts:
    name = str(pool.get("name") or "")
    path = str(pool.get("path") or "").rstrip("/") or None
    state = str(pool.get("state") or "unknown")
    try:
        if pool.get("error"):
            raise _NotKnownError(f"pool {name} cannot be read: {pool['error']}")
        if state not in _USABLE_STATES:
            raise _NotKnownError(f"pool {name} is {state}; start it with virsh pool-start {name}")
        where = f"of pool {name}"
        capacity = _number(pool.get("capacity_mib"), f"the capacity {where}")
        available = _number(pool.get("available_mib"), f"the free space {where}")
        promised = _number(pool.get("promised_mib"), f"the sizes of the volumes {where}")
        claimed = _number(pool.get("claimed_mib") or 0, f"the claims {where}")
        used = pool.get("volume_allocation_mib")
        foreign = 0  # space that other files take in the pool's file system
        if used is not None:
            own = _number(used, f"the space the volumes {where} take")
            foreign = max(0, capacity - available - own)
    except _NotKnownError as error:
        half_made = bool(pool.get("half_made"))
        return PoolFacts(name, path, 0, 0, 0, ratio, str(error), half_made)
    return PoolFacts(
        name=name,
        path=path,
        limit_mib=_scaled(capacity - foreign, ratio),
        promised_mib=promised + claimed,
        available_mib=available,
        disk_ratio=ratio,
    )


def _pages(entries: object, offers: Offers) -> tuple[PageFacts, ...] | None:
    """Huge pages; an answer without what is promised of them may still say how many there are."""
    real = {size: (total, free) for size, total, free in offers.hugepages or ()}
    if entries is None:
        if offers.hugepages is None:
            return None
        return tuple(
            PageFacts(size, size * total // _MIB_KIB, 0, size * free // _MIB_KIB)
            for size, total, free in offers.hugepages
        )
    pages = []
    for entry in _list(entries, "huge pages"):
        size = _number(entry.get("size_kib"), "the size of its huge pages")
        if size < 1:
            raise _NotKnownError("it reported 0 as the size of its huge pages")
        pages.append(
            PageFacts(
                size,
                _number(entry.get("total"), "its huge pages"),
                _number(entry.get("defined"), "the huge pages of its defined VMs"),
                size * real[size][1] // _MIB_KIB if size in real else None,
            )
        )
    return tuple(pages)


def _scaled(total: int, ratio: float) -> int:
    """``total`` times ``ratio``, rounded down; 0.1 * 30 is 3, not 2.9999."""
    return math.floor(total * ratio + 1e-6)


def _vms(entries: object) -> tuple[DefinedVm, ...]:
    if entries is None:
        raise _NotKnownError("it did not report which VMs are defined")
    vms = []
    for entry in _list(entries, "VMs"):
        if not entry.get("name"):
            raise _NotKnownError("it reported a VM without a name")
        uuid = entry.get("uuid")
        groups = _names(entry.get("groups")) or ()
        avoided = _names(entry.get("anti_affinity")) or ()
        vms.append(
            DefinedVm(
                name=str(entry["name"]),
                uuid=str(uuid) if uuid else None,
                groups=tuple(sorted(groups)),
                anti_affinity=tuple(sorted(avoided)),
                phase=str(entry["phase"]) if entry.get("phase") else None,
                leftover=as_text(entry.get("leftover")),
            )
        )
    return tuple(vms)


def _networks(entries: object) -> dict[str, tuple[bool, str | None]]:
    """Whether each network is active, and its bridge."""
    return {
        str(entry.get("name")): (entry.get("active") is True, as_text(entry.get("bridge")))
        for entry in _list(entries, "networks")
    }


def _mapping(value: object, what: str) -> t.Mapping[str, object]:
    if not isinstance(value, t.Mapping):
        raise _NotKnownError(f"it did not report {what}")
    return value


def _list(value: object, what: str) -> t.Sequence[t.Mapping[str, object]]:
    mappings = as_mappings(value)
    if not isinstance(value, (list, tuple)) or len(mappings) != len(value):
        raise _NotKnownError(f"it did not report its {what}")
    return mappings


def _names(value: object) -> frozenset[str] | None:
    if not isinstance(value, (list, tuple, set, frozenset)):
        return None
    return frozenset(str(entry) for entry in value)


def _number(value: object, what: str) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _NotKnownError(f"it did not report {what}")
    if not 0 <= value <= MOST:  # nor is NaN
        raise _NotKnownError(f"it reported {show(value)} as {what}")
    return int(value)
