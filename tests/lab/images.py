# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory's guest images, built from Debian's packages and cached.

    python3 -m tests.lab.images tiny | debian     build if needed, print the image's path
    python3 -m tests.lab.images packages          print the Debian packages that the machine needs

An image is known by the content of its recipe: suite, packages, mirror, the builder's own files
and the files that go into the guest. Another recipe makes another folder, an existing one is never
written again. The packages' versions are no part of it: to ask the mirror for them costs five
seconds and a network at every call, and images would change in the middle of a working day. They
are recorded in the manifest beside the image; `--fresh` builds with today's.

Environment: FLEET_VIRT_CACHE (the cache folder, ~/.cache/fleet-virt if neither it nor
XDG_CACHE_HOME is set) and FLEET_VIRT_MIRROR (a Debian mirror).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.lab import images_disk, images_tiny
from tests.lab.images_disk import ImageError, remove_tree, run

SUITE = "bookworm"
UNUSED_DAYS = 14

# Debian package -> the command or file by which we see that it is there
MACHINE_NEEDS = {
    "e2fsprogs": "mke2fs",
    "mmdebstrap": "mmdebstrap",
    "mtools": "mformat",
    "qemu-utils": "qemu-img",
    "syslinux": "syslinux",
    "syslinux-common": str(images_disk.MBR_CODE),
    "util-linux": "setpriv",
}
RECIPES: dict[str, ModuleType] = {"tiny": images_tiny}


@dataclass(frozen=True)
class Manifest:
    """What is recorded beside an image."""

    name: str
    suite: str
    recipe: str
    sha256: str
    seconds: float
    packages: dict[str, str]


def cache_folder() -> Path:
    """Where images are kept (nothing is made)."""
    own = os.environ.get("FLEET_VIRT_CACHE")
    if own:
        return Path(own) / "images"
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fleet-virt" / "images"


def machine_packages() -> list[str]:
    """Debian packages that the machine must have to build images."""
    return sorted(MACHINE_NEEDS)


