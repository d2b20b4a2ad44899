#!/usr/bin/env python3
"""Runs a program against OpenSM on ibsim: hosts on a switch, MADs only.

Usage: opensm_on_ibsim.py PROGRAM [ARGUMENT...]

The program runs on host2 with libumad2sim preloaded, gets its arguments and `--peer` with the GID of
host1, where OpenSM runs. Everything happens in network and process namespaces of its own, since
ibsim's sockets are abstract ones with fixed names, and so that nothing survives the end of this one.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 60  # seconds, for each condition

HOSTS = 4  # the last two are there to be members of groups
SWITCH = "S-0000000000200000"
NODES = [f"H-{0x100000 + 2 * host:016x}" for host in range(HOSTS)]
NET = f'Switch 8 "{SWITCH}" # "sw1"\n'
NET += "".join(f'[{port}] "{node}"[1]\n' for port, node in enumerate(NODES, 1))
for port, node in enumerate(NODES, 1):
    NET += f'\nCa 1 "{node}" # "host{port}"\n[1] "{SWITCH}"[{port}]\n'
PEER_GID = "fe80::10:1"  # of the first: node GUID + port number

# The second partition's group is larger than the MTU of ibsim's ports.
PARTITIONS = """\
Default=0x7fff,ipoib:ALL=full;
Red=0x0012,ipoib,mtu=5,rate=3:ALL=full;
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def find_preload():
    for found in sorted(pathlib.Path("/usr/lib").glob("**/umad2sim/libumad2sim.so")):
        return str(found)
    return None


def sanitizer_runtimes(program):
    """A sanitizer's runtime has to come before any other preloaded library."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [line.split()[2] for line in listing.splitlines() if "libasan" in line or "libtsan" in line]


def wait_for(what, condition, *processes):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for process in processes:
            if process.poll() is not None:
                sys.exit(f"{process.args[0]} ended with {process.returncode} before {what}")
        if time.monotonic() > deadline:
            sys.exit(f"waited {PATIENCE} s in vain for {what}")
        time.sleep(0.02)


def run_inside(preload, program, arguments, folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "net").write_text(NET)
    (folder / "partitions.conf").write_text(PARTITIONS)

    def start(command, **more):
        log = open(folder / f"{os.path.basename(command[0])}.out", "w")
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **more)

    def on(host, *runtimes):
        return dict(os.environ, SIM_HOST=host, LD_PRELOAD=":".join([*runtimes, preload]),
                    OSM_TMP_DIR=str(folder), OSM_CACHE_DIR=str(folder))

    processes = []
    try:
        # Its console reads commands, and ends the simulator at the end of them: the pipe stays open.
        processes.append(start(["ibsim", "-s", "net"], stdin=subprocess.PIPE))
        wait_for("ibsim's control socket",
                 lambda: "@sim:ctl" in open("/proc/net/unix").read(), *processes)
        processes.append(start(["opensm", "-e", "-P", "partitions.conf", "-f", "opensm.log"],
                               env=on(NODES[0])))
        # Written at the end of a sweep, when the subnet is up.
        wait_for("the first sweep", (folder / "opensm-subnet.lst").exists, *processes)

        # The simulator's library leaks what it allocates, and reads beyond the end of it.
        (folder / "asan.supp").write_text("interceptor_via_lib:libumad2sim.so\n")
        (folder / "tsan.supp").write_text("called_from_lib:libumad2sim.so\n")
        environment = on(NODES[1], *sanitizer_runtimes(program))
        environment["ASAN_OPTIONS"] = f"detect_leaks=0:suppressions={folder}/asan.supp"
        environment["TSAN_OPTIONS"] = f"suppressions={folder}/tsan.supp"
        status = subprocess.run([program, "--peer", PEER_GID, *arguments], cwd=folder,
                                env=environment).returncode
        if status != 0:
            print("--- opensm.log", *open(folder / "opensm.log").readlines()[-40:], sep="\n")
        return status
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main():
    inside = sys.argv[1] == "--inside"
    program, *arguments = sys.argv[2:] if inside else sys.argv[1:]
    program = os.path.abspath(program)
    if inside:
        preload = find_preload()
        with tempfile.TemporaryDirectory(prefix="opensm-on-ibsim-") as folder:
            sys.exit(run_inside(preload, program, arguments, pathlib.Path(folder)))

    if os.geteuid() != 0:
        skip("a network namespace needs root")
    for tool in ("opensm", "ibsim", "unshare", "ip"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if find_preload() is None:
        skip("libumad2sim.so is not installed")
    os.execvp("unshare", ["unshare", "--net", "--pid", "--fork", "--kill-child", sys.executable,
                          __file__, "--inside", program, *arguments])


main()
