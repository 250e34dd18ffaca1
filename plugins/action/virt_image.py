# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope, located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import limits_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import (
    ImageSource,
    parse_image,
    with_checksum,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import (
    decide as purge_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.facts import (
    PurgeLook,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    plain,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.images import _images
from ansible_collections.fleet.virt.plugins.plugin_utils.images._catalogue import (
    VARIABLE,
    Catalogue,
)

# Of a role, whose own variables say which hypervisors there are
_STATED = ("_expected", "_lost")
_INTERNAL = ("_results", "_written_as", *_STATED)


class ActionModule(StagedAction[Work]):
    WORK = Work
    CONTROLLER = ()

    def asked(self, _work: Work, task_vars: Values) -> Answer:
        return self.alone(task_vars)

    def alone(self, task_vars: Values) -> Answer:
        options = plain(self.given)
        options.pop(envelope.OPTION, None)
        written_as = options.pop("_written_as", None)
        if written_as:  # a variable to check once, before any hypervisor is asked
            _parsed(options, str(written_as))
            return {"changed": False}
        if options.get("state", "present") != "present":
            return self.module(task_vars, self._with_sole_pools(options, task_vars))
        variables = Variables(task_vars, self._templar)
        folder = options.pop("image_dir", None) or variables.get("virt_image_dir")
        by = options.pop("download_by", None) or variables.get("virt_image_download_by")
        checksum, image = options.get("checksum"), options.get("image")
        written = image if checksum is None else {"url": image, "checksum": checksum}
        named = Catalogue(folder, variables.get(VARIABLE)).image(written)
        if named is not None:
            options.update(image=named.image, checksum=None)
        local = self._local(options, folder, by)
        if local is None:
            return self.module(task_vars, options)
        return _images.ensure_on_host(self, task_vars, local, options)

    def _local(self, options: Answer, folder: object, by: object) -> _images.LocalImage | None:
        """The image as a file on the controller; None if the hypervisor gets it itself."""
        by_controller = _images.downloads_by_controller(by)
        source = _parsed(options)
        if source.kind not in ("file", "url"):
            options.pop("_source", None)
            return None
        unknown = set(options) - {"image", *_images.OPTIONS}
        if unknown:
            raise FleetVirtError(f"unknown options: {', '.join(sorted(unknown))}")
        check = self.check
        limits = limits_of(options)
        if source.kind == "file":
            return _images.local_image(
                str(folder) if folder else None,
                source.value,
                remember=not check,
                limit=limits.unpacked,
            )
        if not by_controller:
            return None
        from ansible_collections.fleet.virt.plugins.plugin_utils.images import _downloads

        return _downloads.downloaded(source, limits, check=check)

    def _with_sole_pools(self, options: Answer, task_vars: Values) -> Answer:
        """The options, with all hypervisors' pools in place of the variable that holds them."""
        results = options.pop("_results", None)
        stated = {key: options.pop(key) for key in _STATED if options.get(key) is not None}
        if results:
            answers = registered(task_vars, str(results), PurgeLook, self.header.run)
            names = texts(stated["_expected"]) if "_expected" in stated else None
            away = sorted(_alive.named(stated["_lost"])) if "_lost" in stated else None
            fleet = self.expected(names), self.lost(away)
            seen = located.sort(answers, "pool_ids", *fleet)
            host = str(task_vars["inventory_hostname"])
            options["_sole_pool_ids"] = purge_decision.sole_pool_ids(host, seen)
        return options


def _parsed(options: Answer, written_as: str = "image") -> ImageSource:
    """The image that the options name; replaces it there by one string."""
    checksum = options.pop("checksum", None)
    try:
        source = parse_image(
            with_checksum(options.get("image"), None if checksum is None else str(checksum))
        )
    except ValueError as error:
        raise PlanRefused(f"{written_as}: {error}") from None
    options["image"] = source.value
    return source
