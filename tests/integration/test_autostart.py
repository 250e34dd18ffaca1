# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hypervisors whose power returns at once start their guests in order, without a controller.

The files are those that the role writes (test_daemon); its other settings are not wanted here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import (
    autostart,
    effects_autostart,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse, tostring
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

HOSTS = ("hv1", "hv2")
UNITS = f"{autostart.HOLD} {autostart.START}"
MOVED = "/var/tmp/powered"
_LIMIT = 120  # on a busy machine
# By name, what would be libvirt's order, they would start otherwise
STORED = {
    "powered-a": metadata.Metadata(),
    "powered-b": metadata.Metadata(start_order=20),
    "powered-c": metadata.Metadata(start_order=10, start_delay=2),
    "powered-d": metadata.Metadata(start_order=5, phase="changing"),
    "powered-e": metadata.Metadata(start_order=1),
}
GONE = "powered-e"  # restarted elsewhere meanwhile


def definition(name: str) -> str:
    source = f"<source file='{MOVED}/{name}.raw'/><target dev='vda' bus='virtio'/>"
    disk = f"<disk type='file' device='disk'>{source}</disk>" if name == GONE else ""
    root = parse(
        f"<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory>"
        "<os><type arch='x86_64' machine='q35'>hvm</type></os>"
        f"<devices>{disk}</devices></domain>",
        name,
    )
    metadata.put(root, STORED[name])
    return tostring(root)


@pytest.fixture
def hosts(lab: Laboratory, all_guests: Guests) -> Iterator[Guests]:
    """Both hypervisors with the units and the guests, and later without them."""
    for host in HOSTS:
        for path, text in effects_autostart.files().items():
            all_guests.script(host, f"mkdir -p $(dirname {path}); cat > {path}", input=text)
        all_guests.script(host, f"systemctl daemon-reload; systemctl -q enable {UNITS}")
        for name in STORED:
            define = f"virsh -q define /dev/stdin; virsh -q autostart {name}"
            all_guests.script(host, define, input=definition(name))
        uuid = all_guests.virsh(host, "domuuid", GONE).strip()
        disk = f"<disk><source file='{MOVED}/{GONE}.r1.raw'/></disk>"
        card = f"<card uuid='{uuid}'><domain><devices>{disk}</devices></domain></card>"
        path = f"{MOVED}/{GONE}@hv9.fleet.xml"
        all_guests.script(host, f"mkdir -p {MOVED}; cat > {path}", input=card)
    yield all_guests
    for host in HOSTS:
        if lab.host(host).state != "running":
            lab.start(host)
        for name in STORED:
            lab.ssh(host, f"virsh -q destroy {name}; virsh -q undefine {name}", check=False)
        files = " ".join(effects_autostart.files())
        end = f"systemctl -q disable {UNITS}; rm -rf {files} {MOVED}; systemctl daemon-reload"
        lab.ssh(host, end, check=False)


def journal(lab: Laboratory, host: str) -> list[str]:
    """What the unit said since the boot, once it has ended."""
    shown = f"systemctl show --property=ActiveState --value {autostart.START}"

    def ended() -> bool:
        done = lab.ssh(host, shown, check=False)
        return done.stdout.strip() in ("active", "failed")

    wait_for(ended, _LIMIT, f"{autostart.START} of {host}")
    command = f"journalctl --boot --output=json --no-pager --unit={shlex.quote(autostart.START)}"
    lines = lab.ssh(host, f"journalctl --sync; {command}").stdout.splitlines()
    return [str(json.loads(line)["MESSAGE"]) for line in lines]


def test_powered_up_together_start_in_order(lab: Laboratory, hosts: Guests) -> None:
    for host in HOSTS:
        lab.kill(host)
    for host in HOSTS:
        lab.start(host)
    for host in HOSTS:
        said = journal(lab, host)
        begun = [line.partition(":")[0] for line in said if ": started, order" in line]
        assert begun == ["powered-c", "powered-b", "powered-a"], said
        assert any(line.startswith("powered-d: not started: a run is at work") for line in said)
        assert any(line.startswith(f"{GONE}: not started: by {MOVED}/{GONE}@hv9") for line in said)
        active = set(hosts.virsh(host, "list", "--name").split())
        assert active & set(STORED) == set(begun), "libvirt itself has started none"
        when = {
            name: int(hosts.script(host, f"stat --format=%Y /run/libvirt/qemu/{name}.pid"))
            for name in begun
        }
        assert when["powered-b"] - when["powered-c"] >= 2, "its start_delay"
