# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What hypervisors keep of one another, for the time when one does not answer.

Each keeps volumes in a pool of its own, whose names say all that is needed to compare them:

``reading.MACHINE.AT.DIGEST``
    What the hypervisor with that machine UUID had at that time; the content is the text of
    :func:`text_of`. One whose content has another digest was torn by a kill, and is none.
``claim.MACHINE.AT.RUN.KIND.VALUE``
    That a run puts a name, UUID or MAC address there; it is empty. libvirt refuses a name that is
    taken, so it is made as a whole or not at all. One of the kind ``vm`` forbids nothing: it says
    which UUID and name belong together, and in which groups that VM is (:func:`vm_of`).

``maintenance.MACHINE.AT.STATE.HOST``
    That the hypervisor with that name was put into maintenance (``present``) or taken out of it
    (``absent``); it is empty. It is shown while that hypervisor is silent, and permits nothing.

Times are milliseconds since 1970 of that hypervisor's own clock, which alone stamps what is said
of it; clocks of two are never compared.
"""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import json
import re
import typing as t
import zlib

from ..._records import dataclass
from ..base.json_values import as_mapping, as_mappings
from ..base.names import CLAIM as ARRIVING

READING, CLAIM, MARK = "reading", "claim", "maintenance"
_STATES = ("present", "absent")
KINDS = ("name", "uuid", "mac")
_VM = "vm"
_LONGEST = 255  # of a file's name
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
GRACE = 3_600_000  # milliseconds; no run takes so long
_PACKED = "z:"  # no JSON begins so
_LARGEST = 4 * 1024 * 1024  # of what is unpacked; 1,000 VMs take 200 KiB
_DIGEST = 16  # hexadecimal digits; it recognises a torn text, and is no protection from forgery
_NAMES = (
    re.compile(rf"(reading)\.({_UUID})\.([0-9]{{1,15}})\.([0-9a-f]{{{_DIGEST}}})"),
    re.compile(
        rf"(claim)\.({_UUID})\.([0-9]{{1,15}})\.({_UUID})"
        rf"\.({'|'.join((*KINDS, _VM))})\.([A-Za-z0-9._-]+)"
    ),
    re.compile(
        rf"(maintenance)\.({_UUID})\.([0-9]{{1,15}})\.({'|'.join(_STATES)})\.([A-Za-z0-9._-]+)"
    ),
)


class NotedVm(t.TypedDict):
    """A VM as it was read; ``active``: it ran, ``managed``: this collection made it."""

    name: str
    uuid: str
    macs: list[str]
    addresses: list[str]
    groups: list[str]
    active: bool
    managed: bool


@dataclass(frozen=True)
class Reading:
    """What a machine had; the text itself is read only if the machine does not answer."""

    machine: str
    at: int
    digest: str

    @property
    def volume(self) -> str:
        """The name of its volume."""
        return f"{READING}.{self.machine}.{self.at}.{self.digest}"


@dataclass(frozen=True)
class Claim:
    """What a run puts on a machine; ``kind`` is one of KINDS."""

    machine: str
    at: int
    run: str
    kind: str
    value: str

    @property
    def volume(self) -> str:
        """The name of its volume; a MAC address has hyphens there."""
        return f"{CLAIM}.{self.machine}.{self.at}.{self.run}.{self.kind}.{self.value}"

    def is_of(self, kind: str, value: str) -> bool:
        """Whether it claims that value, ignoring case."""
        return self.kind == kind and self.value.lower() == plain(kind, value)


@dataclass(frozen=True)
class MaintenanceMark:
    """Whether a machine is in maintenance; ``host`` is its name in the inventory."""

    machine: str
    at: int
    present: bool
    host: str

    @property
    def volume(self) -> str:
        """The name of its volume."""
        state = _STATES[not self.present]
        return f"{MARK}.{self.machine}.{self.at}.{state}.{self.host}"


Note = t.Union[Reading, Claim, MaintenanceMark]


def plain(kind: str, value: str) -> str:
    """A value in the one form in which values of its kind are compared."""
    return value.lower().replace(":", "-") if kind == "mac" else value.lower()


@functools.lru_cache(maxsize=65536)  # the same reading is held by every other hypervisor
def parse(volume: str) -> Note | None:
    """The note that a volume of that name is, None if it is none."""
    for pattern in _NAMES:
        match = pattern.fullmatch(volume)
        if match is not None:
            kind, machine, at, *rest = match.groups()
            if kind == MARK:
                return MaintenanceMark(machine, int(at), rest[0] == _STATES[0], rest[1])
            if len(rest) == 1:
                return Reading(machine, int(at), rest[0])
            return Claim(machine, int(at), *rest)
    return None


def notes(volumes: t.Iterable[str]) -> list[Note]:
    """The notes among ``volumes``."""
    return [note for volume in volumes if (note := parse(volume)) is not None]


def text_of(host: str, vms: t.Iterable[t.Mapping[str, object]]) -> str:
    """The content of a reading: the inventory's name of the hypervisor, and its VMs.

    ``vms`` are entries of ``placement_facts``. The same VMs make the same text, whenever read.
    """
    kept = [{key: vm.get(key) for key in NotedVm.__annotations__} for vm in vms]
    kept.sort(key=lambda vm: str(vm["uuid"]))
    return json.dumps({"host": host, "vms": kept}, sort_keys=True, separators=(",", ":"))


def digest_of(text: str) -> str:
    """The digest that a reading with this content has in its name."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def reading(machine: str, at: int, text: str) -> Reading:
    """The reading of a machine with that content."""
    return Reading(machine, at, digest_of(text))


