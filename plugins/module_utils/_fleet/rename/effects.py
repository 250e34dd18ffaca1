# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renaming a domain, with the files that are named after it.

Its volumes keep their names unless requested: a definition names them, and no new VM gets them.
"""

from __future__ import annotations

import functools
import os
import typing as t
import uuid as uuids

from ... import _lxml
from ..._errors import PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE, DOMAIN_XML_SECURE
from ..._records import dataclass, field
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata
from ..base.states import state_name
from ..cards import read_leftovers
from ..cards import read_vms as cards
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Plan
from ..hosts import host_info
from ..notes import effects as notes
from ..notes import read as read_notes
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from . import plan as rename_plan
from .facts import RenameLook, RenameNoted, RenameVm
from .plan import Define, Link, Note, Rename, RenamedFile, RenameFacts, Unlink

if t.TYPE_CHECKING:
    from ..._lxml import Element

_WHOLE = DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE


@dataclass
class _RenameJob(verb.Job[RenameFacts]):
    """The domain and its result."""

    check: bool
    now: str = field(default="", init=False)  # its current name
    noted: bool = field(default=False, init=False)  # whether it has written ``stored``
    stored: Metadata | None = field(default=None, init=False)  # its metadata now
    before: str = field(default="", init=False)  # the definition before it was changed

    def __post_init__(self) -> None:
        super().__post_init__()
        self.now = self.facts.name

    @property
    def names(self) -> tuple[str, ...]:
        return (self.now, *({self.name, self.facts.name} - {self.now}))

    @property
    def changed(self) -> bool:
        return bool(self.done) and (not self.problem or self.now != self.facts.name)

    @property
    def header(self) -> str:
        return self.facts.uuid

    def entry(self) -> verb.Shown:
        kept = [{"path": path, "reason": reason} for path, reason in self.facts.kept]
        return {"steps": self.steps, "kept": kept}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        own = [file for file in self.facts.files if file.volume]
        before: dict[str, object] = {"name": self.facts.name}
        after: dict[str, object] = {"name": self.name if self.check else self.now}
        if own:
            before["volumes"] = [file.old for file in own]
            after["volumes"] = [file.new for file in own]
        return before, after


def look(connection: Connection, claims: t.Sequence[str] = ()) -> RenameLook:
    """What other hypervisors must know of this one. Changes nothing, but for ``claims``, which are
    noted first."""
    notes.write(connection, claims, {})
    at = read_notes.now()
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    machine = host_info.capabilities(text)["uuid"]
    entries: list[RenameVm] = []
    for dom in lookup.list_domains(connection):
        stored = read_metadata(connection, dom) or Metadata()
        entries.append(
            {
                "name": str(dom.name()),
                "uuid": str(dom.UUIDString()),
                "phase": stored.phase,
                "managed": stored.made_here,
                "renamed_from": stored.renamed_from,
            }
        )
    defined = sorted(entries, key=lambda entry: entry["name"])
    read_leftovers.mark(connection, defined)
    return {
        "changed": False,
        "defined": defined,
        "machine": machine,
        "at": at,
        "notes": read_notes.held(connection),
    }


def noted(connection: Connection, answering: t.Collection[str]) -> RenameNoted:
    """What this hypervisor noted of machines that are none of ``answering``."""
    return {"changed": False, "noted": read_notes.texts(connection, answering)}


def run(
    connection: Connection, old: str, new: str, stage: str, *, check: bool, volumes: bool = False
) -> dict[str, object]:
    """Rename ``old``, or do one stage of it, with its own ``volumes``; the module's result."""
    verb.require_local(connection, "files are renamed where they are stored")
    run_id = str(uuids.uuid4())
    # between two stages no process is at work
    owner = owners.reserved(run_id) if stage == "take" else owners.myself(run_id)

    def planned() -> list[_RenameJob]:
        back = stage == "withdraw"
        facts = _read(connection, old, new, back=back, volumes=volumes)
        plan = (
            rename_plan.withdrawal(facts, old, new)
            if back
            else rename_plan.plan(facts, old, new, owner)
        )
        if stage == "take" and not check:
            plan = Plan(plan.steps[:-1], plan.refusals)  # the last one ends it
        return [_RenameJob(connection, new, facts.uuid, facts, plan, check)]

    others = [old, new] if stage in ("all", "take") else []
    return verb.run(connection, others, planned, _ACTIONS.carry_out, check=check)


