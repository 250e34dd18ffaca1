# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables that the collection reads, and checks of extra variables (``-e``).

Ansible ignores an extra variable that nothing reads, so a typo would do something else than
requested.
"""

from __future__ import annotations

import difflib
import functools
import typing as t

from ansible.module_utils.parsing.convert_bool import BOOLEANS
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.plugin_utils.base._answers import PREFIXES

# Of the fleet or of a hypervisor; mostly in group_vars, so every playbook accepts them
FLEET = frozenset(
    {
        "virt_backup_hours",
        "virt_backup_known",
        "virt_backup_passphrase",
        "virt_backup_read_from",
        "virt_backup_ssh_key",
        "virt_backup_to",
        "virt_base_path",
        "virt_base_pool",
        "virt_become",
        "virt_cpu",
        "virt_disk_profiles",
        "virt_disk_ratio",
        "virt_event_hook",
        "virt_fence",
        "virt_fleet",
        "virt_ha_addresses",
        "virt_ha_cell",
        "virt_ha_qdevice",
        "virt_ha_state",
        "virt_hosts",
        "virt_hypervisors_lost",
        "virt_image_catalogue",
        "virt_image_dir",
        "virt_image_download_by",
        "virt_images_path",
        "virt_inventory_uri",
        "virt_keep",
        "virt_memory_ratio",
        "virt_memory_reserve",
        "virt_migration_address",
        "virt_nic_profiles",
        "virt_pool",
        "virt_ssh_public_key",
        "virt_tags",
        "virt_timeout",
        "virt_uri",
        "virt_vcpu_ratio",
        "virt_zone",
    }
)
_OUTPUT = frozenset({"virt_output", "virt_output_file"})
_SELECTION = frozenset(
    {
        "virt_columns",
        "virt_filter_managed",
        "virt_filter_name",
        "virt_filter_state",
        "virt_group",
        "virt_show_noted",
        "virt_sort",
    }
)
_CHOSEN = frozenset({"vm_name", "virt_names"})
_CHOSEN_OR_GROUPED = _CHOSEN | {"virt_group"}
# They say which VMs or hypervisors are meant: one that is not read would have all of them meant
SELECTORS = frozenset(
    {
        "virt_filter_managed",
        "virt_filter_name",
        "virt_filter_state",
        "virt_group",
        "virt_host",
        "virt_names",
        "vm_host",
        "vm_name",
    }
)
_MOVE = frozenset(
    {
        "virt_auto_converge",
        "virt_bandwidth",
        "virt_eject_media",
        "virt_keep_volumes",
        "virt_max_downtime",
        "virt_on_timeout",
        "virt_parallel",
        "virt_parallel_connections",
        "virt_seconds_per_gib",
        "virt_tunnelled",
    }
)
# The destination of a move: the second name is obeyed, since a move has no other hypervisor to name
_DESTINATION = ("vm_host", "virt_host")
_PREFLIGHT = _OUTPUT | {"virt_clock_seconds", "virt_expiry_days", "virt_min_free"}
_KEYS = frozenset(
    f"libvirt_keys_{name}"
    for name in (
        "ca_days",
        "client_name",
        "control_ca",
        "data_ca",
        "days",
        "dir",
        "hypervisors",
        "lost",
        "names",
        "organization",
        "passphrase",
        "qemu_user",
        "readmit",
        "renew",
        "renew_days",
        "replace",
        "revoke",
        "rotate",
    )
)
# What each playbook accepts besides; those of _OF_VMS also accept VM settings (:func:`takes`)
PLAYBOOKS: t.Mapping[str, frozenset[str]] = {
    "backups": _OUTPUT | _CHOSEN | {"virt_backup_sizes"},
    "backup_turn": frozenset({"virt_output_file", "virt_turn_hours"}),
    "export_backup_keys": _CHOSEN | {"virt_backup_keys"},
    "prune_backups": _OUTPUT | _CHOSEN | {"virt_keep_proven", "virt_prune_accept"},
    "adopt": _CHOSEN | {"virt_output_file", "vm_adopt_disks", "vm_host"},
    "capacity": _OUTPUT | {"virt_loss", "virt_require"},
    "backup": _CHOSEN_OR_GROUPED
    | {
        "vm_host",
        "virt_backup_host_key",
        "virt_backup_scratch",
        "virt_backup_scratch_mib",
        "virt_quiesce",
    },
    "console": frozenset({"vm_host", "vm_name", "virt_console", "virt_console_minutes"}),
    "clone": _OUTPUT
    | {"virt_clone_mode", "virt_clone_of", "virt_identity", "virt_quiesce"}
    | {"virt_converge", "virt_refresh_inventory", "virt_restart", "virt_unasked"}
    | {"virt_wait_timeout"},
    "console_log": _CHOSEN_OR_GROUPED | {"virt_console_follow", "virt_console_lines"},
    "doctor": _PREFLIGHT | {"virt_strict"},
    "evacuate": _MOVE | {"virt_host", "virt_relax"},
    "host_info": _OUTPUT | {"virt_show_noted"},
    "images": _OUTPUT
    | {
        "virt_image",
        "virt_image_checksum",
        "virt_image_peers",
        "virt_images_prune",
        "virt_images_verify",
    },
    "import_vm": _OUTPUT
    | {"virt_import", "virt_import_bus", "virt_import_checksum", "virt_import_max_unpacked"}
    | {"virt_import_networks", "virt_converge", "virt_refresh_inventory", "virt_restart"}
    | {"virt_unasked", "virt_wait_timeout"},
    "list": _OUTPUT | _SELECTION | _CHOSEN,
    "maintenance": frozenset({"virt_host", "virt_maintenance"}),
    "migrate_vm": _MOVE | _CHOSEN_OR_GROUPED | set(_DESTINATION),
    "move_disk": _CHOSEN_OR_GROUPED | {"virt_disk", "virt_to_pool", "vm_host"},
    "plan": _OUTPUT | {"virt_strict", "virt_unasked", "virt_vms"},
    "preflight": _PREFLIGHT,
    "provision_vm": _OUTPUT
    | {"virt_converge", "virt_refresh_inventory", "virt_restart", "virt_unasked", "virt_vms"}
    | {"virt_wait_timeout"},
    "purge_vm": _CHOSEN_OR_GROUPED | {"virt_confirm", "vm_force", "vm_host"},
    "query": _OUTPUT | _SELECTION | _CHOSEN,
    "rename": frozenset({"virt_unasked", "vm_host", "vm_name", "vm_new_name", "vm_rename_volumes"}),
    "renew_keys": _KEYS,
    "repair_vms": _CHOSEN | {"virt_keep_volumes", "virt_proof_folder"},
    "restore": _CHOSEN
    | {"virt_archive", "virt_backup_host_key", "virt_restore_as", "virt_restore_without"}
    | {"virt_unasked"}
    | {"vm_host", "vm_new_name"},
    "restore_disk": frozenset({"vm_name", "virt_archive", "virt_backup_host_key"})
    | {"virt_disk", "virt_to_pool"},
    "restore_file": frozenset({"vm_name", "vm_host", "virt_archive", "virt_path"})
    | {"virt_backup_host_key", "virt_restore_max_mib", "virt_restore_to"},
    "restart_elsewhere": _CHOSEN
    | {"virt_fenced", "virt_fenced_lease", "virt_host", "virt_signs_ignored", "virt_wait_timeout"}
    | {"vm_force"},
    "return_vms": _MOVE | {"virt_host"},
    "rolling": _MOVE
    | {"virt_host", "virt_reboot", "virt_reboot_timeout", "virt_relax", "virt_serial"}
    | {"virt_resume", "virt_skip_unmovable", "virt_tasks"},
    "screenshot": _CHOSEN_OR_GROUPED | {"virt_screen", "virt_screenshots"},
    "setup_hypervisors": _KEYS | _PREFLIGHT,
    "snapshot": _CHOSEN_OR_GROUPED
    | {
        "virt_quiesce",
        "virt_snapshot",
        "virt_snapshot_children",
        "virt_snapshot_disk_only",
        "virt_snapshot_keep",
        "virt_snapshot_state",
        "vm_force",
        "vm_host",
    },
    "snapshots": _CHOSEN_OR_GROUPED,
    "template": frozenset(
        {"vm_host", "vm_name", "virt_disk", "virt_identity", "virt_quiesce", "virt_template"}
    ),
    "state": _CHOSEN_OR_GROUPED
    | {
        "vm_autostart",
        "vm_force",
        "vm_host",
        "vm_shutdown_timeout",
        "vm_state",
    },
    "verify_backups": _OUTPUT
    | _CHOSEN
    | {"virt_archive", "virt_backup_host_key", "virt_boot_seconds", "virt_depth"}
    | {"virt_proof_folder", "virt_proof_mib", "virt_proof_page", "virt_sample", "virt_verify"}
    | {"vm_force"},
    "what_if": _OUTPUT | {"virt_add_hosts", "virt_lose", "virt_loss", "virt_strict", "virt_vms"},
}
_OF_VMS = ("capacity", "clone", "import_vm", "plan", "provision_vm", "what_if")
# The setting of a single VM that with virt_vms counts for all that do not have it themselves
FOR_ALL = "vm_wait"
_FEW = FLEET.union(*PLAYBOOKS.values())
# A typo in one of them would count as false
BOOLEANS_AMONG = frozenset(
    {
        "libvirt_keys_renew",
        "libvirt_keys_replace",
        "virt_auto_converge",
        "virt_backup_sizes",
        "virt_become",
        "virt_converge",
        "virt_eject_media",
        "virt_filter_managed",
        "virt_images_prune",
        "virt_images_verify",
        "virt_keep_proven",
        "virt_keep_volumes",
        "virt_maintenance",
        "virt_refresh_inventory",
        "virt_relax",
        "virt_resume",
        "virt_show_noted",
        "virt_skip_unmovable",
        "virt_snapshot_children",
        "virt_strict",
        "virt_tunnelled",
        "vm_adopt_disks",
        "vm_force",
    }
)


@functools.cache
def operations() -> frozenset[str]:
    """The variables for operations of ``virt_state``, all of them booleans; loaded as settings
    are."""
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.operations import (
        OPERATIONS,
    )

    return frozenset(f"vm_{name}" for name in OPERATIONS)


@functools.cache
def settings() -> frozenset[str]:
    """The variables for the settings of a VM.

    Ansible compiles a collection in every run, and their tables are half of what a reading playbook
    would import: they are only loaded where one of them may be meant.
    """
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import OPTIONS

    return frozenset(f"vm_{name}" for name in OPTIONS)


def takes(playbook: str) -> frozenset[str]:
    """The variables that a playbook accepts besides those of the fleet."""
    more = frozenset[str]()
    if playbook in _OF_VMS:
        more = settings()
    elif playbook == "state":
        more = operations()
    return PLAYBOOKS[playbook] | more


def _is_known(name: str) -> bool:
    return name in _FEW or name in operations() or name in settings()


def _must_be_boolean(name: str) -> bool:
    own = name.startswith(PREFIXES) and name not in _FEW
    return name in BOOLEANS_AMONG or (own and name in operations())


def require_known(playbook: str, extra: t.Mapping[str, object]) -> None:
    """Raise FleetVirtError, naming every mistake, if ``extra`` has an unknown or invalid variable.

    Variables of the user's own have other prefixes. Those of other playbooks of the collection are
    accepted, since one file of variables may serve several, but for those that select VMs or
    hypervisors: without them the playbook would do more than was asked for.
    """
    if playbook not in PLAYBOOKS:
        names = ", ".join(sorted(PLAYBOOKS))
        raise FleetVirtError(
            f"playbook: {show(playbook)} is not a playbook of this collection; use one of {names}"
        )
    problems = []
    for name in map(str, extra):
        if name.startswith(PREFIXES) and not _is_known(name):
            problems.append(
                f"{name}: no playbook reads an extra variable of that name; {_hint(playbook, name)}"
            )
        elif name in SELECTORS - takes(playbook) and extra[name] not in (None, ""):
            problems.append(
                f"{name}: {playbook} does not select by it, and would act on more than that;"
                f" {_instead(playbook, name, extra)}"
            )
        elif _must_be_boolean(name) and not _is_boolean(extra[name]):
            problems.append(f"{name}: {show(extra[name])} is neither true nor false")
        elif name in _unused(playbook, extra):
            option = name.partition("_")[2]
            problems.append(
                f"{name}: virt_vms is set too, so it would be ignored; specify {option} for the VMs"
                " in virt_vms"
            )
    if playbook == "migrate_vm":
        problems += _two_destinations(extra)
    if problems:
        raise FleetVirtError("\n".join(problems))


def _two_destinations(extra: t.Mapping[str, object]) -> list[str]:
    named = [str(extra[name]) for name in _DESTINATION if extra.get(name)]
    if len(set(named)) < 2:
        return []
    return [f"virt_host: vm_host names another destination ({' and '.join(named)}); give only one"]


def _unused(playbook: str, extra: t.Mapping[str, object]) -> frozenset[str]:
    """Settings of a single VM, which nothing reads where ``virt_vms`` describes all of them."""
    if playbook not in ("plan", "provision_vm", "what_if") or extra.get("virt_vms") is None:
        return frozenset()
    return settings() - {"vm_name", FOR_ALL}


def _instead(playbook: str, name: str, extra: t.Mapping[str, object]) -> str:
    """What selects in this playbook, the nearest first."""
    own = sorted(SELECTORS & takes(playbook))
    others = [known for known in own if known not in extra]
    near = difflib.get_close_matches(name, others, n=1, cutoff=0.7)
    if not near and name in _DESTINATION and "virt_hosts" not in extra:
        near = ["virt_hosts"]
    if near:
        return f"did you mean {near[0]}?"
    ways = [*own, "virt_hosts (of hypervisors)"]
    return f"select with {' or '.join(ways)}, or leave it out"


def _hint(playbook: str, name: str) -> str:
    """A suggestion, first from the variables that the playbook itself accepts."""
    own = takes(playbook)
    for names in (own | FLEET, _FEW | operations() | settings()):
        near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.7)
        if near:
            return f"did you mean {near[0]}?"
    begin = name.partition("_")[0]
    listed = sorted(known for known in own if known.startswith(begin))
    return f"{playbook} takes {', '.join(listed or sorted(own))}"


def _is_boolean(value: object) -> bool:
    if isinstance(value, str):
        # a template is only known when a task is run
        return "{{" in value or value.strip().lower() in BOOLEANS
    return isinstance(value, (bool, int)) and value in (0, 1)
