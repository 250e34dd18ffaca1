# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guarded import of libvirt's binding, and the conversion of its errors to ours."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import traceback
import typing as t

from ._errors import NO_CODE, LibvirtFailure
from ._libxml2 import ENTITY_LOADER


class _Last(threading.local):
    """The last error that libvirt reported to this thread."""

    error: tuple[int, int, str | None] = (0, 0, None)  # code, domain, message


_last = _Last()


def _remember(_context: object, error: tuple[int, int, str | None]) -> None:
    """Store what libvirt reports; code, domain and message come first."""
    _last.error = error[0], error[1], error[2]


try:
    import libvirt

    LIBVIRT_IMPORT_ERROR: str | None = None

    # libvirt prints every error to standard error unless it is given a handler
    libvirt.registerErrorHandler(_remember, None)
    LibvirtError: type[Exception] = libvirt.libvirtError
except ImportError:
    LIBVIRT_IMPORT_ERROR = traceback.format_exc()
    LibvirtError = Exception

# libvirt's constants by its own names without VIR_, as numbers, so that a module can be loaded
# without the binding and report that it is missing. They are part of libvirt's stable interface; a
# test compares them with those of the binding.

# include/libvirt/virterror.h
ERR_INTERNAL_ERROR = 1
ERR_NO_SUPPORT = 3
ERR_INVALID_ARG = 8
ERR_OPERATION_FAILED = 9
ERR_XML_ERROR = 27
ERR_SYSTEM_ERROR = 38
ERR_NO_DOMAIN = 42
ERR_NO_NETWORK = 43
ERR_AUTH_FAILED = 45
ERR_NO_STORAGE_POOL = 49
ERR_NO_STORAGE_VOL = 50
ERR_STORAGE_VOL_EXIST = 90
ERR_OPERATION_INVALID = 55
ERR_NO_INTERFACE = 57
ERR_NO_SECRET = 66
ERR_CONFIG_UNSUPPORTED = 67
ERR_NO_DOMAIN_METADATA = 80
ERR_AGENT_UNRESPONSIVE = 86
ERR_ARGUMENT_UNSUPPORTED = 74

# include/libvirt/libvirt-domain.h
CONNECT_LIST_DOMAINS_ACTIVE = 1
CONNECT_LIST_DOMAINS_INACTIVE = 2
CONNECT_LIST_DOMAINS_PERSISTENT = 4
CONNECT_LIST_DOMAINS_MANAGEDSAVE = 256
CONNECT_LIST_DOMAINS_AUTOSTART = 1024
CONNECT_LIST_DOMAINS_HAS_SNAPSHOT = 4096
CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT = 1 << 29  # leaves out what would wait for a domain's job
DOMAIN_AFFECT_LIVE = 1
DOMAIN_AFFECT_CONFIG = 2
DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL = 1  # the files exist
DOMAIN_BLOCK_COPY_SHALLOW = 1  # the files below the disk stay below the copy
DOMAIN_BLOCK_COPY_REUSE_EXT = 2  # the file exists
DOMAIN_BLOCK_COPY_TRANSIENT_JOB = 4  # ends with the VM; without it, no persistent VM is copied
DOMAIN_BLOCK_JOB_ABORT_PIVOT = 2
DOMAIN_BLOCK_RESIZE_BYTES = 1
DOMAIN_DEFINE_VALIDATE = 1  # against libvirt's schema
DOMAIN_DEVICE_MODIFY_FORCE = 4  # also a drive whose tray the guest has locked, as udev does
DOMAIN_GET_HOSTNAME_AGENT = 2
DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE = 0
DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT = 1
DOMAIN_INTERFACE_ADDRESSES_SRC_ARP = 2
DOMAIN_JOB_BOUNDED = 1
DOMAIN_JOB_UNBOUNDED = 2
DOMAIN_JOB_STATS_COMPLETED = 1
DOMAIN_METADATA_DESCRIPTION = 0
DOMAIN_METADATA_TITLE = 1
DOMAIN_METADATA_ELEMENT = 2
DOMAIN_RUNNING = 1
DOMAIN_BLOCKED = 2
DOMAIN_PAUSED = 3
DOMAIN_PAUSED_CRASHED = 10
DOMAIN_PAUSED_IOERROR = 5
DOMAIN_SHUTOFF = 5
DOMAIN_CRASHED = 6
DOMAIN_PMSUSPENDED = 7
DOMAIN_SHUTDOWN_ACPI_POWER_BTN = 1
DOMAIN_RUNNING_POSTCOPY = 10
DOMAIN_RUNNING_POSTCOPY_FAILED = 11
DOMAIN_START_AUTODESTROY = 2  # ends with the connection that has started it
DOMAIN_START_PAUSED = 1
DOMAIN_START_AUTODESTROY = 2  # when the connection ends
DOMAIN_STATS_STATE = 1
DOMAIN_STATS_CPU_TOTAL = 2
DOMAIN_STATS_BALLOON = 4
DOMAIN_STATS_VCPU = 8
DOMAIN_STATS_INTERFACE = 16
DOMAIN_STATS_BLOCK = 32
DOMAIN_UNDEFINE_MANAGED_SAVE = 1
DOMAIN_UNDEFINE_SNAPSHOTS_METADATA = 2
DOMAIN_UNDEFINE_NVRAM = 4
DOMAIN_UNDEFINE_KEEP_NVRAM = 8
DOMAIN_UNDEFINE_CHECKPOINTS_METADATA = 16
DOMAIN_XML_SECURE = 1  # with passwords of consoles
DOMAIN_XML_INACTIVE = 2  # the definition that the next start uses

