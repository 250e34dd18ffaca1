# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Expired and missing certificates of source and destination.

libvirt reports only that its peer's certificate was not verified, and QEMU reports it when volumes
have been created already.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from ..._errors import FleetVirtError
from ..base import config_block
from ..base.key_files import CONTROL
from ..preflight import read_tls as preflight_tls

_QEMU_CONF = "/etc/libvirt/qemu.conf"
# As libvirt has it (virQEMUDriverConfigSetDefaults): the folder that its configuration names for
# migration, else the one for migration if it exists, else the one for everything
_FOR_MIGRATION = "/etc/pki/libvirt-migrate"
_FOR_EVERYTHING = "/etc/pki/qemu"


def _data() -> str:
    """The folder of the certificates that QEMU uses for moves."""
    text = ""
    with contextlib.suppress(OSError):
        text = Path(_QEMU_CONF).read_text(encoding="utf-8", errors="replace")
    # the first of two assignments counts
    settings = dict(reversed(config_block.assignments(text.splitlines())))

    def named(key: str) -> str:
        value = re.match(r'"([^"]*)"', settings.get(key, ""))
        return value[1].rstrip("/") if value else ""

    usual = named("default_tls_x509_cert_dir") or _FOR_EVERYTHING
    existing = _FOR_MIGRATION if os.path.isdir(_FOR_MIGRATION) else usual
    return named("migrate_tls_x509_cert_dir") or existing


def missing_for_outgoing() -> list[str]:
    """Describe certificates that QEMU here needs for VMs that leave and that do not exist."""
    return _missing("client")


def missing_for_incoming() -> list[str]:
    """Describe certificates that QEMU here needs for VMs that arrive and that do not exist."""
    return _missing("server")


def _missing(end: str) -> list[str]:
    folder = _data()
    names = ("ca-cert.pem", f"{end}-cert.pem", f"{end}-key.pem")
    lacking = [name for name in names if not os.path.exists(f"{folder}/{name}")]
    return [f"QEMU's certificates {', '.join(lacking)} are not in {folder}"] if lacking else []


def for_control() -> list[str]:
    """Describe expired certificates that this hypervisor presents to libvirt on others."""
    return _expired([CONTROL["ca"], CONTROL["cert"]])


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
    texts = []
    for path in paths:
        # an unreadable file is left to libvirt: it may not be in use at all
        with contextlib.suppress(FleetVirtError, OSError, ValueError):
            last = _until(path)
            if last < time.time():
                day = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last))
                texts.append(f"{path} expired on {day}")
    return texts


def _until(path: str) -> float:
    """When the file's certificates expire. It may hold several CAs, of which one valid is enough,
    or a certificate followed by its issuers."""
    ends = [float(certificate["until"]) for certificate in preflight_tls.validity(path, "cert")]
    return max(ends) if os.path.basename(path) in ("cacert.pem", "ca-cert.pem") else ends[0]
