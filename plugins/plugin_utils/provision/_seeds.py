# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeds from variables, converted for hypervisors without YAML and without exposing secrets."""

from __future__ import annotations

import base64
import contextlib
import json
import typing as t
from collections.abc import Mapping

import yaml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.options import (
    require_expandable,
    user_data_json,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import HIDDEN

_MOST_KEYS = 10_000


class _SeedLoader(yaml.SafeLoader):
    """YAML with JSON's types: dates stay text."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Limit the size of merge keys (``<<``), which copy what they merge, recursively."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_KEYS:
            raise ValueError


_SeedLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> object:
    """The content of a YAML text; raises ValueError with the position of an error."""
    try:
        content: object = yaml.load(text, _SeedLoader)  # noqa: S506 # nosec: it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"this is not valid YAML: {where}{error.problem}; correct it") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError("this is not valid YAML; correct it") from None
    try:
        require_expandable(content)
    except RecursionError:
        raise ValueError("this is not valid YAML; correct it") from None
    return content


def taken_out(
    vms: t.Sequence[t.Mapping[str, object]],
) -> tuple[list[t.Mapping[str, object]], str]:
    """The VMs without seeds that are mappings, and those seeds by VM's name as one opaque text.

    Ansible shows a module's options in verbose mode; only entire options can be hidden from that,
    and each text in them is then masked wherever it occurs. So it is one text that occurs nowhere
    else (base64). The VMs have been validated.
    """
    cleaned: list[t.Mapping[str, object]] = []
    seeds: dict[str, object] = {}
    for vm in vms:
        seed = plain(vm.get("seed"))
        if isinstance(seed, Mapping):
            seeds[str(vm.get("name"))] = seed
            cleaned.append({key: value for key, value in vm.items() if key != "seed"})
        else:
            cleaned.append(vm)
    return cleaned, packed(seeds) if seeds else ""


def fit_for_all(vms: t.Iterable[object]) -> list[dict[str, object]]:
    """The VMs that unrelated hypervisors may see: without those whose seeds, consoles or XML
    fragments may contain secrets, and malformed ones.
    """
    public_vms: list[dict[str, object]] = []
    for vm in vms:
        with contextlib.suppress(ValueError):
            if isinstance(vm, Mapping) and not _may_hold_secrets(vm):
                seed = _mapping(vm.get("seed"))
                public_vms.append({**vm, **({} if seed is None else {"seed": seed})})
    return public_vms


def _may_hold_secrets(vm: t.Mapping[str, object]) -> bool:
    seed, console = _mapping(vm.get("seed")), _mapping(vm.get("console"))
    hidden = isinstance(seed, Mapping) and not seed.keys().isdisjoint(HIDDEN)
    password = isinstance(console, Mapping) and bool(console.get("password"))
    return hidden or password or bool(vm.get("xml"))


def plain(seed: object) -> object:
    """The validated seed with JSON text parsed, and ``user_data`` as a mapping."""
    seed = _mapping(seed)
    if isinstance(seed, Mapping):
        text = seed.get("user_data")
        if isinstance(text, str):
            seed = {**seed, "user_data": json.loads(user_data_json(text, read_yaml))}
    return seed


def _mapping(seed: object) -> object:
    """The seed with JSON text parsed."""
    if isinstance(seed, str) and seed.lstrip().startswith("{"):
        return json.loads(seed)
    return seed


def packed(value: object) -> str:
    """``value`` as text that occurs nowhere else, for an option that is never shown."""
    return base64.b64encode(json.dumps(value).encode("utf-8")).decode("ascii")
