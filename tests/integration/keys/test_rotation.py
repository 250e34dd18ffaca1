# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CA is exchanged under clients that connect all the time, and under kill -9.

Environment: FLEET_VIRT_TRIALS is the number of kills, of set-up and of exchange each (default 1).
The seed is printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys.decide import KINDS, Rotation
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree

from . import tls_client
from .conftest import HOSTS, PORT, Keys

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261121"))
_RATE = 10
_SOURCE = Path(tls_client.__file__).read_text(encoding="utf-8")


def _client(keys: Keys, source: str | None) -> subprocess.Popen[str]:
    """Connects to every hypervisor, with the controller's files or a hypervisor's own."""
    client = keys.folder / "client"
    folders = [str(client)] * 3
    command = [sys.executable, "-"]
    if source is not None:
        folders = ["/etc/pki/CA", "/etc/pki/libvirt", "/etc/pki/libvirt/private"]
        command = [*keys.lab.login(source), "/usr/bin/python3", "-"]
    targets = [keys.address(host) for host in HOSTS if host != source]
    options = {"folders": folders, "targets": targets, "port": PORT, "rate": _RATE}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(f"OPTIONS = {options!r}\n{_SOURCE}\n")
    process.stdin.close()
    process.stdin = None  # said and done: communicate() would write to it
    return process


def test_an_exchange_fails_no_client(keys: Keys) -> None:
    """Ten new verified connections a second to each host, from the controller and from hv2."""
    pids = {host: keys.daemon(host) for host in HOSTS}
    before = {kind: keys.store().kind(kind).rotation() for kind in KINDS}
    keys.host("hv2", "rm -f /tmp/stop-tls-client")
    Path("/tmp/stop-tls-client").unlink(missing_ok=True)
    clients = {source: _client(keys, source) for source in (None, "hv2")}
    time.sleep(2)
    started = time.monotonic()
    try:
        keys.run(libvirt_keys_rotate="all").succeeded()
        elapsed = time.monotonic() - started
        time.sleep(1)
    finally:
        Path("/tmp/stop-tls-client").touch()
        keys.host("hv2", "touch /tmp/stop-tls-client")
        said = {source: process.communicate(timeout=60) for source, process in clients.items()}
        Path("/tmp/stop-tls-client").unlink()
        keys.host("hv2", "rm -f /tmp/stop-tls-client")
    for source, (output, errors) in said.items():
        counts = json.loads(output or "{}")
        assert counts, errors
        for target, found in counts.items():
            what = f"from {source or 'the controller'} to {target}"
            print(f"{what}: {found['good']} connections in {elapsed:.0f} s, {found['bad']} failed")
            assert found["bad"] == 0, f"{what}: {found['errors']}"
            assert found["good"] >= 0.9 * _RATE * elapsed, what
            assert len(found["issuers"]) == 2, f"{what}: the CA was not exchanged meanwhile"
    for kind in KINDS:
        was = before[kind]
        assert was is not None
        assert keys.store().kind(kind).rotation() == Rotation("steady", was.new + 1)
    assert {host: keys.daemon(host) for host in HOSTS} == pids
    keys.assert_all_connect()
    assert keys.changed(keys.run().succeeded()) == []


def _assert_right(keys: Keys, what: str) -> None:
    """Both ways of connecting work, nothing is left over, and nothing more is to be done."""
    keys.assert_all_connect()
    assert keys.changed(keys.run().succeeded()) == [], what
    for host in HOSTS:
        names = keys.host(host, "ls -A /etc/pki/libvirt/fleet-virt").split()
        versions = [name for name in names if re.fullmatch(r"v\d+", name)]
        assert len(versions) <= 2, f"{what}: {host} has {names}"
        assert set(names) - set(versions) == {"current", "reloaded"}, f"{what}: {host} has {names}"
        assert keys.host(host, "find /etc/pki -name '.*' | wc -l").strip() == "0", what
    left = [path.name for path in keys.folder.rglob(".*")]
    assert left == [], what
    for kind in KINDS:
        rotation = keys.store().kind(kind).rotation()
        assert rotation is not None
        assert rotation.phase == "steady", what


def test_the_playbook_killed_at_random_moments(bare: Keys) -> None:
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    orders: list[dict[str, str]] = [{}] * _TRIALS + [{"libvirt_keys_rotate": "all"}] * _TRIALS
    for trial, order in enumerate(orders):
        if not order:
            bare.forget()
        after = chance.uniform(2, 30 if order else 12)
        what = f"seed {_SEED}, trial {trial}, {order or 'set-up'}, {after:.1f} s"
        process = bare.start(**order)
        try:
            process.wait(timeout=after)
            print(f"{what}: it had ended")
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            print(f"{what}: killed")
        process.communicate(timeout=30)
        bare.run(**order).succeeded()
        if "16514" not in bare.host("hv1", "ss -ltn"):
            bare.listen()
        _assert_right(bare, what)
