# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hypervisor's end of a console: a program that the controller sends there over SSH.

Its first line of input is the request, and its first line of output the reply. ``hold`` keeps a
password on the screen for as long as its input is open; ``screen`` and ``serial`` connect its input
and output to the graphics server or to the serial console. It writes no file, and ends with its
input, and so with the controller.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import typing as t

from ..._errors import FleetVirtError
from ..._libvirt import (
    DOMAIN_AFFECT_LIVE,
    DOMAIN_XML_INACTIVE,
    DOMAIN_XML_SECURE,
    LibvirtError,
    calling,
    open_connection,
)
from ..._lxml import parse, tostring

if t.TYPE_CHECKING:
    from ..._libvirt import VirConnect, VirDomain
    from ..._lxml import Element

_BLOCK = 65536
_LONGEST = 65536  # bytes of a request
_LOOK = 5.0  # seconds between two checks whether the domain is still running
_SECONDS = 10.0  # for connecting to the graphics server
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is connected to, not bound
_PASSWORD, _UNTIL = "passwd", "passwdValidTo"


class Request(t.TypedDict):
    """What to do, for which domain; ``kind`` is its graphics type, the rest is for ``hold``."""

    do: str
    uri: str
    uuid: str
    kind: str
    password: str
    until: str
    seconds: float


def main() -> None:
    """Carry out the request in the first line of input."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, _ended)
    try:
        request: Request = json.loads(sys.stdin.buffer.readline(_LONGEST))
        connection = open_connection(request["uri"])
        with calling("find the VM"):
            domain = connection.lookupByUUIDString(request["uuid"])
        if request["do"] == "serial":
            _serial(connection, domain)
        else:
            (_hold if request["do"] == "hold" else _screen)(domain, request)
    except (FleetVirtError, OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            _say({"failed": str(error)})
        raise SystemExit(1) from None


def _ended(_number: int, _frame: object) -> None:
    raise SystemExit(1)


def _say(answer: t.Mapping[str, object]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def _graphics(domain: VirDomain, kind: str, flags: int = 0) -> Element:
    with calling("read the VM's definition"):
        text = domain.XMLDesc(flags)
    for element in parse(text, "domain").iterfind("devices/graphics"):
        if element.get("type") == kind:
            return element
    raise FleetVirtError(f"the VM has no graphics device of type {kind}")


def _hold(domain: VirDomain, request: Request) -> None:
    """Set a temporary password until the console closes. The old password is restored only if it
    has no expiry: one with an expiry belonged to another console."""
    before = _graphics(domain, request["kind"], DOMAIN_XML_SECURE)
    old = None if before.get(_UNTIL) else before.get(_PASSWORD)
    own = request["password"]
    try:
        _set(domain, request["kind"], own, request["until"])
    except LibvirtError as error:
        if before.get(_PASSWORD) is not None:
            raise FleetVirtError(f"cannot set a password: {error}") from None
        own = ""  # it was started without a password and cannot have one until it is restarted
    try:
        _say({"password": bool(own)})
        _wait(domain, request["seconds"])
    finally:
        if own:
            _restore(domain, request["kind"], own, old)


def _set(domain: VirDomain, kind: str, password: str, until: str | None = None) -> None:
    """Set the password of the running domain only; its definition is unchanged."""
    element = _graphics(domain, kind, DOMAIN_XML_SECURE)
    element.attrib.pop(_UNTIL, "")
    element.set(_PASSWORD, password)
    if until is not None:
        element.set(_UNTIL, until)
    domain.updateDeviceFlags(tostring(element), DOMAIN_AFFECT_LIVE)


def _restore(domain: VirDomain, kind: str, own: str, old: str | None) -> None:
    """Restore the former password; if there was none, set an empty one, which no client can use."""
    with contextlib.suppress(LibvirtError, FleetVirtError):  # it is no longer running
        if not domain.isActive():
            return
        if _graphics(domain, kind, DOMAIN_XML_SECURE).get(_PASSWORD) != own:
            return  # another console has set its own by now
        if old is None and domain.isPersistent():
            flags = DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE
            with contextlib.suppress(FleetVirtError):
                old = _graphics(domain, kind, flags).get(_PASSWORD)
        _set(domain, kind, old or "")


def _wait(domain: VirDomain, seconds: float) -> None:
    """Wait until the input ends, the VM is gone from this hypervisor, or the time is up."""
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    limit = time.monotonic() + seconds
    while not waiting.poll(_LOOK * 1000) and time.monotonic() < limit:
        with calling("check whether the VM is running"):
            if not domain.isActive():
                _say({"ended": "it was shut off or migrated"})
                return


def _screen(domain: VirDomain, request: Request) -> None:
    element = _graphics(domain, request["kind"])
    with _connected(element) as link:
        _say({"connected": True})
        _join(link)


def _serial(connection: VirConnect, domain: VirDomain) -> None:
    """Connect input and output to the first serial console; libvirt admits one client at a time."""
    stream = connection.newStream(0)
    with calling("open its serial console"):
        domain.openConsole(None, stream, 0)
    _say({"connected": True})

    def forward_output() -> None:
        with contextlib.suppress(LibvirtError, OSError):
            while data := stream.recv(_BLOCK):
                _write(data)
        os._exit(0)

    threading.Thread(target=forward_output, daemon=True).start()
    with contextlib.suppress(LibvirtError):
        while data := os.read(0, _BLOCK):
            while data:
                data = data[stream.send(data) :]
    os._exit(0)  # the other thread waits in libvirt


def _connected(element: Element) -> socket.socket:
    paths = [
        element.get("socket"),
        *(listen.get("socket") for listen in element.iterfind("listen")),
    ]
    path = next(filter(None, paths), None)
    if path is not None:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(_SECONDS)
        link.connect(path)
        return link
    port = int(element.get("port") or -1)
    if port <= 0:
        raise FleetVirtError("the VM's graphics device is not listening; is the VM running?")
    address = element.get("listen") or "127.0.0.1"
    return socket.create_connection((_HERE.get(address, address), port), timeout=_SECONDS)


def _join(link: socket.socket) -> None:
    """Forward input to the screen and the screen to output, until either ends."""
    link.settimeout(None)
    waiting = select.poll()
    for descriptor in (0, link.fileno()):
        waiting.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _event in waiting.poll():
            data = os.read(0, _BLOCK) if descriptor == 0 else link.recv(_BLOCK)
            if not data:
                return
            if descriptor == 0:
                link.sendall(data)
            else:
                _write(data)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
