#!/usr/bin/env python3
"""ibsim and softib on the same net file: what a subnet manager and its tools read of them is the same.

Usage: side_by_side.py SOFTIB

smp_dump.py reads each attribute of each port on both, as they are started, and again when OpenSM has
programmed them and a host has joined a group. All that differs is named here with its reason.
ibsim uses abstract sockets with fixed names, so each runs in network and process namespaces of its own.
"""
import collections
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from softib_subnet import PATIENCE, Subnet, need, need_own_network, skip, wait_for

SOFTIB = os.path.abspath(sys.argv[1])
DUMP = pathlib.Path(__file__).resolve().with_name("smp_dump.py")
JOIN = DUMP.with_name("group_join.py")
PYTHON = "/usr/bin/python3"
# All that decides on the routes of OpenSM is in the file. ibsim has no default prefix of GIDs.
NET = """\
switchguid=0x2c902004000f0
Switch 8 "core-1" # "core;one"
[1] "leaf-1"[1]
[2] "leaf-1"[2]
[3] "leaf-2"[1] s=3

switchguid=0x2c902004000f8
Switch 20 "leaf-1"
[1] "core-1"[1]
[2] "core-1"[2]
[3] "host-1"[1]
[4] "host-4"[1]
[17] "host-2"[2]
[18] "host-5"[1]

switchguid=0x2c90200400100
Switch 4 "leaf-2"
[1] "core-1"[3] s=3
[2] "host-3"[1] s=7 w=3
[3] "host-5"[2]

caguid=0x2c90200001240
Ca 1 "host-1" # "host-1 HCA-1"
[1](2c90200001241) "leaf-1"[3]

caguid=0x2c90200001250
Ca 2 "host-2"
[2](2c90200001252) "leaf-1"[17]

caguid=0x2c90200001260
Ca 1 "host-3"
[1](2c90200001261) "leaf-2"[2] s=7 w=3

caguid=0x2c90200001270
Ca 1 "host-4"
[1](2c90200001271) "leaf-1"[4]

caguid=0x2c90200001280
Ca 2 "host-5"
[1](2c90200001281) "leaf-1"[18]
[2](2c90200001282) "leaf-2"[3]

"""
NODES = 8
LID_CAPACITY = 0xc000  # of the tables of softib; ibsim's is an option
OPENSM = """\
force_log_flush TRUE
qos TRUE
subnet_timeout 17
sweep_interval 0
"""
ENTRIES_OF_IBSIM = 8
SWEPT = "tables configured on all switches"
PARTITIONS = "Default=0x7fff,ipoib:ALL=full;\n"
MGID = "ff12:abcd::1"
MEMBERS = ("fe80::2:c902:0:1271", "fe80::2:c902:0:1261")  # host-4, host-3
INVALID, UNSUPPORTED = "status 28", "status 12"

