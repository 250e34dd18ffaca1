# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else may have a VM."""

from __future__ import annotations

import contextlib
import socket
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_ports as ports
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _elsewhere
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._batch import Variables


class _Templar:
    def template(self, value: object) -> object:
        return value


@pytest.mark.parametrize("lost", [["hv2", "hv3"], "hv2,hv3", "hv2, hv3"])
def test_whoever_is_declared_lost_is_not_asked(lost: t.Any) -> None:
    values = {
        "inventory_hostname": "hv1",
        "groups": {"hypervisors": ["hv1", "hv2", "hv3", "hv4"]},
        "virt_hypervisors_lost": lost,
    }
    assert _elsewhere.not_lost(values, Variables(values, _Templar())) == ["hv4"]


def _free_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def _refusal(monkeypatch: pytest.MonkeyPatch, port: int) -> str:
    monkeypatch.setattr(ports, "PORTS", (port,))
    values = {
        "inventory_hostname": "hv1",
        "groups": {"hypervisors": ["hv1", "hv2"]},
        "hostvars": {
            "hv1": {},
            "hv2": {
                "ansible_host": "127.0.0.1",
                "virt_inventory_uri": "test:///no-such-file.xml.orig",
            },
        },
    }
    variables = Variables(values, _Templar())
    with pytest.raises(PlanRefused) as caught:
        _elsewhere.require_absent(["web1"], values, variables, "test:///default", 10.0)
    return str(caught.value)


def test_one_whose_machine_answers_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        text = _refusal(monkeypatch, server.getsockname()[1])
    assert "hv2: cannot connect to libvirt at test:///no-such-file" in text
    assert "hv2 can be reached, so fix the problem reported for it" in text
    assert "virt_hypervisors_lost" not in text


def test_one_that_does_not_answer_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _refusal(monkeypatch, _free_port())
    assert "bring hv2 back; only if permanently gone, name it in virt_hypervisors_lost" in text