def _read(connection: Connection, old: str, new: str, *, back: bool, volumes: bool) -> RenameFacts:
    dom, other = find_domain(connection, old), find_domain(connection, new)
    if dom is None and other is not None:
        stored = read_metadata(connection, other)
        if stored is not None and stored.renamed_from == old:
            dom, other = other, None
    if dom is None:
        raise PlanRefused(f"no domain {old!r} on this hypervisor")
    name = str(dom.name())

    def ask() -> tuple[str, RenameFacts]:
        return str(dom.XMLDesc(DOMAIN_XML_INACTIVE)), RenameFacts(
            name=name,
            uuid=str(dom.UUIDString()),
            persistent=bool(dom.isPersistent()),
            active=bool(dom.isActive()),
            state=state_name(dom.state(0)[0]),
            managed_save=bool(dom.hasManagedSaveImage(0)),
            snapshots=tuple(
                sorted(str(snapshot.getName()) for snapshot in dom.listAllSnapshots(0))
            ),
        )

    text, facts = connection.call(f"read domain {name}", ask)
    root = _lxml.parse(text, f"domain {name}")
    stored = metadata.parse(root)
    own, begun = _own(root, stored, old, new, back=back)
    own = own if volumes or begun else []
    disks = [source.get("file") or "" for source in root.iterfind("devices/disk/source")]
    if not back:
        folders = [os.path.dirname(path) for path in filter(None, disks)]
        named = cards.taken(connection, folders, new, facts.uuid)
        if named:
            raise PlanRefused("; ".join(named))
    volumes_of = stored.volumes if stored is not None else ()
    kept = rename_plan.kept(volumes_of, filter(None, disks), old, new) if volumes else ()
    return RenameFacts(
        **{
            **vars(facts),
            "checkpoints": lookup.checkpoints(connection, dom),
            "stored": stored,
            "holder": owners.holder(stored.owner) if stored is not None else None,
            "files": (*_files(root, *((new, old) if back else (old, new)), facts.uuid), *own),
            "taken": other is not None,
            "users": tuple(_users(connection, own, stored, facts.uuid)) if own else (),
            "kept": tuple(kept),
        }
    )


def _own(
    root: Element, stored: Metadata | None, old: str, new: str, *, back: bool
) -> tuple[list[RenamedFile], bool]:
    """The VM's own volumes that are named after it, by its metadata, and whether a run has begun
    to rename them."""
    named = {source.get("file") for source in root.iterfind("devices/disk/source")}
    files, begun = [], False
    for volume in stored.volumes if stored is not None else ():
        after = rename_plan.volume_name(volume.path, old, new)
        if after is not None:
            pair = (after, volume.path) if back else (volume.path, after)
            there = (os.path.lexists(pair[0]), os.path.lexists(pair[1]))
            same = all(there) and os.path.samefile(*pair)
            files.append(RenamedFile(*pair, pair[0] in named, *there, same, volume=True))
            begun = begun or same or after in named
    return files, begun


def _users(
    connection: Connection, own: t.Sequence[RenamedFile], stored: Metadata | None, uuid: str
) -> t.Iterator[str]:
    """Who else uses the volumes, or may."""
    references = ownership.read(connection)
    pools = {volume.path: volume.pool for volume in stored.volumes} if stored is not None else {}
    for file in own:
        for user in sorted(
            {reference.text for reference in references.users(file.old) if reference.uuid != uuid}
        ):
            yield f"{file.old}: {user}"
        pool = references.pools.get(pools.get(file.old) or pools.get(file.new) or "")
        if pool is None or pool.shared:
            yield (
                f"{file.old}: in no pool of this hypervisor, or on storage that other hypervisors"
                " can reach, which are not checked"
            )


def _named(root: Element) -> t.Iterator[tuple[Element, str]]:
    """Elements that name files, with the attribute that does; empty if it is their text."""
    for source in root.iterfind("devices/disk/source"):
        yield source, "file"
    for element in root.iterfind("os/nvram"):
        yield element, ""
        for source in element.iterfind("source"):
            yield source, "file"
    for element in root.iterfind("devices/*/log"):
        yield element, "file"


def _value(element: Element, attribute: str) -> str:
    return (element.get(attribute) if attribute else element.text) or ""


