# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key files of a hypervisor: the paths that libvirt and QEMU read by default."""

from __future__ import annotations

from ..._records import dataclass

PKI = "/etc/pki"
# AppArmor lets a confined QEMU read below /etc/pki/libvirt, /etc/pki/qemu and the like, and checks
# the path that a link resolves to: the versions must be there and nowhere else.
BASE = f"{PKI}/libvirt/fleet-virt"
CURRENT = f"{BASE}/current"

# The files of a client of libvirt
CONTROL = {
    "ca": "/etc/pki/CA/cacert.pem",
    "cert": "/etc/pki/libvirt/clientcert.pem",
    "key": "/etc/pki/libvirt/private/clientkey.pem",
}

CA, CRL, CERTIFICATE, KEY = "ca", "crl", "certificate", "key"
# The file that is read on behalf of all files with the same content
_FIRST = {
    "control": {
        CA: "CA/cacert.pem",
        CRL: "CA/cacrl.pem",
        CERTIFICATE: "libvirt/servercert.pem",
        KEY: "libvirt/private/serverkey.pem",
    },
    "data": {
        CA: "qemu/ca-cert.pem",
        CRL: "qemu/ca-crl.pem",
        CERTIFICATE: "qemu/server-cert.pem",
        KEY: "qemu/server-key.pem",
    },
}


@dataclass(frozen=True)
class KeyFile:
    """A file below ``/etc/pki`` and in each version, with its kind and content."""

    path: str
    kind: str
    content: str

    @property
    def secret(self) -> bool:
        """Whether only its owner may read it."""
        return self.content == KEY

    @property
    def mode(self) -> int:
        """Its permissions."""
        return 0o600 if self.secret else 0o644


FILES = (
    KeyFile("CA/cacert.pem", "control", CA),
    KeyFile("CA/cacrl.pem", "control", CRL),
    KeyFile("libvirt/servercert.pem", "control", CERTIFICATE),
    KeyFile("libvirt/clientcert.pem", "control", CERTIFICATE),
    KeyFile("libvirt/private/serverkey.pem", "control", KEY),
    KeyFile("libvirt/private/clientkey.pem", "control", KEY),
    KeyFile("qemu/ca-cert.pem", "data", CA),
    KeyFile("qemu/ca-crl.pem", "data", CRL),
    KeyFile("qemu/server-cert.pem", "data", CERTIFICATE),
    KeyFile("qemu/client-cert.pem", "data", CERTIFICATE),
    KeyFile("qemu/server-key.pem", "data", KEY),
    KeyFile("qemu/client-key.pem", "data", KEY),
    KeyFile("libvirt-vnc/ca-cert.pem", "data", CA),
    KeyFile("libvirt-vnc/ca-crl.pem", "data", CRL),
    KeyFile("libvirt-vnc/server-cert.pem", "data", CERTIFICATE),
    KeyFile("libvirt-vnc/server-key.pem", "data", KEY),
)
# Folders of a version with their modes, also used for folders missing in /etc/pki
FOLDERS = (
    ("CA", 0o755),
    ("libvirt", 0o755),
    ("libvirt/private", 0o700),
    ("libvirt-vnc", 0o755),
    ("qemu", 0o755),
)


def first(kind: str, content: str) -> str:
    """Path below ``/etc/pki`` of the file that is read for a content."""
    return _FIRST[kind][content]


def alike(kind: str, content: str) -> tuple[KeyFile, ...]:
    """All files with the same content."""
    return tuple(file for file in FILES if (file.kind, file.content) == (kind, content))


def target(path: str) -> str:
    """The target of the link at ``/etc/pki/<path>``."""
    return f"{CURRENT}/{path}"
