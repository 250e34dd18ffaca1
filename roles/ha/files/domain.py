# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OCF resource agent ``ocf:fleet:domain``: a VM that Pacemaker runs on one hypervisor of a cell.

The VM is defined only where it runs, and persistently. What defines it is its card, a file beside
its disks on the storage that the cell shares. The exit statuses decide what Pacemaker does next:

OCF_ERR_GENERIC      tried again, here or elsewhere; a disk that is still locked, for one
OCF_ERR_INSTALLED    not here, but perhaps on another hypervisor
OCF_ERR_CONFIGURED   nowhere, until a person has looked
failure of a stop    this hypervisor is fenced; hence 0 there only if no QEMU of the VM is left

It needs libvirt's Python binding and nothing else: it is a file of its own on hypervisors.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.dom import minidom
from xml.etree import ElementTree

try:
    import libvirt
except ImportError:
    libvirt = None

SUCCESS, ERR_GENERIC, ERR_ARGS, ERR_UNIMPLEMENTED = 0, 1, 2, 3
ERR_INSTALLED, ERR_CONFIGURED, NOT_RUNNING = 5, 6, 7
URI = "qemu:///system"
PROC = "/proc"
TEMPORARY = "/run/resource-agents"  # where agents have files that a boot removes
CARD = "@.fleet.xml"  # no hypervisor is in the name: the cell decides which one runs it
PHASE = "{urn:fleet.virt:1}phase"
QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
MOST_BYTES = 8 * 1024 * 1024
DRIVES = ("cdrom", "floppy")
OF_MEDIUM = ("source", "backingStore", "mirror")
# What a definition names beside files in pools: what the distribution has, sources of randomness,
# and sockets of libvirt's own
SYSTEM = (
    "/usr/",
    "/dev/random",
    "/dev/urandom",
    "/dev/hwrng",
    "/var/lib/libvirt/qemu/channel/",
    "/run/libvirt/qemu/",
)
LOG = "/var/log/libvirt/qemu/{}-console.log"
# Elements whose text, and attributes whose value may have a slash and is no path
NO_PATH = {(tag, "") for tag in ("title", "description", "partition", "cmdline", "entry")}
NO_PATH |= {(tag, "") for tag in ("serial", "vendor", "product")} | {("entry", "name")}
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What QEMU, virtlockd and sanlock say of a disk that another process writes to
LOCKED = re.compile(r"\block\b|is locked|another process using|resource busy", re.IGNORECASE)
# QEMU's own locks: bytes of the file, asked for by F_OFD_GETLK (fcntl(2))
FLOCK = struct.Struct("hhqqi4x")
LOCK_FIRST, LOCK_BYTES = 100, 200
UNLOCKED = 20.0  # seconds to wait for a lock before Pacemaker tries again
ASK_AGAIN = 20.0  # a guest that is booting does not hear the power button
# Parts of an operation's time that libvirt, or the storage, has for one answer, and to come back
ANSWER, RETURN = 0.25, 0.5
SILENT = 2.0  # seconds for an answer of a libvirt that gave none before
KILL = 5.0  # seconds for a QEMU to end by SIGTERM
UNANSWERED = "libvirt was told to start it, and does not say whether it has"

META_DATA = """<?xml version="1.0"?>
<!DOCTYPE resource-agent SYSTEM "ra-api-1.dtd">
<resource-agent name="domain" version="1.0">
<version>1.1</version>
<longdesc lang="en">
A VM of fleet.virt, whose disks and whose card are on storage that all hypervisors of the cell have.
Start defines it from the card, stop shuts the guest down and undefines it. Pacemaker does not
migrate it: that is done by the playbook fleet.virt.migrate_vm.
</longdesc>
<shortdesc lang="en">Runs a VM of fleet.virt on one hypervisor of a cell</shortdesc>
<parameters>
<parameter name="uuid" unique="1" required="1">
<longdesc lang="en">UUID of the VM.</longdesc>
<shortdesc lang="en">UUID of the VM</shortdesc>
<content type="string"/>
</parameter>
<parameter name="cards" unique="0" required="1">
<longdesc lang="en">Folder on shared storage that has the VM's card, as an absolute path.</longdesc>
<shortdesc lang="en">Folder with the VM's card</shortdesc>
<content type="string"/>
</parameter>
</parameters>
<actions>
<action name="start" timeout="120s"/>
<action name="stop" timeout="120s"/>
<action name="monitor" timeout="30s" interval="10s" depth="0"/>
<action name="validate-all" timeout="20s"/>
<action name="meta-data" timeout="5s"/>
</actions>
</resource-agent>
"""


