# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site: ``make site`` writes it to ``build/site``.

Modules, plugins and roles come from antsibull-docs, guides from ``docs/docsite``, the page one
lands on from ``docs/site``. Nothing is fetched, once the tools are installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from ansible_collections.fleet.virt.tests.contract import _tools

COLLECTION = "collection"
# How to find the repository's files from the site
_SOURCES = "https://github.com/fleet-virt/fleet.virt/"


def build(project: Path, target: Path, programs: Path) -> str:
    """Make the site of a copy of the project, and return what the tools printed; their warnings
    are errors."""
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "rst"
        (pages / COLLECTION).mkdir(parents=True)
        (pages / COLLECTION).chmod(0o755)  # antsibull-docs refuses one that others may write to
        env = _tools.environment(programs, ANSIBLE_COLLECTIONS_PATH=str(project.parents[2]))
        # they would send what they print through a pager or a colour
        env |= {"HOME": folder, "SPHINX_FORCE_COLOR": "", "PYTHONDONTWRITEBYTECODE": "1"}
        said = _run(
            [
                *(programs / "antsibull-docs", "collection", "--use-current", "--no-breadcrumbs"),
                *("--fail-on-error", "--squash-hierarchy", "--dest-dir", pages / COLLECTION),
                "fleet.virt",
            ],
            env,
        )
        shutil.copy(project / "docs" / "recording.svg", pages)
        shutil.copy(project / "docs" / "site" / "conf.py", pages)
        (pages / "index.rst").write_text(landing_page(project), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        sphinx = [programs / "sphinx-build", "--fail-on-warning", "--keep-going", "--jobs", "auto"]
        said += _run([*sphinx, "--quiet", "--doctree-dir", f"{folder}/trees", pages, target], env)
    broken = list(broken_links(target))
    if broken:
        raise SystemExit("links that lead nowhere:\n" + "\n".join(broken))
    return said


def landing_page(project: Path) -> str:
    """The page of ``docs/site``, and every guide below it."""
    text = (project / "docs" / "site" / "index.rst").read_text(encoding="utf-8")
    listed = yaml.safe_load((project / "docs" / "docsite" / "extra-docs.yml").read_text())
    for section in listed["sections"]:
        pages = [f"   {COLLECTION}/docsite/{name}" for name in section["toctree"]]
        head = [".. toctree::", "   :maxdepth: 1", f"   :caption: {section['title']}", ""]
        text += "\n".join(["", *head, *pages, ""])
    last = [".. toctree::", "   :maxdepth: 1", "   :caption: Modules, plugins and roles", ""]
    return text + "\n".join(["", *last, f"   {COLLECTION}/index", ""])


def _run(argv: list[str | Path], env: dict[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_tools.LIMIT_S,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"{Path(argv[0]).name}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


class _Links(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.targets.append(value)


def _read(page: Path) -> _Links:
    links = _Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def broken_links(site: Path) -> Iterator[str]:
    """Links of the site to itself and to files of the repository that lead nowhere."""
    pages = {page.resolve(): _read(page) for page in sorted(site.rglob("*.html"))}
    for page, links in pages.items():
        for target in links.targets:
            where = f"{page.relative_to(site.resolve())}: {target}"
            parts = urlsplit(target)
            path, anchor = unquote(parts.path), unquote(parts.fragment)
            if f"{parts.scheme}://{parts.netloc}{path}".startswith(_SOURCES):
                kind, _, rest = path.partition("/main/")
                named = kind.endswith(("/blob", "/tree", "/edit"))
                if named and not (_tools.CHECKOUT / rest).exists():
                    yield where
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / path).resolve() if path else page
            known = pages[file].anchors if file in pages else {anchor}
            if not file.exists() or (anchor and anchor not in known):
                yield where


def main() -> None:
    target = _tools.CHECKOUT / "build" / "site"
    with tempfile.TemporaryDirectory() as folder:
        project = _tools.copy_project(Path(folder))
        sys.stdout.write(build(project, target, _tools.virtual_environment("site")))
    print(f"{os.path.relpath(target)}/index.html")


if __name__ == "__main__":
    main()
