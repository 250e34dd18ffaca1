# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A move whose source is lost, settled on its destination, on libvirt's test driver. It knows no
jobs, whose answers are given, and its volumes have no content."""

from __future__ import annotations

import contextlib
import socket
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_definitions as domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_ports as ports
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    MADE,
    Metadata,
    Move,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_lost_source as migration_lost,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    plan as migration_plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.effects_jobs import (
    MigrationJob,
    new_job,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    Destination,
    LostSource,
)

_FEATURES = "ansible_collections.fleet.virt.plugins.module_utils._fleet"
_IS_BLANK = f"{_FEATURES}.storage.effects_remote_volumes.is_blank"
# The test driver knows no jobs
_JOB_OF = f"{_FEATURES}.migration.read.job_of"
_UUID = "6695eb01-f6a4-8304-79aa-97f2502e193f"
_MOVE = Move("hv1", "hv2", "run", "yes", "running")
_PATH = "/default-pool/web1_system.qcow2"
_VOLUMES = tuple(
    OwnVolume("default-pool", "web1_system.qcow2", _PATH, "vda", "disk", made)
    for made in (MADE, BEGUN)
)
_PLAIN = Metadata(request="{}", home="hv1", volumes=_VOLUMES[:1])
_ARRIVED = Metadata(request="{}", home="hv1", phase="migrating", move=_MOVE, volumes=_VOLUMES[:1])
_CLAIM = Metadata(request="{}", phase="creating", move=_MOVE, volumes=_VOLUMES[1:])
_DOMAIN = """
<domain type='test'>
  <name>{name}</name><uuid>{uuid}</uuid><memory>131072</memory><os><type>hvm</type></os>
</domain>
"""


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr(locks, "_ROOTS", tmp_path / "locks")
    # the test driver knows no NVRAM and no checkpoints
    monkeypatch.setattr(domains, "_UNDEFINE", 1 | 2)
    monkeypatch.setattr(_libvirt, "DOMAIN_UNDEFINE_NVRAM", 0)
    node = tmp_path / "node.xml"
    node.write_text(
        "<node><pool type='dir'><name>default-pool</name><target><path>/default-pool</path>"
        "</target></pool></node>"
    )
    with connect(f"test://{node}", 10) as opened:
        yield opened


def define(connection: Connection, name: str, uuid: str, stored: Metadata) -> None:
    connection.conn.defineXML(_DOMAIN.format(name=name, uuid=uuid))
    dom = lookup.find_domain(connection, name)
    lookup.write_metadata(connection, dom, stored, lookup.AFFECT_CONFIG)


def claim(connection: Connection, stored: Metadata = _CLAIM) -> None:
    define(connection, "web1.migration", migration_plan.claim_uuid(_UUID), stored)


def settle(
    connection: Connection, *addresses: str, check: bool = False
) -> tuple[MigrationJob, str | None]:
    """What becomes of the VM, and why it is not settled."""
    job = new_job(
        connection, "web1", "hv2", Destination("hv2", "hv2"), LostSource("hv1", addresses)
    )
    try:
        migration_lost.settle(connection, job, "hv2", LostSource("hv1", addresses), check=check)
    except PlanRefused as error:
        return job, str(error)
    return job, None


def there(connection: Connection) -> list[str]:
    return sorted(dom.name() for dom in connection.conn.listAllDomains())


@pytest.mark.parametrize("claimed", [False, True])
def test_one_that_has_arrived_is_finished(connection: Connection, claimed: bool) -> None:
    define(connection, "web1", _UUID, _ARRIVED)
    if claimed:
        claim(connection)
    predicted, problem = settle(connection, check=True)
    assert problem is None
    dom = lookup.find_domain(connection, "web1")
    assert dom is not None
    stored = lookup.read_metadata(connection, dom)
    assert stored is not None
    assert stored.phase == "migrating"
    done, problem = settle(connection)
    assert problem is None
    assert (done.flow, done.changed, done.steps, done.remark) == (
        *("finish", True),
        *(predicted.steps, predicted.remark),
    )
    assert there(connection) == ["web1"]
    assert dom.autostart()
    assert not dom.isActive(), "nothing is started"
    stored = lookup.read_metadata(connection, dom)
    assert stored is not None
    assert (stored.phase, stored.move, stored.home) == (None, None, "hv1")
    assert stored.volumes[0].made == ("" if claimed else MADE)
    note = str(done.remark)
    assert "it ran before the move and is shut off on hv2 now" in note
    assert "ansible-playbook fleet.virt.state -e vm_name=web1 -e vm_state=running" in note
    assert "hv1, which is declared lost, may still have its old definition" in note
    assert (_PATH in note) == claimed
    again, problem = settle(connection)
    assert (again.flow, again.changed, problem) == ("none", False, None)


def test_a_run_that_ended_after_it_had_defined_the_vm_is_gone_on_with(
    connection: Connection,
) -> None:
    define(connection, "web1", _UUID, _PLAIN)
    claim(connection)
    done, problem = settle(connection)
    assert (done.flow, problem) == ("finish", None)
    assert there(connection) == ["web1"]


def test_one_that_only_runs_is_defined_first(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    dom = connection.conn.createXML(_DOMAIN.format(name="web1", uuid=_UUID), 0)
    lookup.write_metadata(connection, dom, _PLAIN, lookup.AFFECT_LIVE)
    claim(connection)
    monkeypatch.setattr(_JOB_OF, lambda *_given: "unbounded")
    done, problem = settle(connection)
    assert (done.flow, done.changed) == (None, False)
    assert "libvirt on hv2 is still working on 'web1'" in str(problem)
    monkeypatch.setattr(_JOB_OF, lambda *_given: None)
    predicted, problem = settle(connection, check=True)
    assert (predicted.changed, problem, dom.isPersistent()) == (True, None, 0)
    done, problem = settle(connection)
    assert (done.flow, done.steps, problem) == ("finish", predicted.steps, None)
    assert (dom.isPersistent(), dom.isActive(), dom.autostart()) == (1, 1, 1)
    assert there(connection) == ["web1"]
    stored = lookup.read_metadata(connection, dom)
    assert stored is not None
    assert (stored.phase, stored.home, stored.volumes[0].made) == (None, "hv1", "")
    assert settle(connection)[0].changed is False


def test_one_that_waits_for_its_memory_is_left_to_libvirt(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_JOB_OF, lambda *_given: None)
    dom = connection.conn.createXML(_DOMAIN.format(name="web1", uuid=_UUID), 0)
    dom.suspend()
    claim(connection)
    done, problem = settle(connection)
    assert (done.flow, done.changed) == (None, False)
    assert "libvirt on hv2 still waits for the rest of 'web1'" in str(problem)
    assert (dom.isPersistent(), dom.state()[0]) == (0, 3)
    assert there(connection) == ["web1", "web1.migration"]


def test_one_that_was_shut_off_before_is_stopped_and_stays_off(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was started paused for its move."""
    monkeypatch.setattr(_JOB_OF, lambda *_given: None)
    off = Move("hv1", "hv2", "run", "no", "shutoff")
    define(connection, "web1", _UUID, Metadata(request="{}", phase="migrating", move=off))
    dom = lookup.find_domain(connection, "web1")
    assert dom is not None
    dom.create()
    dom.suspend()
    done, problem = settle(connection)
    assert (done.flow, problem) == ("finish", None)
    assert (dom.isActive(), dom.isPersistent(), dom.autostart()) == (0, 1, 0)
    assert "it ran before" not in str(done.remark)