class Ended(Exception):
    """The action ends with this exit status; the reason is for people."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def note(text: str) -> None:
    """A line in Pacemaker's log."""
    print(" ".join(text.split()), file=sys.stderr, flush=True)


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What ``work`` returns or raises; TimeoutError if it hangs, as libvirt or a mount may."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append((work(), None))
        except Exception as error:  # it is raised in the other thread
            result.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(seconds, 0.1))
    if not result:
        raise TimeoutError("no answer")
    value, error = result[0]
    if error is not None:
        raise error
    return value


def processes(uuid: str) -> list[int]:
    """The QEMU processes of the VM on this hypervisor, whatever libvirt knows of them. A definition
    names its emulator, so a program counts by these arguments of libvirt's, and not by its name;
    what wraps an emulator has them, too."""
    pids, wanted = [], [b"-uuid", uuid.encode()]
    for name in os.listdir(PROC):
        if name.isdigit():
            with contextlib.suppress(OSError):
                words = Path(PROC, name, "cmdline").read_bytes().split(b"\0")
                if any(words[place : place + 2] == wanted for place in range(len(words))):
                    pids.append(int(name))
    return pids


def parse(text: str | bytes) -> ElementTree.Element:
    """An XML document in UTF-8, whatever it declares; raises ValueError for one that is none, or
    that declares entities."""
    data = text if isinstance(text, str) else text.decode()
    if "<!DOCTYPE" in data or "<!ENTITY" in data:
        raise ValueError("it has a document type")
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - there are no entities
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None


