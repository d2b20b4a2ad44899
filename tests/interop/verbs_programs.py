#!/usr/bin/env python3
"""Runs rdma-core's verbs programs unmodified on emulated HCAs.

Usage: verbs_programs.py SOFTIB [--few]

Programs that poll wait for each other's turn on a busy processor, twice a message, so they have fewer messages.
With --few (for sanitizers) all have, and of the ways to call a program only those in which it sleeps are left.
"""
import re
import subprocess
import sys

from softib_subnet import (PATIENCE, Subnet, equal, free_tcp_port, is_listening, need, play,
                           run_tests, two_port_subnet, wait_for)

need("ibv_asyncwatch", "ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_srq_pingpong",
     "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_xsrq_pingpong")
SOFTIB = sys.argv[1]
FEW = "--few" in sys.argv
DEPTH = 20  # of the receive queue, which a program fills again when it is empty


def ways(*all_of_them):
    """The options of a program, by way to call it."""
    return [way for way in all_of_them if not FEW or "-e" in way]


def messages(options):
    """How many a program sends that is called in this way."""
    return 20 if FEW else 300 if "-e" in options else 50


def guid_of(subnet, hca):
    """Returns the node GUID in 16 digits, as ibv_devices prints it."""
    row = re.search(r"^\s+softib0\s+([0-9a-f]{16})$", subnet.run(hca, "ibv_devices").stdout, re.M)
    assert row, "softib0 is not listed"
    return row[1]


def each_hca_is_one_device():
    with Subnet(SOFTIB) as subnet:
        listed = subnet.run("a", "ibv_devices").stdout.splitlines()
        assert len([line for line in listed if "softib" in line]) == 1, listed
        first = guid_of(subnet, "a")
        assert first != guid_of(subnet, "b"), "two HCAs have one GUID"
        assert first == guid_of(subnet, "a"), "the GUID of an HCA changed"


def device_information():
    with Subnet(SOFTIB, "--mtu", "4096") as subnet:
        text = subnet.run("a", "ibv_devinfo", "-v").stdout
        values = dict(re.findall(r"^\s*([a-z_0-9]+):\s*(.+?)\s*$", text, re.M))
        wanted = {
            "hca_id": "softib0",
            "transport": "InfiniBand (0)",
            "phys_port_cnt": "1",
            "state": "PORT_ACTIVE (4)",
            "active_mtu": "4096 (5)",
            "sm_lid": "1",
            "port_lid": "2",
            "link_layer": "InfiniBand",
            "pkey_tbl_len": "32",
            "gid_tbl_len": "1",
            "phys_state": "LINK_UP (5)",
            "max_srq": "4096",
            "bad_pkey_cntr": "0x0",
        }
        wrong = {name: values.get(name) for name, value in wanted.items()
                 if values.get(name) != value}
        assert not wrong, f"{wrong} in\n{text}"
        assert values["node_guid"].replace(":", "") == guid_of(subnet, "a"), text
        assert re.search(r"GID\[\s*0\]:\s+fe80:0000:0000:0000:[0-9a-f:]{19}$", text, re.M), text


def other_devices_are_refused():
    with Subnet(SOFTIB) as subnet:
        done = subnet.run("a", "ibv_devinfo", "-d", "mlx5_0", check=False)
        assert done.returncode != 0 and "mlx5_0" in done.stdout, done.stdout


def port_events_are_seen():
    with Subnet(SOFTIB) as subnet:
        log = subnet.folder / "asyncwatch.out"
        with open(log, "w", encoding="utf-8") as out:
            watch = subnet.start("a", "stdbuf", "-oL", "ibv_asyncwatch", stdout=out)
        wait_for("the watcher", lambda: "async event FD" in log.read_text())
        for event, change in (("PORT_ERR", ("port", "a", "down")),
                              ("PORT_ACTIVE", ("port", "a", "up")),
                              ("LID_CHANGE", ("lid", "a", "0x33")),
                              ("SM_CHANGE", ("lid", "softib-sm", "0x44")),
                              ("PKEY_CHANGE", ("partition", "0x12", "a", "full")),
                              ("CLIENT_REREGISTER", ("sm", "restart")),
                              ("DEVICE_FATAL", ("hca", "a", "failed"))):
            subnet.softib("set", *change)
            wait_for(event, lambda event=event: f"IBV_EVENT_{event} " in log.read_text())
        watch.kill()


