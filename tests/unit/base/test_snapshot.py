# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of answers are what the modules document that they return."""

from __future__ import annotations

import sys
import types
import typing as t

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    facts as adoption_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import facts as backup_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import answers, snapshot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import (
    facts as console_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import entries
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    facts as migration_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    facts as provision_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import facts as purge_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import facts as rename_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding import (
    facts as seeding_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import (
    facts as snapshot_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import facts as state_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    facts as template_facts,
)
from ansible_collections.fleet.virt.plugins.modules import (
    virt_adopt,
    virt_backup,
    virt_clone,
    virt_console,
    virt_console_log,
    virt_host_info,
    virt_image_info,
    virt_init,
    virt_migrate,
    virt_purge,
    virt_query,
    virt_rename,
    virt_screenshot,
    virt_snapshot,
    virt_state,
    virt_template,
    virt_wait,
)

Documented = dict[str, dict[str, t.Any]]
_WORDS = {str: "str", int: "int", float: "float", bool: "bool", list: "list", dict: "dict"}


def returned(module: types.ModuleType, key: str) -> Documented:
    contains: Documented = yaml.safe_load(module.RETURN)[key]["contains"]
    return contains


def without_none(hint: t.Any) -> t.Any:
    """Of ``X | None`` the X."""
    if t.get_origin(hint) in (t.Union, types.UnionType):
        return t.Union[tuple(one for one in t.get_args(hint) if one is not types.NoneType)]
    return hint


def compared(kind: t.Any, documented: Documented) -> t.Iterator[tuple[str, object, object]]:
    """Of each key where it is, what its type is, and what the documentation says."""
    hints = t.get_type_hints(kind)
    if "error" not in kind.__required_keys__:  # what the controller says of a VM
        hints.pop("error", None)
    keys = sorted(hints)
    yield kind.__name__, keys, sorted(documented)
    for key in hints.keys() & documented.keys():
        where, said = f"{kind.__name__}.{key}", documented[key]
        hint = without_none(hints[key])
        if hint is object:
            continue
        if t.get_origin(hint) in (t.Union, types.UnionType):  # in check mode it is text
            assert said["type"] in {_WORDS[one] for one in t.get_args(hint)}, where
            continue
        origin, inner = t.get_origin(hint) or hint, t.get_args(hint)
        if t.is_typeddict(hint):
            yield where, "dict", said["type"]
            yield from compared(hint, said["contains"])
            continue
        yield where, _WORDS[origin], said["type"]
        if origin is list and t.is_typeddict(inner[0]):
            yield where, "dict", said["elements"]
            yield from compared(inner[0], said["contains"])
        elif origin is list:
            yield where, _WORDS[inner[0]], said["elements"]


@pytest.mark.skipif(sys.version_info < (3, 10), reason="3.9 cannot evaluate X | None")
@pytest.mark.parametrize(
    ("kind", "module", "key"),
    [
        (snapshot.DomainEntry, virt_query, "domains"),
        (snapshot.PlacementEntry, virt_host_info, "host"),
        (adoption_facts.AdoptedVm, virt_adopt, "vms"),
        (answers.VmIdentity, virt_clone, "defined"),
        (template_facts.CloneSource, virt_clone, "sources"),
        (console_facts.ConsoleVm, virt_console, "consoles"),
        (console_facts.ConsoleOutput, virt_console_log, "consoles"),
        (purge_facts.PurgedVm, virt_purge, "vms"),
        (rename_facts.RenamedVm, virt_rename, "vms"),
        (rename_facts.RenameVm, virt_rename, "defined"),
        (entries.ListedEntry, virt_image_info, "images"),
        (migration_facts.MovedVm, virt_migrate, "vms"),
        (provision_facts.MadeVm, virt_init, "vms"),
        (seeding_facts.WaitingVm, virt_wait, "vms"),
        (console_facts.SavedScreen, virt_screenshot, "screens"),
        (snapshot_facts.SnapshottedVm, virt_snapshot, "vms"),
        (backup_facts.BackedUpVm, virt_backup, "vms"),
        (state_facts.BroughtVm, virt_state, "vms"),
        (template_facts.TemplatedVm, virt_template, "vms"),
        (template_facts.CopiedImage, virt_template, "image"),
    ],
)
def test_a_type_is_what_its_module_returns(kind: type, module: types.ModuleType, key: str) -> None:
    found = [
        (where, expected, said)
        for where, expected, said in compared(kind, returned(module, key))
        if expected != said
    ]
    assert not found