def is_locked(path: str) -> bool:
    """Whether a process, here or on another host that has the storage, has QEMU's lock of it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, LOCK_FIRST, LOCK_BYTES, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(descriptor)
    return bool(FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


class Card:
    """The definition in a card, as far as it is judged here; raises ValueError for one that is
    not a card of the VM."""

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                raise ValueError(f"this is no regular file of at most {MOST_BYTES} bytes")
            content = stream.read(MOST_BYTES)
        root = parse(content)
        self.path, self.content = path, content.decode()
        self.uuid = root.get("uuid", "")
        # Which hypervisor keeps the definition while the VM is off as was asked for, empty for none
        self.kept_by = root.get("kept-by", "") if root.get("state") == "off" else ""
        domains = root.findall("domain")
        if root.tag != "card" or len(domains) != 1:
            raise ValueError("this is no card with one definition")
        self.domain = domains[0]
        self.name = os.path.basename(path)[: -len(CARD)]
        for tag, value in (("name", self.name), ("uuid", self.uuid)):
            if [(item.text or "").strip() for item in self.domain.findall(tag)] != [value]:
                raise ValueError(f"the {tag} in its definition is not {value!r}")

    def text(self, media: set[str]) -> str:
        """The definition as it is in the file, but for drives: they may start empty, and do if
        their medium is not in one of the folders ``media``."""
        document = minidom.parseString(self.content)  # noqa: S318 - parsed before
        domains = document.getElementsByTagName("domain")
        domain = next(node for node in domains if node.parentNode is document.documentElement)
        for disk in domain.getElementsByTagName("disk"):
            if disk.getAttribute("device") in DRIVES:
                sources = disk.getElementsByTagName("source")
                if all(os.path.dirname(item.getAttribute("file")) in media for item in sources):
                    for source in sources:
                        source.setAttribute("startupPolicy", "optional")
                else:
                    for child in [node for node in disk.childNodes if node.nodeName in OF_MEDIUM]:
                        disk.removeChild(child)
        return str(domain.toxml())

    def locked(self) -> str | None:
        """A disk that another process writes to; None if there is none."""
        for disk in self.domain.iterfind("devices/disk"):
            source = disk.find("source")
            file = source.get("file") if source is not None else None
            if file and disk.get("device") not in DRIVES:
                with contextlib.suppress(OSError):  # libvirt says what is wrong with it
                    if is_locked(file):
                        return file
        return None

    def require_movable(self, folders: set[str]) -> None:
        """Refuse what ties the VM to one hypervisor or reaches past its disks, since any host that
        has the storage could have written the card; ``folders`` are those of pools here."""
        domain = parse(self.text(folders))
        devices = ("hostdev", "filesystem", "tpm", "disk/shareable", "interface/script")
        places = [*(f"devices/{name}" for name in devices), "os/nvram"]
        problems = [place.rpartition("/")[2] for place in places if domain.find(place) is not None]
        problems += [
            item.tag.rpartition("}")[2] for item in domain if str(item.tag).startswith(QEMU)
        ]
        labels = domain.iter("seclabel")
        if any(item.get("type", "dynamic") != "dynamic" or len(item) for item in labels):
            problems.append("a seclabel of its own")
        for disk in domain.iterfind("devices/disk"):
            source = disk.find("source")
            file = (source.get("file") if source is not None else None) or ""
            if disk.get("device") in DRIVES:
                continue
            if os.path.dirname(file) not in folders:
                problems.append(f"the disk {file or 'that is no file'}, which is in no pool here")
            elif os.path.islink(file):
                problems.append(f"the disk {file}, which is a link")
        metadata = domain.find("metadata")
        skipped = set() if metadata is None else {id(item) for item in metadata.iter()}
        for item in domain.iter():
            if id(item) not in skipped:
                texts = [value for key, value in item.items() if (item.tag, key) not in NO_PATH]
                texts += [] if (item.tag, "") in NO_PATH else [item.text or ""]
                # A program is none that whoever has the storage could have put there
                beside = set() if item.tag == "emulator" else folders
                problems += [text for text in map(str.strip, texts) if self._is_past(text, beside)]
        if problems:
            shown = ", ".join(dict.fromkeys(problems))
            raise Ended(ERR_CONFIGURED, f"{self.path} has {shown}: no VM of a cell")

    def _is_past(self, path: str, folders: set[str]) -> bool:
        """Whether the text is a path to what the VM has no business with; libvirt takes one that is
        not absolute from its own folder."""
        if "/" not in path or os.path.dirname(path) in folders or path == LOG.format(self.name):
            return False
        return os.path.normpath(path) != path or not path.startswith(SYSTEM)


def find_card(folder: str, uuid: str) -> Card:
    """The only card of the VM in the folder."""
    cards, unreadable = [], []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        reason = f"{folder}: {error.strerror}; the storage is not mounted on this hypervisor"
        raise Ended(ERR_INSTALLED, reason) from None
    for name in names:
        if name.endswith(CARD) and not name.startswith("."):
            path = f"{folder}/{name}"
            try:
                card = Card(path)
            except (OSError, ValueError) as error:
                unreadable.append(f"{path}: {error}")
            else:
                cards += [card] if card.uuid == uuid else []
    if len(cards) > 1:
        paths = " and ".join(card.path for card in cards)
        raise Ended(ERR_CONFIGURED, f"{paths} are both of the VM {uuid}; keep the current one")
    if not cards:
        more = f"; {'; '.join(unreadable)}" if unreadable else ""
        raise Ended(ERR_INSTALLED, f"no card in {folder} is of the VM {uuid}{more}")
    return cards[0]


class Vm:
    """The VM on this hypervisor."""

    def __init__(self, uuid: str, cards: str, seconds: float) -> None:
        self.uuid, self.cards = uuid, cards
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        # What is left for forcing the guest off is at most half of the time
        self.guest_end = self.begin + max(seconds - 30, seconds / 2)
        self.seconds, self.answer = seconds, seconds * ANSWER
        self.patience = self.begin + seconds * RETURN
        self.connection: Any = None

    def connect(self) -> Any:
        """The connection to libvirt, None if it does not answer in time."""
        try:
            if self.connection is None:
                self.connection = within(self.answer, lambda: libvirt.open(URI))
            if within(self.answer, self.connection.isAlive):
                return self.connection
        except (TimeoutError, libvirt.libvirtError) as error:
            self.note_silence(error)
        self.connection = None
        return None

    def note_silence(self, error: Exception) -> None:
        """libvirt gave no answer; one that hangs must not take the time for what is left to do."""
        note(f"libvirt does not answer: {error}")
        if isinstance(error, TimeoutError):
            self.answer = min(self.answer, SILENT)

    def find(self, connection: Any) -> Any:
        """The domain here, None if libvirt has none."""
        try:
            return within(self.answer, lambda: connection.lookupByUUIDString(self.uuid))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
        return None

    def state(self) -> int | None:
        """libvirt's state of it, VIR_DOMAIN_SHUTOFF also without a definition; None if libvirt does
        not answer."""
        connection = self.connect()
        if connection is None:
            return None
        try:
            domain, state = self.find(connection), int(libvirt.VIR_DOMAIN_SHUTOFF)
            if domain is not None:
                state = int(within(self.answer, lambda: domain.state(0))[0])
        except (TimeoutError, libvirt.libvirtError) as error:
            self.note_silence(error)
            return None
        self.mark().unlink(missing_ok=True)
        return state

    def card(self) -> Card:
        """Its card."""
        try:
            card: Card = within(self.answer, lambda: find_card(self.cards, self.uuid))
        except TimeoutError:
            reason = f"{self.cards} does not answer: the storage hangs on this hypervisor"
            raise Ended(ERR_INSTALLED, reason) from None
        return card

    def monitor(self, *, probe: bool) -> int:
        """Whether it runs; a probe also removes the definition that a run elsewhere left behind."""
        state = self.state()
        if state == libvirt.VIR_DOMAIN_CRASHED:
            raise Ended(ERR_GENERIC, "the guest has crashed")
        if state not in (None, libvirt.VIR_DOMAIN_SHUTOFF):
            return SUCCESS
        # Not looked for before: that of another VM, whose storage hangs, may keep it waiting
        pids = processes(self.uuid)
        if state is None:  # a libvirt that is restarted ends no guest
            if not pids and self.mark().exists():
                raise Ended(ERR_GENERIC, UNANSWERED)
            return SUCCESS if pids else NOT_RUNNING
        if pids:
            raise Ended(ERR_GENERIC, f"process {pids[0]} runs it, and libvirt does not know it")
        if probe:
            self.remove_leftover()
        return NOT_RUNNING

    def start(self) -> int:
        """Define it from the card and start it."""
        while (state := self.state()) is None:
            if time.monotonic() > self.patience:
                raise Ended(ERR_INSTALLED, "libvirt does not answer on this hypervisor")
            time.sleep(1)
        if state not in (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED):
            return SUCCESS
        if processes(self.uuid):
            crashed = state == libvirt.VIR_DOMAIN_CRASHED
            reason = "the guest has crashed" if crashed else "libvirt does not know a QEMU of it"
            raise Ended(ERR_GENERIC, f"a process of it runs: {reason}")
        card = self.card()
        limit = self.end - self.seconds / 12 - time.monotonic()
        try:
            within(limit, lambda: self.create(card))
        except libvirt.libvirtError as error:
            self.mark().unlink(missing_ok=True)
            # libvirt does not always wait for what QEMU says of the lock
            locked = LOCKED.search(str(error)) or self.is_locked(card)
            status = ERR_GENERIC if locked else ERR_INSTALLED
            raise Ended(status, f"{card.name} does not start here: {error}") from None
        except TimeoutError:
            reason = f"{card.name} did not start in time: libvirt hangs here"
            raise Ended(ERR_INSTALLED, reason) from None
        return SUCCESS

    def is_locked(self, card: Card) -> bool:
        """Whether another process writes to a disk of it; no, where the storage does not say."""
        try:
            return within(self.answer, card.locked) is not None
        except TimeoutError:
            return False

    def mark(self) -> Path:
        """The file that says that libvirt was told to start it, and has not answered. A libvirt
        that hangs may do so at any time: without its answer nothing proves that the VM is off."""
        return Path(os.environ.get("HA_RSCTMP") or TEMPORARY, f"fleet-{self.uuid}.starting")

    def create(self, card: Card) -> None:
        """Define it and start it."""
        domain = self.define(card)
        self.wait_unlocked(card)
        mark = self.mark()
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        domain.create()
        mark.unlink(missing_ok=True)

    def wait_unlocked(self, card: Card) -> None:
        """Wait a while for the locks of its disks: each failed start is a change of the cell's
        configuration, and Pacemaker would try again at once."""
        limit = min(time.monotonic() + UNLOCKED, self.patience)
        while (file := card.locked()) is not None:
            if time.monotonic() > limit:
                reason = f"{card.name} does not start: another process has the lock of {file}"
                raise Ended(ERR_GENERIC, reason)
            time.sleep(1)

    def define(self, card: Card) -> Any:
        """Its domain, defined as the card says."""
        connection = self.connection
        pools = [parse(pool.XMLDesc(0)) for pool in connection.listAllStoragePools()]
        folders = {path for pool in pools if (path := pool.findtext("target/path"))}
        card.require_movable(folders)
        old = self.find(connection)
        if old is not None:
            self.require_plain(old)
            if old.name() != card.name:
                old.undefine()
        domain = connection.defineXML(card.text(folders))
        if domain.autostart():
            domain.setAutostart(0)  # the cell decides where it runs after a boot
        return domain

    @staticmethod
    def require_plain(domain: Any) -> None:
        """Refuse to take a definition away that a run is at work on, or that has saved memory."""
        definition = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        if any(element.tag == PHASE for element in parse(definition).iter()):
            raise Ended(ERR_GENERIC, "a run is at work on its definition here")
        if domain.hasManagedSaveImage(0):
            name = domain.name()
            reason = f"it has saved memory here; remove that: virsh managedsave-remove {name}"
            raise Ended(ERR_INSTALLED, reason)

    def stop(self) -> int:
        """Ask the guest, then force it off; 0 only if no QEMU of it is left."""
        asked = forced = 0.0
        known: set[int] = set()
        while True:
            state, pids = self.state(), processes(self.uuid)
            known.update(pids)
            # A process that ends has no command line any more, and may still write
            left = any(os.path.exists(f"{PROC}/{pid}") for pid in known)
            if not left and state in (None, libvirt.VIR_DOMAIN_SHUTOFF):
                if not self.mark().exists():
                    self.remove_leftover()  # without libvirt a probe does that later
                    return SUCCESS
                reason = UNANSWERED
            else:
                reason = "it still runs"
            now = time.monotonic()
            if now > self.end - 1:
                raise Ended(ERR_GENERIC, reason)
            # Without libvirt the guest cannot be asked, and libvirt may come back
            limit = min(self.guest_end, self.patience) if state is None else self.guest_end
            crashed = state == libvirt.VIR_DOMAIN_CRASHED
            if now >= limit or state == libvirt.VIR_DOMAIN_SHUTOFF or crashed:
                forced = forced or now
                self.force(state, hard=now - forced >= KILL)
            elif state is not None and (not asked or now - asked >= ASK_AGAIN):
                self.ask()
                asked = now
            time.sleep(1)

    def ask(self) -> None:
        """Press the guest's power button."""
        try:
            domain = self.find(self.connection)
            if domain is not None:
                within(self.answer, domain.shutdown)
        except (TimeoutError, libvirt.libvirtError) as error:
            note(f"the guest cannot be asked: {error}")

    def force(self, state: int | None, *, hard: bool) -> None:
        """Have libvirt end it or, where libvirt cannot, end its processes."""
        if state is not None and state != libvirt.VIR_DOMAIN_SHUTOFF:
            try:
                domain = self.find(self.connection)
                if domain is not None:
                    within((self.end - time.monotonic()) / 3, domain.destroy)
                return
            except (TimeoutError, libvirt.libvirtError) as error:
                self.note_silence(error)
        for pid in processes(self.uuid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if hard else signal.SIGTERM)

    def remove_leftover(self) -> None:
        """Undefine it where it is shut off, if its card says how to define it again and that no
        playbook has shut it off here, which then finds it here. libvirt keeps what has saved
        memory, snapshots or NVRAM; it stays and is named."""
        try:
            domain = self.find(self.connection) if self.connection is not None else None
            if domain is None or not within(self.answer, lambda: self.is_off(domain)):
                return
            if self.card().kept_by != (setting("CRM_meta_on_node") or os.uname().nodename):
                within(self.answer, domain.undefine)
        except (Ended, TimeoutError, libvirt.libvirtError) as error:
            note(f"its definition stays on this hypervisor: {error}")

    def is_off(self, domain: Any) -> bool:
        """Whether it is off and defined here, with nothing that would be lost."""
        if domain.isActive() or not domain.isPersistent():
            return False
        self.require_plain(domain)
        return True


