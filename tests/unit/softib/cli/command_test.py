#!/usr/bin/env python3
"""Tests the command line of softib: exit codes, messages and output.

Usage: command_test.py SOFTIB IPOIBD [TEST]...
"""
import fcntl
import json
import os
import pathlib
import pty
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from softib_subnet import Subnet, equal, need, run_tests, wait_for  # noqa: E402

SOFTIB, IPOIBD = (os.path.abspath(program) for program in sys.argv[1:3])
SUBCOMMANDS = ("subnet", "run", "show", "set", "list", "stop", "topology")
F_OFD_SETLK = 37
NOWHERE = dict(os.environ, SOFTIB_DIR="/proc/nowhere")  # no subnet can start there


def softib(*arguments, program=SOFTIB, **more):
    """Runs softib; without a folder in which a subnet could start, unless `env` is given."""
    more = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=NOWHERE) | more
    return subprocess.run([program, *arguments], text=True, timeout=60, **more)


def wrong_usage_exits_with_2():
    wrong = [[], ["--no-such-option"], ["no-such-subcommand"],
             ["subnet", "--mtu", "100"], ["subnet", "--mtu", "many"], ["subnet", "--lmc", "8"],
             ["subnet", "--sm", "maybe"], ["subnet", "--partition", "0x12=half"],
             ["subnet", "--partition", "0x12=full:a b"], ["subnet", "--partition", "0x12=full,mtu=4096"], ["subnet", "--log", "loud"],
             ["subnet", "--sm", "none", "--lmc", "1"], ["subnet", "argument"],
             ["run"], ["run", "--hca", "a b", "true"],
             ["show", "argument"], ["show", "nodes", "groups"], ["show", "--watch", "0"],
             ["show", "--watch", "nan"], ["show", "--watch=x"], ["list", "argument"],
             ["stop", "a", "b"], ["stop", "--subnet", "a", "b"],
             ["stop", "a b"], ["stop", ""], ["show", "--subnet", "a b"], ["show", "--dir", ""],
             ["set"], ["set", "dance"], ["set", "port", "c"], ["set", "port", "a b", "up"],
             ["set", "mtu", "a", "1500"], ["set", "lid", "a", "0xc000"],
             ["topology"], ["topology", "star:1", "star:2"], ["topology", "--format", "png", "star:1"]]
    wrong += [[each, "--no-such-option"] for each in SUBCOMMANDS]
    for arguments in wrong:
        done = softib(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), (arguments, done)
        assert "softib" in done.stderr, (arguments, done)


def messages_say_what_is_wrong():
    for arguments in (["topology", "star:1", "--format", "xx"], ["show", "--topology=xx"]):
        message = softib(*arguments).stderr
        assert "unknown format 'xx'; formats are summary, net, ibnetdiscover, dot, svg, json" in message, message
    message = softib("subnet", env=dict(os.environ, SOFTIB_DIR="/proc")).stderr
    assert "folder /proc/default: " in message and "choose another directory with SOFTIB_DIR" in message, message
    message = softib("set", "port", "c").stderr
    assert "up|down|init|armed is missing; usage: softib set port HCA[PORT] up|down|init|armed" in message, message
    for arguments in (["set", "port", "a b", "up"], ["run", "--hca", "a b", "true"],
                      ["show", "--subnet", "a b"], ["subnet", "--partition", "0x12=full:a b"],
                      ["stop", "a b"]):
        message = softib(*arguments).stderr
        assert "letters, digits" in message, (arguments, message)


def unknown_words_get_a_suggestion():
    for word, message in (("roc", "unknown subcommand 'roc'; did you mean roce?"),
                          ("--versoin", "unknown option '--versoin'; did you mean --version?"),
                          ("zz", "unknown subcommand 'zz'")):
        done = softib(word)
        equal((done.returncode, done.stderr), (2, f"softib: {message} (try softib --help)\n"))


def help_lists_the_subcommands_and_exit_codes():
    text = softib("--help").stdout
    for line in ("  roce      run a RoCE port on a network interface", "  view      show a subnet in a browser: nodes,",
                 "softib SUBCOMMAND --help prints its options.", "  -h, --help     print this and exit",
                 "Exit status: 0 success, 1 failure, 2 invalid command line;"):
        assert f"\n{line}" in text, text
    done = softib()
    equal((done.returncode, done.stdout, done.stderr), (2, "", text))


def wrong_command_lines_of_the_lab_say_what_is_wrong():
    for words, message in (("", "which of up, down, exec, show and check?"),
                           ("upp f", "unknown command 'upp'; did you mean up?"),
                           ("up", "no lab file"),
                           ("exec f", "no host"),
                           ("up f g", "unexpected argument 'g'"),
                           ("exec f h ls", "unexpected argument 'ls': the command follows --"),
                           ("up f -- ls", "only exec runs a command"),
                           ("exec -j f h", "--json is not for exec")):
        done = softib("lab", *words.split())
        equal((done.returncode, done.stdout, done.stderr), (2, "", f"softib lab: {message} (try softib lab --help)\n"))


