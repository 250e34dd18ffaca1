# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For the Python of a hypervisor: what root compiles out of an archive is kept by its content."""

import _imp
import contextlib
import marshal
import os
import sys
import zipimport

_FOLDER = "/var/cache/lab-python"


def _kept(pathname, source):
    """As zipimport's own function, which compiles."""
    import hashlib  # not at every start of Python

    tag = f"{sys.implementation.cache_tag}\0".encode()
    path = f"{_FOLDER}/{hashlib.sha256(tag + source).hexdigest()}"
    with contextlib.suppress(OSError, EOFError, ValueError, TypeError):
        with open(path, "rb") as file:
            code = marshal.loads(file.read())  # noqa: S302 - in a folder of root alone
        _imp._fix_co_filename(code, pathname)
        return code
    code = _compile(pathname, source)
    with contextlib.suppress(OSError):
        os.makedirs(_FOLDER, mode=0o700, exist_ok=True)
        fresh = f"{path}.{os.getpid()}"
        with open(fresh, "wb") as file:
            file.write(marshal.dumps(code))
        os.replace(fresh, path)
    return code


_compile = zipimport._compile_source
if os.geteuid() == 0:
    zipimport._compile_source = _kept
