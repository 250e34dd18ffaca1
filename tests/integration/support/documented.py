# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module returns, compared with what its documentation says it returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

MODULES = Path(__file__).resolve().parents[3] / "plugins" / "modules"
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
    "raw": (object,),
}
# Ansible's own keys of every result
COMMON = {"changed", "failed", "unreachable", "msg", "diff", "invocation", "warnings", "exception"}
COMMON |= {"_work"}  # the header of a stage of a playbook


def section(module: str, name: str) -> Any:
    """A documentation block of a module, for example RETURN, as data."""
    text = (MODULES / f"{module}.py").read_text(encoding="utf-8")
    block = text.split(f'{name} = r"""', 1)[1].split('"""', 1)[0]
    return yaml.safe_load(block)


def undocumented(module: str, result: Mapping[str, Any]) -> list[str]:
    """Every difference between ``result`` and the module's RETURN, with its path.

    A key that is missing here (unless ``returned`` makes a condition), one that is not documented,
    a value of another type.
    """
    found: list[str] = []
    documented = section(module, "RETURN")
    for key, value in result.items():
        if key in COMMON or key.startswith("_ansible"):
            continue
        if key not in documented:
            found.append(f"{key}: not documented")
        else:
            _compare(key, documented[key], value, found)
    return found


def _compare(path: str, documented: Mapping[str, Any], value: Any, found: list[str]) -> None:
    if value is None:
        return
    kind = documented["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        found.append(f"{path}: {value!r} is no {kind}")
    elif kind == "list":
        element = {**documented, "type": documented["elements"]}
        for item in value:
            _compare(f"{path}[]", element, item, found)
    elif (
        kind == "dict"
        and "contains" not in documented
        and any(words in documented["description"] for words in ("RV(", "by its name"))
    ):
        return  # documented elsewhere, or of names that are not known beforehand
    elif kind == "dict":
        contains = documented.get("contains", {})
        found += [f"{path}.{key}: not documented" for key in value if key not in contains]
        found += [
            f"{path}.{key}: missing"
            for key, inner in contains.items()
            if key not in value and inner.get("returned", "always") in ("always", "success")
        ]
        for key in value.keys() & contains.keys():
            _compare(f"{path}.{key}", contains[key], value[key], found)
