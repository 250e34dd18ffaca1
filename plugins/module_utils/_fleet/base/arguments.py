# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Types for Ansible argument specifications, as far as this collection uses them."""

from __future__ import annotations

import typing as t

Type = t.Literal["str", "bool", "int", "float", "list", "dict", "path", "raw"]


class Argument(t.TypedDict, total=False):
    """One option of a module: the keys that Ansible's validation knows."""

    type: Type
    elements: Type
    required: bool
    default: object
    choices: t.Sequence[str]
    aliases: t.Sequence[str]
    no_log: bool
    options: Spec


# The options of a module by name
Spec = t.Mapping[str, Argument]
