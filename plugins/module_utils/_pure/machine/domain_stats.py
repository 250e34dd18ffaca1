# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's flat statistics (``block.0.name``, ``net.1.rx.bytes``) as records.

Source: virConnectGetAllDomainStats in libvirt's API documentation.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._units import MIB

_BLOCK = {
    "read_bytes": "rd.bytes",
    "read_requests": "rd.reqs",
    "write_bytes": "wr.bytes",
    "write_requests": "wr.reqs",
    "flush_requests": "fl.reqs",
    "errors": "errors",
}
_NET = {
    "receive_bytes": "rx.bytes",
    "receive_packets": "rx.pkts",
    "receive_errors": "rx.errs",
    "receive_dropped": "rx.drop",
    "transmit_bytes": "tx.bytes",
    "transmit_packets": "tx.pkts",
    "transmit_errors": "tx.errs",
    "transmit_dropped": "tx.drop",
}
_MAX_DEVICES = 4096


def _records(values: t.Mapping[str, t.Any], group: str) -> list[tuple[str, str]]:
    """(prefix, device name) for each device of ``group``, in libvirt's order."""
    count = values.get(f"{group}.count")
    if not isinstance(count, int):
        return []
    found: dict[str, str] = {}
    for index in range(min(count, _MAX_DEVICES)):
        prefix = f"{group}.{index}."
        name = values.get(prefix + "name")
        # backing files, if they were asked for, come after the disk and under its name
        if isinstance(name, str):
            found.setdefault(name, prefix)
    return [(prefix, name) for name, prefix in found.items()]


def _mib(value: t.Any) -> int | None:
    return -(-value // MIB) if isinstance(value, int) and value >= 0 else None


def disk_sizes(
    values: t.Mapping[str, t.Any], active: bool
) -> dict[str, tuple[int | None, int | None]]:
    """Target (``vda``) to (virtual size, allocation), both MiB rounded up, None unknown.

    What the image occupies is libvirt's ``allocation`` while nobody uses it. While a domain does,
    that is the highest offset it has written since it started, and ``physical`` is meant.
    """
    occupied = "physical" if active else "allocation"
    return {
        name: (_mib(values.get(prefix + "capacity")), _mib(values.get(prefix + occupied)))
        for prefix, name in _records(values, "block")
    }


def counters(values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Counters since the domain started; the same keys for every domain, None unknown."""
    balloon = {
        "actual_mib": values.get("balloon.current"),
        "unused_mib": values.get("balloon.unused"),
        "available_mib": values.get("balloon.available"),
        "usable_mib": values.get("balloon.usable"),
        "rss_mib": values.get("balloon.rss"),
    }
    return {
        "cpu": {
            "time_ns": values.get("cpu.time"),
            "user_ns": values.get("cpu.user"),
            "system_ns": values.get("cpu.system"),
        },
        "memory": {
            key: value // 1024 if isinstance(value, int) else None for key, value in balloon.items()
        },
        "nics": [
            {"target": name, **{key: values.get(prefix + tail) for key, tail in _NET.items()}}
            for prefix, name in _records(values, "net")
        ],
        "disks": [
            {"target": name, **{key: values.get(prefix + tail) for key, tail in _BLOCK.items()}}
            for prefix, name in _records(values, "block")
        ],
    }
