# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection's own element in a domain's ``<metadata>``, for what libvirt has no place for.

It is part of the domain's definition, so it migrates and is removed with the VM. Anyone with
read-only access to libvirt can read it, so it holds no secrets. Anyone who may define domains can
write it: a value that is too long or contains control characters is left out when reading (a host
key with a line break must not become two lines of a known_hosts file) and refused when writing, so
that whatever is written is read back exactly. What was left out is in ``broken``: nothing changes
such a VM, and what could be read of it still counts.
"""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import fields, replace

from ..._errors import XmlError
from ..._lxml import add, new
from ..._lxml import parse as parse_xml
from ..._records import dataclass
from .json_values import stored_problem
from .names import playbook_command
from .xml_values import number

if t.TYPE_CHECKING:
    from ..._lxml import Element

Item = t.TypeVar("Item")
NAMESPACE = "urn:fleet.virt:1"
# The key under which virDomainSetMetadata files the element; also our prefix
PREFIX = "fleet"
ELEMENT = "fleet"
_QUALIFIED = f"{{{NAMESPACE}}}"

# A phase means: only the call named as the owner, or repair, may start this domain. A phase that
# is not listed here was written by a later version; it is preserved and has the same effect.
PHASES = ("creating", "starting", "migrating", "purging", "seeding", "changing", "renaming")
# Target of the drive whose missing medium keeps libvirt from starting a domain in a phase
BLOCKING_DRIVE = "sdzz"
YES = "yes"
ROLES = ("disk", "seed", "new")  # new: created for a disk that is being added
# What is recorded about creating a volume: not created yet; being created; created, but by another
# hypervisor, which cannot identify the file. Otherwise it identifies the file that was created.
NOT_MADE, BEGUN, MADE = "no", "begun", "yes"

_MAX_LINE = 4096  # characters of any value but the long ones: PATH_MAX
_MAX_REQUEST = 256 * 1024
_MAX_ITEMS = 1024  # in any list
_MAX_DEPTH = 8  # levels of elements; libvirt itself cannot define a domain again with 256
_MAX_TOTAL = 256 * 1024  # characters of all values but the long ones
MAX_ORDER = 9999
MAX_DELAY = 3600  # seconds; of the numbers, the larger is the limit of either when reading
# Of a file that was created: its inode, and its generation where there is one
_IDENTITY = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# What stands for a phase, or a request, that is there and cannot be used
UNREADABLE, _NO_OBJECT = "unreadable", "null"
_SHOWN_FAULTS = 3
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Owner:
    """The process that is working on the domain. It is gone if the host's boot ID has changed, or
    if no process has this PID and start time (clock ticks since boot, /proc/PID/stat field 22)."""

    boot_id: str
    pid: int
    start_time: int
    run: str


@dataclass(frozen=True)
class ImageRef:
    """The image the domain was created from, as the user named it, and its content's digest."""

    name: str
    digest: str
    format: str


@dataclass(frozen=True)
class OwnVolume:
    """A volume that was created for this domain and is removed with it; ``role`` is one of ROLES.

    ``made`` is the state of its creation, and which file it is; empty if not recorded.
    """

    pool: str
    name: str
    path: str
    target: str
    role: str
    made: str = ""


@dataclass(frozen=True)
class Move:
    """Source and destination of a domain in phase ``migrating``, by their inventory names.

    ``autostart`` (yes, no) and ``state`` (running, shutoff) are the values before the move, which
    are restored after it.
    """

    source: str
    destination: str
    run: str
    autostart: str
    state: str


