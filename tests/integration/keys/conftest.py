# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of keys share: hypervisors that listen with TLS, and clients that verify."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    DAY,
    DesiredCertificate,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _x509
from ansible_collections.fleet.virt.plugins.plugin_utils.keys._key_store import KeyStore
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible, Run
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

PKI = ("/etc/pki",)
HOSTS = ("hv1", "hv2")
PORT = 16514
# The pattern that the fleet's daemons are configured with, once
PATTERN = 'tls_allowed_dn_list = [ "O=fleet,CN=*" ]'
# Listening with TLS is another role's work: here it is switched on by hand, as on any host whose
# daemons are started by systemd's sockets
LISTEN = f"""
set -e
conf=/etc/libvirt/libvirtd.conf
[ -e $conf.before-keys ] || cp -a $conf $conf.before-keys
grep -q '^tls_allowed' $conf || echo '{PATTERN}' >>$conf
# without the limit after which an idle daemon ends: whether it goes on is what is looked at
mkdir -p /run/systemd/system/libvirtd.service.d
printf '[Service]\\nEnvironmentFile=\\nEnvironment=LIBVIRTD_ARGS=\\n' \
  >/run/systemd/system/libvirtd.service.d/keys.conf
systemctl daemon-reload
systemctl -q stop libvirtd.service libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket
systemctl -q start libvirtd-tls.socket libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket
systemctl start libvirtd.service
"""
_SILENT = """
conf=/etc/libvirt/libvirtd.conf
[ ! -e $conf.before-keys ] || mv $conf.before-keys $conf
rm -rf /run/systemd/system/libvirtd.service.d
systemctl daemon-reload
systemctl -q stop libvirtd.service libvirtd-tls.socket libvirtd.socket libvirtd-ro.socket
systemctl -q start libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd.service
"""
_FORGET = "rm -rf /etc/pki/libvirt /etc/pki/qemu /etc/pki/libvirt-vnc /etc/pki/CA"


