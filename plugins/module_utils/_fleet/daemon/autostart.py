# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units that start guests in their order when their hypervisor boots.

libvirt starts guests with autostart in no order, once a boot: when it starts and the file
``autostarted`` is absent from its state directory (``virDriverShouldAutostart``, libvirt 6.10 and
newer). One unit makes that file before libvirt starts, another starts the guests afterwards. So
libvirt's own autostart remains the one record of which guests start; and if libvirt should know
that file no more, it starts them itself, in no order.
"""

from __future__ import annotations

FOLDER = "/etc/systemd/system"
HOLD, START = "fleet-virt-autostart-hold.service", "fleet-virt-autostart.service"
PROGRAM = "/usr/local/lib/fleet-virt/start_guests.py"
MARK = "/run/libvirt/qemu/autostarted"
_HEAD = "# Written by fleet.virt.virt_daemon; changes here are lost\n"
_DAEMONS = "libvirtd.service virtqemud.service"


def files(program: str) -> dict[str, str]:
    """The text of each file by its path; ``program`` is that of the one which starts guests."""
    return {
        PROGRAM: program,
        f"{FOLDER}/{HOLD}": _HEAD + "\n".join(_HOLD_UNIT),
        f"{FOLDER}/{START}": _HEAD + "\n".join(_START_UNIT),
    }


_HOLD_UNIT = (
    "[Unit]",
    "Description=Leave the start of guests to their start order",
    f"Before={_DAEMONS}",
    f"ConditionPathExists={PROGRAM}",
    "",
    "[Service]",
    "Type=oneshot",
    "RemainAfterExit=yes",
    "UMask=0022",
    f"ExecStart=/bin/mkdir -p {MARK.rpartition('/')[0]}",
    f"ExecStart=/bin/touch {MARK}",
    "",
    "[Install]",
    "WantedBy=multi-user.target",
    "",
)
# After the target that wants it, which therefore does not wait for it
_START_UNIT = (
    "[Unit]",
    "Description=Start guests in their start order",
    f"After={HOLD} {_DAEMONS} network-online.target remote-fs.target multi-user.target",
    "Wants=network-online.target",
    f"ConditionPathExists={PROGRAM}",
    "",
    "[Service]",
    "Type=oneshot",
    "RemainAfterExit=yes",
    "TimeoutStartSec=infinity",
    f"ExecStart=/usr/bin/python3 -I {PROGRAM}",
    "",
    "[Install]",
    "WantedBy=multi-user.target",
    "",
)