def ping_pong(subnet, program, *options, size=None):
    """Runs both programs of a ping-pong, and checks what each of them says; `size` is that of a message, if known."""
    count = messages(options)
    outputs = play(subnet, program, "-n", str(count), "-r", str(DEPTH), *options)
    for output in outputs:
        assert f"{count} iters" in output, (program, options, output)
        assert size is None or f"{2 * count * size} bytes in" in output, (program, options, output)
    return outputs


def size_of(options):
    return int(options[1]) if options[0:1] == ["-s"] else 4096


def ping_pong_of_all_sizes():
    with Subnet(SOFTIB) as subnet:
        for size in (1, 2048) if FEW else (1, 2, 64, 1024, 2047, 2048):
            for options in ways([], ["-e"]):
                ping_pong(subnet, "ibv_ud_pingpong", "-s", str(size), *options, size=size)


def ping_pong_with_a_global_route():
    with Subnet(SOFTIB) as subnet:
        for output in ping_pong(subnet, "ibv_ud_pingpong", "-g", "0"):
            assert "GID fe80::" in output, output


def ping_pong_goes_on_without_the_subnet_process():
    with Subnet(SOFTIB) as subnet:
        for hca in ("a", "b"):
            guid_of(subnet, hca)
        subnet.kill_subnet()
        ping_pong(subnet, "ibv_ud_pingpong")


def too_long_a_message_is_refused():
    with Subnet(SOFTIB) as subnet:
        done = subnet.run("a", "ibv_ud_pingpong", "-s", "2049", check=False)
        assert done.returncode != 0 and "2048" in done.stdout, done.stdout


def connected_ping_pong():
    with Subnet(SOFTIB, "--mtu", "4096") as subnet:
        for options in ways([], ["-e"], ["-N"], ["-c"], ["-e", "-N"], ["-g", "0"], ["-m", "256"],
                        ["-m", "4096"], ["-r", "1"], ["-s", "0"], ["-s", "1"], ["-s", "100001"],
                        ["-o"], ["-o", "-e"], ["-o", "-P"], ["-O"], ["-O", "-P"], ["-j"], ["-j", "-N"],
                        ["-t"], ["-t", "-N"]):
            ping_pong(subnet, "ibv_rc_pingpong", *options, size=size_of(options))


def unreliable_connected_ping_pong():
    with Subnet(SOFTIB, "--mtu", "4096") as subnet:
        for options in ways([], ["-e"], ["-c"], ["-e", "-c"], ["-g", "0"], ["-m", "256"],
                        ["-m", "4096"], ["-r", "10"], ["-s", "0"], ["-s", "1"], ["-s", "100001"]):
            ping_pong(subnet, "ibv_uc_pingpong", *options, size=size_of(options))


def ping_pong_with_a_shared_receive_queue():
    with Subnet(SOFTIB, "--mtu", "4096") as subnet:
        for options in ways([], ["-e"], ["-c"], ["-e", "-c"], ["-g", "0"], ["-l", "3"], ["-m", "256"],
                        ["-m", "4096"], ["-q", "1"], ["-q", "100", "-r", "1000"], ["-r", "16"], ["-o"],
                        ["-s", "1"], ["-s", "100001"]):
            ping_pong(subnet, "ibv_srq_pingpong", *options, size=size_of(options))


def xrc_ping_pong():
    """With one client: several would share an XRC domain between their processes."""
    with Subnet(SOFTIB, "--mtu", "4096") as subnet:
        for options in ways([], ["-e"], ["-n", "100"], ["-s", "1"], ["-s", "100001"], ["-l", "3"],
                        ["-m", "256"], ["-m", "4096"], ["-g", "0"], ["-e", "-n", "100"], ["-o"]):
            play(subnet, "ibv_xsrq_pingpong", *options)


def connected_ping_pong_over_a_faulty_link():
    with Subnet(SOFTIB) as subnet:
        for hca in ("a", "b"):
            guid_of(subnet, hca)
        subnet.softib("set", "link", "b", "loss", "2", "duplicate", "2", "reorder", "2")
        for output in play(subnet, "ibv_rc_pingpong", "-c", "-n", "100", "-s", "10000"):
            assert "100 iters" in output, output
        counters = subnet.nodes()["b"]["counters"]
        assert counters["rc_retries"] > 0, counters


