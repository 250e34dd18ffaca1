# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role and its playbook: first run, second run, what keys look like, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _x509
from ansible_collections.fleet.virt.tests.integration import harness

from .conftest import HOSTS, PKI, Keys

_PLACES = "/etc/pki /var/lib/libvirt /root /home /tmp /var/tmp"
_PRIVATE = rf"""
for file in $(grep -rIl 'PRIVATE KEY' {_PLACES} 2>/dev/null); do
  public=$(openssl pkey -in $file -pubout -outform DER | sha256sum | cut -c 1-64)
  echo "$(stat -c '%a %U' $file) $public $file"
done
"""
_CONTROL = "libvirt/private/clientkey.pem libvirt/private/serverkey.pem"
_DATA = "libvirt-vnc/server-key.pem qemu/client-key.pem qemu/server-key.pem"


def test_first_run_second_run_and_check_mode(bare: Keys) -> None:
    done = harness.verify_playbook(
        bare.ansible,
        bare.lab,
        "fleet.virt.renew_keys",
        variables=bare.variables,
        watch=PKI,
        watch_local=[str(bare.folder)],
        limit=400,
    )
    for host in HOSTS:
        assert done.real[host]
    bare.listen()
    bare.assert_all_connect()


def test_b19_keys_are_their_hosts_own_and_certificates_say_who_it_is(keys: Keys) -> None:
    """B19: 0600 and of the right user, name and address in it, CN of that host, no CA key."""
    authorities = {
        _x509.key_id(keys.store().kind(kind).ca(number).certificate.public_key())
        for kind in ("control", "data")
        for number in keys.store().kind(kind).generations()
    }
    seen: dict[str, str] = {}
    for host in HOSTS:
        lines = [line.split() for line in keys.host(host, _PRIVATE).splitlines()]
        print(*(f"{host}: {mode} {owner} {path}" for mode, owner, _, path in lines), sep="\n")
        paths = {path.split("/", 6)[-1] for *_, path in lines}
        assert paths == {*_CONTROL.split(), *_DATA.split()}
        for mode, owner, identity, path in lines:
            assert mode == "600", path
            assert owner == ("root" if "/private/" in path else "libvirt-qemu"), path
            assert identity not in authorities, f"{path} is a CA's key"
            whose = f"{host} {'control' if '/private/' in path else 'data'}"
            assert seen.setdefault(identity, whose) == whose, f"{path} is also that of {seen}"
        for kind, path in (
            ("control", "/etc/pki/libvirt/servercert.pem"),
            ("data", "/etc/pki/qemu/server-cert.pem"),
        ):
            found = _x509.read(keys.host(host, f"cat {path}"), keys.store().kind(kind).own())
            assert found is not None
            assert (found.organization, found.common_name) == ("fleet", host)
            assert set(found.names) == {f"DNS:{host}", f"IP:{keys.address(host)}"}
            assert found.issuer == keys.store().kind(kind).ca(1).id
            assert found.not_before < time.time() - 80000, "not backdated"
    assert len(seen) >= 4, "two keys on each of two hosts"
    for path in keys.folder.rglob("*"):
        mode = path.stat().st_mode & 0o777
        assert mode == (0o700 if path.is_dir() else mode), path
        if path.is_file() and b"PRIVATE KEY" in path.read_bytes():
            assert mode == 0o600, path
    assert keys.folder.stat().st_mode & 0o777 == 0o700


def _served(keys: Keys, host: str) -> str:
    """Serial number of the certificate that a running daemon shows."""
    client = keys.folder / "client"
    command = (
        f"openssl s_client -connect {keys.address(host)}:16514 -cert {client}/clientcert.pem"
        f" -key {client}/clientkey.pem </dev/null 2>/dev/null | openssl x509 -noout -serial"
    )
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout


def test_b20_renewed_in_time_and_read_by_the_daemon_without_a_restart(keys: Keys) -> None:
    """B20: what expires within the window is renewed and served; else nothing changes."""
    keys.run(libvirt_keys_renew=True, libvirt_keys_days=40).succeeded()
    assert keys.changed(keys.run().succeeded()) == []
    process = {host: keys.daemon(host) for host in HOSTS}
    before = {host: _served(keys, host) for host in HOSTS}
    run = keys.run(["--limit", "hv1"], libvirt_keys_renew_days=45).succeeded()
    assert {event.host for event in run.events if event.result.get("issued")} == {"hv1"}
    reasons = [event.result["issued"] for event in run.events if event.result.get("issued")]
    assert reasons == [dict.fromkeys(("control", "data"), "it expires in 39 days")]
    assert {host: keys.daemon(host) for host in HOSTS} == process
    assert _served(keys, "hv1") != before["hv1"]
    assert _served(keys, "hv2") == before["hv2"]
    keys.assert_all_connect()
    assert keys.changed(keys.run().succeeded()) == []
    names = json.dumps({"libvirt_keys_names": ["storage.example.com"]})
    run = keys.run(["--limit", "hv2", "-e", names]).succeeded()
    assert {event.host for event in run.events if event.result.get("issued")} == {"hv2"}
    text = keys.host("hv2", "openssl x509 -noout -text -in /etc/pki/qemu/client-cert.pem")
    assert "DNS:storage.example.com" in text
    keys.run().succeeded()


def test_no_second_trust_is_made(keys: Keys, tmp_path: Path) -> None:
    """Another controller, or one that cannot ask everybody, makes no CA."""
    before = {host: keys.host(host, "cat /etc/pki/CA/cacert.pem") for host in HOSTS}
    other = {"libvirt_keys_dir": str(tmp_path / "other")}
    for args, match in (
        ((), "trusts a control CA with SHA-256 .* whose key is not on this controller"),
        (("--limit", "hv1"), "whose key is not on this controller"),
    ):
        run = keys.run(args, **other)
        assert run.returncode != 0
        assert re.search(match, str(run)), str(run)
    for host in HOSTS:
        keys.lab.ssh(host, "mv /etc/pki /etc/pki.away")
    try:
        run = keys.run(["--limit", "hv1"], **other)
        assert run.returncode != 0
        assert re.search("hv2, which may trust one already, did not respond", str(run)), str(run)
    finally:
        for host in HOSTS:
            keys.lab.ssh(host, "rm -rf /etc/pki; mv /etc/pki.away /etc/pki")
    assert not list((tmp_path / "other").glob("*/*/ca.key"))
    assert before == {host: keys.host(host, "cat /etc/pki/CA/cacert.pem") for host in HOSTS}


def test_wrong_orders_are_refused(keys: Keys) -> None:
    """Other ones: tests/unit/keys and tests/unit/plugins/test_action_virt_keys.py."""
    run = keys.run(check=True, libvirt_keys_revoke="hv9")
    assert run.returncode != 0
    assert re.search("was never issued a certificate", str(run)), str(run)
