# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of what was found of backups, with their screens in it. Names, host names and consoles
are guests' words, so whatever is filled in is escaped, and nothing else is loaded or run."""

from __future__ import annotations

import base64
import typing as t

import jinja2
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.tables import clean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.report import VerifiedBackup

_TEMPLATES = jinja2.Environment(
    autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True
)
_PAGE = _TEMPLATES.from_string("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;\
 style-src 'unsafe-inline'">
<title>Backups</title>
<style>
body { background: #222; color: #ddd; font: 14px sans-serif; }
div { display: grid; grid-template-columns: repeat(auto-fill, minmax(360px, 1fr)); gap: 16px; }
figure { margin: 0; }
img { width: 100%; border: 1px solid #555; }
b { color: #8c8; }
b.failed { color: #e66; }
</style>
</head>
<body>
<div>
{% for backup in backups %}
<figure>
{% if backup.screen %}
<img src="data:image/png;base64,{{ backup.screen }}" alt="screen of {{ backup.name }}">
{% endif %}
<figcaption><b{% if backup.failed %} class="failed"{% endif %}>{{ backup.state }}</b>
{{ backup.name }}, {{ backup.archive }}, on {{ backup.hypervisor }}<br>{{ backup.how }}</figcaption>
</figure>
{% endfor %}
</div>
</body>
</html>
""")


def page(verified: t.Sequence[VerifiedBackup], screens: t.Mapping[str, bytes]) -> str:
    """The page; ``screens`` are pictures that were checked, by UUID::ARCHIVE."""
    return _PAGE.render(
        backups=[
            {
                **{key: clean(backup[key]) for key in ("name", "archive", "hypervisor", "state")},
                "how": clean(backup["how"] or backup["msg"]),
                "failed": backup["failed"],
                "screen": _encoded(screens.get(f"{backup['uuid']}::{backup['archive']}")),
            }
            for backup in verified
        ]
    )


def _encoded(picture: bytes | None) -> str:
    return "" if picture is None else base64.b64encode(picture).decode("ascii")
