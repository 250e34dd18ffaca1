# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""README.md has what its readers look for, and names what is there."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import yaml
from ansible_collections.fleet.virt.tests.contract import _tools, documentation

README = (_tools.CHECKOUT / "README.md").read_text(encoding="utf-8")
GUIDES = _tools.CHECKOUT / "docs" / "docsite" / "rst"

# What automation hub asks for, in this order, and what the inclusion checklist adds
SECTIONS = [
    "Description",
    "Requirements",
    "Installation",
    "Use Cases",
    "Testing",
    "Support",
    "Release Notes and Roadmap",
    "Related Information",
    "License Information",
]


def test_sections() -> None:
    heads = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert [head for head in heads if head in SECTIONS] == SECTIONS
    smaller = re.findall(r"^### (.*)$", README, re.MULTILINE)
    assert {"Communication", "Code of Conduct", "What it never does"} <= set(smaller)


def test_it_says_what_it_is_in_three_lines() -> None:
    text = README.partition("# fleet.virt\n\n")[2].partition("\n\n")[0]
    assert len(text.splitlines()) == 3


def test_first_vm_is_within_two_screens() -> None:
    """A picture counts as what it shows: half a screen."""
    before = README.partition("fleet.virt.provision_vm -e vm_name=")[0]
    assert "\n```sh\n" in before
    assert len(before.splitlines()) < 2 * 45
    assert len(README.splitlines()) < 5 * 45


def test_picture_is_there_and_was_recorded() -> None:
    (picture,) = re.findall(r"^!\[[^\]]+\]\(([^)]+)\)$", README, re.MULTILINE)
    shown = ElementTree.fromstring((_tools.CHECKOUT / picture).read_text(encoding="utf-8"))
    lines = [text.text or "" for text in shown.iter("{http://www.w3.org/2000/svg}text")]
    commands = [line for line in lines if line.startswith("$ ")]
    for playbook in ("provision_vm", "migrate_vm", "repair_vms"):
        assert any(f"fleet.virt.{playbook}" in command for command in commands), commands
    assert any("kill -9" in line for line in lines)
    assert any(re.match(r"web1 +hv\d +hv\d +moved \(finish\)", line) for line in lines)


@pytest.mark.parametrize("module", documentation.modules())
def test_module_is_listed(module: str) -> None:
    listed = (GUIDES / "contents.rst").read_text(encoding="utf-8")
    assert f"``fleet.virt.{module}``" in listed


@pytest.mark.parametrize(
    "playbook", sorted(path.stem for path in (_tools.CHECKOUT / "playbooks").glob("*.yml"))
)
def test_names_playbook(playbook: str) -> None:
    assert re.search(rf"`(fleet\.virt\.)?{playbook}`", README)


def test_names_nothing_that_is_not_there() -> None:
    named = set(re.findall(r"`(?:fleet\.virt\.)?(virt_\w+|\w+_vms?)`", README))
    playbooks = {path.stem for path in (_tools.CHECKOUT / "playbooks").glob("*.yml")}
    assert named <= set(documentation.modules()) | playbooks


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (_tools.CHECKOUT / target).exists()] == []


def test_guides_are_listed() -> None:
    contents = (GUIDES.parent / "extra-docs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (\w+)$", contents, re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in GUIDES.glob("*.rst"))


def test_bug_report_asks_for_preflight_and_versions() -> None:
    form = _tools.CHECKOUT / ".github" / "ISSUE_TEMPLATE" / "bug_report.yml"
    asked = {
        field["id"]: f"{field['attributes']}"
        for field in yaml.safe_load(form.read_text(encoding="utf-8"))["body"]
        if "id" in field and field.get("validations", {}).get("required")
    }
    assert "fleet.virt.preflight -e virt_output=json" in asked["preflight"]
    for program in ("ansible --version", "virsh version", "os-release", "collection list"):
        assert program in asked["versions"]