# include/libvirt/libvirt-domain-snapshot.h
DOMAIN_SNAPSHOT_CREATE_REDEFINE = 1
DOMAIN_SNAPSHOT_CREATE_CURRENT = 2
DOMAIN_SNAPSHOT_CREATE_DISK_ONLY = 16
DOMAIN_SNAPSHOT_CREATE_ATOMIC = 128
DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY = 2  # its contents stay in the disks
DOMAIN_SNAPSHOT_LIST_TOPOLOGICAL = 1024  # parents first
DOMAIN_SNAPSHOT_XML_SECURE = 1  # with passwords of consoles

# include/libvirt/libvirt-host.h
CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE = 1
CPU_COMPARE_IDENTICAL = 1
CPU_COMPARE_SUPERSET = 2
CONNECT_BASELINE_CPU_EXPAND_FEATURES = 1

# include/libvirt/libvirt-network.h
CONNECT_LIST_NETWORKS_ACTIVE = 2

# include/libvirt/libvirt-secret.h
SECRET_USAGE_TYPE_VOLUME = 1

# include/libvirt/libvirt-storage.h
CONNECT_LIST_STORAGE_POOLS_ACTIVE = 2
STORAGE_POOL_CREATE_WITH_BUILD = 1  # creates the folder if missing
STORAGE_VOL_DOWNLOAD_SPARSE_STREAM = 1
STORAGE_VOL_FILE = 0
STORAGE_VOL_GET_PHYSICAL = 1
STORAGE_VOL_UPLOAD_SPARSE_STREAM = 1

# include/libvirt/libvirt-stream.h
STREAM_RECV_STOP_AT_HOLE = 1


