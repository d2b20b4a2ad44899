"""Shared by the DHCP tests: a server, clients, and the messages in a capture."""

import signal
import subprocess

import hosts
from hosts import wait_until

# udhcpc calls this script when its lease changes.
UDHCPC_SCRIPT = """#!/bin/sh
case $1 in
bound) ip addr replace "$ip/$mask" dev "$interface" ;;
deconfig) ip -4 addr flush dev "$interface" ;;
esac
echo "<$1 $ip>"
"""

# dhclient calls this one.
DHCLIENT_SCRIPT = """#!/bin/sh
case $reason in
BOUND) ip addr replace "$new_ip_address/24" dev "$interface" ;;
esac
"""

# A client with hlen bytes of chaddr and the given flags. Prints the address that it gets.
INFINIBAND_CLIENT = """
import os, socket, struct, sys
hlen, flags = int(sys.argv[1]), int(sys.argv[2], 0)
xid, identifier = os.urandom(4), bytes.fromhex('ff0000000000030020') + os.urandom(8)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'ib0')
client.bind(('', 68))
client.settimeout(2)

def request(options, reply_type):
    chaddr = bytes([2] * hlen).ljust(16, bytes(1))
    message = struct.pack('!BBBB4sHH16s', 1, 32, hlen, 0, xid, 0, flags, bytes(16)) + chaddr
    message += bytes(192) + bytes.fromhex('63825363') + options
    message += bytes([61, len(identifier)]) + identifier + bytes([255])
    for attempt in range(10):
        client.sendto(message.ljust(300, bytes(1)), ('255.255.255.255', 67))
        try:
            # A late reply to a repeated request may arrive during the next request.
            while True:
                reply = client.recv(2000)
                if reply[4:8] == xid and bytes([53, 1, reply_type]) in reply:
                    return reply
        except TimeoutError:
            continue
    sys.exit('no reply')

offer = request(bytes([53, 1, 1]), 2)
address, server = offer[16:20], offer[offer.index(bytes([54, 4])) + 2:][:4]
reply = request(bytes([53, 1, 3, 50, 4]) + address + bytes([54, 4]) + server, 5)
assert reply[1:3] == bytes([32, hlen]), reply[1:3]
print(socket.inet_ntoa(reply[16:20]))
"""


def start_server(host, folder, *options, interface="ib0"):
    """Starts dnsmasq on a host's interface, for addresses from 10.44.0.100 to 10.44.0.150."""
    command = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0",
               f"--interface={interface}", "--bind-interfaces", "--user=root", "--group=", "--pid-file=",
               "--dhcp-range=10.44.0.100,10.44.0.150,255.255.255.0,1h", "--no-ping",
               "--dhcp-authoritative", "--log-dhcp", "--log-facility=-",
               f"--dhcp-leasefile={folder / f'{host.name}.leases'}", *options]
    server = hosts.Process(host.command(*command), folder / f"{host.name}.dnsmasq.log",
                           host.subnet.environment)
    wait_until(lambda: "DHCP, IP range" in server.output(), "the server is ready")
    return server


def udhcpc(folder, interface):
    script = folder / "udhcpc_script"
    script.write_text(UDHCPC_SCRIPT)
    script.chmod(0o755)
    return ["udhcpc", "-f", "-i", interface, "-t", "20", "-T", "1", "-s", str(script)]


def dhclient(folder, interface):
    script = folder / "dhclient_script"
    script.write_text(DHCLIENT_SCRIPT)
    script.chmod(0o755)
    return ["dhclient", "-4", "-d", "-sf", str(script), "-cf", "/dev/null",
            "-lf", f"{folder}/leases", "-pf", f"{folder}/dhclient.pid", interface]


def dhcpcd(_folder, interface):
    """Its files are in fixed folders, here of its own. Its helper processes end with it."""
    mounts = "".join(f"mkdir -p {path} && mount -t tmpfs none {path} && "
                     for path in ("/run/dhcpcd", "/var/lib/dhcpcd"))
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
            f"{mounts}exec dhcpcd --ipv4only --nobackground --noarp --script /bin/true "
            f"--config /dev/null --debug {interface}"]


CLIENTS = {"udhcpc": udhcpc, "dhclient": dhclient, "dhcpcd": dhcpcd}


class Client(hosts.Process):
    def end(self):
        """At once: dhcpcd does not always end when it is asked to."""
        super().end(signal.SIGKILL)


def start_client(host, folder, interface="ib0", program="udhcpc"):
    """Starts a DHCP client on a host's interface."""
    own = folder / f"{program}-{host.name}"
    own.mkdir(exist_ok=True)
    return Client(host.command(*CLIENTS[program](own, interface)),
                  folder / f"{host.name}.{program}.log", host.subnet.environment)


def messages(capture):
    """Returns the fields of each request and of each reply in a capture."""
    names = ["type", "hw.type", "hw.len", "flags.bc", "ip.client", "ip.your", "option.type"]
    # ICMP errors about unexpected replies contain DHCP messages, too.
    found = subprocess.run(
        ["tshark", "-r", str(capture), "-Y", "dhcp && !icmp",
         "-T", "fields", *(word for name in names for word in ("-e", f"dhcp.{name}"))],
        check=True, capture_output=True, text=True).stdout
    requests, replies = [], []
    for line in found.splitlines():
        values = dict(zip(names, (field.split(",") for field in line.split("\t"))))
        # A client identifier with its own hardware type comes second.
        (requests if values["type"][0] == "1" else replies).append({
            "hw.type": int(values["hw.type"][0], 0), "hw.len": int(values["hw.len"][0]),
            "broadcast": values["flags.bc"][0] in ("1", "True"),
            "ciaddr": values["ip.client"][0], "yiaddr": values["ip.your"][0],
            "options": values["option.type"]})
    return requests, replies