def recipe_digest(name: str) -> str:
    """The digest over everything of ours that shapes the image."""
    recipe = _recipe(name)
    digest = hashlib.sha256()
    for text in (name, SUITE, _mirror(), recipe.VARIANT, *recipe.PACKAGES):
        digest.update(f"{text}\n".encode())
    sources = [Path(str(recipe.__file__)), Path(images_disk.__file__)]
    guest = sorted(path for path in recipe.GUEST_FILES.rglob("*") if path.is_file())
    for path in (*sources, *guest):
        mode = path.stat().st_mode & 0o111
        digest.update(f"{path.name} {mode:o} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def image(name: str, fresh: bool = False) -> Path:
    """The image's path; it is built first if this recipe has not been built yet.

    Any number of processes may ask at once: one builds, the others wait for it.

    :raises ImageError: unknown name, missing package, not root, or a failed build.
    """
    recipe = recipe_digest(name)
    target = cache_folder() / f"{name}-{recipe[:16]}"
    path = target / f"{name}.qcow2"
    if path.exists() and not fresh:
        os.utime(target)
        return path
    _check_machine()
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _locked(cache_folder() / f"{name}.lock"):
        if fresh or not path.exists():
            _clean(name, target)
            _build(name, recipe, target)
    return path


def manifest(path: Path) -> Manifest:
    """The record of an image that `image` returned."""
    return Manifest(**json.loads((path.parent / "manifest.json").read_text(encoding="utf-8")))


def file_digest(path: Path) -> str:
    """SHA-256 of a file, to be compared with the manifest's."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _recipe(name: str) -> ModuleType:
    if name not in RECIPES:
        raise ImageError(f"there is no image {name!r}: choose one of {', '.join(sorted(RECIPES))}")
    return RECIPES[name]


def _mirror() -> str:
    return os.environ.get("FLEET_VIRT_MIRROR", "")


def _check_machine() -> None:
    missing = [
        package
        for package, sign in MACHINE_NEEDS.items()
        if not (Path(sign).exists() if sign.startswith("/") else shutil.which(sign))
    ]
    if missing:
        raise ImageError(f"missing: {' '.join(missing)}; install with: apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        raise ImageError("images are built as root (their files belong to root); run as root")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another build ({path})")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _clean(name: str, keep: Path) -> None:
    """Remove what killed builds left (we hold the lock: none is running) and long unused images."""
    for path in cache_folder().glob(f".{name}-*"):
        remove_tree(path)
    oldest = time.time() - UNUSED_DAYS * 86400
    for path in cache_folder().glob(f"{name}-*"):
        if path != keep and path.is_dir() and path.stat().st_mtime < oldest:
            remove_tree(path)


def _bootstrap(recipe: ModuleType, work: Path) -> tuple[Path, dict[str, str]]:
    """Unpack or install the recipe's packages; return the tree and the packages' versions.

    In a process and mount space of its own: mmdebstrap's mounts and children cannot outlive it.
    """
    tree = work / "tree"
    versions = work / "versions"
    listing = (
        "cd \"$1/var/cache/apt/archives\" && for f in *.deb; do dpkg-deb -W --showformat='${Package} ${Version}\\n' "
        f'"$f"; done > {versions}'
    )
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "mmdebstrap", "--quiet"]
    argv += [f"--variant={recipe.VARIANT}", f"--include={','.join(recipe.PACKAGES)}", "--architectures=amd64"]
    argv += ['--aptopt=Acquire::Retries "3"']
    proxy = run(["apt-config", "shell", "proxy", "Acquire::http::Proxy"]).strip()
    if proxy:
        address = proxy.split("=", 1)[1].strip("'")
        argv += [f'--aptopt=Acquire::http::Proxy "{address}"']
    argv += [f"--extract-hook={listing}" if recipe.VARIANT == "extract" else _installed(versions)]
    argv += [*getattr(recipe, "OPTIONS", ()), SUITE, str(tree)]
    if _mirror():
        argv.append(_mirror())
    run(argv)
    pairs = (line.split(" ", 1) for line in sorted(versions.read_text().splitlines()))
    return tree, dict(pairs)


def _installed(versions: Path) -> str:
    return f"--customize-hook=dpkg-query --root=\"$1\" -W -f '${{Package}} ${{Version}}\\n' > {versions}"


def _build(name: str, recipe: str, target: Path) -> None:
    started = time.monotonic()
    _say(f"building the guest image {name} from Debian's packages ({SUITE})")
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache_folder()))
    try:
        tree, packages = _bootstrap(_recipe(name), work)
        ready = work / "ready"
        ready.mkdir()
        path = ready / f"{name}.qcow2"
        disk = _recipe(name).prepare(tree, work)
        images_disk.write_disk(disk, path, uuid.UUID(recipe[:32]))
        path.chmod(0o444)
        seconds = round(time.monotonic() - started, 1)
        record = Manifest(name, SUITE, recipe, file_digest(path), seconds, packages)
        (ready / "manifest.json").write_text(json.dumps(vars(record), indent=1), encoding="utf-8")
        ready.chmod(0o755)
        if target.exists():  # a fresh build: set the old one aside in one step, in no user's way
            target.rename(work / "old")
        ready.rename(target)
        _say(f"built {target / path.name} in {seconds} s")
    finally:
        remove_tree(work)


def main(arguments: list[str] | None = None) -> int:
    """The command line; errors go to standard error, exit status 1."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.lab.images", description="guest images")
    parser.add_argument("what", choices=[*sorted(RECIPES), "packages"])
    parser.add_argument("--fresh", action="store_true", help="build again with today's packages")
    options = parser.parse_args(arguments)
    if options.what == "packages":
        print(" ".join(machine_packages()))
        return 0
    try:
        print(image(options.what, options.fresh))
    except ImageError as error:
        _say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