def test_one_that_never_came_is_lost_and_its_place_is_given_up(connection: Connection) -> None:
    claim(connection)
    for check in (True, False):
        done, problem = settle(connection, check=check)
        assert (done.flow, done.changed) == ("lost", True)
        assert "it had not arrived on hv2, so it is lost with hv1" in str(problem)
        assert there(connection) == (["web1.migration"] if check else [])
    _done, problem = settle(connection)
    assert "hv2 no longer has 'web1' or a claim of its move from hv1" in str(problem)


def test_copies_that_hold_something_stay_with_their_claim(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test driver's volumes have no content to read."""
    claim(connection)
    pool = connection.conn.storagePoolLookupByName("default-pool")
    pool.createXML("<volume><name>web1_system.qcow2</name><capacity>1048576</capacity></volume>", 0)
    monkeypatch.setattr(_IS_BLANK, lambda *_given: False)
    for _turn in range(2):
        done, problem = settle(connection)
        assert (done.flow, done.changed) == ("lost", False)
        assert (
            f"stays on hv2 and is not started, as it is unknown whether it is complete: {_PATH}"
            in (str(problem))
        )
        assert there(connection) == ["web1.migration"]
        assert pool.listVolumes() == ["web1_system.qcow2"]
    monkeypatch.setattr(_IS_BLANK, lambda *_given: True)
    assert settle(connection)[0].changed
    assert (there(connection), pool.listVolumes()) == ([], [])


_OTHERS: dict[str, tuple[str, Metadata]] = {
    "another VM": ("6695eb01-f6a4-8304-79aa-97f2502e1930", _PLAIN),
    "another run's": (_UUID, Metadata(request="{}", phase="purging")),
    "in another move": (
        _UUID,
        Metadata(request="{}", phase="migrating", move=Move("hv2", "hv3", "run", "no", "running")),
    ),
}


@pytest.mark.parametrize(("uuid", "stored"), _OTHERS.values(), ids=_OTHERS.keys())
def test_what_is_not_the_vm_of_the_move_is_not_touched(
    connection: Connection, uuid: str, stored: Metadata
) -> None:
    define(connection, "web1", uuid, stored)
    claim(connection)
    done, problem = settle(connection)
    assert (done.flow, done.changed) == (None, False)
    assert "is not the VM whose move from hv1 is unfinished" in str(problem)
    assert there(connection) == ["web1", "web1.migration"]
    assert lookup.read_metadata(connection, lookup.find_domain(connection, "web1")) == stored


def test_a_claim_of_another_move_is_none_of_this_one(connection: Connection) -> None:
    move = Move("hv3", "hv2", "run", "no", "running")
    claim(connection, Metadata(request="{}", phase="creating", move=move))
    _done, problem = settle(connection)
    assert "hv2 no longer has 'web1' or a claim of its move from hv1" in str(problem)
    assert there(connection) == ["web1.migration"]


def test_one_that_answers_is_not_believed_to_be_lost(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(connection, "web1", _UUID, _ARRIVED)
    claim(connection)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.setattr(ports, "PORTS", (server.getsockname()[1],))
        for check in (True, False):
            done, problem = settle(connection, "127.0.0.1", check=check)
            assert (done.flow, done.changed) == (None, False)
            assert "but 127.0.0.1 (port " in str(problem)
            assert "so 'web1' may still be there and nothing was done" in str(problem)
    assert there(connection) == ["web1", "web1.migration"]
    assert settle(connection, "127.0.0.1")[1] is None


def test_nothing_is_asked_of_a_name_that_cannot_be_resolved() -> None:
    given: t.Sequence[str] = ["no-such-host.invalid"]
    assert ports.answering(given) is None
