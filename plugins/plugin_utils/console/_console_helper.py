# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that holds a console open while the playbook waits for it.

It runs in any Python of the controller with the standard library and, for the browser, websockify.
Its first line of input is its order; it exits when its input ends, so with the process that started
it, however that dies. Its output is lines of JSON.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import sys
import threading
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.console import (
    _console_local,
    _console_terminal,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_remote import RemoteSide
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_session import (
    Session,
    SessionRequest,
)

_RESTORE = 15.0  # seconds for the hypervisor's side to restore the password


class Order(t.TypedDict):
    """The action's order; ``program`` is base64, ``playbook`` a process ID."""

    command: list[str]
    program: str
    uri: str
    uuid: str
    kind: str
    view: str
    title: str
    password: str
    until: str
    seconds: float
    drawing: str
    terminal: str
    playbook: int


def main() -> None:
    """Hold the console open until it closes; the exit status is 1 if it did not end as wanted."""
    order: Order = json.loads(sys.stdin.buffer.readline())
    problem = None
    try:
        problem = _held(order)
    except (FleetVirtError, OSError) as error:
        problem = str(error)
    _say(over=problem)
    os._exit(problem is not None)  # viewers' threads may still be blocked


def _say(**answer: object) -> None:
    """Write a line of output; without a reader the helper ends all the same."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")


def _held(order: Order) -> str | None:
    program = base64.b64decode(order["program"])
    if order["view"] == "serial":
        return _serial(order, program)
    if order["kind"] == "serial":
        return _serial_page(order, program)
    request = {key: order[key] for key in ("uri", "uuid", "kind", "password", "until", "seconds")}
    holder = RemoteSide(order["command"], program, {**request, "do": "hold"})
    try:
        password = order["password"] if holder.answer.get("password") else None
        wanted = SessionRequest(
            order["command"],
            program,
            {**request, "do": "screen", "password": ""},
            order["kind"],
            order["title"],
            password,
        )
        session = Session(wanted, lambda text: _say(message=text))
        if password is None:
            _say(open=True)
        _watch(session, order)
        _watch_holder(session, holder)
        view = _browser if order["view"] == "browser" else _local
        view(session, order)
        return session.problem
    finally:
        holder.close(_RESTORE)


def _serial(order: Order, program: bytes) -> str | None:
    over = threading.Event()
    _when_interrupted(over.set, order["playbook"])
    request = {"do": "serial", "uri": order["uri"], "uuid": order["uuid"]}
    remote = RemoteSide(order["command"], program, request)
    try:
        why = _console_terminal.attach(
            remote, order["terminal"], order["title"], over, order["seconds"]
        )
    finally:
        remote.close(_RESTORE)
    _say(message=why)
    return None


def _serial_page(order: Order, program: bytes) -> str | None:
    request = {"do": "serial", "uri": order["uri"], "uuid": order["uuid"]}
    wanted = SessionRequest(order["command"], program, request, order["kind"], order["title"], None)
    session = Session(wanted, lambda text: _say(message=text))
    _watch(session, order)
    _browser(session, order)
    return session.problem


def _when_interrupted(end: t.Callable[[], None], playbook: int) -> None:
    """Call ``end`` on signals and at the end of our input or of the playbook, whose worker may
    outlive it; in threads, since a lock may be held when a signal arrives."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: threading.Thread(target=end).start())

    def parents() -> None:
        source = sys.stdin.fileno()
        watched = select.poll()
        watched.register(source, select.POLLIN)
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(playbook)
            watched.register(process, select.POLLIN)
            while all(
                descriptor == source and os.read(source, 1) for descriptor, _event in watched.poll()
            ):
                pass
        end()

    threading.Thread(target=parents, daemon=True).start()


def _watch(session: Session, order: Order) -> None:
    """End the session on an interruption, and when its time limit is reached."""
    _when_interrupted(lambda: session.end("it was interrupted"), order["playbook"])
    limit = threading.Timer(order["seconds"], session.end, ["the time limit was reached"])
    limit.daemon = True
    limit.start()


def _watch_holder(session: Session, holder: RemoteSide) -> None:
    """End the session when the hypervisor's program, which holds the password, exits."""

    def hypervisor() -> None:
        message = holder.read()
        if session.over.is_set():
            return
        session.end(_reason(message) or holder.why(), failed=True)

    threading.Thread(target=hypervisor, daemon=True).start()


def _reason(message: bytes) -> str | None:
    try:
        ending = json.loads(message)
    except ValueError:
        return None
    return str(ending.get("ended"))[:300] if isinstance(ending, dict) else None


def _browser(session: Session, order: Order) -> None:
    from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console_web

    server = _console_web.Server(session, Path(order["drawing"]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _say(url=server.url)
    session.over.wait()
    server.shutdown()
    server.server_close()
    session.close()


def _local(session: Session, _order: Order) -> None:
    port = _console_local.Port(session)
    try:
        _say(viewer=port.open(), port=port.number)
        session.over.wait()
    finally:
        port.close()
        session.close()
