# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command that makes libvirt move a VM, and the time it may take."""

from __future__ import annotations

from .types import MigrationOptions, MigrationPlan, Source, Target

_GIB = 1024**3
_MIB = 1024**2
_STAGES = 6  # of the downtime, each twice the one before
_LEAST_MS = 10


def seconds(plan: MigrationPlan, memory_mib: int, options: MigrationOptions) -> float:
    """The most seconds that the move may take; never less than for two GiB."""
    size = plan.bytes_to_copy + memory_mib * _MIB
    return max(2.0, size / _GIB) * options.seconds_per_gib


def downtimes(most: int, limit: float) -> list[tuple[float, int]]:
    """After how many seconds which maximum downtime, in milliseconds, applies.

    It starts short and is doubled until it reaches ``most`` at half of the time ``limit``: a guest
    that can be moved with a short downtime is, and one that dirties its memory faster gets the
    longest early enough.
    """
    stages = [max(_LEAST_MS, most >> (_STAGES - 1 - stage)) for stage in range(_STAGES - 1)]
    schedule = [(limit / 2 * at / (_STAGES - 1), min(ms, most)) for at, ms in enumerate(stages)]
    return [*schedule, (limit / 2, most)]


def url_host(address: str) -> str:
    """An address as it is written in a URI."""
    return f"[{address}]" if ":" in address else address


def command(
    source: Source, target: Target, plan: MigrationPlan, options: MigrationOptions, uri: str
) -> list[str]:
    """The migration command of libvirt's own program: native, encrypted, peer to peer."""
    address = target.destination.address
    listen = target.destination.listen or address
    argv = ["virsh", "--connect", uri, "--quiet", "migrate", "--live", "--p2p", "--persistent"]
    argv += ["--undefinesource", "--abort-on-error"]
    if options.tunnelled:  # inside libvirt's own connection, whose TLS is verified
        argv.append("--tunnelled")
    else:
        argv += ["--tls", "--tls-destination", address, "--listen-address", listen]
    if options.parallel_connections is not None:
        argv += ["--parallel", "--parallel-connections", str(options.parallel_connections)]
    if plan.volumes:
        argv.append("--copy-storage-inc" if plan.incremental else "--copy-storage-all")
        argv += ["--migrate-disks", ",".join(volume.target for volume in plan.volumes)]
    if plan.shared:
        # libvirt recognises few file systems as shared; this one was proven to be. QEMU drops its
        # cache of a disk before the other end uses it (file-posix, drop-cache)
        argv.append("--unsafe")
    if options.bandwidth is not None:
        argv += ["--bandwidth", str(options.bandwidth)]
    if options.auto_converge:
        argv.append("--auto-converge")
    argv += ["--domain", source.uuid]
    argv += ["--desturi", destination_uri(address)]
    return argv if options.tunnelled else [*argv, "--migrateuri", f"tcp://{url_host(listen)}"]


def destination_uri(address: str) -> str:
    """libvirt on the destination, reached with verified TLS."""
    return f"qemu+tls://{url_host(address)}/system"
