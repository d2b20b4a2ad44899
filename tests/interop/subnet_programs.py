#!/usr/bin/env python3
"""Programs that look after a subnet, beside those of management_on_softib.py: ibacm, srp_daemon, ibdiagnet, and
OpenSM with each of its routing engines.

Usage: subnet_programs.py SOFTIB [NAME]...
"""
import re
import subprocess
import sys

from opensm import OpenSm
from softib_subnet import Subnet, equal, need, need_own_network, run_tests, wait_for

need("ibacm", "ib_acme", "srp_daemon", "ibsrpdm", "ibdiagnet", "opensm", "ibtracert", "mount")
need_own_network("--mount")
# The sockets of ibacm have fixed names there.
subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
SOFTIB = sys.argv[1]
HCAS = ("a", "b", "c")
# One switch is neither a tree nor a torus, so OpenSM takes minhop in place of these.
NOT_HERE = ("ftree", "torus-2QoS")
ENGINES = ("minhop", "updn", "dnup", "lash", "dor", "dfsssp", "sssp", *NOT_HERE)
ACM_OPTIONS = """log_file stdout
log_level 2
lock_file {folder}/{hca}.pid
server_mode {mode}
server_port {port}
addr_prot acm
route_prot acm
"""


def start_hcas(subnet, hcas=HCAS):
    for hca in hcas:
        subnet.softib("set", "hca", hca, "present")
    return subnet.nodes()


def start_acm(subnet, hca, mode, port):
    """ibacm as the host of that name; in mode unix programs find it."""
    options, addresses = subnet.folder / f"{hca}.options", subnet.folder / f"{hca}.addresses"
    options.write_text(ACM_OPTIONS.format(folder=subnet.folder, hca=hca, mode=mode, port=port))
    addresses.write_text(f"host-{hca} softib0 1 default\n")
    log = subnet.folder / f"{hca}.log"
    with open(log, "w", encoding="utf-8") as out:
        subnet.start(hca, "ibacm", "-P", "-A", str(addresses), "-O", str(options), stdout=out,
                     stderr=subprocess.STDOUT)
    # A name that it is asked for before is not found later either.
    wait_for("both groups", lambda: log.read_text().count("join successful") == 2)


def ibacm_resolves_names():
    """It asks the other ibacm by multicast; ib_acme compares the path with the SA's."""
    with Subnet(SOFTIB) as subnet:
        found = start_hcas(subnet)
        start_acm(subnet, "a", "loop", 6130)
        start_acm(subnet, "b", "unix", 6131)

        def ask():
            return subnet.run("b", "ib_acme", "-f", "n", "-s", "host-b", "-d", "host-a", "-v", check=False).stdout

        answer = wait_for("the answer", lambda: "SA verification: success" in (text := ask()) and text)
        fields = dict(re.findall(r"^ +(\w+): (\S+)$", answer, re.MULTILINE))
        equal((fields["dgid"], fields["sgid"]), (found["a"]["gid"], found["b"]["gid"]))
        equal(int(fields["dlid"]), found["a"]["lid"])


def srp_daemon_finds_no_target():
    with Subnet(SOFTIB) as subnet:
        start_hcas(subnet)
        output = subnet.run("a", "srp_daemon", "-o", "-a", "-v", "-d", "/dev/infiniband/umad0").stdout
        assert "Query did not find any targets" in output, output
        equal(subnet.run("a", "srp_daemon", "-o", "-c").stdout, "")
        equal(subnet.run("a", "ibsrpdm").stdout, "")


def ibdiagnet_finds_nothing_wrong():
    with Subnet(SOFTIB) as subnet:
        start_hcas(subnet)
        output = subnet.run("a", "ibdiagnet", "-o", str(subnet.folder / "report")).stdout
        assert f"{len(HCAS) + 2} nodes (1 Switches & {len(HCAS) + 1} CA-s) discovered" in output, output
        stages = re.findall(r"^ {4}(\S.*?) +(\d+) +(\d+) *$", output, re.MULTILINE)
        equal(len(stages), 6)
        for stage, errors, _ in stages:
            equal((stage, errors), (stage, "0"))
        assert "-I- No bad link were found" in output, output


def routing_engines():
    """With each, a packet finds its way, and the switch's table leads to each HCA."""
    for engine in ENGINES:
        with Subnet(SOFTIB, "--sm", "none") as subnet:
            start_hcas(subnet)
            sm = OpenSm(subnet, "a", options=f"routing_engine {engine}\n")
            used = "minhop" if engine in NOT_HERE else engine
            assert f"{used} tables configured on all switches" in sm.output(), (engine, sm.output())
            found = subnet.nodes()
            equal({node["state"] for node in found.values()}, {"active"})
            for hca in HCAS[1:]:
                route = subnet.run("c", "ibtracert", str(found["a"]["lid"]), str(found[hca]["lid"])).stdout
                assert "To ca" in route, (engine, route)
            equal((engine, sm.end()), (engine, 0))


run_tests([ibacm_resolves_names, srp_daemon_finds_no_target, ibdiagnet_finds_nothing_wrong, routing_engines],
          sys.argv[2:])
