# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client that opens verified TLS connections to libvirt all the time, and counts.

Piped into a Python with a line ``OPTIONS = ...`` before it, here or on a hypervisor. For every
connection it reads its files anew from the paths at which they are deployed, as each new client
does, verifies chain, name and revocation, and waits for the byte by which libvirt says that it has
verified the client. Nothing is tried twice. It ends when /tmp/stop-tls-client is there.
"""

import json
import os
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

_STOP = "/tmp/stop-tls-client"


def connect(options, target):
    """One connection; the common name of the CA that the server's certificate is from."""
    authorities, certificates, keys = options["folders"]
    context = ssl.create_default_context(cafile=f"{authorities}/cacert.pem")
    context.load_verify_locations(f"{authorities}/cacrl.pem")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if os.path.exists(f"{certificates}/clientcert.pem"):
        context.load_cert_chain(f"{certificates}/clientcert.pem", f"{keys}/clientkey.pem")
    plain = socket.create_connection((target, options["port"]), timeout=20)
    with plain, context.wrap_socket(plain, server_hostname=target) as secure:
        if secure.recv(1) != b"\1":
            raise ConnectionError("libvirt did not accept the certificate")
        issuer = dict(pair[0] for pair in secure.getpeercert()["issuer"])
        return issuer["commonName"]


def run(options):
    """Connect to every target at the given rate until told to stop; what came of it."""
    lock = threading.Lock()
    found = {
        target: {"good": 0, "bad": 0, "errors": [], "issuers": []} for target in options["targets"]
    }

    def once(target):
        try:
            issuer = connect(options, target)
        except (OSError, KeyError) as error:
            with lock:
                found[target]["bad"] += 1
                found[target]["errors"].append(f"{time.time():.3f} {error!r}")
        else:
            with lock:
                found[target]["good"] += 1
                if issuer not in found[target]["issuers"]:
                    found[target]["issuers"].append(issuer)

    with ThreadPoolExecutor(20) as pool:
        due = time.monotonic()
        while not os.path.exists(_STOP):
            for target in options["targets"]:
                pool.submit(once, target)
            due += 1 / options["rate"]
            time.sleep(max(0, due - time.monotonic()))
    return found


if "OPTIONS" in globals():
    print(json.dumps(run(globals()["OPTIONS"])))
