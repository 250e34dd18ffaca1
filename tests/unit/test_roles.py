# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles: what they promise is complete, for every platform and every variable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
ROLES = sorted(path for path in (CHECKOUT / "roles").iterdir() if path.is_dir())
PLATFORMS = {
    "Debian-12",
    "Debian-13",
    "Fedora",
    "RedHat-10",
    "RedHat-9",
    "Suse-16",
    "Ubuntu-22",
    "Ubuntu-24",
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def by_name(role: Path) -> str:
    return role.name


def platforms(role: Path) -> dict[str, dict[str, Any]]:
    files = sorted((role / "vars").glob("*.yml"))
    return {path.stem: load(path) for path in files if path.stem != "main"}


WITH_PLATFORMS = [role for role in ROLES if platforms(role)]


def test_something_is_checked() -> None:
    assert {"hypervisor", "libvirtd", "storage"} <= {role.name for role in ROLES}
    assert "libvirtd" in {role.name for role in WITH_PLATFORMS}


@pytest.mark.parametrize("role", WITH_PLATFORMS, ids=by_name)
def test_every_platform_has_every_variable(role: Path) -> None:
    found = platforms(role)
    assert set(found) == PLATFORMS
    keys = {name: sorted(values) for name, values in found.items()}
    assert all(names == keys["Debian-12"] for names in keys.values()), keys
    for name, values in found.items():
        for key, value in values.items():
            assert value is not None, f"{name}: {key}"
            assert isinstance(value, type(found["Debian-12"][key])), f"{name}: {key}"


def test_every_platform_has_what_modules_need() -> None:
    """Commands and bindings by the packages that bring them."""
    needed = ("libvirt", "qemu", "python3-libvirt", "python3-lxml", "xorriso", "openssh", "openssl")
    for name, values in platforms(CHECKOUT / "roles" / "libvirtd").items():
        packages = [*values["__libvirtd_packages"], *values["__libvirtd_qemu"].values()]
        for word in needed:
            assert any(package.startswith(word) for package in packages), f"{name}: {word}"
        for kind in ("__libvirtd_qemu", "__libvirtd_firmware"):
            assert set(values[kind]) == {"x86_64", "aarch64"}, f"{name}: {kind}"


def elsewhere(role: Path) -> set[str]:
    """Return the options of the other roles that have their names."""
    others = [other for other in ROLES if other != role]
    specs = [
        (other.name, load(other / "meta" / "argument_specs.yml")["argument_specs"]["main"])
        for other in others
    ]
    return {name for own, entry in specs for name in entry["options"] if name.startswith(f"{own}_")}


@pytest.mark.parametrize("role", ROLES, ids=by_name)
def test_every_variable_is_specified_as_it_is(role: Path) -> None:
    defaults = load(role / "defaults" / "main.yml") or {}
    entries = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    assert "main" in entries
    for entry in entries.values():
        options = entry.get("options", {})
        assert set(defaults) <= set(options)
        for name, option in options.items():
            # its own, or read by it as well: the playbooks', or another role's
            assert name.startswith((f"{role.name}_", "virt_")) or name in elsewhere(role), name
            if "default" in option:
                assert option["default"] == defaults[name], name
            assert name in defaults or not option.get("default")


@pytest.mark.parametrize("role", ROLES, ids=by_name)
def test_readme_names_every_variable(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    for name in load(role / "defaults" / "main.yml") or {}:
        assert f"`{name}`" in readme or f"`{name}:" in readme, name


@pytest.mark.parametrize("role", ROLES, ids=by_name)
def test_the_readmes_example_is_what_molecule_runs(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    examples = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", readme, re.S)]
    scenario = CHECKOUT / "extensions" / "molecule" / role.name
    run = [load(path) for path in sorted(scenario.glob("*.yml"))]
    assert examples
    assert all(example in run for example in examples)