if t.TYPE_CHECKING:
    # The methods of libvirt's objects that are called: the binding has no type information. Flags
    # have no default here, so that they are always stated.

    class VirConnect(t.Protocol):
        """``libvirt.virConnect``."""

        _o: object  # of the binding itself: closed by its destructor

        def close(self) -> int: ...
        def isAlive(self) -> int: ...
        def getType(self) -> str: ...
        def getHostname(self) -> str: ...
        def getLibVersion(self) -> int: ...
        def getVersion(self) -> int: ...
        def getCapabilities(self) -> str: ...
        def getInfo(self) -> tuple[str, int, int, int, int, int, int, int]: ...
        def getMemoryStats(self, cell: int, flags: int) -> dict[str, int]: ...
        def getFreeMemory(self) -> int: ...
        def getCellsFreeMemory(self, start: int, most: int) -> list[int]: ...

        def getDomainCapabilities(
            self,
            emulator: str | None,
            arch: str | None,
            machine: str | None,
            kind: str | None,
            flags: int,
        ) -> str: ...

        def compareHypervisorCPU(
            self,
            emulator: str | None,
            arch: str | None,
            machine: str | None,
            kind: str | None,
            xml: str,
            flags: int,
        ) -> int: ...

        def baselineHypervisorCPU(
            self,
            emulator: str | None,
            arch: str | None,
            machine: str | None,
            kind: str | None,
            xmls: list[str],
            flags: int,
        ) -> str: ...

        def lookupByName(self, name: str) -> VirDomain: ...
        def lookupByUUIDString(self, uuid: str) -> VirDomain: ...
        def listAllDomains(self, flags: int) -> list[VirDomain]: ...
        def createXML(self, xml: str, flags: int) -> VirDomain: ...
        def defineXMLFlags(self, xml: str, flags: int) -> VirDomain: ...
        def domainXMLToNative(self, format: str, xml: str, flags: int) -> str: ...  # noqa: A002

        def getAllDomainStats(
            self, groups: int, flags: int
        ) -> list[tuple[VirDomain, dict[str, object]]]: ...

        def domainListGetStats(
            self, domains: list[VirDomain], groups: int, flags: int
        ) -> list[tuple[VirDomain, dict[str, object]]]: ...

        def listAllSecrets(self, flags: int) -> list[VirSecret]: ...
        def secretDefineXML(self, xml: str, flags: int) -> VirSecret: ...
        def secretLookupByUUIDString(self, uuid: str) -> VirSecret: ...
        def listAllStoragePools(self, flags: int) -> list[VirStoragePool]: ...
        def storagePoolDefineXML(self, xml: str, flags: int) -> VirStoragePool: ...
        def storagePoolLookupByName(self, name: str) -> VirStoragePool: ...
        def storageVolLookupByPath(self, path: str) -> VirStorageVol: ...
        def newStream(self, flags: int) -> VirStream: ...

        def listAllNetworks(self, flags: int) -> list[VirNetwork]: ...
        def listAllInterfaces(self, flags: int) -> list[VirInterface]: ...
        def listAllNWFilters(self, flags: int) -> list[VirNWFilter]: ...

    class VirStoragePool(t.Protocol):
        """``libvirt.virStoragePool``."""

        def name(self) -> str: ...
        def UUIDString(self) -> str: ...
        def XMLDesc(self, flags: int) -> str: ...
        def info(self) -> list[int]: ...
        def isActive(self) -> int: ...
        def isPersistent(self) -> int: ...
        def create(self, flags: int) -> int: ...
        def destroy(self) -> int: ...
        def autostart(self) -> int: ...
        def setAutostart(self, autostart: int) -> int: ...
        def refresh(self, flags: int) -> int: ...
        def createXML(self, xml: str, flags: int) -> VirStorageVol: ...
        def listAllVolumes(self, flags: int) -> list[VirStorageVol]: ...
        def listVolumes(self) -> list[str]: ...
        def storageVolLookupByName(self, name: str) -> VirStorageVol: ...

    class VirStorageVol(t.Protocol):
        """``libvirt.virStorageVol``."""

        def name(self) -> str: ...
        def key(self) -> str: ...
        def path(self) -> str: ...
        def XMLDesc(self, flags: int) -> str: ...
        def info(self) -> list[int]: ...
        def infoFlags(self, flags: int) -> list[int]: ...
        def delete(self, flags: int) -> int: ...
        def resize(self, capacity: int, flags: int) -> int: ...
        def storagePoolLookupByVolume(self) -> VirStoragePool: ...
        def upload(self, stream: VirStream, offset: int, length: int, flags: int) -> int: ...
        def download(self, stream: VirStream, offset: int, length: int, flags: int) -> int: ...

    class VirStream(t.Protocol):
        """``libvirt.virStream``."""

        def send(self, data: bytes) -> int: ...
        def sendHole(self, length: int, flags: int) -> int: ...
        def recv(self, count: int) -> bytes: ...
        def recvFlags(self, count: int, flags: int) -> bytes | int: ...
        def recvHole(self, flags: int) -> int: ...
        def finish(self) -> int: ...
        def abort(self) -> int: ...

    class VirSecret(t.Protocol):
        """``libvirt.virSecret``; the value is read of those alone that a move makes."""

        def UUIDString(self) -> str: ...
        def usageID(self) -> str: ...
        def usageType(self) -> int: ...
        def value(self, flags: int) -> bytes: ...

        def setValue(self, value: bytes, flags: int) -> int: ...
        def undefine(self) -> int: ...

    class VirNetwork(t.Protocol):
        """``libvirt.virNetwork``."""

        def name(self) -> str: ...
        def XMLDesc(self, flags: int) -> str: ...
        def isActive(self) -> int: ...
        def autostart(self) -> int: ...

    class VirInterface(t.Protocol):
        """``libvirt.virInterface``."""

        def name(self) -> str: ...
        def XMLDesc(self, flags: int) -> str: ...

    class VirNWFilter(t.Protocol):
        """``libvirt.virNWFilter``."""

        def name(self) -> str: ...

    class VirError(t.Protocol):
        """``libvirt.libvirtError``."""

        def get_error_message(self) -> str | None: ...
        def get_error_code(self) -> int | None: ...
        def get_error_domain(self) -> int | None: ...

    class VirDomainSnapshot(t.Protocol):
        """``libvirt.virDomainSnapshot``."""

        def delete(self, flags: int) -> int: ...
        def getName(self) -> str: ...
        def getXMLDesc(self, flags: int) -> str: ...

    class VirDomainCheckpoint(t.Protocol):
        """``libvirt.virDomainCheckpoint``."""

        def getName(self) -> str: ...

    class _Address(t.TypedDict):
        addr: str
        prefix: int
        type: int

    class InterfaceAddresses(t.TypedDict):
        """What ``virDomain.interfaceAddresses`` knows of an interface of a guest."""

        addrs: list[_Address] | None
        hwaddr: str | None

    class VirDomain(t.Protocol):
        """``libvirt.virDomain``."""

        def name(self) -> str: ...
        def UUIDString(self) -> str: ...
        def XMLDesc(self, flags: int) -> str: ...

        def isActive(self) -> int: ...
        def isPersistent(self) -> int: ...
        def autostart(self) -> int: ...
        def hasManagedSaveImage(self, flags: int) -> int: ...
        def memoryStats(self) -> dict[str, int]: ...
        def state(self, flags: int) -> list[int]: ...

        def blockInfo(self, path: str, flags: int) -> list[int]: ...
        def blockJobInfo(self, path: str, flags: int) -> dict[str, int]: ...
        def hasCurrentSnapshot(self, flags: int) -> int: ...
        def hostname(self, flags: int) -> str: ...

        def interfaceAddresses(
            self, source: int, flags: int
        ) -> dict[str, InterfaceAddresses] | None: ...
        def info(self) -> list[int]: ...
        def fsFreeze(self, mountpoints: list[str] | None, flags: int) -> int: ...
        def fsThaw(self, mountpoints: list[str] | None, flags: int) -> int: ...
        def jobInfo(self) -> list[int]: ...
        def jobStats(self, flags: int) -> dict[str, int | str]: ...
        def listAllCheckpoints(self, flags: int) -> list[VirDomainCheckpoint]: ...
        def listAllSnapshots(self, flags: int) -> list[VirDomainSnapshot]: ...
        def snapshotNum(self, flags: int) -> int: ...
        def maxMemory(self) -> int: ...
        def metadata(self, kind: int, uri: str | None, flags: int) -> str: ...
        def managedSaveGetXMLDesc(self, flags: int) -> str: ...
        def snapshotCurrent(self, flags: int) -> VirDomainSnapshot: ...
        def snapshotLookupByName(self, name: str, flags: int) -> VirDomainSnapshot: ...

        def abortJob(self) -> int: ...
        def backupBegin(self, backup: str, checkpoint: str | None, flags: int) -> int: ...
        def backupGetXMLDesc(self, flags: int) -> str: ...
        def attachDeviceFlags(self, xml: str, flags: int) -> int: ...
        def blockCopy(self, disk: str, xml: str, params: dict[str, int], flags: int) -> int: ...
        def blockJobAbort(self, disk: str, flags: int) -> int: ...
        def blockResize(self, path: str, size: int, flags: int) -> int: ...
        def create(self) -> int: ...
        def createWithFlags(self, flags: int) -> int: ...
        def destroy(self) -> int: ...
        def detachDeviceFlags(self, xml: str, flags: int) -> int: ...
        def managedSave(self, flags: int) -> int: ...
        def managedSaveRemove(self, flags: int) -> int: ...
        def migrateSetMaxDowntime(self, downtime: int, flags: int) -> int: ...
        def openConsole(self, device: str | None, stream: VirStream, flags: int) -> int: ...
        def rename(self, name: str, flags: int) -> int: ...
        def resume(self) -> int: ...
        def revertToSnapshot(self, snapshot: VirDomainSnapshot, flags: int) -> int: ...
        def screenshot(self, stream: VirStream, screen: int, flags: int) -> str: ...
        def setAutostart(self, autostart: int) -> int: ...
        def setBlockIoTune(self, disk: str, params: dict[str, int], flags: int) -> int: ...
        def setMemoryFlags(self, memory: int, flags: int) -> int: ...
        def setVcpusFlags(self, count: int, flags: int) -> int: ...
        def shutdown(self) -> int: ...
        def shutdownFlags(self, flags: int) -> int: ...
        def snapshotCreateXML(self, xml: str, flags: int) -> VirDomainSnapshot: ...
        def suspend(self) -> int: ...
        def undefineFlags(self, flags: int) -> int: ...
        def updateDeviceFlags(self, xml: str, flags: int) -> int: ...

        def setMetadata(
            self, kind: int, metadata: str | None, key: str | None, uri: str | None, flags: int
        ) -> int: ...