def packed(text: str) -> str:
    """The content as it is sent and stored: it goes to every other hypervisor."""
    return _PACKED + base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def _unpacked(text: str) -> str:
    """What :func:`packed` made; any other text, as earlier notes have it, is returned as it is."""
    if not text.startswith(_PACKED):
        return text
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(base64.b64decode(text[len(_PACKED) :], validate=True), _LARGEST)
        return content.decode() if stream.eof else ""
    except (ValueError, zlib.error):
        return ""  # torn


def opened(note: Reading, text: str) -> tuple[str, list[NotedVm]] | None:
    """The hypervisor's name and VMs; None for a torn text, or any other that is no reading's."""
    text = _unpacked(text)
    if digest_of(text) != note.digest:
        return None
    try:
        body = as_mapping(json.loads(text))
    except ValueError:
        return None
    host, vms = body.get("host"), as_mappings(body.get("vms"))
    if not isinstance(host, str) or not isinstance(body.get("vms"), list):
        return None
    return host, [_vm(vm) for vm in vms]


def _vm(entry: t.Mapping[str, object]) -> NotedVm:
    def texts(key: str) -> list[str]:
        values = entry.get(key)
        return [str(value) for value in values] if isinstance(values, list) else []

    return {
        "name": str(entry.get("name")),
        "uuid": str(entry.get("uuid")),
        "macs": texts("macs"),
        "addresses": texts("addresses"),
        "groups": texts("groups"),
        "active": bool(entry.get("active")),
        "managed": bool(entry.get("managed", True)),  # earlier notes do not say it
    }


def claims_of(
    machine: str, at: int, run: str, vms: t.Iterable[t.Mapping[str, object]]
) -> list[Claim]:
    """What ``run`` claims with the VMs that it defined on a machine, read there at ``at``."""
    own = [vm for vm in vms if vm.get("run") == run]
    values = [
        (kind, plain(kind, str(value)) if kind == "mac" else str(value))
        for vm in own
        for kind, those in (("name", [vm["name"]]), ("uuid", [vm["uuid"]]), ("mac", vm["macs"]))
        for value in (those if isinstance(those, list) else [])
    ]
    claims = [Claim(machine, at, run, kind, value) for kind, value in values]
    # of several VMs each has to say which of the UUIDs is its own, should some of them move on
    told = [
        Claim(machine, at, run, _VM, _in_groups(vm))
        for vm in own
        if vm.get("groups") or len(own) > 1
    ]
    return [*claims, *(claim for claim in told if len(claim.volume) <= _LONGEST)]


def claims_of_macs(
    machine: str, at: int, run: str, added: t.Mapping[str, t.Collection[str]]
) -> list[Claim]:
    """What ``run`` claims with the MAC addresses that VMs of a machine get, by their UUIDs: with
    these, since a claim goes where its VM goes."""
    values = [
        (kind, plain(kind, value))
        for uuid, macs in added.items()
        for kind, value in (("uuid", uuid), *(("mac", mac) for mac in macs))
        if macs
    ]
    return [Claim(machine, at, run, kind, value) for kind, value in values]


def _in_groups(vm: t.Mapping[str, object]) -> str:
    """The UUID, the number of groups, these and the name."""
    given = vm.get("groups")
    groups = (
        [str(group) for group in given if "." not in str(group)] if isinstance(given, list) else []
    )
    return ".".join([str(vm["uuid"]), str(len(groups)), *groups, str(vm["name"])])


