#!/usr/bin/env python3
"""management_on_softib.py SOFTIB SA_CLIENT_PROBE: the management programs of rdma-core on a subnet.

Their output is compared with that of `softib show`.
"""
import re
import subprocess
import sys

from softib_subnet import Subnet, equal, need, run_tests, wait_for

SOFTIB, PROBE = sys.argv[1:3]
HCAS = [f"host{i}" for i in range(1, 21)]
SM, SWITCH = "softib-sm", "softib-switch"
TRUSTED = ("--smkey", "1")
# As in opensm_on_ibsim.py, the MTU of the second partition's group is larger than that of the HCAs.
OPTIONS = ("--mtu", "4096", "--partition", "0x7fff=full,mtu=2048", "--partition",
           "0x0012=full,mtu=4096")


def records(text):
    """Returns the dumps of saquery as dictionaries. Each line is `name....value`, after a title."""
    found = []
    for line in text.splitlines():
        if line.strip().endswith("dump:"):
            found.append({})
        elif match := re.match(r"\s*(\w[\w ]*?)\.{2,}(.*)", line):
            found[-1][match[1]] = match[2]
    return found


def fields(text):
    """Parses lines `Name: value` or `Name:....value` of ibstat, smpquery and ibv_devinfo."""
    return {match[1]: match[2]
            for match in re.finditer(r"^\s*([\w /]+?):[. \t]+(\S.*)$", text, re.MULTILINE)}


def test_saquery_lists_all_nodes():
    # 22 records of 112 bytes: thirteen RMPP segments.
    listed = records(subnet.run("host1", "saquery").stdout)
    equal([record["NodeDescription"] for record in listed], [SM, *HCAS, SWITCH])
    for record in listed[:-1]:
        node = known[record["NodeDescription"]]
        equal(int(record["lid"]), node["lid"])
        equal(record["port_guid"], node["port_guid"])
        equal(record["node_guid"], node["node_guid"])
        equal(record["node_type"], "Channel Adapter")
    equal(listed[-1]["node_type"], "Switch")


def test_saquery_finds_one_node():
    equal(subnet.run("host1", "saquery", "-L", "host7").stdout.strip(), str(known["host7"]["lid"]))
    equal(subnet.run("host1", "saquery", "-O", str(known["host7"]["lid"])).stdout.strip(), "host7")


def test_saquery_lists_all_paths():
    # 484 records of 64 bytes: several RMPP windows.
    ends = len(HCAS) + 2
    listed = records(subnet.run("host1", "saquery", "-p").stdout)
    equal(len(listed), ends * ends)
    equal(len({(record["sgid"], record["dgid"]) for record in listed}), ends * ends)


def test_saquery_finds_one_path():
    a, b = known["host1"], known["host2"]
    for ends in (("--slid", str(a["lid"]), "--dlid", str(b["lid"])),
                 ("--sgid", a["gid"], "--dgid", b["gid"])):
        listed = records(subnet.run("host1", "saquery", "PR", *ends).stdout)
        equal(len(listed), 1)
        path = listed[0]
        equal((path["sgid"], path["dgid"]), (a["gid"], b["gid"]))
        equal((int(path["slid"]), int(path["dlid"])), (a["lid"], b["lid"]))
        equal((path["mtu"], path["rate"], path["pkey"]), ("0x84", "0x87", "0xFFFF"))


def test_sa_client_gets_the_same_responses_as_from_opensm():
    others = [known[host]["gid"] for host in ("host3", "host4", "host5")]
    print(subnet.run("host2", PROBE, "--peer", known[SM]["gid"], *others).stdout.splitlines()[-1])


def test_saquery_lists_groups():
    listed = records(subnet.run("host1", "saquery", "-g").stdout)
    groups = {record["MGID"]: record for record in listed}
    default = groups["ff12:401b:ffff::ffff:ffff"]
    equal((default["Mlid"], default["Mtu"], default["Rate"]), ("0xC000", "0x84", "0x83"))
    other = groups["ff12:401b:8012::ffff:ffff"]
    equal((other["Mlid"], other["Mtu"], other["pkey"]), ("0xC001", "0x85", "0x8012"))


