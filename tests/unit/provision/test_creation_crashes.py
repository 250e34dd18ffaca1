# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs, killed or failing at each of its effects, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import functools
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    MADE,
    NOT_MADE,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease as lease
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_verb as verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import Step
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_base_images import (
    BaseImage,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import (
    effects_creation as creation,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
    CreationJob,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.plan_creation import (
    EMPTY,
    FILLED,
    ClaimName,
    ClearLeft,
    CreationFacts,
    Take,
    UndefineLeft,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    effects_nocloud as seed_nocloud,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import pool_xml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import (
    BaseName,
    Digest,
)
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines, living, plain

_IMAGE = b"a small system" * 100
_RUN = "11111111-1111-4111-8111-111111111111"
_NEXT_RUN = "22222222-2222-4222-8222-222222222222"
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
_THIRD_RUN = "33333333-3333-4333-8333-333333333333"
_SEED = {"user": "admin", "ssh_public_keys": [_KEY], "method": "nocloud"}
_FILES = {"_system.raw", "_data.raw", "_seed.iso"}


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Hypervisors on which media can be made, whatever is installed here."""

    def make(_seed: t.Any, name: str, uuid: str, _nics: t.Any) -> seed_nocloud.Medium:
        return seed_nocloud.Medium(f"seed of {name}, {uuid}".encode() * 10, "ssh-ed25519 AAAA")

    monkeypatch.setattr(seed_nocloud, "make", make)
    monkeypatch.setattr(seed_nocloud, "require_programs", lambda: None)
    (tmp_path / "base.raw").write_bytes(_IMAGE)
    return Machines(tmp_path, monkeypatch)


def _domains(*names: str, **more: t.Any) -> list[Domain]:
    vms = [
        {
            "name": name,
            "image": "small.raw",
            "memory": "128M",
            "nics": [{"name": "eth0", "network": "lan"}],
            "autostart": True,
            "seed": _SEED,
            "disks": [
                {"name": "system", "format": "raw", "overlay": False, "size": "1M"},
                {"name": "data", "format": "raw", "size": "2M"},
            ],
            **more,
        }
        for name in names
    ]
    domains, problems = many(vms, defaults=Defaults())
    assert problems == []
    return [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]


def _create(
    connection: Connection,
    domains: t.Sequence[Domain],
    run: str,
    root: Path,
    stage: str = "all",
    *,
    check: bool = False,
) -> dict[str, t.Any]:
    """As virt_init does, with an image that is here already."""
    path = str(root.parent / "base.raw")
    name = BaseName(Digest("d" * 64), "small", "raw")
    settings = BatchSettings(
        run=run,
        home="hv1",
        pool_paths={},
        base_pool="base",
        images={"small.raw": BaseImage(name, "raw", path, 1400)},
        facts={"small.raw": ImageFacts("small.raw", name.digest, "raw", 1400)},
        machine="pc",
        observe=0.0,
    )
    done = init.run(connection, domains, settings, stage=stage, check=check)
    return t.cast("dict[str, t.Any]", done)


def _faults(machine: Machine, *names: str) -> list[str]:
    """Whether the VMs are what they are to be, and nothing else is there."""
    found = machine.faults()
    domains = machine.domains()
    if sorted(domains) != sorted(names):
        found.append(f"there are {sorted(domains)}")
    wanted = {f"{name}{ending}" for name in names for ending in _FILES}
    if machine.files().keys() != wanted or machine.volumes().keys() != wanted:
        found.append(f"files {sorted(machine.files())}, volumes {sorted(machine.volumes())}")
        return found
    for name in names:
        kept = machine.stored(name)
        if kept is None or kept.phase is not None or kept.owner is not None:
            found.append(f"{name} is not released: {kept}")
        elif not all(one.made for one in kept.volumes) or kept.host_key != "ssh-ed25519 AAAA":
            found.append(f"{name}: not noted what was made: {kept}")
        if name in domains and domains[name].state(0)[0] != 1:
            found.append(f"{name} does not run")
        if name in domains and not domains[name].autostart():
            found.append(f"{name} does not start at boot")
        uuid = domains[name].UUIDString() if name in domains else ""
        if uuid.encode() not in machine.files()[f"{name}_seed.iso"]:
            found.append(f"the seed of {name} is another VM's")
        if not machine.files()[f"{name}_system.raw"].startswith(_IMAGE[:64]):
            found.append(f"the disk of {name} is not a copy of its image")
    return found


def _definitions(machine: Machine, *names: str) -> list[dict[str, str]]:
    """The VMs' definitions, without what is another's folder or number."""
    texts = [machine.connection.conn.lookupByName(name).XMLDesc(2) for name in names]
    return [plain(text.replace(str(machine.root), "")) for text in texts]


@pytest.mark.parametrize("names", [("web1",), ("web1", "web2")])
def test_a_killed_creation_is_finished_by_the_next(
    machines: Machines, names: tuple[str, ...]
) -> None:
    domains = _domains(*names)
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
        result = machine.call(create)
        assert result is not None
        assert result.get("msg") is None
        assert _faults(machine, *names) == []
        wanted, effects = _definitions(machine, *names), len(machine.effects.done)
    assert effects > 15 * len(names)
    # of two, what is between them: each by itself is the first case
    for number in range(1, effects + 1, 4 * len(names) - 3):
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, root=machine.root)
            assert machine.call(functools.partial(create, run=_RUN), kill_at=number) is None
            where = f"killed before {machine.effects.done[-1]!r} ({number})"
            assert machine.faults() == [], where
            result = machine.call(functools.partial(create, run=_NEXT_RUN))
            assert result is not None
            assert result.get("msg") is None, (where, result["msg"])
            assert _faults(machine, *names) == [], where
            assert _definitions(machine, *names) == wanted, where
            again = machine.call(functools.partial(create, run=_NEXT_RUN))
            assert again is not None
            assert not again["changed"], where
            assert machine.effects.done == [], where


def _stage(made: str) -> str:
    return made if made in (NOT_MADE, BEGUN) else MADE


def _comparable(facts: CreationFacts) -> dict[str, t.Any]:
    """What a plan says of the VM, without what only the run can know."""
    stored = facts.stored
    return {
        "there": facts.uuid is not None,
        "phase": stored and stored.phase,
        "owner": stored and stored.owner and stored.owner.run,
        "volumes": {one.path: _stage(one.made) for one in stored.volumes} if stored else {},
        "startable": facts.startable,
        "autostart": facts.autostart,
        "state": facts.state,
        "files": dict(facts.files),
    }


def _found(machine: Machine, name: str) -> dict[str, t.Any]:
    """The same as it is, read by other means than the product's."""
    dom = machine.domains().get(name)
    files = {
        str(path): FILLED if path.read_bytes().strip(b"\0") else EMPTY
        for path in machine.pool.glob(f"{name}_*")
    }
    if dom is None:
        return _comparable(CreationFacts(name, files=files))
    return _comparable(
        CreationFacts(
            name,
            dom.UUIDString(),
            machine.stored(name),
            startable="startupPolicy='mandatory'" not in dom.XMLDesc(2),
            autostart=bool(dom.autostart()),
            state={1: "running", 3: "paused"}.get(dom.state(0)[0]),
            files=files,
        )
    )


@pytest.mark.parametrize("killed", ["", "set autostart of web1", "resume web1"])
def test_each_step_leads_where_the_plan_says(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    domains = _domains("web1", "web2")
    real, kinds = verb._Steps.do, []
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, root=machine.root)
        if killed:
            with machines.new() as other:
                other.call(functools.partial(_create, domains=domains, run=_RUN, root=other.root))
                number = other.effects.done.index(killed) + 1
            machine.call(functools.partial(create, run=_RUN), kill_at=number)
        predicted: dict[str, CreationFacts] = {}

        def do(work: verb._Steps[CreationJob], step: Step[CreationFacts]) -> t.Iterator[None]:
            facts, name = work.work.facts, work.work.name
            if name not in predicted:
                found = _found(machine, name)
                keys = ("files", "startable", "autostart", "state")
                known = {key: found[key] for key in keys}
                predicted[name] = dataclasses.replace(facts, **known)
            yield from real(work, step)
            predicted[name] = step.effect(predicted[name])
            assert _found(machine, name) == _comparable(predicted[name]), step
            kinds.append(type(step.action))

        with monkeypatch.context() as patch:
            patch.setattr(verb._Steps, "do", do)
            result = machine.call(functools.partial(create, run=_NEXT_RUN))
        assert result is not None
        assert result.get("msg") is None
        assert _faults(machine, "web1", "web2") == []
        assert predicted.keys() == {"web1", "web2"}
    if not killed:
        assert set(kinds) == creation._ACTIONS.ways.keys() - {Take, ClearLeft, UndefineLeft}
    else:
        resumed = killed.startswith("resume")
        assert (ClearLeft in kinds, ClaimName in kinds) == (not resumed, not resumed)


def test_check_mode_is_the_same_plan(machines: Machines) -> None:
    domains = _domains("web1")
    for kill_at in (0, 1, 5, 14):
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, root=machine.root)
            if kill_at:
                machine.call(functools.partial(create, run=_RUN), kill_at=kill_at)
            predicted = machine.call(functools.partial(create, run=_NEXT_RUN, check=True))
            assert machine.effects.done == []
            done = machine.call(functools.partial(create, run=_NEXT_RUN))
            assert predicted is not None
            assert done is not None
            for result in (predicted, done):
                assert result["changed"]
                assert not result["vms"][0]["failed"]
            assert predicted["vms"][0]["steps"] == done["vms"][0]["steps"] != []
            again = machine.call(functools.partial(create, run=_NEXT_RUN, check=True))
            assert again is not None
            assert not again["changed"]


def test_a_creation_that_fails_leaves_nothing(machines: Machines) -> None:
    domains = _domains("web1")
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
        machine.call(create)
        effects = len(machine.effects.done)
    for number in range(1, effects + 1):
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
            result = machine.call(create, fail_at=number)
            assert result is not None
            where = f"{machine.effects.failed!r} ({number}) failed"
            assert result["failed"], where
            assert "it fails here" in result["msg"], where
            if number < effects:  # the last only tells the running VM that it is whole
                assert machine.domains() == {}, where
            assert machine.faults() == [], where
            result = machine.call(create)
            assert result is not None
            assert result.get("msg") is None, (where, result["msg"])
            assert _faults(machine, "web1") == [], where


def test_one_that_fails_takes_no_other_with_it(machines: Machines) -> None:
    domains = _domains("web1", "web2")
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
        machine.call(create)
        made = machine.effects.done.index("create volume web1_data.raw") + 1
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
        result = machine.call(create, fail_at=made)
        assert result is not None
        assert [one["failed"] for one in result["vms"]] == [True, False]
        assert _faults(machine, "web2") == []


def test_claims_of_a_dead_run_are_made_by_the_next(machines: Machines) -> None:
    """Claimed by one call and finished by another, as for a batch on several hypervisors."""
    domains = _domains("web1")
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
        claimed = machine.call(functools.partial(create, stage="claim"))
        made = machine.call(functools.partial(create, stage="finish"))
        assert claimed is not None
        assert made is not None
        assert claimed["vms"][0]["steps"] == made["vms"][0]["steps"]
        assert _faults(machine, "web1") == []
        effects = len(machine.effects.done)
    for number in (0, *range(1, effects + 1, 3)):
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, root=machine.root)
            machine.call(functools.partial(create, run=_RUN, stage="claim"))
            assert machine.files() == {}
            if number:
                finish = functools.partial(create, run=_RUN, stage="finish")
                machine.call(finish, kill_at=number)
            result = machine.call(functools.partial(create, run=_NEXT_RUN))
            assert result is not None
            assert result.get("msg") is None
            assert _faults(machine, "web1") == []


def test_a_claim_of_the_living_is_left_alone(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PATIENCE", 0.3)
    domains = _domains("web1")
    with machines.new() as machine, living() as number:
        create = functools.partial(_create, domains=domains, root=machine.root)
        machine.call(functools.partial(create, run=_RUN), kill_at=8)
        kept = machine.stored("web1")
        assert kept is not None
        assert machine.files()
        dom = machine.domains()["web1"]
        at_work = dataclasses.replace(kept, owner=owner.of(number, _RUN))
        creation.definition.write_metadata(
            t.cast("t.Any", machine), dom, at_work, creation.definition.AFFECT_CONFIG
        )
        before = machine.files(), machine.connection.conn.lookupByName("web1").XMLDesc(2)
        result = machine.call(functools.partial(create, run=_NEXT_RUN))
        assert result is not None
        assert f"is being created by process {number} (sleep, since 2" in result["msg"]
        assert f"kill -9 {number}" in result["msg"]
        after = machine.files(), machine.connection.conn.lookupByName("web1").XMLDesc(2)
        assert after == before
        assert machine.effects.done == []
        # nor does another run finish it in its name
        result = machine.call(functools.partial(create, run=_NEXT_RUN, stage="finish"))
        assert machine.connection.conn.lookupByName("web1").XMLDesc(2) == before[1]


@pytest.mark.parametrize("ends", ["well", "dead"])
def test_a_living_run_is_waited_for_and_what_it_left_is_looked_at_again(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    domains = _domains("web1", "web2")
    with machines.new() as machine, living() as number:
        create = functools.partial(_create, domains=domains, root=machine.root)
        machine.call(functools.partial(create, run=_RUN), kill_at=0 if ends == "well" else 8)
        kept = machine.stored("web1")
        assert kept is not None
        dom = machine.domains()["web1"]
        phase = "starting" if ends == "well" else "creating"
        at_work = dataclasses.replace(kept, phase=phase, owner=owner.of(number, _RUN))
        lookup.write_metadata(machine.connection, dom, at_work, lookup.AFFECT_CONFIG)
        turns = []

        def sleep(seconds: float) -> None:
            turns.append(seconds)
            if len(turns) == 3:
                lookup.write_metadata(machine.connection, dom, kept, lookup.AFFECT_CONFIG)

        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", sleep)
            result = machine.call(functools.partial(create, run=_NEXT_RUN))
        assert result is not None
        assert result.get("msg") is None
        assert len(turns) == 3
        assert result["changed"] == (ends == "dead")
        assert _faults(machine, "web1", "web2") == []


def test_a_run_that_was_faster_with_a_dead_claim_is_left_alone(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw that its owner is dead; the other has it by now, so this one tries again later."""
    domains, real = _domains("web1"), lease.take_over
    with machines.new() as machine, living() as number:
        create = functools.partial(_create, domains=domains, root=machine.root)
        machine.call(functools.partial(create, run=_RUN), kill_at=8)
        before = machine.files()

        def take_over(connection: Connection, dom: t.Any, *given: t.Any) -> t.Any:
            kept = machine.stored("web1")
            assert kept is not None
            other = dataclasses.replace(kept, owner=owner.of(number, _THIRD_RUN))
            lookup.write_metadata(connection, dom, other, lookup.AFFECT_CONFIG)
            return real(connection, dom, *given)

        monkeypatch.setattr(lease, "take_over", take_over)
        result = machine.call(functools.partial(create, run=_NEXT_RUN))
        assert result is not None
        assert "another run is at work on 'web1'" in result["msg"]
        assert result["vms"][0]["refused"]
        assert machine.files() == before
        kept = machine.stored("web1")
        assert kept is not None
        assert (kept.phase, kept.owner) == ("creating", owner.of(number, _THIRD_RUN))


def test_what_came_under_the_name_of_a_volume_stays(machines: Machines) -> None:
    """Killed before anything was made there; then somebody put a file of that name."""
    domains = _domains("web1")
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, root=machine.root)
        machine.call(functools.partial(create, run=_RUN))
        made = machine.effects.done.index("create volume web1_system.raw") + 1
    for kill_at in (made - 1, made, made + 2):
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, root=machine.root)
            machine.call(functools.partial(create, run=_RUN), kill_at=kill_at)
            theirs = machine.pool / "web1_data.raw"
            theirs.write_bytes(b"an administrator's")
            result = machine.call(functools.partial(create, run=_NEXT_RUN))
            assert result is not None
            assert result["failed"]
            assert theirs.read_bytes() == b"an administrator's"


def test_cleaning_up_after_a_dead_run_may_be_killed_too(machines: Machines) -> None:
    domains = _domains("web1")
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, root=machine.root)
        machine.call(functools.partial(create, run=_RUN))
        made = machine.effects.done.index("set autostart of web1") + 1
    number = 0
    while True:
        number += 1
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, root=machine.root)
            machine.call(functools.partial(create, run=_RUN), kill_at=made)
            assert len(machine.files()) == 3
            machine.call(functools.partial(create, run=_NEXT_RUN), kill_at=number)
            step = machine.effects.done[-1]
            if step.startswith("define"):  # it is all gone, and begins anew
                break
            where = f"killed before {step!r} ({number})"
            assert machine.faults() == [], where
            result = machine.call(functools.partial(create, run=_THIRD_RUN))
            assert result is not None
            assert result.get("msg") is None, (where, result["msg"])
            assert _faults(machine, "web1") == [], where
    assert number >= 5


def test_a_run_takes_back_its_own_claims_only(machines: Machines) -> None:
    domains = _domains("web1")
    with machines.new() as machine:
        create = functools.partial(_create, domains=domains, run=_RUN, root=machine.root)
        machine.call(functools.partial(create, stage="claim"))
        names = ["web1", "theirs", "nowhere"]
        assert machine.call(lambda this: creation.withdraw(this, names, _NEXT_RUN)) == []
        assert list(machine.domains()) == ["web1"]
        assert machine.call(lambda this: creation.withdraw(this, names, _RUN)) == ["web1"]
        assert machine.domains() == {}
        assert machine.faults() == []


def test_a_creation_that_was_begun_is_no_claim_any_more(machines: Machines) -> None:
    """A killed module looks to its controller like one that only claimed, and so does one that the
    controller has lost: what it created would be nobody's without the definition."""
    domains = _domains("web1")
    number = found = 0
    while True:
        number += 1
        with machines.new() as machine:
            create = functools.partial(_create, domains=domains, root=machine.root)
            machine.call(functools.partial(create, run=_RUN, stage="claim"))
            finish = functools.partial(create, run=_RUN, stage="finish")
            if machine.call(finish, kill_at=number) is not None:
                break  # it was done before
            files = machine.files()
            found += bool(files)
            withdrawn = machine.call(lambda this: creation.withdraw(this, ["web1"], _RUN))
            assert withdrawn == [] or not files, machine.effects.done[-1]
            result = machine.call(functools.partial(create, run=_NEXT_RUN))
            assert result is not None
            assert result.get("msg") is None, (machine.effects.done[-1], result["msg"])
            assert _faults(machine, "web1") == [], machine.effects.done[-1]
    assert found >= 3


def test_creation_that_rolling_work_overtakes_starts_nothing_and_is_undone(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan knew of no maintenance; the making of the disks took a while."""
    with machines.new() as machine:
        pool = machine.connection.conn.storagePoolDefineXML(
            pool_xml.render("fleet-notes", str(machine.root)), 0
        )
        pool.create(0)
        make = creation.volumes.seed

        def overtaken(*given: t.Any) -> None:
            make(*given)
            for name in (f"rolling.begun.{'0' * 16}.7", "fleet-virt.maintenance"):
                pool.createXML(f"<volume><name>{name}</name><capacity>0</capacity></volume>", 0)

        monkeypatch.setattr(creation.volumes, "seed", overtaken)
        create = functools.partial(_create, domains=_domains("web1"), run=_RUN, root=machine.root)
        result = machine.call(create)
        assert result is not None
        assert "'web1' is not started: rolling works on this hypervisor" in result["msg"]
        assert "vm_force" not in result["msg"]
        assert machine.domains() == {}
        assert machine.files() == {}
        assert machine.faults() == []
