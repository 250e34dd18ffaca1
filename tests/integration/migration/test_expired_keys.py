# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates that have expired or are missing are found before anything changes, on either end
and of either CA, and what the message says to do helps."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.key_files import (
    CERTIFICATE,
    KEY,
    alike,
)
from ansible_collections.fleet.virt.tests.integration import harness

from .conftest import MODULE, Movers

_RENEW = "renew it with ansible-playbook fleet.virt.renew_keys"
_DAY = r"expired on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
_SOON = 15.0  # seconds, in which the files are placed and read
_RELOAD = "virt-admin -q server-update-tls libvirtd"


@contextlib.contextmanager
def _expired(movers: Movers, host: str, kind: str, *, reloaded: bool = False) -> Iterator[None]:
    """The hypervisor's certificates of a kind are what they would be had nobody renewed them.

    libvirt's daemon does not read one that has expired (``reloaded``): it expires while it is used.
    """
    moment = time.time() + (_SOON if reloaded else -_SOON)
    certificate, key = movers.keys.expiring(host, kind, moment)
    contents = {CERTIFICATE: certificate, KEY: key}
    real = []
    for content, text in contents.items():
        for file in alike(kind, content):
            path = movers.fleet.host(host, f"readlink -f /etc/pki/{file.path}").strip()
            movers.fleet.host(host, f"cp -a {path} {path}.right")
            movers.lab.ssh(host, f"cat >{path}", input=text)
            real.append(path)
    if reloaded:
        movers.fleet.host(host, _RELOAD)
        time.sleep(max(0.0, moment + 1 - time.time()))
    try:
        yield
    finally:
        for path in real:  # of a version that may not be the current one any more
            movers.fleet.host(host, f"mv {path}.right {path}")
        if reloaded:
            movers.fleet.host(host, _RELOAD)


def _refused(movers: Movers, match: str) -> None:
    args = movers.args("web1")
    harness.refuse(movers.ansible, movers.lab, "hv1", MODULE, args, match=match)


def test_keys_that_have_expired(movers: Movers) -> None:
    movers.make("web1", start=False)
    unreached = "hv2 cannot be reached from hv1 over TLS: "
    with _expired(movers, "hv1", "control"):
        path = re.escape("/etc/pki/libvirt/clientcert.pem")
        _refused(movers, f"{unreached}{path} {_DAY} on hv1; {_RENEW}")
    with _expired(movers, "hv1", "data"):
        path = re.escape("/etc/pki/qemu/client-cert.pem")
        _refused(movers, f"{path} {_DAY} on hv1; {_RENEW}")
    with _expired(movers, "hv2", "data"):
        run = movers.playbook(vm_name="web1")
        path = re.escape("/etc/pki/qemu/server-cert.pem")
        assert re.search(f"{path} {_DAY} on hv2; {_RENEW}", run.stdout), str(run)
        # alone, the module is told by libvirt, when the volumes have been made
        vm = movers.module("web1")
        assert "/etc/pki/qemu/server-cert.pem has expired" in vm["msg"], vm
        assert "remains shut off on hv1, and hv2 was cleaned up" in vm["msg"], vm
    movers.clean("hv2", "web1")
    with _expired(movers, "hv2", "control", reloaded=True):
        _refused(movers, f"{unreached}the certificate of libvirt on hv2 has expired; {_RENEW}")
        movers.keys.run().succeeded()
        vm = movers.module("web1")
        assert (vm["failed"], vm["flow"]) == (False, "offline"), vm
    movers.clean("hv1", "web1")


def test_keys_of_qemu_missing_are_refused_before_copying(movers: Movers) -> None:
    """On either end, also in check mode, with the role that brings them."""
    movers.make("lacks", start=False)
    files = {"hv1": "client-key.pem", "hv2": "server-cert.pem"}
    for host, name in files.items():
        movers.fleet.host(host, f"mv /etc/pki/qemu/{name} /etc/pki/qemu/{name}.away")
    try:
        for check in (True, False):
            run = movers.playbook(vm_name="lacks", check=check)
            assert run.returncode == 2, str(run)
            for host, name in files.items():
                text = f"QEMU's certificates {name} are not in /etc/pki/qemu on {host}; bring them"
                assert text in run.stdout, str(run)
            assert "(role fleet.virt.libvirt_keys)" in run.stdout, str(run)
            assert movers.state("hv1", "lacks") == "shut off"
            movers.clean("hv2", "lacks")
    finally:
        for host, name in files.items():
            movers.fleet.host(host, f"mv /etc/pki/qemu/{name}.away /etc/pki/qemu/{name}")
