# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running programs on this machine: no shell, no locale, a time limit, and a clear error.

The only module that starts programs. ``run`` and ``attempt`` are for system programs, regardless
of the session's search path; ``execute`` finds a program as the session does.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
import typing as t

from ..._errors import DeadlineExceeded, FleetVirtError
from ..._records import dataclass

_SECONDS = 60.0
# A session without root's login has no sbin in its path
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BLOCK = 65536


class ProgramFailed(FleetVirtError):
    """A program ended with a status other than 0; ``error_text`` is its error output."""

    def __init__(self, argv: t.Sequence[str], status: int, error_text: str) -> None:
        self.status = status
        self.error_text = error_text
        super().__init__(f"{' '.join(argv[:3])} failed ({status}): {error_text[:1000]}")


@dataclass(frozen=True)
class Done:
    """How a program ended."""

    status: int
    out: str
    error_text: str  # standard error, or else standard output


@dataclass(frozen=True)
class Ended:
    """How a program ended, and the bytes that it printed (without output sent to a file)."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Standard output as text."""
        return _text(self.stdout)

    @property
    def error_text(self) -> str:
        """Standard error, or else standard output."""
        return _text(self.stderr).strip() or self.out.strip()


@dataclass(frozen=True)
class Confined:
    """All that a program that reads possibly hostile input inherits from this process.

    ``descriptors`` are open in it. It runs as ``user`` and ``group``, without other groups; None
    keeps those of this process.
    """

    descriptors: tuple[int, ...] = ()
    user: int | None = None
    group: int | None = None


def find(name: str) -> str | None:
    """The path of a program; None if it is not installed."""
    return shutil.which(name, path=_PATH)


def execute(
    argv: t.Sequence[str],
    *,
    text: str | None = None,
    into: t.IO[bytes] | None = None,
    seconds: float = _SECONDS,
    path: str | None = None,
    folder: str | None = None,
    environment: t.Mapping[str, str] | None = None,
    descriptors: tuple[int, ...] = (),
) -> Ended:
    """Run a program to its end, with ``text`` as its input.

    With ``into``, its standard output goes straight into that file and never into our memory.
    ``path`` is the search path, by default the session's. ``folder`` is where it runs. It inherits
    ``descriptors``, and the session's variables, or those of ``environment`` in their place.
    Raises FileNotFoundError if it is not installed, DeadlineExceeded after ``seconds``, when it is
    killed.
    """
    try:
        done = subprocess.run(
            list(argv),
            input=None if text is None else text.encode("utf-8", "surrogateescape"),
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.PIPE if into is None else into,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=_environment(path, environment),
            pass_fds=descriptors,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(argv[0], seconds) from None
    return Ended(done.returncode, done.stdout or b"", done.stderr)


def execute_confined(
    argv: t.Sequence[str], confined: Confined, *, seconds: float, most: int
) -> Ended:
    """Run a program on hostile input, and return the first ``most`` bytes of its output.

    Its output goes to a file, to which a limit on the size of files (prlimit) applies, too.
    Raises the same as ``execute``.
    """
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=confined.descriptors,
                env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
                user=confined.user,
                group=confined.group,
                extra_groups=None if confined.user is None else [],
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeadlineExceeded(argv[0], seconds) from None
        output.seek(0)
        return Ended(done.returncode, output.read(most), b"")


def attempt(
    argv: t.Sequence[str], *, text: str | None = None, seconds: float = _SECONDS
) -> Done | None:
    """Run a program with ``text`` as its input; None if it is not installed.

    Raises DeadlineExceeded after ``seconds``; the program is killed then.
    """
    if find(argv[0]) is None:
        return None
    done = execute(argv, text=text, seconds=seconds, path=_PATH)
    return Done(done.status, done.out, " ".join(done.error_text.split()))


def run(argv: t.Sequence[str], *, text: str | None = None, seconds: float = _SECONDS) -> str:
    """The output of a program; raises ProgramFailed if it fails or is not installed."""
    done = attempt(argv, text=text, seconds=seconds)
    if done is None:
        raise ProgramFailed(argv, 127, "it is not installed")
    if done.status != 0:
        raise ProgramFailed(argv, done.status, done.error_text)
    return done.out


def first_matching_line(
    argv: t.Sequence[str], wanted: t.Callable[[str], bool], *, seconds: float = _SECONDS
) -> str | None:
    """The first wanted line of a program's standard error; the program is killed then.

    If there is none before it ends, or is killed after ``seconds``, its last line; None if it is
    not installed.
    """
    if find(argv[0]) is None:
        return None
    last = ""
    with subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(_PATH),
        encoding="utf-8",
        errors="replace",
    ) as process:
        limit = threading.Timer(seconds, process.kill)
        limit.start()
        try:
            for line in piped(process.stderr):
                last = line.strip()
                if wanted(last):
                    break
        finally:
            limit.cancel()
            process.kill()
    return last


