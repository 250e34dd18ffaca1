# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Killing a verb before each of its effects, on libvirt's test driver and on real files.

Each call of a verb is a process of its own, as far as the product can tell. One that is killed has
no more effect: what it would tidy up in ``except`` and ``finally`` does not happen either.

libvirt's test driver keeps pools in memory only, so what libvirt does to the files of a pool is
done here, in its order: the file of a new volume comes first, that of a removed one goes first.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    LibvirtFailure,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    effects_storage as storage,
)
from ansible_collections.fleet.virt.plugins.module_utils._libvirt import ERR_OPERATION_INVALID

Value = t.TypeVar("Value")
_DISK_ONLY = 16  # VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY
_READS = ("ask", "close", "connect", "find", "list", "look", "open", "read")
_CHANGES = ("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir")
_CHANGES += ("os.symlink", "os.truncate")
_PLUG = ("attachDeviceFlags", "detachDeviceFlags", "updateDeviceFlags", "setBlockIoTune")
_PLUG += ("blockResize",)
_NODE = """
<node>
 <cpu><nodes>1</nodes><sockets>2</sockets><cores>8</cores><threads>1</threads><mhz>2000</mhz>
  <model>i686</model></cpu>
 <memory>33554432</memory>
 <domain type='test'><name>theirs</name><memory>131072</memory><os><type>hvm</type></os><devices>
  <disk type='file' device='disk'><source file='{root}/pool/theirs.raw'/>
  <target dev='sda' bus='scsi'/></disk></devices></domain>
 <network><name>lan</name><forward mode='nat'/>
  <ip address='192.0.2.1' netmask='255.255.255.0'/></network>
 <pool type='dir'><name>default</name><target><path>{pool}</path></target></pool>
 <pool type='dir'><name>base</name><target><path>{root}/base</path></target></pool>
</node>
"""
THEIRS = {"theirs.raw": b"somebody's disk", "notes.txt": b"somebody's notes"}


class Killed(BaseException):
    """The process is gone: nothing catches this, and nothing has an effect after it."""


class Effects:
    """Counts effects; before that with the number ``kill_at`` the process is killed.

    ``fail_at`` are the numbers of those that fail instead, which the verb is told.
    """

    def __init__(self, root: Path, kill_at: int = 0, *fail_at: int) -> None:
        self.root = str(root)
        self.kill_at, self.fail_at = kill_at, fail_at
        self.done: list[str] = []
        self.dead = False
        self.failed = ""

    def next(self, what: str) -> None:
        """The effect ``what`` is about to take place."""
        if self.dead:
            raise Killed
        self.done.append(what)
        if len(self.done) == self.kill_at:
            self.dead = True
            raise Killed(what)
        if len(self.done) in self.fail_at:
            self.failed = self.failed or what
            raise LibvirtFailure(what, "it fails here")

    def audit(self, event: str, given: tuple[t.Any, ...]) -> None:
        """One of Python's own events (sys.addaudithook)."""
        if event == "open":
            path, _mode, flags = given
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                return
        elif event in _CHANGES:
            path = given[1] if event in ("os.rename", "os.link", "os.symlink") else given[0]
        else:
            return
        folder = given[-1] if event in ("os.remove", "os.rmdir") else -1
        if isinstance(path, int) or not isinstance(path, (str, bytes, os.PathLike)):
            return
        name = os.fsdecode(path)
        if isinstance(folder, int) and folder >= 0:
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        if name.startswith(self.root) and not name.endswith(".lock"):
            self.next(f"{event} {os.path.relpath(name, self.root)}")


_now: list[Effects | None] = []  # whose effects are counted, the last; empty without the hook


def _hook(event: str, given: tuple[t.Any, ...]) -> None:
    effects = _now[-1] if event == "open" or event.startswith("os.") else None
    if effects is not None:
        effects.audit(event, given)


@contextlib.contextmanager
def counted(effects: Effects | None) -> Iterator[None]:
    """While the effects on files below its folder are counted; None suspends that."""
    if not _now:
        _now.append(None)
        sys.addaudithook(_hook)  # for good
    _now.append(effects)
    try:
        yield
    finally:
        _now.pop()


