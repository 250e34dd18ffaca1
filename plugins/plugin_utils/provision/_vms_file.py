# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables file with adopted VMs.

Titles and descriptions are arbitrary text from a hypervisor: text that looks like a template is
marked unsafe, so that Ansible does not evaluate it.
"""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)

_HEAD = """\
---
# VMs as fleet.virt.adopt found them. How they differ from this by now:
#   ansible-playbook fleet.virt.plan -e @THIS-FILE
"""
_UNSAFE = "!unsafe"
_TEMPLATES = ("{{", "{%", "{#")

Vms = t.Sequence[t.Mapping[str, object]]


class _Dumper(yaml.SafeDumper):
    """Marks text that looks like a template as unsafe."""


class _VmsLoader(yaml.SafeLoader):
    """Reads unsafe text."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    tag = _UNSAFE if any(template in value for template in _TEMPLATES) else "tag:yaml.org,2002:str"
    return dumper.represent_scalar(tag, value)


def _unsafe(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
    return loader.construct_scalar(node)


_Dumper.add_representer(str, _text)
_VmsLoader.add_constructor(_UNSAFE, _unsafe)


def text(vms: Vms) -> str:
    """The VMs as YAML."""
    plain = {"virt_vms": [dict(vm) for vm in vms]}
    return str(yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def render(vms: Vms) -> str:
    """The text of the file."""
    return _HEAD + text(vms)


def require_nothing_lost(path: str, vms: Vms) -> None:
    """Raise PlanRefused if the file exists and has content that one with ``vms`` would not have.

    An unreadable file is reported when it is written.
    """
    try:
        before = Path(path).read_text(encoding="utf-8") if os.path.isfile(path) else ""
    except (OSError, ValueError):
        return
    if not before or before == render(vms):
        return
    try:
        old = as_list(as_mapping(yaml.load(before, Loader=_VmsLoader)).get("virt_vms"))  # noqa: S506
    except yaml.YAMLError:
        old = []
    stays = all(entry in [dict(vm) for vm in vms] for entry in old)
    if stays and before == render([as_mapping(entry) for entry in old]):
        return
    raise PlanRefused(
        f"output_file {path}: already exists, and has content that would be lost; name another file"
        " (-e virt_output_file), or move this one away"
    )