@dataclass(frozen=True)
class Metadata:
    """Everything the collection stores with a domain."""

    phase: str | None = None
    owner: Owner | None = None
    home: str | None = None
    image: ImageRef | None = None
    groups: tuple[str, ...] = ()
    affinity: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    zone: str | None = None
    user: str | None = None
    host_key: str | None = None
    volumes: tuple[OwnVolume, ...] = ()
    request: str | None = None
    addresses: tuple[str, ...] = ()
    evacuated_from: tuple[str, ...] = ()  # inventory names, the most recent one last
    seed: str | None = None  # of a VM that was not created from a request
    move: Move | None = None
    first_boot: str | None = None  # see first_boot.py; None once it is known to be over
    start_order: int | None = None
    start_delay: int | None = None  # seconds
    adopted: str | None = None  # "yes" for a VM that was adopted, not created
    ha: str | None = None  # "yes" for a VM that a cell restarts
    renamed_from: str | None = None  # its previous name
    clone_of: str | None = None  # the VM that it was copied from
    restored_from: str | None = None  # UUID and name of the archive, UUID::NAME
    broken: str | None = None  # why it cannot be relied on, only when read

    @property
    def made_here(self) -> bool:
        """Whether the collection created or adopted the domain: nothing else writes a request.

        Only then does it own its ``volumes``. Any domain may have been given a seed.
        """
        return self.request is not None

    @property
    def in_cell(self) -> bool:
        """Whether it is, or is to be, one of a cell's VMs."""
        return self.ha == YES


def leaving(metadata: Metadata, host: str) -> tuple[str, ...]:
    """``evacuated_from`` for a VM that is being evacuated from ``host``."""
    return (*arriving(metadata, host), host)


def arriving(metadata: Metadata, host: str) -> tuple[str, ...]:
    """``evacuated_from`` for a VM that is on ``host``, without evacuations it has returned from.

    One that was evacuated from a, then from b, comes back to b or straight to a.
    """
    names = metadata.evacuated_from
    return names[: names.index(host)] if host in names else names


def after_move(
    metadata: Metadata, host: str, pools: t.Mapping[str, str], copies: t.Collection[str]
) -> Metadata:
    """The metadata of a VM whose move to ``host`` is complete.

    ``pools`` are the names of its volumes' pools there, by volume path; ``copies`` are the paths of
    the volumes that were copied and are therefore different files there.
    """
    volumes = (
        replace(
            volume,
            pool=pools.get(volume.path, volume.pool),
            made="" if volume.path in copies else volume.made,
        )
        for volume in metadata.volumes
    )
    return replace(
        metadata,
        phase=None,
        owner=None,
        move=None,
        volumes=tuple(volumes),
        evacuated_from=arriving(metadata, host),
    )


# Fields stored as one element with text, as attributes, or as one element for each item
_TEXTS = (
    "phase",
    "home",
    "zone",
    "user",
    "host_key",
    "request",
    "seed",
    "first_boot",
    "adopted",
    "ha",
    "renamed_from",
    "clone_of",
    "restored_from",
)
_LONG = ("request", "seed")
_NUMBERS = ("start_order", "start_delay")
_IMAGE = tuple(field.name for field in fields(ImageRef))
_VOLUME = tuple(field.name for field in fields(OwnVolume))
_MOVE = tuple(field.name for field in fields(Move))
_LISTS = {
    "group": "groups",
    "avoid": "anti_affinity",
    "beside": "affinity",
    "tag": "tags",
    "address": "addresses",
    "evacuated": "evacuated_from",
}


def parse(element: Element) -> Metadata | None:
    """The metadata in a ``<domain>``, a ``<metadata>`` or our own element; None if there is none.

    Our own element is also accepted without a namespace, as virDomainGetMetadata returns it.
    Invalid values are left out, and named in ``broken``. Then there is a phase too, so that no run
    begins anything; and a request that is there is never None.
    """
    ours = _find(element)
    if ours is None:
        return None
    faults: list[str] = []
    values: dict[str, t.Any] = {}
    lists: dict[str, list[t.Any]] = {name: [] for name in (*_LISTS.values(), "volumes")}
    total = 0
    for child in ours:
        tag = _local(child)
        name = _LISTS.get(tag, "volumes")
        if tag not in _READERS and tag not in _LISTS:
            continue  # written by a later version, or by others
        try:
            value = _READERS.get(tag, _item)(child)
            total += 0 if tag in _LONG else len(child.text or "") + sum(map(len, child.values()))
            if tag not in _LISTS and tag != "volume":
                if tag in values:
                    raise XmlError("it is there twice")
                values[tag] = value
            elif len(lists[name]) >= _MAX_ITEMS:
                raise XmlError(f"more than {_MAX_ITEMS} items")
            else:
                lists[name].append(value)
        except XmlError as error:
            faults.append(f"{tag}: {error}")
            if tag in _STAND_INS:
                values.setdefault(tag, _STAND_INS[tag])
            elif isinstance(error, _UnknownFileError):
                lists[name].append(error.volume)
    if _is_deep(ours):
        faults.append(f"nested deeper than {_MAX_DEPTH} levels")
    if total > _MAX_TOTAL:
        faults.append(f"{total} characters; at most {_MAX_TOTAL} are allowed")
        # a response with those of many VMs would be too long
        lists = {name: lists[name] if name == "volumes" else [] for name in lists}
    if faults:
        values.setdefault("phase", UNREADABLE)
    values.update({name: tuple(items) for name, items in lists.items()})
    return Metadata(
        **values,
        broken="; ".join(list(dict.fromkeys(faults))[:_SHOWN_FAULTS]) or None,
    )


