# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detection of hypervisors that stop responding, whatever the user has configured."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import time
import types
import typing as t

from ansible.plugins.connection import ConnectionBase
from ansible_collections.fleet.virt.plugins.module_utils._errors import DeadlineExceeded

# Half a minute without a response ends the connection
_KEEPALIVE = "-o ServerAliveInterval=10 -o ServerAliveCountMax=3"
_FOLDER = "alive"
_ARGUMENTS = ("ssh_args", "ssh_common_args", "ssh_extra_args")

_PATH = re.compile(r"(?:-o)?\s*controlpath\s*[=\s]\s*(\S.*)", re.IGNORECASE)


def keep(connection: ConnectionBase) -> None:
    """Enable ssh's keepalive, unless the user has configured it.

    A connection that ControlPersist kept from before has no keepalive, so it is not reused.
    """
    if getattr(connection, "transport", None) != "ssh":
        return
    given = [str(connection.get_option(name) or "") for name in _ARGUMENTS]
    if "serveralive" in " ".join(given).lower():
        return
    connection.set_option("ssh_common_args", f"{given[1]} {_KEEPALIVE}".strip())
    own = _control_path(given)
    if own:
        path = shlex.quote(f"ControlPath={own}-{_FOLDER}")  # ssh takes the first
        connection.set_option("ssh_args", f"-o {path} {given[0]}")
    folder = connection.get_option("control_path_dir")
    if folder:
        connection.set_option("control_path_dir", f"{folder.rstrip('/')}/{_FOLDER}")


def named(value: object) -> set[str]:
    """The names in a variable: a list, or comma-separated text as Ansible accepts for one."""
    if isinstance(value, str):
        return {name.strip() for name in value.split(",")}
    return {str(name) for name in value} if isinstance(value, (list, tuple)) else set()


def lost(host: str) -> str:
    """The reason why a hypervisor that is declared lost has no result."""
    return f"{host} is declared lost (virt_hypervisors_lost), so it is not contacted"


def _control_path(given: t.Sequence[str]) -> str | None:
    """The control path that the user has set; None if there is none, or it is ``none``."""
    for arguments in given:
        for word in shlex.split(arguments):
            match = _PATH.match(word)
            if match:
                return None if match[1].lower() == "none" else match[1]
    return None


def without_compression(arguments: str) -> str | None:
    """Arguments of ssh for a separate, uncompressed connection; None if there is no ``-C``."""
    words = shlex.split(arguments)
    if "-C" not in words:
        return None
    separate = ["-o", "ControlPath=none", "-o", "ControlMaster=no"]
    return shlex.join([*separate, *(word for word in words if word != "-C")])


def is_over(error: BaseException) -> bool:
    """Whether this ends a task whose ``timeout`` is over; Ansible has moved the class since."""
    return type(error).__name__ == "TaskTimeoutError"


def over(seconds: object) -> str:
    """What Ansible says of such a task."""
    return f"Timed out after {seconds} second(s)."


class _Over(BaseException):
    """Interruption that no ``except Exception`` of the interrupted code catches."""


@contextlib.contextmanager
def limited(seconds: float, what: str) -> t.Iterator[None]:
    """Interrupt the body after ``seconds``, even in ssh; raises DeadlineExceeded.

    An earlier limit of the task stays in force. Only for the main thread, which actions run in.
    """
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    if left and left <= seconds:
        yield
        return

    def ring(_number: int, _frame: types.FrameType | None) -> None:
        raise _Over

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Over:
        raise DeadlineExceeded(what, seconds) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            rest = max(0.01, left - (time.monotonic() - began))
            signal.setitimer(signal.ITIMER_REAL, rest)