def limited(argv: t.Sequence[str], text: str, *, seconds: float, most: int) -> str | None:
    """The output of a program with ``text`` as its input; None if it cannot be run or times out.

    Also None if it prints more than ``most`` bytes: the other side may be untrusted and print
    without end. Its environment is the session's, as ssh needs it.
    """
    with tempfile.TemporaryFile() as source:
        source.write(text.encode())
        source.seek(0)
        try:
            process = subprocess.Popen(
                list(argv), stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            return None
    output = bytearray()
    limit = time.monotonic() + seconds
    with _killed(process), piped(process.stdout) as stream:
        while len(output) <= most:
            block = _next(stream, limit)
            if not block:
                return None if block is None else output.decode("utf-8", "replace")
            output += block
    return None


def bound(argv: t.Sequence[str]) -> list[str]:
    """The command that runs ``argv`` and is killed when this process ends (setpriv, prctl(2)).

    If this process ends before that is arranged, ``argv`` is not run: its parent is another then.
    """
    script = f'[ "$PPID" = {os.getpid()} ] && exec "$@"'
    return ["setpriv", "--pdeathsig", "KILL", "sh", "-c", script, "sh", *argv]


@contextlib.contextmanager
def greeted(
    argv: t.Sequence[str], text: str, wanted: str, *, seconds: float
) -> t.Iterator[str | None]:
    """Run a program until exit from the context; yields None once it has printed ``wanted``.

    Otherwise yields what it printed until it ended or ``seconds`` had passed. ``text`` is its only
    input; its standard input stays open.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(None),
    )
    source, stream = piped(process.stdin), piped(process.stdout)
    try:
        with _killed(process):
            with contextlib.suppress(BrokenPipeError):  # it has ended; its output says why
                source.write(text.encode())
                source.flush()
            output, limit = b"", time.monotonic() + seconds
            while wanted.encode() not in output:
                block = _next(stream, limit)
                if not block:
                    break
                output += block
            yield None if wanted.encode() in output else _text(output).strip()
    finally:
        with contextlib.suppress(BrokenPipeError):
            source.close()
        stream.close()


Running = subprocess.Popen[bytes]


def beside(
    argv: t.Sequence[str],
    *,
    talks: bool = True,
    errors: bool = False,
    environment: t.Mapping[str, str] | None = None,
    descriptors: tuple[int, ...] = (),
) -> Running:
    """Start a program that runs beside the caller, which talks to it and ends it.

    ``talks``: its input and output are pipes to the caller, otherwise nothing. ``errors``: so is
    its standard error, and no key pressed interrupts it. It inherits ``descriptors``, and the
    session's variables, or those of ``environment`` in their place.
    """
    pipe = subprocess.PIPE if talks else subprocess.DEVNULL
    return subprocess.Popen(
        list(argv),
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.PIPE if errors else None if talks else subprocess.DEVNULL,
        bufsize=0,
        start_new_session=errors,
        env=None if environment is None else _environment(None, environment),
        pass_fds=descriptors,
    )


def piped(stream: t.IO[t.AnyStr] | None) -> t.IO[t.AnyStr]:
    """The pipe to or from a program that was started with one there."""
    if stream is None:
        raise ValueError("the program was started without this pipe")
    return stream


def end(process: Running, seconds: float) -> None:
    """Wait for the process to end, and kill it after ``seconds``."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _killed(process: subprocess.Popen[bytes]) -> t.Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _next(stream: t.IO[bytes], limit: float) -> bytes | None:
    """The next block; empty at the end, None if nothing arrived before ``limit``."""
    waiting = select.poll()  # select(2) takes no descriptor above 1023
    waiting.register(stream, select.POLLIN)
    if not waiting.poll(max(0.0, limit - time.monotonic()) * 1000):
        return None
    return os.read(stream.fileno(), _BLOCK)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _environment(
    path: str | None, environment: t.Mapping[str, str] | None = None
) -> dict[str, str]:
    place = {} if path is None else {"PATH": path}
    base = os.environ if environment is None else environment
    return {**base, **place, "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