def options_that_exclude_each_other_are_named():
    for words, message in (
            ("metrics --output x --serve 127.0.0.1:0", "metrics: use only one of --output and --serve"),
            ("metrics --serve nonsense", 'metrics: "nonsense" is no address to listen on; '
                                         "expected PORT, ADDRESS:PORT or [ADDRESS]:PORT"),
            ("show --cm nodes", "show: --cm is printed by itself"),
            ("show --cm -w", "show: --cm is printed by itself"),
            ("show --topology=net -j", "show: --topology is printed by itself"),
            ("view --perfquery x", "view: --perfquery needs --ibnetdiscover"),
            ("view --ibnetdiscover - --perfquery -", "view: only one file can be -"),
            ("run --address nonsense -- true", "run: --address: 'nonsense' is not an IP address")):
        done = softib(*words.split())
        subcommand = words.split(maxsplit=1)[0]
        equal((done.returncode, done.stdout), (2, ""))
        equal(done.stderr, f"softib {message} (try softib {subcommand} --help)\n")


def a_subnet_that_does_not_run_is_named():
    for words in "view", "metrics", "show":
        done = softib(words, "--subnet", "none")
        equal((done.returncode, done.stdout), (1, ""))
        equal(done.stderr, "softib: no subnet 'none' is running in /proc/nowhere/none; start one with: "
                           "softib subnet --subnet none\n")


def the_program_of_the_lab_gets_the_words_of_the_command_line():
    for verb in "up", "check":
        done = softib("lab", verb, "--subnet", "a", "-j", "/no/such")
        equal((done.returncode, done.stderr), (1, f"softib lab {verb}: /no/such: No such file or directory\n"))
    with tempfile.TemporaryDirectory() as folder:
        lab = pathlib.Path(folder) / "lab.toml"
        lab.write_text("[subnet]\n", encoding="ascii")
        done = softib("lab", "exec", str(lab), "nobody", "--", "true", "--version")
        equal((done.returncode, done.stderr),
              (1, "softib lab exec: the lab 'lab' is not up: softib lab up starts it\n"))


def help_and_version_have_short_forms():
    for short, long in (("-h", "--help"), ("-V", "--version")):
        for subcommand in ([], *([each] for each in SUBCOMMANDS)):
            done = [softib(*subcommand, option) for option in (short, long)]
            equal([each.returncode for each in done], [0, 0])
            equal(done[0].stdout, done[1].stdout)
            assert done[0].stdout.startswith("usage:" if short == "-h" else "softib "), done


def output_that_cannot_be_written_is_a_failure():
    with Subnet(SOFTIB) as subnet, open("/dev/full", "w", encoding="ascii") as full:
        more = dict(stdout=full, env=subnet.environment)
        for arguments in (["show"], ["show", "--json"], ["show", "nodes"], ["show", "--watch"],
                          ["list"], ["--help"], ["--version"], ["show", "--help"],
                          ["set", "-V"], ["subnet", "--subnet", "other"]):
            done = softib(*arguments, **more)
            assert done.returncode == 1 and "No space left on device" in done.stderr, (arguments, done)
        assert not (subnet.folder / "other").exists()


def reader_that_closes_early_is_no_failure():
    """Where SIGPIPE is ignored, as below some services; without it, the signal ends softib."""
    with Subnet(SOFTIB) as subnet:
        for arguments in (["show"], ["show", "--json"], ["show", "--watch", "0.1"], ["list"], ["--help"],
                          ["show", "--help"]):
            read, write = os.pipe()
            os.close(read)
            done = softib(*arguments, stdout=write, env=subnet.environment, restore_signals=False)
            os.close(write)
            equal((done.returncode, done.stderr), (0, ""))


def json_has_keys_and_rates_in_one_form():
    with Subnet(SOFTIB, "--partition", "0x12=limited,rate=2.5", "--mtu", "4096", "--lmc", "1") as subnet:
        shown = json.loads(subnet.softib("show", "-j"))
        equal(shown["nodes"][0]["pkeys"], ["0xffff", "0x8012"])
        equal(shown["nodes"][0]["rate_mbps"], 40000)
        equal([each["mtu"] for each in shown["nodes"]], [4096] * len(shown["nodes"]))
        assert "4096" in subnet.softib("show", "-w")
        equal([group["rate_mbps"] for group in shown["groups"]], [10000, 2500])
        equal([each["pkey"] for each in shown["partitions"]], ["0xffff", "0x8012"])


def topology_converts_and_draws():
    printed = softib("topology", "fat-tree:6")
    equal((printed.returncode, printed.stderr), (0, ""))
    for line in ("HCAs      54", "cables    162: ", "diameter  6 cables"):
        assert line in printed.stdout, printed
    assert "54 cables to HCAs, 54 up" in printed.stdout, printed
    whole = json.loads(softib("topology", "-f", "json", "fat-tree:6").stdout)
    for form in ("net", "ibnetdiscover"):
        text = softib("topology", "-f", form, "fat-tree:6").stdout
        again = json.loads(softib("topology", "-f", "json", "-", input=text).stdout)
        equal([again["cables"], again["summary"]], [whole["cables"], whole["summary"]])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tree.svg"
        done = softib("topology", "-f", "svg", "-o", str(path), "fat-tree:6")
        equal((done.returncode, done.stdout), (0, ""))
        svg = xml.etree.ElementTree.parse(path).getroot()
        equal(svg.findtext("{http://www.w3.org/2000/svg}title"), "fat-tree:6")
    assert softib("topology", "-f", "dot", "star:2").stdout.startswith('graph "star:2" {')