def _is_deep(ours: Element) -> bool:
    level = [child for child in ours if len(child)]
    for _depth in range(_MAX_DEPTH):
        level = [below for element in level for below in element if len(below)]
    return bool(level)


def remedy(name: str, broken: str) -> str:
    """Why the metadata of the VM ``name`` cannot be used, and what to do."""
    return (
        f"its metadata cannot be used ({broken}). If no run is working on it, remove them: virsh"
        f" metadata {shlex.quote(name)} {NAMESPACE} --remove --config (while it runs, again with"
        f" --live), and adopt it: {playbook_command('adopt', vm_name=name)}"
    )


def metadata_problems(name: str, *stored: Metadata | None) -> list[str]:
    """Why nothing may be done to the VM ``name`` with this metadata; empty if all can be used."""
    broken = dict.fromkeys(
        metadata.broken for metadata in stored if metadata is not None and metadata.broken
    )
    return [f"{name!r}: {remedy(name, reason)}" for reason in broken if reason]


def to_element(metadata: Metadata) -> Element:
    """Our element, in its namespace, for the ``<metadata>`` of a domain to be defined.

    Raises XmlError, naming the field, for a value that would not be read back unchanged.
    """
    # Parsed, not built: that is how to get a prefix that shows people whose element it is
    root = parse_xml(f'<{PREFIX}:{ELEMENT} xmlns:{PREFIX}="{NAMESPACE}"/>', "metadata")
    _fill(root, metadata, _QUALIFIED)
    return root


def put(domain: Element, metadata: Metadata) -> None:
    """Replace our element in the ``<metadata>`` of ``domain``."""
    place = domain.find("metadata")
    if place is None:
        place = add(domain, "metadata")
    for old in place.findall(f"{_QUALIFIED}{ELEMENT}"):
        place.remove(old)
    place.append(to_element(metadata))


def to_plain_element(metadata: Metadata) -> Element:
    """Our element without namespace, for virDomainSetMetadata, which adds PREFIX and NAMESPACE
    itself (and refuses an element that has that prefix already).

    Raises XmlError as ``to_element`` does.
    """
    root = new(ELEMENT)
    _fill(root, metadata, "")
    return root


def _local(element: Element) -> str:
    """Tag without our namespace; ``""`` for another namespace, a comment and the like."""
    tag: object = element.tag
    if not isinstance(tag, str):
        return ""
    if tag.startswith(_QUALIFIED):
        return tag[len(_QUALIFIED) :]
    return "" if tag.startswith("{") else tag


def _find(element: Element) -> Element | None:
    if element.tag == "domain":
        place = next(element.iterchildren("metadata"), None)
        if place is None:
            return None
        element = place
    if element.tag == "metadata":
        return next(element.iterchildren(_QUALIFIED + ELEMENT), None)
    return element if _local(element) == ELEMENT else None


def _problem(text: str, long: bool = False) -> str | None:
    """Why the value cannot be stored, None if it can. Only a long one may have several lines."""
    limit = _MAX_REQUEST if long else _MAX_LINE
    if len(text) > limit:
        return f"{len(text)} characters; at most {limit} are allowed"
    if text.isprintable():  # nearly always true, and fast
        return None
    if (_NOT_XML if long else _CONTROL).search(text) or _NOT_XML.search(text):
        return "it contains control characters; remove them"
    return None


