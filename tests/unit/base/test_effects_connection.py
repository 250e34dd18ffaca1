# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opening libvirt: what is local, and what the message says when it cannot be opened."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import typing as t
import weakref
from pathlib import Path

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    NO_CODE,
    DeadlineExceeded,
    HostUnreachable,
    LibvirtFailure,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
    is_local,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_deadline import (
    Failed,
    TooManyHang,
)
from ansible_collections.fleet.virt.plugins.module_utils._libvirt import (
    ERR_NO_DOMAIN,
    ERR_NO_STORAGE_VOL,
)


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("qemu:///system", True),
        ("qemu:///session", True),
        ("qemu+unix:///system", True),
        ("lxc:///system", True),
        ("xen:///", True),
        ("qemu+ssh://hv1/system", False),
        ("qemu+tls://hv1/system", False),
        ("qemu+ext:///system?command=/tmp/x", False),
        ("qemu+unix:///system?socket=/tmp/tunnel", False),
        ("qemu+libssh2:///system", False),
        ("test:///default", False),
        ("test:///some/file", False),
        ("alias", False),
        ("", False),
    ],
)
def test_local(uri: str, local: bool) -> None:
    assert is_local(uri) is local


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("test:///no/such/file.xml", "/no/such/file.xml"),
        ("qemu+tcp://127.0.0.1:1/system", "is libvirtd running there and listening?"),
        ("qemu+unix:///system?socket=/no/socket", "is libvirtd running there?"),
        ("qemu+tls://127.0.0.1:1/system?pkipath=/no/folder", "directory: ?pkipath=DIRECTORY"),
        ("nonsense:///", "nonsense"),
    ],
)
def test_unreachable(uri: str, reason: str) -> None:
    with pytest.raises(HostUnreachable) as caught, connect(uri, 5):
        pass
    assert str(caught.value).startswith(f"cannot connect to libvirt at {uri}: ")
    assert reason in str(caught.value)


def test_nobody_answers(tmp_path: Path) -> None:
    """A program to talk through that never says anything."""
    script = tmp_path / "mute"
    script.write_text("#!/bin/sh\nexec sleep 5\n")
    script.chmod(0o700)
    uri = f"qemu+ext:///system?command={script}"
    answer = pytest.raises(HostUnreachable, match=r"no answer within 0\.3 seconds")
    with answer as caught, connect(uri, 0.3):
        pass
    where = "qemu:///system through a command of the controller"  # not the name of the script
    assert str(caught.value).startswith(f"cannot connect to libvirt at {where}: no answer")


@pytest.fixture
def stuck() -> Connection:
    """A connection on which calls may hang."""
    with connect("test:///default", 0.1) as opened:
        return Connection(opened.conn, opened.uri, 0.1)


def test_libvirts_error_becomes_ours() -> None:
    with connect("test:///default", 5) as connection:
        with pytest.raises(LibvirtFailure) as caught:
            connection.call("look up nope", connection.conn.lookupByName, "nope")
        assert str(caught.value).startswith("look up nope: ")
        assert caught.value.code == 42  # VIR_ERR_NO_DOMAIN
        with pytest.raises(DeadlineExceeded, match=r"wait: no answer within 0\.1 seconds"):
            connection.call("wait", threading.Event().wait, seconds=0.1)


def test_no_more_is_asked_when_so_much_hangs(stuck: Connection) -> None:
    for _ in range(5):
        with pytest.raises(DeadlineExceeded):
            stuck.call("wait", threading.Event().wait)
    with pytest.raises(
        TooManyHang, match="list: not attempted because 5 earlier calls are hanging"
    ):
        stuck.call("list", lambda: None)


def test_each_counts_what_hangs(stuck: Connection) -> None:
    outcomes = stuck.each(lambda _: threading.Event().wait(), range(20), str)
    assert all(isinstance(outcome, Failed) for outcome in outcomes)
    assert any(isinstance(o.error, TooManyHang) for o in outcomes if isinstance(o, Failed))
    assert stuck.hanging >= 5