NET = """switchguid=0x20
Switch 4 "leaf"
[1] "hca"[1] w=1 s=4
[4] "spine"[1]
Switch 4 "spine"
[1] "leaf"[4]
[2] "twin"[1]
[3] "twin"[2]
Switch 4 "twin"
[1] "spine"[2]
[2] "spine"[3]
Switch 4 "far"
hcaguid=0x10
Hca 2 "hca"
[1] "leaf"[1] w=1 s=4
Hca 1 "alone"
Rt 1 "r"
"""


def topology_as_json_has_all_of_it():
    done = softib("topology", "-f", "json", "-", input=NET)
    remark = 'standard input:17:6: the router "r" is skipped'
    equal((done.returncode, done.stderr), (0, f"softib: {remark}\n"))

    def node(name, guid, ports, **more):
        return {"name": name, "description": name, "guid": f"0x{guid:016x}", "ports": ports, **more}

    def cable(a, b, rate, width, speed):
        ends = [{"node": name, "port": port} for name, port in (a, b)]
        return {"a": ends[0], "b": ends[1], "rate": rate, "width": width, "speed": speed, "extended_speed": 0}

    guids = [f"0x{number:016x}" for number in (0x11, 0x12, 0x14)]
    slow = "4xSDR", 2, 1
    levels = [dict(zip(("switches", "cables_down", "cables_up", "cables_within"), each))
              for each in ((1, 1, 1, 0), (1, 1, 2, 0), (1, 2, 0, 0))]
    equal(json.loads(done.stdout), {
        "switches": [node(name, 0x20 + i, 4) for i, name in enumerate(("leaf", "spine", "twin", "far"))],
        "hcas": [node("hca", 0x10, 2, port_guids=guids[:2]), node("alone", 0x13, 1, port_guids=guids[2:])],
        "cables": [cable(("hca", 1), ("leaf", 1), "1xQDR", 1, 4), cable(("leaf", 4), ("spine", 1), *slow),
                   cable(("spine", 2), ("twin", 1), *slow), cable(("spine", 3), ("twin", 2), *slow)],
        "summary": {"switches": 4, "hcas": 2, "cables": 4, "unconnected_hcas": 1, "parts": 2, "levels": levels,
                    "diameter": None, "rates": {"1xQDR": 1, "4xSDR": 3}},
        "remarks": [remark], "more_remarks": 0})
    equal(softib("topology", "-", input=NET).stdout, """switches  4 in 2 parts that are not connected
HCAs      2, 1 without a cable
cables    4: 1 1xQDR, 3 4xSDR
level 1   1 switch, 1 cable to HCAs, 1 up
level 2   1 switch, 1 cable down, 2 up
level 3   1 switch, 2 cables down
""")


def topology_says_what_is_wrong_and_what_is_skipped():
    done = softib("topology", "-", input='Switch 4 "s"\n[1] "gone"[1]\n')
    equal((done.returncode, done.stdout), (1, ""))
    equal(done.stderr, 'softib: standard input:2:5: no node "gone" is in the file\n')
    done = softib("topology", "-", input='Switch 4 "s"\n[1] "r"[1]\nRt 1 "r"\n' + 'do "it"\n' * 100)
    equal(done.returncode, 0)
    assert 'softib: standard input:3:6: the router "r" is skipped\n' in done.stderr, done
    assert done.stderr.endswith("softib: 2 more remarks\n"), done
    for source, reason in (("fat-tree:5", "fat-tree:K[,LEVELS]"), ("hypercube:3", "shapes are fat-tree:"),
                           ("/nosuch", "No such file"), ("/", "Is a directory")):
        done = softib("topology", source)
        assert done.returncode == 1 and reason in done.stderr, done


def topology_derives_the_guids_that_a_subnet_derives():
    with Subnet(SOFTIB) as subnet:
        for name in ("host-1", "host-2"):
            subnet.softib("set", "hca", name, "present")
        printed = softib("topology", "-f", "ibnetdiscover", "star:2").stdout
        for name in ("host-1", "host-2"):
            node = subnet.nodes()[name]
            line = next(line for line in printed.splitlines() if f'# "{name}" lid' in line)
            assert f'"H-{node["node_guid"][2:]}"[1]({int(node["port_guid"], 16):x})' in line, (node, line)


def show_has_sections():
    with Subnet(SOFTIB) as subnet:
        subnet.softib("set", "hca", "a", "present")
        for section, column in (("nodes", "LID"), ("partitions", "PARTITION"), ("groups", "MLID"),
                                ("counters", "NODE")):
            shown = subnet.softib("show", section).splitlines()
            assert shown[0].startswith(column), shown
        equal(sorted(json.loads(subnet.softib("show", "groups", "-j"))),
              ["folder", "groups", "running", "sm", "subnet"])
        brief, wide = subnet.softib("show"), subnet.softib("show", "-w")
        assert max(map(len, brief.splitlines()[1:])) <= 80, brief
        assert "Q_KEY" in wide and "Q_KEY" not in brief, wide


