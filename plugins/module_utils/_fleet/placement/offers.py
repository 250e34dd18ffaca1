# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM demands that not every hypervisor has: disks, interfaces, huge pages, helpers."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Mapping

from ... import _lxml
from ..._records import dataclass
from ..base.json_values import as_mapping, as_mappings, as_text
from ..storage.host_names import DEFINE_NWFILTER, LOAD_VSOCK

if t.TYPE_CHECKING:
    from ..spec.devices import Nic
    from ..spec.domain import Domain

_MIB_KIB = 1024


@dataclass(frozen=True)
class Wants:
    """``portgroups`` are networks with the name of a port group of theirs, ``nwfilters`` names of
    libvirt's network filters. ``hugepages`` are sizes in KiB (0: the default), each with its MiB.
    ``cell`` is the cell that restarts it, empty for any, None for none. ``lacking``
    are hypervisors that said what they have not of what it names."""

    volumes: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    openvswitch: tuple[str, ...] = ()
    portgroups: tuple[tuple[str, str], ...] = ()
    nwfilters: tuple[str, ...] = ()
    hugepages: tuple[tuple[int, int], ...] = ()
    virtiofs: bool = False
    vsock: bool = False
    secure_boot: bool = False
    secrets: tuple[str, ...] = ()
    cell: str | None = None
    lacking: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HostCpu:
    """The CPU of a VM with mode host-model there."""

    vendor: str | None
    features: frozenset[str]


@dataclass(frozen=True)
class Offers:
    """What a hypervisor has; ``hugepages`` are size in KiB, total and free, the default first.
    ``cell`` is that of which it is a member, if that has quorum there.

    None means unknown. ``absent_files`` are files that it was asked for and does not have.
    """

    volumes: Mapping[str, frozenset[str]] | None = None
    absent_files: frozenset[str] = frozenset()
    devices: frozenset[str] | None = None
    interfaces: frozenset[str] | None = None
    openvswitch: frozenset[str] | None = None
    portgroups: Mapping[str, frozenset[str]] | None = None
    nwfilters: frozenset[str] | None = None
    hugepages: tuple[tuple[int, int, int], ...] | None = None
    virtiofs: bool | None = None
    vsock: bool | None = None
    secure_boot: bool | None = None
    secrets: frozenset[str] | None = None
    cell: str | None = None
    cpu: HostCpu | None = None


NOTHING_WANTED, NOTHING_KNOWN = Wants(), Offers()


def wants_of(
    domain: Domain, transferred: Collection[str] = (), leftovers: str | None = None
) -> Wants:
    """What the VM demands; ``transferred`` are images that are brought to any hypervisor,
    ``leftovers`` what a copy gets of its source beside its settings."""
    disks = [disk for disk in domain.disks if disk.exists]
    images = [disk.image for disk in domain.disks if disk.image is not None]
    images = [one for one in images if one.value not in transferred]
    backing = domain.memory_backing
    pages: tuple[tuple[int, int], ...] = ()
    if backing is not None and (backing.hugepages or backing.page_size):
        pages = (((backing.page_size or 0) * _MIB_KIB, domain.memory_max or domain.memory),)
    return Wants(
        volumes=(
            *((disk.pool, disk.volume) for disk in disks if disk.volume is not None),
            *(one.pool_and_volume for one in images if one.kind == "volume"),
        ),
        files=tuple(dict.fromkeys(one.value for one in images if one.kind == "path")),
        devices=tuple(disk.dev for disk in disks if disk.dev is not None),
        interfaces=tuple(nic.source for nic in domain.nics if nic.type == "direct"),
        openvswitch=tuple(nic.source for nic in domain.nics if nic.virtualport == "openvswitch"),
        portgroups=tuple(
            (nic.source, nic.portgroup) for nic in domain.nics if nic.portgroup is not None
        ),
        nwfilters=nwfilters_of(domain.nics),
        hugepages=pages,
        virtiofs=any(one.driver == "virtiofs" for one in domain.filesystems),
        # the kernel is asked for it when the VM starts, not before
        vsock=domain.start and any(map(_has_vsock, (domain.xml, leftovers))),
        secure_boot=domain.secure_boot,
        secrets=tuple(
            dict.fromkeys(one.encryption_secret for one in domain.disks if one.encryption_secret)
        ),
        cell="" if domain.ha else None,
    )


def nwfilters_of(nics: Iterable[Nic]) -> tuple[str, ...]:
    """The network filters that ``nics`` name."""
    return tuple(dict.fromkeys(nic.filter for nic in nics if nic.filter))


def _has_vsock(text: str | None) -> bool:
    """Whether ``text``, a ``<domain>``, adds a vsock device."""
    if text is None or "vsock" not in text:
        return False
    return _lxml.parse(text, "the fragment").find("devices/vsock") is not None


def offers_from(value: object) -> Offers:
    """What a hypervisor reported."""
    if not isinstance(value, Mapping):
        return Offers()
    pages = value.get("hugepages")
    return Offers(
        volumes=_names_of_each(value.get("volumes")),
        absent_files=_names(value.get("absent_files")) or frozenset(),
        devices=_names(value.get("devices")),
        interfaces=_names(value.get("interfaces")),
        openvswitch=_names(value.get("openvswitch")),
        portgroups=_names_of_each(value.get("portgroups")),
        nwfilters=_names(value.get("nwfilters")),
        hugepages=None
        if not isinstance(pages, (list, tuple))
        else tuple(
            (_number(one.get("size_kib")), _number(one.get("total")), _number(one.get("free")))
            for one in as_mappings(pages)
        ),
        virtiofs=_boolean(value.get("virtiofs")),
        vsock=_boolean(value.get("vsock")),
        secure_boot=_boolean(value.get("secure_boot")),
        secrets=_names(value.get("secrets")),
        cell=as_text(value.get("cell")),
        cpu=_cpu(value.get("cpu")),
    )


