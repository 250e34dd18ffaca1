# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Opening connections to libvirt, with helpful errors when that fails."""

from __future__ import annotations

import contextlib
import typing as t
from urllib.parse import urlsplit

from ... import _libvirt
from ..._errors import (
    NO_CODE,
    DeadlineExceeded,
    HostUnreachable,
    LibvirtFailure,
)
from . import effects_deadline as deadline
from .effects_deadline import Item, Value
from .read_budget import MOST_READ, Budget

if t.TYPE_CHECKING:
    # for type checking only: hypervisors need not have it
    from typing_extensions import TypeVarTuple, Unpack

    from ..._libvirt import VirConnect

    Given = TypeVarTuple("Given")


_PERMISSION = "run as root there (become), or add the user to the group libvirt"
_REMEDIES = (
    ("Cannot read CA certificate", "specify the client's key directory: ?pkipath=DIRECTORY"),
    ("No such file or directory", "is libvirtd running there? (systemctl status libvirtd)"),
    ("Connection refused", "is libvirtd running there and listening? (systemctl status libvirtd)"),
    ("Permission denied", _PERMISSION),
    ("authentication unavailable", _PERMISSION),
    ("no polkit agent", _PERMISSION),
    ("Failed to verify peer's certificate", "the certificate was not issued for this host name"),
)


# The number of calls of one client that a daemon processes at once (the default of
# max_client_requests in libvirtd.conf): when that many hang, every further call would hang too.
_MOST_HANGING = 5
_GRACE = 0.5


class Connection:
    """One open connection: ``conn`` is libvirt's ``virConnect``; every limit is ``timeout``."""

    def __init__(self, conn: VirConnect, uri: str, timeout: float) -> None:
        self.conn = self._opened = conn
        self._budget: Budget | None = None
        self.uri = uri
        self.timeout = timeout
        self.hanging = 0

    @property
    def local(self) -> bool:
        """Whether libvirt runs on this machine, so that its paths are this machine's."""
        return is_local(self.uri)

    def call(
        self,
        action: str,
        function: t.Callable[[Unpack[Given]], Value],
        *args: Unpack[Given],
        seconds: float | None = None,
    ) -> Value:
        """Result of ``function(*args)`` within the limit, libvirt's error as LibvirtFailure.

        ``seconds`` replaces the connection's limit for work that is known to take longer.
        """
        if self.hanging >= _MOST_HANGING:
            raise deadline.TooManyHang(action, self.hanging)

        def guarded() -> Value:
            with _libvirt.calling(action):
                return function(*args)

        try:
            return deadline.call(guarded, seconds=seconds or self.timeout, what=action)
        except DeadlineExceeded:
            self.hanging += 1
            raise

    def ask(
        self,
        action: str,
        function: t.Callable[[Unpack[Given]], Value],
        *args: Unpack[Given],
    ) -> Value:
        """As :meth:`call`, of what only reads: asked once more where libvirt's error was lost."""
        try:
            return self.call(action, function, *args)
        except LibvirtFailure as error:
            if error.code != NO_CODE:
                raise
        return self.call(action, function, *args)

    def each(
        self,
        function: t.Callable[[Item], Value],
        items: t.Sequence[Item],
        what: t.Callable[[Item], str],
        parallel: int = 1,
    ) -> list[deadline.Outcome[Value]]:
        """:func:`deadline.each` with libvirt's errors as outcomes; ``function`` only reads."""

        def guarded(item: Item) -> Value:
            try:
                with _libvirt.calling(what(item)):
                    return function(item)
            except LibvirtFailure as error:
                if error.code != NO_CODE:
                    raise
            # The error was lost: freeing any libvirt object (which Python's garbage collector may
            # do at any moment) begins with virResetLastError. A second call reports it again.
            with _libvirt.calling(what(item)):
                return function(item)

        outcomes = deadline.each(
            guarded,
            items,
            seconds=self.timeout,
            what=what,
            parallel=parallel,
            patience=max(1, _MOST_HANGING - self.hanging),
        )
        for outcome in outcomes:
            if isinstance(outcome, deadline.Failed):
                self.hanging += isinstance(outcome.error, DeadlineExceeded)
        return outcomes

    def limit(self, seconds: float, most: int = MOST_READ) -> Budget:
        """Let no more than ``most`` characters be read, and nothing once ``seconds`` are over.

        Those are what another thread waits for this one; it is the first to say so.
        """
        self._budget = budget = Budget(self.uri, most, seconds + _GRACE)
        self.conn = budget.metered(self._opened)
        return budget

    def open_again(self) -> VirConnect:
        """A further connection to the same hypervisor, under the same limits; not closed here."""
        with _libvirt.calling("connect"):
            conn = _libvirt.open_connection(self.uri)
        return conn if self._budget is None else self._budget.metered(conn)

    def each_there(
        self,
        function: t.Callable[[Item], Value],
        items: t.Sequence[Item],
        what: t.Callable[[Item], str],
        gone: int,
    ) -> list[tuple[Item, Value]]:
        """Items with their values, without those that vanished after they were listed, for which
        libvirt has the code ``gone``. Raises any other error."""
        values = []
        for item, outcome in zip(items, self.each(function, items, what)):
            if isinstance(outcome, deadline.Failed):
                error = outcome.error
                if isinstance(error, LibvirtFailure) and error.code == gone:
                    continue
                try:
                    raise error
                finally:
                    del error, outcome  # they would reference each other, and libvirt's objects
            values.append((item, outcome.value))
        return values

    def close(self) -> None:
        """Close the connection, unless a call is stuck in it: closing would wait for that call."""
        if not self.hanging:
            with contextlib.suppress(LibvirtFailure, DeadlineExceeded):
                self.call("close the connection", self._opened.close)
        if self.hanging:
            self._opened._o = None  # the binding's destructor closes, and would hang at exit


def is_local(uri: str) -> bool:
    """Whether ``uri`` is a hypervisor on this machine (libvirt's test driver is not)."""
    parts = urlsplit(uri)
    driver, _dummy, transport = parts.scheme.partition("+")
    return (
        driver not in ("", "test")
        and transport in ("", "unix")
        and not parts.netloc
        and not parts.query  # ?socket= may be a tunnel to another machine
    )


def _reason(message: str) -> str:
    for needle, remedy in _REMEDIES:
        if needle in message:
            return f"{message}; {remedy}"
    return message


@contextlib.contextmanager
def connect(uri: str, timeout: float) -> t.Iterator[Connection]:
    """Open a connection to ``uri`` (virConnectOpen); it is closed on exit.

    ``timeout`` (seconds) limits opening and then each single call. Raises HostUnreachable.
    """

    def opened() -> VirConnect:
        with _libvirt.calling("connect"):
            return _libvirt.open_connection(uri)

    try:
        conn = deadline.call(opened, seconds=timeout, what="connect")
    except LibvirtFailure as error:
        message = str(error).removeprefix("connect: ")
        raise HostUnreachable(uri, _reason(message), error.code) from None
    except DeadlineExceeded:
        raise HostUnreachable(uri, f"no answer within {timeout:g} seconds") from None
    connection = Connection(conn, uri, timeout)
    try:
        yield connection
    finally:
        connection.close()
