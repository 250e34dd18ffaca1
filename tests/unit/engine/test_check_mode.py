# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every verb that reports steps reports in check mode those of the run, on libvirt's test driver.

One VM goes through its life: each verb predicts, acts, and is compared. Verbs that need more than
the test driver has are in ``ELSEWHERE``, with the test that compares them.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import effects as adopt
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import plan as adopt_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import GENERATED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import effects as init
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.effects_batch import (
    BatchSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import plan as purge_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import effects as rename
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import effects as snapshot
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import facts as snapshots
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import effects as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.operations import OPERATIONS
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.unit._crash import Machine, Machines

Verb = t.Callable[[Connection, bool], t.Mapping[str, t.Any]]

_FEATURES = _tools.CHECKOUT / "plugins" / "module_utils" / "_fleet"
_REPORTS = re.compile(r"\"(steps|removed)\"")
_VM: dict[str, object] = {
    "name": "web1",
    "memory": 128,
    "seed": False,
    "nics": [{"name": "eth0", "network": "lan"}],
    "disks": [{"name": "data", "format": "qcow2", "size": 2}],
}
_SETTINGS = BatchSettings("11111111-1111-4111-8111-111111111111", "hv1", {}, "base", machine="pc")


def _provision(**options: object) -> Verb:
    domains, problems = many([{**_VM, **options}], defaults=Defaults())
    assert problems == []
    domains = [dataclasses.replace(one, domain_type="test", arch="i686") for one in domains]
    return lambda connection, check: t.cast(
        "t.Mapping[str, t.Any]",
        init.run(connection, domains, _SETTINGS, stage="all", check=check),
    )


def _state(**wanted: t.Any) -> Verb:
    return lambda connection, check: state.run(
        connection, ["web1"], StateRequest(**wanted), check=check
    )


def _snapshot(name: str, **wanted: t.Any) -> Verb:
    asked = snapshots.SnapshotRequest(name, **wanted)
    return lambda connection, check: snapshot.run(connection, ["web1"], asked, check=check)


def _rename(old: str, new: str, *, volumes: bool) -> Verb:
    return lambda connection, check: rename.run(
        connection, old, new, "all", check=check, volumes=volumes
    )


def _purge(name: str) -> Verb:
    settings = purge.PurgeSettings(purge_plan.PurgeOptions(force=True, base_pool="base"))
    return lambda connection, check: purge.run(connection, [name], settings, check=check)


def _adopt(name: str) -> Verb:
    options = adopt_plan.AdoptionOptions()
    return lambda connection, check: adopt.run(connection, [name], "default", options, check=check)


# In the order of a life; each begins where the one before ended
LIFE: dict[str, Verb] = {
    "create": _provision(),
    "change": _provision(title="Web server"),
    **{name: _state(operations=(name,)) for name in OPERATIONS},
    "pause": _state(state="paused"),
    "save": _state(state="saved"),
    "restore by its request": _provision(start=True),
    "shut down": _state(state="shutoff", autostart=True),
    "start by its request": _provision(start=True, title="Web server 2"),
    "shut down again": _state(state="shutoff"),
    "take a snapshot": _snapshot("before"),
    "revert": _snapshot("before", state="reverted"),
    "remove the snapshot": _snapshot("before", state="absent"),
    "rename": _rename("web1", "web2", volumes=False),
    "rename the volumes": _rename("web1", "web2", volumes=True),
    "purge": _purge("web2"),
    "adopt": _adopt("theirs"),
}
# Files whose results have steps, and the files of LIFE's verbs
COVERED = {
    "provision/effects_batch.py",
    "provision/effects_changing.py",
    "purge/effects.py",
    "rename/effects.py",
    "state/effects.py",
    "snapshots/effects.py",
}
# With the test that compares check mode and run
ELSEWHERE = {
    "template/effects.py": "integration/provisioning/test_copies.py",
    "disk_move/effects.py": "integration/provisioning/test_move_disk.py",
    "backup/effects.py": "integration/backup/test_backup.py",
    "backup/effects_timer.py": "unit/backup/test_units.py",
    "daemon/effects.py": "integration/test_daemon.py",
    "ha/effects.py": "integration/test_cell.py",
    "state/effects_nowhere.py": "unit/state/test_effects_nowhere.py",
    "pools/effects.py": "unit/pools/test_effects.py",
    "images/effects.py": "integration/test_image.py",
    "migration/effects_jobs.py": "unit/migration/test_effects_settle.py",
    "restart/effects.py": "unit/restart/test_restart_crashes.py",
    "restore/effects.py": "unit/restore/test_restore_crashes.py",
    "verify/effects.py": "unit/verify/test_proof_crashes.py",
    "restore/effects_disk.py": "unit/restore/test_disk_crashes.py",
    "seeding/effects.py": "unit/seeding/test_seeding_meanwhile.py",
}


def _reported(result: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    entries = t.cast("list[dict[str, t.Any]]", result["vms"])
    return [{"changed of all": result["changed"], **entry} for entry in entries]


def test_every_verb_reports_in_check_mode_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Machines(tmp_path, monkeypatch).new() as machine:
        for name, verb in LIFE.items():
            _compare(machine, name, verb)
        assert set(machine.domains()) == set()


def _compare(machine: Machine, name: str, verb: Verb) -> None:
    predicted = machine.call(lambda connection: verb(connection, True))
    assert machine.effects.done == [], f"{name}: check mode did something"
    real = machine.call(lambda connection: verb(connection, False))
    assert predicted is not None
    assert real is not None
    assert not real.get("failed"), f"{name}: {real.get('msg')}"
    assert real["changed"], f"{name} did nothing"
    for before, after in zip(_reported(predicted), _reported(real)):
        known = {key: value for key, value in before.items() if value != GENERATED}
        assert known == {key: after[key] for key in known}, name
        told = [after.get(key) for key in ("steps", "removed", "specification")]
        assert any(told), f"{name} reports nothing"


def test_every_file_that_reports_steps_is_compared() -> None:
    reporting = {
        str(path.relative_to(_FEATURES))
        for path in _FEATURES.rglob("*.py")
        if path.name.startswith(("effects", "read"))
        if _REPORTS.search(path.read_text(encoding="utf-8"))
    }
    assert reporting == COVERED | set(ELSEWHERE)
    missing = [
        path for path in ELSEWHERE.values() if not (_tools.CHECKOUT / "tests" / path).exists()
    ]
    assert missing == []
