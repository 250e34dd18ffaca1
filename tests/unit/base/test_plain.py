# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plain data out of what Ansible hands over."""

from __future__ import annotations

import json
import typing as t
from collections import OrderedDict

import pytest
import yaml
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import to_plain


class Text(str):
    """A string of another type, as Ansible's are."""


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (2.5, 2.5),
        ("a", "a"),
        (Text("{{ a }}"), "{{ a }}"),
        ([Text("a"), (1, 2)], ["a", [1, 2]]),
        ({Text("k"): {"x": Text("y")}}, {"k": {"x": "y"}}),
        (OrderedDict(a=1), {"a": 1}),
        ({"a"}, ["a"]),
        (wrap_var({"k": ["{{ v }}"]}), {"k": ["{{ v }}"]}),
        (1j, "1j"),
    ],
)
def test_to_plain(value: t.Any, plain: t.Any) -> None:
    found = to_plain(value)
    assert found == plain

    def types(part: t.Any) -> set[type]:
        if isinstance(part, dict):
            return {dict}.union(*(types(k) | types(v) for k, v in part.items()))
        if isinstance(part, list):
            return {list}.union(*(types(entry) for entry in part))
        return {type(part)}

    assert types(found) <= {dict, list, str, int, float, bool, type(None)}
    json.dumps(found)
    yaml.safe_dump(found)
