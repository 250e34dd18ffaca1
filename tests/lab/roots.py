# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root trees of hosts: built once from Debian's packages, then shared read-only by all hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import processes
from .errors import LabError, Progress
from .paths import cache, locked
from .recipe import MACHINE_PACKAGES, Recipe, recipe_for

__all__ = ["apt_proxy", "build", "check_machine", "ensure", "ensure_all", "lock_of", "sweep"]

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def check_machine() -> None:
    """See that this machine has what the laboratory is made of.

    :raises LabError: naming every missing package, with the line that installs them.
    """
    if os.geteuid() != 0:
        raise LabError("the laboratory makes network namespaces and mounts: run it as root")
    if os.uname().machine != "x86_64":
        raise LabError(f"the laboratory's hosts are amd64, this machine is {os.uname().machine}")
    missing = sorted(
        {
            package
            for command, package in MACHINE_PACKAGES.items()
            if not (os.path.exists(command) if command[0] == "/" else shutil.which(command))
        }
    )
    if missing:
        raise LabError(
            f"missing on this machine: {', '.join(missing)}; install with: "
            f"apt-get update && apt-get install -y --no-install-recommends {' '.join(missing)}"
        )

    place = cache()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(place)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if kind == "overlayfs":
        raise LabError(
            f"the cache folder {place} is on {kind}, which cannot carry the hosts' disks: set "
            "FLEET_VIRT_CACHE to a folder on ext4, xfs, btrfs or tmpfs"
        )


def _apt(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def apt_proxy(scheme: str = "http") -> str | None:
    """The proxy through which this machine's own apt fetches, or None."""
    text = _apt(["apt-config", "shell", "PROXY", f"Acquire::{scheme}::Proxy"])
    match = re.search(r"PROXY='(.+)'", text)
    found = match.group(1) if match else os.environ.get(f"{scheme}_proxy")
    return found if found and found != "DIRECT" else None


def _apt_options() -> list[str]:
    """How this machine's apt reaches archives (proxies, certificates, time-outs)."""
    options = []
    for line in _apt(["apt-config", "dump", "--no-empty", "Acquire"]).splitlines():
        if re.match(r"Acquire::(https?|Retries|ForceIPv[46]|Check-Valid-Until)\b", line):
            options.append(line)
    return options


def _mirror() -> str:
    """Debian's archive as this machine reaches it, or Debian's own address."""
    listing = _apt(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)|$(CODENAME)"]
    )
    for line in listing.splitlines():
        origin, label, address, codename = (*line.split("|"), "", "", "", "")[:4]
        if origin == label == "Debian" and "-" not in codename and address:
            return address.rstrip("/")
    return "http://deb.debian.org/debian"


def lock_of(tree: str) -> Path:
    """The lock of a tree in the making."""
    return cache() / "locks" / f"root-{tree}"


def sweep() -> int:
    """Remove what builders left that were killed; those at work hold the tree's lock.

    :returns: how many half-built trees were removed.
    """
    count = 0
    for left in sorted((cache() / "roots").glob(".*.*")):
        with locked(lock_of(left.name.split(".")[1]), wait=False) as got:
            if got:
                processes.kill(left)
                shutil.rmtree(left)
                count += 1
    return count


def build(recipe: Recipe, target: Path, progress: Progress) -> None:
    """Make a tree beside its place and rename it: nobody sees half of it. Its lock is held.

    :raises LabError: mmdebstrap failed; its output is kept beside the trees.
    """
    parent = target.parent
    parent.mkdir(parents=True, exist_ok=True)
    log = parent / f"{recipe.name}.log"
    progress(f"building {recipe.name} from Debian's packages (once; about a minute)")
    work = Path(tempfile.mkdtemp(prefix=f".{recipe.name}.", dir=parent))
    root = work / "root"
    command = [
        # Dies with this program, and with it everything in its process and mount namespaces.
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc"),
        "--kill-child=SIGKILL",
        *("mmdebstrap", "--mode=root", "--variant=important", "--format=directory"),
        f"--keyring={_KEYRING}",
        f"--include={','.join(recipe.packages)}",
        *(f"--dpkgopt={option}" for option in recipe.dpkg),
        *(f"--aptopt={option}" for option in _apt_options()),
        *(recipe.suite, str(root), f"deb {_mirror()} {recipe.suite} main"),
    ]
    environment = dict(os.environ, LC_ALL="C.UTF-8", TMPDIR=str(work))
    environment[processes.MARK] = f"{work}:builder"
    with open(log, "wb") as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            check=False,
        )
    if done.returncode:
        shutil.rmtree(work)
        raise LabError(f"mmdebstrap failed, see {log}: {processes.tail(log)}")
    _finish(recipe, root)
    os.rename(root, target)
    shutil.rmtree(work)
    progress(f"built {recipe.name}")


def _finish(recipe: Recipe, root: Path) -> None:
    for pattern in recipe.remove:
        for path in root.glob(pattern):
            path.unlink()
    # Present and empty: every host gets its own, and nothing counts as a first boot.
    (root / "etc/machine-id").write_text("")
    for name, content in recipe.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o440 if "sudoers" in name else 0o644)
    for name, content in recipe.append.items():
        with open(root / name, "a", encoding="utf-8") as stream:
            stream.write(content)
    units = root / "etc/systemd/system"
    for unit in recipe.masked:
        link = units / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    for command in recipe.commands:
        processes.run(["chroot", str(root), *command])


def ensure(suite: str, bare: bool = False, progress: Progress | None = None) -> Path:
    """The root tree for a suite, built if need be. It is shared: never write into it.

    :raises LabError: it cannot be built.
    """
    recipe = recipe_for(suite, bare)
    target = cache() / "roots" / recipe.name
    if not target.is_dir():
        with locked(lock_of(recipe.name)):
            if not target.is_dir():
                build(recipe, target, progress or Progress())
    return target


def ensure_all(wanted: Iterable[tuple[str, bool]], progress: Progress) -> None:
    """Build what is missing of several trees, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(ensure, suite, bare, progress) for suite, bare in wanted]:
            result.result()
