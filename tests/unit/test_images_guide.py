# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the guide to images shows is a valid description of a VM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _catalogue
from ansible_collections.fleet.virt.plugins.plugin_utils.images._catalogue import Catalogue

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "docsite" / "rst" / "images.rst"


def shown() -> list[dict[str, Any]]:
    text = GUIDE.read_text(encoding="utf-8")
    text = text.replace("sha256:…", "sha256:" + "0" * 64).replace("sha512:…", "sha512:" + "0" * 128)
    return [yaml.safe_load(b) for b in re.findall(r"code-block:: yaml\n\n((?:    .*\n|\n)+)", text)]


VMS = [variables for variables in shown() if "vm_image" in variables]


@pytest.mark.parametrize("variables", VMS, ids=lambda one: str(one["vm_image"])[-30:])
def test_variables(variables: dict[str, Any]) -> None:
    vm = {
        "name": "web1",
        "seed": False,
        **{key.removeprefix("vm_"): one for key, one in variables.items()},
    }
    domains, problems = many([vm], defaults=Defaults())
    assert problems == []
    assert domains[0].image is not None
    assert domains[0].image.kind in ("file", "url")


def test_all_distributions_are_there() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in ("CentOS", "Fedora", "openSUSE", "SUSE", "Ubuntu", "Debian", "kiwi", "mkosi"):
        assert re.search(rf"\b{name}\b", text), name
    assert len(VMS) == 4


def test_catalogue_of_the_guide_has_images_and_its_names_are_those_of_the_collection() -> None:
    (variables,) = [variables for variables in shown() if variables not in VMS]
    names = variables.pop(_catalogue.VARIABLE)
    assert not variables
    images = Catalogue("/nowhere", names)
    assert all(images.image(name) for name in names)
    (listed,) = re.findall(
        r"Rocky Linux and Ubuntu, are\s((?:.|\n)*?), all for x86_64", GUIDE.read_text()
    )
    assert sorted(re.findall(r"``([\w.-]+)``", listed)) == Catalogue("/nowhere", None).names()
