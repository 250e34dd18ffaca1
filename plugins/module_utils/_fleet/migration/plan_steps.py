# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a move, and what each of them changes on which end.

First come those up to libvirt's own move (:func:`begin`). What follows is planned when it has
ended, from what both ends have then: :func:`finish` if the VM has arrived, :func:`undo` if it is
still on the source (:mod:`.settling` decides which). Check mode derives both from its prediction.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..._records import dataclass, field
from ..base import metadata as read_metadata
from ..base.metadata import BEGUN, MADE, Metadata, Move, OwnVolume
from ..engine.steps import Action, Effect, Step
from . import settling
from .settling import Act, Arrival, DestinationState, SourceState
from .types import MigrationPlan, NewVolume, Source

MIGRATING = "migrating"


# --- what the steps up to the move do ---


class RemoveSeed(Action):
    """Remove a seed medium that is no longer needed."""


@dataclass(frozen=True)
class EjectMedium(Action):
    """Empty the drive at this target."""

    target: str


class MarkMoving(Action):
    """Record the move with the VM, so that it is known from now on."""


class SwitchAutostartOff(Action):
    """Have the VM not start with the hypervisor that it leaves."""


class ClaimDestination(Action):
    """Define the claim, which names the volumes there before they are created."""


@dataclass(frozen=True)
class MakeVolume(Action):
    """Create a volume on the destination."""

    volume: NewVolume


class LeaveShared(Action):
    """Leave a file that both ends have; it is reported."""


class KeepSnapshots(Action):
    """Keep libvirt's records of the snapshots on both ends."""


class DetachSnapshots(Action):
    """Remove libvirt's records of the snapshots from the VM; their contents stay in its disks."""


class StartPaused(Action):
    """Start a VM that is off, so that libvirt can move it."""


class MoveVm(Action):
    """Have libvirt move it."""


# --- what remains once it is known which end has the VM ---


class ForgetSource(Action):
    """Remove the definition that the source still has."""


class ClearDestination(Action):
    """Remove the claim with what was created under it."""


class ReleaseClaim(Action):
    """Remove the claim of a VM that has arrived."""


class RestoreSnapshots(Action):
    """Have libvirt know the snapshots again, on the end that has the VM."""


class DropRecords(Action):
    """Remove the records that were kept on both ends."""


class StopVm(Action):
    """Shut it off, as it was before."""


class ResumeVm(Action):
    """Let it run, as it did before."""


@dataclass(frozen=True)
class RemoveOld(Action):
    """Remove a volume that the VM had on the source."""

    volume: OwnVolume


class SwitchAutostartOn(Action):
    """Have it start with its hypervisor, as before."""


class Unmark(Action):
    """Remove the record of the move."""


@dataclass(frozen=True)
class EndpointState:
    """The VM on one end: ``state`` is shutoff, paused or running, or what settling has for it.

    ``incoming``: libvirt has not defined it there. ``before`` is what its marks record: whether
    it ran (running, shutoff) and had autostart (yes, no).
    """

    state: str
    autostart: bool = False
    phase: str | None = None
    before: tuple[str, str] | None = None
    evacuated_from: tuple[str, ...] = ()
    incoming: bool = False
    snapshots: tuple[str, ...] = ()


@dataclass(frozen=True)
class MoveState:
    """What both ends have of a VM that moves.

    ``claim`` are the volumes of its claim on the destination, by their paths with the progress of
    their creation; None if there is no claim. ``old`` and ``new`` are paths of its volumes that
    exist on the source, and on the destination. ``seed`` is a medium that is no longer needed,
    ``media`` are the targets of drives that hold any other;
    ``moving``: libvirt moves it. ``kept_here`` and ``kept_there`` are the snapshots whose records
    an end keeps, all or none.
    """

    source: EndpointState | None
    destination: EndpointState | None = None
    claim: tuple[tuple[str, str], ...] | None = None
    old: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    seed: str | None = None
    media: frozenset[str] = frozenset()
    moving: bool = False
    kept_here: tuple[str, ...] = ()
    kept_there: tuple[str, ...] = ()


def move_state(source: Source, seed: str | None = None) -> MoveState:
    """Before a move, with nothing of it on the destination."""
    stored = source.metadata or Metadata()
    state = source.state if source.state in ("shutoff", "paused") else "running"
    held = EndpointState(
        state,
        source.autostart,
        stored.phase,
        evacuated_from=stored.evacuated_from,
        snapshots=snapshot_names(source),
    )
    media = frozenset(disk.target for disk in source.disks if disk.is_drive and disk.path)
    old = frozenset(one.path for one in stored.volumes)
    return MoveState(held, old=old, seed=seed, media=media)


