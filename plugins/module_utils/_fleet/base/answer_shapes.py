# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shape that the parts of a hypervisor's answer that the controller reads must have.

A shape is one type or several; ``[shape]`` is a list of such values, ``[]`` an empty list; a
mapping of keys to shapes is a mapping that has these keys (``key?`` may be missing); for
:class:`Every` and :class:`NotEmpty` see there. Any other keys are ignored.
"""

from __future__ import annotations

import typing as t

from .json_values import Every, Fields, NotEmpty, shape_problem

_NONE = type(None)
_TEXT = (str, _NONE)
_NUMBER = (int, float, _NONE)
_FLAG = (bool, _NONE)
_TEXTS = [str]
_NAME = NotEmpty()  # of a VM: without one, nothing is known of it, and its hypervisor is silent

_GRAPHICS: Fields = {"type": _TEXT, "port": _NUMBER, "tls_port?": _NUMBER, "socket?": _TEXT}
_DISK: Fields = {"target": _TEXT, "size_mib": _NUMBER, "source": _TEXT, "format": _TEXT}
_NIC: Fields = {"mac": _TEXT, "source": _TEXT, "type": _TEXT, "addresses": ([str], _NONE)}
_ENDPOINTS: Fields = {"source": str, "destination": str}
_KEPT: Fields = {
    "phase?": _TEXT,
    "move?": (_ENDPOINTS, _NONE),
    "managed?": _FLAG,
    "groups?": (_TEXTS, _NONE),
    "tags?": (_TEXTS, _NONE),
}
_DOMAIN: Fields = {
    "name": _NAME,
    "uuid?": _TEXT,
    "persistent?": _FLAG,
    "metadata?": (_KEPT, _NONE),
    "managed_save?": _FLAG,
    "state": _TEXT,
    "reason": _TEXT,
    "error": _TEXT,
    "vcpus": _NUMBER,
    "memory_mib": _NUMBER,
    "graphics": [_GRAPHICS],
    "disks": [_DISK],
    "nics": [_NIC],
}
_HOST_INFO: Fields = {
    "maintenance": _FLAG,
    "domain_types": _TEXTS,
    "cpu": {"total": _NUMBER, "running": _NUMBER, "defined": _NUMBER},
    "memory_mib": {"total": _NUMBER, "free": _NUMBER, "running": _NUMBER, "defined": _NUMBER},
    "domains": Every(int, ("shutoff",)),
    "pools": [{"name": str, "state": _TEXT, "available_mib": _NUMBER}],
}
_IMAGE: Fields = {
    "name": str,
    "digest": str,
    "format": _TEXT,
    "path": _TEXT,
    "size_mib": _NUMBER,
    "allocated_mib": _NUMBER,
    "users": _TEXTS,
    "intact": _FLAG,
}
# A hypervisor as placement sees it; placement checks the rest itself
_DEFINED: Fields = {
    "name": _NAME,
    "uuid?": _TEXT,
    "macs": _TEXTS,
    "active": _FLAG,
    "seeded?": _FLAG,
    "phase": _TEXT,
    "groups?": (_TEXTS, _NONE),
    "anti_affinity?": (_TEXTS, _NONE),
    "disks?": (_TEXTS, _NONE),
    "targets?": (_TEXTS, _NONE),
}
_HOST: Fields = {
    "uuid?": _TEXT,
    "machines?": (_TEXTS, _NONE),
    "images?": (_TEXTS, _NONE),
    "bridges?": (_TEXTS, _NONE),
    "networks?": ([{"name?": _TEXT, "active?": _FLAG, "bridge?": _TEXT}], _NONE),
    "pools?": ([{"name": str, "path?": _TEXT}], _NONE),
    "vms": [_DEFINED],
}
# As moves see it: which pools its disks are in, and the identity of its VMs
_SOURCE: Fields = {
    **_HOST,
    "pools": [{"name": str, "path": _TEXT}],
    "vms": [{**_DEFINED, "uuid": _TEXT}],
}
_PRESENT: Fields = {
    "name": _NAME,
    "uuid": str,
    "phase": _TEXT,
    "move": (_ENDPOINTS, _NONE),
    "memory_mib": int,
    "zone": _TEXT,
    "groups": _TEXTS,
    "anti_affinity": _TEXTS,
    "tags": _TEXTS,
    "evacuated_from": _TEXTS,
}
# A VM that could not be read has the reason instead of what it needs
_UNREAD: Fields = {**_PRESENT, "error": NotEmpty(), "disks": []}
_MOVING: Fields = {
    **_PRESENT,
    "error": _NONE,
    "vcpus": int,
    "domain_type": _TEXT,
    "arch": _TEXT,
    "bridges": _TEXTS,
    "networks": _TEXTS,
    "nwfilters?": _TEXTS,
    "vsock?": _FLAG,
    "disks": [{"path": _TEXT, "bytes": int, "backing": _TEXT}],
}
_MOVED: Fields = {
    "name": _NAME,
    "failed": _FLAG,
    "changed": _FLAG,
    "msg": _TEXT,
    "destination": _TEXT,
    "progress": _TEXTS,
    "flow": _TEXT,
    "note?": _TEXT,
    "bytes": (int, float, str, _NONE),
    "bytes_to_copy": (int, float, str, _NONE),
    "seconds": (int, float, str, _NONE),
    "downtime_ms": (int, float, str, _NONE),
}
_MADE: Fields = {"name": _NAME, "changed": _FLAG, "failed": _FLAG, "msg": _TEXT}
_PROVISIONED: Fields = {
    **_MADE,
    "not_tried?": _FLAG,
    "existed?": _FLAG,
    "restart_required?": _FLAG,
    "steps?": _TEXTS,
    "state?": _TEXT,
    "started?": _FLAG,
    "note?": _TEXT,
}

_WAITING: Fields = {
    "name": _NAME,
    "address": _TEXT,
    "source": _TEXT,
    "seconds": _NUMBER,
    "answered": _FLAG,
    "changed": _FLAG,
    "first_boot?": _TEXT,
    "msg": _TEXT,
    "console": _TEXTS,
}

# By kind of registered result: the keys of the answer that the controller reads
SHAPES: t.Mapping[str, Fields] = {
    "domains": {"domains": [_DOMAIN]},
    "host_info": {"host": _HOST_INFO},
    "images": {"images": [_IMAGE]},
    "made": {"vms": [_PROVISIONED]},
    "waited": {
        "vms": [
            {
                "name": _NAME,
                "address": _TEXT,
                "answered": _FLAG,
                "first_boot?": _TEXT,
                "msg": _TEXT,
            }
        ]
    },
    "placing": {"host": _HOST},
    "compared": {
        "host": _HOST,
        "vms": [
            {
                "name": _NAME,
                "differences": (_TEXTS, _NONE),
                "drift": _FLAG,
                "pending": _TEXTS,
                "condition?": _TEXT,
                "not_running?": _FLAG,
            }
        ],
    },
    "claims": {
        "host": _HOST,
        "vms": [{**_PROVISIONED, "refused": _FLAG}],
    },
    "migrate_look": {
        "host": _SOURCE,
        "vms": [(_MOVING, _UNREAD)],
        "claims": [{"name": _NAME, **_ENDPOINTS}],
        "expired": ([str], _NONE),
        "missing_certificates": ([str], _NONE),
    },
    "moved": {"vms": [_MOVED]},
    "named": {"vms": [{"name": _NAME, "address?": _TEXT}]},
    "wait": {"vms": [_WAITING], "waiting": _TEXTS},
    # What hosts are compared by; preflight checks the rest for each host
    "facts": {
        "facts": {
            "errors": Every(str),
            "time": (int, float),
            "uuid?": _TEXT,
            "arch?": _TEXT,
            "libvirt_version?": _TEXT,
            "hypervisor_version?": _TEXT,
            "machines?": (_TEXTS, _NONE),
            "cpu?": ({"model?": _TEXT, "xml?": _TEXT}, _NONE),
        }
    },
    "baseline": {"baseline": {"error": _TEXT, "runs": _FLAG, "model": _TEXT}},
    "keys": {
        "kinds": {
            kind: {"ca": str, "crl": str, "certificate": str, "key_id": _TEXT}
            for kind in ("control", "data")
        },
        "faults": _TEXTS,
        "daemons": _TEXTS,
    },
    # Of Ansible's own modules
    "platform": {
        "platform": {
            "architecture": str,
            "distribution": str,
            "distribution_major_version": str,
            "os_family": str,
            "pkg_mgr": str,
        }
    },
    "packages": {"packages": Every(list)},
}


def problem(answer: t.Mapping[str, object], kind: str) -> str | None:
    """The first part of ``answer`` that does not match :data:`SHAPES` for ``kind``; None if all do.

    A missing or null key means no answer, which the reader has to handle.
    """
    for key, shape in SHAPES[kind].items():
        if answer.get(key) is not None:
            mismatch = shape_problem(answer[key], shape, key)
            if mismatch:
                return mismatch
    return None
