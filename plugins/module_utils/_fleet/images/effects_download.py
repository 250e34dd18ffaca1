# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Downloading over https only: verified server, within limits, checksum checked at the end."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import netrc
import socket
import ssl
import string
import time
import typing as t
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit

from ..._errors import DeadlineExceeded, PlanRefused
from ..._units import MIB
from ..base import effects_deadline as deadline
from ..storage.base_name import Checksum
from . import effects_base_file as base_file
from .read_unpack import too_large
from .source import ImageSource

_PIECE = 1 << 18
SLOWEST = 1024  # bytes a second; a server below that counts as stalled
LONGEST = 6 * 3600.0  # seconds for all of it
_SETTLED = 20.0  # seconds after which the rate predicts the total time
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10


class Download:
    """An open response; ``seconds`` without progress end it."""

    def __init__(
        self, source: ImageSource, response: http.client.HTTPResponse, seconds: float, limit: int
    ) -> None:
        self._source = source
        self._response = response
        self._seconds = seconds
        self._limit = limit
        self._summed = hashlib.new(source.checksum.algorithm)
        self._came = 0
        length = response.headers.get("content-length") or ""
        self.length: int | None = int(length) if length.isdecimal() else None

    def blocks(self) -> t.Iterator[bytes]:
        """The file as it arrives; raises PlanRefused if it is too slow, too large or ends early."""
        begun = time.monotonic()
        since, before = begun, 0
        while True:
            with _translated_errors(self._source, self._seconds):
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
        """Raise PlanRefused if the download takes too long, or will at its rate so far."""
        left = 0 if self.length is None else max(0, self.length - self._came)
        rate = self._came / passed if passed > 0 else 0.0
        late = passed > _SETTLED and left > rate * (LONGEST - passed)
        if passed > LONGEST or late:
            raise PlanRefused(
                f"image {self._source.url} downloads at {rate / 1024:.0f} KiB a second and would"
                f" take more than {LONGEST / 3600:g} hours; use another mirror, or copy the file"
                " there yourself and specify its path"
            )

    def require_space(self, folder: str) -> None:
        """Raise PlanRefused if the file would take what must stay free in ``folder``."""
        if self.length is None:
            return
        free, reserve = base_file.free_space(folder)
        if self.length > free - reserve:
            raise PlanRefused(
                f"image {self._source.url} has {-(-self.length // MIB)} MiB, but {folder} has only"
                f" {free // MIB} MiB free, of which {-(-reserve // MIB)} MiB must stay free; free"
                " some space, or use another directory"
            )

    def verify(self) -> None:
        """Raise PlanRefused unless the received data has the expected checksum."""
        came = Checksum(self._source.checksum.algorithm, self._summed.hexdigest())
        if came != self._source.checksum:
            raise PlanRefused(
                f"image {self._source.url} has the checksum {came} instead of"
                f" {self._source.checksum}: it is not the expected file; check the checksum that"
                " its publisher gives, and use that one"
            )


@contextlib.contextmanager
def opened(source: ImageSource, seconds: float, limit: int) -> t.Iterator[Download]:
    """Open the URL; raises PlanRefused if there is no response within ``seconds``."""
    # its import takes longer than all others, and most calls download nothing; nor is it the
    # server's time
    from ansible.module_utils.urls import open_url

    def request() -> http.client.HTTPResponse:
        with _translated_errors(source, seconds):
            return _answer(open_url, source.url, seconds)

    try:
        response = deadline.call(request, seconds=2 * seconds, what="open")
    except DeadlineExceeded:
        raise _stalled(source, 2 * seconds) from None
    if response.status != 200:
        raise PlanRefused(f"image {source.url}: the server did not send a file; check the URL")
    with contextlib.closing(response):
        yield Download(source, response, seconds, limit)


def _answer(
    open_url: t.Callable[..., http.client.HTTPResponse], image_url: str, seconds: float
) -> http.client.HTTPResponse:
    """The server's response to Ansible's client, which handles proxies, CAs and netrc.

    Redirects are followed here and to https only: a target named in a response is not trusted, and
    each server must only get the password that is meant for it.
    """
    url = image_url
    for followed in range(_MOST_REDIRECTS + 1):
        try:
            return open_url(
                url,
                headers={"Accept-Encoding": "identity"},
                http_agent="fleet.virt",
                timeout=seconds,
                follow_redirects="none",
                decompress=False,
            )
        except HTTPError as error:
            location = error.headers.get("location")
            if error.code not in _REDIRECTS or not location or followed == _MOST_REDIRECTS:
                raise
            error.close()
            url = _redirected(image_url, urljoin(url, location))
    raise AssertionError("the last answer is returned or raised")


def _redirected(image_url: str, target: str) -> str:
    """The URL to continue with; raises PlanRefused unless it is an https URL."""
    if urlsplit(target).scheme != "https":
        shown = target[:200] if target.isprintable() else "an unprintable URL"
        raise PlanRefused(
            f"image {image_url}: the server redirects to {shown}; only redirects to https are"
            " followed: specify the URL of the image itself"
        )
    return quote(target, safe=string.punctuation, encoding="iso-8859-1")


def _stalled(source: ImageSource, seconds: float) -> PlanRefused:
    return PlanRefused(
        f"image {source.url}: the server sent little or no data for {seconds:g} seconds"
        " (download_timeout); try again, or use another mirror"
    )


@contextlib.contextmanager
def _translated_errors(source: ImageSource, seconds: float) -> t.Iterator[None]:
    """Translate network errors into PlanRefused, with a remedy."""
    try:
        yield
    except HTTPError as error:
        with contextlib.closing(error):
            raise PlanRefused(
                f"image {source.url}: the server answered {error.code} {error.reason}; check the"
                " URL"
            ) from None
    except (TimeoutError, socket.timeout):  # the same class since Python 3.10
        raise _stalled(source, seconds) from None
    except URLError as error:
        if isinstance(error.reason, (TimeoutError, socket.timeout)):
            raise _stalled(source, seconds) from None
        remedy = "check the URL, and that this machine can reach the server"
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            remedy = (
                "make this machine trust the server's CA (in the system's certificate store, or"
                " with SSL_CERT_FILE in the task's environment)"
            )
        raise PlanRefused(f"image {source.url}: {error.reason}; {remedy}") from None
    except netrc.NetrcParseError as error:  # its text may contain a password of that file
        raise PlanRefused(
            f"image {source.url}: {error.filename} is not valid according to netrc(5), or other"
            " users can read it; correct it"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PlanRefused(
            f"image {source.url}: {error or type(error).__name__}; try again"
        ) from None