class Keys:
    """The laboratory's fleet with its keys in a folder of its own."""

    def __init__(self, lab: Laboratory, ansible: Ansible, folder: Path) -> None:
        self.lab = lab
        self.ansible = ansible
        self.folder = folder / "keys"
        self.variables: dict[str, Any] = {"libvirt_keys_dir": str(self.folder)}
        self._key: Any = None

    def run(
        self,
        args: Sequence[str] = (),
        *,
        check: bool = False,
        environment: Mapping[str, str] | None = None,
        **variables: Any,
    ) -> Run:
        """The playbook ``renew_keys``."""
        return self.ansible.playbook(
            "renew_keys",
            {**self.variables, **variables},
            args,
            check=check,
            environment=environment,
            limit=400,
        )

    def changed(self, run: Run) -> list[tuple[str, str]]:
        """The (task, host) pairs of a run that changed something."""
        return [(event.task, event.host) for event in run.events if event.result.get("changed")]

    def start(self, **variables: Any) -> Process:
        """The playbook as a process with a group of its own, to be killed."""
        given = {**self.variables, **variables}
        words = [word for key, value in given.items() for word in ("-e", f"{key}={value}")]
        return self.ansible.begin("ansible-playbook", "fleet.virt.renew_keys", *words, heard=True)

    def host(self, name: str, command: str) -> str:
        """What a command prints on a hypervisor."""
        return self.lab.ssh(name, command).stdout

    def daemon(self, name: str) -> str:
        """The process of a hypervisor's libvirtd; a child that is yet to become what it runs has
        the same name."""
        pid = self.host(name, "systemctl show --property MainPID --value libvirtd").strip()
        assert pid != "0", f"libvirtd does not run on {name}"
        return pid

    def address(self, name: str) -> str:
        """A hypervisor's address."""
        return self.lab.host(name).address

    def listen(self) -> None:
        """Have every hypervisor listen with TLS."""
        for name in HOSTS:
            self.lab.ssh(name, LISTEN)

    def forget(self) -> None:
        """Hypervisors and controller without any keys, and nobody listening."""
        for name in HOSTS:
            self.lab.ssh(name, _SILENT)
            self.lab.ssh(name, _FORGET)
        subprocess.run(["rm", "-rf", str(self.folder)], check=True)

    def store(self) -> KeyStore:
        """The controller's folder, to sign what the fleet would not."""
        return KeyStore(str(self.folder), None)

    def virsh(
        self,
        target: str,
        *,
        pki: Path | None = None,
        source: str | None = None,
        options: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """``virsh hostname`` over verified TLS, from the controller or from a hypervisor."""
        if source is not None:
            return self.lab.ssh(
                source, f"virsh -c qemu+tls://{target}/system hostname", check=False
            )
        uri = f"qemu+tls://{target}/system?pkipath={pki or self.folder / 'client'}{options}"
        return subprocess.run(
            ["virsh", "-c", uri, "hostname"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )

    def assert_all_connect(self) -> None:
        """The controller reaches every hypervisor, and each of them every other."""
        for target in HOSTS:
            done = self.virsh(self.address(target))
            assert done.returncode == 0, f"controller to {target}: {done.stderr}"
        for source, target in (("hv1", "hv2"), ("hv2", "hv1")):
            done = self.virsh(target, source=source)
            assert done.returncode == 0, f"{source} to {target}: {done.stderr}"

    def expiring(self, host: str, kind: str, moment: float) -> tuple[str, str]:
        """A certificate like the hypervisor's, which expires at a moment, and its key."""
        names = (f"DNS:{host}", f"IP:{self.address(host)}")
        part = self.store().kind(kind)
        rotation = part.rotation()
        assert rotation is not None
        key = _x509.new_key()
        certificate = _x509.sign(
            part.signer(rotation.new),
            key.public_key(),
            DesiredCertificate("fleet", host, names, 9, 1),
            moment - 9 * DAY,
            server=True,
        )
        return _x509.to_pem(certificate), _x509.key_bytes(key, None).decode()

    def other_client(
        self, folder: Path, number: int | None = None, kind: str = "control", **changes: Any
    ) -> Path:
        """A folder like the controller's, with another certificate.

        :param number: the generation of the fleet's CA that signs; None for a CA of somebody else.
        """
        part = self.store().kind(kind)
        ca = _x509.new_ca("fleet", "fleet control CA 1", 30, time.time())
        if number is not None:
            ca = part.signer(number)
        wanted = DesiredCertificate(
            changes.get("organization", "fleet"), "somebody", (), changes.get("days", 30), 1
        )
        key = self._key = self._key or _x509.new_key()
        now = time.time() - changes.get("days_ago", 0) * DAY
        certificate = _x509.sign(ca, key.public_key(), wanted, now, server=False)
        folder.mkdir()
        for name in ("cacert.pem", "cacrl.pem"):
            (folder / name).write_bytes((self.folder / "client" / name).read_bytes())
        if changes.get("certificate", True):
            (folder / "clientcert.pem").write_text(_x509.to_pem(certificate))
            (folder / "clientkey.pem").write_bytes(_x509.key_bytes(key, None))
            (folder / "clientkey.pem").chmod(0o600)
        return folder


@pytest.fixture(scope="package")
def _keys(
    lab: Laboratory, ansible: Ansible, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Keys]:
    keys = Keys(lab, ansible, tmp_path_factory.mktemp("keys"))
    yield keys
    keys.forget()


@pytest.fixture
def bare(_keys: Keys) -> Keys:
    """A fleet without keys."""
    _keys.forget()
    return _keys


@pytest.fixture
def keys(_keys: Keys) -> Keys:
    """A fleet with keys that listens with TLS, as some test left it or fresh."""
    if not _keys.folder.exists():
        _keys.run().succeeded()
    if "16514" not in _keys.host("hv1", "ss -ltn") or "16514" not in _keys.host("hv2", "ss -ltn"):
        _keys.listen()
    return _keys
