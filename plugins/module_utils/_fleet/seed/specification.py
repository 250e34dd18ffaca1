# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is put into a VM before its first boot: reading the ``seed`` option.

Less common options are read in ``options`` and ``network``, which are imported only when needed.
The documents that cloud-init reads are built in ``documents``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._errors import Problem
from ..base.names import check_host_name
from ..base.options import Reader, to_boolean
from ..base.settings import names
from . import settings
from .public_keys import public_keys
from .types import ReadYaml, Seed

# Options that network reads; options reads all others
_NETWORK = ("network", "dns_servers", "dns_search")
_FEW = ("hostname", "user", "ssh_public_keys", "method")


def wanted(value: object, default: bool) -> bool:
    """Whether ``seed: value`` requests seeding: a boolean, a word for one, or a mapping."""
    if value is None:
        return default
    if isinstance(value, (bool, str, int)):
        if isinstance(value, str) and value.strip().lower() == "none":
            return False
        return to_boolean(value)
    return True


def from_options(
    value: object,
    path: str,
    default_keys: t.Sequence[str],
    problems: list[Problem],
    read_yaml: ReadYaml | None = None,
) -> Seed:
    """The seed that ``value`` (a mapping, or true) describes; problems go to ``problems``.

    ``default_keys`` are the controller's own public keys, used when none are given.
    ``read_yaml`` reads user-data that is YAML text, and raises ValueError with the problem;
    without it (on a hypervisor) only JSON is accepted.
    """
    reader = Reader(value if isinstance(value, Mapping) else None, path, problems)
    if not isinstance(value, (Mapping, bool, str, int, type(None))):
        problems.append(
            Problem(
                path,
                "this is neither a mapping nor true or false; "
                'write false, or for example {"user": "ansible"}',
            )
        )
    hostname = reader.value("hostname")
    if hostname is not None:
        problems.extend(check_host_name(hostname, reader.at("hostname")))
    keys = public_keys(reader, "ssh_public_keys", default_keys)
    user = settings.LOGIN.read(reader)
    method = settings.METHOD.read(reader)
    host = str(hostname) if hostname is not None else None
    seed = Seed(host, user, keys, method=method)
    known = names(settings.SEED)
    if any(reader.given(key) for key in known if key not in (*_FEW, *_NETWORK)):
        from . import options as seed_options

        seed = seed_options.read(reader, seed, read_yaml)
    if any(reader.given(key) for key in _NETWORK):
        from . import network as seed_network

        seed = seed_network.read(reader, seed)
    if method == "offline" and seed.user_data is not None:
        reader.problem(
            "user_data",
            "cloud-init reads it, and method offline does not use cloud-init; use the other"
            " options, files and commands instead",
        )
    reader.finish(known)
    return seed
