# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon that has failed for its keys runs afterwards, or the run fails and says why."""

from __future__ import annotations

import time
from typing import Any

from .conftest import Keys

_LIMIT = "/run/systemd/system/libvirtd.service.d/limit.conf"
# systemd gives it up for good, and its sockets with it, however long each start takes
_FAIL = f"""
mkdir -p $(dirname {_LIMIT})
printf '[Unit]\\nStartLimitIntervalSec=3600\\nStartLimitBurst=3\\n' >{_LIMIT}
systemctl daemon-reload
systemctl stop libvirtd.service
for turn in $(seq 30); do
  systemctl start libvirtd.service 2>/dev/null || true
  systemctl is-failed --quiet libvirtd.service libvirtd-tls.socket && break
  sleep 0.2
done
systemctl is-failed libvirtd.service
"""
_MEND = f"rm -f {_LIMIT}; systemctl daemon-reload"
_SERVER = "/etc/pki/libvirt/servercert.pem"
# What expired keys and a daemon that has failed are found by
_FINDINGS = {"key_expired", "libvirt_silent", "tls_failed"}


def _found(keys: Keys) -> dict[str, Any]:
    run = keys.ansible.playbook("preflight", {"virt_output": "json"}, limit=200)
    (findings,) = (one.result["findings"] for one in run.events if "findings" in one.result)
    return {one["id"]: one for one in findings if one["id"] in _FINDINGS}


def test_the_remedy_of_preflight_mends_expired_keys_and_the_daemon(keys: Keys) -> None:
    """Server and client have expired on hv1, and its libvirtd has failed of it."""
    texts = keys.expiring("hv1", "control", time.time() - 60)
    for text, paths in zip(texts, ("{server,client}cert.pem", "private/{server,client}key.pem")):
        keys.lab.ssh("hv1", f"bash -c 'tee /etc/pki/libvirt/{paths} >/dev/null'", input=text)
    keys.host("hv1", _FAIL)
    try:
        before = _found(keys)
        assert set(before) == _FINDINGS
        for finding in before.values():
            assert finding["remedy"].startswith("run ansible-playbook fleet.virt.renew_keys"), (
                finding
            )
        predicted = keys.run(check=True).succeeded()
        assert {host for _, host in keys.changed(predicted)} >= {"hv1"}
        assert keys.lab.ssh("hv1", "systemctl is-failed libvirtd.service", check=False).stdout
        run = keys.run().succeeded()
        assert [one.host for one in run.events if one.result.get("reloaded")] == ["hv1"]
        assert _found(keys) == {}
        keys.assert_all_connect()
        assert keys.changed(keys.run().succeeded()) == []
    finally:
        keys.host("hv1", _MEND)


def test_a_daemon_that_does_not_start_is_a_failure_with_what_it_says(keys: Keys) -> None:
    """Its keys are right; a setting is wrong, which no keys mend."""
    conf = "/etc/libvirt/libvirtd.conf"
    keys.host("hv1", f"cp -a {conf} /run/kept.conf; echo 'max_clients = x' >>{conf}\n{_FAIL}")
    try:
        run = keys.run()
        assert run.returncode != 0
        assert "libvirtd.service had failed and does not start" in str(run), str(run)
        assert "expecting a value" in str(run), "what the log says"
    finally:
        keys.host("hv1", f"cp -a /run/kept.conf {conf}; {_MEND}")
    keys.run().succeeded()
    keys.assert_all_connect()
