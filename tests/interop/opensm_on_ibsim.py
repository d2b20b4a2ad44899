#!/usr/bin/env python3
"""Runs a program against OpenSM on ibsim: hosts on a switch, MADs only.

Usage: opensm_on_ibsim.py PROGRAM [ARGUMENT...]

The program runs on host2 with libumad2sim preloaded, gets its arguments and `--peer` with the GID of
host1, where OpenSM runs. Everything happens in network and process namespaces of its own, since
ibsim's sockets are abstract ones with fixed names, and so that nothing survives the end of this one.

The program may order subnet managers about: a line to the descriptor IBSIM_ORDERS, one of

    start HOST PRIORITY
    end HOST
    unlink HOST
    link HOST
    sm                   which LID is the subnet manager's, as the port of host2 has been told?

is answered by a line from the descriptor IBSIM_ANSWERS when it is done.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 60  # seconds, for each condition
PATIENCE_TO_END = 10

SWITCH = "S-0000000000200000"
HOSTS = {f"host{number}": f"H-{0xffffe + 2 * number:016x}" for number in (1, 2, 3, 4)}
NET = f'Switch 8 "{SWITCH}" # "sw1"\n'
NET += "".join(f'[{port}] "{node}"[1]\n' for port, node in enumerate(HOSTS.values(), 1))
for port, (name, node) in enumerate(HOSTS.items(), 1):
    NET += f'\nCa 1 "{node}" # "{name}"\n[1] "{SWITCH}"[{port}]\n'
PEER_GID = "fe80::10:1"  # of the first: node GUID + port number

VERBOSE = "0x07"  # what OpenSM logs

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


def wait_for_line(log, words, process):
    wait_for(f"'{words}' in {log}", lambda: log.exists() and words in log.read_text(), process)


class Subnet:
    """ibsim, and subnet managers on its hosts."""

    # A standby soon notices that its master has gone.
    OPTIONS = ("sminfo_polling_timeout 1000\npolling_retry_number 2\n"
               f"log_flags {VERBOSE}\nforce_log_flush TRUE\n")

    def __init__(self, preload, folder):
        self.preload = preload
        self.folder = folder
        self.managers = {}
        (folder / "net").write_text(NET)
        (folder / "partitions.conf").write_text(PARTITIONS)
        # Its console reads commands, and ends the simulator at the end of them: the pipe stays open.
        self.simulator = self.start("ibsim", ["ibsim", "-s", "net"], stdin=subprocess.PIPE)
        wait_for("ibsim's control socket",
                 lambda: "@sim:ctl" in open("/proc/net/unix").read(), self.simulator)

    def start(self, name, command, **more):
        with open(self.folder / f"{name}.out", "a") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **more)

    def on(self, host, *preloads):
        """The environment of a program on a host."""
        return dict(os.environ, SIM_HOST=HOSTS[host],
                    LD_PRELOAD=":".join([*preloads, self.preload]))

    def start_manager(self, host, priority):
        """Beside another manager it is the standby of that one.

        The simulator knows no time-outs: a manager waits for ever for an answer that is lost. So
        the other one does not get to ask the new one before that can answer.
        """
        folder = self.folder / host
        folder.mkdir(exist_ok=True)
        log = folder / "log"
        log.unlink(missing_ok=True)
        (folder / "options").write_text(self.OPTIONS + f"sm_priority {priority}\n")
        environment = self.on(host) | {"OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder)}
        self.signal_managers(signal.SIGSTOP)
        manager = self.start(host, ["opensm", "-F", folder / "options", "-P", "partitions.conf",
                                    "-f", log], env=environment)
        if self.managers:
            wait_for_line(log, "Requesting SMInfo", manager)
            self.signal_managers(signal.SIGCONT)
            wait_for_line(log, "Entering STANDBY state", manager)
        self.managers[host] = manager

    def signal_managers(self, number):
        for manager in self.managers.values():
            manager.send_signal(number)

    def end_manager(self, host):
        """Just after its standby has asked whether it is still there, which would be a question
        without an answer a little later."""
        process = self.managers.pop(host)
        for other in self.managers:
            log = self.folder / other / "log"
            before = log.read_text().count("(MASTER)")
            wait_for("the standby's next question",
                     lambda: log.read_text().count("(MASTER)") > before, process)
        process.terminate()
        try:
            process.wait(PATIENCE_TO_END)
        except subprocess.TimeoutExpired:  # it waits for an answer that was lost
            process.kill()
            process.wait()

    def manager_lid(self):
        """Zero when nobody has told the port."""
        told = subprocess.run(["ibstat"], env=self.on("host2"), capture_output=True, text=True,
                              check=True, timeout=PATIENCE).stdout
        return re.search(r"SM lid: (\d+)", told)[1]

    def obey(self, order):
        what, *about = order.split()
        if what == "start":
            self.start_manager(*about)
        elif what == "end":
            self.end_manager(*about)
        elif what in ("unlink", "link"):
            command = {"unlink": "Unlink", "link": "ReLink"}[what]
            self.simulator.stdin.write(f'{command} "{HOSTS[about[0]]}"[1]\n'.encode())
            self.simulator.stdin.flush()
        elif what == "sm":
            return self.manager_lid()
        return "done"

    def run(self, program, arguments):
        """The program's exit status."""
        # The simulator's library leaks what it allocates, and reads beyond the end of it.
        (self.folder / "asan.supp").write_text("interceptor_via_lib:libumad2sim.so\n")
        (self.folder / "tsan.supp").write_text("called_from_lib:libumad2sim.so\n")
        orders, to_driver = os.pipe()
        from_driver, answers = os.pipe()
        environment = self.on("host2", *sanitizer_runtimes(program)) | {
            "ASAN_OPTIONS": f"detect_leaks=0:suppressions={self.folder}/asan.supp",
            "TSAN_OPTIONS": f"suppressions={self.folder}/tsan.supp",
            "IBSIM_ORDERS": str(to_driver), "IBSIM_ANSWERS": str(from_driver)}
        process = subprocess.Popen([program, "--peer", PEER_GID, *arguments], cwd=self.folder,
                                   env=environment, pass_fds=(to_driver, from_driver))
        os.close(to_driver)
        os.close(from_driver)
        with os.fdopen(orders) as lines:
            for line in lines:  # until the program has ended
                os.write(answers, (self.obey(line) + "\n").encode())
        os.close(answers)
        return process.wait()

    def close(self):
        for process in [self.simulator, *self.managers.values()]:
            process.kill()
            process.wait()


def run_inside(preload, program, arguments, folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subnet = Subnet(preload, folder)
    try:
        subnet.start_manager("host1", 3)
        # Written at the end of a sweep, when the subnet is up.
        wait_for("the first sweep", (folder / "host1" / "opensm-subnet.lst").exists,
                 subnet.simulator, subnet.managers["host1"])
        status = subnet.run(program, arguments)
        if status != 0:
            for log in folder.glob("host*/log"):
                print(f"--- {log.parent.name}", *log.read_text().splitlines()[-40:], sep="\n")
        return status
    finally:
        subnet.close()


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
