# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bytecode of the collection's files on the controller, kept as Python keeps that of any other.

Ansible's importer of collections compiles every file in every process. From :func:`keep` on, those
of this collection are loaded by Python's own loader, which keeps the bytecode in ``__pycache__``
beside them, where Ansible itself keeps that of plugins: where the user may write, for as long as
the size and time of a file stay, and not with PYTHONDONTWRITEBYTECODE. The packages of plugins that
run on the controller call it, which Ansible imports before the first plugin of a kind.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import types
import typing as t

from ansible.utils.collection_loader import _collection_finder

_OURS = "ansible_collections.fleet.virt.plugins."
_LOADER: t.Any = getattr(_collection_finder, "_AnsibleCollectionPkgLoaderBase", None)


def keep(loader: t.Any = _LOADER) -> None:
    """Have the ``get_code`` of that class of Ansible's ask Python's loader; again does nothing.

    A version of Ansible without one, or one that keeps the path of its source elsewhere, goes on as
    it would: ``_source_code_path`` and ``get_code`` are as in 2.18 to 2.21.
    """
    compiled = getattr(loader, "get_code", None)
    if compiled is None or hasattr(compiled, "__wrapped__"):
        return

    @functools.wraps(compiled)
    def get_code(self: t.Any, fullname: str) -> types.CodeType | None:
        path = getattr(self, "_source_code_path", None)
        if fullname.startswith(_OURS) and isinstance(path, str) and os.path.isfile(path):
            return importlib.machinery.SourceFileLoader(fullname, path).get_code(fullname)
        code: types.CodeType | None = compiled(self, fullname)
        return code

    loader.get_code = get_code
