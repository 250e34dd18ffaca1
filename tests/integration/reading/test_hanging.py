# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mount that hangs, as that of a dead file server does, under disks of domains on and off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

_DISK = """
<disk type='file' device='disk'>
  <driver name='qemu' type='raw'/><source file='/srv/hung/{name}.raw'/>
  <target dev='vdb' bus='virtio'/>
</disk>
"""

# Each file of the folder is served by a process in user space, until that is stopped.
_SERVE = """
mkdir -p /srv/hung /srv/behind
for name in slow1 stuck1; do
  truncate -s 8M /srv/behind/$name.raw
  touch /srv/hung/$name.raw
  systemd-run -q --unit=test-fuse-$name qemu-storage-daemon \
    --blockdev driver=file,node-name=file,filename=/srv/behind/$name.raw \
    --export type=fuse,id=export,node-name=file,mountpoint=/srv/hung/$name.raw,writable=on
done
"""
_UNITS = "test-fuse-slow1 test-fuse-stuck1"
_CLEAN = f"""
systemctl kill -s CONT {_UNITS}
virsh -q pool-destroy hung; virsh -q pool-undefine hung
systemctl stop {_UNITS}
umount -l /srv/hung/slow1.raw /srv/hung/stuck1.raw
rm -rf /srv/hung /srv/behind
"""


@pytest.fixture
def hung(guests: Guests) -> Iterator[Guests]:
    """slow1 running and stuck1 shut off, on disks whose file system has stopped; well1 beside."""
    try:
        guests.script("hv1", _SERVE)
        mounted = "grep -c ' /srv/hung/.* fuse' /proc/self/mountinfo"
        wait_for(
            lambda: guests.lab.ssh("hv1", mounted, check=False).stdout.strip() == "2", 20, "mounts"
        )
        guests.pool("hv1", "hung", "/srv/hung")
        for name in ("slow1", "stuck1"):
            disk = _DISK.format(name=name)
            guests.define("hv1", name, paused=name == "slow1", devices=disk, blank=True)
        guests.define("hv1", "well1", paused=True)
        guests.virsh("hv1", "pool-refresh", "default")
        guests.script("hv1", f"virsh -q resume slow1; systemctl kill -s STOP {_UNITS}")
        yield guests
    finally:
        guests.lab.ssh("hv1", f"systemctl kill -s CONT {_UNITS}", check=False)
        for name in ("slow1", "stuck1", "well1"):
            guests.remove("hv1", name)
        guests.lab.ssh("hv1", _CLEAN, check=False)


def test_a_mount_that_hangs(ansible: Ansible, hung: Guests) -> None:
    """It costs the time limit once and an error each; nothing else suffers, libvirt neither."""
    args = {"timeout": 3, "stats": True, "addresses": True}
    for _ in range(2):
        started = time.monotonic()
        answer = ansible.module("hv1", "virt_query", args)["hv1"]
        assert not answer["failed"], answer
        assert time.monotonic() - started < 30
        domains: dict[str, dict[str, Any]] = {one["name"]: one for one in answer["domains"]}
        for name, state in (("slow1", "running"), ("stuck1", "shutoff")):
            found = domains[name]
            assert found["error"] == f"disk vdb: /srv/hung/{name}.raw does not answer", found
            assert found["state"] == state
            assert found["disks"][1]["pool"] == "hung"
            assert found["disks"][1]["size_mib"] is None
        well = domains["well1"]
        assert (well["state"], well["error"]) == ("paused", None)
        assert well["disks"][0]["size_mib"] == 48
        assert well["stats"]["memory"]["rss_mib"] > 10

    args = {"timeout": 3, "placement": True}
    host = ansible.module("hv1", "virt_host_info", args)["hv1"]["host"]
    pools = {pool["name"]: pool for pool in host["pools"]}
    assert pools["hung"]["state"] == "running"
    assert "does not answer" in pools["hung"]["error"]
    assert pools["default"]["error"] is None
    assert pools["default"]["promised_mib"] > 0
    # what only one of libvirt's threads hanging in a read would prevent
    names = hung.virsh("hv1", "list", "--all", "--name", limit=10).split()
    assert {"slow1", "stuck1", "well1"} <= set(names)
    assert "hung" in hung.virsh("hv1", "pool-list", limit=10)
