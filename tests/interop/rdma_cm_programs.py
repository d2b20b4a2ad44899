#!/usr/bin/env python3
"""Runs programs of librdmacm unmodified between two emulated HCAs: connections by the RDMA CM.

Usage: rdma_cm_programs.py SOFTIB
"""
import json
import random
import re
import signal
import subprocess
import sys
import time

from connected_programs import CLOSED_TOO_EARLY, Server, groups, listeners, play
from softib_subnet import PATIENCE, Subnet, equal, need, rsocket_preload, run_tests, skip, two_port_subnet, wait_for

need("rping", "ucmatose", "udaddy", "rdma_client", "rdma_server", "rdma_xclient", "rdma_xserver", "cmtime", "mckey")
SOFTIB = sys.argv[1]
CLIENTS = 50
V4, V6 = "127.77.0.1", "fd77::1"  # of HCA "a", which is the first one of its subnet


def run_rping(subnet, client, options=()):
    done = subnet.run("b", *client, options=options, check=False)
    assert done.returncode == 0 or re.search(CLOSED_TOO_EARLY, done.stdout), done.stdout
    return done


def rping(*options, to=V4):
    return (["rping", "-s", "-v", "-V", *options], ["rping", "-c", "-v", "-V", *options, "-a", to])


def rping_carries_data():
    with Subnet(SOFTIB) as subnet:
        for to in (V4, V6):
            for options in ([], ["-S", "17"], ["-S", "65535"], ["-q"]):
                server, client = rping("-C", "5", *options, to=to)
                server += ["-a", "::" if to == V6 else "0.0.0.0"]
                for output in play(subnet, server, client):
                    lines = re.findall(r"ping data: rdma-ping-(\d+): ", output)
                    equal(lines, [str(i) for i in range(5)])
        counters = subnet.nodes()["a"]["counters"]
        assert counters["sent_bytes"] > 8 * 5 * 17, counters


def rping_serves_many_clients():
    """All at the same time. But the server remembers only one request that it has not accepted."""
    with Subnet(SOFTIB) as subnet:
        server = Server(subnet, "rping", "-s", "-P", "-V")
        clients = []
        for number in range(CLIENTS):
            log = subnet.folder / f"client{number}.out"
            with open(log, "w", encoding="utf-8") as out:
                clients.append((log, subnet.start("b", "stdbuf", "-oL", "rping", "-c", "-v", "-V", "-C",
                                                  "1000000", "-a", V4, stdout=out,
                                                  stderr=subprocess.STDOUT)))
            wait_for("data", lambda: "rdma-ping-0" in clients[-1][0].read_text()[:10000])
        sizes = [log.stat().st_size for log, _ in clients]
        for size, (log, client) in zip(sizes, clients):
            wait_for("more data", lambda: log.stat().st_size > size or client.poll() is not None)
            assert client.poll() is None, log.read_text()[-500:]
        for _, client in clients:
            client.kill()
        assert server.process.poll() is None, server.text()


def ucmatose_transfers_on_many_connections():
    with Subnet(SOFTIB) as subnet:
        for options in ([], ["-c", "100"], ["-c", "5", "-C", "100", "-S", "100000"], ["-m"],
                        ["-c", "10", "-m"], ["-t", "8"], ["-c", "2000"]):
            outputs = play(subnet, ["ucmatose", *options], ["ucmatose", *options, "-s", V4])
            for output in outputs:
                assert "data transfers complete" in output, output
                assert output.rstrip().endswith("return status 0"), output


def other_programs():
    with Subnet(SOFTIB) as subnet:
        for options in ([], ["-c", "5", "-C", "20"]):
            for output in play(subnet, ["udaddy", *options], ["udaddy", *options, "-s", V4]):
                assert output.rstrip().endswith("return status 0"), output
        for output in play(subnet, ["rdma_server"], ["rdma_client", "-s", V4]):
            assert output.rstrip().endswith("end 0"), output
        for way in "r", "x":
            for output in play(subnet, ["rdma_xserver", "-c", way], ["rdma_xclient", "-c", way, "-s", V4]):
                assert output.rstrip().endswith("end 0"), output
        Server(subnet, "cmtime")
        output = subnet.run("b", "cmtime", "-s", V4, "-c", "500").stdout
        assert re.search(r"^connect\s*:", output, re.M), output