def vm_of(claim: Claim) -> tuple[str, str, list[str]] | None:
    """The UUID, name and groups of the VM that a claim of the kind ``vm`` is about."""
    parts = claim.value.split(".")
    if claim.kind != _VM or len(parts) < 3 or not parts[1].isdecimal():
        return None
    number = int(parts[1])
    return parts[0], ".".join(parts[2 + number :]), parts[2 : 2 + number]


def claims_in(volumes: t.Iterable[str], run: str = "") -> list[str]:
    """The volumes of claims, without those of ``run``."""
    claims = (note for note in notes(volumes) if isinstance(note, Claim) and note.run != run)
    return sorted(claim.volume for claim in claims)


def latest(held: t.Iterable[Note]) -> dict[str, Reading]:
    """The last reading of each machine."""
    last: dict[str, Reading] = {}
    for note in held:
        if isinstance(note, Reading) and (
            note.machine not in last or note.at > last[note.machine].at
        ):
            last[note.machine] = note
    return last


def settles(vms: t.Iterable[NotedVm], at: int, claim: Claim) -> bool:
    """Whether a reading of the claim's machine, begun at ``at`` with these VMs, makes the claim
    needless: it is later and has what was claimed, or that was never built.

    What a move claims arrives after the destination was read, so a reading without it settles the
    claim only after so long that no run can still be on its way.
    """
    if claim.at >= at:
        return False
    return at - claim.at > GRACE or any(_has(vm, claim) for vm in vms)


def _has(vm: NotedVm, claim: Claim) -> bool:
    about = vm_of(claim)
    if about is not None:
        return vm["uuid"] == about[0]
    return any(claim.is_of(*own) for own in values(vm))


def values(vm: NotedVm) -> list[tuple[str, str]]:
    """The name, UUID and MAC addresses of a VM, each with its kind; of one that arrives by a move,
    the name that it will have."""
    name = vm["name"][: -len(ARRIVING)] if vm["name"].endswith(ARRIVING) else vm["name"]
    return [("name", name), ("uuid", vm["uuid"]), *(("mac", mac) for mac in vm["macs"])]


def superseded(held: t.Iterable[Note], added: Reading, vms: t.Iterable[NotedVm]) -> list[Note]:
    """What ``added``, a reading with these VMs, replaces: earlier readings of its machine, by its
    clock, and the claims that it settles."""
    own = [note for note in held if note.machine == added.machine]
    vms = list(vms)
    return [
        note
        for note in own
        if (isinstance(note, Claim) and settles(vms, added.at, note))
        or (isinstance(note, Reading) and note.at < added.at)
    ]


def last_marks(held: t.Iterable[Note]) -> dict[str, MaintenanceMark]:
    """The last mark of each machine."""
    last: dict[str, MaintenanceMark] = {}
    for note in held:
        if isinstance(note, MaintenanceMark) and (
            note.machine not in last or note.at > last[note.machine].at
        ):
            last[note.machine] = note
    return last


def is_news(held: t.Iterable[Note], mark: MaintenanceMark) -> bool:
    """Whether it is later than what is held of its machine, and says something else: what is held
    tells since when."""
    last = last_marks(held).get(mark.machine)
    return last is None or (last.at < mark.at and last.present != mark.present)


def lacking(
    held: t.Iterable[Note], current: t.Mapping[Reading, t.Sequence[NotedVm]]
) -> list[Reading]:
    """Those of ``current`` that a hypervisor does not hold; none that is older than what it has,
    and none that says the same unless it settles a claim."""
    held = list(held)
    last = latest(held)
    claims: dict[str, list[Claim]] = {}  # by machine: few have some, and there may be 200
    for other in held:
        if isinstance(other, Claim):
            claims.setdefault(other.machine, []).append(other)
    lacks = []
    for note, vms in current.items():
        known = last.get(note.machine)
        if known is not None and known.at >= note.at:
            continue
        settling = any(settles(vms, note.at, one) for one in claims.get(note.machine, ()))
        if known is None or known.digest != note.digest or settling:
            lacks.append(note)
    return lacks


def passed_on(
    held: t.Mapping[str, t.Collection[str]], machines: t.Mapping[str, str]
) -> dict[str, list[str]]:
    """The claims that each hypervisor is to hold too, as another holds them: a claim that a single
    hypervisor holds would be forgotten if that one died after the claim's own.

    ``held`` are the volumes of each hypervisor, ``machines`` their machine UUIDs.
    """
    everywhere = {volume for volumes in held.values() for volume in claims_in(volumes)}
    return {
        name: sorted(
            volume
            for volume in everywhere.difference(volumes)
            if volume.split(".")[1] != machines[name]
        )
        for name, volumes in held.items()
    }


def time_text(at: int) -> str:
    """A time of a note for people."""
    moment = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
