# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers of another shape: each place of a good one is spoilt, one at a time.

What is not found to be of another shape has to be read without an error.
"""

from __future__ import annotations

import contextlib
import copy
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    decide as adopt_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    facts as adoption_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    decide as backup_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import facts as backup_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.places import BackupPlace
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    answers,
    json_values,
    snapshot,
    tables,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell import facts as cell_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.clone import decide as clone
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import decide as console
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import (
    facts as console_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import (
    report as screens_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import identity, packages
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move import (
    facts as disk_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move import (
    verb as disk_verb,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import (
    decide as doctor_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import facts as doctor_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import (
    report as doctor_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import (
    facts as fencing_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha import decide as cell_decision
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    domain_entry,
    marks,
    records,
    selection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import entries
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import (
    decide as import_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import (
    facts as import_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import facts as keys_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    bases as migration_bases,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    decide as migration_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    evacuation as migration_evacuation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    facts as migration_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    named as migration_named,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    report as migration_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import silent as silent_notes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.rule import Standing
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import (
    facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import decide as preflight
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import (
    facts as preflight_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.decide_host import Limits
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    facts as provision_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import fleet_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    report as provision_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import (
    decide as purge_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import facts as purge_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import report as purge_report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import (
    decide as rename_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import facts as rename_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    decide as restart_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    facts as restart_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    report as restart_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide as restore_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide_disk as restore_disk_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide_file as restore_file_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    facts as restore_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    report as restore_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import SavedVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import (
    facts as rolling_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import (
    marks as rolling_marks,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import (
    report as rolling_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import (
    facts as seeding_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import (
    facts as snapshot_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import (
    verb as snapshot_verb,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import (
    decide as state_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import facts as state_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    decide as template_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    facts as template_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import (
    decide as proof_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import facts as proof_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import SavedArchive
from ansible_collections.fleet.virt.plugins.plugin_utils.base._wait import Progress
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _pages
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _noted as noting
from ansible_collections.fleet.virt.plugins.plugin_utils.verify import _report as proof_report

Answer = dict[str, t.Any]
TOP = Path(__file__).parents[3]

NIC = {
    "mac": "52:54:00:00:00:01",
    "type": "bridge",
    "source": "br0",
    "model": "virtio",
    "link": "up",
    "target": "vnet0",
    "vlan": [7],
    "addresses": ["192.0.2.1"],
}
METADATA = {
    "managed": True,
    "phase": None,
    "owner": {"boot_id": "b", "pid": 7, "start_time": 9, "run": "r"},
    "home": None,
    "image": {"name": "debian12", "digest": "ab", "format": "qcow2"},
    "groups": ["web"],
    "affinity": [],
    "anti_affinity": [],
    "tags": ["ssd"],
    "zone": None,
    "user": None,
    "host_key": None,
    "volumes": [{"pool": "p", "name": "n", "path": "/a", "target": "vda", "role": "disk"}],
    "addresses": [],
    "evacuated_from": [],
    "move": None,
    "first_boot": None,
    "start_order": 1,
    "start_delay": None,
    "ha": True,
    "problem": None,
}
DISK = {
    "target": "vda",
    "bus": "virtio",
    "device": "disk",
    "type": "file",
    "source": "/a",
    "pool": "p",
    "volume": "n",
    "format": "qcow2",
    "backing": None,
    "backing_known": True,
    "readonly": False,
    "shareable": False,
    "size_mib": 1024,
    "allocation_mib": 3,
}
DOMAIN = {
    **domain_entry.unreadable("web1", "1111", "cannot be read"),  # has every key there is
    "state": "running",
    "reason": "booted",
    "autostart": True,
    "persistent": True,
    "managed_save": False,
    "domain_type": "kvm",
    "arch": "x86_64",
    "machine": "q35",
    "firmware": {"type": "bios", "loader": None, "nvram": None},
    "vcpus": 2,
    "vcpus_max": 2,
    "memory_mib": 512,
    "memory_max_mib": 512,
    "disks": [DISK],
    "nics": [NIC],
    "graphics": [{"type": "vnc", "listen": None, "port": 5900, "tls_port": None, "socket": None}],
    "consoles": [{"type": "pty", "path": None, "target": "serial", "log": None}],
    "hostdevs": [{"type": "pci", "source": "0000:00:00.0"}],
    "metadata": METADATA,
    "snapshots": [{"name": "a", "created": 1, "state": "running", "current": True}],
    "stats": None,
}
CELL = {
    "name": "rack1",
    "members": ["hv1", "hv2", "hv3"],
    "running": True,
    "quorate": True,
    "online": ["hv1", "hv2"],
    "unclean": ["hv3"],
    "device": None,
}
HOST_INFO = {
    "name": "hv1",
    "uri": "qemu:///system",
    "uuid": "0000",
    "libvirt_version": "9.0.0",
    "hypervisor_version": None,
    "domain_types": ["kvm"],
    "arch": "x86_64",
    "cpu": {
        "model": "x",
        "sockets": 1,
        "cores": 4,
        "threads": 2,
        "total": 8,
        "running": 1,
        "defined": 2,
    },
    "memory_mib": {"total": 8192, "free": 1, "running": 2, "defined": 3},
    "numa": [
        {
            "id": 0,
            "memory_mib": 8192,
            "cpus": 8,
            "free_mib": None,
            "hugepages": [{"size_kib": 2048, "total": 1}],
        }
    ],
    "pools": [
        {
            "name": "default",
            "type": "dir",
            "state": "running",
            "path": "/vms",
            "capacity_mib": 10,
            "allocation_mib": 0,
            "available_mib": 10,
            "error": None,
        }
    ],
    "networks": [
        {
            "name": "default",
            "bridge": "virbr0",
            "forward": "nat",
            "active": True,
            "autostart": True,
            "error": None,
        }
    ],
    "bridges": ["br0"],
    "domains": {"running": 1, "shutoff": 1},
    "maintenance": False,
    "cell": CELL,
    "errors": [],
}
IMAGE = {
    "name": "debian12",
    "digest": "ab" * 32,
    "format": "qcow2",
    "pool": "base",
    "volume": "x",
    "path": "/base/x",
    "size_mib": 10,
    "allocated_mib": 2,
    "users": ["domain 'web1'"],
    "intact": False,
}
HOST = {
    "uuid": "0000",
    "name": "hv1",
    "arch": "x86_64",
    "cpu": {"total": 8, "defined": 1, "max_vcpus": 8},
    "memory_mib": {"total": 8192, "defined": 512},
    "machines": ["pc-q35-7.2"],
    "images": [f"{'ab' * 32}-debian12.qcow2"],
    "bridges": ["br0"],
    "networks": [{"name": "default", "active": True, "bridge": "virbr0"}],
    "domain_types": ["kvm"],
    "maintenance": False,
    "pools": [
        {
            "name": "default",
            "path": "/vms",
            "state": "running",
            "capacity_mib": 10_000,
            "available_mib": 9_000,
            "promised_mib": 0,
        }
    ],
    "vms": [
        {
            "name": "web1",
            "uuid": "1111",
            "macs": ["52:54:00:00:00:01"],
            "active": True,
            "managed": True,
            "seeded": True,
            "phase": None,
            "groups": ["web"],
            "anti_affinity": ["web"],
        }
    ],
}
MOVING = {
    "name": "web1",
    "uuid": "1111",
    "phase": "migrating",
    "move": {"source": "hv1", "destination": "hv2"},
    "persistent": True,
    "active": True,
    "vcpus": 1,
    "memory_mib": 512,
    "domain_type": "kvm",
    "arch": "x86_64",
    "nwfilters": [],
    "media": ["/base/tools.iso"],
    "vsock": False,
    "error": None,
    "evacuated_from": ["hv1"],
    "ha": False,
    "zone": None,
    "bridges": ["br0"],
    "networks": [],
    "names": [{"kind": "program", "value": "/usr/bin/kvm", "use": "emulator"}],
    "groups": ["web"],
    "affinity": ["db"],
    "anti_affinity": ["web"],
    "tags": ["ssd"],
    "disks": [
        {"path": "/vms/web1.qcow2", "bytes": 1 << 30, "backing": f"/b/{'ab' * 32}-debian12.qcow2"}
    ],
}
UNREAD = copy.deepcopy(MOVING)
UNREAD.update(name="web2", error="its disk cannot be read", disks=[], move=None)
CLAIM = {"name": "web3", "source": "hv3", "destination": "hv2"}
CHECKUP = {
    "arch": "x86_64",
    "libvirt": "9.0.0",
    "qemu": "7.2.0",
    "kernel": "6.1",
    "cpu": {"vendor": "AMD", "features": ["a", "b"]},
    "setup": {"/etc/libvirt/qemu.conf": "ab"},
    "keys": [{"path": "/k", "kind": "cert", "subject": "CN=a", "until": 7, "days": 365.0}],
    "vms": [
        {
            "name": "web1",
            "uuid": "1111",
            "phase": "changing",
            "active": True,
            "managed": True,
            "holder": None,
            "broken": None,
            "ha": True,
            "disk_move": {"disk": "system", "pool": "fast"},
            "nic_macs": ["52:54:00:00:00:01"],
        }
    ],
    "unused": [
        {"pool": "p", "name": "a", "path": "/p/a", "mib": 1, "shared": True, "id": "x"},
    ],
    "used": ["b"],
    "noted": {"reading.x": "text"},
    "rolling": ["rolling.begun.0123456789abcdef.5"],
    "cell": CELL,
    "cell_vms": [
        {
            "uuid": "1111",
            "name": "ha1",
            "resource": "fleet-1111",
            "managed": False,
            "held_by": "hv1",
            "failed": True,
            "reason": "start on hv1: no bridge",
        }
    ],
    "errors": {"certificates": "no openssl"},
}
UNMANAGED = {
    "name": "ha1",
    "uuid": "2222",
    "held_by": "hv1",
    "problem": None,
    "at_work": False,
}
MOVED = {
    "name": "web1",
    "failed": True,
    "changed": True,
    "msg": "no",
    "destination": "hv2",
    "progress": ["line"],
    "flow": "live",
    "bytes": 10,
    "bytes_to_copy": 10,
    "seconds": 1.5,
    "downtime_ms": 3,
}
PURGED = {
    "name": "web1",
    "uuid": "0000",
    "changed": True,
    "not_tried": False,
    "failed": True,
    "msg": "no",
    "removed": [{"kind": "volume", "path": "/a", "name": "a", "size_mib": 3}],
    "kept": [{"path": "/b", "reason": "it is a base image"}],
}
LOOK = {
    "vms": [
        {
            "name": "web1",
            "uuid": "0000",
            "phase": None,
            "groups": ["web"],
            "volumes": [{"path": "/a", "shared": False, "pool_id": "8:1"}],
        }
    ],
    "pool_ids": ["8:1"],
    "users": [{"file": "a", "users": ["domain 'x'"]}],
}
MADE = {"name": "web1", "changed": True, "failed": False, "msg": None, "refused": False}
SHARES = {"hv2": [{"name": "web1", "destination": {"name": "hv1"}}]}
_MACHINE = "00000003-0000-4000-8000-000000000000"
_TEXT = note.text_of("hv3", [{"name": "a", "uuid": _MACHINE, "macs": [], "groups": []}])
_READING = note.reading(_MACHINE, 10_000, _TEXT).volume
GOOD: dict[str, Answer] = {
    "told": {"machine": "x", "held": [_READING], "texts": {_READING: _TEXT}, "here": []},
    "domains": {"domains": [DOMAIN]},
    "host_info": {"host": HOST_INFO},
    "images": {"images": [IMAGE]},
    "made": {"vms": [{**MADE, "existed": True, "restart_required": True}]},
    "placing": {"host": HOST},
    "claims": {"host": HOST, "vms": [{**MADE, "existed": True, "restart_required": False}]},
    "compared": {
        "host": HOST,
        "vms": [
            {
                "name": "web1",
                "differences": ["vcpus: requested 2, is 1"],
                "drift": False,
                "pending": ["memory_max"],
            }
        ],
        "taken": [{"name": "web2", "reasons": ["/pool/web2_system.qcow2 already exists"]}],
    },
    "consoles": {
        "consoles": [
            {
                "name": "web1",
                "uuid": "0",
                "lines": ["login:"],
                "log": "/l",
                "read_to": 7,
                "failed": False,
                "msg": None,
            }
        ]
    },
    "console_look": {
        "consoles": [
            {
                "name": "web1",
                "uuid": "0",
                "state": "running",
                "phase": None,
                "screens": ["vnc"],
                "serial": True,
            }
        ]
    },
    "screens": {
        "screens": [
            {
                "name": "web1",
                "uuid": "0000",
                "path": "/s/hv2/web1.png",
                "file": "hv2/web1.png",
                "width": 720,
                "height": 400,
                "changed": True,
                "failed": False,
                "msg": None,
            }
        ]
    },
    "captured": {
        "screens": [
            {
                "name": "web1",
                "uuid": "0000",
                "content": "",
                "width": 720,
                "height": 400,
                "failed": False,
                "msg": None,
            }
        ]
    },
    "adopt_look": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "phase": None,
                "candidate": True,
                "specification": {"name": "web1", "disk_profile": "none", "nic_profile": "none"},
                "problems": [],
                "carried": None,
                "refused": [],
                "left_out": ["sysinfo"],
            }
        ],
        "defined": [{"name": "web1", "uuid": "0000", "macs": ["52:54:00:00:00:01"], "phase": None}],
        "pool_ids": ["a"],
    },
    "adopted": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "changed": True,
                "failed": False,
                "msg": None,
                "specification": {"name": "web1"},
                "undescribed": ["devices/sound"],
                "owned": ["/pool/web1.img"],
                "kept": [{"path": "/pool/other.img", "reason": "it is not there"}],
            }
        ]
    },
    "fenced": {"outcome": "off", "text": "hv3 is off"},
    "rolling": {
        "running": ["web1"],
        "reboot": "/run/reboot-required exists",
        "versions": {"libvirt": "9.0.0", "hypervisor": "7.2.0", "kernel": "6.1.0"},
        "marks": ["rolling.begun.0123456789abcdef.1"],
        "at": 2,
        "claimed": True,
        "ready": True,
        "rebooted": True,
        "well": True,
        "finished": True,
        "why": None,
    },
    "restart_look": {
        "host": {**HOST, "cell_vms": ["ha1"]},
        "in_cells": [{"name": "ha1", "cell": "rack1", "quorate": True, "unclean": ["hv3"]}],
        "noted": {"machine": "2222", "held": [], "texts": {"a": "b"}, "here": ["1111"]},
        "cards": [
            {
                "name": "moved1",
                "uuid": "1111",
                "path": "/srv/moved1@hv3.fleet.xml",
                "identity": "7.1",
                "hosts": ["hv3"],
                "running": True,
                "defined": False,
                "problems": ["it has UEFI variables"],
                "locked": ["/srv/moved1.qcow2"],
                "lockless": ["/srv is mounted with nolock"],
                "vcpus": 1,
                "memory_mib": 64,
                "domain_type": "qemu",
                "arch": "x86_64",
                "bridges": ["br0"],
                "networks": ["default"],
                "nwfilters": ["clean-traffic"],
                "vsock": False,
                "disks": [{"path": "/srv/moved1.qcow2", "bytes": 1}],
                "groups": ["web"],
                "macs": ["52:54:00:00:00:01"],
                "affinity": ["db"],
                "anti_affinity": ["web"],
                "tags": ["ssd"],
                "zone": "a",
            }
        ],
        "sign": "",
        "signs": {"192.0.2.3": "answers on port 22"},
        "audible": ["192.0.2.3"],
        "unread": ["moved2: its card is cut off"],
    },
    "restarted": {
        "vms": [
            {
                "name": "web1",
                "changed": True,
                "failed": False,
                "msg": None,
                "uuid": "0000",
                "steps": ["define web1 on hv2"],
                "running": True,
                "waits": True,
            }
        ]
    },
    "restore_look": {
        "host": HOST,
        "entries": [
            {
                "name": "web9",
                "state": "new",
                "problems": ["it has no such machine type"],
                "reaches": ["/etc/x"],
                "vcpus": 1,
                "memory_mib": 64,
                "domain_type": "qemu",
                "arch": "x86_64",
                "bridges": ["br0"],
                "networks": ["default"],
                "nwfilters": ["clean-traffic"],
                "vsock": False,
                "macs": ["52:54:00:00:00:09"],
                "disks": [{"pool": "default", "path": "/srv/web9_vda.qcow2", "bytes": 1}],
                "groups": ["web"],
                "affinity": ["db"],
                "anti_affinity": ["web"],
                "tags": ["ssd"],
                "zone": "a",
            }
        ],
        "noted": {"reading.x": "{}"},
    },
    "restored": {
        "vms": [
            {
                "name": "web9",
                "changed": True,
                "failed": False,
                "msg": None,
                "uuid": "0000",
                "steps": ["define web9 on hv2"],
                "archive": "0000::2026-11-28T06:51:18Z",
            }
        ]
    },
    "proof_look": {
        "host": HOST,
        "entries": [
            {
                "name": "0000::2026-11-28T06:51:18Z",
                "problems": ["it has no such machine type"],
                "vcpus": 1,
                "memory_mib": 64,
                "domain_type": "qemu",
                "arch": "x86_64",
                "error": None,
            }
        ],
    },
    "proven": {
        "vms": [
            {
                "name": "0000::2026-11-28T06:51:18Z",
                "changed": True,
                "failed": False,
                "msg": None,
                "not_tried": False,
                "steps": ["boot 2026-11-28T06:51:18Z of web1"],
                "proof": "booted",
                "how": "agent: web1 after 9 s",
                "seconds": 9,
                "screen": "AAAA",
            }
        ]
    },
    "cleared": {"removed": ["fleet-virt-proof-0000"]},
    "restore_disk_look": {"disks": [{"name": "web9", "uuid": "0000", "phase": None}]},
    "restored_disk": {
        "vms": [
            {
                "name": "web9",
                "changed": True,
                "failed": False,
                "msg": None,
                "uuid": "0000",
                "steps": ["create default/web9_data.raw"],
                "archive": "0000::2026-11-28T06:51:18Z",
                "pool": "default",
                "path": "/srv/web9_data.raw",
            }
        ]
    },
    "restore_file_look": {"lacks": ["guestfish is not installed"]},
    "restored_file": {
        "vms": [
            {
                "name": "web9",
                "changed": True,
                "failed": False,
                "msg": None,
                "archive": "0000::2026-11-28T06:51:18Z",
                "size": 1,
            }
        ],
        "content": "eA==",
    },
    "rename_look": {
        "defined": [
            {
                "name": "web1",
                "uuid": "0000",
                "phase": None,
                "managed": True,
                "renamed_from": None,
            }
        ],
        "machine": "0000",
        "at": 1,
        "notes": ["reading.x"],
    },
    "rename_noted": {"noted": {"reading.x": "{}"}},
    "renamed": {
        "vms": [
            {
                "name": "web2",
                "uuid": "0000",
                "changed": True,
                "failed": False,
                "msg": None,
                "steps": ["x"],
                "kept": [{"path": "/srv/a.iso", "reason": "it does not belong to 'web1'"}],
            }
        ]
    },
    "snapshot_look": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "phase": None,
                "groups": ["web"],
                "snapshots": [
                    {
                        "name": "a",
                        "parent": None,
                        "current": True,
                        "created": 1,
                        "state": "running",
                        "kind": "internal",
                        "managed": True,
                    }
                ],
            }
        ]
    },
    "backup_look": {"vms": [{"name": "web1", "uuid": "0000", "phase": None, "groups": ["web"]}]},
    "backup": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "changed": True,
                "failed": False,
                "not_tried": False,
                "msg": None,
                "steps": ["x"],
                "archive": "2026-11-28T06:51:18Z",
                "consistency": "frozen",
                "size": 1,
                "added": 1,
                "left_out": ["vdb: it is off"],
                "one_file": ["vda: its data are in /srv/a.data"],
                "gave_way": False,
            }
        ]
    },
    "disk_look": {"vms": [{"name": "web1", "uuid": "0000", "phase": None, "groups": ["web"]}]},
    "disk_moved": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "changed": True,
                "failed": False,
                "not_tried": False,
                "msg": None,
                "steps": ["x"],
                "path": "/fast/web1_system.qcow2",
                "kept": {"path": "/slow/web1_system.qcow2", "reason": "shared"},
            }
        ]
    },
    "snapshot": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "changed": True,
                "failed": False,
                "not_tried": False,
                "msg": None,
                "steps": ["x"],
                "snapshots": ["a"],
                "current": "a",
            }
        ]
    },
    "template_look": {
        "defined": [{"name": "web1", "uuid": "0000", "phase": None}],
        "volumes": [f"{'0' * 64}-web.qcow2"],
    },
    "templated": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "changed": True,
                "failed": False,
                "msg": None,
                "steps": ["x"],
                "consistency": "crash",
            }
        ],
        "images": [
            {
                "target": "vda",
                "name": "web",
                "digest": "0" * 64,
                "format": "qcow2",
                "volume": f"{'0' * 64}-web.qcow2",
                "path": f"/base/{'0' * 64}-web.qcow2",
                "pool": "base",
                "size_mib": 8,
            }
        ],
    },
    "converted": {
        "images": [
            {
                "disk": "disk1",
                "name": "web-import-disk1",
                "digest": "0" * 64,
                "format": "qcow2",
                "volume": f"{'0' * 64}-web-import-disk1.qcow2",
                "path": f"/base/{'0' * 64}-web-import-disk1.qcow2",
                "pool": "base",
                "size_mib": 8,
            }
        ],
    },
    "clone_look": {
        "defined": [
            {"name": "web1", "uuid": "0000", "phase": None},
            {"name": "web2", "uuid": "0001", "phase": None},
        ],
        "alone": "",
        "sources": [
            {
                "name": "web1",
                "phase": None,
                "specification": {"name": "web1", "vcpus": 1, "disks": [{"name": "vda"}]},
                "problems": ["x"],
                "carried": "<domain><pm/></domain>",
                "refused": [],
                "left_out": ["sysinfo"],
                "request": None,
                "clone_of": None,
            },
            {
                "name": "web2",
                "phase": None,
                "specification": {"name": "web2", "vcpus": 1},
                "problems": [],
                "carried": None,
                "refused": ["devices/shmem"],
                "left_out": [],
                "clone_of": "web1",
                "request": {
                    "disks": [
                        {
                            "name": "vda",
                            "image": {"value": f"base/{'0' * 64}-web1-copy-01234567.qcow2"},
                            "overlay": True,
                        }
                    ]
                },
            },
        ],
    },
    "state_look": {
        "vms": [
            {"name": "web1", "uuid": "0000", "phase": None, "groups": ["web"], "start_order": 5}
        ]
    },
    "brought": {
        "vms": [
            {
                "name": "web1",
                "uuid": "0000",
                "state": "running",
                "before": "shutoff",
                "autostart": False,
                "changed": True,
                "not_tried": False,
                "steps": ["start"],
                "msg": None,
                "failed": False,
            }
        ]
    },
    "purge_look": LOOK,
    "purged": {"vms": [PURGED]},
    "migrate_look": {
        "host": HOST,
        "vms": [MOVING, UNREAD],
        "claims": [CLAIM],
        "expired": [],
        "missing_certificates": [],
    },
    "examined": {
        "host": {**HOST, "at": 5, "notes": [_READING]},
        "vms": [{**MOVING, "phase": None, "move": None}],
        "claims": [CLAIM],
        "cards": [
            {"name": "web1", "problem": None, "leftover": ["/vms/a"]},
            {"name": "web2", "problem": "no", "leftover": None, "stray": "/vms/b"},
        ],
        "unmanaged": [UNMANAGED],
        "checkup": CHECKUP,
        "clock": {"offset": 3.0, "uncertainty": 0.5},
    },
    "moved": {"vms": [MOVED], "unmanaged": [{**UNMANAGED, "problem": "no quorum"}]},
    "marked": {"maintenance": True, "cell": "it was not told", "machine": "a" * 36, "at": 5},
    "compared_names": {"lacking": {"web1": ["the program /usr/bin/kvm"]}},
    "machine": {
        "error": None,
        "uuid": "1" * 32,
        "machine_id": "2" * 32,
        "noted": {"hv2": ["3" * 32]},
        "cards": {"hv2": ["/vms/web1@hv2.fleet.xml"]},
    },
    "based": {"bases": ["/base/a.qcow2"], "needed": {"base": 1}},
    "named": {"vms": [{"name": "web1", "address": None}]},
    "wait": {
        "vms": [
            {
                "name": "web1",
                "address": "192.0.2.1",
                "source": "lease",
                "seconds": 2.5,
                "answered": False,
                "changed": True,
                "first_boot": None,
                "msg": "no",
                "console": ["login:"],
            }
        ],
        "waiting": [],
    },
    "facts": {
        "facts": {
            "errors": {"iommu": "cannot be read"},
            "time": 1.5,
            "uuid": "0000",
            "arch": "x86_64",
            "libvirt_version": "9.0.0",
            "hypervisor_version": "7.2.0",
            "machines": ["pc-q35-7.2"],
            "cpu": {"model": "x", "xml": "<cpu/>"},
            "marks": ["maintenance.x"],
        }
    },
    "baseline": {"baseline": {"error": None, "runs": False, "model": "x", "xml": "<cpu/>"}},
    "keys": {
        "kinds": {
            kind: {"ca": "", "crl": "", "certificate": "", "key_id": None}
            for kind in ("control", "data")
        },
        "faults": [],
        "daemons": ["libvirtd"],
    },
    "cell": {
        "release": "debian 13",
        "cell": "a",
        "foreign": "b",
        "numbers": {"hv1": 1},
        "running": True,
        "online": ["hv1"],
        "unclean": ["hv2"],
        "quorate": True,
        "resources": ["fleet-1"],
        "here": ["fleet-1"],
        "keys": "x",
        "missing": ["fence_x"],
        "unfit": {"fence_y": "why"},
    },
    "platform": {
        "platform": {
            "architecture": "x86_64",
            "distribution": "Debian",
            "distribution_major_version": "12",
            "os_family": "Debian",
            "pkg_mgr": "apt",
        }
    },
    "packages": {"packages": {"bash": [{"version": "5.2"}]}},
}


def shown(view: str, key: str, answer: Answer, **more: t.Any) -> None:
    other = copy.deepcopy(GOOD["domains" if key == "domains" else view].get(key))
    entries: list[dict[str, t.Any]] = [
        {"name": "hv1", "answered": True, "error": None, key: other},
        {"name": "hv2", "answered": True, "error": None, key: answer[key]},
    ]
    tables.render(more.get("view", view), entries)
    records.text(view, entries, more.get("sort", []), predicted=False)


def read_domains(answer: Answer) -> None:
    entries = [
        {"name": "hv1", "domains": copy.deepcopy(GOOD["domains"]["domains"])},
        {"name": "hv2", "domains": answer["domains"]},
    ]
    for chosen in ({"states": ("running", "saved")}, {"groups": ("web",)}, {"managed": True}):
        selection.select(entries, selection.Selection(**chosen), selection.SORTS)
    shown("list", "domains", answer, sort=list(selection.SORTS))
    shown("query", "domains", answer)
    sorted({domain["name"] for domain in answer["domains"]})


def read_made(answer: Answer, waited: t.Any = None) -> None:
    shares = {"hv2": ["web1", "web2"]}
    made = provision_report.Made(
        shares, {"hv2": answer}, waits=shares, waited={"hv2": waited or GOOD["wait"]}
    )
    hypervisors, _failures = provision_report.report(made, check=False)
    tables.render("vms", hypervisors)


def placed(answer: Answer) -> list[placement.PlacementHost]:
    return [
        placement.host_from_info(copy.deepcopy(HOST), {}, name="hv1"),
        placement.host_from_info(answer["host"], {}, name="hv2"),
    ]


def read_placing(answer: Answer) -> None:
    placed(answer)
    for vm in answer["host"]["vms"]:
        sorted({str(mac).lower() for mac in vm["macs"]})
        assert isinstance(vm["active"], bool) or vm["active"] is None


def read_restart_look(answer: Answer) -> None:
    hosts = placed(answer)
    policy = placement.Policy(pool_paths={}, base_pool="base")
    silent = {"hv3": Silence("no route")}
    with contextlib.suppress(FleetVirtError):
        restart_decision.require_silence(
            ["hv3"], {"hv2": answer}, silent, ["hv2", "hv3"], restart_decision.Silenced({})
        )
    for cards in (answer["cards"], [{**card, "problems": []} for card in answer["cards"]]):
        answers = {"hv2": {**answer, "cards": cards}}
        restart_decision.decide(["hv3"], ["moved1"], answers, hosts, silent, policy)


def read_rolling(answer: Answer) -> None:
    volumes, at = answer.get("marks") or [], answer.get("at") or 0
    rolling_marks.current({"hv2": rolling_marks.progress(volumes, "0123456789abcdef", at)})
    versions = answer.get("versions")
    rolling_report.change(None, versions)
    rolling_report.change(versions, GOOD["rolling"]["versions"])


def read_restarted(answer: Answer) -> None:
    restart_report.starts({"hv2": ["web1"]}, {"hv2": answer})
    restart_report.report(
        ["hv3"], {}, {"hv2": ["web1"]}, {}, {"hv2": answer}, {"hv2": answer}, {}, check=False
    )


def read_restore_look(answer: Answer) -> None:
    hosts = placed(answer)
    policy = placement.Policy(pool_paths={}, base_pool="base")
    vm = SavedVm(name="web9", uuid="0000", claimer="run")
    for state, problems in (("new", []), ("begun", []), ("there", []), ("other", ["x"])):
        entries = [{**entry, "state": state, "problems": problems} for entry in answer["entries"]]
        for entry in ({}, {"entries": entries}):
            answers = {"hv2": {**answer, **entry}}
            with contextlib.suppress(FleetVirtError):
                restore_decision.decide([vm], None, answers, hosts, policy)
    for check in (True, False):
        restore_decision.confirm(
            [vm], {"hv2": ["web9"]}, {"hv2": answer}, hosts, Standing(), policy, [], check=check
        )


def read_proof_look(answer: Answer) -> None:
    hosts = placed(answer)
    policy = placement.Policy(pool_paths={}, base_pool="base")
    vm = SavedArchive(name="0000::2026-11-28T06:51:18Z", vm="web1", uuid="0000")
    for problems in (["x"], []):
        entries = [{**entry, "problems": problems} for entry in answer["entries"]]
        for entry in ({}, {"entries": entries}):
            with contextlib.suppress(FleetVirtError):
                proof_decision.decide([vm], {"hv2": {**answer, **entry}}, hosts, policy)


def read_compared_names(answer: Answer) -> None:
    named = {"hv2": {"web1": MOVING["names"]}}
    look = {"hv1": {"vms": [dict(MOVING)]}}
    migration_named.with_lacking(look, named, {"hv2": answer})  # type: ignore[arg-type]


def read_machine(answer: Answer) -> None:
    good = t.cast("identity.MachineFacts", GOOD["machine"])
    identity.refusal("hv1", answer, {"hv2": good})
    identity.refusal("hv1", good, {"hv2": answer})


def read_proven(answer: Answer) -> None:
    name = "0000::2026-11-28T06:51:18Z"
    reporter = proof_report.Reporter(
        place=BackupPlace("/nowhere"),
        access=Access("x", "/nowhere"),
        vms={name: SavedArchive(name=name, vm="web1", uuid="0000")},
        shares={"hv2": [name]},
        unbootable={},
        damaged={},
        notes=[],
        check=True,
    )
    for outcome in outcomes.outcomes(reporter.shares, {"hv2": answer}, proof_facts.ProvenVm):
        reporter.proven(name, "hv2", outcome.entry, outcome.problem)


def read_restored(answer: Answer) -> None:
    restore_report.report(
        {"hv2": ["web9"]}, {}, {}, {"hv2": answer}, {"hv2": answer}, {}, check=False
    )


def read_restore_disk_look(answer: Answer) -> None:
    vm = SavedVm(name="web9", uuid="0000")
    with contextlib.suppress(FleetVirtError):
        restore_disk_decision.decide(vm, located.sort({"hv2": answer}, "disks", ["hv1", "hv2"], []))


def read_restored_disk(answer: Answer) -> None:
    restore_disk_decision.report({"hv2": ["web9"]}, {"hv2": answer}, "x", check=False)


def read_restore_file_look(answer: Answer) -> None:
    for lacks in ({}, {"lacks": []}):
        with contextlib.suppress(FleetVirtError):
            restore_file_decision.decide("web9", None, {"hv2": {**answer, **lacks}})


def read_restored_file(answer: Answer) -> None:
    restore_file_decision.report({"hv2": ["web9"]}, {"hv2": answer}, "x", "y", check=False)


def read_migration(answer: Answer) -> None:
    hosts = placed(answer)
    first = {"host": copy.deepcopy(HOST), "vms": [], "expired": []}
    answers = {"hv1": first, "hv2": answer}
    policy = placement.Policy(pool_paths={}, base_pool="base")
    idle = copy.deepcopy(answers)
    for vm in idle["hv2"]["vms"]:
        vm.update(phase=None, move=None)
    for work in (
        lambda: migration_decision.decide(["web1"], None, idle, hosts, {}, policy),
        lambda: migration_evacuation.leave("hv2", idle, hosts, {}, policy),
        lambda: migration_decision.decide(["web1", "web2"], None, answers, hosts, {}, policy),
        lambda: migration_evacuation.leave("hv2", answers, hosts, {}, policy),
        lambda: migration_evacuation.come_back("hv1", answers, hosts, {}, policy),
        lambda: migration_decision.repair([], answers, {}),
        lambda: migration_bases.lacking({"hv2": [("web1", "hv1")]}, answers),
    ):
        with contextlib.suppress(FleetVirtError):  # said in words
            work()


def read_examined(answer: Answer) -> None:
    hosts = placed(answer)
    other = {"host": copy.deepcopy(HOST), "vms": [], "checkup": copy.deepcopy(CHECKUP)}
    silent = {"hv3": Silence("it did not answer")}
    policy = placement.Policy(pool_paths={}, base_pool="base")
    for mute in ({}, silent):
        told = {"hv1": other, "hv2": answer}
        found = doctor_decision.diagnose(told, mute, hosts, policy, Limits())
        doctor_report.text(found)


def read_purge(answer: Answer) -> None:
    seen = located.sort({"hv1": copy.deepcopy(LOOK), "hv2": answer}, "vms", None, [])
    for names in (["web1"], ["web2"]):
        try:
            decision = purge_decision.decide(names, seen)
            decision.homes["a"] = "hv1"
            purge_decision.require_unused(decision, seen)
        except FleetVirtError:
            pass
    both = located.sort({"hv1": copy.deepcopy(LOOK), "hv2": answer}, "pool_ids", None, [])
    purge_decision.sole_pool_ids("hv2", both)
    alone = located.sort({"hv2": answer}, "vms", None, [])
    decision = purge_decision.decide(["web1"], alone)


def read_compared(answer: Answer) -> None:
    names = [str(vm["name"]) for vm in answer["host"]["vms"]]
    entries = fleet_plan.compare(names, {"hv2": answer}, {}, "")
    fleet_plan.text(entries)


def read_adopt_look(answer: Answer) -> None:
    first = {"vms": [], "defined": [], "pool_ids": []}
    seen = located.sort({"hv1": first, "hv2": answer}, "defined", None, [])
    decision = adopt_decision.decide([], None, seen, ["hv1"], Defaults())
    adopt_decision.specifications(decision, seen)


def read_snapshot_look(answer: Answer) -> None:
    seen = located.sort({"hv1": {"vms": []}, "hv2": answer}, "vms", None, [])
    snapshot_verb.listing(["web1"], seen)
    assert snapshot_verb.VERB.decide(["web1"], seen).shares == {"hv2": ["web1"]}


def read_disk_look(answer: Answer) -> None:
    seen = located.sort({"hv1": {"vms": []}, "hv2": answer}, "vms", None, [])
    assert disk_verb.VERB.decide(["web1"], seen).shares == {"hv2": ["web1"]}


def read_backup(answer: Answer) -> None:
    ended = backup_decision.settle({"hv1": ["web1"]}, {"hv1": answer})
    backup_decision.VERB.report(ended.shares, ended.ended, check=False)


def read_backup_look(answer: Answer) -> None:
    seen = located.sort({"hv1": {"vms": []}, "hv2": answer}, "vms", None, [])
    assert backup_decision.VERB.decide(["web1"], seen).shares == {"hv2": ["web1"]}


def read_state_look(answer: Answer) -> None:
    first = {"vms": []}
    seen = located.sort({"hv1": first, "hv2": answer}, "vms", None, [])
    state_decision.decide(["web1"], ["web"], seen, StateRequest("running"))


def read_keys(answer: Answer) -> None:
    for entry in answer["kinds"].values():
        assert "".join((entry["ca"], entry["crl"], entry["certificate"])) is not None
    ", ".join([*answer["faults"], *answer["daemons"]])


def read_cell(answer: Answer) -> None:
    for stays in (True, False):
        hosts = [cell_decision.CellHost("hv1", stays, ("192.0.2.1",), t.cast("t.Any", answer))]
        "; ".join(cell_decision.refusals("a", hosts, qdevice=False))
        cell_decision.rounds("a", hosts)
        cell_decision.all_numbers("a", hosts)


def read_captured(answer: Answer) -> None:
    for screen in answer["screens"]:
        assert isinstance(screen["content"], (str, type(None)))
        assert isinstance(screen["failed"], bool)
    saved = GOOD["screens"]["screens"][0]
    read_screens({"screens": [{**saved, **screen} for screen in answer["screens"]]})


def read_screens(answer: Answer) -> None:
    found = screens_report.read("hv2", answer)
    screens_report.text(found, {})
    _pages.screens(found)


def read_wait(answer: Answer) -> None:
    read_made(GOOD["made"], answer)
    progress = Progress("hv2", ["web1"])
    progress.take(answer, 3.0)
    progress.failure()
    progress.consoles()


def read_facts(facts: t.Any, baseline: t.Any = None) -> None:
    good = {**GOOD["facts"]["facts"], "clock": {"offset": 0.0, "uncertainty": 0.0}}
    other = {**facts, "clock": good["clock"], "baseline": baseline}
    answers = [preflight.Answer("hv1", good, None), preflight.Answer("hv2", other, None)]
    preflight.judge(answers, ["hv1", "hv2"], Limits())
    assert isinstance((facts.get("cpu") or {}).get("xml"), (str, type(None)))


def read_templated(answer: Answer) -> None:
    template_decision.report("web1", "web", "hv2", {"hv2": answer}, "", check=False)
    seen = located.sort({"hv2": GOOD["clone_look"]}, "defined", None, [])
    new = clone.decide("web3", "web1", None, seen, "01234567")
    clone.wanted("web3", "web1", new, seen, {"hv2": answer}, {})


def read_clone_look(answer: Answer) -> None:
    seen = located.sort({"hv2": answer}, "defined", None, [])
    for name in ("web2", "web3"):
        with contextlib.suppress(FleetVirtError):
            found = clone.decide(name, "web1", None, seen, "01234567", ["xml"])
            clone.wanted(name, "web1", found, seen, {"hv2": GOOD["templated"]}, {})


def read_rename_look(answer: Answer) -> str:
    seen = located.sort({"hv1": {"defined": []}, "hv2": answer}, "defined", None, [])
    rename_decision.standing(seen, {}, [])
    return rename_decision.decide("web1", "web2", seen, rule.Standing())


READERS: dict[str, t.Callable[[Answer], t.Any]] = {
    "told": lambda answer: silent_notes.known({"hv1": answer}, ["hv3"]),
    "domains": read_domains,
    "host_info": lambda answer: shown("host_info", "host", answer),
    "images": lambda answer: shown("images", "images", answer),
    "made": read_made,
    "placing": read_placing,
    "claims": lambda answer: [vm["failed"] or vm.get("refused") for vm in answer["vms"]],
    "compared": read_compared,
    "consoles": lambda answer: screens_report.consoles_text(
        screens_report.read_consoles("hv2", answer), {}
    ),
    "console_look": lambda answer: console.choose(["web1"], {"hv2": answer}, {}, "browser"),
    "screens": read_screens,
    "captured": read_captured,
    "adopt_look": read_adopt_look,
    "adopted": lambda answer: adopt_decision.report(
        {"hv2": ["web1"]}, {"hv2": answer}, [], check=False
    ),
    "fenced": lambda answer: tables.clean(answer["text"]) + answer["outcome"],
    "rolling": read_rolling,
    "restart_look": read_restart_look,
    "restarted": read_restarted,
    "restore_look": read_restore_look,
    "restored": read_restored,
    "proof_look": read_proof_look,
    "proven": read_proven,
    "cleared": lambda answer: proof_report.cleared({"hv2": answer}, check=False),
    "restore_disk_look": read_restore_disk_look,
    "restored_disk": read_restored_disk,
    "restore_file_look": read_restore_file_look,
    "restored_file": read_restored_file,
    "rename_look": read_rename_look,
    "rename_noted": lambda answer: noting.noted({"hv2": answer}),
    "renamed": lambda answer: rename_decision.report(
        "web1", "web2", "hv2", {"hv2": answer}, "", check=False
    ),
    "backup_look": read_backup_look,
    "backup": read_backup,
    "snapshot_look": read_snapshot_look,
    "disk_look": read_disk_look,
    "disk_moved": lambda answer: disk_verb.VERB.report(
        {"hv2": ["web1"]}, {"hv2": answer}, check=False
    ),
    "snapshot": lambda answer: snapshot_verb.VERB.report(
        {"hv2": ["web1"]}, {"hv2": answer}, check=False
    ),
    "template_look": lambda answer: template_decision.decide(
        "web1", "other", located.sort({"hv2": answer}, "defined", None, [])
    ),
    "templated": read_templated,
    "converted": lambda answer: import_decision.request(
        {"name": "web", "disks": [{"name": "disk1"}]}, {}, ["disk1"], {"hv2": answer}
    ),
    "clone_look": read_clone_look,
    "state_look": read_state_look,
    "brought": lambda answer: state_decision.report(
        state_decision.tell({"hv2": ["web1"]}, {"hv2": answer}, state_decision.Told()),
        "",
        check=False,
    ),
    "purge_look": read_purge,
    "purged": lambda answer: purge_report.report(
        ["web1"], {"hv2": ["web1"]}, {"hv2": answer}, check=False
    ),
    "migrate_look": read_migration,
    "examined": read_examined,
    "moved": lambda answer: [
        migration_report.report([], SHARES, {"hv2": answer}, check=check) for check in (False, True)
    ],
    "marked": lambda answer: [
        migration_report.mark("hv2", present=bool(answer["maintenance"]), check=False),
        *marks.volumes({"hv2": answer}, "hv1"),
    ],
    "compared_names": read_compared_names,
    "machine": read_machine,
    "based": lambda answer: (sorted(answer["bases"]), sum(answer["needed"].values())),
    "named": lambda answer: {(vm["name"], vm.get("address")) for vm in answer["vms"]},
    "wait": read_wait,
    "facts": lambda answer: read_facts(answer["facts"]),
    "baseline": lambda answer: read_facts(GOOD["facts"]["facts"], answer["baseline"]),
    "keys": read_keys,
    "cell": read_cell,
    "platform": lambda answer: packages.platform(
        {f"ansible_{key}": value for key, value in answer["platform"].items()}
    ),
    "packages": lambda answer: packages.missing(["bash", "tree"], answer),
}

# JSON as Python reads it has numbers of any size, and those that are none
NO_NUMBERS = (10**400, -(10**400), float("inf"), float("nan"))
WRONG: tuple[t.Any, ...] = (
    *(None, "", "text", 7, -1, 2.5, True, [], {}, [None], ["x"], [[]], [{}]),
    *NO_NUMBERS,
    *("9" * 5000, [f"pc-q35-{'9' * 5000}.2"]),
)
MISSING = object()


TYPES: dict[str, type[Answer]] = {
    "told": silent_notes.Told,
    "domains": snapshot.Domains,
    "host_info": snapshot.HostInfo,
    "images": entries.Images,
    "made": provision_facts.Made,
    "placing": placement_facts.Placing,
    "claims": provision_facts.Claims,
    "compared": provision_facts.Compared,
    "migrate_look": migration_facts.MigrateLook,
    "examined": doctor_facts.Examined,
    "moved": migration_facts.Moved,
    "marked": marks.Marked,
    "compared_names": migration_facts.Compared,
    "machine": identity.MachineFacts,
    "based": migration_facts.Based,
    "named": provision_facts.Named,
    "wait": seeding_facts.Waited,
    "facts": preflight_facts.Preflight,
    "baseline": preflight_facts.CommonCpu,
    "keys": keys_facts.KeysLook,
    "cell": cell_facts.CellLook,
    "platform": packages.Platform,
    "packages": packages.Installed,
    "console_look": console_facts.ConsoleLook,
    "consoles": console_facts.ConsoleLogs,
    "screens": console_facts.SavedScreens,
    "captured": console_facts.CapturedScreens,
    "adopt_look": adoption_facts.AdoptLook,
    "adopted": adoption_facts.Adopted,
    "fenced": fencing_facts.Fenced,
    "rolling": rolling_facts.RollingAnswer,
    "restart_look": restart_facts.RestartLook,
    "restarted": restart_facts.Restarted,
    "restore_look": restore_facts.RestoreLook,
    "restored": restore_facts.Restored,
    "proof_look": proof_facts.ProofLook,
    "proven": proof_facts.Proven,
    "cleared": proof_facts.Cleared,
    "restore_disk_look": restore_facts.DiskLook,
    "restored_disk": restore_facts.DiskRestored,
    "restore_file_look": restore_facts.FileLook,
    "restored_file": restore_facts.FileRestored,
    "rename_look": rename_facts.RenameLook,
    "rename_noted": rename_facts.RenameNoted,
    "renamed": rename_facts.Renamed,
    "backup_look": answers.GroupedLook,
    "backup": backup_facts.BackedUp,
    "snapshot_look": snapshot_facts.SnapshotLook,
    "disk_look": answers.GroupedLook,
    "disk_moved": disk_facts.DiskMoved,
    "snapshot": snapshot_facts.Snapshotted,
    "template_look": template_facts.TemplateLook,
    "templated": template_facts.Templated,
    "converted": import_facts.Converted,
    "clone_look": template_facts.CloneLook,
    "state_look": state_facts.StateLook,
    "brought": state_facts.Brought,
    "purge_look": purge_facts.PurgeLook,
    "purged": purge_facts.Purged,
}


def _read(answer: Answer, kind: str) -> Answer | None:
    """The answer as the controller takes it; None if it is refused as a whole."""
    try:
        return answers.read(answer, TYPES[kind])
    except answers.UnsoundAnswerError:
        return None


def _identities(answer: Answer) -> set[tuple[str, object]]:
    """The name, UUID and MAC addresses of each VM, as far as these are what they must be."""
    return {
        (vm["name"], value)
        for vms in answer.values()
        for vm in (vms if isinstance(vms, list) else ())
        if isinstance(vm, dict) and isinstance(vm.get("name"), str)
        for value in (vm.get("uuid"), *json_values.as_list(vm.get("macs")))
        if isinstance(value, str)
    }


def _places(value: t.Any, path: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _places(one, (*path, number))


def _spoilt(answer: Answer, path: tuple[t.Any, ...], value: t.Any) -> Answer:
    found = copy.deepcopy(answer)
    inner: t.Any = found
    for key in path[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = copy.deepcopy(value)
    return found


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_answer_is_good(kind: str) -> None:
    assert _read(GOOD[kind], kind) == GOOD[kind]
    READERS[kind](copy.deepcopy(GOOD[kind]))


@pytest.mark.parametrize("kind", GOOD)
def test_what_is_read_has_its_shape(kind: str) -> None:
    keys = GOOD[kind].keys()
    refused = 0
    for path in _places(GOOD[kind]):
        for value in (MISSING, *WRONG):
            spoilt = _spoilt(GOOD[kind], path, value)
            answer = _read(spoilt, kind)
            if answer is None:
                refused += 1
                continue
            if answer != spoilt:  # one of its VMs is refused
                refused += 1
                assert _read(answer, kind) == answer
                assert _identities(spoilt) <= _identities(answer)
            if any(answer.get(key) is None for key in keys):
                continue  # no answer, which the reader sees
            try:
                READERS[kind](answer)
            except FleetVirtError:
                pass
            except Exception as error:
                pytest.fail(f"{path} = {value!r} is read: {error!r}")
    assert refused > 10


def test_there_is_a_reader_for_every_kind() -> None:
    assert set(GOOD) == set(READERS) == set(TYPES)
    declared = set()
    for path in (TOP / "plugins" / "module_utils" / "_fleet").glob("*/*.py"):
        names = re.findall(
            r"^class (\w+)\((?:(?:answers\.)?Result|Placing|MigrateLook),",
            path.read_text(),
            re.MULTILINE,
        )
        declared |= {f"{path.parent.name}.{path.stem}.{name}" for name in names}
    tested = {
        f"{'.'.join(kind.__module__.split('.')[-2:])}.{kind.__name__}" for kind in TYPES.values()
    }
    assert declared == tested - {"daemon.packages.Platform", "daemon.packages.Installed"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"domains": [{**DOMAIN, "state": 3}]}, "domains[0].state is a number"),
        ({"domains": [{"name": "x"}]}, "domains[0].title is missing"),
        ({"domains": "x"}, "domains is text"),
        ({"domains": [DOMAIN, 3]}, "domains[1] is a number"),
        ({"domains": [{**DOMAIN, "name": None}]}, "domains[0].name is null"),
        (
            {"domains": [{**DOMAIN, "nics": [{**NIC, "addresses": [1]}]}]},
            "domains[0].nics[0].addresses[0] is a number",
        ),
        ({"domains": [{**DOMAIN, "vcpus": True}]}, "domains[0].vcpus is a boolean"),
        ({"msg": "no"}, None),
        ({"domains": []}, None),
    ],
)
def test_words(answer: Answer, expected: str | None) -> None:
    assert answers.problem(answer, snapshot.Domains) == expected
