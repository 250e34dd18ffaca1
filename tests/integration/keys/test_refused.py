# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is refused, each on a real connection, beside one that is not."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import (
    common_names as _names,
)
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from . import tls_client
from .conftest import HOSTS, PORT, Keys

# What libvirt 9.0 and 11.3 write into their log
_NO_CERTIFICATE = "The peer did not send any certificate|No certificate was found"
_UNKNOWN = "hasn't got a known issuer|issuer is not known|is not trusted"
# libvirt has no words of its own for this one: all that differs from the one beside it is the date
_EXPIRED = "has expired|The certificate is not trusted"
_NAME = "not on the list of allowed clients"


def _wait_for_log(keys: Keys, host: str, since: str, words: str) -> None:
    """Until libvirt's log has one of the words: a moment after the client heard of it."""
    command = f"journalctl -u libvirtd --no-pager --since '{since}'"

    def is_there() -> bool:
        log = keys.host(host, command)
        return any(word in log for word in words.split("|"))

    wait_for(is_there, 10, f"{words} in the log of {host}")


def _now(keys: Keys, host: str) -> str:
    time.sleep(1)  # the log is looked at by the second
    return keys.host(host, "date '+%F %T'").strip()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"certificate": False}, _NO_CERTIFICATE, id="no certificate"),
        pytest.param({"number": None}, _UNKNOWN, id="another CA of the same name"),
        pytest.param({"days": 9, "days_ago": 20}, _EXPIRED, id="expired"),
        pytest.param({"organization": "other"}, _NAME, id="wrong pattern of name"),
        pytest.param({"kind": "data"}, _UNKNOWN, id="data certificate for control"),
    ],
)
def test_a_client_is_refused(
    keys: Keys, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    # libvirt's own client keeps back a certificate that it knows to be of no use
    right = keys.other_client(tmp_path / "right", 1)
    wrong = keys.other_client(tmp_path / "wrong", **{"number": 1, **changes})
    since = {host: _now(keys, host) for host in HOSTS}
    for host in HOSTS:
        address = keys.address(host)
        assert "control CA" in tls_client.connect(_with(right), address), "the like that is right"
        with pytest.raises(OSError, match=r"did not accept|alert|EOF|reset"):
            tls_client.connect(_with(wrong), address)
        _wait_for_log(keys, host, since[host], reason)
    assert keys.virsh(keys.address("hv1"), pki=right).returncode == 0
    assert keys.virsh(keys.address("hv1"), pki=wrong).returncode != 0


def _with(folder: Path) -> dict[str, Any]:
    return {"folders": [str(folder)] * 3, "port": PORT}


def test_a_server_without_the_name_connected_to_is_refused(keys: Keys) -> None:
    """hv2 knows hv1 by a further name, which the inventory does not give it."""
    assert keys.virsh("hv1", source="hv2").returncode == 0
    done = keys.virsh("hv1.lab.test", source="hv2")
    assert done.returncode != 0
    assert "does not match the hostname" in done.stderr or "Failed to verify peer" in done.stderr


_SERVER = r"""
set -e
[ -e /tmp/export.raw ] || { truncate -s 1M /tmp/export.raw; chmod 644 /tmp/export.raw; }
[ ! -e /tmp/nbd.pid ] || kill "$(cat /tmp/nbd.pid)" 2>/dev/null || true
setpriv --reuid libvirt-qemu --regid kvm --clear-groups qemu-nbd --fork --persistent --shared 0 \
  --read-only --format raw --pid-file /tmp/nbd-$$.pid --port 10899 \
  --object tls-creds-x509,id=tls0,endpoint=server,dir=/etc/pki/qemu,verify-peer=yes \
  --tls-creds tls0 /tmp/export.raw
mv /tmp/nbd-$$.pid /tmp/nbd.pid
"""


class Export:
    """A disk that qemu-nbd on hv1 serves as qemu does in a migration, with the files deployed."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def start(self) -> None:
        self._keys.host("hv1", _SERVER)

    def stop(self) -> None:
        self._keys.host("hv1", "kill $(cat /tmp/nbd.pid); rm -f /tmp/nbd.pid /tmp/export.raw")

    def read(self, folder: str, host: str = "") -> subprocess.CompletedProcess[str]:
        """qemu on hv2 reads it with the certificates in a folder."""
        image = f"driver=nbd,host={host or self._keys.address('hv1')},port=10899,tls-creds=tls0"
        words = ["qemu-img", "info", "--object"]
        words += [f"tls-creds-x509,id=tls0,endpoint=client,dir={folder}", "--image-opts", image]
        return self._keys.lab.ssh("hv2", shlex.join(words), check=False)


@pytest.fixture
def export(keys: Keys) -> Any:
    served = Export(keys)
    served.start()
    yield served
    served.stop()


_COPY = """
rm -rf /tmp/data && mkdir /tmp/data && cp -L /etc/pki/qemu/* /tmp/data && cd /tmp/data && {then}
"""


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(
            "cp /etc/pki/libvirt/clientcert.pem client-cert.pem"
            " && cp /etc/pki/libvirt/private/clientkey.pem client-key.pem",
            id="control key for data",
        ),
        pytest.param("rm client-cert.pem client-key.pem", id="no certificate"),
    ],
)
def test_a_peer_is_refused_by_qemu(keys: Keys, export: Export, then: str) -> None:
    keys.host("hv2", _COPY.format(then="true"))
    done = export.read("/tmp/data")
    assert done.returncode == 0, done.stderr
    keys.host("hv2", _COPY.format(then=then))
    done = export.read("/tmp/data")
    keys.host("hv2", "rm -rf /tmp/data")
    assert done.returncode != 0


def test_a_server_is_refused_by_qemu(keys: Keys, export: Export) -> None:
    """One without the name connected to, and one that only control trusts."""
    assert export.read("/etc/pki/qemu", "hv1").returncode == 0
    done = export.read("/etc/pki/qemu", "hv1.lab.test")
    assert done.returncode != 0
    assert "match the hostname" in done.stderr, done.stderr
    keys.host("hv2", _COPY.format(then="cp /etc/pki/CA/cacert.pem ca-cert.pem"))
    done = export.read("/tmp/data")
    keys.host("hv2", "rm -rf /tmp/data")
    assert done.returncode != 0


_CLIENTS = """
for id in $(virt-admin client-list libvirtd | awk '$2 == "tls" {print $1}'); do
  virt-admin client-info libvirtd $id
done | sed -n 's/^tls_x509_dname *: *//p'
"""


@contextlib.contextmanager
def _open_connections(keys: Keys) -> Iterator[None]:
    """The controller and hv2 are connected to hv1, and do not go by themselves."""
    uri = f"qemu+tls://{keys.address('hv1')}/system?pkipath={keys.folder / 'client'}"
    words = ["virsh", "-c", uri, "event", "--loop", "--all"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    keys.host(
        "hv2",
        "systemd-run --quiet --collect --unit=held"
        " virsh -c qemu+tls://hv1/system event --loop --all",
    )
    try:
        wait_for(lambda: len(_connected(keys)) == 2, 20, "both connections")
        yield
        assert process.poll() is None, "the controller was not revoked"
    finally:
        process.terminate()
        process.wait()
        keys.lab.ssh("hv2", "systemctl stop held", check=False)


def _connected(keys: Keys) -> list[str]:
    """Common names of those that are connected to hv1 by TLS."""
    return sorted(name for line in keys.host("hv1", _CLIENTS).split() for name in _names(line))


def test_a_hypervisor_that_was_revoked_is_refused_until_it_is_readmitted(
    keys: Keys, export: Export
) -> None:
    pids = keys.daemon("hv1")
    assert keys.virsh("hv1", source="hv2").returncode == 0
    assert export.read("/etc/pki/qemu").returncode == 0
    with _open_connections(keys):
        assert _connected(keys) == ["controller", "hv2"]
        run = keys.run(libvirt_keys_revoke="hv2").succeeded()
        assert _connected(keys) == ["controller"], "a connection outlives its certificate"
    assert [event.host for event in run.events if event.result.get("reloaded")] == ["hv1"]
    since = _now(keys, "hv1")
    assert keys.virsh("hv1", source="hv2").returncode != 0
    _wait_for_log(keys, "hv1", since, "has been revoked")
    export.start()  # qemu reads its files when it begins
    assert export.read("/etc/pki/qemu").returncode != 0
    assert keys.virsh(keys.address("hv1")).returncode == 0, "the controller was not revoked"
    assert keys.daemon("hv1") == pids

    run = keys.run()
    assert run.returncode != 0
    assert "hv2 was revoked and gets no certificate" in str(run)
    keys.run(libvirt_keys_readmit="hv2").succeeded()
    assert keys.changed(keys.run().succeeded()) == []
    export.start()
    assert export.read("/etc/pki/qemu").returncode == 0
    keys.assert_all_connect()
