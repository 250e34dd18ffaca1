# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The laboratory's guest images, built from Debian's packages and cached.

    python3 -m tests.lab.images tiny | debian | hypervisor   build if needed, print the image's path
    python3 -m tests.lab.images packages       print the Debian packages that the machine needs

An image is known by the content of its recipe: suite, packages, the builder's own files and the
files that go into the guest. Another recipe makes another folder; nothing but `--fresh` writes an
existing one again. The packages' versions are no part of it: to ask the mirror for them costs five
seconds and a network at every call, and images would change in the middle of a working day. They
are recorded in the manifest beside the image.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from . import (
    images_cache,
    images_debian,
    images_disk,
    images_hypervisor,
    images_kernel,
    images_packages,
    images_tiny,
)
from .errors import LabError, Progress
from .paths import cache, locked

__all__ = ["Manifest", "file_digest", "image", "machine_packages", "manifest", "recipe_digest"]

SUITE = "bookworm"

# Debian package -> the command or file by which we see that it is there
MACHINE_NEEDS = {
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "e2fsprogs": "mke2fs",
    "mmdebstrap": "mmdebstrap",
    "mtools": "mformat",
    "qemu-utils": "qemu-img",
    "syslinux": "syslinux",
    "syslinux-common": str(images_disk.MBR_CODE),
    "util-linux": "setpriv",
}
RECIPES: dict[str, ModuleType] = {
    "tiny": images_tiny,
    "debian": images_debian,
    "hypervisor": images_hypervisor,
}
_OWN_KERNEL = ("tiny",)  # where it is wanted


@dataclass(frozen=True)
class Manifest:
    """What is recorded beside an image: the digest is the file's, seconds are the build's."""

    name: str
    suite: str
    recipe: str
    sha256: str
    seconds: float
    packages: dict[str, str]


def _folder() -> Path:
    return cache() / "images"


def machine_packages() -> list[str]:
    """Debian packages that the machine must have to build images."""
    return sorted(MACHINE_NEEDS)


def recipe_digest(name: str) -> str:
    """The digest over everything of ours that shapes the image."""
    recipe = _recipe(name)
    digest = hashlib.sha256()
    for text in (name, _suite(recipe), recipe.VARIANT, *recipe.OPTIONS, *recipe.PACKAGES):
        digest.update(f"{text}\n".encode())
    here = Path(__file__).parent
    modules = (recipe, images_disk, images_packages)
    sources = [Path(str(module.__file__)) for module in modules]
    if name in _OWN_KERNEL and images_kernel.wanted():
        digest.update(f"kernel {images_kernel.digest()}\n".encode())
    guest = sorted(path for path in recipe.GUEST_FILES.rglob("*") if path.is_file())
    for path in (*sources, *guest):
        mode = path.stat().st_mode & 0o100
        digest.update(f"{path.relative_to(here)} {mode:o} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def image(name: str, fresh: bool = False, progress: Progress | None = None) -> Path:
    """The image's path; it is built first if this recipe has not been built yet.

    Any number of processes may ask at once: one builds, the others wait for it.

    :raises LabError: unknown name, missing package, not root, or a failed build.
    """
    recipe = recipe_digest(name)
    target = _folder() / f"{name}-{recipe[:12]}"
    path = target / f"{name}.qcow2"
    if path.exists() and not fresh:
        os.utime(target)  # for images_cache
        return path
    _check_machine()
    with locked(cache() / "locks" / f"image-{name}"):
        if fresh or not path.exists():
            _folder().mkdir(parents=True, exist_ok=True)
            others = (path for path in _folder().glob(f"{name}-*") if path != target)
            images_cache.clean(_folder().glob(f".{name}-*"), others)
            _build(name, recipe, target, progress or Progress("images"))
    return path


def manifest(path: Path) -> Manifest:
    """The record of an image that `image` returned."""
    return Manifest(**json.loads((path.parent / "manifest.json").read_text(encoding="utf-8")))


def file_digest(path: Path) -> str:
    """SHA-256 of a file, to be compared with the manifest's."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _recipe(name: str) -> ModuleType:
    if name not in RECIPES:
        raise LabError(f"there is no image {name!r}: choose one of {', '.join(sorted(RECIPES))}")
    return RECIPES[name]


def _suite(recipe: ModuleType) -> str:
    return str(getattr(recipe, "SUITE", SUITE))


def _check_machine() -> None:
    missing = [
        package
        for package, sign in MACHINE_NEEDS.items()
        if not (Path(sign).exists() if sign.startswith("/") else shutil.which(sign))
    ]
    if missing:
        raise LabError(
            f"missing: {' '.join(missing)}; install with: apt-get install {' '.join(missing)}"
        )
    if os.geteuid() != 0:
        raise LabError("images are built as root (their files belong to root); run as root")


def _build(name: str, recipe: str, target: Path, progress: Progress) -> None:
    started = time.monotonic()
    suite = _suite(_recipe(name))
    progress(f"building the guest image {name} from Debian's packages ({suite}), once")
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=_folder()))
    mask = os.umask(0o022)  # the guest's files have their own modes, whoever builds
    try:
        tree, packages = images_packages.bootstrap(_recipe(name), suite, work)
        ready = work / "ready"
        ready.mkdir(mode=0o755)
        path = ready / f"{name}.qcow2"
        disk = _recipe(name).prepare(tree, work)
        if name in _OWN_KERNEL and images_kernel.wanted():
            disk = dataclasses.replace(disk, kernel=images_kernel.kernel(suite, progress))
        images_disk.write_disk(disk, path, uuid.UUID(recipe[:32]))
        path.chmod(0o444)
        seconds = round(time.monotonic() - started, 1)
        record = Manifest(name, suite, recipe, file_digest(path), seconds, packages)
        text = json.dumps(dataclasses.asdict(record), indent=1)
        (ready / "manifest.json").write_text(f"{text}\n", encoding="utf-8")
        if target.exists():  # who has the old one open keeps it
            target.rename(work / "old")
        ready.rename(target)
        progress(f"built {target / path.name}")
    finally:
        os.umask(mask)
        shutil.rmtree(work)


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
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
