# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's configuration of the documentation site; nothing is fetched for it."""

import zlib
from pathlib import Path

project = "fleet.virt"
copyright = "Fleet Virt contributors"  # noqa: A001
title = html_title = html_short_title = "fleet.virt"

# What pages of antsibull-docs refer to in Ansible's own documentation. Its inventory is not
# fetched: these few labels are written to one beside the pages.
ANSIBLE = {
    "action_plugins": "plugins/action.html#action-plugins",
    "ansible_collections.ansible.builtin.constructed_inventory": (
        "collections/ansible/builtin/constructed_inventory.html"
    ),
    "ansible_configuration_settings": (
        "reference_appendices/config.html#ansible-configuration-settings"
    ),
    "callback_plugins": "plugins/callback.html#callback-plugins",
    "common_return_values": ("reference_appendices/common_return_values.html#common-return-values"),
}
CACHE = ["", "_CONNECTION", "_PREFIX", "_TIMEOUT"]
_LABELS = [
    f"{name} std:label -1 {page} {name.rpartition('.')[2]}" for name, page in ANSIBLE.items()
]
_LABELS += [
    f"ANSIBLE_CACHE_PLUGIN{name} std:envvar -1 reference_appendices/config.html"
    f"#envvar-ANSIBLE_CACHE_PLUGIN{name} -"
    for name in CACHE
]
_INVENTORY = Path(__file__).with_name("ansible.inv")
_INVENTORY.write_bytes(
    b"# Sphinx inventory version 2\n# Project: Ansible\n# Version:\n"
    b"# The remainder of this file is compressed using zlib.\n"
    + zlib.compress("".join(f"{line}\n" for line in _LABELS).encode())
)

extensions = ["sphinx.ext.intersphinx", "sphinx_antsibull_ext"]
intersphinx_mapping = {
    "ansible": ("https://docs.ansible.com/projects/ansible/latest/", str(_INVENTORY))
}
html_theme = "sphinx_ansible_theme"
html_theme_options = {
    "documentation_home_url": "https://github.com/fleet-virt/fleet.virt",
    "topbar_links": {},
    "vcs_pageview_mode": "",
    "navigation_depth": 2,
    "show_extranav": False,  # advertisements
    "show_rtd_ethical_ads": False,
}
html_show_sphinx = False
html_copy_source = False
highlight_language = "YAML+Jinja"
pygments_style = "ansible"
default_role = "any"
nitpicky = True
