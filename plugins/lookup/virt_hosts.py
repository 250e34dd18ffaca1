# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: virt_hosts
short_description: Returns the hypervisors of a play, and fails if there are none
version_added: 0.1.0
description:
  - Returns the hosts that a pattern and C(--limit) select, for C(hosts) of a play.
  - Ansible skips a play without hosts and exits successfully. A playbook for hypervisors has then
    done nothing and still looks successful. This lookup fails instead, and reports why no host
    matched.
  - A part of a pattern that matches nothing is an error, too, also one that is to be left out
    (C(!hv3)), unless that has a wildcard. Ansible only warns, and goes on without it.
  - For C(--syntax-check), C(--list-tasks) and the like, which need no inventory, the pattern is
    returned unchanged.
author:
  - Fleet Virt contributors (@fleet-virt)
options:
  _terms:
    description:
      - Patterns as in C(hosts), for example a group.
    type: list
    elements: str
    required: true
  playbook:
    description:
      - Name of the playbook of this collection that contains the play. Extra variables (C(-e)) that
        begin with C(vm_), C(virt_) or C(libvirt_keys_) and that no playbook of the collection reads
        are then an error, before any hypervisor is contacted; so are one that selects VMs or
        hypervisors and that this playbook does not read, a boolean variable that is neither true
        nor false, and C(--tags) that no task of it has.
    type: str
"""

EXAMPLES = r"""
- name: Read the hypervisors
  hosts: "{{ query('fleet.virt.virt_hosts', virt_hosts | default('hypervisors')) }}"
  gather_facts: false
  tasks:
    - name: Read the hypervisor
      fleet.virt.virt_host_info:
"""

RETURN = r"""
_raw:
  description: Names of the hosts, in inventory order. A name that Ansible would parse as several
    patterns, or as none, is returned as a pattern that matches only that host.
  type: list
  elements: str
"""

import typing as t
from pathlib import Path

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._variables import require_known

_WITHOUT_HOSTS = ("syntax", "listhosts", "listtasks", "listtags")


class LookupModule(LookupBase):
    if t.TYPE_CHECKING:  # ansible-core states no types for it
        _loader: DataLoader

    def run(
        self,
        terms: list[str],
        variables: Values | None = None,
        *,
        playbook: str | None = None,
        **_options: object,
    ) -> list[str]:
        patterns = [str(part) for term in terms for part in _parts(term)]
        if any(context.CLIARGS.get(key) for key in _WITHOUT_HOSTS):
            return patterns
        if playbook is not None:
            self._check_extra_variables(str(playbook))
            _refuse_tags(str(playbook))
        values = variables or {}
        pattern = ",".join(patterns)
        manager = _peers.inventory(self._loader, values)
        # an empty pattern would mean all hosts to Ansible
        matched = _names(manager, pattern) if pattern.strip(" ,") else []
        if not matched:
            raise AnsibleError(
                f"no hypervisor: {pattern!r} matches no host of the inventory; add the hypervisors"
                " to a group of that name, or give another pattern with -e virt_hosts=PATTERN"
            )
        missing = _peers.unmatched(pattern, manager)
        if missing:
            raise AnsibleError(_peers.unmatched_message(pattern, missing))
        limit = values.get("ansible_limit")
        if limit:
            manager.subset(str(limit))
            chosen = _names(manager, pattern)
            if not chosen:
                raise AnsibleError(
                    f"no hypervisor: --limit {limit!s} leaves none of {pattern!r}, which matches"
                    f" {', '.join(matched)}"
                )
            return [_pattern(name) for name in chosen]
        return [_pattern(name) for name in matched]

    def _check_extra_variables(self, playbook: str) -> None:
        try:
            require_known(playbook, load_extra_vars(self._loader))
        except FleetVirtError as error:
            raise AnsibleError(str(error)) from None


def _refuse_tags(playbook: str) -> None:
    """No task of ours has a tag, so nothing would run, and the play would end well.

    In a playbook of the user's own, which imports ours, they may have the tags of the import.
    """
    if not any(_is_ours(str(path), playbook) for path in context.CLIARGS.get("args") or ()):
        return
    tags = [str(tag) for tag in context.CLIARGS.get("tags") or ()]
    skipped = [str(tag) for tag in context.CLIARGS.get("skip_tags") or ()]
    if tags and not {"all", "untagged"}.intersection(tags):
        raise AnsibleError(
            f"--tags {','.join(tags)}: no task of {playbook} has it, so nothing would be done;"
            " leave --tags out"
        )
    if {"all", "untagged"}.intersection(skipped):
        raise AnsibleError(
            f"--skip-tags {','.join(skipped)}: no task of {playbook} has a tag, so nothing would be"
            " done; leave --skip-tags out"
        )


def _is_ours(given: str, playbook: str) -> bool:
    """Whether the playbook was given by its name in the collection, or as its file there."""
    name = f"{playbook}.yml"
    file = Path(__file__).resolve().parents[2] / "playbooks" / name
    return given == f"fleet.virt.{playbook}" or (
        given.endswith(name) and Path(given).resolve() == file
    )


def _parts(term: object) -> list[object]:
    return list(term) if isinstance(term, (list, tuple)) else [term]


def _pattern(name: str) -> str:
    """Return a pattern that matches only the host of that name.

    A play treats its hosts as patterns: one with a comma is several patterns, and one that starts
    with an exclamation mark excludes hosts.
    """
    if split_host_pattern(name) == [name] and not name.startswith(("!", "&")):
        return name
    return f"~^{''.join(c if c.isalnum() else _escaped(c) for c in name)}\\Z"


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08x}"


def _names(manager: InventoryManager, pattern: str) -> list[str]:
    return [str(host.name) for host in manager.get_hosts(pattern=pattern)]