class Machine:
    """A hypervisor with a pool, somebody else's VM and files, and calls that are killed on it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, connection: Connection) -> None:
        self.root, self.pool, self.connection = root, root / "pool", connection
        self._patch = monkeypatch
        self._theirs = self._definition("theirs")
        self.plugged: dict[str, ElementTree.Element] = {}
        self.effects = Effects(root)

    def call(
        self,
        verb: t.Callable[[Connection], Value],
        *,
        kill_at: int = 0,
        fail_at: int = 0,
        fail_too: int = 0,
        other: Machine | None = None,
    ) -> Value | None:
        """What ``verb`` returns, None if it was killed; its effects are in ``effects``.

        ``fail_too`` is another that fails. ``other`` is a hypervisor that it works on as well.
        """
        self.effects = effects = Effects(self.root, kill_at, fail_at, fail_too)
        if other is not None:
            other.effects = effects
        with living() as number, self._patch.context() as patch:
            patch.setattr(os, "getpid", lambda: number)
            elsewhere = None if other is None else other.connection
            patch.setattr(Connection, "local", property(lambda this: this is not elsewhere))
            patch.setattr(Connection, "call", self._calls(Connection.call, other))
            # no threads, and nothing reaches a disk: both take most of the time
            patch.setattr(deadline, "call", lambda function, **_limits: function())
            patch.setattr(os, "fsync", lambda _descriptor: None)
            patch.setattr(locks, "own_folder", lambda: self.root)
            patch.setattr(storage, "upload", self._upload)
            patch.setattr(storage, "copy", self._copy)
            try:
                with counted(effects):
                    return verb(self.connection)
            except Killed:
                return None

    def _calls(self, real: t.Callable[..., t.Any], other: Machine | None) -> t.Callable[..., t.Any]:
        """``Connection.call`` with its effects counted, and the pool's folder in step with it."""

        def call(
            this: Connection,
            action: str,
            function: t.Callable[..., t.Any],
            *args: t.Any,
            **more: t.Any,
        ) -> t.Any:
            name = getattr(function, "__name__", "")
            if name == "blockInfo":  # the test driver invents it
                return [os.stat(args[0]).st_size] * 3
            if name == "jobInfo":  # it has no jobs
                return [0]
            machine = other if other is not None and this is other.connection else self
            if (
                name == "XMLDesc"
                and not args[0] & 2
                and function.__self__.name() in machine.plugged
            ):
                return machine.live(str(function.__self__.name()), args[0])
            if action.split(maxsplit=1)[0] in _READS:
                return real(this, action, function, *args, **more)
            machine.effects.next(action)
            before = machine.volumes()
            with counted(None):
                if name == "undefineFlags":  # the test driver has no NVRAM and no checkpoints
                    args = (args[0] & 3,)
                if name in _PLUG and machine.plugged:  # nor does it plug devices
                    return machine.plug(name, function.__self__, *args)
                if name == "updateDeviceFlags":  # nor does it change devices
                    return self._update(function.__self__, str(args[0]))
                if name == "createWithFlags" and function.__self__.isActive():
                    raise LibvirtFailure(action, "it runs", code=ERR_OPERATION_INVALID)
                if name == "resize":  # nor does it grow volumes
                    return os.truncate(function.__self__.path(), args[0])
                if name == "create" and args:  # nor makes it folders of pools
                    args = (0,)
                if name == "snapshotCreateXML" and args[1] & _DISK_ONLY:  # nor files for snapshots
                    return self._take_alone(function.__self__, str(args[0]))
                if name == "delete" and "snapshot='external'" in _xml_of(function.__self__):
                    self._merge(function.__self__)
                paused = name == "createWithFlags" and args[0] & 1
                if paused:  # nor does it start paused
                    args = (args[0] & ~1,)
                answer = real(this, action, function, *args, **more)
                if paused:
                    function.__self__.suspend()
                if action.startswith("refresh"):
                    machine._refresh()
                else:
                    machine._follow(before, action)
            return answer

        return call

    def _take_alone(self, raw: t.Any, xml: str) -> t.Any:
        """A snapshot in files of its own; the VM goes on in them."""
        root, domain = ElementTree.fromstring(xml), ElementTree.fromstring(raw.XMLDesc(3))
        if raw.hasCurrentSnapshot(0):
            parent = ElementTree.SubElement(root, "parent")
            ElementTree.SubElement(parent, "name").text = raw.snapshotCurrent(0).getName()
        ElementTree.SubElement(root, "state").text = "shutoff"
        number = 1 + len(raw.listAllSnapshots(0))
        ElementTree.SubElement(root, "creationTime").text = str(number)
        root.append(domain)
        made = raw.snapshotCreateXML(ElementTree.tostring(root, encoding="unicode"), 3)
        files = {one.get("name"): one.find("source") for one in root.iterfind("disks/disk")}
        for disk in domain.iterfind("devices/disk"):
            target, source = disk.find("target"), disk.find("source")
            path = files.get(target.get("dev")) if target is not None else None
            if source is not None and path is not None:
                source.set("file", str(path.get("file")))
        self.connection.conn.defineXML(ElementTree.tostring(domain, encoding="unicode"))
        return made

    def _merge(self, snapshot: t.Any) -> None:
        """What lies on the files of the snapshot lies on what is below them."""
        root, raw = ElementTree.fromstring(_xml_of(snapshot)), snapshot.getDomain()
        made = root.find("disks/disk/source")
        below = root.find("domain/devices/disk/source")
        assert made is not None
        assert below is not None
        old, new = f"'{made.get('file')}'", f"'{below.get('file')}'"
        self.connection.conn.defineXML(raw.XMLDesc(3).replace(old, new))
        for other in raw.listAllSnapshots(0):
            if other.getName() != snapshot.getName():
                raw.snapshotCreateXML(_xml_of(other).replace(old, new), 1)

    def run_devices(self, name: str) -> None:
        """From now on the running VM's devices are what is plugged into it and out of it."""
        self.plugged[name] = ElementTree.fromstring(self.live(name))

    def live(self, name: str, flags: int = 1) -> str:
        """The description of the running VM."""
        raw = self.connection.conn.lookupByName(name)
        text = str(raw.XMLDesc(flags))
        devices = self.plugged[name].find("devices") if name in self.plugged else None
        if devices is None or not raw.isActive():
            return text
        root = ElementTree.fromstring(text)
        there = root.find("devices")
        assert there is not None
        there[:] = list(devices)
        return ElementTree.tostring(root, encoding="unicode")

    def plug(self, call: str, raw: t.Any, *given: t.Any) -> None:
        """Do to the running VM's devices what libvirt's call would do."""
        devices = self.plugged[str(raw.name())].find("devices")
        assert devices is not None
        if call == "blockResize":
            os.truncate(given[0], given[1])
            return
        if call == "setBlockIoTune":
            (old,) = (one for one in devices if _key_of(one) == ("disk", given[0]))
            for tune in old.findall("iotune"):
                old.remove(tune)
            limits = {limit: value for limit, value in given[1].items() if value}
            tune = ElementTree.SubElement(old, "iotune") if limits else old
            for limit, value in limits.items():
                ElementTree.SubElement(tune, limit).text = str(value)
            return
        new = ElementTree.fromstring(given[0])
        at = next((at for at, one in enumerate(devices) if _key_of(one) == _key_of(new)), None)
        if (at is None) != (call == "attachDeviceFlags"):
            raise LibvirtFailure(call, "no such device" if at is None else "target is in use")
        if at is not None:
            del devices[at]
        if call != "detachDeviceFlags":
            devices.insert(len(devices) if at is None else at, new)

    def _update(self, raw: t.Any, xml: str) -> None:
        """A disk of the definition becomes this one."""
        root, new = ElementTree.fromstring(raw.XMLDesc(3)), ElementTree.fromstring(xml)
        devices = root.find("devices")
        target = new.find("target")
        if devices is None or target is None:
            raise AssertionError(xml)
        for at, old in enumerate(list(devices)):
            found = old.find("target")
            if found is not None and found.get("dev") == target.get("dev"):
                devices[at] = new
        self.connection.conn.defineXML(ElementTree.tostring(root, encoding="unicode"))

    def _refresh(self) -> None:
        """libvirt looks at the folder, which the test driver never does."""
        raw = self.connection.conn.storagePoolLookupByName("default")
        known = self.volumes()
        there = {path.name: path for path in self.pool.iterdir()}
        for name in known.keys() - there.keys():
            raw.storageVolLookupByName(name).delete(0)
        for name in there.keys() - known.keys() - THEIRS.keys():
            size = there[name].stat().st_size
            raw.createXML(
                f"<volume><name>{name}</name><capacity>{size}</capacity></volume>",
                0,
            )

    def _follow(self, before: t.Mapping[str, str], action: str) -> None:
        """The files of the pool become what its volumes have become."""
        raw = self.connection.conn.storagePoolLookupByName("default")
        after = self.volumes()
        for name in after.keys() - before.keys():
            volume, path = raw.storageVolLookupByName(name), self.pool / name
            path.touch(exist_ok=False)
            try:
                self.effects.next(f"{action}: libvirt notes it")
            except Killed:
                volume.delete(0)
                raise
            except LibvirtFailure:  # it does it, and its answer is lost
                os.truncate(path, volume.info()[1])
                raise DeadlineExceeded("it fails here", 300) from None
            os.truncate(path, volume.info()[1])
        for name in before.keys() - after.keys():
            (self.pool / name).unlink(missing_ok=True)
            try:
                self.effects.next(f"{action}: libvirt answers")
            except LibvirtFailure:  # the answer is lost
                raise DeadlineExceeded("it fails here", 300) from None

    def _upload(self, _connection: Connection, volume: t.Any, name: str, content: bytes) -> None:
        self._fill(Path(volume.path()), content, f"fill {name}")

    def _copy(self, source: str, _format: str, target: str, _to: str) -> None:
        self._fill(Path(target), Path(source).read_bytes(), f"fill {os.path.basename(target)}")

    def _fill(self, path: Path, content: bytes, what: str) -> None:
        for count in (len(content) // 2, len(content)):
            self.effects.next(f"{what} up to {count}")
            with counted(None), path.open("r+b") as file:
                file.write(content[:count])

    def volumes(self) -> dict[str, str]:
        """What libvirt knows of the pool: names of volumes with their descriptions."""
        raw = self.connection.conn.storagePoolLookupByName("default")
        return {str(one.name()): str(one.XMLDesc(0)) for one in raw.listAllVolumes(0)}

    def files(self) -> dict[str, bytes]:
        """What is in the pool's folder but somebody else's."""
        there = {path.name: path for path in self.pool.iterdir() if path.name not in THEIRS}
        return {name: path.read_bytes()[:64] for name, path in there.items()}

    def domains(self) -> dict[str, t.Any]:
        """libvirt's objects by name, but somebody else's."""
        listed = {str(raw.name()): raw for raw in self.connection.conn.listAllDomains(0)}
        return {name: raw for name, raw in listed.items() if name != "theirs"}

    def stored(self, name: str) -> Metadata | None:
        """Our metadata in the definition."""
        return metadata.parse(_lxml.parse(self._definition(name), name))

    def _definition(self, name: str) -> str:
        return str(self.connection.conn.lookupByName(name).XMLDesc(2))

    def orphans(self) -> set[str]:
        """Files and volumes that no definition names as its own."""
        named = set()
        for name in self.domains():
            kept = self.stored(name)
            named |= {one.name for one in kept.volumes} if kept else set()
        return (self.files().keys() | self.volumes().keys()) - named

    def faults(self) -> list[str]:
        """What is wrong whatever the calls were to do."""
        found = [f"{name} belongs to no VM" for name in sorted(self.orphans())]
        there = {name: (self.pool / name) for name in THEIRS}
        found += [f"{name} is gone" for name, path in there.items() if not path.exists()]
        found += [
            f"{name} was changed"
            for name, path in there.items()
            if path.exists() and path.read_bytes() != THEIRS[name]
        ]
        if self._definition("theirs") != self._theirs:
            found.append("somebody else's VM was changed")
        return found


def _key_of(device: ElementTree.Element) -> tuple[str, str]:
    """What libvirt knows a device by: the target of a disk, the address of a NIC."""
    target, mac = device.find("target"), device.find("mac")
    if device.tag == "interface" and mac is not None:
        return device.tag, mac.get("address", "").lower()
    return device.tag, target.get("dev", "") if target is not None else ""


def _xml_of(raw: t.Any) -> str:
    """The description of a snapshot; of anything else there is none."""
    return str(raw.getXMLDesc(0)) if hasattr(raw, "getXMLDesc") else ""


@contextlib.contextmanager
def living() -> Iterator[int]:
    """The number of a process of somebody else's, which is at work."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


class Machines:
    """New hypervisors, each with nothing of ours on it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root, self._patch, self._count = root, monkeypatch, 0

    @contextlib.contextmanager
    def new(self, pool: Path | None = None) -> Iterator[Machine]:
        """Its pool's files are in a folder of its own, also if its libvirt calls that ``pool``."""
        self._count += 1
        root = self._root / str(self._count)
        (root / "pool").mkdir(parents=True)
        (root / "base").mkdir()
        for name, content in THEIRS.items():
            (root / "pool" / name).write_bytes(content)
        (root / "node.xml").write_text(_NODE.format(root=root, pool=pool or root / "pool"))
        with connect(f"test://{root}/node.xml", 10) as connection:
            yield Machine(root, self._patch, connection)


def plain(text: str) -> dict[str, str]:
    """A definition as pairs that can be compared, without what each VM has of its own."""
    own = ("uuid", "metadata")  # an empty <metadata> stays behind
    elements = [
        element
        for element in ElementTree.fromstring(text).iter()
        if element.tag not in own and not element.tag.endswith("}volume")
    ]
    return {
        f"{number} {element.tag}": f"{element.attrib} {(element.text or '').strip()}"
        for number, element in enumerate(elements)
    }