# Fields by name: the first bit and the number of bits (IBA 14.2.5.3, 14.2.5.4, 14.2.5.6).
FIELDS = {
    "NodeInfo": {
        "BaseVersion": (0, 8), "ClassVersion": (8, 8), "NodeType": (16, 8), "NumPorts": (24, 8),
        "SystemImageGUID": (32, 64), "NodeGUID": (96, 64), "PortGUID": (160, 64), "PartitionCap": (224, 16),
        "DeviceID": (240, 16), "Revision": (256, 32), "LocalPortNum": (288, 8), "VendorID": (296, 24)},
    "SwitchInfo": {
        "LinearFDBCap": (0, 16), "RandomFDBCap": (16, 16), "MulticastFDBCap": (32, 16), "LinearFDBTop": (48, 16),
        "DefaultPort": (64, 8), "DefaultMulticastPrimaryPort": (72, 8), "DefaultMulticastNotPrimaryPort": (80, 8),
        "LifeTimeValue": (88, 5), "PortStateChange": (93, 1), "LIDsPerPort": (96, 16),
        "PartitionEnforcementCap": (112, 16), "InboundEnforcementCap": (128, 1), "OutboundEnforcementCap": (129, 1),
        "FilterRawInboundCap": (130, 1), "FilterRawOutboundCap": (131, 1), "EnhancedPort0": (132, 1)},
    "PortInfo": {
        "M_Key": (0, 64), "GidPrefix": (64, 64), "LID": (128, 16), "MasterSMLID": (144, 16),
        "CapabilityMask": (160, 32), "DiagCode": (192, 16), "M_KeyLeasePeriod": (208, 16), "LocalPortNum": (224, 8),
        "LinkWidthEnabled": (232, 8), "LinkWidthSupported": (240, 8), "LinkWidthActive": (248, 8),
        "LinkSpeedSupported": (256, 4), "PortState": (260, 4), "PortPhysicalState": (264, 4),
        "LinkDownDefaultState": (268, 4), "M_KeyProtectBits": (272, 2), "LMC": (277, 3), "LinkSpeedActive": (280, 4),
        "LinkSpeedEnabled": (284, 4), "NeighborMTU": (288, 4), "MasterSMSL": (292, 4), "VLCap": (296, 4),
        "InitType": (300, 4), "VLHighLimit": (304, 8), "VLArbitrationHighCap": (312, 8),
        "VLArbitrationLowCap": (320, 8), "InitTypeReply": (328, 4), "MTUCap": (332, 4), "VLStallCount": (336, 3),
        "HOQLife": (339, 5), "OperationalVLs": (344, 4), "PartitionEnforcement": (348, 2), "FilterRaw": (350, 2),
        "M_KeyViolations": (352, 16), "P_KeyViolations": (368, 16), "Q_KeyViolations": (384, 16),
        "GUIDCap": (400, 8), "ClientReregister": (408, 1), "SubnetTimeOut": (411, 5), "RespTimeValue": (419, 5),
        "LocalPhyErrors": (424, 4), "OverrunErrors": (428, 4), "MaxCreditHint": (432, 16),
        "LinkRoundTripLatency": (456, 24), "CapabilityMask2": (480, 16), "LinkSpeedExt": (496, 16)},
}

# What may differ, and why: by name of the attribute and field; when: "before" or "after" OpenSM has run, or "both";
# where: see place(); None: everywhere.
Allowed = collections.namedtuple("Allowed", "what when where reason")
EXCEPTIONS = [
    Allowed(("NodeInfo DeviceID", "NodeInfo Revision", "NodeInfo VendorID"), "both", None,
               "each says what it is"),
    Allowed(("NodeInfo PartitionCap", "P_KeyTable refused"), "both", None,
               "32 keys, as most adapters have; ibsim has 64 and 8"),
    Allowed(("PortInfo GUIDCap", "GUIDInfo refused"), "both", None, "one GUID of each port; ibsim has 32"),
    Allowed(("PortInfo VLArbitrationHighCap", "PortInfo VLArbitrationLowCap", "VLArbitrationTable refused"), "both",
               None, "64 entries, the most that there can be; ibsim has 8"),
    Allowed(("VLArbitrationTable",), "before", None, "no SM has written it; here it is empty"),
    Allowed(("VLArbitrationTable",), "after", ("idle", "port 0"), "OpenSM writes only those of cables"),
    Allowed(("PortInfo CapabilityMask", "PortInfo CapabilityMask2"), "both", None,
               "each says what it supports; what OpenSM asks for (traps, SL to VL) both have"),
    Allowed(("PortInfo LinkWidthSupported", "PortInfo LinkWidthEnabled", "PortInfo LinkSpeedEnabled"), "both", None,
               "a topology has the rate that a cable has, not those that its ends would have with another"),
    Allowed(("PortInfo LinkSpeedActive",), "both", ("idle", "port 0"), "there is no link"),
    Allowed(("PortInfo NeighborMTU", "PortInfo MTUCap"), "both", ("port 0",), "it has no link"),
    Allowed(("PortInfo OperationalVLs",), "before", None, "one lane until an SM has set more"),
    Allowed(("PortInfo OperationalVLs",), "after", ("idle", "port 0"), "OpenSM sets only those of cables"),
    Allowed(("PortInfo GidPrefix",), "both", None, "IBA 14.2.5.6: the default prefix; ibsim has none"),
    Allowed(("PortInfo M_KeyLeasePeriod", "PortInfo SubnetTimeOut", "PortInfo VLStallCount", "PortInfo LocalPhyErrors",
                "PortInfo OverrunErrors"), "both", None, "ibsim does not keep what is written there"),
    Allowed(("PortInfo RespTimeValue",), "both", ("port 0",), "ibsim has a value for switches"),
    Allowed(("SwitchInfo PortStateChange",), "before", None, "links that come up at the start count as changes there"),
    Allowed(("SwitchInfo FilterRawInboundCap", "SwitchInfo FilterRawOutboundCap"), "both", None,
               "no filters of raw packets here"),
    Allowed(("SwitchInfo PartitionEnforcementCap", "SwitchInfo InboundEnforcementCap",
                "SwitchInfo OutboundEnforcementCap"), "both", None, "ibsim's switches do not check P_Keys"),
    Allowed(("PortInfo PartitionEnforcement",), "after", ("cable",), "ibsim does not keep it"),
    Allowed(("P_KeyTable",), "both", ("cable", "idle"),
               "a port that checks P_Keys has a table of its own; ibsim has that of an HCA at each port"),
]


