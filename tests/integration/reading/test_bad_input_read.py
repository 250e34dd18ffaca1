# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input that is wrong and hypervisors that are: every message names value, rule and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

READERS = ["virt_query", "virt_host_info"]
_PYTHON = "/usr/lib/python3/dist-packages"


@contextmanager
def _changed(lab: Laboratory, host: str, change: str, undo: str) -> Iterator[None]:
    """A host with something wrong, for a while."""
    try:
        lab.ssh(host, change)
        yield
    finally:
        lab.ssh(host, undo)


def _failure(answer: dict[str, Any], *words: str) -> str:
    assert answer["failed"], answer
    assert not answer["unreachable"], answer
    message = str(answer["msg"])
    for word in words:
        assert word in message, f"{word!r} is not in {message!r}"
    return message


# What is asked of hv1 (one play, to save time), and what each answer must say.
_TCP = "qemu+tcp://127.0.0.1:1/system"
_WRONG: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "no such name": (
        "virt_query",
        {"names": ["nope", "never"]},
        ("names: no domain 'nope' on this hypervisor", "names: no domain 'never'", "there are: "),
    ),
    "timeout 0": ("virt_query", {"timeout": 0}, ("timeout: 0", "above 0")),
    "timeout -1": ("virt_host_info", {"timeout": -1}, ("timeout: -1", "above 0")),
    "timeout soon": ("virt_query", {"timeout": "soon"}, ("'timeout'", "float")),
    "no such option": ("virt_query", {"naems": ["x"]}, ("naems", "Supported parameters include")),
    "names no list": ("virt_query", {"names": {"a": 1}}, ("names",)),
}
for _module in READERS:
    for _uri, *_words in (
        (_TCP, "Connection refused", "is libvirtd running there and listening?"),
        ("test:///no/such/file", "/no/such/file"),
        ("nonsense", "nonsense"),
    ):
        _expected = (f"cannot connect to libvirt at {_uri}: ", *_words)
        _WRONG[f"{_module} {_uri}"] = (_module, {"uri": _uri}, _expected)


def _ask(ansible: Ansible, tasks: dict[str, tuple[str, dict[str, Any]]], **play: Any) -> Any:
    """Results by label of these modules on hv1, in one play."""
    steps = [
        {"name": label, f"fleet.virt.{module}": args, "ignore_errors": True}
        for label, (module, args) in tasks.items()
    ]
    events = ansible.play(steps, "hv1", **{"become": True, **play}).events
    return {
        event.task: {
            "failed": event.status == "failed",
            "unreachable": event.status == "unreachable",
            **event.result,
        }
        for event in events
    }


_BOTH = {module: (module, {}) for module in READERS}


@pytest.fixture(scope="module")
def wrong(ansible: Ansible) -> dict[str, dict[str, Any]]:
    """The answers to all of _WRONG."""
    tasks = {label: (module, args) for label, (module, args, _) in _WRONG.items()}
    return _ask(ansible, tasks)  # type: ignore[no-any-return]


@pytest.mark.parametrize("label", _WRONG)
def test_wrong_input(wrong: dict[str, dict[str, Any]], label: str) -> None:
    """The message names the value, the rule or libvirt's reason, and what to do."""
    _failure(wrong[label], *_WRONG[label][2])
    if "cannot connect" in wrong[label]["msg"]:
        assert wrong[label]["error"] == "HostUnreachable"


def test_each_unknown_name_is_a_problem_of_its_own(wrong: dict[str, dict[str, Any]]) -> None:
    """Problems are data as well, with their paths."""
    problems = wrong["no such name"]["problems"]
    assert [problem["path"] for problem in problems] == ["names", "names"]


def test_a_uri_that_never_answers(ansible: Ansible, lab: Laboratory) -> None:
    """Somebody who accepts the connection and says nothing costs the time limit."""
    mute = (
        "systemd-run -q --unit=test-mute python3 -c "
        "'import socket, time; s = socket.create_server((\"127.0.0.1\", 16509)); time.sleep(600)'"
        " && for try in $(seq 50); do ss -ltn | grep -q :16509 && break; sleep 0.1; done"
    )
    with _changed(lab, "hv1", mute, "systemctl stop test-mute"):
        args = {"uri": "qemu+tcp://127.0.0.1/system", "timeout": 2}
        answer = ansible.module("hv1", "virt_query", args, limit=60)["hv1"]
    _failure(answer, "cannot connect to libvirt", "no answer within 2 seconds")


