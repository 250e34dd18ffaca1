# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's flat statistics (``block.0.name``, ``net.1.rx.bytes``) as records.

Source: virConnectGetAllDomainStats in libvirt's API documentation.
"""

from __future__ import annotations

import typing as t

from ..._units import MIB
from ..base.states import ACTIVE_STATES, state_name

if t.TYPE_CHECKING:
    from ..base.snapshot import DiskStats, NicStats, Stats

Values = t.Mapping[str, object]  # a domain's record of virDomainListGetStats

_MAX_DEVICES = 4096


def _records(values: Values, group: str) -> list[tuple[str, str]]:
    """(prefix, device name) for each device of ``group``, in libvirt's order."""
    count = values.get(f"{group}.count")
    if not isinstance(count, int):
        return []
    prefixes: dict[str, str] = {}
    for index in range(min(count, _MAX_DEVICES)):
        prefix = f"{group}.{index}."
        name = values.get(prefix + "name")
        # backing files, if requested, come after the disk and under its name
        if isinstance(name, str):
            prefixes.setdefault(name, prefix)
    return [(prefix, name) for name, prefix in prefixes.items()]


def _mib(value: object) -> int | None:
    return -(-value // MIB) if isinstance(value, int) and value >= 0 else None


def _count(values: Values, key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) else None


def disk_sizes(values: Values, active: bool) -> dict[str | None, tuple[int | None, int | None]]:
    """Target (``vda``) to (virtual size, allocation), both MiB rounded up, None unknown.

    The space an image occupies is libvirt's ``allocation`` while it is not in use. While a domain
    uses it, that is the highest offset written since it started, and ``physical`` is used instead.
    """
    occupied = "physical" if active else "allocation"
    return {
        name: (_mib(values.get(prefix + "capacity")), _mib(values.get(prefix + occupied)))
        for prefix, name in _records(values, "block")
    }


def was_busy(values: Values) -> bool:
    """Whether libvirt left out QEMU's statistics of the disks of an active domain.

    It does while another job holds the domain (VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT).
    """
    number = values.get("state.state")
    active = isinstance(number, int) and state_name(number) in ACTIVE_STATES
    reported = [prefix + "rd.reqs" in values for prefix, _name in _records(values, "block")]
    return active and bool(reported) and not any(reported)


def counters(values: Values) -> Stats:
    """Counters since the domain started; the same keys for every domain, None unknown."""
    return {
        "cpu": {
            "time_ns": _count(values, "cpu.time"),
            "user_ns": _count(values, "cpu.user"),
            "system_ns": _count(values, "cpu.system"),
        },
        "memory": {
            "actual_mib": _from_kib(values, "balloon.current"),
            "unused_mib": _from_kib(values, "balloon.unused"),
            "available_mib": _from_kib(values, "balloon.available"),
            "usable_mib": _from_kib(values, "balloon.usable"),
            "rss_mib": _from_kib(values, "balloon.rss"),
        },
        "nics": [_nic(values, prefix, name) for prefix, name in _records(values, "net")],
        "disks": [_disk(values, prefix, name) for prefix, name in _records(values, "block")],
    }


def _from_kib(values: Values, key: str) -> int | None:
    value = _count(values, key)
    return None if value is None else value // 1024


def _nic(values: Values, prefix: str, name: str) -> NicStats:
    return {
        "target": name,
        "receive_bytes": _count(values, prefix + "rx.bytes"),
        "receive_packets": _count(values, prefix + "rx.pkts"),
        "receive_errors": _count(values, prefix + "rx.errs"),
        "receive_dropped": _count(values, prefix + "rx.drop"),
        "transmit_bytes": _count(values, prefix + "tx.bytes"),
        "transmit_packets": _count(values, prefix + "tx.pkts"),
        "transmit_errors": _count(values, prefix + "tx.errs"),
        "transmit_dropped": _count(values, prefix + "tx.drop"),
    }


def _disk(values: Values, prefix: str, name: str) -> DiskStats:
    return {
        "target": name,
        "read_bytes": _count(values, prefix + "rd.bytes"),
        "read_requests": _count(values, prefix + "rd.reqs"),
        "write_bytes": _count(values, prefix + "wr.bytes"),
        "write_requests": _count(values, prefix + "wr.reqs"),
        "flush_requests": _count(values, prefix + "fl.reqs"),
        "errors": _count(values, prefix + "errors"),
    }
