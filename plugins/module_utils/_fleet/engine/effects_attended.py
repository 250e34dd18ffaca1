# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A systemd unit that works for a caller, and ends with it.

Its order comes on its standard input, since there may be a passphrase in it, and the end of that
input is the end of the work: no killed run leaves one. Whatever ends the unit, its last command
tidies up.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shlex
import sys
import time
import typing as t

from ..base import effects_programs as programs
from ..base import effects_systemd as systemd
from ..base import read_caller as company
from ..base.json_values import as_mapping

_END_SECONDS = 60.0
_MOST_ANSWER = 48 * 1024 * 1024  # there may be a picture of a screen in it
# The module's own imports, also where they are in Ansible's archive, and its cache of bytecode
_START = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from ansible_collections.fleet.virt.plugins.module_utils import _bytecode
_bytecode.cache()
from ansible_collections.fleet.virt.plugins.module_utils._fleet.{folder} import effects_unit
effects_unit.main()
"""


def answered(
    unit: str,
    folder: str,
    order: t.Mapping[str, object],
    end: t.Sequence[str],
    stop: t.Callable[[], object],
) -> t.Mapping[str, object]:
    """What the unit of the feature in ``folder`` says on ``order``; an ``error`` with what its
    journal has if it ends without a word. ``end`` is its last command, ``stop`` makes sure that it
    has ended."""
    systemd.clear(unit)
    began = int(time.time())
    properties = (
        *(f"ExecStopPost={lasting(end)}", "TimeoutStopSec=90"),
        *("KillMode=control-group", "Nice=10"),
    )
    words = [sys.executable, "-c", _START.format(folder=folder), json.dumps(sys.path)]
    words = systemd.own_unit(unit, words, properties=properties)
    words[1:1] = ["--pipe", "--wait", "--collect"]
    process = programs.beside(words)
    source, stream = programs.piped(process.stdin), programs.piped(process.stdout)
    try:
        source.write(f"{json.dumps(order)}\n".encode())
        source.flush()
        answer = _answer(stream)
    finally:
        # Its input ends, so it ends, whatever it is doing
        with contextlib.suppress(OSError):
            source.close()
        programs.end(process, _END_SECONDS)
        stop()
    told = systemd.journal([unit], began) if not answer else ""
    more = told or f"; see journalctl -u {unit} on its hypervisor"
    return answer or {"error": f"its unit ended without a result{more}"}


def lasting(words: t.Sequence[str]) -> str:
    """The command, as a unit has it that systemd writes to a file and reads back.

    That is what a daemon-reload does, for example while packages are upgraded. systemd 252 and 257
    read back another command than they wrote if it has a semicolon, a dollar or a percent sign.
    """
    text = f"exec {shlex.join(words)} < /dev/null\n"
    encoded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")
    return f'/bin/sh -c "echo {encoded} | base64 -d | sh"'


def _answer(stream: t.IO[bytes]) -> t.Mapping[str, object]:
    """The line that the unit prints; empty if it ends without one."""
    waiting = select.poll()
    waiting.register(stream, select.POLLIN)
    text = bytearray()
    while b"\n" not in text[-65536:] and len(text) < _MOST_ANSWER:
        company.require()
        if waiting.poll(250):
            block = os.read(stream.fileno(), 65536)
            if not block:
                break
            text += block
    try:
        return as_mapping(json.loads(text))
    except ValueError:
        return {}
