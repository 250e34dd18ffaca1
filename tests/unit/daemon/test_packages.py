# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages: what is missing, how each package manager is asked, and answers of another shape."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import packages

DEBIAN = {
    "ansible_architecture": "x86_64",
    "ansible_distribution": "Debian",
    "ansible_distribution_major_version": "12",
    "ansible_os_family": "Debian",
    "ansible_pkg_mgr": "apt",
}


def test_what_machine_it_is() -> None:
    assert packages.platform({**DEBIAN, "virt_output_file": "/x"}) == {
        "architecture": "x86_64",
        "distribution": "Debian",
        "distribution_major_version": "12",
        "os_family": "Debian",
        "pkg_mgr": "apt",
    }
    suse = {**DEBIAN, "ansible_distribution": "openSUSE Leap"}
    assert packages.platform(suse)["distribution"] == "openSUSE Leap"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"ansible_distribution": None}, "platform.distribution is null"),
        ({"ansible_pkg_mgr": ["apt"]}, "platform.pkg_mgr is a list"),
        ({"ansible_os_family": "x" * 65}, "platform.os_family is not a name"),
        ({"ansible_architecture": "x86_64\n"}, "platform.architecture is not a name"),
        ({"ansible_architecture": ""}, "platform.architecture is not a name"),
    ],
)
def test_a_machine_of_another_shape(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(FleetVirtError) as error:
        packages.platform({**DEBIAN, **wrong})
    assert str(error.value) == (
        f"its answer is not what ansible.builtin.setup returns ({problem}); check what is"
        " responding there"
    )


def test_what_is_missing() -> None:
    installed = {"packages": {"bash": [{"version": "5.2"}], "tree": []}}
    assert packages.missing(["zsh", "bash", "acl", "zsh"], installed) == ["acl", "zsh"]
    assert packages.missing(["bash"], installed) == []
    assert packages.missing(["bash"], {"packages": {}}) == ["bash"]


@pytest.mark.parametrize(
    "facts", [{}, {"packages": None}, {"packages": []}, {"packages": {"a": 1}}]
)
def test_packages_of_another_shape(facts: dict[str, Any]) -> None:
    with pytest.raises(FleetVirtError, match=r"not what ansible\.builtin\.package_facts returns"):
        packages.missing(["bash"], facts)


def test_only_what_is_needed_is_installed() -> None:
    """No package that others only recommend: a hypervisor needs no fonts, cups or vulkan."""
    least = {
        "apt": ("ansible.builtin.apt", "install_recommends", False),
        "dnf": ("ansible.builtin.dnf", "install_weak_deps", False),
        "dnf5": ("ansible.builtin.dnf5", "install_weak_deps", False),
        "zypper": ("community.general.zypper", "disable_recommends", True),
    }
    for name, (module, option, value) in least.items():
        found, arguments = packages.manager(name)
        assert found == module
        assert arguments[option] is value


@pytest.mark.parametrize("name", ["unknown", "apk", "../apt"])
def test_another_package_manager(name: str) -> None:
    with pytest.raises(FleetVirtError, match="supports only apt, dnf, dnf5, zypper"):
        packages.manager(name)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            {"msg": "Failed to update apt cache\nafter 1 retries: "},
            "Failed to update apt cache after 1 retries",
        ),
        (
            {"msg": "some fail", "failures": ["No package a", "No package b."]},
            "some fail No package a No package b",
        ),
        ({"msg": "some fail", "failures": {"a": 1}}, "some fail"),
        ({"msg": "\x1b[2Jgone"}, "\\x1b[2Jgone"),
        (
            {"msg": "MODULE FAILURE", "module_stdout": "", "rc": 137},
            "its module returned no result: it was killed (SIGKILL)",
        ),
        ({"msg": 7}, "7"),
        ({"failed": True}, "its answer does not mention it"),
    ],
)
def test_why_it_failed(answer: dict[str, Any], said: str) -> None:
    assert packages.reason(answer) == said


def test_a_flood_of_words_is_cut() -> None:
    assert len(packages.reason({"msg": "x" * 10**6})) < 2100
