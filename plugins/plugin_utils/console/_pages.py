# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of screenshots. Names come from the guests, so whatever is filled in is escaped.

The page of a console is in ``_console_page.py``: its helper's Python may have no Jinja2.
"""

from __future__ import annotations

import typing as t
from urllib.parse import quote

import jinja2
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.tables import clean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.report import Screen

_TEMPLATES = jinja2.Environment(
    autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True
)
# Nothing is loaded except the pictures next to it
_SCREENS = _TEMPLATES.from_string("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self' file:;\
 style-src 'unsafe-inline'">
<title>Screens</title>
<style>
body { background: #222; color: #ddd; font: 14px sans-serif; }
div { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 16px; }
figure { margin: 0; }
img { width: 100%; border: 1px solid #555; }
a { color: inherit; }
</style>
</head>
<body>
<div>
{% for screen in screens %}
<figure><a href="{{ screen.link }}"><img src="{{ screen.link }}" alt="{{ screen.name }}"></a>\
<figcaption>{{ screen.name }} on {{ screen.host }}</figcaption></figure>
{% endfor %}
</div>
</body>
</html>
""")


def screens(views: t.Sequence[Screen]) -> str:
    """All pictures on one page, which goes into the common folder."""
    return _SCREENS.render(
        screens=[
            {"link": quote(view.file), "name": clean(view.name), "host": clean(view.host)}
            for view in views
            if view.file is not None
        ]
    )
