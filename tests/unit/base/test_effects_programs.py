# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that this machine really has, and their ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)

_MOST = 4 * 1024 * 1024


def test_those_of_the_system(tmp_path: Path) -> None:
    assert programs.attempt(["no-such-program"]) is None
    assert programs.run(["cat"], text="said\n") == "said\n"
    with pytest.raises(programs.ProgramFailed, match=r"ls .* failed \(2\)"):
        programs.run(["ls", str(tmp_path / "missing")])
    with pytest.raises(programs.ProgramFailed, match="it is not installed"):
        programs.run(["no-such-program"])


def test_a_program_of_the_session_is_found_where_the_session_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.write_text('#!/bin/sh\necho "$LC_ALL $LANGUAGE"; echo why >&2; exit 3\n')
    own.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        programs.execute(["own"])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LANGUAGE", "de")
    done = programs.execute(["own"])
    assert (done.status, done.out, done.error_text) == (3, "C.UTF-8 C\n", "why")
    assert programs.attempt(["own"]) is None


def test_without_input_a_program_reads_nothing() -> None:
    assert programs.execute(["cat"]).stdout == b""
    # as a file's name of any bytes is read
    assert programs.execute(["cat"], text="a\udcff").stdout == b"a\xff"


def test_what_is_said_where_standard_error_is_empty() -> None:
    assert programs.execute(["sh", "-c", "echo out"]).error_text == "out"
    done = programs.attempt(["sh", "-c", "echo out; printf 'a\\r\\n  b\\n' >&2"])
    assert done == programs.Done(0, "out\n", "a b")


def test_what_goes_into_a_file_is_not_in_memory(tmp_path: Path) -> None:
    with open(tmp_path / "secret", "xb") as file:
        done = programs.execute(["sh", "-c", "echo secret; echo why >&2"], into=file)
    assert done == programs.Ended(0, b"", b"why\n")
    assert (tmp_path / "secret").read_text() == "secret\n"


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    words = ["sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 60"]
    with pytest.raises(DeadlineExceeded, match=r"sh: no answer within 0\.5 seconds"):
        programs.execute(words, seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_one_that_is_confined_has_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "secret")
    (tmp_path / "x").write_text("content")
    with open(tmp_path / "x", "rb") as given, open(tmp_path / "x", "rb") as other:
        os.set_inheritable(other.fileno(), True)
        text = f"pwd; echo ${{SECRET-none}}; cat /dev/fd/{given.fileno()} /dev/fd/{other.fileno()}"
        done = programs.execute_confined(
            ["sh", "-c", f"{{ {text}; }} 2>/dev/null"],
            programs.Confined((given.fileno(),)),
            seconds=20,
            most=4096,
        )
    assert done.out == "/\nnone\ncontent"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_one_that_is_confined_is_somebody_else() -> None:
    confined = programs.Confined((), 65534, 65534)
    done = programs.execute_confined(["id", "-G"], confined, seconds=20, most=4096)
    assert done.out == "65534\n"


def test_of_what_one_that_is_confined_says_little_is_kept() -> None:
    words = ["prlimit", "--fsize=65536", "--", "sh", "-c", "yes; echo $? >&2"]
    done = programs.execute_confined(words, programs.Confined(), seconds=20, most=4096)
    assert len(done.stdout) == 4096
    with pytest.raises(DeadlineExceeded):
        programs.execute_confined(["sleep", "60"], programs.Confined(), seconds=0.1, most=1)


def test_a_line_that_is_waited_for() -> None:
    text = "echo a >&2; echo b >&2; exec sleep 60"
    line = programs.first_matching_line
    assert line(["sh", "-c", text], lambda line: line == "b") == "b"
    assert line(["sh", "-c", "echo a >&2"], lambda line: line == "b") == "a"
    assert line(["sh", "-c", text], lambda _line: False, seconds=0.5) == "b"
    assert line(["no-such-program"], lambda _line: True) is None


def test_one_that_goes_on_ends_with_what_it_was_for() -> None:
    words = ["sh", "-c", "read line; echo $$ said $line; exec cat"]
    with programs.greeted(words, "it\n", "said it", seconds=20) as refusal:
        assert refusal is None
    with programs.greeted(["sh", "-c", "echo no"], "it\n", "said it", seconds=20) as refusal:
        assert refusal == "no"
    with programs.greeted(["sleep", "60"], "it\n", "said it", seconds=0.1) as refusal:
        assert refusal == ""


def _sh(text: str, seconds: float = 20.0) -> tuple[str | None, float]:
    """What a shell script says, and how many MiB of memory that took here at most."""
    tracemalloc.start()
    try:
        said = programs.limited(["sh", "-c", text], "input\n", seconds=seconds, most=_MOST)
        return said, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_a_flood_is_cut_while_it_is_read() -> None:
    said, mib = _sh("yes 0123456789")
    assert said is None
    assert mib < 40


def test_an_answer_up_to_the_limit_is_read() -> None:
    said, _mib = _sh(f"head -c {_MOST} /dev/zero")
    assert said is not None
    assert len(said) == _MOST


def test_silence_and_a_descendant_that_holds_the_pipe_end_at_the_limit() -> None:
    begun = time.monotonic()
    assert _sh("cat; sleep 30 & exec sleep 30", 0.5)[0] is None
    assert time.monotonic() - begun < 10


_STARTS = """
import subprocess, sys
sys.path[:0] = {paths!r}
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
subprocess.call(programs.bound(["sh", "-c", "echo $$ >{folder}/at-work; exec sleep 60"]))
"""
_SLOW_SETPRIV = '#!/bin/sh\necho $$ >{folder}/begun\nsleep 0.5\nexec {setpriv} "$@"\n'


def _wait_for(path: Path) -> int:
    while not (path.exists() and path.read_text().strip()):
        time.sleep(0.01)
    return int(path.read_text())


@pytest.mark.parametrize("begun", ["at-work", "begun"])
def test_bound_program_whose_parent_is_killed_is_killed(tmp_path: Path, begun: str) -> None:
    """At work, and before setpriv has arranged it."""
    slow = tmp_path / "setpriv"
    slow.write_text(_SLOW_SETPRIV.format(folder=tmp_path, setpriv=programs.find("setpriv")))
    slow.chmod(0o755)
    script = _STARTS.format(folder=tmp_path, paths=[path for path in sys.path if path])
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    child = _wait_for(tmp_path / begun)
    parent.kill()
    parent.wait()
    limit = time.monotonic() + 20
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < limit, "it goes on"
        time.sleep(0.01)
    assert (tmp_path / "at-work").exists() == (begun == "at-work")
