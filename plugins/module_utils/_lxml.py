# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guarded import of lxml, and the hardened parser for all documents.

Domain XML comes from any user who may define a domain, and metadata from any user who may write
it: it is untrusted. Entities are never expanded, nothing is fetched, a document type is refused,
depth and size are limited.
"""

from __future__ import annotations

import traceback
import typing as t
from pathlib import Path
from xml.parsers import expat

from ._errors import XmlError
from ._libxml2 import ENTITY_LOADER

try:
    from lxml import etree

    LXML_IMPORT_ERROR: str | None = None
except ImportError:
    LXML_IMPORT_ERROR = traceback.format_exc()

if t.TYPE_CHECKING:
    Element = etree._Element

# libvirt's own protocol does not transfer more (VIR_NET_MESSAGE_MAX, 32 MiB)
_MAX_BYTES = 32 * 1024 * 1024
_TOO_DEEP = "Excessive depth"  # the words of every libxml2 about more than 256 levels
_MOST_LEVELS = 300
_LONGEST = 500  # characters of an error


def parse(text: str | bytes, what: str) -> Element:
    """Root element of ``text``; ``what`` names the document in errors (``domain web1``).

    Text is text, whatever encoding its declaration names; bytes are in the encoding they declare.

    Raises XmlError for anything that is not well-formed, too big or carries a document type.
    """
    try:
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise XmlError(f"{what}: cannot be parsed as XML: {error}") from None
    if len(data) > _MAX_BYTES:
        raise XmlError(f"{what}: {len(data)} bytes of XML exceed the limit of {_MAX_BYTES}")
    # libxml2 would believe the declaration of a text that is encoded here
    encoding = "utf-8" if isinstance(text, str) else None
    try:
        with ENTITY_LOADER:
            try:
                root = etree.fromstring(data, _parser(encoding))
            except etree.XMLSyntaxError as error:
                # libvirt takes metadata of that depth, and returns them some levels deeper. The
                # other limit that this lifts is on entities, which need a document type
                bounded = encoding is not None and b"<!DOCTYPE" not in data
                if not bounded or _TOO_DEEP not in str(error) or _is_deep(data):
                    raise
                root = etree.fromstring(data, _parser(encoding, huge_tree=True))
    except (etree.XMLSyntaxError, ValueError) as error:
        raise XmlError(f"{what}: cannot be parsed as XML: {_brief(error)}") from None
    if root is None:
        raise XmlError(f"{what}: the document is empty")
    docinfo: t.Any = root.getroottree().docinfo  # doctype is missing in lxml-stubs
    if docinfo.doctype:
        raise XmlError(f"{what}: a document type declaration is not allowed")
    return root


def _parser(encoding: str | None, *, huge_tree: bool = False) -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=huge_tree,
        remove_comments=True,
        remove_pis=True,
        encoding=encoding,
    )


def _is_deep(data: bytes) -> bool:
    """Whether the document has too many levels for libxml2, parts of which are recursive."""
    depth = 0

    def begin(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _MOST_LEVELS:
            raise XmlError("too deep")

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    try:
        parser.Parse(data, True)
    except (XmlError, expat.ExpatError):
        return True
    return False


def _brief(error: Exception) -> str:
    """The error; libxml2 may repeat the document in it."""
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def schema_problem(schema: Path, text: str) -> str | None:
    """The first thing in ``text`` that the RELAX NG ``schema`` (a file) does not allow."""
    with ENTITY_LOADER:
        checker = etree.RelaxNG(file=str(schema))
        root = etree.fromstring(text)
        if checker.validate(root):
            return None
        log = checker.error_log
    # the innermost elements come first; the last lines only say that their parents fail too
    messages = [str(entry.message) for entry in log]
    return "; ".join(dict.fromkeys(messages[:2])) or "it is not valid"


def tostring(element: Element) -> str:
    """The element as indented text, without declaration."""
    etree.indent(element)
    return etree.tostring(element, encoding="unicode")


def new(
    tag: str,
    attributes: t.Mapping[str, str] | None = None,
    text: str | None = None,
) -> Element:
    """A new element."""
    element = etree.Element(tag, dict(attributes or {}))
    element.text = text
    return element


def add(
    parent: Element,
    tag: str,
    attributes: t.Mapping[str, str] | None = None,
    text: str | None = None,
) -> Element:
    """A new child of ``parent``."""
    element = etree.SubElement(parent, tag, dict(attributes or {}))
    element.text = text
    return element
