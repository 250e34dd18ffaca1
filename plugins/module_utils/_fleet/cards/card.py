# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The card of a VM: what another hypervisor needs to define it, in a file beside its disks.

Its name says which VM it is and where: ``NAME@HOST.fleet.xml``, or ``NAME@SOURCE+DESTINATION``
during a move; more of them where one that took the VM over died as well; none, ``NAME@.fleet.xml``,
of a VM that a cell runs. Only the name says where, so that one rename in the folder hands the VM
over. Any hypervisor that has the storage can write
the content: it is read strictly and within limits, and whoever uses it judges what the definition
asks for.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ... import _lxml
from ..._errors import XmlError
from ..._records import dataclass
from ..base import metadata
from ..base.names import CARD
from ..base.xml_values import number

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.metadata import Metadata

RUNNING, OFF = "running", "off"
MOST_BYTES = 8 * 1024 * 1024
MOST_SNAPSHOTS = 512
_MOST_COUNTED = 999_999
_ROOT, _SNAPSHOTS = "card", "snapshots"
_VERSION = "1"
_KEPT_BY = "kept-by"
_MACHINE = "machine"  # of a hypervisor; earlier versions neither write nor read it
_LONGEST_NAME = 255  # bytes, with what is put around it while it is written
_AROUND = len("..new")
_HOST = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"
_FILE = re.compile(rf"([^/\x00-\x1f\x7f]+)@((?:{_HOST}(?:\+{_HOST}){{0,3}})?){re.escape(CARD)}")
_ONE_HOST = re.compile(_HOST)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Attributes with secrets, which libvirt gives only when asked for them
_SECRET = ("passwd",)


@dataclass(frozen=True)
class CardName:
    """Which VM a card is of, and the inventory names of the hypervisors that may run it: one,
    source and destination of a move, or those that had it and the one that takes it over; none of
    a VM whose cell decides that."""

    name: str
    hosts: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file's name; raises XmlError for names that no card can have."""
        text = f"{self.name}@{'+'.join(self.hosts)}{CARD}"
        if parse_name(text) != self:
            raise XmlError(
                f"the VM {self.name!r} on {' and '.join(self.hosts) or 'a cell'} can have no card:"
                " the name of a VM has no '/', that of a hypervisor in the inventory letters,"
                f" digits and '._:-', a file's at most {_LONGEST_NAME} bytes, and of at most four"
                " hypervisors"
            )
        return text

    def on(self, *hosts: str) -> CardName:
        """The name of the same VM's card for other hypervisors."""
        return CardName(self.name, hosts)


@dataclass(frozen=True)
class Card:
    """A VM as its card describes it.

    ``definition`` is the inactive one, ``snapshots`` are the documents of its snapshots, parents
    first, ``current`` the name of the current one; none has a secret. ``running``: we want it to
    run. ``counter`` counts how often the VM was restarted elsewhere. ``kept_by`` is the hypervisor
    that has the definition of a cell's VM that is off. ``machine`` is the UUID of the hypervisor
    that wrote it, which an inventory may call otherwise by now; None if an earlier version wrote
    it.
    """

    at: CardName
    uuid: str
    definition: str
    running: bool
    autostart: bool = False
    snapshots: tuple[str, ...] = ()
    current: str | None = None
    counter: int = 0
    kept_by: str | None = None
    machine: str | None = None

    @property
    def name(self) -> str:
        """The VM's name."""
        return self.at.name

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hypervisors that may run it."""
        return self.at.hosts

    @functools.cached_property
    def root(self) -> Element:
        """The definition, parsed."""
        return _lxml.parse(self.definition, f"the card of {self.name}")

    @functools.cached_property
    def stored(self) -> Metadata:
        """Our metadata in the definition."""
        return metadata.parse(self.root) or metadata.Metadata()

    @property
    def start_order(self) -> int | None:
        """In which order it is started, if that was given."""
        return self.stored.start_order

    @property
    def start_delay(self) -> int:
        """Seconds to wait after its start before others of later orders are started."""
        return self.stored.start_delay or 0

    @functools.cached_property
    def disks(self) -> tuple[str, ...]:
        """The files of its disks that the definition names, without media."""
        return _named_disks(self.root)


@dataclass(frozen=True)
class CardFile:
    """A card that was read: ``identity`` is that of its file, ``problem`` why there is no card."""

    folder: str
    at: CardName
    card: Card | None = None
    identity: str = ""
    problem: str = ""

    @property
    def path(self) -> str:
        """The file."""
        return f"{self.folder}/{self.at.file}"


def parse_name(file: str) -> CardName | None:
    """What the name of a file says, None if it is no card's."""
    match = _FILE.fullmatch(file)
    if match is None or len(file.encode("utf-8", "replace")) + _AROUND > _LONGEST_NAME:
        return None
    name, hosts = match[1], tuple(filter(None, match[2].split("+")))
    if name in (".", "..") or name.startswith(".") or len(set(hosts)) != len(hosts):
        return None
    return CardName(name, hosts)


def disk_files(domain: Element) -> tuple[str | None, ...] | None:
    """The source of each disk of a definition, media aside: its file, None for one that is not a
    file. None in place of all if there is no disk."""
    disks = [
        disk
        for disk in domain.iterfind("devices/disk")
        if disk.get("device", "disk") not in ("cdrom", "floppy")
    ]
    if not disks:
        return None
    sources = [disk.find("source") for disk in disks]
    return tuple(
        source.get("file") if source is not None and disk.get("type") == "file" else None
        for disk, source in zip(disks, sources)
    )


