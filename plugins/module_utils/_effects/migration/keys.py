# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates that have expired, each end's own.

libvirt says of the other end only that its certificate was not verified, and QEMU of either end
says it when volumes have been made already.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os
import time

from ..._errors import FleetVirtError
from ..hypervisor import preflight_tls

# What libvirt uses in place of the other if it is there (migrate_tls_x509_cert_dir in qemu.conf)
_DATA = ("/etc/pki/libvirt-migrate", "/etc/pki/qemu")


def _data() -> str:
    return next((folder for folder in _DATA if os.path.isdir(folder)), _DATA[-1])


def for_control() -> list[str]:
    """What this hypervisor shows to libvirt on others, in words, if it has expired."""
    return _expired([preflight_tls.CONTROL["ca"], preflight_tls.CONTROL["cert"]])


def for_leaving() -> list[str]:
    """What QEMU here shows to another that a VM goes to."""
    return _expired([f"{_data()}/ca-cert.pem", f"{_data()}/client-cert.pem"])


def for_coming() -> list[str]:
    """What QEMU here shows to another that a VM comes from."""
    return _expired([f"{_data()}/ca-cert.pem", f"{_data()}/server-cert.pem"])


def of_other(address: str) -> bool:
    """Whether it is its age that speaks against the certificate of libvirt there."""
    return "certificate has expired" in (preflight_tls.problem(address) or "")


def _expired(paths: list[str]) -> list[str]:
    found = []
    for path in paths:
        # What cannot be read is libvirt's to judge: it may not be used at all
        with contextlib.suppress(FleetVirtError, OSError, ValueError):
            last = _until(path)
            if last < time.time():
                day = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last))
                found.append(f"{path} expired on {day}")
    return found


def _until(path: str) -> float:
    """A file may hold several CAs, of which one that is valid is enough; below a certificate may be
    those that signed it."""
    ends = [float(one["until"]) for one in preflight_tls.validity(path, "cert")]
    return max(ends) if os.path.basename(path) in ("cacert.pem", "ca-cert.pem") else ends[0]
