# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the contract checks keep their tools, and how they start them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.support import preloaded

CHECKOUT = Path(__file__).resolve().parents[2]
REQUIREMENTS = CHECKOUT / "tests" / "requirements"
PREFIX = Path("ansible_collections") / "fleet" / "virt"

# No check takes minutes; the first one of a kind also installs its tool, and all give way to
# laboratories.
LIMIT_S = 1800


def cache_folder() -> Path:
    """Return the folder for what is expensive to make and can always be made again."""
    named = os.environ.get("FLEET_VIRT_CACHE")
    if named:
        return Path(named)
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "fleet-virt"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock named after ``path`` against other test runs, also those of other checkouts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(
    argv: Sequence[str | Path],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> str:
    """Run a tool and return what it printed; the test fails with that when the tool fails."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        # what is looked at must stay as it is: a tool that imports a plugin would compile it there
        env={**(os.environ if env is None else env), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=limit_s,
        check=False,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        command = " ".join(str(word) for word in argv)
        pytest.fail(f"{command}\nexit status {done.returncode}\n{done.stdout}", pytrace=False)
    return done.stdout


class Preloaded:
    """Runs ``ansible`` and ``ansible-playbook`` of this environment in forks of one that has
    imported ansible-core, which is most of what a command of a second does.

    They share ``folder``, in which they run, and environment: a test names its files in full.
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        # as in run()
        self._env = {**env, "PYTHONDONTWRITEBYTECODE": "1"}
        self._server = preloaded.Preloaded(self._env, folder)

    def run(self, program: str, *words: str | Path, limit_s: float = 120) -> str:
        """Run it as :func:`run` does."""
        status, said = self.ended(program, *words, limit_s=limit_s)
        if status != 0:
            command = " ".join([program, *map(str, words)])
            pytest.fail(f"{command}\nexit status {status}\n{said}", pytrace=False)
        return said

    def ended(
        self, program: str, *words: str | Path, limit_s: float = 120, **variables: str
    ) -> tuple[int, str]:
        """Run it, with these variables set as well; its exit status and what it said."""
        argv = [str(programs() / program), *map(str, words)]
        with tempfile.TemporaryFile() as output:
            env = {**self._env, **variables}
            status = self._server.run(argv, env, (output, output), limit_s)
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def close(self) -> None:
        """End it."""
        self._server.close()


def _read_requirements(path: Path) -> str:
    """Return a requirements file with the files it names, which decide as much as it does."""
    lines = path.read_text().splitlines()
    named = [_read_requirements(path.parent / line[3:]) for line in lines if line.startswith("-r ")]
    return "\n".join([*lines, *named])


def virtual_environment(name: str) -> Path:
    """Return the ``bin`` folder of the environment of ``tests/requirements/<name>.txt``.

    It is made on first use. An environment cannot be renamed, its programs name their interpreter:
    a mark, written last, says that it is complete.
    """
    requirements = REQUIREMENTS / f"{name}.txt"
    identity = "\n".join([sys.version, sys.base_prefix, _read_requirements(requirements)])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = cache_folder() / "venvs" / f"{name}-{digest}"
    with locked(folder):
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
            run([python, "-m", "venv", folder], CHECKOUT)
            pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
            run([*pip, "install", "--quiet", "-r", requirements], CHECKOUT)
            complete.touch()
    return folder / "bin"


def environment(programs: Path, **more: str) -> dict[str, str]:
    """Return the environment for a tool: its own programs first, and a home of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "XDG_", "PYTEST_"))
    }
    return {
        **kept,
        "HOME": str(private_home()),
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "NO_COLOR": "1",
        "PY_COLORS": "0",
        **more,
    }


def private_home() -> Path:
    """Return a home folder in which Ansible's tools may leave what they like.

    ansible-test removes pip's variables from its environment, so they go to a file.
    """
    home = cache_folder() / "home"
    with locked(home):
        settings = home / ".config" / "pip" / "pip.conf"
        settings.parent.mkdir(parents=True, exist_ok=True)
        listed = run([sys.executable, "-m", "pip", "config", "list"], CHECKOUT)
        found: dict[str, str] = {}
        for origin in ("global", ":env:"):  # variables win
            pattern = re.compile(rf"^{origin}\.([a-z-]+)='(.*)'$", re.MULTILINE)
            found.update(pattern.findall(listed))
        lines = ["[global]", *(f"{key} = {value}" for key, value in sorted(found.items()))]
        _replace(settings, "\n".join(lines) + "\n")
    return home


def pythons(folder: Path) -> str:
    """Return a ``PATH`` for ansible-test, which tries every Python of that path.

    A version manager's stand-ins exist for versions that do not run: only what runs is linked.
    """
    folder.mkdir()
    for minor in range(9, 20):
        name = f"python3.{minor}"
        found = shutil.which(name)
        if found is None:
            continue
        asked = [found, "-c", "import sys; print(sys.base_prefix)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        real = Path(done.stdout.strip()) / "bin" / name
        if done.returncode == 0 and real.exists():
            (folder / name).symlink_to(real)
    return os.pathsep.join([str(folder), "/usr/sbin", "/usr/bin", "/sbin", "/bin"])


def offline_get_pip(programs: Path) -> None:
    """Give ansible-test the installer of pip that it would download, made from ``ensurepip``."""
    site = programs.parent / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    source = (site / "ansible_test" / "_internal" / "python_requirements.py").read_text()
    versions = re.findall(r"pip='([0-9.]+)'", source)
    assert versions, "ansible-test no longer says which pip it installs"
    for version in versions:
        name = f"get_pip_{version.replace('.', '_')}.py"
        _replace(private_home() / ".ansible" / "test" / "cache" / name, _GET_PIP)


# In a child, because ensurepip in this process would make pip ignore its configuration.
_GET_PIP = """\
import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)
wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--quiet", *wanted]))
"""


def _replace(path: Path, text: str) -> None:
    """Write a file that others may be reading."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)


def project_files() -> list[Path]:
    """Return the paths, relative to the checkout, of what a clone with this work would have."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = run(["git", "-c", f"safe.directory={CHECKOUT}", *command[1:]], CHECKOUT)
    return sorted(
        Path(name) for name in names.split("\0") if name and os.path.lexists(CHECKOUT / name)
    )


def copy_project(root: Path) -> Path:
    """Copy the project to where Ansible expects a collection below ``root``; return that folder."""
    target = root / PREFIX
    for path in project_files():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / path, target / path, follow_symlinks=False)
    return target


def programs() -> Path:
    """Return the folder of the programs of the environment that the tests run in."""
    return Path(sys.executable).parent