def _attributes(element: Element, names: t.Sequence[str], *needed: str) -> dict[str, str]:
    values = {name: element.get(name, "") for name in names}
    for name, value in values.items():
        problem = _problem(value)
        if problem is not None:
            raise XmlError(f"{name}: {problem}")
    missing = [name for name in needed if not values[name]]
    if missing:
        raise XmlError(f"{missing[0]} is missing")
    return values


def _text(element: Element) -> str:
    text = element.text or ""
    problem = _problem(text, long=_local(element) in _LONG)
    if problem is not None:
        raise XmlError(problem)
    return text


def _item(element: Element) -> str:
    text = _text(element)
    if not text:
        raise XmlError("it is empty")
    return text


def _object(element: Element) -> str:
    text = _text(element)
    problem = stored_problem(text)
    if problem is not None:
        raise XmlError(problem)
    return text


def _number(element: Element) -> int:
    value = number(element.text)
    if value is None or value > max(MAX_ORDER, MAX_DELAY):
        raise XmlError("it is not a number, or too large")
    return value


def _owner(element: Element) -> Owner:
    values = _attributes(element, ("boot_id", "run"), "boot_id")
    pid, start_time = number(element.get("pid")), number(element.get("start_time"))
    if pid is None or start_time is None:
        raise XmlError("pid or start_time is not a number")
    return Owner(values["boot_id"], pid, start_time, values["run"])


def _image(element: Element) -> ImageRef:
    return ImageRef(**_attributes(element, _IMAGE, "name"))


def _move(element: Element) -> Move:
    return Move(**_attributes(element, _MOVE, "source", "destination"))


class _UnknownFileError(XmlError):
    """What identifies the file of ``volume`` is no identity; what else it says still counts."""

    def __init__(self, volume: OwnVolume) -> None:
        super().__init__("made is neither a word nor the numbers of a file")
        self.volume = volume


def _volume(element: Element) -> OwnVolume:
    volume = OwnVolume(**_attributes(element, _VOLUME, "pool", "name"))
    if volume.made not in ("", NOT_MADE, BEGUN, MADE) and not _IDENTITY.fullmatch(volume.made):
        raise _UnknownFileError(replace(volume, made=""))
    return volume


# How each element but the items of lists is read; raises XmlError for what cannot be used
_READERS: dict[str, t.Callable[[Element], object]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_LONG, _object),
    **dict.fromkeys(_NUMBERS, _number),
    "phase": _item,
    "owner": _owner,
    "image": _image,
    "move": _move,
    "volume": _volume,
}
_STAND_INS = {"phase": UNREADABLE, "request": _NO_OBJECT}


def _fill(root: Element, metadata: Metadata, namespace: str) -> None:
    if metadata.broken:
        raise XmlError(f"metadata that cannot be used are not written: {metadata.broken}")

    def put(tag: str, text: str | None = None, **attributes: str) -> None:
        for name, value in {"": text or "", **attributes}.items():
            problem = _problem(value, long=tag in _LONG)
            if problem:
                raise XmlError(f"metadata {tag}{'.' + name if name else ''}: {problem}")
        add(root, namespace + tag, attributes, text)

    for name in _TEXTS:
        if getattr(metadata, name) is not None:
            put(name, getattr(metadata, name))
    for name in _NUMBERS:
        if getattr(metadata, name) is not None:
            put(name, str(getattr(metadata, name)))
    if metadata.owner:
        put("owner", **{name: str(value) for name, value in vars(metadata.owner).items()})
    if metadata.image:
        put("image", **vars(metadata.image))
    if metadata.move:
        put("move", **vars(metadata.move))
    for tag, name in _LISTS.items():
        for item in _bounded(name, getattr(metadata, name)):
            put(tag, item)
    for volume in _bounded("volumes", metadata.volumes):
        put("volume", **vars(volume))
    back = parse(root)
    if back != metadata:  # such as a volume without a pool, an owner with a negative pid
        raise XmlError(f"metadata would not be read back: {back.broken if back else 'nothing'}")


def _bounded(name: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
    if len(items) > _MAX_ITEMS:
        raise XmlError(f"metadata {name}: {len(items)} items; at most {_MAX_ITEMS} are allowed")
    return items
