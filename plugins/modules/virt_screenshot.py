#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_screenshot
short_description: Take screenshots of guests
version_added: 0.1.0
description:
  - Takes a screenshot of each domain and writes it as a PNG file on the controller, as
    C(DEST/HYPERVISOR/VM.png), where C(/) and the like in names are percent-encoded.
  - No console is opened and no port listens for it. The screenshot is taken with libvirt's
    virDomainScreenshot and checked on the controller before it is written. Only its owner can read
    the file, because a screen may show secrets.
  - A screen that cannot be captured is a failure of that domain only.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Screenshots are taken and compared, but not written.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A file is written if the screen differs from its content.
options:
  names:
    description:
      - Names of the domains; defaults to all that are running.
      - A name that is not defined on the hypervisor is an error, unless O(ignore_missing) is set.
    type: list
    elements: str
    aliases: [name]
  ignore_missing:
    description:
      - Skip names that are not defined on this hypervisor, for searching a fleet.
    type: bool
    default: false
  dest:
    description:
      - Folder on the controller. It is created with mode 0700 if it does not exist.
    type: path
    required: true
  screen:
    description:
      - Which screen of a domain that has several, from 0.
    type: int
    default: 0
seealso:
  - module: fleet.virt.virt_query
    description: Reads the addresses of domains' consoles.
"""

EXAMPLES = r"""
- name: Take screenshots of all running guests of the hypervisor
  fleet.virt.virt_screenshot:
    dest: ./screens

- name: Take a screenshot of one guest
  fleet.virt.virt_screenshot:
    name: web1
    dest: ./screens
"""

RETURN = r"""
screens:
  description: One entry for each domain, in the order of O(names) or sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    path:
      description: Path of the screenshot on the controller; null if there is none.
      type: str
    file:
      description: The same path, relative to O(dest).
      type: str
    width:
      description: Its width in pixels; null if there is none.
      type: int
    height:
      description: Its height in pixels; null if there is none.
      type: int
    changed:
      description: Whether the file has changed.
      type: bool
    failed:
      description: Whether there is no screenshot.
      type: bool
    msg:
      description: Why not; else null.
      type: str
output:
  description: What was printed.
  returned: in playbooks of this collection
  type: str
"""

from ansible_collections.fleet.virt.plugins.module_utils._argspec import create_module, run
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    ARGUMENTS,
    INTERNAL,
    wanted,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.read_screenshot import (
    capture,
)


def main() -> None:
    module = create_module(ARGUMENTS, INTERNAL)
    params = module.options

    def captured() -> dict[str, object]:
        look = wanted(params)
        with connect(params["uri"], params["timeout"]) as connection:
            return {"changed": False, "screens": capture(connection, look)}

    run(module, captured)


if __name__ == "__main__":
    main()