def rsockets_carry_streams():
    """Also into memory that the receiver has mapped (riostream), which it polls, and files (rcopy)."""
    need("rstream", "riostream", "rcopy")
    size, turns = 100001, "3"
    with Subnet(SOFTIB) as subnet:
        for program in ("rstream", "riostream"):
            # Not asynchronous: a client that still reads the last message fails if the server has closed.
            for way in ([], ["-T", "blocking"]):
                options = ["-S", str(size), "-I", turns, "-C", turns, "-T", "verify", *way]
                play(subnet, [program, "-b", V4, *options], [program, "-s", V4, *options])
        server = Server(subnet, "rcopy")
        source, copy = (subnet.folder / name for name in ("source", "copy"))
        source.write_bytes(random.Random(1).randbytes(size))
        subnet.run("b", "rcopy", str(source), f"{V4}:{copy}")
        equal(copy.read_bytes(), source.read_bytes())
        server.process.kill()


def programs_of_sockets_use_rsockets():
    """By librspreload. Not iperf3: its server needs select(), which names the wrong sockets there (rdma-core 44)."""
    need("iperf")
    preloaded = rsocket_preload()
    with Subnet(SOFTIB) as subnet:
        server = Server(subnet, *preloaded, "iperf", "-s", "-B", V4)
        sent = subnet.run("b", *preloaded, "iperf", "-c", V4, "-n", "64M").stdout
        assert re.search(r" 64\.0 MBytes ", sent), sent
        wait_for("all data", lambda: re.search(r" 64\.0 MBytes ", server.text()))
        server.process.kill()


def play_perftest(subnet, program, *options, to=V4):
    command = [program, "-R", *options]
    return play(subnet, command, [*command, to])[1]


def perftest_connects_by_the_rdma_cm():
    """Not UC, which perftest refuses there."""
    ways = {"ib_send_bw": ([], ["-q", "4"], ["--events"], ["-c", "UD"], ["--use-srq"]), "ib_send_lat": ([],),
            "ib_write_bw": ([],), "ib_write_lat": ([],), "ib_read_bw": ([],), "ib_atomic_bw": ([],)}
    need(*ways)
    with Subnet(SOFTIB) as subnet:
        for program, options in ways.items():
            for way in options:
                output = play_perftest(subnet, program, "-n", "50", *way)
                assert re.search(r"^ *\d+ +(50|200) +\d", output, re.M), (program, way, output)