def open_connection(uri: str) -> VirConnect:
    """``virConnect`` for ``uri`` (virConnectOpen), for reading and writing."""
    if not uri.startswith("test:///") or uri == "test:///default":
        return _open(uri)
    with ENTITY_LOADER:  # so that no other thread parses with lxml meanwhile
        _take_lxml_out_of_libvirts_way()
        return _open(uri)


def _open(uri: str) -> VirConnect:
    connection: VirConnect = libvirt.open(uri)
    return connection


def _take_lxml_out_of_libvirts_way() -> None:
    """Give libxml2 its own entity loader back before libvirt reads a file with it.

    The test driver reads its document in this process. A distribution's lxml shares libxml2 with
    libvirt, and lxml 4's entity loader, installed for the whole process, takes the private data of
    libvirt's parser for a Python object of its own: a crash whenever that memory looks like one.
    """
    if "lxml.etree" not in sys.modules:
        return
    with contextlib.suppress(OSError, AttributeError):
        libxml2 = _libxml2()
        libxml2.xmlSetExternalEntityLoader(libxml2.xmlNoNetExternalEntityLoader)


@functools.cache
def _libxml2() -> ctypes.CDLL:
    return ctypes.CDLL("libxml2.so.2")


def failure(action: str, error: VirError) -> LibvirtFailure:
    """The LibvirtFailure for a ``libvirt.libvirtError`` raised during ``action``.

    The exception may have no code: it asks for the thread's last error, which is lost when Python's
    collector frees another of libvirt's objects in between.
    """
    reported = (error.get_error_code(), error.get_error_domain(), error.get_error_message())
    code, domain, message = reported if reported[0] else _last.error
    return LibvirtFailure(
        action,
        str(message or error),
        code=int(code or NO_CODE),
        domain=int(domain or NO_CODE),
    )


@contextlib.contextmanager
def calling(action: str) -> t.Iterator[None]:
    """Convert libvirt's exception to LibvirtFailure with ``action`` in its message."""
    _last.error = _Last.error
    try:
        yield
    except LibvirtError as error:
        if not hasattr(error, "get_error_code"):
            raise
        raised = failure(action, t.cast("VirError", error))
        error.__traceback__ = None  # its frames hold libvirt's objects, and with them each other
        raise raised from None
