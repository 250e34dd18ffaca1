# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images by a short name, such as ``debian12``: a URL with its checksum, and the system in it.

A file of that name in ``virt_image_dir`` comes first, so that a name means what it meant before.
Modules never see such a name: it is replaced on the controller by what it stands for, and a VM is
made of that image. Those that exist have their disks and are not made again when an entry changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import Json
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import parse_image
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _sums

VARIABLE = "virt_image_catalogue"
FILE = Path(__file__).with_name("catalogue.yml")
DEFAULT_IMAGE_DIR = "~/images"
_FORM = "write {url: https://..., checksum: 'sha256:...', os: debian12}"
_KEYS = {"url", "checksum", "os"}


@dataclass(frozen=True)
class CatalogueImage:
    """``image`` as one string of URL and checksum; ``os`` is a name of libosinfo's, or None."""

    image: str
    os: str | None


def _pinned(image: Mapping[str, object]) -> object:
    """URL and checksum, which is read if it is a URL; what is neither is left as it is."""
    url, checksum = image.get("url"), image.get("checksum")
    if isinstance(url, str) and _sums.is_url(checksum):
        return f"{url}#{_sums.checksum_of(url, str(checksum))}"
    return {"url": url, "checksum": checksum}


class Catalogue:
    """The names of the collection's own file and those of ``virt_image_catalogue``, which win.

    ``folder``: ``virt_image_dir``, None for ``~/images``. Nothing is read before a name is asked
    for that is no file there.
    """

    def __init__(self, folder: object, more: object) -> None:
        self._folder = Path(str(folder or DEFAULT_IMAGE_DIR)).expanduser()
        self._more = more

    def names(self) -> list[str]:
        """All names, sorted. Raises SpecError if the variable is no mapping."""
        return sorted(self._entries())

    def image(self, name: object) -> CatalogueImage | None:
        """What the name stands for; None if it is another kind of image, a file or unknown.

        A URL whose checksum is the address of a file with checksums becomes one with that.
        Raises SpecError for an entry that is none, PlanRefused for such a file that has none.
        """
        if isinstance(name, Mapping):
            pinned = _pinned(name)
            return CatalogueImage(pinned, None) if isinstance(pinned, str) else None
        if not isinstance(name, str) or not name.isprintable() or "/" in name or len(name) > 64:
            return None
        if (self._folder / name).exists():
            return None
        entries = self._entries()
        return self._parsed(name, entries[name]) if name in entries else None

    def _entries(self) -> dict[str, Json]:
        more = to_plain(self._more)
        if more is not None and not isinstance(more, dict):
            raise SpecError(
                [Problem(VARIABLE, f"{show(more)} is not a mapping of names; {_FORM} for each")]
            )
        own: dict[str, Json] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        return {**own, **(more or {})}

    def _parsed(self, name: str, entry: Json) -> CatalogueImage:
        path = f"{VARIABLE}.{name}"
        if not isinstance(entry, dict) or not {"url", "checksum"} <= set(entry) <= _KEYS:
            raise SpecError([Problem(path, f"{show(entry)} has no URL and checksum; {_FORM}")])
        try:
            source = parse_image(_pinned(entry))
        except ValueError as error:
            raise SpecError([Problem(path, str(error))]) from None
        system = entry.get("os")
        return CatalogueImage(source.value, None if system is None else str(system))

    def in_vms(self, vms: list[Json], disks: Callable[[object], list[Json]]) -> list[Json]:
        """The VMs with such names replaced; one whose own image has a system gets it as ``os``,
        unless it says another. ``disks`` reads a list of disks."""
        return [self._in_vm(vm, disks) if isinstance(vm, dict) else vm for vm in vms]

    def _in_vm(self, vm: dict[str, Json], disks: Callable[[object], list[Json]]) -> Json:
        changed: dict[str, Json] = {}
        image = self.image(vm.get("image"))
        if image is not None:
            changed["image"] = image.image
            if vm.get("os") is None and image.os is not None:
                changed["os"] = image.os
        listed = disks(vm.get("disks"))
        replaced = self.in_disks(listed)
        if replaced != listed:
            changed["disks"] = replaced
        return {**vm, **changed} if changed else vm

    def in_disks(self, value: Json) -> Json:
        """Disks, or profiles of disks, with such names replaced wherever ``image`` stands."""
        if isinstance(value, list):
            return [self.in_disks(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        replaced = {key: self.in_disks(item) for key, item in value.items()}
        image = self.image(value.get("image"))
        return replaced if image is None else {**replaced, "image": image.image}
