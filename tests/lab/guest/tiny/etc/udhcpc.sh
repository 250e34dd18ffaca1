#!/bin/sh
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Called by udhcpc with the lease in its environment.
case $1 in
deconfig)
    ip addr flush dev "$interface" scope global
    ;;
bound | renew)
    ifconfig "$interface" "$ip" netmask "${subnet:-255.255.255.0}"
    for address in $router; do
        # The metric lets several interfaces have a default route, the first one's being preferred.
        ip route replace default via "$address" dev "$interface" metric "${interface#eth}" 2>/dev/null
        break
    done
    for address in $dns; do echo "nameserver $address"; done > /etc/resolv.conf
    [ "$1" = bound ] && echo "TINY LEASE $interface $ip" > /dev/console
    ;;
esac
exit 0
