#!/usr/bin/python
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_packages
short_description: Ensure that packages are installed, with nothing else decided by the hypervisor
version_added: 0.1.0
description:
  - Installs packages that are missing, by Ansible's own modules of the package manager (apt, dnf,
    dnf5, and C(community.general.zypper)), with what they depend on and without what they only
    recommend. Without O(names) it returns what machine it is.
  - What these modules answer is data. Of C(ansible.builtin.setup) and
    C(ansible.builtin.package_facts) only what is returned here is read, after its shape has been
    checked. No fact, statistic, host or group comes of it, so a hypervisor that is somebody else's
    governs neither the controller nor the other hypervisors.
  - With apt, an installation that was interrupted there is finished first if it is what prevents
    another (C(dpkg --configure --pending), files of the site stay).
  - C(module_defaults) of the package manager's module hold, but for what this module decides.
  - Needs Python and root there, and neither libvirt nor lxml.
author:
  - Fleet Virt contributors (@fleet-virt)
extends_documentation_fragment:
  - fleet.virt._connection
  - fleet.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - The package manager is not asked, because its lists may be missing or old and check mode
        does not fetch them. So a package that there is nowhere is predicted to be installed.
  diff_mode:
    support: none
    details:
      - RV(missing) names what is or would be installed.
  idempotent:
    support: full
options:
  uri:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  timeout:
    description:
      - Accepted for C(module_defaults) of the action group; not used.
  names:
    description:
      - Packages by the names of the distribution. Others than these are neither installed nor
        upgraded unless these depend on them.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Find out what machine it is
  fleet.virt.virt_packages:
  register: machine

- name: Ensure that the tools of libvirt are installed
  fleet.virt.virt_packages:
    names:
      - libvirt-clients
      - qemu-utils
  when: machine.platform.os_family == 'Debian'
"""

RETURN = r"""
platform:
  description: What machine it is, in the words of C(ansible.builtin.setup).
  returned: without O(names)
  type: dict
  contains:
    architecture:
      description: Architecture, for example V(x86_64).
      type: str
    distribution:
      description: Distribution, for example V(Debian).
      type: str
    distribution_major_version:
      description: The first part of its version, for example V(12).
      type: str
    os_family:
      description: Family of distributions, for example V(RedHat).
      type: str
    pkg_mgr:
      description: Package manager, for example V(apt).
      type: str
missing:
  description: Which of O(names) were not installed before, sorted.
  returned: success, with O(names)
  type: list
  elements: str
"""
