# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps that remain once it is known which endpoint has the VM."""

from __future__ import annotations

import dataclasses
import os
import typing as t
from dataclasses import dataclass

from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.json_values import require_type
from ..base.metadata import Metadata, OwnVolume
from ..engine import effects_executor as executor
from ..engine.effects_executor import Turns
from ..engine.steps import Step
from ..storage import effects_own_files as owned
from ..storage import read_file_users as ownership
from ..storage.read_file_users import References
from . import effects_job as migration_job
from . import effects_volumes as migration_volumes
from . import read_endpoints as migration_endpoints
from .effects_jobs import MigrationJob
from .plan_steps import MoveState, Settled
from .read_endpoints import Endpoints, SourceView

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


@dataclass
class End:
    """The endpoint that has the VM, ``dom`` on ``connection``, where the remaining steps are done.

    ``stored`` is its metadata: those to write on the destination, the present ones on the source.
    ``source`` is the definition that the source still has.
    """

    endpoints: Endpoints
    job: MigrationJob
    connection: Connection
    dom: VirDomain
    stored: Metadata | None
    remote: Connection
    uuid: str
    source: SourceView | None = None
    references: References | None = None

    def carry_out(self, plan: Settled) -> None:
        """Do all steps; raises the error of the one that failed."""
        run = executor.Run(plan.steps, self)
        executor.carry_out([run])
        if run.problem is not None:
            raise run.problem

    def do(self, step: Step[MoveState]) -> Turns:
        yield from ()
        _DO[step.kind](self, step)
        self.job.steps.append(step.text)

    def undo(self, step: Step[MoveState]) -> None:
        """Do nothing: no step is rolled back."""

    def finish(self) -> None:
        """Do nothing: the marks are removed last, so the next run finds whatever is left."""


def _forget(end: End, _step: Step[MoveState]) -> None:
    if end.source is not None:
        domains.undefine(
            end.endpoints.connection, end.source.dom, keep_nvram=True, missing_ok=False
        )


def _clear(end: End, _step: Step[MoveState]) -> None:
    stay = migration_volumes.drop_claim(end.remote, end.endpoints.name, end.uuid, volumes=True)
    end.job.kept += [f"{left.path} on {end.endpoints.where}: {left.reason}" for left in stay]
    migration_job.clear(end.uuid)


def _release(end: End, _step: Step[MoveState]) -> None:
    migration_job.clear(end.uuid)
    migration_volumes.drop_claim(end.remote, end.endpoints.name, end.uuid, volumes=False)


def _stop(end: End, _step: Step[MoveState]) -> None:
    end.endpoints.stop(end.connection, end.dom)


def _resume(end: End, _step: Step[MoveState]) -> None:
    end.connection.call(f"resume {end.endpoints.name}", end.dom.resume)


def _old(end: End, step: Step[MoveState]) -> None:
    """Remove a volume on the source: the VM ran on it, so it is its own. Shared ones stay."""
    own = require_type(step.payload, OwnVolume)
    if not os.path.lexists(own.path):
        return
    connection = end.endpoints.connection
    if end.references is None:
        end.references = ownership.read(connection)
    stays = owned.remove(connection, own, end.uuid, end.references, proven=True)
    end.job.kept += [] if stays is None else [str(stays)]


def _autostart(end: End, _step: Step[MoveState]) -> None:
    end.connection.call("switch autostart on", end.dom.setAutostart, 1)


def _unmark(end: End, _step: Step[MoveState]) -> None:
    if end.stored is None:
        return
    if end.connection is end.remote:
        migration_endpoints.write_everywhere(end.connection, end.dom, end.stored)
        return
    left = metadata.arriving(end.stored, end.endpoints.source)
    plain = dataclasses.replace(end.stored, phase=None, owner=None, move=None, evacuated_from=left)
    lookup.write_metadata(end.connection, end.dom, plain, lookup.AFFECT_CONFIG)


# How each kind of step is done
_DO: dict[str, t.Callable[[End, Step[MoveState]], None]] = {
    "forget": _forget,
    "clear": _clear,
    "release": _release,
    "stop": _stop,
    "resume": _resume,
    "old": _old,
    "autostart": _autostart,
    "unmark": _unmark,
}