def setting(name: str) -> str:
    """What Pacemaker says, empty if it says nothing."""
    return os.environ.get(f"OCF_RESKEY_{name}", "")


def parameters() -> tuple[str, str]:
    """The parameters, which have to be right for all other actions."""
    uuid, cards = setting("uuid"), setting("cards")
    if not UUID.fullmatch(uuid):
        raise Ended(ERR_CONFIGURED, f"uuid: {uuid!r} is no UUID")
    if not os.path.isabs(cards):
        raise Ended(ERR_CONFIGURED, f"cards: {cards!r} is no absolute path")
    if libvirt is None:
        raise Ended(ERR_INSTALLED, "libvirt's Python binding is missing; install python3-libvirt")
    return uuid, cards


def act(action: str) -> int:
    """Carry the action out; its exit status."""
    if action in ("meta-data", "metadata"):
        sys.stdout.write(META_DATA)
        return SUCCESS
    if action in ("usage", "help"):
        print("usage: domain {start|stop|monitor|validate-all|meta-data}")
        return SUCCESS
    if action not in ("start", "stop", "monitor", "status", "validate-all"):
        raise Ended(ERR_UNIMPLEMENTED, f"{action!r} is no action of this agent")
    uuid, cards = parameters()
    libvirt.registerErrorHandler(lambda *_: None, None)
    seconds = int(setting("CRM_meta_timeout") or 60_000) / 1000
    vm = Vm(uuid, cards, seconds)
    if action == "start":
        return vm.start()
    if action == "stop":
        return vm.stop()
    if action == "validate-all":
        return SUCCESS
    return vm.monitor(probe=(setting("CRM_meta_interval") or "0") == "0")


def main() -> int:
    """The exit status of the action in the arguments."""
    try:
        return act(sys.argv[1] if len(sys.argv) == 2 else "")
    except Ended as error:
        print(f"ocf-exit-reason:{' '.join(str(error).split())}", file=sys.stderr, flush=True)
        return error.status


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread that waits for storage keeps no action from ending
