# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting the helper that holds a console open, and waiting for its end."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import select
import signal
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.decide import (
    BROWSER,
    PAGES,
    SERIAL,
    SERIAL_PAGE,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console_agent
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _sent, _ssh

_COLLECTION = Path(__file__).absolute().parents[3]
# Lets the helper import our files without Ansible, in any Python
_START = """\
import sys, types
root = sys.argv[1]
for name in ("ansible_collections", "ansible_collections.fleet", "ansible_collections.fleet.virt"):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [root] if name.endswith("virt") else []
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console_helper
_console_helper.main()
"""
_SYSTEM = "/usr/bin/python3"
# Debian's package for the page, its folder, and a file in it
_DRAWING = {
    BROWSER: ("novnc", Path("/usr/share/novnc"), "core/rfb.js"),
    SERIAL_PAGE: ("node-xterm", Path("/usr/share/nodejs/xterm"), "lib/public/Terminal.js"),
}
_LOOK = 0.5  # seconds between two checks that the playbook still runs
_PATIENCE = 20.0  # seconds for the helper to exit by itself
_LETTERS = 8  # of a password: VNC uses no more
_ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True)
class Screen:
    """A screen: libvirt's ``uri`` there, the VM's UUID, the screen's type, and a ``title``."""

    uri: str
    uuid: str
    kind: str
    title: str


class Held(t.NamedTuple):
    """The messages of a console; ``problem`` if it did not end as its user wanted."""

    output: str
    problem: str | None


def hold(reached: _ssh.Reached, screen: Screen, view: str, minutes: int) -> Held:
    """Open the console, display its address and wait until it closes. Raises FleetVirtError."""
    command = _sent.command(reached)
    if command is None:
        raise FleetVirtError(f"cannot determine how to reach {screen.title} over SSH")
    python = _python(view)
    end = time.time() + minutes * 60
    order = {
        "command": command,
        "program": base64.b64encode(_console_agent.program()).decode("ascii"),
        "uri": screen.uri,
        "uuid": screen.uuid,
        "kind": screen.kind,
        "view": view,
        "title": screen.title,
        "password": "".join(secrets.choice(_ALPHABET) for _dummy in range(_LETTERS)),
        "until": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(end)),
        "seconds": minutes * 60.0,
        "drawing": str(_DRAWING[view][1]) if view in PAGES else "",
        "terminal": _terminal() if view == SERIAL else "",
        "playbook": os.getppid(),
    }
    helper = programs.beside([python, "-I", "-c", _START, str(_COLLECTION)])
    source = programs.piped(helper.stdin)
    try:
        rest = memoryview(json.dumps(order).encode() + b"\n")
        while rest:
            rest = rest[source.write(rest) or 0 :]
        return _wait(helper, screen.title)
    except BrokenPipeError:
        raise FleetVirtError("the console helper could not be started") from None
    finally:
        with contextlib.suppress(OSError):
            source.close()
        programs.end(helper, _PATIENCE)


def _python(view: str) -> str:
    """A Python on this machine with the packages that a console needs."""
    if view not in PAGES:
        return sys.executable
    package, folder, file = _DRAWING[view]
    missing = [] if (folder / file).is_file() else [package]
    python = None
    for candidate in dict.fromkeys([sys.executable, _SYSTEM]):
        with contextlib.suppress(OSError):
            if (
                programs.execute(
                    [candidate, "-I", "-c", "import websockify.websocketserver"]
                ).status
                == 0
            ):
                python = candidate
                break
    if python is None:
        missing.append("python3-websockify")
    if missing or python is None:
        raise FleetVirtError(
            f"a console in the browser needs {' and '.join(missing)} on the controller: apt-get"
            f" install {' '.join(missing)}; -e virt_console=viewer and serial need neither"
        )
    return python


def _terminal() -> str:
    """The terminal of the playbook: this process is one of its workers and has none."""
    for number in range(3):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/{os.getppid()}/fd/{number}")
            descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                if os.isatty(descriptor):
                    return path
            finally:
                os.close(descriptor)
    raise FleetVirtError("a serial console needs a terminal; run the command in one")


def _wait(helper: programs.Running, title: str) -> Held:
    """Wait until the helper's output ends, or the playbook (this process' parent) does."""
    parent, stream = os.getppid(), programs.piped(helper.stdout)
    shown: list[str] = []
    problem: str | None = "the console helper ended without giving a reason"
    rest = b""
    while os.getppid() == parent:
        if not select.select([stream], [], [], _LOOK)[0]:
            continue
        data = os.read(stream.fileno(), 65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "over" in answer:
                problem = answer["over"]
            elif (text := _text(answer, title)) is not None:
                shown.append(text)
                _display(text)
    return Held("".join(f"{line}\n" for line in shown), problem)


def _display(text: str) -> None:
    """Display ``text`` with signals blocked. Ansible ends this process by SIGTERM, and would wait
    forever if the process died while it held the display queue."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        _output.say(text)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _text(answer: t.Mapping[str, object], title: str) -> str | None:
    if "url" in answer:
        return f"{title}: {answer['url']}\nClose the page, or press Ctrl-C, to end it."
    if "viewer" in answer:
        return f"{title}: {answer['viewer']}\nClose the viewer, or press Ctrl-C, to end it."
    if answer.get("open"):
        return (
            f"{title}: it was started without a password for its screen and cannot get one until"
            " it is started again; processes on its hypervisor can view the screen, too"
        )
    return f"{title}: {answer['message']}" if "message" in answer else None
