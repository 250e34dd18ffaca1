# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import limits_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import (
    parse_image,
    with_checksum,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import (
    decide,
    read_source,
    specification,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing.facts import Converted
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing.options import (
    ARGUMENTS,
    INTERNAL,
    ImportWork,
    TransferredDisk,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import OPTIONS
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import Digest
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _constants
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _vms_file


class VirtImportOptions(Connected):
    src: str
    checksum: str | None
    name: str | None
    networks: dict[str, object] | None
    bus: str | None
    max_unpacked: str
    base_pool: str
    base_path: str
    _disks: list[TransferredDisk]


class ActionModule(StagedAction[ImportWork]):
    """The module converts disks; this reads what is imported, and transfers it."""

    WORK = ImportWork
    CONTROLLER = ("prepare",)

    def decided(self, work: ImportWork) -> t.Mapping[str, object]:
        source, spec, overrides = self._read(verify=not work.round)
        if not work.round:
            _show(spec, overrides, source)
            return {"changed": False, **vars(decide.request(spec, overrides, [], {}))}
        converted = self.answers("virt_converted", Converted, "act", work.round)
        content = [
            specification.disk_name(index)
            for index, disk in enumerate(source.disks)
            if disk is not None
        ]
        return {"changed": False, **vars(decide.request(spec, overrides, content, converted))}

    def asked(self, _work: ImportWork, task_vars: Values) -> Answer:
        source, spec, overrides = self._read(verify=False)
        return self._convert(source, str({**spec, **overrides}["name"]), task_vars)

    def alone(self, task_vars: Values) -> Answer:
        source, spec, overrides = self._read(verify=True)
        result: Answer = {"changed": True, "images": []}
        if not self.check:
            result = self._convert(source, str(spec["name"]), task_vars)
        if source.uncompared:
            result["warnings"] = [_uncompared(source)]
        return {**result, "vm": {**spec, **overrides}, "left_out": list(source.vm.left_out)}

    def _read(
        self, *, verify: bool
    ) -> tuple[read_source.ImportSource, specification.Specification, Answer]:
        """What is imported, its specification, and what variables say instead."""
        options = self.options(VirtImportOptions, ARGUMENTS, INTERNAL)
        source = read_source.source(self._path(options), verify=verify)
        variables = _batch.Variables(self._values, self._templar)
        overrides: Answer = {
            key: value
            for key, value in (variables.given("vm_") if self.staged else {}).items()
            if key in OPTIONS and key != "name" and value is not None
        }
        spec = specification.of_archive(
            source.vm,
            source.sizes,
            options["networks"],
            variables.get("virt_nic_profiles"),
            options["bus"],
            overrides,
        )
        if options["name"]:
            spec["name"] = options["name"]
        _batch.validated([to_plain({**spec, **overrides})], _batch.defaults(variables), "")
        _peers.refuse_hypervisors([str(spec["name"])], self._values)
        return source, spec, overrides

    def _path(self, options: VirtImportOptions) -> str:
        """The file on the controller; a URL is downloaded, in check mode for this run only."""
        src = options["src"]
        if not src:
            raise PlanRefused("virt_import: no file is given; write -e virt_import=/srv/web.ova")
        if "://" not in src:
            return str(Path(src).expanduser())
        from ansible_collections.fleet.virt.plugins.plugin_utils.images import _downloads

        try:
            image = parse_image(with_checksum(src, options["checksum"]))
        except ValueError as error:
            raise PlanRefused(f"virt_import: {error}") from None
        folder = _constants.local_tmp() if self.check else _images.cache_folder()
        limits = limits_of({"max_unpacked": options["max_unpacked"]})
        return str(_downloads.file(image, limits, folder / "imports", remember=not self.check))

    def _convert(self, source: read_source.ImportSource, name: str, task_vars: Values) -> Answer:
        """The module's result, after each file was transferred."""
        received: dict[str, tuple[str, str]] = {}
        disks: list[TransferredDisk] = []
        try:
            for index, inspected in enumerate(source.disks):
                if inspected is None:
                    continue
                file, known = inspected
                if file.path not in received:
                    received[file.path] = self._transferred(file.path, task_vars)
                path, digest = received[file.path]
                disk = specification.disk_name(index)
                disks.append(
                    {
                        "name": disk,
                        "image": decide.image_name(name, disk),
                        "received": path,
                        "digest": digest,
                        "offset": file.offset,
                        "size": file.size,
                        "whole": file.whole,
                        "format": known.format,
                    }
                )
            return self.module(task_vars, {**self.given, "_disks": disks})
        finally:
            for path, _digest in received.values():
                _images.remove(self, path)

    def _transferred(self, path: str, task_vars: Values) -> tuple[str, str]:
        """Where the file is on the hypervisor, and its SHA-256."""
        size = Path(path).stat().st_size
        whole = read_source.SourceFile(path, 0, size, True)
        digest = read_source.digest(whole, "sha256")
        facts = ImageFacts(Path(path).name, Digest(digest), "", size)
        return _images.bring(self, task_vars, _images.LocalImage(path, size, facts)), digest


def _uncompared(source: read_source.ImportSource) -> str:
    names = ", ".join(map(show, source.uncompared))
    return f"not compared with the manifest, which has no digest of it that is known: {names}"


def _show(
    spec: specification.Specification, overrides: Answer, source: read_source.ImportSource
) -> None:
    """Display the specification as a request; values of variables may be secrets."""
    vm = source.vm
    lines = ["it is imported as:", _vms_file.text([spec]).rstrip()]
    if overrides:
        lines.append(f"besides, from variables: {', '.join(f'vm_{key}' for key in overrides)}")
    if "boot" not in overrides:
        lines.append(specification.boots_from(vm))
    if vm.left_out:
        lines.append(f"not imported: {', '.join(vm.left_out)}")
    if source.uncompared:
        lines.append(_uncompared(source))
    _output.say("\n".join(lines))
