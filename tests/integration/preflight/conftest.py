# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A laboratory of their own: these tests add hosts, switch firewalls and put keys in place."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import SERVERS, Ansible
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory


@pytest.fixture(scope="session")
def site() -> Iterator[Laboratory]:
    """hv1 (Debian 12, root) and hv2 (Debian 13, sudo), ready; hv3 and hv4 the same, bare."""
    kept = os.environ.get("FLEET_VIRT_LAB")
    laboratory = Laboratory(kept) if kept else Laboratory(f"p{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(2)
    there = {host.name for host in laboratory.hosts}
    for name, suite in (("hv3", "bookworm"), ("hv4", "trixie")):
        if name not in there:
            assert laboratory.add(bare=True, suite=suite).name == name
    yield laboratory
    if not kept:
        laboratory.down()


@pytest.fixture(scope="session")
def controller(site: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Ansible:
    """Ansible with that laboratory's inventory."""
    return Ansible(site.inventory, tmp_path_factory.mktemp("controller"), SERVERS)
