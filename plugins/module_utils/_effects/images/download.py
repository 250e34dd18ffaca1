# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a file over https, and nothing else: verified, within limits, to be checked at its end.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import netrc
import os
import socket
import ssl
import string
import time
import typing as t
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit

from ..._errors import DeadlineExceeded, PlanRefused
from ..._pure.images.source import ImageSource
from ..._units import MIB
from ..base import deadline
from .unpack import too_large

_PIECE = 1 << 18
SLOWEST = 1024  # bytes a second; less is a server that stalls
LONGEST = 6 * 3600.0  # seconds for all of it
_SETTLED = 20.0  # seconds after which a rate says how long it will take
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10


class Download:
    """An open answer; ``seconds`` without progress end it."""

    def __init__(
        self, source: ImageSource, response: http.client.HTTPResponse, seconds: float, limit: int
    ) -> None:
        self._source = source
        self._response = response
        self._seconds = seconds
        self._limit = limit
        self._summed = hashlib.new(source.checksum.partition(":")[0])
        self._came = 0
        length = response.headers.get("content-length") or ""
        self.length: int | None = int(length) if length.isdecimal() else None

    def blocks(self) -> t.Iterator[bytes]:
        """The file as it comes; raises PlanRefused when it is too slow, too large or ends early."""
        begun = time.monotonic()
        since, before = begun, 0
        while True:
            with _told(self._source, self._seconds):
                block = self._response.read1(_PIECE)
            if not block:
                break
            self._summed.update(block)
            self._came += len(block)
            if self._came > self._limit:
                raise too_large(self._source.url, self._limit)
            yield block
            now = time.monotonic()
            self._require_end(now - begun)
            if now - since > self._seconds:
                if self._came - before < SLOWEST * (now - since):
                    raise _stalled(self._source, self._seconds)
                since, before = now, self._came
        if self.length is not None and self._came != self.length:
            raise PlanRefused(
                f"image {self._source.url} ended after {self._came} of {self.length} bytes; try"
                " again"
            )

    def _require_end(self, passed: float) -> None:
        """Raise PlanRefused for what takes too long, or will at the rate it has had so far."""
        left = 0 if self.length is None else max(0, self.length - self._came)
        rate = self._came / passed if passed > 0 else 0.0
        late = passed > _SETTLED and left > rate * (LONGEST - passed)
        if passed > LONGEST or late:
            raise PlanRefused(
                f"image {self._source.url}: it comes at {rate / 1024:.0f} KiB a second, and takes"
                f" more than {LONGEST / 3600:g} hours like that; take another mirror, or bring the"
                " file and name it"
            )

    def require_space(self, folder: str) -> None:
        """Raise PlanRefused if the file system of ``folder`` has less free than what is to come."""
        space = os.statvfs(folder)
        free = space.f_bavail * space.f_frsize
        if self.length is not None and self.length > free:
            raise PlanRefused(
                f"image {self._source.url} has {-(-self.length // MIB)} MiB, and {folder} has"
                f" {free // MIB} MiB free; free some, or take another folder"
            )

    def verify(self) -> None:
        """Raise PlanRefused unless what came has the checksum."""
        algorithm = self._source.checksum.partition(":")[0]
        came = f"{algorithm}:{self._summed.hexdigest()}"
        if came != self._source.checksum:
            raise PlanRefused(
                f"image {self._source.url} has the checksum {came} and not"
                f" {self._source.checksum}: it is another file than you mean; compare with what its"
                " publisher says, and give that checksum"
            )


@contextlib.contextmanager
def opened(source: ImageSource, seconds: float, limit: int) -> t.Iterator[Download]:
    """The answer to the URL; raises PlanRefused when there is none within ``seconds``."""

    def ask() -> http.client.HTTPResponse:
        with _told(source, seconds):
            return _answer(source.url, seconds)

    try:
        response = deadline.call(ask, seconds=2 * seconds, what="open")
    except DeadlineExceeded:
        raise _stalled(source, 2 * seconds) from None
    if response.status != 200:
        raise PlanRefused(f"image {source.url}: the server sends no file; check the URL")
    with contextlib.closing(response):
        yield Download(source, response, seconds, limit)


def _answer(image_url: str, seconds: float) -> http.client.HTTPResponse:
    """What the server answers to Ansible's client, which knows proxy, CAs and netrc.

    Redirects are followed here and to https only: what is named in an answer is not to be trusted,
    and each server gets the password that is meant for it.
    """
    # its import takes longer than that of all the rest, and most calls download nothing
    from ansible.module_utils.urls import open_url

    url = image_url
    for followed in range(_MOST_REDIRECTS + 1):
        try:
            answer: http.client.HTTPResponse = open_url(
                url,
                headers={"Accept-Encoding": "identity"},
                http_agent="fleet.virt",
                timeout=seconds,
                follow_redirects="none",
                decompress=False,
            )
            return answer
        except HTTPError as error:
            location = error.headers.get("location")
            if error.code not in _REDIRECTS or not location or followed == _MOST_REDIRECTS:
                raise
            error.close()
            url = _redirected(image_url, urljoin(url, location))
    raise AssertionError("the last answer is returned or raised")


def _redirected(image_url: str, target: str) -> str:
    """The URL to go on with; raises PlanRefused unless it is one of https."""
    if urlsplit(target).scheme != "https":
        shown = target[:200] if target.isprintable() else "something else"
        raise PlanRefused(
            f"image {image_url}: the server redirects to {shown}; only https is followed: give the"
            " URL of the image itself"
        )
    return quote(target, safe=string.punctuation, encoding="iso-8859-1")


def _stalled(source: ImageSource, seconds: float) -> PlanRefused:
    return PlanRefused(
        f"image {source.url}: the server sent nothing, or next to nothing, for {seconds:g} seconds"
        " (download_timeout); try again, or take another mirror"
    )


@contextlib.contextmanager
def _told(source: ImageSource, seconds: float) -> t.Iterator[None]:
    """What can go wrong on the network, in words."""
    try:
        yield
    except HTTPError as error:
        with contextlib.closing(error):
            raise PlanRefused(
                f"image {source.url}: the server answered {error.code} {error.reason}; check the"
                " URL"
            ) from None
    except (TimeoutError, socket.timeout):  # one and the same from Python 3.10 on
        raise _stalled(source, seconds) from None
    except URLError as error:
        if isinstance(error.reason, (TimeoutError, socket.timeout)):
            raise _stalled(source, seconds) from None
        remedy = "check the URL, and that this machine reaches the server"
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            remedy = (
                "have this machine trust the server's CA (the system's own store, or SSL_CERT_FILE"
                " in the task's environment)"
            )
        raise PlanRefused(f"image {source.url}: {error.reason}; {remedy}") from None
    except netrc.NetrcParseError as error:  # its words may be a password of that file
        raise PlanRefused(
            f"image {source.url}: {error.filename} is not as netrc(5) says, or is readable to"
            " others; correct it"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PlanRefused(
            f"image {source.url}: {error or type(error).__name__}; try again"
        ) from None
