# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of a laboratory: started apart from us, and found again whoever started them.

A process belongs to a laboratory when its environment carries our mark with the laboratory's
folder, when its root is an overlay on the folder (everything inside a host, whatever became of
its environment), or when it is a multiplexing ssh on the laboratory's control socket. A program's
name is never enough.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

__all__ = [
    "MARK",
    "Identity",
    "ancestors",
    "boot_id",
    "dead",
    "find",
    "kill",
    "role_of",
    "run",
    "send",
    "spawn",
    "started",
    "tail",
    "wait_for",
]

# Set by this program alone, and only for the processes it starts: "<folder>:<role>".
MARK = "FLEET_VIRT_LAB_PROCESS"


def boot_id() -> str:
    """The kernel's name for the time since the machine was last started."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time (clock ticks) of a process, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[19])


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity:
        """The identity of a living process.

        :raises LabError: there is no such process.
        """
        stat = _stat(pid)
        if stat is None:
            raise LabError(f"there is no process {pid}: an owner must be a living process")
        return cls(pid, stat[1], boot_id())

    @property
    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        stat = _stat(self.pid)
        return (
            stat is not None
            and stat[1] == self.started
            and stat[0] not in "ZX"
            and self.boot == boot_id()
        )


def run(
    command: Sequence[str],
    *,
    check: bool = True,
    timeout: float = 60,
    text: str | None = None,
    role: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, quietly.

    :raises LabError: it failed (with ``check``) or took longer than ``timeout`` seconds.
    """
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    if role is not None:
        environment[MARK] = role
    try:
        done = subprocess.run(
            command,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed: see `lab packages`") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{' '.join(command)}` did not end within {timeout:g} s") from None
    if check and done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise LabError(f"`{' '.join(command)}` failed ({done.returncode}): {said}")
    return done


def spawn(directory: Path, role: str, script: str, arguments: Sequence[str], log: Path) -> int:
    """Start a background process and return its number.

    The shell ``script`` runs in a session of its own; it must end in ``exec``. Its number is
    written to ``log`` with the suffix ``.pid`` before its first command.

    :raises LabError: it did not even get that far.
    """
    pidfile = log.with_suffix(".pid")
    pidfile.unlink(missing_ok=True)
    head = 'echo $$ > "$0.new" && mv "$0.new" "$0" || exit 1\n'
    environment = dict(os.environ, LC_ALL="C.UTF-8", **{MARK: f"{directory}:{role}"})
    for name in ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "INVOCATION_ID"):
        environment.pop(name, None)
    with open(log, "ab") as output:
        subprocess.run(
            ["setsid", "--fork", "bash", "-c", head + script, str(pidfile), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            check=True,
        )
    wait_for(pidfile.exists, 10, lambda: f"{role} did not start: {tail(log)}", pause=0.005)
    return int(pidfile.read_text())


_EXEC_SECONDS = 15.0  # where three laboratories share a disk, reading a program can take seconds


def started(directory: Path, role: str, log: Path) -> int | None:
    """The process that ``spawn`` started with this role and log, while it lives."""
    try:
        pid = int(log.with_suffix(".pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
    deadline = time.monotonic() + _EXEC_SECONDS
    while not dead(pid):
        environment = _environment(pid)
        if environment:
            return pid if _role(environment, directory) == role else None
        # In the middle of exec a process has no environment until its program is read.
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)
    return None


def dead(pid: int) -> bool:
    """Whether there is no such process, or only what nobody has collected yet."""
    stat = _stat(pid)
    return stat is None or stat[0] in "ZX"


def tail(path: Path, lines: int = 5) -> str:
    """The last lines of a text file, for an error message."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return str(error)


def role_of(pid: int, directory: Path) -> str | None:
    """The role a process has in the laboratory by its mark, or None."""
    return _role(_environment(pid), directory)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _role(environment: bytes, directory: Path) -> str | None:
    prefix = f"{MARK}={directory}:".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def _inside(pid: int, folder: bytes) -> bool:
    """Whether the process sees an overlay whose upper layer lies in the folder."""
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_bytes()
    except OSError:
        return False
    return b"upperdir=" + folder in mounts


def _multiplexer(pid: int, control: bytes) -> bool:
    """Whether it is an ssh that keeps a connection open on a socket in the folder."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return command.startswith(b"ssh: " + control + b"/") and b"[mux]" in command


def ancestors() -> set[int]:
    """This process and its ancestors: never ours to end."""
    line: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in line:
        line.add(pid)
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            break
        pid = int(status.split("PPid:", 1)[1].split(None, 1)[0])
    return line


def find(directory: Path, role: str | None = None, control: Path | None = None) -> list[int]:
    """The living processes of a laboratory, or of one role (a host's name) in it."""
    folder = f"{directory}/hosts/{role}/" if role else f"{directory}/"
    ours = ancestors()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in ours:
            continue
        pid = int(entry)
        mark = role_of(pid, directory)
        if (
            (mark is not None and role in (None, mark))
            or _inside(pid, folder.encode())
            or (control is not None and role is None and _multiplexer(pid, bytes(control)))
        ) and not dead(pid):
            found.append(pid)
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill(
    directory: Path, role: str | None = None, control: Path | None = None, limit: float = 30
) -> int:
    """End every process of a laboratory (or of one role) at once and wait until all are gone.

    A process that was just being started shows only on a second look, so two looks must be empty.

    :returns: how many processes were found.
    :raises LabError: some would not go within ``limit`` seconds.
    """
    seen: set[int] = set()
    empty = 0
    deadline = time.monotonic() + limit
    while empty < 2:
        pids = find(directory, role, control)
        seen.update(pids)
        send(pids, signal.SIGKILL)
        empty = 0 if pids else empty + 1
        if time.monotonic() > deadline:
            raise LabError(f"processes {pids} of {directory} do not go within {limit:g} s")
        time.sleep(0.02)
    return len(seen)


def wait_for(
    condition: Callable[[], object], limit: float, message: Callable[[], str], pause: float = 0.05
) -> None:
    """Call ``condition`` until it is true.

    :raises LabError: with the text ``message()`` after ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"not within {limit:g} s: {message()}")
        time.sleep(pause)