@contextlib.contextmanager
def ibsim(folder):
    """Yields a function that runs a program on a host of ibsim, and one that starts it."""
    preload = next(pathlib.Path("/usr/lib").glob("**/umad2sim/libumad2sim.so"), None)
    if preload is None:
        skip("libumad2sim.so is not installed")

    def on(host):
        return {"env": dict(os.environ, SIM_HOST=host, LD_PRELOAD=str(preload), OSM_TMP_DIR=str(folder),
                            OSM_CACHE_DIR=str(folder)), "cwd": folder}

    processes = []

    def start(host, *command, **more):
        processes.append(subprocess.Popen(command, **on(host), **more))
        return processes[-1]

    def run(host, *command):
        done = subprocess.run(command, **on(host), capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with open(folder / "ibsim.log", "wb") as log:
        # The simulator ends at the end of its standard input.
        simulator = subprocess.Popen(["ibsim", "-s", "-L", str(LID_CAPACITY), folder / "net"],
                                     stdin=subprocess.PIPE, stdout=log, stderr=log)
    processes.append(simulator)
    try:
        wait_for("ibsim's control socket",
                 lambda: "@sim:ctl" in pathlib.Path("/proc/net/unix").read_text(encoding="ascii"))
        yield run, start
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@contextlib.contextmanager
def softib(folder):
    with Subnet(SOFTIB, "--sm", "none", "--topology", str(folder / "net")) as subnet:
        subnet.environment |= {"OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder)}
        yield lambda *command: subnet.run(*command).stdout, subnet.start


def read_both_times(side, folder):
    """Returns what is read before and after OpenSM has run on host-1."""
    folder.mkdir()
    (folder / "net").write_text(NET, encoding="ascii")
    (folder / "partitions").write_text(PARTITIONS, encoding="ascii")
    (folder / "options").write_text(OPENSM, encoding="ascii")
    with side(folder) as (run, start):
        before = json.loads(run("host-3", PYTHON, str(DUMP)))
        log = folder / "log"
        with open(folder / "out", "wb") as out:
            manager = start("host-1", "opensm", "-F", str(folder / "options"), "-P", str(folder / "partitions"), "-f",
                            str(log), stdout=out, stderr=out)

        def is_up():
            assert manager.poll() is None, log.read_text(errors="replace")
            return log.exists() and "SUBNET UP" in log.read_text(errors="replace")
        wait_for("OpenSM", is_up)
        run("host-3", PYTHON, str(JOIN), MGID, *MEMBERS)
        # Once more: it chooses tables of lanes by the number of lanes that it has set before.
        manager.send_signal(signal.SIGHUP)
        wait_for("another sweep", lambda: log.read_text(errors="replace").count(SWEPT) > 1)
        after = json.loads(run("host-3", PYTHON, str(DUMP)))
    return before, after


def bits(value, at, count):
    return int(value, 16) >> (8 * len(value) // 2 - at - count) & (1 << count) - 1


def difference(key, ours, theirs):
    """Yields (what, softib's, ibsim's) of one attribute."""
    attribute = key.split()[1]
    is_refused = ["status" in value for value in (ours, theirs)]
    if attribute == "VLArbitrationTable" and not any(is_refused):
        # ibsim has only these entries, of two bytes, so 4 digits, each.
        ours, theirs = (value[:4 * ENTRIES_OF_IBSIM] for value in (ours, theirs))
        if ours == theirs:
            return
    if any(is_refused) or attribute not in FIELDS:
        yield attribute + (" refused" if any(is_refused) else ""), ours, theirs
        return
    rest_ours, rest_theirs = int(ours, 16), int(theirs, 16)
    for name, (at, count) in FIELDS[attribute].items():
        one, other = bits(ours, at, count), bits(theirs, at, count)
        shift = 4 * len(ours) - at - count
        rest_ours -= one << shift
        rest_theirs -= other << shift
        if one != other:
            yield f"{attribute} {name}", f"{one:#x}", f"{other:#x}"
    if rest_ours != rest_theirs:
        yield f"{attribute} unnamed bits", f"{rest_ours:#x}", f"{rest_theirs:#x}"


def place(key, values):
    """Returns where an attribute is: "hca", "switch", or "port 0", "cable" or "idle" of a port of a switch."""
    guid, attribute, modifier = key.split()
    is_switch = "status" not in values[f"{guid} SwitchInfo 0x0"]
    ports = {"PortInfo": [int(modifier, 0)], "VLArbitrationTable": [int(modifier, 0) & 0xff],
             "P_KeyTable": [int(modifier, 0) >> 16],
             "SLtoVLMappingTable": [int(modifier, 0) & 0xff, int(modifier, 0) >> 8]}.get(attribute)
    if not is_switch and attribute == "PortInfo":
        return "hca" if is_up(values, guid, ports[0]) else "idle"
    if not is_switch or ports is None:
        return "switch" if is_switch else "hca"
    if 0 in ports:
        return "port 0"
    return "cable" if all(is_up(values, guid, port) for port in ports) else "idle"


def is_up(values, guid, port):
    info = values[f"{guid} PortInfo {port:#x}"]
    return "status" in info or bits(info, *FIELDS["PortInfo"]["PortState"]) != 1


def compare(when, ours, theirs):
    """Returns what differs and is no exception, and the exceptions that there were."""
    wrong, used = [], set()
    for key in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(key, "not read"), theirs.get(key, "not read")
        if one == other:
            continue
        for what, mine, its in difference(key, one, other):
            where = place(key, ours)
            reason = next((entry for entry in EXCEPTIONS if what in entry.what and entry.when in (when, "both")
                           and (entry.where is None or where in entry.where)), None)
            if reason is None:
                wrong.append(f"{when}: {key} ({where}): {what}: softib {mine}, ibsim {its}")
            else:
                used |= {(reason, name) for name in reason.what if name == what}
    return wrong, used


def main():
    need("ibsim", "opensm")
    need_own_network("--pid", "--fork", "--kill-child")
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as folder:
        path = pathlib.Path(folder)
        ours = read_both_times(softib, path / "softib")
        theirs = read_both_times(ibsim, path / "ibsim")
    wrong, used = [], set()
    for when, mine, its in zip(("before", "after"), ours, theirs):
        assert len({key.split()[0] for key in mine}) == NODES, mine.keys()
        more_wrong, more_used = compare(when, mine, its)
        wrong += more_wrong
        used |= more_used
        print(f"{when} OpenSM: {len(mine)} attributes")
    unused = [name for entry in EXCEPTIONS for name in entry.what if (entry, name) not in used]
    for line in wrong:
        print("DIFFERS", line)
    assert not wrong, f"{len(wrong)} values differ"
    assert not unused, f"these do not differ: {unused}"


main()