def watch_prints_until_the_subnet_ends():
    with Subnet(SOFTIB) as subnet:
        for arguments in (["--watch", "0.1", "nodes"], ["--watch=0.1", "--json"]):
            with subprocess.Popen([SOFTIB, "show", *arguments], env=subnet.environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
                subnet.processes.append(watching)
                seen = [watching.stdout.readline() for _ in range(8)]
                assert len([line for line in seen if "softib-sm" in line]) >= 2, seen
                assert ("\n" in seen) == ("--json" not in arguments), seen  # between the tables
                subnet.kill_subnet()
                _, message = watching.communicate(timeout=60)
                assert watching.returncode == 1 and "softib subnet" in message, message
            subnet.start_subnet()


def list_shows_the_subnets():
    with Subnet(SOFTIB) as subnet, Subnet(SOFTIB, "--subnet", "red") as red:
        subnet.start("a", "sleep", "1000")
        everywhere = {each["folder"]: each for each in json.loads(softib("list", "--json").stdout)}
        equal(everywhere[f"{subnet.folder}/default"]["pid"], subnet.process.pid)
        equal(everywhere[f"{red.folder}/red"]["pid"], red.process.pid)
        assert everywhere[f"{red.folder}/red"]["uptime"] < 60
        here = json.loads(softib("list", "-j", "--dir", str(red.folder)).stdout)
        equal([each["subnet"] for each in here], ["red"])
        equal(softib("list", "--dir", str(red.folder), "--subnet", "blue").stdout.count("\n"), 1)
        table = softib("list", "--dir", str(subnet.folder)).stdout.splitlines()
        equal(table[1].split()[:2], ["default", str(subnet.process.pid)])
        owner = pwd.getpwuid(os.getuid()).pw_name
        equal(table[1].split()[-2:], [owner, str(subnet.folder / "default")])


def stop_ends_a_subnet_and_waits():
    with Subnet(SOFTIB) as subnet:
        folder = subnet.folder / "default"
        for name in (["default"], [str(folder)], [f"{folder}/"], ["--subnet", "default"], []):
            done = softib("stop", *name, env=subnet.environment)
            equal((done.returncode, done.stderr), (0, ""))
            equal(subnet.process.poll(), 0)
            assert not folder.exists()
            done = softib("stop", *name, env=subnet.environment)
            assert done.returncode == 1 and "no subnet 'default' is running" in done.stderr, done
            subnet.start_subnet()
        done = softib("stop", "/nowhere", env=subnet.environment)
        assert done.returncode == 1 and "/nowhere" in done.stderr, done


def without_waiting(*arguments, inject, **more):
    """As softib(), with other results of a system call."""
    return softib("-o", "/dev/null", "-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}", SOFTIB, *arguments,
                  program="strace", **more)


def a_subnet_that_does_not_respond_is_named():
    with Subnet(SOFTIB) as subnet:
        done = without_waiting("show", inject="recvfrom:error=EAGAIN", env=subnet.environment)
        equal((done.returncode, done.stderr),
              (1, "softib: the subnet 'default' does not respond: see its log, or end its process (softib list) and start it again\n"))


def lock_as_subnet(lock):
    """Locks the first byte of an open lock file, as the process of a subnet does."""
    fcntl.fcntl(lock, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))


def stop_says_that_a_process_does_not_end():
    """It has agreed to."""
    with tempfile.TemporaryDirectory() as other:
        folder = pathlib.Path(other) / "endless"
        folder.mkdir(0o700)
        with socket.socket(socket.AF_UNIX) as service, open(folder / "lock", "w+b") as lock:
            service.bind(str(folder / "control"))
            service.listen()
            lock_as_subnet(lock)

            def agree():
                _looks, asks = service.accept()[0], service.accept()[0]  # whether somebody listens; to end
                asks.recv(100)
                asks.send(b"{}\n")
            agrees = threading.Thread(target=agree)
            agrees.start()
            done = without_waiting("stop", str(folder), inject="clock_nanosleep:retval=0")
            agrees.join()
        equal((done.returncode, done.stderr),
              (1, f"softib: process {os.getpid()} of subnet 'endless' has not ended within 30 s; end it with kill {os.getpid()}\n"))


def a_library_that_is_not_there_is_missed():
    """The program was copied without it."""
    with Subnet(SOFTIB) as subnet, tempfile.TemporaryDirectory() as other:
        done = softib("run", "--hca", "a", "--", "true", program=shutil.copy(SOFTIB, other), env=subnet.environment)
        if done.returncode == 0:
            return  # it is installed
        assert f"libsoftib.so is neither in {pathlib.Path(other).parent}/lib" in done.stderr, done.stderr
        assert ": build or install it\n" in done.stderr, done.stderr


