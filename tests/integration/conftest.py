# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One laboratory for all integration tests, Ansible beside it, and what a failure looked like.

Environment: FLEET_VIRT_LAB names a laboratory to use and to leave up, for work on tests.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Iterator

import pytest
from ansible_collections.fleet.virt.tests.integration.support.ansible import SERVERS, Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.notes import FORGET
from ansible_collections.fleet.virt.tests.lab.errors import LabError
from ansible_collections.fleet.virt.tests.lab.host import Host
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# Chance alone decides what it tries: for `make trials`
collect_ignore = [] if "FLEET_VIRT_TRIALS" in os.environ else ["test_setup_killed.py"]
_LINES = 40
_UUID = "grep '^host_uuid' /etc/libvirt/libvirtd.conf || :"
_KEY = pytest.StashKey[tuple[Laboratory, Guests]]()


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    """Two hypervisors: hv1 (Debian 12, reached as root), hv2 (Debian 13, as a user with sudo)."""
    kept = os.environ.get("FLEET_VIRT_LAB")
    laboratory = Laboratory(kept) if kept else Laboratory(f"t{os.getpid()}", os.getpid())
    laboratory.preloaded = True
    laboratory.up(2)
    laboratory.directly = True
    guests = Guests(laboratory)
    request.config.stash[_KEY] = (laboratory, guests)
    yield laboratory
    del request.config.stash[_KEY]
    if kept:
        guests.remove_all()
    else:
        laboratory.down()


def _on_each(request: pytest.FixtureRequest, command: str) -> dict[str, str]:
    """What a command prints on each hypervisor of the shared laboratory, if that is up."""
    if _KEY not in request.config.stash:
        return {}
    laboratory = request.config.stash[_KEY][0]
    return {
        host.name: laboratory.ssh(host.name, command, check=False).stdout
        for host in laboratory.hosts
        if host.state == "running" and not host.bare
    }


@pytest.fixture(scope="module", autouse=True)
def _forgotten(request: pytest.FixtureRequest) -> None:
    """What hypervisors noted of one another goes before each file of tests: a fleet of one of them
    would lack those that are noted, and claims of VMs that were swept away would be told of."""
    _on_each(request, FORGET)


@pytest.fixture(scope="module", autouse=True)
def _same_machines(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of tests that leaves a hypervisor as another machine fails by that itself.

    Otherwise one that comes later does, by an order of files that differs from run to run.
    """
    before = _on_each(request, _UUID)
    yield
    after = _on_each(request, _UUID)
    for host in before.keys() & after.keys():
        assert after[host] == before[host], f"{host} is another machine for libvirt than it was"


@pytest.fixture(scope="session")
def bare_host(lab: Laboratory) -> Iterator[Host]:
    """A host that had nothing but ssh and Python at first, reached as a user with sudo.

    What tests of roles bring to it stays: packages are installed once. It is in group bare.
    """
    kept = [host for host in lab.hosts if host.bare and host.user != "root"]
    host = next((host for host in kept if host.state == "running"), None)
    if host is None:
        host = lab.add(bare=True, suite="bookworm")
    if host.user == "root":
        lab.kill(host.name)
        host = lab.add(bare=True, suite="bookworm")
    yield host
    if "FLEET_VIRT_LAB" not in os.environ:
        lab.kill(host.name)


@pytest.fixture(scope="session")
def all_guests(lab: Laboratory, request: pytest.FixtureRequest) -> Guests:
    """The session's guests: for fixtures that keep theirs over several tests."""
    assert lab is request.config.stash[_KEY][0]
    return request.config.stash[_KEY][1]


@pytest.fixture
def guests(all_guests: Guests) -> Iterator[Guests]:
    """Tiny guests made by virsh; those a test makes are taken away at its end."""
    before = list(all_guests.made)
    yield all_guests
    for host, name in [entry for entry in all_guests.made if entry not in before]:
        all_guests.remove(host, name)


@pytest.fixture(scope="session")
def ansible(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Ansible:
    """Ansible with the laboratory's inventory."""
    return Ansible(lab.inventory, tmp_path_factory.mktemp("ansible"), SERVERS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add libvirt's logs and the guests' consoles to the report of a failure."""
    report = yield
    if report.failed and "lab" in getattr(item, "fixturenames", ()) and _KEY in item.config.stash:
        try:
            for section in _said(*item.config.stash[_KEY]):
                report.sections.append(section)
        except (LabError, subprocess.TimeoutExpired) as error:
            # an error here would end all tests, and say nothing of this one
            report.sections.append(("the laboratory", f"it could not be looked at: {error}"))
    return report


def _said(laboratory: Laboratory, guests: Guests) -> Iterator[tuple[str, str]]:
    """What libvirt and the guests said last, by title."""
    running = [host.name for host in laboratory.hosts if host.state == "running"]
    for name in running:
        yield f"libvirt on {name}", laboratory.logs(name, _LINES)
        for guest in laboratory.ssh(name, "virsh -q list --name", check=False).stdout.split():
            if (name, guest) not in guests.made:  # made by the collection
                yield f"console of {guest} on {name}", laboratory.console(name, guest, _LINES)
    for name, guest in guests.made:
        if name in running:
            yield f"console of {guest} on {name}", guests.told(name, guest, _LINES)