def each_port_has_counters_of_its_own():
    with two_port_subnet(SOFTIB) as subnet:
        subnet.softib("set", "link", "b[2]", "loss", "2")
        for output in play(subnet, "ibv_rc_pingpong", "-i", "2", "-n", "100", "-s", "10000"):
            assert "100 iters" in output, output
        nodes = subnet.nodes()
        retries = {name: nodes[name]["counters"]["rc_retries"] for name in ("a[1]", "a[2]", "b[1]", "b[2]")}
        assert retries["a[2]"] + retries["b[2]"] > 0, retries
        equal((retries["a[1]"], retries["b[1]"]), (0, 0))


def connected_ping_pong_over_a_corrupting_link():
    need("perfquery", "saquery")
    with Subnet(SOFTIB) as subnet:
        for hca in ("a", "b"):
            guid_of(subnet, hca)
        subnet.softib("set", "link", "b", "corrupt", "3", "seed", "7")
        for output in play(subnet, "ibv_rc_pingpong", "-c", "-n", "100", "-s", "10000"):
            assert "100 iters" in output, output
        nodes = subnet.nodes()
        assert nodes["b"]["counters"]["rc_retries"] > 0, nodes["b"]
        corrupt = nodes["a"]["counters"]["drop_icrc"]
        assert corrupt > 0 and nodes["b"]["counters"]["drop_icrc"] == 0, nodes
        shown = subnet.run("a", "perfquery").stdout
        for counter in ("SymbolErrorCounter", "PortRcvErrors"):
            assert re.search(rf"^{counter}:\.*{corrupt}$", shown, re.M), (corrupt, shown)
        # MADs of the HCA do not pass either.
        subnet.softib("set", "link", "b", "corrupt", "100")
        done = subnet.run("b", "sh", "-c", "saquery -t 100 -g; true").stdout
        assert "dump" not in done, done
        assert subnet.nodes()["softib-sm"]["counters"]["drop_icrc"] > 0


def error_of_a_queue_pair():
    """Its work requests are flushed. For the retry error of its peer see perftest.py."""
    for by_number in (False, True):
        with Subnet(SOFTIB) as subnet:
            port = str(free_tcp_port())
            command = ["stdbuf", "-oL", "ibv_rc_pingpong", "-e", "-p", port, "-n", "1000000000"]
            logs = {hca: subnet.folder / f"{hca}.out" for hca in ("a", "b")}
            with open(logs["a"], "w", encoding="utf-8") as log:
                server = subnet.start("a", *command, stdout=log, stderr=subprocess.STDOUT)
            wait_for("the server", lambda: is_listening(int(port)))
            with open(logs["b"], "w", encoding="utf-8") as log:
                client = subnet.start("b", *command, "127.0.0.1", stdout=log,
                                      stderr=subprocess.STDOUT)
            wait_for("packets", lambda: all(subnet.nodes()[hca]["counters"]["sent_packets"] > 50
                                            for hca in ("a", "b")))
            qpn = re.search(r"local address:.*QPN (0x[0-9a-f]+)", logs["a"].read_text())[1]
            subnet.softib("set", "qp", "a", "error", *([qpn] if by_number else []))
            assert server.wait(PATIENCE) != 0, "it did not notice"
            assert "Flushed Error (5)" in logs["a"].read_text(), logs["a"].read_text()
            client.kill()
            equal(subnet.nodes()["a"]["counters"]["qp_errors"], 1)


run_tests([each_hca_is_one_device, device_information, other_devices_are_refused,
           port_events_are_seen,
           ping_pong_of_all_sizes, ping_pong_with_a_global_route,
           ping_pong_goes_on_without_the_subnet_process, too_long_a_message_is_refused,
           connected_ping_pong, unreliable_connected_ping_pong,
           ping_pong_with_a_shared_receive_queue, xrc_ping_pong, connected_ping_pong_over_a_faulty_link,
           each_port_has_counters_of_its_own,
           connected_ping_pong_over_a_corrupting_link, error_of_a_queue_pair])
