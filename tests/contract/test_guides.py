# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What guides show in YAML is understood. Their commands are run in the laboratory:
``tests/integration/test_examples.py``."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.public_keys import (
    public_key_problem,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import many
from ansible_collections.fleet.virt.tests import playbook_reference as reference
from ansible_collections.fleet.virt.tests.contract import _tools

GUIDES = sorted((_tools.CHECKOUT / "docs" / "docsite" / "rst").glob("*.rst"))
_BLOCK = re.compile(r"^\.\. code-block:: yaml\n\n((?:    .*\n|\n)+)", re.MULTILINE)


def _shown(name: str) -> list[dict[str, Any]]:
    (guide,) = [path for path in GUIDES if path.stem == name]
    documents = map(yaml.safe_load, _BLOCK.findall(guide.read_text(encoding="utf-8")))
    return [document for document in documents if isinstance(document, dict)]


@pytest.mark.parametrize("name", [path.stem for path in GUIDES])
def test_variable_in_a_guide_is_known(name: str) -> None:
    for document in _shown(name):
        own = {key for key in document if key.startswith(("virt_", "vm_", "libvirt_keys_"))}
        assert own <= reference._known()


@pytest.mark.parametrize("name", [path.stem for path in GUIDES])
def test_vm_in_a_guide_is_understood(name: str) -> None:
    for document in _shown(name):
        _domains, problems = many([{"seed": False, **vm} for vm in document.get("virt_vms", [])])
        assert not problems


def test_public_key_in_a_guide_is_accepted() -> None:
    keys = [
        key
        for path in GUIDES
        for document in _shown(path.stem)
        for key in document.get("virt_ssh_public_key", [])
    ]
    assert keys
    assert [public_key_problem(key) for key in keys] == [None] * len(keys)