def test_saquery_lists_members_for_the_trusted():
    # The SA client probe has joined, and did not leave.
    listed = records(subnet.run("host1", "saquery", "-m", *TRUSTED).stdout)
    member = next(record for record in listed if record["MGID"] == "ff12:401b:ffff::ffff:ffff")
    equal(member["PortGid"], known["host2"]["gid"])
    equal(member["ScopeState"], "0x21")
    equal(member["NodeDescription"], "host2")
    untrusted = records(subnet.run("host1", "saquery", "-m").stdout)
    assert all(record["PortGid"] == "::" for record in untrusted), "untrusted requests do not show members"


def test_saquery_lists_ports():
    text = subnet.run("host1", "saquery", "PIR", str(known["host3"]["lid"])).stdout
    port = fields(text)
    equal(int(port["Lid"]), known["host3"]["lid"])
    equal(int(port["SMLid"]), known[SM]["lid"])
    equal(port["LinkState"], "Active")
    equal(port["NeighborMTU"], "2048")
    everything = subnet.run("host1", "saquery", "PIR").stdout
    equal(everything.count("PortInfoRecord dump"), len(HCAS) + 1 + 1 + 36)


def test_saquery_reads_class_port_info():
    text = subnet.run("host1", "saquery", "-c").stdout
    mask2 = int(re.search(r"Capability mask 2\.*(0x\w+)", text)[1], 16)
    assert mask2 & 1 << 12, "send-only full members are supported"


def test_ibstat_shows_the_port():
    port = fields(subnet.run("host4", "ibstat").stdout)
    equal(port["State"], "Active")
    equal(port["Physical state"], "LinkUp")
    equal(int(port["Base lid"]), known["host4"]["lid"])
    equal(int(port["SM lid"]), known[SM]["lid"])
    equal(port["Rate"], "40")
    equal(port["Port GUID"], known["host4"]["port_guid"])
    equal(port["Link layer"], "InfiniBand")


def test_verbs_umad_and_smp_agree_on_a_port():
    verbs = fields(subnet.run("host18", "ibv_devinfo", "-v").stdout)
    umad = fields(subnet.run("host18", "ibstat").stdout)
    smp = fields(subnet.run("host18", "smpquery", "portinfo", str(known["host18"]["lid"])).stdout)
    equal(int(verbs["port_cap_flags"], 16), int(umad["Capability mask"], 16))
    equal(int(verbs["port_cap_flags"], 16), int(smp["CapMask"], 16))
    equal(verbs["fw_ver"], umad["Firmware version"])
    equal(verbs["subnet_timeout"], smp["SubnetTimeout"])
    subnet.softib("set", "port", "host18", "down")
    wait_for("the port down", lambda: "State: Down" in subnet.run("host18", "ibstat").stdout)
    equal(fields(subnet.run("host18", "ibstat").stdout)["Physical state"], "Disabled")
    equal(fields(subnet.run("host18", "ibv_devinfo", "-v").stdout)["phys_state"], "DISABLED (3)")
    subnet.softib("set", "port", "host18", "up")


def test_smpquery_by_lid_and_by_route():
    lid = str(known["host5"]["lid"])
    equal(subnet.run("host1", "smpquery", "nodedesc", lid).stdout.split(".")[-1].strip(), "host5")
    keys = subnet.run("host1", "smpquery", "pkeys", lid).stdout
    assert "0xffff 0x8012 0x0000" in keys, keys
    route = "0,1," + str(known["host5"]["node"] + 1)
    info = fields(subnet.run("host1", "smpquery", "-D", "nodeinfo", route).stdout)
    equal(info["Guid"].lower(), known["host5"]["node_guid"])


def test_the_sm_is_found():
    text = subnet.run("host1", "sminfo").stdout
    assert f"sm lid {known[SM]['lid']} " in text and "SMINFO_MASTER" in text, text


def test_ibnetdiscover_walks_the_subnet():
    text = subnet.run("host1", "ibnetdiscover").stdout
    names = re.findall(r'^Ca\t1 "\S+"\s+# "(\S+)"', text, re.MULTILINE)
    equal(sorted(names), sorted([SM, *HCAS]))
    route = subnet.run("host1", "ibtracert", str(known["host1"]["lid"]),
                       str(known["host9"]["lid"])).stdout
    assert '"host1"' in route and '"host9"' in route, route


def counters(text):
    """Parses lines `Name:....value` of perfquery."""
    return {name: int(value) for name, value in re.findall(r"^(\w+):\.*(\d+)$", text, re.MULTILINE)}