def test_a_reading_whose_reason_was_lost_is_done_once_more() -> None:
    """libvirt-python's exception has no code then: another object was freed in between."""
    seen: list[str] = []

    def read(connection: Connection, name: str) -> str:
        seen.append(name)
        if seen.count(name) <= {"fails once": 1, "fails": 2}.get(name, 0):
            connection.conn.virConnGetLastError()  # as virResetLastError: nothing is known
            raise libvirt.libvirtError("virDomainGetState() failed")
        if name == "gone":
            connection.conn.lookupByName(name)
        return name

    names = ["there", "fails once", "fails", "gone"]
    with connect("test:///default", 10.0) as connection:
        assert connection.ask("read", read, connection, "fails once") == "fails once"
        with pytest.raises(LibvirtFailure) as raised:
            connection.ask("read", read, connection, "fails")
        assert raised.value.code == NO_CODE
        assert seen == ["fails once", "fails once", "fails", "fails"]
        seen.clear()
        found = connection.each(lambda name: read(connection, name), names, str)
    assert seen == ["there", "fails once", "fails once", "fails", "fails", "gone"]
    codes = [one.error.code for one in found if isinstance(one, Failed)]
    assert codes == [NO_CODE, ERR_NO_DOMAIN]
    assert [one.value for one in found if not isinstance(one, Failed)] == names[:2]
    seen.clear()
    with connect("test:///default", 10.0) as connection, pytest.raises(LibvirtFailure) as raised:
        connection.ask("read", read, connection, "gone")
    assert (raised.value.code, seen) == (ERR_NO_DOMAIN, ["gone"])


def test_why_a_call_failed_is_known_though_another_object_was_freed_meanwhile() -> None:
    # libvirt has one handler a process, and a test before this one may have given it another
    libvirt.registerErrorHandler(_libvirt._remember, None)
    with connect("test:///default", 10.0) as connection:

        def fail() -> None:
            domain = connection.conn.lookupByName("test")
            with contextlib.suppress(libvirt.libvirtError):
                connection.conn.lookupByName("nope")
            del domain
            lost = libvirt.libvirtError("virDomainLookupByName() failed")
            assert not lost.get_error_code()
            raise lost

        with pytest.raises(LibvirtFailure, match=r"^look up nope: Domain not found") as caught:
            connection.call("look up nope", fail)
        assert (caught.value.code, caught.value.domain) == (ERR_NO_DOMAIN, 12)  # VIR_FROM_TEST

        def fail_before_libvirt() -> None:
            raise libvirt.libvirtError("unknown")

        with pytest.raises(LibvirtFailure, match=r"^look up nope: unknown$") as caught:
            connection.call("look up nope", fail_before_libvirt)
        assert caught.value.code == NO_CODE


def test_what_fails_leaves_nothing_for_the_collector() -> None:
    """It would free libvirt's objects later, in the middle of another call."""
    with connect("test:///default", 10.0) as connection:

        def call(domain: libvirt.virDomain) -> None:
            connection.call("look up nope", lambda: domain.connect().lookupByName("nope"))

        def each_there(domain: libvirt.virDomain) -> None:
            look = lambda name: domain.connect().lookupByName(name)  # noqa: E731
            connection.each_there(look, ["nope"], str, ERR_NO_STORAGE_VOL)

        def each(domain: libvirt.virDomain) -> None:
            (outcome,) = connection.each(lambda _: domain.connect().lookupByName("nope"), [1], str)
            assert isinstance(outcome, Failed)
            raise LibvirtFailure("", "", outcome.error.code)

        def left(function: t.Callable[[libvirt.virDomain], None]) -> weakref.ref[libvirt.virDomain]:
            domain = connection.conn.lookupByName("test")
            try:
                function(domain)
            except LibvirtFailure:
                return weakref.ref(domain)
            pytest.fail("it was found")

        gc.disable()
        try:
            for function in (call, each_there, each):
                found, limit = left(function), time.monotonic() + 5
                while found() is not None and time.monotonic() < limit:
                    time.sleep(0.01)  # the thread that made the call ends a moment later
                assert found() is None, function
        finally:
            gc.enable()


def test_what_vanished_after_it_was_listed_is_left_out() -> None:
    xml = (
        "<domain type='test'><name>{}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
    )
    with connect("test:///default", 10.0) as connection:
        for name in ("stays", "goes"):
            connection.conn.defineXML(xml.format(name))
        listed = connection.conn.listAllDomains(0)
        connection.conn.lookupByName("goes").undefine()

        def read(gone: int) -> list[str]:
            found = connection.each_there(lambda dom: dom.XMLDesc(0), listed, str, gone)
            return sorted(dom.name() for dom, text in found if "<domain" in text)

        try:
            assert read(ERR_NO_DOMAIN) == ["stays", "test"]
            with pytest.raises(LibvirtFailure, match="goes"):
                read(ERR_NO_STORAGE_VOL)
        finally:  # others share the driver's node
            connection.conn.lookupByName("stays").undefine()