def _files(root: Element, old: str, new: str, uuid: str) -> t.Iterator[RenamedFile]:
    seen = set()
    for element, attribute in _named(root):
        path = _value(element, attribute).strip()
        pair = rename_plan.names_of(path, old, new, uuid)
        if pair is None or pair in seen:
            continue
        seen.add(pair)
        before, after = pair
        there = (os.path.lexists(before), os.path.lexists(after))
        same = all(there) and os.path.samefile(before, after)
        yield RenamedFile(before, after, path == before, there[0], there[1], same)


def _note(job: _RenameJob, note: Note) -> None:
    ours = note.ours
    if ours is not None and ours.phase is None:
        _look_again(job, ours)
    with owners.host_lock():
        dom = find_domain(job.connection, job.now)
        expected = job.stored if job.noted else job.facts.stored
        if dom is None or read_metadata(job.connection, dom) != expected:
            raise PlanRefused(f"{job.now!r} was changed by another run meanwhile; try again")
        _write(job, ours)


def _unnote(job: _RenameJob, _note: Note) -> None:
    _write(job, job.facts.stored)


def _look_again(job: _RenameJob, ours: Metadata) -> None:
    """Refresh the volumes' pools, so that libvirt knows their new names."""
    paths = {path for file in job.facts.files if file.volume for path in (file.old, file.new)}
    for name in sorted({volume.pool for volume in ours.volumes if volume.path in paths}):
        pool = storage.find_pool(job.connection, name, None)
        if pool is not None:
            refresh = functools.partial(pool.existing.refresh, 0)
            storage.patiently(job.connection, f"refresh pool {name}", refresh)


def _write(job: _RenameJob, ours: Metadata | None) -> None:
    dom = find_domain(job.connection, job.now)
    if dom is None:
        raise PlanRefused(f"{job.now!r} was removed or renamed meanwhile; try again")
    if ours is None:
        lookup.restore_metadata(job.connection, dom, None)
    else:
        active = bool(job.connection.call(f"read the state of {job.now}", dom.isActive))
        flags = lookup.AFFECT_CONFIG | (lookup.AFFECT_LIVE if active else 0)
        lookup.write_metadata(job.connection, dom, ours, flags)
    job.stored, job.noted = ours, True


def _call(job: _RenameJob, old: str, new: str) -> None:
    dom = find_domain(job.connection, old)
    if dom is None:
        raise PlanRefused(f"{old!r} was removed or renamed meanwhile; try again")
    domains.rename(job.connection, dom, new)
    job.now = new


def _link(_job: _RenameJob, link: Link) -> None:
    try:
        os.link(link.file.old, link.file.new, follow_symlinks=False)
    except OSError as error:
        raise PlanRefused(f"{link.file.new}: {error.strerror or error}") from None


def _define(job: _RenameJob, _step: Define) -> None:
    text = _definition(job)
    root = _lxml.parse(text, f"domain {job.now}")
    after = {file.old: file.new for file in job.facts.files}
    for element, attribute in _named(root):
        path = after.get(_value(element, attribute).strip())
        if path is None:
            continue
        if attribute:
            element.set(attribute, path)
        else:
            element.text = path
    domains.define(job.connection, f"define {job.now}", _lxml.tostring(root))
    job.before = text


def _definition(job: _RenameJob) -> str:
    dom = find_domain(job.connection, job.now)
    if dom is None:
        raise PlanRefused(f"{job.now!r} was removed or renamed meanwhile; try again")
    return str(job.connection.call("read the definition", dom.XMLDesc, _WHOLE))


def _remove(path: str, other: str) -> None:
    """Remove one of a file's two names."""
    if os.path.lexists(path) and os.path.lexists(other) and os.path.samefile(path, other):
        os.unlink(path)


_ACTIONS = (
    verb.Actions[_RenameJob]()
    .on(Note, _note, _unnote)
    .on(
        Rename,
        lambda job, step: _call(job, step.present, step.wanted),
        lambda job, step: _call(job, step.wanted, step.present),
    )
    .on(Link, _link, lambda _job, step: _remove(step.file.new, step.file.old))
    .on(
        Define,
        _define,
        lambda job, _step: domains.define(job.connection, f"define {job.now}", job.before),
    )
    .on(
        Unlink,
        lambda _job, step: _remove(step.file.old, step.file.new),
        lambda _job, step: os.link(step.file.new, step.file.old, follow_symlinks=False),
    )
)
