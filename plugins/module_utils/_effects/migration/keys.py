# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Expired certificates of source and destination.

libvirt reports only that its peer's certificate was not verified, and QEMU reports it when volumes
have been created already.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os
import time

from ..._errors import FleetVirtError
from ..hypervisor import preflight_tls

# libvirt uses the first one that exists (migrate_tls_x509_cert_dir in qemu.conf)
_DATA = ("/etc/pki/libvirt-migrate", "/etc/pki/qemu")


def _data() -> str:
    return next((folder for folder in _DATA if os.path.isdir(folder)), _DATA[-1])


def for_control() -> list[str]:
    """Describe expired certificates that this hypervisor presents to libvirt on others."""
    return _expired([preflight_tls.CONTROL["ca"], preflight_tls.CONTROL["cert"]])


def for_outgoing() -> list[str]:
    """Describe those that QEMU here presents to the destination of a VM."""
    return _expired([f"{_data()}/ca-cert.pem", f"{_data()}/client-cert.pem"])


def for_incoming() -> list[str]:
    """Describe those that QEMU here presents to the source of a VM."""
    return _expired([f"{_data()}/ca-cert.pem", f"{_data()}/server-cert.pem"])


def of_other(address: str) -> bool:
    """Whether the certificate of libvirt at ``address`` has expired."""
    return "certificate has expired" in (preflight_tls.problem(address) or "")


def _expired(paths: list[str]) -> list[str]:
    found = []
    for path in paths:
        # an unreadable file is left to libvirt: it may not be in use at all
        with contextlib.suppress(FleetVirtError, OSError, ValueError):
            last = _until(path)
            if last < time.time():
                day = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last))
                found.append(f"{path} expired on {day}")
    return found


def _until(path: str) -> float:
    """When the file's certificates expire. It may hold several CAs, of which one valid is enough,
    or a certificate followed by its issuers."""
    ends = [float(one["until"]) for one in preflight_tls.validity(path, "cert")]
    return max(ends) if os.path.basename(path) in ("cacert.pem", "ca-cert.pem") else ends[0]