def begin(
    source: Source,
    plan: MigrationPlan,
    where: str,
    *,
    seed: str | None = None,
    evacuating: bool = False,
) -> tuple[Step[MoveState], ...]:
    """The steps up to libvirt's move. None is undone by itself: whatever happens, both ends are
    checked, and what exists decides."""
    name = source.name
    steps: list[Step[MoveState]] = []
    if seed is not None:
        steps.append(Step(RemoveSeed(), f"remove the seed medium {seed}", _without_seed))
    for drive in plan.ejected:
        text = f"eject {drive.path} from {drive.target}"
        steps.append(Step(EjectMedium(drive.target), text, _ejected(drive.target)))
    steps.append(
        Step(
            MarkMoving(),
            f"mark {name} as moving to {where}",
            _marked(source, evacuating=evacuating),
        )
    )
    if source.autostart:
        steps.append(Step(SwitchAutostartOff(), "autostart off", _here(autostart=False)))
    noted = tuple((volume.path, BEGUN) for volume in plan.volumes)
    steps.append(
        Step(
            ClaimDestination(),
            f"claim {name} on {where}",
            lambda state: replace(state, claim=noted),
        )
    )
    for volume in plan.volumes:
        base = f" over {volume.backing[0]}" if volume.backing else ""
        word = "recreate" if volume.again else "create"
        text = f"{word} {volume.path} on {where}{base}"
        if volume.whole:
            text = f"copy {volume.path} to {where}, with its snapshots"
        steps.append(Step(MakeVolume(volume), text, _made(volume), _half_made(volume)))
    for path in plan.shared:
        steps.append(Step(LeaveShared(), f"leave {path} in place on shared storage", _same))
    names = snapshot_names(source)
    if names:
        listed = ", ".join(names)
        text = f"keep the records of snapshots {listed} on both hypervisors"
        steps.append(Step(KeepSnapshots(), text, _kept(names), (_kept_here(names),)))
        text = f"detach snapshots {listed} from {name}, their contents stay"
        steps.append(Step(DetachSnapshots(), text, _here(snapshots=()), _half_detached(names)))
    if not source.active and not plan.whole:
        steps.append(Step(StartPaused(), f"start {name} paused", _here(state="paused")))
    flow = f", {plan.flow}" if source.active else ""
    torn: tuple[Effect[MoveState], ...] = (_on_its_way, _arrived_twice)
    if plan.whole:  # no process of it takes part
        torn = (_arrived_twice,)
    steps.append(Step(MoveVm(), f"move {name} to {where}{flow}", _moved, torn, irreversible=True))
    return tuple(steps)


@dataclass(frozen=True)
class Settled:
    """What remains to be done once it is known which end has the VM.

    ``stay`` are files that stay on the source, each with the reason; ``lost``: it ran before and is
    shut off now; ``off``: it is shut off on the source.
    """

    steps: tuple[Step[MoveState], ...]
    stay: tuple[str, ...] = ()
    lost: bool = False
    off: bool = False


@dataclass(frozen=True)
class Arrived:
    """The VM on its destination: its ``metadata`` there, the pools of its claim's volumes by their
    paths, and the paths of its disks. ``twice``: the source still has its definition;
    ``snapshots`` are those whose records are kept."""

    name: str
    where: str
    arrival: Arrival
    metadata: Metadata
    copied: t.Mapping[str, str] = field(default_factory=dict)
    attached: t.Collection[str] = ()
    twice: bool = False
    snapshots: tuple[str, ...] = ()


def finish(vm: Arrived, *, keep_volumes: bool = False) -> Settled:
    """It has arrived: remove what it had on the source, then its claim, and its marks last."""
    name, move = vm.name, vm.metadata.move
    act, remove, lost = settling.FINISHED[vm.arrival, settling.was(move.state if move else None)]
    steps: list[Step[MoveState]] = []
    if vm.twice:
        text = f"remove the definition of {name} here"
        steps.append(_final(ForgetSource(), text, lambda state: replace(state, source=None)))
    if act is Act.STOP:
        steps.append(_final(StopVm(), f"shut {name} off", _there(state="shutoff")))
    if vm.snapshots:
        effect, torn = _there(snapshots=vm.snapshots), _half_restored(vm.snapshots, "destination")
        steps.append(_restoring(name, vm.snapshots, effect, torn))
    # a disk that is not in the claim was not copied: both ends have it
    own = [
        volume
        for volume in vm.metadata.volumes
        if volume.role == "seed" or volume.path in vm.copied
    ]
    stay: tuple[str, ...] = ()
    if not keep_volumes and remove:
        for volume in own:  # a detached disk may be worth keeping
            if volume.role == "seed" or volume.path in vm.attached:
                text = f"remove {volume.path} here"
                steps.append(Step(RemoveOld(volume), text, _gone(volume), irreversible=True))
    elif not keep_volumes:
        stay = tuple(
            f"{volume.path}: {name!r} does not run on {vm.where}, so what it had here stays; remove"
            " it once the VM is known to be complete there"
            f" (virsh vol-delete {volume.name} {volume.pool})"
            for volume in own
        )
    if vm.snapshots:
        steps.append(_dropping())
    text = f"release the claim of {name} on {vm.where}"
    steps.append(_final(ReleaseClaim(), text, lambda state: replace(state, claim=None)))
    if move is not None and move.autostart == "yes":
        steps.append(_final(SwitchAutostartOn(), "autostart on", _there(autostart=True)))
    names = read_metadata.arriving(vm.metadata, vm.where)
    unmarked = _there(phase=None, before=None, evacuated_from=names)
    steps.append(_final(Unmark(), f"remove the marks of the move of {name}", unmarked))
    return Settled(tuple(steps), stay, lost)


