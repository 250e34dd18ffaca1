# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For the Python of a hypervisor: each module of Ansible that it runs adds a byte to a file.

A module is known by the archive that Ansible sends it in. Where modules are forks of a server
(lab_preloaded.py), it counts itself.
"""

import os
import re
import zipimport

_FILE = "/var/lib/lab-python/runs"
_PAYLOAD = re.compile(r"/ansible_[^/]+_payload\.zip$")
_code_before = zipimport._get_module_code


def add():
    """Count a run."""
    try:
        file = os.open(_FILE, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.write(file, b".")
        os.close(file)
    except OSError:
        pass


def leave():
    """Somebody else counts."""
    zipimport._get_module_code = _code_before


def _module_code(self, fullname):
    if _PAYLOAD.search(self.archive):
        leave()
        add()
    return _code_before(self, fullname)


zipimport._get_module_code = _module_code
