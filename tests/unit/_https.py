# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An https server with a CA of its own, which misbehaves on request."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import http.server
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Server:
    """``files`` by their paths, ``redirects`` to where; what is asked for is kept in ``asked``.

    ``logins`` are what was sent with each of those as ``Authorization``, ``code`` is a redirect's.

    ``silent``: for these paths there is no answer while the server lives. ``stalls``: half is sent,
    and then nothing. ``cut``: half is sent, and the connection ends. ``drips``: a byte every tenth
    of a second.
    """

    address: str
    port: int
    ca: Path
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    stalls: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    drips: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    code: int = 302
    over: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"https://{self.address}:{self.port}{path}"

    def put(self, path: str, content: bytes, algorithm: str = "sha256") -> str:
        """Serve this; its URL with its checksum."""
        self.files[path] = content
        return f"{self.url(path)}#{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"

    def forget(self) -> None:
        """Serve nothing any more, and forget what was asked."""
        for kept in (self.files, self.redirects, self.silent, self.stalls, self.cut, self.drips):
            kept.clear()
        self.asked.clear()
        self.logins.clear()
        self.code = 302


@contextlib.contextmanager
def serving(address: str, folder: Path) -> Iterator[Server]:
    """A server at that address; its CA is in ``folder``."""
    certificate, key, ca = _certificates(address, folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server: Server

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.asked.append(self.path)
            server.logins.append(self.headers.get("Authorization"))
            if self.path in server.silent:
                server.over.wait()
                return
            if self.path in server.redirects:
                self.send_response(server.code)
                self.send_header("Location", server.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = server.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.body(content)

        def body(self, content: bytes) -> None:
            half = len(content) // 2
            if self.path in server.drips:
                for byte in content:
                    self.wfile.write(bytes([byte]))
                    if server.over.wait(0.1):
                        return
            elif self.path in server.stalls:
                self.wfile.write(content[:half])
                server.over.wait()
            elif self.path in server.cut:
                self.wfile.write(content[:half])
                self.close_connection = True
            else:
                self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            """Nothing is told."""

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *_args: object) -> None:
            """Clients that go away are what the tests are about."""

    with Quiet((address, 0), Handler) as httpd:
        httpd.daemon_threads = True
        httpd.socket = context.wrap_socket(
            httpd.socket, server_side=True, do_handshake_on_connect=False
        )
        server = Server(address, httpd.server_address[1], ca)
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            httpd.shutdown()
            thread.join()


@contextlib.contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy's URL, and what it is asked to connect to."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(self.path)
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as there:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_pass_on, args=(there, self.connection), daemon=True)
                back.start()
                _pass_on(self.connection, there)
                back.join()

        def log_message(self, *_args: object) -> None:
            """Nothing is told."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.daemon_threads = True
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_address[1]}", asked
        finally:
            httpd.shutdown()
            thread.join()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := one.recv(65536):
            other.sendall(block)
        other.shutdown(socket.SHUT_WR)


def _certificates(address: str, folder: Path) -> tuple[Path, Path, Path]:
    """Files with the server's certificate, its key, and the CA that signed it."""
    names, keys = ["ca", "server"], [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    now = datetime.datetime.now(datetime.timezone.utc)
    subjects = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in names]
    for number, name in enumerate(names):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subjects[number])
            .issuer_name(subjects[0])
            .public_key(keys[number].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(keys[number].public_key()),
                critical=False,
            )
            .add_extension(_usage(number == 0), critical=True)
        )
        if number:
            alternative = x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address(address))]
            )
            builder = builder.add_extension(alternative, critical=False)
        made = builder.sign(keys[0], hashes.SHA256())
        path = folder / f"{name}.pem"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key = folder / "server.key"
    key.write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "server.pem", key, folder / "ca.pem"


def _usage(ca: bool) -> x509.KeyUsage:
    """Python 3.13 wants a CA to say that it is one in this way too."""
    names = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    unused = dict.fromkeys((*names, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, **unused)