def test_perfquery_reads_and_resets_counters():
    lid, port = str(known["host6"]["lid"]), "1"
    before = subnet.nodes()["host6"]["counters"]["sent_packets"]
    for wide in ([], ["-x"]):
        read = counters(subnet.run("host1", "perfquery", *wide, lid, port).stdout)
        equal(read["PortXmitPkts"], before)
        equal(read["PortXmitData"], subnet.nodes()["host6"]["counters"]["sent_bytes"] // 4)
    subnet.run("host6", "saquery", "-c")
    sent = subnet.nodes()["host6"]["counters"]["sent_packets"] - before
    assert sent > 0
    equal(counters(subnet.run("host1", "perfquery", lid, port).stdout)["PortXmitPkts"],
          before + sent)
    subnet.run("host1", "perfquery", "-R", lid, port)
    equal(counters(subnet.run("host1", "perfquery", lid, port).stdout)["PortXmitPkts"], 0)
    # The switch's end of the cable has its own counters.
    port = str(known["host6"]["node"] + 1)
    far = counters(subnet.run("host1", "perfquery", str(switch_lid()), port).stdout)
    equal(far["PortRcvPkts"], before + sent)
    own = counters(subnet.run("host1", "perfquery").stdout)
    assert own["PortXmitPkts"] > 0, own


def switch_lid():
    return int(subnet.run("host1", "saquery", "-L", SWITCH).stdout)


def test_iblinkinfo_shows_each_cable():
    text = subnet.run("host1", "iblinkinfo").stdout
    for name in HCAS:
        assert re.search(rf'Active/ +LinkUp\)==> +\d+ +1\[ *\] "{name}"', text), text


def test_ibqueryerrors_checks_each_port():
    # Its findings and exit status depend on the tests before.
    text = subnet.run("host1", "ibqueryerrors", check=False).stdout
    assert f"{len(HCAS) + 2} nodes checked" in text, text


def test_a_new_lid_is_seen():
    subnet.softib("set", "lid", "host20", "0x300")
    wait_for("the new LID", lambda: "Base lid: 768" in subnet.run("host20", "ibstat").stdout)
    equal(subnet.run("host1", "saquery", "-L", "host20").stdout.strip(), "768")


def test_a_port_that_is_down_is_seen():
    subnet.softib("set", "port", "host19", "down")
    wait_for("the port down", lambda: "State: Down" in subnet.run("host19", "ibstat").stdout)
    assert "host19" not in subnet.run("host1", "saquery", "-D").stdout
    subnet.softib("set", "port", "host19", "up")
    assert "host19" in subnet.run("host1", "saquery", "-D").stdout


def test_killed_subnet_process_is_restarted():
    before = subnet.nodes()
    subnet.kill_subnet()
    gone = subprocess.run([SOFTIB, "show"], env=subnet.environment, capture_output=True, text=True,
                          check=False)
    equal(gone.returncode, 1)
    assert "softib subnet" in gone.stderr and "host7" in gone.stdout, gone
    subnet.start_subnet()
    after = subnet.nodes()
    equal({name: (node["lid"], node["gid"]) for name, node in after.items()},
          {name: (node["lid"], node["gid"]) for name, node in before.items()})
    equal(after["host7"]["reregister_count"], before["host7"]["reregister_count"] + 1)
    equal(len(records(subnet.run("host7", "saquery").stdout)), len(HCAS) + 2)


def test_an_hca_has_no_counters_of_the_one_before_it():
    far = [str(switch_lid()), str(known["host6"]["node"] + 1)]
    subnet.run("host6", "saquery", "-c")
    subnet.run("host1", "perfquery", "-R", *far)
    subnet.softib("set", "hca", "host6", "absent")
    subnet.softib("set", "hca", "new", "present")
    new = subnet.nodes()["new"]
    equal(new["node"], known["host6"]["node"])
    assert not any(new["counters"].values()), new
    equal(counters(subnet.run("host1", "perfquery", *far).stdout)["PortRcvPkts"], 0)
    equal(counters(subnet.run("host1", "perfquery", str(new["lid"]), "1").stdout)["PortXmitPkts"], 0)


need("saquery", "ibstat", "smpquery", "sminfo", "ibnetdiscover", "ibtracert")
with Subnet(SOFTIB, *OPTIONS) as subnet:
    for hca in HCAS:
        subnet.softib("set", "hca", hca, "present")
    for hca in (SM, *HCAS):
        subnet.softib("set", "mtu", hca, "2048")
    known = subnet.nodes()
    run_tests([test for name, test in list(globals().items()) if name.startswith("test_")])