def is_uuid(text: str | None) -> bool:
    """Whether a card can have it as a UUID."""
    return text is not None and _UUID.fullmatch(text) is not None


def text_of(card: Card) -> str:
    """The content of the card's file; raises XmlError for what could not be read back."""
    root = _lxml.new(
        _ROOT,
        {
            "version": _VERSION,
            "name": card.name,
            "uuid": card.uuid,
            "state": RUNNING if card.running else OFF,
            "autostart": "yes" if card.autostart else "no",
            "counter": str(card.counter),
            **({_KEPT_BY: card.kept_by} if card.kept_by else {}),
            **({_MACHINE: card.machine} if card.machine else {}),
        },
    )
    root.append(_without_secrets(_document(card.definition, "domain")))
    if card.snapshots:
        kept = _lxml.add(root, _SNAPSHOTS, {"current": card.current} if card.current else {})
        for text in card.snapshots:
            kept.append(_without_secrets(_document(text, "domainsnapshot")))
    text = _lxml.tostring(root) + "\n"
    read = parse(card.at.file, text)
    if _outline(read) != _outline(card):
        raise XmlError(f"the card of {card.name} would not be read back as it is written")
    return text


def _outline(card: Card) -> tuple[object, ...]:
    flags = (card.running, card.autostart, card.counter, card.kept_by, card.machine)
    return card.uuid, *flags, len(card.snapshots)


def parse(file: str, text: str) -> Card:
    """The card in a file of that name; raises XmlError for anything that is not exactly one."""
    at = parse_name(file)
    if at is None:
        raise XmlError(f"{file}: this is not the name of a card, NAME@HYPERVISOR{CARD}")
    if len(text) > MOST_BYTES:
        raise XmlError(f"{file}: more than {MOST_BYTES} characters")
    root = _lxml.parse(text, file)
    if root.tag != _ROOT or root.get("version") != _VERSION:
        raise XmlError(f"{file}: this is not a card of version {_VERSION}")
    uuid, state, autostart = (root.get(key, "") for key in ("uuid", "state", "autostart"))
    counter = number(root.get("counter"))
    if root.get("name") != at.name:
        raise XmlError(f"{file}: it is the card of another VM, {root.get('name', '')[:64]!r}")
    if not _UUID.fullmatch(uuid):
        raise XmlError(f"{file}: {uuid[:64]!r} is not a UUID")
    if state not in (RUNNING, OFF) or autostart not in ("yes", "no"):
        raise XmlError(f"{file}: its state or autostart is none that a card has")
    if counter is None or counter > _MOST_COUNTED:
        raise XmlError(f"{file}: its counter is not a number up to {_MOST_COUNTED}")
    kept_by = root.get(_KEPT_BY)
    if kept_by is not None and not _ONE_HOST.fullmatch(kept_by):
        raise XmlError(f"{file}: {_KEPT_BY} is not the name of a hypervisor")
    machine = root.get(_MACHINE)
    if machine is not None and not _UUID.fullmatch(machine):
        raise XmlError(f"{file}: {_MACHINE} is not a UUID")
    domains, kept = root.findall("domain"), root.findall(_SNAPSHOTS)
    if len(domains) != 1 or len(kept) > 1 or len(root) != len(domains) + len(kept):
        raise XmlError(f"{file}: a card has one definition, and at most one list of snapshots")
    _require_identity(file, domains[0], at.name, uuid)
    documents = list(kept[0]) if kept else []
    if len(documents) > MOST_SNAPSHOTS:
        raise XmlError(f"{file}: more than {MOST_SNAPSHOTS} snapshots")
    if any(document.tag != "domainsnapshot" for document in documents):
        raise XmlError(f"{file}: something among its snapshots is none")
    card = Card(
        at,
        uuid,
        _lxml.tostring(domains[0]),
        state == RUNNING,
        autostart == "yes",
        tuple(_lxml.tostring(document) for document in documents),
        kept[0].get("current") if kept else None,
        counter,
        kept_by,
        machine,
    )
    # Of thousands of cards only the disks are looked at: parsing each once more is half of that
    vars(card)["disks"] = _named_disks(domains[0])
    return card


def _named_disks(domain: Element) -> tuple[str, ...]:
    return tuple(path for path in disk_files(domain) or () if path)


def _require_identity(file: str, domain: Element, name: str, uuid: str) -> None:
    """Raise XmlError unless the definition is of this VM: what one reader takes from the head, the
    other from the definition."""
    for tag, wanted in (("name", name), ("uuid", uuid)):
        values = [(element.text or "").strip() for element in domain.findall(tag)]
        if values != [wanted]:
            raise XmlError(f"{file}: the {tag} in its definition is not {wanted!r}")


def _document(text: str, tag: str) -> Element:
    root = _lxml.parse(text, f"<{tag}>")
    if root.tag != tag:
        raise XmlError(f"<{tag}> expected, and not <{str(root.tag)[:64]}>")
    return root


def _without_secrets(document: Element) -> Element:
    for element in document.iter():
        for name in _SECRET:
            element.attrib.pop(name, "")
    return document
