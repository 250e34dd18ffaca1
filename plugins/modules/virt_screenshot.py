#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_screenshot
short_description: Take pictures of what guests show on their screens
version_added: 0.1.0
description:
  - Takes a picture of the screen of each domain and writes it as a PNG on the controller, as
    C(DEST/HYPERVISOR/VM.png), where C(/) and the like in names are written as in URLs.
  - No console is opened and no port listens for it. A picture is what libvirt's
    virDomainScreenshot gives, looked at on the controller before it is written. It is a file that
    only its owner can read, since a screen may show what is secret.
  - A screen that cannot be seen is a failure of that domain, and hides no other.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - Pictures are taken and compared, and not written.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - A file is written when the screen shows something else than it has.
options:
  names:
    description:
      - Names of the domains; all that are running when left out.
      - A name that is not defined on the hypervisor is an error, unless O(ignore_missing) is set.
    type: list
    elements: str
    aliases: [name]
  ignore_missing:
    description:
      - Leave out names that are not defined on this hypervisor, for asking a fleet where one is.
    type: bool
    default: false
  dest:
    description:
      - Folder on the controller. It is made if it is not there, with mode 0700.
    type: path
    required: true
  screen:
    description:
      - Which screen of a domain that has several, from 0.
    type: int
    default: 0
seealso:
  - module: fleet.virt.virt_query
    description: Where the consoles of domains are.
"""

EXAMPLES = r"""
- name: Look at the screens of all guests of the hypervisor that run
  fleet.virt.virt_screenshot:
    dest: ./screens

- name: Look at one
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
      description: The picture on the controller; null if there is none.
      type: str
    file:
      description: The same below O(dest).
      type: str
    width:
      description: Its width in pixels; null if there is none.
      type: int
    height:
      description: Its height in pixels; null if there is none.
      type: int
    changed:
      description: Whether the file is another than before.
      type: bool
    failed:
      description: Whether there is no picture.
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
from ansible_collections.fleet.virt.plugins.module_utils._effects.base.connection import connect
from ansible_collections.fleet.virt.plugins.module_utils._effects.screens.screenshot import (
    capture,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.screens.options import (
    ARGUMENTS,
    wanted,
)


def main() -> None:
    module = create_module(ARGUMENTS)
    params = module.options

    def captured() -> dict[str, object]:
        look = wanted(params)
        with connect(params["uri"], params["timeout"]) as connection:
            return {"changed": False, "screens": capture(connection, look)}

    run(module, captured)


if __name__ == "__main__":
    main()