def undo(
    name: str,
    here: str,
    where: str,
    state: SourceState,
    metadata: Metadata | None,
    snapshots: tuple[str, ...] = (),
) -> Settled:
    """It is on the source: clean up the destination, and restore the VM's earlier state, with the
    ``snapshots`` whose records are kept."""
    text = f"remove what was created for {name} on {where}"
    steps: list[Step[MoveState]] = [_final(ClearDestination(), text, _cleared)]
    if metadata is None:
        return Settled(tuple(steps), off=state is SourceState.OFF)
    move = metadata.move
    act, off, lost = settling.UNDONE[state, settling.was(move.state if move else None)]
    if act is Act.STOP:
        steps.append(_final(StopVm(), f"shut {name} off", _here(state="shutoff")))
    elif act is Act.RESUME:
        steps.append(_final(ResumeVm(), f"resume {name}", _here(state="running")))
    if snapshots:
        effect = _here(snapshots=snapshots)
        steps.append(_restoring(name, snapshots, effect, _half_restored(snapshots, "source")))
        steps.append(_dropping())
    if move is not None and move.autostart == "yes":
        steps.append(_final(SwitchAutostartOn(), "autostart on", _here(autostart=True)))
    names = read_metadata.arriving(metadata, here)
    unmarked = _here(phase=None, before=None, evacuated_from=names)
    steps.append(_final(Unmark(), f"remove the marks of the move of {name}", unmarked))
    return Settled(tuple(steps), lost=lost, off=off)


def predicted(
    source: Source, plan: MigrationPlan, where: str, *, keep_volumes: bool, evacuating: bool = False
) -> Settled:
    """What is done after a successful move."""
    kept = marked(source, move_of(source, where, ""), evacuating=evacuating)
    arrived = Arrived(
        source.name,
        where,
        Arrival.RUNNING if source.active else Arrival.OFF if plan.whole else Arrival.PAUSED,
        kept,
        {volume.path: volume.pool for volume in plan.volumes},
        [disk.path for disk in source.disks if disk.path is not None],
        snapshots=snapshot_names(source),
    )
    return finish(arrived, keep_volumes=keep_volumes)


def marked(source: Source, move: Move, *, evacuating: bool) -> Metadata:
    """The VM's metadata while it moves, without the owner."""
    stored = source.metadata or Metadata()
    names = stored.evacuated_from
    if evacuating:
        names = read_metadata.leaving(stored, source.host)
    return replace(stored, phase=MIGRATING, move=move, evacuated_from=names)


def move_of(source: Source, where: str, run: str) -> Move:
    """The move that the marks record."""
    autostart = "yes" if source.autostart else "no"
    return Move(source.host, where, run, autostart, "running" if source.active else "shutoff")


def states(seen: MoveState) -> tuple[SourceState, DestinationState]:
    """The states of both ends, as :mod:`.settling` has them."""
    here, there = seen.source, seen.destination
    source = SourceState.ABSENT
    if here is not None:
        by_state = {"shutoff": SourceState.OFF, "paused": SourceState.PAUSED}
        source = by_state.get(here.state, SourceState.RUNNING)
        source = SourceState.MOVING if seen.moving else source
    if there is None:
        return source, DestinationState.ABSENT
    if there.incoming:
        waits = there.state == "paused"
        return source, DestinationState.WAITING if waits else DestinationState.COMING
    arrived = there.phase == MIGRATING
    return source, DestinationState.ARRIVED if arrived else DestinationState.FOREIGN


def _final(action: Action, text: str, effect: Effect[MoveState]) -> Step[MoveState]:
    return Step(action, text, effect, irreversible=True)


def snapshot_names(source: Source) -> tuple[str, ...]:
    """The names of its snapshots, parents first."""
    return tuple(snapshot.name for snapshot in source.snapshots)