def test_libvirtd_stopped(ansible: Ansible, lab: Laboratory) -> None:
    """Says that it is not running, and how to look."""
    units = "libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket"
    stop = f"systemctl stop {units} libvirtd.service"
    with _changed(lab, "hv1", stop, f"systemctl start {units}"):
        answers = _ask(ansible, _BOTH)
    for module in READERS:
        words = ("qemu:///system", "is libvirtd running there?", "systemctl status libvirtd")
        _failure(answers[module], *words)


def test_permission_denied(ansible: Ansible) -> None:
    """A user without rights is told what to become, or which group to enter."""
    answers = _ask(ansible, _BOTH, become_user="nobody")
    for module in READERS:
        words = ("run as root there (become), or add the user to the group libvirt",)
        _failure(answers[module], "qemu:///system", *words)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["libvirt.py"], ("not installed: libvirt;", "apt-get install python3-libvirt")),
        (["lxml"], ("not installed: lxml;", "apt-get install python3-lxml")),
        (
            ["libvirt.py", "lxml"],
            ("not installed: libvirt, lxml;", "apt-get install python3-libvirt python3-lxml"),
        ),
    ],
)
def test_missing_libraries(
    ansible: Ansible, lab: Laboratory, files: list[str], words: tuple[str, ...]
) -> None:
    """What is not installed is named with this distribution's package, and the Python asked."""
    hide = "; ".join(f"mv {_PYTHON}/{name} /root/hidden-{name}" for name in files)
    show = "; ".join(f"mv /root/hidden-{name} {_PYTHON}/{name}" for name in files)
    own = {"ansible_python_interpreter": "/usr/bin/python3"}  # no fork of one that has them
    with _changed(lab, "hv1", hide, show):
        answers = _ask(ansible, _BOTH, vars=own)
    for module in READERS:
        _failure(answers[module], *words, "/usr/bin/python3")


def test_another_python_without_the_library(ansible: Ansible, lab: Laboratory) -> None:
    """Under an interpreter of its own the module finds the distribution's, which has it."""
    # a virtual environment's start script, as it would be without python3-venv
    make = (
        "mkdir -p /srv/alone/bin && ln -s /usr/bin/python3 /srv/alone/bin/python3 && "
        "printf "
        "'home = /usr/bin\\ninclude-system-site-packages = false\\n' "
        "> /srv/alone/pyvenv.cfg && "
        "! /srv/alone/bin/python3 -c 'import libvirt' 2>/dev/null"
    )
    with _changed(lab, "hv1", make, "rm -r /srv/alone"):
        extra = {"ansible_python_interpreter": "/srv/alone/bin/python3"}
        answer = ansible.module("hv1", "virt_query", extra=extra)["hv1"]
    assert not answer["failed"], answer


def test_session_of_a_user(ansible: Ansible, lab: Laboratory) -> None:
    """A user without any right reads its own hypervisor: domains, disks, networks, the host."""
    define = (
        'printf \'<domain type="qemu"><name>own</name><memory>65536</memory>'
        '<os><type arch="x86_64">hvm</type></os></domain>\' > /tmp/own.xml && '
        "virsh -q -c qemu:///session define /tmp/own.xml"
    )
    session = {"uri": "qemu:///session"}
    try:
        lab.ssh("hv2", define, user_root=False)
        answer = ansible.module("hv2", "virt_query", session, become=False)["hv2"]
        assert [(one["name"], one["state"]) for one in answer["domains"]] == [("own", "shutoff")]
        host = ansible.module("hv2", "virt_host_info", session, become=False)["hv2"]["host"]
        assert host["uri"] == "qemu:///session"
        assert host["domains"]["shutoff"] == 1
    finally:
        lab.ssh("hv2", "virsh -q -c qemu:///session undefine own", check=False, user_root=False)


def test_libvirts_test_driver_on_localhost(ansible: Ansible) -> None:
    """Reading needs no hypervisor at all: the binding's own test driver answers."""
    options = {"inventory": "localhost,", "become": False}
    extra = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    args = {"uri": "test:///default"}
    answer = ansible.module("localhost", "virt_query", args, extra=extra, **options)["localhost"]
    assert [(one["name"], one["state"]) for one in answer["domains"]] == [("test", "running")]
    answer = ansible.module("localhost", "virt_host_info", args, extra=extra, **options)
    host = answer["localhost"]["host"]
    assert host["domains"]["running"] == 1
    assert host["memory_mib"]["free"] is None
