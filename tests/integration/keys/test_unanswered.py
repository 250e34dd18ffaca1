# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor of the play that gives no answer: the others get theirs, and the run fails."""

from __future__ import annotations

from .conftest import Keys

# A kept connection takes half a minute to be found broken
_QUICK = {"ANSIBLE_TIMEOUT": "3", "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none"}


def test_a_run_that_did_not_reach_all_fails_after_its_work(keys: Keys) -> None:
    """The first host of the play, where its tasks for the controller run."""
    keys.lab.cut("hv1")
    try:
        run = keys.run(environment=_QUICK, libvirt_keys_renew=True)
    finally:
        keys.lab.heal("hv1")
    assert run.returncode == 2, str(run)
    assert "hv1 gave no answer (" in run.stdout, str(run)
    assert "it lacks the new keys and certificates and the current CRL" in run.stdout
    assert "bring hv1 back; only if permanently gone" in run.stdout
    assert "hv2 gave no answer" not in run.stdout
    assert {one.host for one in run.events if one.result.get("issued")} == {"hv2"}
    run = keys.run(libvirt_keys_renew=True).succeeded()
    assert "hv1" in {one.host for one in run.events if one.result.get("issued")}
    keys.assert_all_connect()


def test_check_mode_fails_too_unless_the_hypervisor_is_declared_lost(keys: Keys) -> None:
    keys.lab.cut("hv2")
    try:
        run = keys.run(check=True, environment=_QUICK)
        lost = keys.run(check=True, environment=_QUICK, virt_hypervisors_lost="hv2")
    finally:
        keys.lab.heal("hv2")
    assert run.returncode == 2, str(run)
    assert "hv2 gave no answer (" in run.stdout, str(run)
    assert "it lacks new certificates, if any are due, and the current CRL" in run.stdout
    lost.succeeded()