def _restoring(
    name: str,
    snapshots: tuple[str, ...],
    effect: Effect[MoveState],
    torn: tuple[Effect[MoveState], ...],
) -> Step[MoveState]:
    text = f"restore snapshots {', '.join(snapshots)} of {name}"
    return Step(RestoreSnapshots(), text, effect, torn, irreversible=True)


def _dropping() -> Step[MoveState]:
    text = "remove the kept records of the snapshots on both hypervisors"
    torn: Effect[MoveState] = lambda seen: replace(seen, kept_there=())  # noqa: E731
    effect: Effect[MoveState] = lambda seen: replace(seen, kept_here=(), kept_there=())  # noqa: E731
    return Step(DropRecords(), text, effect, (torn,), irreversible=True)


def _kept(names: tuple[str, ...]) -> Effect[MoveState]:
    return lambda seen: replace(seen, kept_here=names, kept_there=names)


def _kept_here(names: tuple[str, ...]) -> Effect[MoveState]:
    return lambda seen: replace(seen, kept_here=names)


def _half_detached(names: tuple[str, ...]) -> tuple[Effect[MoveState], ...]:
    """Children go first, so that those that remain keep their parents."""
    return tuple(_here(snapshots=names[:number]) for number in range(1, len(names)))


def _half_restored(names: tuple[str, ...], end: str) -> tuple[Effect[MoveState], ...]:
    """Some more than libvirt knows at this ``end``, parents first."""

    def some(number: int) -> Effect[MoveState]:
        def effect(seen: MoveState) -> MoveState:
            held: EndpointState | None = getattr(seen, end)
            known = {*names[:number], *(held.snapshots if held is not None else ())}
            there = tuple(name for name in names if name in known)
            change = _here if end == "source" else _there
            return change(snapshots=there)(seen)

        return effect

    return tuple(some(number) for number in range(1, len(names)))


def _same(seen: MoveState) -> MoveState:
    return seen


def _here(**changes: t.Any) -> Effect[MoveState]:
    def effect(seen: MoveState) -> MoveState:
        return (
            seen if seen.source is None else replace(seen, source=replace(seen.source, **changes))
        )

    return effect


def _there(**changes: t.Any) -> Effect[MoveState]:
    def effect(seen: MoveState) -> MoveState:
        there = seen.destination
        return seen if there is None else replace(seen, destination=replace(there, **changes))

    return effect


def _without_seed(seen: MoveState) -> MoveState:
    return replace(seen, seed=None, old=seen.old - {seen.seed or ""})


def _ejected(target: str) -> Effect[MoveState]:
    return lambda seen: replace(seen, media=seen.media - {target})


def _marked(source: Source, *, evacuating: bool) -> Effect[MoveState]:
    move = move_of(source, "", "")
    kept = marked(source, move, evacuating=evacuating)
    before = (move.state, move.autostart)
    return _here(phase=kept.phase, before=before, evacuated_from=kept.evacuated_from)


def _noted(seen: MoveState, path: str, made: str) -> MoveState:
    if seen.claim is None:
        return seen
    return replace(
        seen, claim=tuple((one, made if one == path else noted) for one, noted in seen.claim)
    )


def _made(volume: NewVolume) -> Effect[MoveState]:
    def effect(seen: MoveState) -> MoveState:
        return replace(_noted(seen, volume.path, MADE), new=seen.new | {volume.path})

    return effect


def _half_made(volume: NewVolume) -> tuple[Effect[MoveState], ...]:
    """What exists and is not recorded; an earlier one that is gone."""

    def there(seen: MoveState) -> MoveState:
        return replace(_noted(seen, volume.path, BEGUN), new=seen.new | {volume.path})

    def gone(seen: MoveState) -> MoveState:
        return replace(_noted(seen, volume.path, BEGUN), new=seen.new - {volume.path})

    return (gone, there) if volume.again else (there,)


def _moved(seen: MoveState) -> MoveState:
    if seen.source is None:
        return seen
    return replace(seen, source=None, destination=seen.source, moving=False)


def _on_its_way(seen: MoveState) -> MoveState:
    return replace(seen, destination=EndpointState("paused", incoming=True), moving=True)


def _arrived_twice(seen: MoveState) -> MoveState:
    if seen.source is None:
        return seen
    source = replace(seen.source, state="shutoff")
    return replace(seen, source=source, destination=seen.source, moving=False)


def _gone(volume: OwnVolume) -> Effect[MoveState]:
    def effect(seen: MoveState) -> MoveState:
        return replace(seen, old=seen.old - {volume.path})

    return effect


def _cleared(seen: MoveState) -> MoveState:
    """The claim is removed with what was created under it."""
    claimed = {path for path, _made in seen.claim or ()}
    return replace(seen, claim=None, new=seen.new - claimed)
