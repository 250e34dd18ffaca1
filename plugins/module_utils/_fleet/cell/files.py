# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a member of a cell, besides corosync.conf."""

from __future__ import annotations

import hashlib

AGENT = "/usr/lib/ocf/resource.d/fleet/domain"
SHEBANG = "#!/usr/bin/python3\n"
COROSYNC_KEY = "/etc/corosync/authkey"
PACEMAKER_KEY = "/etc/pacemaker/authkey"
UNIT = "/etc/systemd/system/pacemaker.service.d/fleet-virt.conf"
ENVIRONMENT = "/etc/pacemaker/fleet-virt.env"
SERVICES = ("corosync.service", "pacemaker.service")
# What Pacemaker knows of the cluster that a package has started, or that the host has left
STATE = "/var/lib/pacemaker/cib"

# Pacemaker's log file would have each change of its configuration, with the passwords of fence
# devices. What a file of the distribution sets (/etc/default/pacemaker, /etc/sysconfig/pacemaker)
# holds against Environment=, and only a file that the unit reads later holds against that.
ENVIRONMENT_TEXT = """\
# Managed by fleet.virt
PCMK_logfile=none
"""
# Units stop in the reverse of the order in which they start
UNIT_TEXT = f"""\
# Managed by fleet.virt
[Unit]
After=libvirtd.service libvirtd.socket virtqemud.service virtqemud.socket libvirt-guests.service
After=remote-fs.target

[Service]
TimeoutStopSec=5min
SendSIGKILL=yes
Environment=PCMK_logfile=none
EnvironmentFile=-{ENVIRONMENT}
"""


def digest(*keys: bytes | None) -> str | None:
    """What tells whether two hypervisors have the same keys; None if one is missing."""
    digests = [hashlib.sha256(key).digest() for key in keys if key is not None]
    if len(digests) != len(keys):
        return None
    return hashlib.sha256(b"".join(digests)).hexdigest()
