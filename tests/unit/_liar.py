# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A daemon that speaks libvirt's protocol and says what it likes, as a program by itself.

  python3 _liar.py PORT KIND [CERTIFICATE KEY CA]

It prints its port, which it chooses if it is 0. ``KIND`` is a key of DOMAINS, which is what its one
domain is, or "garbage", or "flood". With the files it speaks TLS. It needs nothing but the standard
library: it is run on hypervisors of the laboratory too.
"""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import sys
import typing as t

_PROGRAM = 0x20008086
_CALL, _REPLY = 0, 1
_NO_SUPPORT = 3
# Procedures of libvirt's src/remote/remote_protocol.x
_OPEN, _CLOSE, _AUTH_LIST, _LIST, _XML, _SUPPORTS = 1, 2, 66, 273, 14, 60
_STATE, _NAME = 212, 59
_UUID = bytes(range(16))
_TEMPLATE = "{{ lookup('pipe', 'touch /tmp/evaluated') }}"
_DOMAIN = "<domain type='qemu'><name>{name}</name>{more}<memory>1</memory><vcpu>1</vcpu></domain>"
_BOMB = "<!DOCTYPE x [<!ENTITY a '{0}'><!ENTITY b '{1}'>]><domain><name>&b;</name></domain>"

DOMAINS: dict[str, tuple[str, str]] = {
    "escape": ("\x1b[2Jvm", _DOMAIN.format(name="vm", more="")),
    "template": (_TEMPLATE, _DOMAIN.format(name="vm", more=f"<title>{_TEMPLATE}</title>")),
    "bomb": ("vm", _BOMB.format("a" * 1000, "&a;" * 1000)),
    "deep": ("vm", "<domain>" + "<a>" * 100_000),
    "number": ("vm", _DOMAIN.format(name="vm", more="<memory unit='EiB'>9e999</memory>")),
    "no xml": ("vm", "nonsense"),
    "well": ("vm", _DOMAIN.format(name="vm", more="")),
}


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _domain(name: str) -> bytes:
    return _string(name) + _UUID + struct.pack(">i", -1)


class Liar(socketserver.ThreadingTCPServer):
    """Serves one domain of the ``kind``; a flood is sixteen thousand, of 4 MB each."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], kind: str, tls: ssl.SSLContext | None = None):
        super().__init__(address, _Client)
        self.kind = kind
        self.tls = tls


class _Client(socketserver.BaseRequestHandler):
    server: Liar

    def handle(self) -> None:
        stream: socket.socket = self.request
        try:
            if self.server.tls:
                stream = self.server.tls.wrap_socket(stream, server_side=True)
                stream.sendall(b"\1")  # libvirt's word for a client that may come in
            file = stream.makefile("rwb")
            while True:
                head = file.read(28)
                if len(head) < 28:
                    return
                length, program, version, procedure, _kind, serial, _status = struct.unpack(
                    ">IIIiiIi", head
                )
                said = file.read(length - 28)
                answer = self._answer(procedure, said) if program == _PROGRAM else None
                failed = answer is None
                body = _error() if answer is None else answer
                words = (28 + len(body), program, version, procedure, _REPLY, serial, int(failed))
                file.write(struct.pack(">IIIiiIi", *words) + body)
                file.flush()
        except OSError:
            return

    def _answer(self, procedure: int, said: bytes) -> bytes | None:
        if self.server.kind == "garbage" and procedure == _LIST:
            return b"\xff" * 64
        many = 16_000 if self.server.kind == "flood" else 1
        if procedure == _LIST and any(said[-4:]):  # by a flag
            many = 0
        name, xml = DOMAINS.get(self.server.kind, DOMAINS["well"])
        if self.server.kind == "flood":
            xml = _DOMAIN.format(name="vm", more=f"<title>{'x' * 4_000_000}</title>")
        answers: dict[int, t.Callable[[], bytes]] = {
            _OPEN: lambda: b"",
            _CLOSE: lambda: b"",
            _AUTH_LIST: lambda: struct.pack(">Ii", 1, 0),
            _SUPPORTS: lambda: struct.pack(">i", 0),
            _LIST: lambda: struct.pack(">I", many) + _domain(name) * many + struct.pack(">I", many),
            _XML: lambda: _string(xml),
            _STATE: lambda: struct.pack(">ii", 1, 1),
            _NAME: lambda: _string(name),
        }
        return answers[procedure]() if procedure in answers else None


def _error() -> bytes:
    """That the call is not supported, in libvirt's words (remote_error)."""
    text = struct.pack(">I", 1) + _string("not supported")
    return struct.pack(">ii", _NO_SUPPORT, 7) + text + struct.pack(">iIIIIiiI", 2, *[0] * 7)


def main() -> None:
    """The command line."""
    port, kind, *files = sys.argv[1:]
    tls = None
    if files:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(files[0], files[1])
        tls.load_verify_locations(files[2])
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.num_tickets = 0  # libvirt's client expects its one word first
    with Liar(("", int(port)), kind, tls) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
