# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor that falls silent in the middle of a move, with Ansible's default ssh arguments."""

from __future__ import annotations

import time

from ansible_collections.fleet.virt.tests.integration.support.ansible import (
    PLAIN_SSH_ARGS,
    SSH_ARGS,
)
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import Movers, elapsed

_NAME = "mute"
_LIMIT = 75.0  # seconds; ssh gives the connection up after 30 to 40
_PORTS = (
    "cat /run/fleet-virt/migrate-*.ports"  # of the move's own connection, noted once it is open
)


def test_a_source_that_falls_silent_does_not_hold_the_play(movers: Movers) -> None:
    movers.make(_NAME)
    movers.ansible.ssh_args = PLAIN_SSH_ARGS
    try:
        # a connection that is kept and does not notice that the other end is gone
        assert not movers.ansible.module("hv1", "ansible.builtin.ping")["hv1"]["unreachable"]
        words = ("-e", f"vm_name={_NAME}", "-e", "virt_bandwidth=2")
        play = movers.ansible.begin("ansible-playbook", "fleet.virt.migrate_vm", *words, heard=True)

        def ports() -> list[str]:
            return movers.lab.ssh("hv1", _PORTS, check=False).stdout.split()

        wait_for(lambda: ports() or play.poll() is not None, 60, "the move begins")
        assert len(ports()) == 1, "the move's own connection is known"
        movers.lab.cut("hv1")
        began = time.monotonic()
        try:
            said = play.communicate(timeout=300)[0]
        finally:
            movers.lab.heal("hv1")
        seconds = time.monotonic() - began
        print(f"the play ended {elapsed(began)} after the cable was cut")
        assert play.returncode != 0, said
        assert seconds < _LIMIT, said
        assert f"{_NAME} on hv1: " in said, "it says of which VM it does not know"
    finally:
        movers.ansible.ssh_args = SSH_ARGS
    wait_for(
        lambda: not movers.ansible.module("hv1", "ansible.builtin.ping")["hv1"]["unreachable"],
        60,
        "hv1 again",
    )
    movers.playbook(vm_name=_NAME).succeeded()
    assert movers.state("hv2", _NAME) == "running"
    movers.clean("hv1", _NAME)
