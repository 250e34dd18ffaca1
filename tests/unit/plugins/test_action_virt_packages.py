# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_packages: what it asks Ansible's own modules for, and what comes of their answers."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible_collections.fleet.virt.plugins.action.virt_packages import ActionModule

SETUP = {
    "ansible_architecture": "x86_64",
    "ansible_distribution": "Debian",
    "ansible_distribution_major_version": "12",
    "ansible_os_family": "Debian",
    "ansible_pkg_mgr": "apt",
}
PLATFORM = {key.removeprefix("ansible_"): value for key, value in SETUP.items()}
# What one hypervisor must not have a say in
GOVERNING = {
    "ansible_stats": 5,
    "add_host": {"host_name": "evil"},
    "add_group": "evil",
    "_ansible_notify": ["evil"],
    "results": [{"failed": True}],
    "include": "evil.yml",
}
PYTHON = {"discovered_interpreter_python": "/usr/bin/python3.11"}
FAILED = {"failed": True, "msg": "E: no mirror."}

Answer = dict[str, t.Any]


class Hypervisor:
    """Answers Ansible's own modules one after the other, and has noted what they were asked."""

    def __init__(self, answers: list[tuple[str, Answer]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Answer]] = []

    def execute(self, _action: t.Any, **options: t.Any) -> Answer:
        name, answer = self.answers.pop(0)
        assert options["module_name"] == f"ansible.builtin.{name}"
        assert options["task_vars"] == {"inventory_hostname": "hv1"}
        self.asked.append((name, options["module_args"]))
        facts = {**answer.get("ansible_facts", {}), "virt_output_file": "/etc/passwd"}
        return {**answer, **GOVERNING, "ansible_facts": {**facts, **PYTHON}, "warnings": [name]}

    def run(self, names: list[str], *, check: bool = False, defaults: t.Any = ()) -> Answer:
        values = {"inventory_hostname": "hv1"}

        class Action(ActionModule):
            def __init__(self) -> None:
                self._values = values
                self._templar = Templar(DataLoader(), variables=values)
                self._task = types.SimpleNamespace(check_mode=check, module_defaults=defaults)

            def options(self, _kind: t.Any, _arguments: t.Any) -> Answer:
                return {"names": names}

        return Action().work(values)


@pytest.fixture
def hypervisor(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Hypervisor]:
    def made(*answers: tuple[str, Answer]) -> Hypervisor:
        found = Hypervisor(list(answers))
        monkeypatch.setattr(
            ActionBase,
            "_execute_module",
            lambda self, *_, **options: found.execute(self, **options),
        )
        return found

    return made


def _setup(**facts: t.Any) -> tuple[str, Answer]:
    return "setup", {"ansible_facts": {**SETUP, **facts}}


def _installed(*names: str) -> tuple[str, Answer]:
    return "package_facts", {"ansible_facts": {"packages": {name: [] for name in names}}}


def test_what_machine_it_is_and_nothing_else(hypervisor: t.Any) -> None:
    assert hypervisor(_setup()).run([]) == {
        "changed": False,
        "platform": PLATFORM,
        "ansible_facts": PYTHON,
        "warnings": ["setup"],
    }


def test_nothing_is_missing(hypervisor: t.Any) -> None:
    there = hypervisor(_installed("acl", "bash"))
    found = there.run(["bash"])
    assert (found["changed"], found["missing"]) == (False, [])
    assert there.answers == []


def test_check_mode_installs_nothing(hypervisor: t.Any) -> None:
    found = hypervisor(_installed("bash")).run(["bash", "zsh", "acl"], check=True)
    assert (found["changed"], found["missing"]) == (True, ["acl", "zsh"])


def test_what_is_missing_is_installed_by_the_package_manager(hypervisor: t.Any) -> None:
    there = hypervisor(_installed("bash"), _setup(), ("apt", {"changed": True}))
    defaults = [
        {"ansible.builtin.apt": {"default_release": "stable"}},
        {"ansible.builtin.apt": {"name": "evil", "install_recommends": True}},
        {"ansible.builtin.dnf": {"best": True}},
    ]
    found = there.run(["bash", "zsh"], defaults=defaults)
    assert found == {
        "changed": True,
        "missing": ["zsh"],
        "ansible_facts": PYTHON,
        "warnings": ["package_facts", "setup", "apt"],
    }
    assert there.asked[-1][1] == {
        "name": ["zsh"],
        "state": "present",
        "update_cache": True,
        "install_recommends": False,
        "lock_timeout": 300,
        "update_cache_retries": 1,
        "default_release": "stable",
    }


def test_with_dnf(hypervisor: t.Any) -> None:
    failed = {"failed": True, "msg": "Failed to install", "failures": ["No package zsh"]}
    there = hypervisor(_installed(), _setup(ansible_pkg_mgr="dnf"), ("dnf", failed))
    found = there.run(["zsh"])
    assert found["failed"]
    assert found["msg"] == (
        "hv1: cannot install zsh: Failed to install No package zsh. Ensure that it can reach its"
        " package mirror, or install them yourself, and run it again"
    )


def test_an_interrupted_installation_is_finished_first(hypervisor: t.Any) -> None:
    there = hypervisor(
        _installed(),
        _setup(),
        ("apt", FAILED),
        ("command", {"stdout": "half-installed"}),
        ("command", {"stdout": ""}),
        ("apt", {"changed": True}),
    )
    assert there.run(["zsh"])["changed"]
    assert [entry["argv"][1] for name, entry in there.asked if name == "command"] == [
        "--audit",
        "--force-confdef",
    ]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([("command", {"stdout": ""})], "hv1: cannot install zsh: E: no mirror. Ensure"),
        ([("command", FAILED)], "hv1: cannot install zsh: E: no mirror. Ensure"),
        (
            [("command", {"stdout": "x"}), ("command", {**FAILED, "stderr": "dpkg: no space"})],
            "hv1: a package installation was interrupted, and 'dpkg --configure --pending' cannot"
            " finish it: dpkg: no space",
        ),
        (
            [("command", {"stdout": "x"}), ("command", {}), ("apt", FAILED)],
            "hv1: cannot install zsh: E: no mirror. Ensure",
        ),
    ],
)
def test_what_cannot_be_installed(
    hypervisor: t.Any, answers: list[tuple[str, Answer]], said: str
) -> None:
    found = hypervisor(_installed(), _setup(), ("apt", FAILED), *answers).run(["zsh"])
    assert found["failed"]
    assert found["msg"].startswith(said)
    assert set(found) == {"failed", "msg", "ansible_facts", "warnings"}


@pytest.mark.parametrize(
    ("names", "answers", "said"),
    [
        ([], [("setup", FAILED)], "hv1: ansible.builtin.setup failed: E: no mirror"),
        ([], [("setup", {})], "hv1: its answer is not what ansible.builtin.setup returns"),
        (["a"], [("package_facts", {})], "not what ansible.builtin.package_facts returns"),
        (["a"], [_installed(), ("setup", {})], "not what ansible.builtin.setup returns"),
        (["a"], [_installed(), _setup(ansible_pkg_mgr="apk")], "its package manager is 'apk'"),
    ],
)
def test_who_does_not_say_it(
    hypervisor: t.Any, names: list[str], answers: list[tuple[str, Answer]], said: str
) -> None:
    found = hypervisor(*answers).run(names)
    assert found["failed"]
    assert said in found["msg"]
