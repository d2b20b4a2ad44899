#!/usr/bin/env python3
"""opensm_on_softib.py SOFTIB SA_CLIENT_PROBE: the management programs of rdma-core and the daemon's SA
client on a softib subnet that OpenSM manages."""
import re
import sys

from opensm import PARTITIONS, OpenSm
from softib_subnet import Subnet, equal, need, run_tests, wait_for

SOFTIB, PROBE = sys.argv[1:3]
HCAS = [f"host{i}" for i in range(1, 21)]
SM, SWITCH = HCAS[0], "softib-switch"
# The second partition's group is larger than the MTU of the ports, as in opensm_on_ibsim.py.
RED = "Red=0x0012,ipoib,mtu=5,rate=3:ALL=full;\n"


def test_all_ports_are_up_and_have_different_lids():
    found = subnet.nodes()
    equal({node["state"] for node in found.values()}, {"active"})
    equal(len({node["lid"] for node in found.values()} - {0}), len(HCAS) + 1)
    equal({node["sm_lid"] for node in found.values()}, {found[SM]["lid"]})
    equal({tuple(found[hca]["pkeys"]) for hca in HCAS}, {("0xffff", "0x8012")})


def test_sa_client_gets_responses():
    found = subnet.nodes()
    others = [found[hca]["gid"] for hca in HCAS[2:5]]
    print(subnet.run("host2", PROBE, "--peer", found[SM]["gid"], *others).stdout.splitlines()[-1])


def test_saquery_lists_all_nodes():
    # Thirteen RMPP segments, which OpenSM's MAD layer creates.
    output = subnet.run("host3", "saquery").stdout
    equal(set(re.findall(r"NodeDescription\.+(\S+)", output)), {SWITCH, *HCAS})


def test_ibnetdiscover_finds_all_nodes():
    output = subnet.run("host3", "ibnetdiscover").stdout
    equal(set(re.findall(r'^Ca.*# "(\S+)"$', output, re.MULTILINE)), set(HCAS))
    equal(len(re.findall(r"^Switch", output, re.MULTILINE)), 1)


def test_smpquery_follows_the_forwarding_table():
    found = subnet.nodes()
    for name, what in (("host7", "Lid"), (SWITCH, "Lid")):
        output = subnet.run("host3", "smpquery", "portinfo", str(found[name]["lid"]), "0").stdout
        equal(int(re.search(rf"^{what}:\.+(\d+)$", output, re.MULTILINE)[1]), found[name]["lid"])
    output = subnet.run("host3", "smpquery", "switchinfo", str(found[SWITCH]["lid"])).stdout
    top = int(re.search(r"^LinearFdbTop:\.+(\d+)$", output, re.MULTILINE)[1])
    equal(top, max(node["lid"] for node in found.values()))


def test_sminfo_gets_the_response_of_opensm():
    output = subnet.run("host3", "sminfo").stdout
    assert "SMINFO_MASTER" in output, output
    assert f"sm lid {subnet.nodes()[SM]['lid']} " in output, output


def test_counters_are_readable():
    found = subnet.nodes()
    far_end = str(found["host7"]["node"] + 1)
    for name, port in (("host7", "1"), (SWITCH, far_end)):
        output = subnet.run("host3", "perfquery", str(found[name]["lid"]), port).stdout
        assert re.search(r"^PortXmitPkts:\.+\d+$", output, re.MULTILINE), output


def test_an_hca_that_is_removed_is_forgotten():
    subnet.softib("set", "hca", "guest", "present")
    wait_for("guest to be active", lambda: subnet.nodes()["guest"]["state"] == "active")
    subnet.softib("set", "hca", "guest", "absent")
    wait_for("OpenSM to notice",
             lambda: "guest" not in subnet.run("host3", "saquery").stdout)


if __name__ == "__main__":
    need("opensm", "saquery", "ibnetdiscover", "smpquery", "sminfo", "perfquery")
    with Subnet(SOFTIB, "--sm", "none") as subnet:
        for hca in HCAS:
            subnet.softib("set", "hca", hca, "present")
        OpenSm(subnet, SM, PARTITIONS + RED)
        run_tests([test for name, test in list(globals().items()) if name.startswith("test_")])
