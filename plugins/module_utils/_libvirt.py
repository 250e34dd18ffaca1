# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one guarded import of libvirt's binding, and the one place its errors become ours.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
import typing as t

from ._errors import NO_CODE, LibvirtFailure
from ._libxml2 import ENTITY_LOADER

try:
    import libvirt

    LIBVIRT_IMPORT_ERROR: str | None = None

    def _ignore(_context: t.Any, _error: t.Any) -> None:
        """libvirt prints every error to standard error unless it is given a handler."""

    libvirt.registerErrorHandler(_ignore, None)
    LibvirtError: type[Exception] = libvirt.libvirtError
except ImportError:
    LIBVIRT_IMPORT_ERROR = traceback.format_exc()
    LibvirtError = Exception

# virErrorNumber, include/libvirt/virterror.h: part of libvirt's stable interface
ERR_NO_SUPPORT = 3
ERR_OPERATION_FAILED = 9
ERR_SYSTEM_ERROR = 38
ERR_NO_DOMAIN = 42
ERR_NO_NETWORK = 43
ERR_AUTH_FAILED = 45
ERR_NO_STORAGE_POOL = 49
ERR_NO_STORAGE_VOL = 50
ERR_OPERATION_INVALID = 55
ERR_CONFIG_UNSUPPORTED = 67
ERR_AGENT_UNRESPONSIVE = 86
ERR_ARGUMENT_UNSUPPORTED = 74


def open_connection(uri: str) -> t.Any:
    """``virConnect`` for ``uri`` (virConnectOpen), for reading and writing."""
    if not uri.startswith("test:///") or uri == "test:///default":
        return libvirt.open(uri)
    with ENTITY_LOADER:  # no other thread has lxml at work meanwhile
        _take_lxml_out_of_libvirts_way()
        return libvirt.open(uri)


def _take_lxml_out_of_libvirts_way() -> None:
    """Give libxml2 its own entity loader back before libvirt reads a file with it.

    The test driver reads its document in this process. A distribution's lxml shares libxml2 with
    libvirt, and lxml 4's entity loader, installed for the whole process, takes the private data of
    libvirt's parser for a Python object of its own: a crash whenever that memory looks like one.
    """
    if "lxml.etree" not in sys.modules:
        return
    with contextlib.suppress(OSError, AttributeError):
        libxml2 = _libxml2()
        libxml2.xmlSetExternalEntityLoader(libxml2.xmlNoNetExternalEntityLoader)


@functools.cache
def _libxml2() -> t.Any:
    import ctypes

    return ctypes.CDLL("libxml2.so.2")


def failure(action: str, error: t.Any) -> LibvirtFailure:
    """Our error for a ``libvirt.libvirtError`` met while doing ``action``."""
    return LibvirtFailure(
        action,
        str(error.get_error_message() or error),
        code=int(error.get_error_code() or NO_CODE),
        domain=int(error.get_error_domain() or NO_CODE),
    )


@contextlib.contextmanager
def calling(action: str) -> t.Iterator[None]:
    """Turn libvirt's exception into LibvirtFailure, saying what was being done."""
    try:
        yield
    except LibvirtError as error:
        if not hasattr(error, "get_error_code"):
            raise
        raise failure(action, error) from None
