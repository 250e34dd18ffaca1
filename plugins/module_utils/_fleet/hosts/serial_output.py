# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest's serial console output: its end as text, and the addresses cloud-init reports.

Everything here comes from the guest, which may write anything.
"""

from __future__ import annotations

import re
import typing as t

from ..base.ip import usable

# Escape sequences of terminals: CSI, OSC (ended by BEL or ESC \), and those of one character
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_WIDTH = 300  # characters of a line
# cloud-init's table of devices: | eth0 | True | 192.0.2.5 | 255.255.255.0 | global | 52:54:... |
_TITLE = re.compile(r"ci-info: \++.*device info")
_ROW = re.compile(r"ci-info: \|(.+)\|\s*$")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


def lines(text: str) -> list[str]:
    """The lines without control characters and escape sequences; what was overwritten is gone."""
    kept_lines = []
    for line in _ESCAPES.sub("", text.replace("\r\n", "\n")).split("\n"):
        last = line.rstrip("\r").rpartition("\r")[2].replace("\t", "    ")
        kept = "".join(character for character in last if character.isprintable())
        kept_lines.append(kept.rstrip()[:_WIDTH])
    return kept_lines


def end(text: str, count: int) -> list[str]:
    """The last ``count`` lines of :func:`lines` that are not blank."""
    return [line for line in lines(text) if line][-count:]


def addresses(text: str, macs: t.Collection[str]) -> list[str]:
    """Addresses in cloud-init's last table of devices, of the NICs with the MAC addresses ``macs``.

    Anything that is not a usable guest address (:func:`ip.usable`) is left out.
    """
    rows: list[str] = []
    for line in lines(text):
        if _TITLE.search(line):
            rows = []  # of an earlier boot
        else:
            match = _ROW.search(line)
            if match:
                rows.append(match.group(1))
    wanted = {mac.lower() for mac in macs}
    mac_of: dict[str, str] = {}
    device_of: dict[str, str] = {}
    for row in rows:
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) < 6 or cells[1] != "True":
            continue
        address = usable(cells[2])
        mac = cells[5].lower()
        if _MAC.fullmatch(mac):
            mac_of[cells[0]] = mac
        if address is not None:
            device_of.setdefault(address, cells[0])
    # the row of an IPv6 address may have its MAC only in the device's other row
    return [address for address, device in device_of.items() if mac_of.get(device) in wanted]
