# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt-sysprep can do to a copied disk, and what ``identity: reset`` does of it.

``virt-sysprep --list-operations`` says what people have met in years that two copies of a guest
share. A new release with another operation fails a test in the laboratory, and whoever adds it here
has to decide where it belongs.
"""

from __future__ import annotations

# Operation: files that it removes or empties, and that no copy has either
REMOVED = {
    "dhcp-client-state": (
        "/var/lib/dhclient/dhclient.leases",
        "/var/lib/dhclient/dhclient--eth0.lease",
        "/var/lib/dhcp/dhclient.eth0.leases",
    ),
    "machine-id": ("/etc/machine-id", "/var/lib/dbus/machine-id"),
    "ssh-hostkeys": ("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key.pub"),
}

_DATA = "data, logs and caches: they stay as everything else on the disk, and are no identity"
_USERS = "users, their passwords and keys stay: a copy is entered as its source is"
_NETWORK = (
    "the guest's own network configuration stays, and a seed writes its own beside it; the guide"
    " says so"
)
_REGISTERED = (
    "what a server knows the guest by: only there it can be taken back, so this is done in the"
    " guest before it is copied; the guide says so"
)
_DISKS = "disks of different VMs never meet, and boot loaders name them by these"
_ASKED = "does nothing but what its own options ask for"

# Operation: why a copy keeps what it removes
LEFT = {
    "abrt-data": _DATA,
    "backup-files": _DATA,
    "bash-history": _DATA,
    "blkid-tab": _DATA,
    "ca-certificates": _DATA,
    "crash-data": _DATA,
    "cron-spool": _DATA,
    "customize": _ASKED,
    "dhcp-server-state": _DATA,
    "dovecot-data": _DATA,
    "firewall-rules": _NETWORK,
    "flag-reconfiguration": _ASKED,
    "fs-uuids": _DISKS,
    "ipa-client": _REGISTERED,
    "kerberos-data": _DATA,
    "kerberos-hostkeytab": _REGISTERED,
    "logfiles": _DATA,
    "lvm-system-devices": _DISKS,
    "lvm-uuids": _DISKS,
    "mail-spool": _DATA,
    "net-hostname": _NETWORK,
    "net-hwaddr": _NETWORK,
    "net-nmconn": _NETWORK,
    "pacct-log": _DATA,
    "package-manager-cache": _DATA,
    "pam-data": _DATA,
    "passwd-backups": _USERS,
    "puppet-data-log": _REGISTERED,
    "rh-subscription-manager": _REGISTERED,
    "rhn-systemid": _REGISTERED,
    "rpm-db": _DATA,
    "samba-db-log": _REGISTERED,
    "script": _ASKED,
    "smolt-uuid": _REGISTERED,
    "ssh-userdir": _USERS,
    "sssd-db-log": _REGISTERED,
    "tmp-files": _DATA,
    "udev-persistent-net": _NETWORK,
    "user-account": _USERS,
    "utmp": _DATA,
    "yum-uuid": _REGISTERED,
}