def stop_sends_nothing_to_other_services():
    """The folder of a hostile user: its control socket is that of a service, and its lock is held."""
    with Subnet(SOFTIB) as subnet, tempfile.TemporaryDirectory() as other:
        victim = subnet.folder / "default"
        hostile = pathlib.Path(other) / "hostile"
        hostile.mkdir(0o700)
        for make in (os.symlink, os.link):
            make(victim / "control", hostile / "control")
            (hostile / "lock").write_text((victim / "lock").read_text())
            with open(hostile / "lock", "r+b") as lock:
                lock_as_subnet(lock)
                done = softib("stop", str(hostile))
            assert done.returncode == 1 and "softib: " in done.stderr, done
            (hostile / "control").unlink()
            equal(subnet.process.poll(), None)
            equal(subnet.nodes().keys(), {"softib-sm"})


def a_service_that_is_not_the_owners_gets_no_request():
    """What only root can try: the folder belongs to another user than the service that listens there."""
    if os.getuid() != 0:
        return
    with tempfile.TemporaryDirectory() as other:
        hostile = pathlib.Path(other) / "hostile"
        hostile.mkdir(0o700)
        with socket.socket(socket.AF_UNIX) as service, open(hostile / "lock", "w+b") as lock:
            service.bind(str(hostile / "control"))
            service.listen()
            service.settimeout(60)
            os.chmod(hostile / "lock", 0o666)
            lock_as_subnet(lock)
            try:
                os.chown(hostile, 65534, -1)
            except OSError:
                return  # a user namespace without other users
            done = softib("stop", str(hostile))
            assert done.returncode == 1 and "user 65534" in done.stderr, done
            client, _ = service.accept()
            equal(client.recv(1), b"")  # it has connected, and sent nothing


# Not in a user namespace of one user.
HAS_OTHER_USERS = int(pathlib.Path("/proc/self/uid_map").read_text().split()[-1]) > 1


def stop_says_that_the_subnet_is_of_another_user():
    """What only root can try: to be another user."""
    nobody = pwd.getpwnam("nobody").pw_uid
    if os.getuid() != 0 or not HAS_OTHER_USERS:
        return
    with Subnet(SOFTIB) as subnet:
        os.chmod(subnet.folder, 0o755)
        for arguments in (["stop"], ["stop", str(subnet.folder / "default")], ["show"], ["set", "sm", "restart"],
                          ["run", "true"]):
            done = softib(*arguments, env=subnet.environment, user=nobody)
            assert done.returncode == 1 and "belongs to another user" in done.stderr, (arguments, done)
        equal(subnet.process.poll(), None)


def an_ordinary_user_has_a_private_folder():
    if os.getuid() != 0 or not HAS_OTHER_USERS:
        return
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o1777)
        environment = {"PATH": os.environ["PATH"], "TMPDIR": temporary}
        private = pathlib.Path(temporary) / f"softib-{nobody}"
        done = softib("show", env=environment, user=nobody)
        assert str(private) in done.stderr and not private.exists(), done
        private.mkdir(0o755)
        os.chown(private, nobody, -1)
        done = softib("show", env=environment, user=nobody)
        assert done.returncode == 1 and "others cannot enter" in done.stderr, done
        done = softib("show", env=dict(environment, TMPDIR="/dev/null"), user=nobody)
        equal(done.stderr, f"softib: no folder for emulated subnets: /dev/null/softib-{nobody}: Not a directory; set SOFTIB_DIR or "
                           "XDG_RUNTIME_DIR\n")
        private.rmdir()
        private.mkdir(0o700)  # root's
        done = softib("show", env=environment, user=nobody)
        assert done.returncode == 1 and "SOFTIB_DIR" in done.stderr, done


def a_subnet_whose_folder_is_removed_ends():
    with Subnet(SOFTIB) as subnet:
        subnet.kill_subnet()
        subnet.start_subnet(stderr=subprocess.PIPE)
        shutil.move(subnet.folder / "default", subnet.folder / "elsewhere")
        _, log = subnet.process.communicate(timeout=60)
        equal(subnet.process.returncode, 1)
        assert "has been removed" in log, log


