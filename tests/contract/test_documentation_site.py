# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site is made without a warning and without a network, and its links lead
somewhere; so do those of the project's other pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests import documentation_site
from ansible_collections.fleet.virt.tests.contract import _tools, documentation


@pytest.fixture(scope="module")
def site(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site; its making fails with any warning and any link that leads nowhere."""
    target = tmp_path_factory.mktemp("site") / "site"
    said = documentation_site.build(project, target, _tools.virtual_environment("site"))
    assert "WARNING" not in said
    return target


def test_site_has_every_module_role_guide_and_playbook(site: Path) -> None:
    pages = {str(page.relative_to(site)) for page in site.rglob("*.html")}
    roles = [path.name for path in (_tools.CHECKOUT / "roles").iterdir() if path.is_dir()]
    guides = [path.stem for path in (_tools.CHECKOUT / "docs" / "docsite" / "rst").glob("*.rst")]
    assert pages >= {
        *(f"collection/{name}_module.html" for name in documentation.modules()),
        *(f"collection/{name}_role.html" for name in roles),
        *(f"collection/docsite/{name}.html" for name in guides),
    }
    reference = (site / "collection" / "docsite" / "playbooks.html").read_text(encoding="utf-8")
    for path in (_tools.CHECKOUT / "playbooks").glob("*.yml"):
        label = f"ansible-collections-fleet-virt-docsite-playbooks-{path.stem.replace('_', '-')}"
        assert f'id="{label}"' in reference


def test_landing_page_has_the_picture_and_every_guide(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<img [^>]*src="_images/recording\.svg"', page)
    for guide in (_tools.CHECKOUT / "docs" / "docsite" / "rst").glob("*.rst"):
        assert f'href="collection/docsite/{guide.stem}.html"' in page


def test_reading_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = {
        target
        for page in site.rglob("*.html")
        for target in re.findall(
            r'<(?:script|img|link|iframe)\b[^>]* (?:src|href)="(?:https?:)?//([^"/]+)',
            page.read_text(encoding="utf-8"),
        )
    }
    assert loaded == set()


def test_link_without_target_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a id="here" href="b.html#there"></a><a href="#here"></a><a href="b.html?v=1#nowhere"></a>'
        '<img src="gone.svg"><a href="https://example.org/x"></a>'
        '<a href="https://github.com/fleet-virt/fleet.virt/blob/main/README.md"></a>'
        '<a href="https://github.com/fleet-virt/fleet.virt/edit/main/docs/gone.rst"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    assert list(documentation_site.broken_links(tmp_path)) == [
        "a.html: b.html?v=1#nowhere",
        "a.html: gone.svg",
        "a.html: https://github.com/fleet-virt/fleet.virt/edit/main/docs/gone.rst",
    ]


def _anchors(text: str) -> set[str]:
    """Those that GitHub makes of headings."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page",
    [path for path in _tools.project_files() if path.suffix == ".md"],
    ids=str,
)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = (_tools.CHECKOUT / page).read_text(encoding="utf-8")
    wrong = []
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = _tools.CHECKOUT / page.parent / name if name else _tools.CHECKOUT / page
        if not file.exists() or (
            anchor and anchor not in _anchors(file.read_text(encoding="utf-8"))
        ):
            wrong.append(target)
    assert wrong == []
