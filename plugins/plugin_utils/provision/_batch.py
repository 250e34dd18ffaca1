# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs that a playbook requests, from options or from the ``vm_*`` and ``virt_*`` variables.

Modules do not see variables: profiles, keys and images of the controller are resolved here.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    Json,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import (
    show,
    unknown_message,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import Limits
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import DefinedVm
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import (
    ARGUMENTS,
    OPTIONS,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices_xml import target_names
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults, many
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import (
    Variables,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._variables import FOR_ALL
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.images._catalogue import (
    VARIABLE,
    Catalogue,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _seeds

# For callers that request VMs, so that they need only this file
__all__ = ["Variables"]

# In the order in which ssh itself offers them; missing ones are skipped
_OWN_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")
_VM = "vm_"
# Every module of the action group has them
_CONNECTION = ("uri", "timeout")


def defaults(variables: Variables) -> Defaults:
    """The defaults for every VM from the fleet's variables."""
    return Defaults(
        disk_profiles=_catalogue(variables).in_disks(to_plain(variables.get("virt_disk_profiles"))),
        nic_profiles=variables.get("virt_nic_profiles"),
        pool=str(variables.get("virt_pool", "default")),
        ssh_public_keys=tuple(_public_keys(variables)),
        fleet=str(variables.get("virt_fleet", "")),
        fleet_cpu=variables.get("virt_cpu"),
        read_yaml=_seeds.read_yaml,
    )


def _catalogue(variables: Variables) -> Catalogue:
    """The images that have a short name."""
    return Catalogue(variables.get("virt_image_dir"), variables.get(VARIABLE))


def _public_keys(variables: Variables) -> list[str]:
    """``virt_ssh_public_key`` (text, a list, or the path of a file), else the controller's own."""
    given = variables.get("virt_ssh_public_key")
    if isinstance(given, str) and given.startswith(("/", "~")):
        path = Path(given).expanduser()
        if path.is_file():
            given = path.read_text(encoding="utf-8", errors="replace")
    if isinstance(given, str) or given:
        return public_keys("virt_ssh_public_key", given)
    for name in _OWN_KEYS:
        path = Path.home() / ".ssh" / name
        if path.is_file():
            return path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[:1]
    return []


def public_keys(name: str, given: object) -> list[str]:
    """The keys in a value: lines of text or a list. Raises SpecError for anything else."""
    if isinstance(given, str):
        return [line.strip() for line in given.splitlines() if line.strip()]
    if not isinstance(given, (list, tuple)):
        raise SpecError(
            [
                Problem(
                    name,
                    f"{show(given)} is neither a public key nor a list of public keys; give one",
                )
            ]
        )
    return [str(line) for line in given]


def divided(given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The task's options that describe one VM, and the others.

    An unknown option is reported with the VM; without a VM, SpecError is raised.
    """
    known = [key for key in (*ARGUMENTS, *_CONNECTION) if not key.startswith("_")]
    unknown = [key for key in given if key not in known and not key.startswith("_")]
    single = {key: value for key, value in given.items() if key in OPTIONS}
    if unknown and (not single or given.get("vms") is not None):
        raise SpecError(
            [Problem(key, unknown_message("option", key, sorted(known))) for key in unknown]
        )
    single.update({key: given[key] for key in unknown})
    return single, {key: value for key, value in given.items() if key not in single}


def requested(
    options: Mapping[str, object],
    variables: Variables,
    only: t.Collection[str] | None = None,
) -> list[Json]:
    """The VMs as plain data: option ``vms``, else ``virt_vms``, else the ``vm_*`` variables.

    ``only`` (names) leaves out the rest. Names of the catalogue of images are replaced by what they
    stand for. Raises SpecError if no VM is requested, or in both ways.
    """
    vms = options.get("vms")
    if vms is None:
        vms = _from_variables(variables)
    vms = to_plain(vms)
    if not isinstance(vms, list):
        raise SpecError(
            [Problem("virt_vms", "it is not a list of VMs; write - name: ... for each")]
        )
    chosen: list[Json] = vms
    if only is not None:
        chosen = [vm for vm in vms if isinstance(vm, dict) and str(vm.get("name")) in only]
    return _catalogue(variables).in_vms(chosen, _disks)


def shape(options: Mapping[str, object], variables: Variables) -> list[Json]:
    """The one VM whose shape is asked about, as plain data; it needs no name.

    Raises SpecError for more than one.
    """
    vms = options.get("vms")
    if vms is None:
        vms = [{"name": "more", **_single(variables)}]
    if not isinstance(vms, list) or len(vms) != 1:
        raise SpecError([Problem("vms", "capacity is of one shape; describe one VM")])
    return requested({**options, "vms": vms}, variables)


def image_paths(
    options: Mapping[str, object],
    variables: Variables,
    only: t.Collection[str] | None = None,
) -> list[str]:
    """The absolute paths of images that the batch and its disk profiles name, as written.

    Which hypervisors have these files decides where a VM can be created. Nothing is validated here:
    placement does that, and reports every problem of every VM at once.
    """
    try:
        vms = requested(options, variables, only)
    except SpecError:
        return []
    profiles = to_plain(options.get("disk_profiles") or variables.get("virt_disk_profiles"))
    entries = [
        *vms,
        *(disk for vm in vms if isinstance(vm, dict) for disk in _disks(vm.get("disks"))),
    ]
    entries += [disk for disks in as_mapping(profiles).values() for disk in _disks(disks)]
    images = [entry.get("image") for entry in entries if isinstance(entry, dict)]
    paths = {image for image in images if isinstance(image, str) and image.startswith("/")}
    return sorted(path for path in paths if path.isprintable())


def _disks(value: object) -> list[Json]:
    """A list of disks, which ``-e`` may give as JSON text; empty if it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return value if isinstance(value, list) else []


def warn_of_ignored(options: Mapping[str, object], variables: Variables) -> None:
    """Name the settings of a single VM (in group_vars, for example) that nothing reads because
    ``virt_vms`` describes every VM."""
    ignored = _ignored(options, variables)
    if ignored:
        _output.warn(
            f"ignored, because virt_vms describes the VMs; set it there: {', '.join(ignored)}"
        )


def _ignored(options: Mapping[str, object], variables: Variables) -> list[str]:
    if options.get("vms") is not None or variables.get("virt_vms") is None:
        return []
    return sorted(f"{_VM}{key}" for key in _single(variables) if f"{_VM}{key}" != FOR_ALL)


def _single(variables: Variables) -> dict[str, Json]:
    return {
        key: value
        for key, value in variables.given(_VM).items()
        if key in OPTIONS and value is not None
    }


def _from_variables(variables: Variables) -> Json:
    batch = variables.get("virt_vms")
    single = _single(variables)
    if batch is not None and "name" in single:
        raise SpecError(
            [Problem("vm_name", "virt_vms is set too; use vm_* for one VM or virt_vms for several")]
        )
    if batch is not None:
        return _with_wait(batch, variables.get(FOR_ALL))
    if "name" not in single:
        raise SpecError(
            [
                Problem(
                    "vm_name", "no VM is requested; give -e vm_name=web1, or virt_vms for several"
                )
            ]
        )
    return [single]


def _with_wait(batch: Json, wait: Json) -> Json:
    """The VMs; those that do not say whether to wait for them have ``wait``, if it is given."""
    if wait is None or not isinstance(batch, list):
        return batch
    return [{"wait": wait, **vm} if isinstance(vm, dict) else vm for vm in batch]


def without_passwords(
    vms: t.Sequence[Json],
) -> tuple[list[Json], dict[str, str]]:
    """The VMs without their consoles' passwords, and the passwords by VM.

    Ansible shows a module's options in verbose mode; only entire options can be hidden from that.
    """
    cleaned: list[Json] = []
    passwords = {}
    for vm in vms:
        console = vm.get("console") if isinstance(vm, dict) else None
        if isinstance(vm, dict) and isinstance(console, dict) and console.get("password"):
            passwords[str(vm.get("name"))] = str(console["password"])
            console = {key: value for key, value in console.items() if key != "password"}
            cleaned.append({**vm, "console": console})
        else:
            cleaned.append(vm)
    return cleaned, passwords


def written_as(options: Mapping[str, object], variables: Variables) -> str:
    """The name under which the VMs of :func:`requested` were written, for messages."""
    if options.get("vms") is not None:
        return "vms"
    return "virt_vms" if variables.get("virt_vms") is not None else _VM


def validated(vms: t.Sequence[Json], chosen: Defaults, path: str = "vms") -> list[Domain]:
    """The specifications; raises SpecError with every problem of every VM.

    ``path`` is where they were written.
    """
    domains, problems = many(vms, path=path, defaults=chosen)
    if problems:
        raise SpecError(problems)
    return domains


def controller_images(
    domains: t.Sequence[Domain], variables: Variables, *, check: bool
) -> dict[str, _images.LocalImage]:
    """The images of the batch that come from the controller, by the image as written.

    Each is a file in ``virt_image_dir``, or a download if ``virt_image_download_by`` says so, which
    is downloaded now if missing (in check mode only its beginning is read).
    """
    sources = {
        disk.image.value: disk.image
        for domain in domains
        for disk in domain.disks
        if disk.image is not None
    }
    downloads = _images.downloads_by_controller(variables.get("virt_image_download_by"))
    images = {}
    for value, source in sorted(sources.items()):
        if source.kind == "file":
            folder = variables.get("virt_image_dir")
            images[value] = _images.local_image(
                None if folder is None else str(folder), value, remember=not check
            )
        elif source.kind == "url" and downloads:
            from ansible_collections.fleet.virt.plugins.plugin_utils.images import _downloads

            images[value] = _downloads.downloaded(source, Limits(), check=check)
    return images


def known_images(given: Mapping[str, object]) -> dict[str, ImageFacts]:
    """Base images that an earlier task created, by the image as written."""
    return {
        value: ImageFacts.of(
            {
                "name": str(facts["name"]),
                "digest": str(facts["digest"]),
                "format": str(facts["format"]),
                "virtual_bytes": int(str(facts["virtual_bytes"])),
            }
        )
        for value, facts in as_mapping(given).items()
        if isinstance(facts, Mapping)
    }


def images_of(domain: Domain, vm: DefinedVm | None) -> set[str]:
    """The images that a VM needs on its hypervisor, for its disks and in its drives.

    Those of the disks that ``vm`` has, which is the VM there if it exists, are needed no more.
    """
    own = set(() if vm is None else vm.get("disks") or ())
    others = set(() if vm is None else vm.get("targets") or ())
    targets = target_names(domain.disks)
    return {
        disk.image.value
        for disk in domain.disks
        if disk.image is not None
        and not (disk.device == "disk" and (disk.name in own or targets[disk.name] in others))
    }