def stop_names_the_programs_that_use_the_subnet():
    with Subnet(SOFTIB) as subnet:
        folder = subnet.folder / "default"
        user = subnet.start("a", "sh", "-c", "ibstat >&2; echo ready; read line; exec ibstat",
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        equal(user.stdout.readline(), "ready\n")
        server = subnet.start("b", "ibping", "-S")
        wait_for("ibping", lambda: subnet.nodes().get("b", {}).get("processes"))
        done = softib("stop", env=subnet.environment)
        equal(done.returncode, 0)
        assert f"has ended; programs still use {folder}: " in done.stderr and str(server.pid) in done.stderr, done.stderr
        done = softib("stop", env=subnet.environment)
        assert done.returncode == 1 and f"has ended, but programs use {folder}: " in done.stderr, done
        # A program that ends by itself removes the folder if it was the last one; after one that was
        # killed, the next softib does.
        server.kill()
        server.wait()
        assert folder.exists()
        user.communicate("\n", timeout=60)
        assert not folder.exists()
        subnet.start_subnet()
        equal(subnet.nodes().keys(), {"softib-sm"})


def stop_removes_what_a_killed_subnet_has_left():
    with Subnet(SOFTIB) as subnet:
        subnet.kill_subnet()
        assert (subnet.folder / "default").exists()
        equal(json.loads(softib("list", "-j", "--dir", str(subnet.folder)).stdout)[0]["running"], False)
        equal(softib("stop", env=subnet.environment).returncode, 0)
        assert not (subnet.folder / "default").exists()


def stop_removes_a_folder_without_a_usable_fabric_file():
    for damage in (lambda fabric: fabric.unlink(), lambda fabric: fabric.write_bytes(b"other")):
        with Subnet(SOFTIB) as subnet:
            folder = subnet.folder / "default"
            user = subnet.start("a", "ibping", "-S")
            wait_for("ibping", lambda: subnet.nodes().get("a", {}).get("processes"))
            subnet.kill_subnet()
            damage(folder / "fabric")
            done = softib("stop", env=subnet.environment)
            assert done.returncode == 1 and str(user.pid) in done.stderr, done
            user.kill()
            user.wait()
            done = softib("stop", env=subnet.environment)
            equal((done.returncode, done.stderr), (0, ""))
            assert not folder.exists()


def stop_says_why_a_folder_stays():
    with Subnet(SOFTIB) as subnet:
        folder = subnet.folder / "default"
        subnet.kill_subnet()
        (folder / "fabric").unlink()
        (folder / "fabric").mkdir()  # nothing that softib made
        done = softib("stop", env=subnet.environment)
        assert done.returncode == 1 and f"cannot open {folder}/fabric" in done.stderr, done
        (folder / "fabric").rmdir()
        equal(softib("stop", env=subnet.environment).returncode, 0)


def killed_subnet_goes_on_with_its_options():
    """ipoibd starts a subnet as here when it finds none that runs."""
    options = ("--partition", "0x12=full", "--mtu", "4096", "--lmc", "2")
    with Subnet(SOFTIB, *options) as subnet:
        subnet.softib("set", "hca", "a", "present")
        subnet.softib("set", "partition", "0x56", "a", "limited")
        before = subnet.nodes()["a"]
        subnet.kill_subnet()
        done = softib("run", "--hca", "a", "true", env=subnet.environment)
        equal((done.returncode, done.stderr),
              (0, "softib: the process of subnet 'default' is not running: programs cannot join groups until softib subnet "
               "runs again\n"))
        subnet.options = ("--tied",)
        subnet.start_subnet(stdin=subprocess.PIPE)
        after = subnet.nodes()["a"]
        equal(after["pkeys"], ["0xffff", "0x8012", "0x0056"])
        equal([after[key] for key in ("pkeys", "mtu", "lid", "lmc")],
              [before[key] for key in ("pkeys", "mtu", "lid", "lmc")])
        subnet.kill_subnet()
        stored = subnet.folder / "default" / "options"
        options = json.loads(stored.read_text(encoding="ascii"))
        del options["mtu"]
        stored.write_text(json.dumps(options), encoding="ascii")
        equal(softib("subnet", env=subnet.environment).stderr,
              f"softib: the options of the earlier process in {stored} are not usable: a value is missing, or is none that softib "
              "writes; give the options of the subnet, or end it with `softib stop`\n")
        # Options that are given replace them.
        subnet.options = ("--partition", "0x13=full")
        subnet.start_subnet()
        equal(subnet.nodes()["a"]["pkeys"], ["0xffff", "0x8013"])


def partitions_can_be_deleted():
    with Subnet(SOFTIB) as subnet:
        subnet.softib("set", "hca", "a", "present")
        done = softib("set", "partition", "0x56", "a", "none", env=subnet.environment)
        assert done.returncode == 1 and "no partition 0x8056" in done.stderr, done
        for _ in range(40):
            subnet.softib("set", "partition", "0x56", "a", "full")
            subnet.softib("set", "partition", "0x56", "delete")
        equal(len(json.loads(subnet.softib("show", "partitions", "-j"))["partitions"]), 1)
        assert softib("set", "partition", "0x7fff", "delete", env=subnet.environment).returncode == 1


def packets_of(pcap):
    """Returns the lengths of the records of a pcap file; fails unless the file is complete."""
    equal(pcap[:4], b"\xa1\xb2\xc3\xd4")
    at, lengths = 24, []
    while at < len(pcap):
        length = int.from_bytes(pcap[at + 8:at + 12], "big")
        lengths.append(length)
        at += 16 + length
    equal(at, len(pcap))
    return lengths


def capture_goes_to_the_standard_output():
    with Subnet(SOFTIB) as subnet:
        program = ["sh", "-c", "echo written; saquery -g >&2; saquery -g >&2"]
        for target in ("-", "/dev/stdout"):
            done = subprocess.run(subnet.command("a", *program, options=["--capture", target]),
                                  env=subnet.environment, capture_output=True, timeout=60)
            equal(done.returncode, 0)
            assert len(packets_of(done.stdout)) >= 4, done
            assert b"written" in done.stderr and b"written" not in done.stdout, done.stderr
        path = subnet.folder / "file.pcap"
        with open(path, "wb") as file:
            subprocess.run(subnet.command("a", *program, options=["--capture", "-"]), stdout=file,
                           stderr=subprocess.DEVNULL, env=subnet.environment, check=True)
        assert len(packets_of(path.read_bytes())) >= 4


def capture_into_a_named_pipe():
    with Subnet(SOFTIB) as subnet:
        pipe = subnet.folder / "pipe"
        os.mkfifo(pipe)
        with subnet.start("a", "saquery", "-g", options=["--capture", str(pipe)],
                          stdout=subprocess.DEVNULL) as program:
            assert len(packets_of(pipe.read_bytes())) >= 2
        equal(program.returncode, 0)


def program_outlives_the_reader_of_its_capture():
    with Subnet(SOFTIB) as subnet:
        with subnet.start("a", "sh", "-c", "read line; exec saquery -g", options=["--capture", "-"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as program:
            equal(os.read(program.stdout.fileno(), 24)[:4], b"\xa1\xb2\xc3\xd4")  # it is ready
            program.stdout.close()
            _, output = program.communicate("\n", timeout=60)
        equal(program.returncode, 0)
        assert "the capture" in output and "Broken pipe" in output, output


def capture_of_the_sm_goes_to_the_standard_output():
    with Subnet(SOFTIB) as subnet:
        folder = subnet.folder / "other"
        with subprocess.Popen([SOFTIB, "subnet", "--dir", str(folder), "--capture", "-"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as other:
            subnet.processes.append(other)
            assert other.stderr.readline().startswith(b"ready"), "ready is not on stderr"
            softib("run", "--hca", "a", "saquery", env=dict(os.environ, SOFTIB_DIR=str(folder)))
            softib("stop", env=dict(os.environ, SOFTIB_DIR=str(folder)))
            assert len(packets_of(other.stdout.read())) >= 2


def link_faults_disturb_the_packets():
    with Subnet(SOFTIB) as subnet:
        subnet.softib("set", "hca", "a", "present")
        subnet.softib("set", "link", "a", "loss", "100")
        assert "loss=100.00%" in subnet.softib("show", "nodes")
        done = subnet.run("a", "sh", "-c", "saquery -t 100 -g; true").stdout
        assert "dump" not in done, done
        assert subnet.nodes()["a"]["counters"]["drop_link_fault"] > 0
        subnet.softib("set", "link", "a", "duplicate", "100", "delay", "1")
        assert "dump" in subnet.run("a", "saquery", "-g").stdout
        assert subnet.nodes()["a"]["counters"]["link_duplicates"] > 0
        subnet.kill_subnet()
        subnet.start_subnet()
        equal(subnet.nodes()["a"]["link_faults"],
              dict(loss=0, duplicate=10000, reorder=0, delay=1, corrupt=0, cm_loss=0, seed=0))
        subnet.softib("set", "link", "a", "off")
        assert "LINK FAULTS" not in subnet.softib("show", "nodes")


def changes_that_a_subnet_refuses():
    refused = (("port nobody up", "the subnet 'default' has no HCA 'nobody'"),
               ("mtu nobody 2048", "the subnet 'default' has no HCA 'nobody'"),
               ("lid a 1", "LID 1 is in use, or not a unicast LID; softib show nodes lists those in use"),
               ("address a 10.0.0.1 delete", "the HCA 'a' was not given 10.0.0.1"),
               ("address b 10.9.9.9", "10.9.9.9 is an address of the HCA 'a'"),
               ("partition 0x7fff delete", "the default partition cannot be deleted"),
               ("partition 0x22 delete", "the subnet has no partition 0x8022; softib show partitions lists them"),
               ("partition 0x22 a none", "the subnet has no partition 0x8022; softib show partitions lists them"),
               ("pkey 0x22 a 1", "the port is not in that partition; softib show partitions lists its members"),
               ("cable nobody down", "there is no cable of nobody"),
               ("switch nowhere reset", "there is no switch 'nowhere'"),
               ("hca softib-sm failed",
                "softib-sm is the subnet manager's own port, which stays as it is: choose an HCA of a program"),
               ("port f up", "the HCA 'f' has failed"))
    with Subnet(SOFTIB) as subnet:
        for change in ("hca a present", "hca b present", "hca f present", "hca f failed", "address a 10.9.9.9"):
            subnet.softib("set", *change.split())
        for change, message in refused:
            done = softib("set", *change.split(), env=dict(os.environ, SOFTIB_DIR=str(subnet.folder)))
            equal((done.returncode, done.stdout, done.stderr), (1, "", f"softib: {message}\n"))
        done = softib("exec", "--subnet", "default", "true", env=dict(os.environ, SOFTIB_DIR=str(subnet.folder)))
        equal((done.returncode, done.stderr), (1, "softib: subnet 'default' is running; softib run uses it\n"))
        done = softib("run", "--hca", "f", "ibv_devices", env=dict(os.environ, SOFTIB_DIR=str(subnet.folder)))
        equal(done.stderr, "softib: the HCA 'f' has failed; restore it with `softib set hca f present`\n")
        for arguments, status, message in (
                (["/proc/nowhere"], 127, "softib: cannot run /proc/nowhere: No such file or directory"),
                (["--capture", "/proc/nowhere", "true"], 1, "softib: cannot capture to /proc/nowhere: No such file or directory")):
            done = softib("run", "--hca", "a", *arguments, env=subnet.environment)
            equal((done.returncode, done.stderr), (status, message + "\n"))


def a_capture_is_not_written_to_a_terminal():
    with Subnet(SOFTIB) as subnet:
        control, terminal = pty.openpty()
        for arguments in (["capture", "-"], ["run", "--hca", "a", "--capture", "-", "true"]):
            done = softib(*arguments, stdout=terminal, env=subnet.environment)
            equal((done.returncode, done.stderr),
                  (1, "softib: a capture is not written to a terminal: redirect the standard output\n"))
        os.close(control)
        os.close(terminal)


def the_page_needs_xdg_open_to_be_opened():
    with Subnet(SOFTIB) as subnet, subprocess.Popen([SOFTIB, "view", "--open"], env=dict(subnet.environment, PATH="/proc/nowhere"),
                                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as view:
        line = view.stderr.readline()
        view.terminate()
        equal(line, "softib: cannot open the page with xdg-open: No such file or directory\n")


def the_library_alone_has_no_hca():
    library = pathlib.Path(SOFTIB).parents[1] / "lib" / "libsoftib.so"
    if not library.exists():
        return  # of an installed program
    need("ibv_devinfo")
    # A path in LD_PRELOAD cannot have a blank.
    by_name = dict(os.environ, LD_PRELOAD=library.name, LD_LIBRARY_PATH=str(library.parent))
    done = subprocess.run(["ibv_devinfo"], env=by_name, check=False, capture_output=True, text=True)
    assert "softib: no emulated HCA: run the program under `softib run`\n" in done.stderr, done


def queue_pairs_of_nobody_cannot_fail():
    with Subnet(SOFTIB) as subnet:
        subnet.softib("set", "hca", "a", "present")
        for arguments, reason in ((["a", "error"], "no program on 'a' has a queue pair"),
                                  (["a", "error", "0x100000"], "has this queue pair"),
                                  (["b", "error"], "has no HCA 'b'")):
            done = softib("set", "qp", *arguments, env=dict(os.environ, SOFTIB_DIR=str(subnet.folder)))
            equal(done.returncode, 1)
            assert reason in done.stderr, done.stderr


def automatic_start_tells_why_it_failed():
    with tempfile.NamedTemporaryFile() as file:
        environment = dict(os.environ, SOFTIB_DIR=file.name)
        done = softib("--softib", program=IPOIBD, env=environment)
        assert done.returncode != 0, done
        assert "did not start" in done.stderr and file.name in done.stderr, done.stderr
        assert "by hand" not in done.stderr, done.stderr


need("ibstat", "ibping", "saquery", "strace")
run_tests([a_capture_is_not_written_to_a_terminal, the_library_alone_has_no_hca, the_page_needs_xdg_open_to_be_opened,
           wrong_usage_exits_with_2, messages_say_what_is_wrong, unknown_words_get_a_suggestion,
           help_lists_the_subcommands_and_exit_codes, wrong_command_lines_of_the_lab_say_what_is_wrong,
           options_that_exclude_each_other_are_named, a_subnet_that_does_not_run_is_named,
           the_program_of_the_lab_gets_the_words_of_the_command_line, help_and_version_have_short_forms,
           output_that_cannot_be_written_is_a_failure, reader_that_closes_early_is_no_failure,
           json_has_keys_and_rates_in_one_form, topology_converts_and_draws, topology_as_json_has_all_of_it,
           topology_says_what_is_wrong_and_what_is_skipped,
           topology_derives_the_guids_that_a_subnet_derives,
           show_has_sections, watch_prints_until_the_subnet_ends, list_shows_the_subnets,
           a_library_that_is_not_there_is_missed, a_subnet_that_does_not_respond_is_named, stop_says_that_a_process_does_not_end,
           stop_ends_a_subnet_and_waits, stop_sends_nothing_to_other_services,
           a_service_that_is_not_the_owners_gets_no_request, stop_names_the_programs_that_use_the_subnet,
           stop_says_that_the_subnet_is_of_another_user, a_subnet_whose_folder_is_removed_ends, an_ordinary_user_has_a_private_folder,
           stop_removes_what_a_killed_subnet_has_left,
           stop_removes_a_folder_without_a_usable_fabric_file, stop_says_why_a_folder_stays,
           killed_subnet_goes_on_with_its_options,
           partitions_can_be_deleted, capture_goes_to_the_standard_output,
           capture_into_a_named_pipe, program_outlives_the_reader_of_its_capture,
           capture_of_the_sm_goes_to_the_standard_output, link_faults_disturb_the_packets,
           changes_that_a_subnet_refuses, queue_pairs_of_nobody_cannot_fail, automatic_start_tells_why_it_failed], sys.argv[3:])