def _cpu(value: object) -> HostCpu | None:
    features = _names(value.get("features")) if isinstance(value, Mapping) else None
    return HostCpu(as_text(as_mapping(value).get("vendor")), features) if features else None


def _names(value: object) -> frozenset[str] | None:
    if not isinstance(value, (list, tuple, set, frozenset)):
        return None
    return frozenset(str(entry) for entry in value)


def _names_of_each(value: object) -> dict[str, frozenset[str]] | None:
    if not isinstance(value, Mapping):
        return None
    return {str(key): _names(names) or frozenset() for key, names in value.items()}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def disks(wants: Wants, offers: Offers) -> str | None:
    """Why the VM's existing disks, or the images of its new ones, cannot be used there."""
    lost = [
        f"{pool}/{name}"
        for pool, name in wants.volumes
        if offers.volumes is not None and name not in offers.volumes.get(pool, ())
    ]
    if lost:
        return f"has no volume {', '.join(lost)}; create it there, or refresh its pool"
    files = [path for path in wants.files if path in offers.absent_files]
    if files:
        return (
            f"has no file {', '.join(files)}; copy it there, or put it into virt_image_dir on the"
            " controller and name it without its path"
        )
    known = offers.devices
    gone = [path for path in wants.devices if known is not None and path not in known]
    if gone:
        return f"has no block device {', '.join(gone)}"
    if (wants.volumes and offers.volumes is None) or (wants.devices and offers.devices is None):
        return "needs existing disks; which it has is not known"
    return None


def interfaces(wants: Wants, offers: Offers) -> str | None:
    """Why its NICs cannot be attached to interfaces or bridges there."""
    if wants.interfaces:
        if offers.interfaces is None:
            return "needs host interfaces; which it has is not known"
        gone = sorted(set(wants.interfaces) - offers.interfaces)
        if gone:
            return f"has no network interface {', '.join(gone)}"
    if wants.openvswitch:
        if offers.openvswitch is None:
            return "needs an Open vSwitch bridge; which it has is not known"
        gone = sorted(set(wants.openvswitch) - offers.openvswitch)
        if gone:
            known = ", ".join(sorted(offers.openvswitch)) or "none"
            return (
                f"has no Open vSwitch bridge {', '.join(gone)}, it has {known}; create it there"
                " (ovs-vsctl add-br)"
            )
    return _portgroups(wants, offers) or _nwfilters(wants, offers)


def _portgroups(wants: Wants, offers: Offers) -> str | None:
    """libvirt ignores a port group that the network lacks: the NIC would be in another segment."""
    if not wants.portgroups:
        return None
    if offers.portgroups is None:
        return "needs port groups; which its networks have is not known"
    for network, portgroup in wants.portgroups:
        there = offers.portgroups.get(network, frozenset())
        if portgroup not in there:
            known = ", ".join(sorted(there)) or "none"
            return (
                f"network {network!r} has no port group {portgroup!r}, it has {known}; add it there"
                f" (virsh net-update {network} add portgroup)"
            )
    return None


def _nwfilters(wants: Wants, offers: Offers) -> str | None:
    """libvirt looks for the filter when the NIC is started, and refuses the start then."""
    if not wants.nwfilters:
        return None
    if offers.nwfilters is None:
        return (
            f"needs network filter {', '.join(wants.nwfilters)}; which it has is not known (virsh"
            " nwfilter-list says why)"
        )
    gone = sorted(set(wants.nwfilters) - offers.nwfilters)
    if not gone:
        return None
    return f"has no network filter {', '.join(gone)}; {DEFINE_NWFILTER}"


def virtiofs(wants: Wants, offers: Offers) -> str | None:
    """Why it cannot have a virtiofs file system there."""
    if not wants.virtiofs or offers.virtiofs:
        return None
    if offers.virtiofs is None:
        return "needs virtiofs; whether it has the helper is not known"
    return "needs virtiofs, and QEMU's helper is not installed; install the package virtiofsd"


def vsock(wants: Wants, offers: Offers) -> str | None:
    """Why it cannot start with a vsock device there."""
    if not wants.vsock or offers.vsock:
        return None
    if offers.vsock is None:
        return "needs vsock; whether the kernel offers it is not known"
    return f"needs vsock, and there is no /dev/vhost-vsock; {LOAD_VSOCK}"


def secure_boot(wants: Wants, offers: Offers) -> str | None:
    """Why it cannot use secure boot there."""
    if not wants.secure_boot or offers.secure_boot:
        return None
    if offers.secure_boot is None:
        return "needs firmware with secure boot; whether it has any is not known"
    return (
        "needs firmware with secure boot, and libvirt finds none there; install the package ovmf"
        " (Debian, Ubuntu) or edk2-ovmf (others)"
    )


def secrets(wants: Wants, offers: Offers) -> str | None:
    """Why it cannot have its encrypted disks there."""
    if not wants.secrets:
        return None
    if offers.secrets is None:
        return "needs libvirt secrets; which it has is not known"
    gone = [one for one in wants.secrets if not {one, one.lower()} & offers.secrets]
    if gone:
        return f"has no secret {', '.join(map(repr, gone))}; define it there (virsh secret-define)"
    return None


def cell(wants: Wants, offers: Offers) -> str | None:
    """Why no cell, or another one, would restart it there."""
    if wants.cell is None:
        return None
    if not offers.cell:
        return "is in no cell that has quorum there, and the VM is to be one of a cell (ha)"
    if wants.cell in ("", offers.cell):
        return None
    return f"is in the cell {offers.cell!r}, and the VM is one of {wants.cell!r}"
