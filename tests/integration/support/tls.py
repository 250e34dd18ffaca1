# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors that trust each other, by keys made here: quicker than by the role."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.fleet.virt.tests.integration.preflight.keys import Authority
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

CLIENT = "/etc/pki/libvirt/clientcert.pem"  # without it a hypervisor asks no other
_SOCKETS = "libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"
LISTEN = f"""
systemctl -q stop libvirtd libvirtd-tls.socket {_SOCKETS}
systemctl -q start libvirtd-tls.socket {_SOCKETS}
"""
_SILENT = f"""
rm -rf /etc/pki/libvirt /etc/pki/CA
systemctl -q stop libvirtd libvirtd-tls.socket {_SOCKETS}
systemctl -q start {_SOCKETS}
"""


# Readable for the user of QEMU
_QEMU = """
set -e; cd /etc/pki; mkdir -p qemu
cp CA/cacert.pem qemu/ca-cert.pem
for side in server client; do
  cp libvirt/${side}cert.pem qemu/$side-cert.pem
  cp libvirt/private/${side}key.pem qemu/$side-key.pem
done
chmod a+r qemu/*
"""


def trust(lab: Laboratory, hosts: Sequence[str], *, qemu: bool = False) -> Authority:
    """They have keys of one CA, which it is, and listen with TLS; ``qemu``: its QEMUs have, too."""
    authority = Authority()
    for host in hosts:
        certificate, key = authority.issue(host, [lab.host(host).address])
        files = {"CA/cacert.pem": authority.certificate}
        files.update({f"libvirt/{side}cert.pem": certificate for side in ("server", "client")})
        files.update({f"libvirt/private/{side}key.pem": key for side in ("server", "client")})
        for path, text in files.items():
            target = f"/etc/pki/{path}"
            command = f"mkdir -p $(dirname {target}); umask 077; cat > {target}"
            lab.ssh(host, command, input=text)
        if qemu:
            lab.ssh(host, _QEMU)
        lab.ssh(host, LISTEN)
    return authority


@contextlib.contextmanager
def trusting(lab: Laboratory, hosts: Sequence[str]) -> Iterator[Authority]:
    """The same, and afterwards neither."""
    try:
        yield trust(lab, hosts)
    finally:
        for host in hosts:
            lab.ssh(host, _SILENT)


def client(authority: Authority, folder: Path) -> Path:
    """``folder`` with a certificate for the controller, as libvirt's ``pkipath`` has it."""
    certificate, key = authority.issue("controller", [])
    folder.mkdir()
    for name, text in (
        ("cacert", authority.certificate),
        ("clientcert", certificate),
        ("clientkey", key),
    ):
        path = folder / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return folder
