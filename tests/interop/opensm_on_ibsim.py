#!/usr/bin/env python3
"""Runs a program against OpenSM on ibsim, which simulates hosts on a switch, with MADs only.

Usage: opensm_on_ibsim.py PROGRAM [ARGUMENT...]

The program runs on host2 with libumad2sim preloaded; its arguments are `--peer` with the GID of host1,
where OpenSM runs, and ARGUMENTs. Everything runs in separate network and process namespaces, because
ibsim uses abstract sockets with fixed names, and so that no process is left behind.

The program can control the subnet managers. It writes a command line to the descriptor IBSIM_COMMANDS

    start HOST PRIORITY
    end HOST
    unlink HOST
    link HOST
    sm                   returns the SM LID in the PortInfo of host2

and reads a line from the descriptor IBSIM_RESPONSES when the command is done.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from softib_subnet import PATIENCE, need, need_root, skip

PATIENCE_TO_END = 10  # seconds

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


def find_preload():
    for found in sorted(pathlib.Path("/usr/lib").glob("**/umad2sim/libumad2sim.so")):
        return str(found)
    return None


def sanitizer_runtimes(program):
    """Returns the sanitizer runtimes, which have to be preloaded before other libraries."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [line.split()[2] for line in listing.splitlines() if re.search(r"[at]san[.-]", line)]


def wait_for(what, condition, *processes):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        for process in processes:
            if process.poll() is not None:
                sys.exit(f"{process.args[0]} ended with {process.returncode} before {what}")
        if time.monotonic() > deadline:
            sys.exit(f"timeout after {PATIENCE} s: {what}")
        time.sleep(0.02)


def wait_for_line(log, words, process):
    wait_for(f"'{words}' in {log}", lambda: log.exists() and words in log.read_text(), process)


class Subnet:
    """ibsim, with subnet managers on its hosts."""

    # A standby notices quickly that its master is gone.
    OPTIONS = ("sminfo_polling_timeout 1000\npolling_retry_number 2\n"
               f"log_flags {VERBOSE}\nforce_log_flush TRUE\n")

    def __init__(self, preload, folder):
        self.preload = preload
        self.folder = folder
        self.managers = {}
        (folder / "net").write_text(NET)
        (folder / "partitions.conf").write_text(PARTITIONS)
        # The simulator ends at the end of its standard input, so the pipe stays open.
        self.simulator = self.start("ibsim", ["ibsim", "-s", "net"], stdin=subprocess.PIPE)
        wait_for("ibsim's control socket",
                 lambda: "@sim:ctl" in open("/proc/net/unix").read(), self.simulator)

    def start(self, name, command, **more):
        with open(self.folder / f"{name}.out", "a") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **more)

    def on(self, host, *preloads):
        """Returns the environment of a program on a host."""
        return dict(os.environ, SIM_HOST=HOSTS[host],
                    LD_PRELOAD=":".join([*preloads, self.preload]))

    def start_manager(self, host, priority):
        """Starts OpenSM on a host, as a standby if another one is running.

        The simulator has no timeouts: a manager waits forever for a lost response. So the running
        manager is stopped until the new one can respond.
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
        """Ends OpenSM on a host just after its standby has polled it. Otherwise a poll could remain
        without a response, and the standby would wait forever."""
        process = self.managers.pop(host)
        for other in self.managers:
            log = self.folder / other / "log"
            before = log.read_text().count("(MASTER)")
            wait_for("the standby's next poll",
                     lambda: log.read_text().count("(MASTER)") > before, process)
        process.terminate()
        try:
            process.wait(PATIENCE_TO_END)
        except subprocess.TimeoutExpired:  # it waits for a lost response
            process.kill()
            process.wait()

    def manager_lid(self):
        """Returns the SM LID of host2; zero if no SM has set it."""
        output = subprocess.run(["ibstat"], env=self.on("host2"), capture_output=True, text=True,
                              check=True, timeout=PATIENCE).stdout
        return re.search(r"SM lid: (\d+)", output)[1]

    def execute(self, line):
        command, *arguments = line.split()
        if command == "start":
            self.start_manager(*arguments)
        elif command == "end":
            self.end_manager(*arguments)
        elif command in ("unlink", "link"):
            verb = {"unlink": "Unlink", "link": "ReLink"}[command]
            self.simulator.stdin.write(f'{verb} "{HOSTS[arguments[0]]}"[1]\n'.encode())
            self.simulator.stdin.flush()
        elif command == "sm":
            return self.manager_lid()
        return "done"

    def run(self, program, arguments):
        """Runs the program and returns its exit status."""
        # The simulator's library leaks memory and reads beyond its buffers.
        (self.folder / "asan.supp").write_text("interceptor_via_lib:libumad2sim.so\n")
        (self.folder / "tsan.supp").write_text("called_from_lib:libumad2sim.so\n")
        commands, to_driver = os.pipe()
        from_driver, responses = os.pipe()
        environment = self.on("host2", *sanitizer_runtimes(program)) | {
            "ASAN_OPTIONS": f"detect_leaks=0:suppressions={self.folder}/asan.supp",
            "TSAN_OPTIONS": f"suppressions={self.folder}/tsan.supp",
            "IBSIM_COMMANDS": str(to_driver), "IBSIM_RESPONSES": str(from_driver)}
        process = subprocess.Popen([program, "--peer", PEER_GID, *arguments], cwd=self.folder,
                                   env=environment, pass_fds=(to_driver, from_driver))
        os.close(to_driver)
        os.close(from_driver)
        with os.fdopen(commands) as lines:
            for line in lines:  # until the program ends
                os.write(responses, (self.execute(line) + "\n").encode())
        os.close(responses)
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
        # OpenSM writes this file at the end of a sweep, when the subnet is up.
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

    need_root()
    need("opensm", "ibsim", "unshare", "ip")
    if find_preload() is None:
        skip("libumad2sim.so is not installed")
    os.execvp("unshare", ["unshare", "--net", "--pid", "--fork", "--kill-child", sys.executable,
                          __file__, "--inside", program, *arguments])


main()
