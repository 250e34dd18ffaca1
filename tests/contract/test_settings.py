# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is documented of a setting is what its row says.

``FLEET_VIRT_WRITE=1 .venv/bin/python -m pytest tests/contract/test_settings.py`` writes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.settings import Table
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import ARGUMENTS
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.settings import SEED, SEEDS
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.settings import VM
from ansible_collections.fleet.virt.tests.contract import _tools, settings

FRAGMENT = '''\
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


# Written by tests/contract/test_settings.py from module_utils/_fleet/seed/settings.py
class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
{options}
"""

    OPTION = r"""
options:
{option}
"""
'''
MODULE = _tools.CHECKOUT / "plugins" / "modules" / "virt_init.py"
SEED_FRAGMENT = _tools.CHECKOUT / "plugins" / "doc_fragments" / "_seed.py"
# A word or true stands for the whole mapping
WITH_A_SHORT_FORM = ["console", "seed", "cpu", "watchdog", "tpm"]


def _module() -> str:
    # The seed's option is long, and stands in the fragment
    table = [setting for setting in VM if setting is not SEEDS]
    return settings.replaced(MODULE.read_text(), settings.document(table))


def _fragment() -> str:
    return FRAGMENT.format(options=settings.document(SEED), option=settings.document([SEEDS]))


@pytest.mark.parametrize(
    ("file", "made"), [(MODULE, _module), (SEED_FRAGMENT, _fragment)], ids=["virt_init", "seed"]
)
def test_documentation_is_what_the_tables_say(file: Any, made: Any) -> None:
    wanted = made()
    if os.environ.get("FLEET_VIRT_WRITE"):
        file.write_text(wanted)
    assert file.read_text() == wanted, (
        "run FLEET_VIRT_WRITE=1 .venv/bin/python -m pytest tests/contract/test_settings.py"
    )


def _differences(documented: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    for name, argument in spec.items():
        entry = documented[name]
        for key in ("type", "elements", "choices", "default", "required", "aliases"):
            if entry.get(key) != argument.get(key):
                yield f"{name}.{key}: {entry.get(key)!r}, row: {argument.get(key)!r}"
        yield from _differences(entry.get("suboptions") or {}, argument.get("options") or {})


@pytest.mark.parametrize("table", [VM, SEED], ids=["VM", "seed"])
def test_text_reads_back_as_the_table(table: Table) -> None:
    documented = yaml.safe_load(settings.document(table))
    spec = {setting.name: setting.argument() for setting in table}
    assert list(documented) == list(spec)
    assert list(_differences(documented, spec)) == []
    assert all(isinstance(line, str) for one in documented.values() for line in one["description"])


def test_only_what_has_a_short_form_is_raw() -> None:
    raw = [setting.name for setting in VM if setting.argument()["type"] == "raw"]
    assert raw == WITH_A_SHORT_FORM


def test_suboptions_are_shown_with_type_choices_and_default() -> None:
    shown = json.loads(
        _tools.run(["ansible-doc", "--json", "fleet.virt.virt_init"], _tools.CHECKOUT, os.environ)
    )
    options = shown["fleet.virt.virt_init"]["doc"]["options"]
    disk, console = options["disks"]["suboptions"], options["console"]["suboptions"]
    assert (disk["cache"]["type"], disk["cache"]["default"]) == ("str", "none")
    assert "writeback" in disk["cache"]["choices"]
    assert console["type"]["choices"] == ["none", "vnc", "spice"]
    assert console["listen"]["default"] == "127.0.0.1"
    assert options["seed"]["suboptions"]["method"]["choices"] == ["nocloud", "offline", "auto"]
    assert options["vcpus"]["type"] == "int"
    assert options["vcpus"]["default"] == 1


def test_no_default_is_filled_into_a_vm() -> None:
    """What a user did not write must not be compared with a VM that exists."""
    vm = {"name": "web1", "disks": [{"name": "data"}], "console": "vnc"}
    done = ArgumentSpecValidator(ARGUMENTS).validate({"vms": [vm]})
    assert done.error_messages == []
    assert done.validated_parameters["vms"] == [vm]