def groups_of_multicast():
    """Received by all members, of which the last one leaves."""
    with Subnet(SOFTIB) as subnet:
        for group, options in (("239.1.2.3", []), ("239.1.2.3", ["-o"]), ("ff15::7", [])):
            bound = {"a": V6, "b": "fd77::2"} if ":" in group else {"a": V4, "b": "127.77.0.2"}
            receiver = subnet.start("a", "stdbuf", "-oL", "mckey", "-m", group, "-b", bound["a"],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            lines = [receiver.stdout.readline() for _ in range(3)]
            assert "joined" in lines[2] or "joined" in receiver.stdout.readline(), lines
            output = subnet.run("b", "mckey", "-m", group, "-s", "-b", bound["b"], *options).stdout
            rest, _ = receiver.communicate(timeout=PATIENCE)
            for each in (output, rest):
                assert "data transfers complete" in each and "return status 0" in each, each
            wait_for("the end of the group", lambda: groups(subnet) == 1)


def killed_members_leave_their_group():
    """The last one of a node, within seconds."""
    with Subnet(SOFTIB) as subnet:
        def programs():
            return len(json.loads(subnet.softib("show", "--cm", "--json"))["processes"])

        members = []
        for _ in range(2):
            member = subnet.start("a", "stdbuf", "-oL", "mckey", "-m", "239.1.2.3", "-b", V4,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            wait_for("the join", lambda: "joined" in member.stdout.readline())
            members.append(member)
        equal(groups(subnet), 2)  # with the broadcast group
        for left, member in zip((2, 1), members):
            member.kill()
            member.wait()
            wait_for("the end of a process", lambda: programs() == left - 1)
            if left == 2:
                time.sleep(0.1)  # what would be wrong takes 5 ms
                equal(groups(subnet), 2)
        wait_for("the end of the group", lambda: groups(subnet) == 1, patience=3)


def nobody_listens():
    with Subnet(SOFTIB) as subnet:
        subnet.run("a", "ibv_devinfo")
        output = subnet.run("b", "rping", "-c", "-C", "1", "-a", V4, check=False)
        assert output.returncode != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in output.stdout, output
        output = subnet.run("b", "udaddy", "-s", V4, check=False).stdout
        assert "RDMA_CM_EVENT_UNREACHABLE, error: 1" in output, output


def ports_of_an_hca():
    """Each has addresses, listeners and groups of its own. What is connected by second ports touches no first
    one."""
    with two_port_subnet(SOFTIB) as subnet:
        nodes = subnet.nodes()
        addresses = {name: nodes[name]["addresses"] for name in ("a[1]", "a[2]", "b[1]", "b[2]")}
        equal(len({address for each in addresses.values() for address in each}), 8)

        def sent(name):
            return subnet.nodes()[name]["counters"]["sent_packets"]

        def by_second_ports(plays):
            before = [sent(name) for name in ("a[1]", "b[1]", "a[2]", "b[2]")]
            plays()
            after = [sent(name) for name in ("a[1]", "b[1]", "a[2]", "b[2]")]
            equal(after[:2], before[:2])
            assert all(now > then for now, then in zip(after[2:], before[2:])), (before, after)

        for to, source in zip(addresses["a[2]"], addresses["b[2]"]):
            for bound in (to, "::" if ":" in to else "0.0.0.0"):
                server, client = rping("-C", "3", to=to)
                by_second_ports(lambda: play(subnet, [*server, "-a", bound], [*client, "-I", source]))
        # The operator names a port that has a cable.
        subnet.softib("set", "address", "a[2]", "10.1.0.2")
        for change, error in (("a", "the HCA 'a' has 2 ports: name one, as in a[1]"),
                              ("a[1]", "10.1.0.2 is an address of the HCA 'a[2]'")):
            refused = subprocess.run([SOFTIB, "set", "address", change, "10.1.0.2"], env=subnet.environment,
                                     check=False, text=True, stderr=subprocess.PIPE)
            equal((refused.returncode, refused.stderr), (1, f"softib: {error}\n"))
        subnet.run("b:2", "true", options=("--address", "fd01::2"))
        subnet.run("b", "true", options=("--address", "fd01::1"))
        equal({name: node["addresses"][2:] for name, node in subnet.nodes().items() if name[0] in "ab"},
              {"a[1]": [], "a[2]": ["10.1.0.2"], "b[1]": ["fd01::1"], "b[2]": ["fd01::2"]})
        server, client = rping("-C", "3", to="10.1.0.2")
        by_second_ports(lambda: play(subnet, [*server, "-a", "10.1.0.2"],
                                           [*client, "-I", addresses["b[2]"][0]]))
        subnet.softib("set", "address", "a[2]", "fd01::a2")
        server, client = rping("-C", "3", to="fd01::a2")
        by_second_ports(lambda: play(subnet, [*server, "-a", "fd01::a2"], [*client, "-I", "fd01::2"]))
        subnet.softib("set", "address", "a[2]", "10.1.0.2", "delete")
        equal(subnet.nodes()["a[2]"]["addresses"][2:], ["fd01::a2"])
        to, source = addresses["a[2]"][0], addresses["b[2]"][0]
        by_second_ports(lambda: play(subnet, ["udaddy", "-b", to], ["udaddy", "-s", to, "-b", source]))
        # Nobody listens at the other port.
        for at, other in (("a[2]", "a[1]"), ("a[1]", "a[2]")):
            server, client = rping("-C", "3", to=addresses[at][0])
            started = Server(subnet, *server, "-a", addresses[at][0])
            refused = subnet.run("b", "rping", "-c", "-C", "1", "-a", addresses[other][0], check=False)
            assert refused.returncode != 0 and "RDMA_CM_EVENT_REJECTED, error 8" in refused.stdout, refused
            run_rping(subnet, client)
            started.end()
        # Another process does.
        server = rping("-C", "3", to=to)[0]
        first = Server(subnet, *server, "-a", to)
        second = Server(subnet, *server, "-a", addresses["a[1]"][0])
        for each, name in ((second, "a[1]"), (first, "a[2]")):
            run_rping(subnet, rping("-C", "3", to=addresses[name][0])[1])
            each.end()
        # Without an address of its own, a client takes the port that is up.
        subnet.softib("set", "port", "b[1]", "down")
        by_second_ports(lambda: play(subnet, *rping("-C", "3", to=to)))
        by_second_ports(lambda: play_perftest(subnet, "ib_send_bw", "-i", "2", "-n", "50", to=to))
        subnet.softib("set", "port", "b[1]", "up")
        # A member that is killed leaves by the port by which it has joined.
        member = subnet.start("a", "stdbuf", "-oL", "mckey", "-m", "239.1.2.3", "-b", to,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for("the join", lambda: "joined" in member.stdout.readline())
        joined = json.loads(subnet.softib("show", "--json"))["groups"]
        member.kill()
        member.wait()
        wait_for("the end of the group", lambda: groups(subnet) == len(joined) - 1)


def addresses_of_the_operator():
    """They name the HCA from the first program on, also after the subnet process was killed."""
    with Subnet(SOFTIB) as subnet:
        server, client = rping("-C", "2", to="10.1.0.1")
        for bound in ("0.0.0.0", "10.1.0.1"):
            options = ("--address", "10.1.0.1", "--address=fd01::1")
            play(subnet, [*server, "-a", bound], client, options, ("--address", "10.1.0.2"))
        equal(subnet.nodes()["a"]["addresses"], ["127.77.0.1", "fd77::1", "10.1.0.1", "fd01::1"])
        taken = subnet.run("b", "true", options=("--address", "10.1.0.1"), check=False)
        equal((taken.returncode, taken.stdout),
              (1, "softib: 10.1.0.1 is an address of the HCA 'a'\n"))
        subnet.kill_subnet()
        subnet.run("a", "true", options=("--address", "10.1.0.1"))
        subnet.start_subnet()
        server, client = rping("-C", "2", to="fd01::1")
        play(subnet, [*server, "-a", "fd01::1"], client)
        subnet.softib("set", "address", "a", "fd01::1", "delete")
        refused = subnet.run("a", *server, "-a", "fd01::1", check=False).stdout
        assert "Cannot assign requested address" in refused, refused


def nobody_has_the_address():
    with Subnet(SOFTIB) as subnet:
        for address in ("127.77.3.9", "10.1.2.3"):
            output = subnet.run("b", "rping", "-c", "-C", "1", "-a", address, check=False).stdout
            assert "RDMA_CM_EVENT_ADDR_ERROR, error -110" in output, output


def a_port_is_used_once():
    with Subnet(SOFTIB) as subnet:
        server = Server(subnet, "rping", "-s", "-P")
        second = subnet.run("a", "rping", "-s", check=False)
        assert second.returncode != 0 and "Cannot assign requested address" in second.stdout, second.stdout
        server.process.kill()
        server.process.wait()
        wait_for("the end of the listener", lambda: listeners(subnet) == 0)
        for output in play(subnet, *rping("-C", "1")):
            assert "rdma-ping-0" in output, output


def the_end_of_a_server_is_a_disconnection():
    """Its process is killed, so it sends nothing any more. Without the event the client waits forever."""
    with Subnet(SOFTIB) as subnet:
        for _ in range(3):
            server = Server(subnet, "rping", "-s")
            log = subnet.folder / "client.out"
            with open(log, "w", encoding="utf-8") as out:
                client = subnet.start("b", "stdbuf", "-oL", "rping", "-c", "-v", "-C", "100000000",
                                      "-a", V4, stdout=out, stderr=subprocess.STDOUT)
            wait_for("data", lambda: "rdma-ping-9" in log.read_text())
            server.process.kill()
            wait_for("the event", lambda: "DISCONNECT EVENT" in log.read_text())
            client.wait(timeout=PATIENCE)
            server.process.wait()


def a_listener_that_is_stopped_and_killed():
    """It has not answered the request. Nobody else listens, so the request is refused at once."""
    with Subnet(SOFTIB) as subnet:
        server = Server(subnet, "rping", "-s", "-d")
        subnet.softib("show")
        for stop in ("STOP", "KILL"):
            if stop == "STOP":
                subprocess.run(["kill", "-STOP", str(server.process.pid)], check=True)
                client = subnet.start("b", "rping", "-c", "-C", "1", "-a", V4,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                wait_for("the request", lambda: "b" in subnet.nodes() and
                         subnet.nodes()["b"]["counters"]["sent_packets"] >= 2)
            else:
                server.process.kill()
        output, _ = client.communicate(timeout=5)
        assert "RDMA_CM_EVENT_REJECTED, error 8" in output, output


def lost_messages_delay_connections():
    """A connection that exists goes on, and a new one is there when messages arrive again."""
    with Subnet(SOFTIB) as subnet:
        Server(subnet, "rping", "-s", "-P", "-V")
        client = ["stdbuf", "-oL", "rping", "-c", "-v", "-V", "-C", "1000000", "-a", V4]

        def start(name):
            log = subnet.folder / name
            with open(log, "w", encoding="utf-8") as out:
                return log, subnet.start("b", *client, stdout=out, stderr=subprocess.STDOUT)

        old, _ = start("old.out")
        wait_for("data", lambda: old.stat().st_size > 0)
        subnet.softib("set", "link", "b", "cm-loss", "100")
        assert "cm-loss=100.00%" in subnet.softib("show", "nodes")
        new, process = start("new.out")
        wait_for("a lost request", lambda: subnet.nodes()["b"]["counters"]["drop_link_fault"] > 0)
        size = old.stat().st_size
        wait_for("data of the old one", lambda: old.stat().st_size > size)
        equal(new.stat().st_size, 0)
        subnet.softib("set", "link", "b", "off")
        wait_for("data of the new one", lambda: new.stat().st_size > 0 or process.poll() is not None)
        assert "rdma-ping-0" in new.read_text()[:10000]


def show_lists_listeners_and_connections():
    """Of each process, also of one that is stopped; they go with it."""
    with Subnet(SOFTIB) as subnet:
        def shown():
            return {each["node"]: each for each in
                    json.loads(subnet.softib("show", "--cm", "--json"))["processes"]}

        def connected():
            return [one["ids"] for one in shown().values()
                    if any(one.get("connection") == "Established" for one in one["ids"])]

        server = Server(subnet, "rping", "-s", "-P")
        listener = shown()["a"]["ids"]
        equal([(one["state"], one["source"], one["service_id"]) for one in listener],
              [("Listen", "0.0.0.0:7174", "0x0000000001061c06")])
        log = subnet.folder / "client.out"
        with open(log, "w", encoding="utf-8") as out:
            client = subnet.start("b", "stdbuf", "-oL", "rping", "-c", "-v", "-C", "100000000", "-a", V4,
                                  stdout=out, stderr=subprocess.STDOUT)
        wait_for("both sides", lambda: len(connected()) == 2)
        for process in (server.process, client):
            process.send_signal(signal.SIGSTOP)
        processes = shown()
        active, = processes["b"]["ids"]
        _, passive = sorted(processes["a"]["ids"], key=lambda one: one["state"] == "Connect")
        equal((active["state"], passive["state"]), ("Connect", "Connect"))
        equal((active["source"], active["destination"]), (passive["destination"], passive["source"]))
        equal((active["local_comm_id"], active["remote_comm_id"]),
              (passive["remote_comm_id"], passive["local_comm_id"]))
        equal((active["service_id"], active["destination"]), ("0x0000000001061c06", f"{V4}:7174"))
        equal([processes[node]["program"] for node in "ab"], ["rping", "rping"])
        for node, sent in (("a", "rep"), ("b", "req")):
            counted = processes[node]["messages"]
            equal((counted[sent]["sent"] > 0, counted[sent]["resent"]), (True, 0))
        text = subnet.softib("show", "--cm")
        assert re.search(rf"^a +\d+ +rping +tcp +Listen +- +0\.0\.0\.0:7174 ", text, re.M), text
        assert re.search(r"^b +\d+ +rping +req +1 +0 +0 +0 +-$", text, re.M), text
        client.kill()
        client.wait()
        equal(list(shown()), ["a"])
        server.process.send_signal(signal.SIGCONT)
        wait_for("the end of the connection", lambda: not connected())


def captures_show_the_messages():
    need("tshark")
    with Subnet(SOFTIB) as subnet:
        capture = subnet.folder / "wire.pcap"
        server, client = rping("-C", "1")
        started = Server(subnet, *server)
        subnet.run("b", *client, options=("--capture", str(capture)))
        started.end()
        shown = subprocess.run(["tshark", "-r", str(capture), "-Y", "infiniband.mad.mgmtclass == 7"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               check=False)
        if shown.returncode != 0:
            skip("tshark cannot read the capture")
        for message in ("ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest"):
            assert message in shown.stdout, (message, shown.stdout)


run_tests([rping_carries_data, rping_serves_many_clients, ucmatose_transfers_on_many_connections,
           rsockets_carry_streams, programs_of_sockets_use_rsockets, other_programs,
           perftest_connects_by_the_rdma_cm, groups_of_multicast,
           killed_members_leave_their_group, ports_of_an_hca,
           addresses_of_the_operator, nobody_listens, nobody_has_the_address, a_port_is_used_once,
           the_end_of_a_server_is_a_disconnection, a_listener_that_is_stopped_and_killed,
           lost_messages_delay_connections, show_lists_listeners_and_connections,
           captures_show_the_messages], sys.argv[2:])
