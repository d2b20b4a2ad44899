#!/usr/bin/env python3
"""When ipoibd cannot start, it prints one line that says what to do, and exits with a status."""

import os
import subprocess
import tempfile
import unittest

import hosts


def ipoibd(*arguments, env=None):
    return subprocess.run([hosts.program("ipoibd"), *arguments], check=False, capture_output=True,
                          text=True, timeout=hosts.PATIENCE, env=env)


class StartUpTest(unittest.TestCase):
    def assert_refused(self, result, status, *words):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("ipoibd: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)


class WithoutDevice(StartUpTest):
    def test_unusable_option(self):
        self.assert_refused(ipoibd("--pkey", "0x8000"), 2, "--pkey 0x8000")
        self.assert_refused(ipoibd("--colour"), 2, "--colour", "--help")
        self.assert_refused(ipoibd("--log", "loud"), 2, "--log", "loud")

    def test_unusable_configuration_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[main]\nport = 1\n")
            file.flush()
            self.assert_refused(ipoibd("--config", file.name), 2, f"{file.name}:1", "sections")

    def test_started_subnet_ends_when_the_daemon_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, SOFTIB_DIR=folder)
            for option, status in (("--softib=bad/name/x", 2), ("--softib=lab/x", 1)):
                done = ipoibd(option, "--device", "mlx5_7", env=environment)
                self.assert_refused(done, status, "name" if status == 2 else "mlx5_7")
                hosts.wait_until(lambda: not os.listdir(folder), "the subnet's folder is removed")

    @unittest.skipIf(os.path.isdir("/sys/class/infiniband"), "this machine may have RDMA devices")
    def test_no_rdma_device_names_both_remedies(self):
        self.assert_refused(ipoibd(), 1, "no RDMA device", "--softib", "driver")


class WithoutSubnetManager(unittest.TestCase):
    def setUp(self):
        self.subnet = hosts.Subnet("--sm", "none")
        self.addCleanup(self.subnet.close)
        self.host = self.subnet.host("lonely")

    def test_each_state_of_the_port_has_its_text(self):
        self.host.start(wait=False)
        self.host.wait_for_log("INIT", "no subnet manager")
        self.expect("port_init", "opensm")
        self.subnet.run_softib("set", "port", "lonely", "down")
        self.expect("port_polling", "cable")  # without an event of the device
        self.subnet.run_softib("set", "port", "lonely", "init")
        self.expect("port_init", "sminfo")

    def expect(self, state, remedy):
        hosts.wait_until(lambda: self.host.ibarp("info")["state"] == state, state)
        self.assertIn(remedy, self.host.ibarp("info")["waiting_for"])
        metrics = self.host.run(hosts.program("ibarp"), "metrics").stdout
        self.assertRegex(metrics, rf'ipoib_link_state{{[^}}]*state="{state}"}} 1')


class AutomaticStart(unittest.TestCase):
    def test_keeps_the_options_of_a_subnet_that_was_killed(self):
        subnet = hosts.Subnet("--partition", "0x12=full", "--mtu", "4096")
        self.addCleanup(subnet.close)
        host = subnet.host("a")
        subnet.kill_subnet()
        daemon = subprocess.Popen(host.command(hosts.program("ipoibd"), "--softib=default/a"),
                                  env=subnet.environment, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait, hosts.PATIENCE)
        self.addCleanup(daemon.terminate)
        hosts.wait_until(lambda: subnet.run_softib("show").returncode == 0 and "a" in subnet.nodes(),
                         "ipoibd has started the subnet")
        node = subnet.nodes()["a"]
        self.assertEqual((node["pkeys"], node["mtu"]), (["0xffff", "0x8012"], 4096))


class OnASubnet(StartUpTest):
    def setUp(self):
        self.subnet = hosts.Subnet()
        self.addCleanup(self.subnet.close)
        self.host = self.subnet.host("lonely")

    def ipoibd(self, *arguments, prefix=()):
        return self.host.run(*prefix, hosts.program("softib"), "run", "--hca", "lonely", "--",
                             hosts.program("ipoibd"), *arguments, check=False)

    def test_no_such_device(self):
        self.assert_refused(self.ipoibd("--device", "mlx5_7"), 1, "mlx5_7")

    def test_no_such_port(self):
        self.assert_refused(self.ipoibd("--port", "7"), 1, "port 7")

    def test_interface_of_another_kind(self):
        self.assert_refused(self.ipoibd("--name", "lo"), 1, "lo", "another name")

    def test_interface_of_others_is_neither_used_nor_removed(self):
        for mode in ("tun", "tap"):
            self.host.run("ip", "tuntap", "add", "ib0", "mode", mode)
            self.host.run("ip", "address", "add", "192.0.2.1/24", "dev", "ib0")
            for option in ("--ethernet", "--keep"):
                self.assert_refused(self.ipoibd(option), 1, "ib0", "--name", "ip link delete ib0")
            self.assertEqual(self.host.addresses(), ["192.0.2.1"])
            self.host.run("ip", "link", "delete", "ib0")

    def test_failed_start_leaves_no_interface(self):
        with tempfile.TemporaryDirectory() as folder:
            full = ("unshare", "--mount", "sh", "-c",
                    f"mount -t tmpfs -o size=4k none {folder} &&"
                    f' head -c 4096 /dev/zero > {folder}/other && exec "$@"', "sh")
            done = self.ipoibd("--pid-file", f"{folder}/pid", prefix=full)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1], "^ipoibd: --pid-file .*No space left")
        self.assertIsNone(self.host.link())

    def test_wrong_device_file_of_the_tun_driver(self):
        with tempfile.NamedTemporaryFile() as file:
            wrong = ("unshare", "--mount", "sh", "-c",
                     f'mount --bind {file.name} /dev/net/tun && exec "$@"', "sh")
            self.assert_refused(self.ipoibd(prefix=wrong), 1, "/dev/net/tun", "mknod")

    def test_other_file_is_no_pid_file(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("12 monkeys\n")
            file.flush()
            self.assert_refused(self.ipoibd("--pid-file", file.name), 1, "--pid-file", "another path")
            with open(file.name, encoding="ascii") as after:
                self.assertEqual(after.read(), "12 monkeys\n")

    def test_no_permission_for_a_tun(self):
        without = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
        self.assert_refused(self.ipoibd(prefix=without), 1, "ib0", "CAP_NET_ADMIN")

    def test_interface_in_use(self):
        self.host.start()
        self.assert_refused(self.ipoibd(), 1, "ib0", "has it open", "--takeover")
        refused = self.ipoibd("--cleanup")
        self.assert_refused(refused, 1, "ib0", "has it open", "end it first")

    def test_partition_that_comes_later_and_has_no_group(self):
        self.host.start("--pkey", "0x1234", "--create-group", "yes")
        self.assert_waits("partition 0x9234", "0xffff", "P_Key")
        self.assertFalse(self.host.has_carrier())
        done = self.subnet.run_softib("set", "partition", "0x1234", "lonely", "full")
        self.assertEqual(done.returncode, 0, done.stderr)
        hosts.wait_until(self.host.has_carrier, "ib0 has carrier")

    def test_decimal_key_that_is_meant_as_a_hexadecimal_one(self):
        self.subnet.run_softib("set", "hca", "lonely", "present")
        self.subnet.run_softib("set", "partition", "0x12", "lonely", "full")
        self.host.start("--pkey", "8012")
        self.assert_waits("partition 0x9f4c", "is 0x8012 meant", "need 0x")
        self.assert_refused(self.ipoibd("--pkey", "ffff"), 2, "0x0001 to 0x7fff", "need 0x")
        self.assert_refused(self.ipoibd("--pkey", "0"), 2, "0x0001 to 0x7fff")

    def test_vlan_of_a_partition_that_comes_later(self):
        self.host.start_all("--ethernet", "--vlan", "18=0x12")
        self.assert_waits("--vlan 18=0x8012", "0xffff")
        self.subnet.run_softib("set", "partition", "0x12", "lonely", "full")
        self.host.wait_for_log("ib0.18", "VLAN 18")

    def test_missing_broadcast_group_names_both_remedies(self):
        self.host.start("--scope", "14", wait=False)
        self.host.wait_for_log("broadcast group", "ipoib", "--create-group")

    def test_end_tells_what_it_waits_for(self):
        self.host.start(address="10.44.0.1/24")
        self.subnet.kill_subnet()
        self.host.daemon.popen.terminate()
        self.host.wait_for_log("SA", "a second signal ends at once")
        self.assertEqual(self.host.daemon.end(), 0)

    def test_exits_cleanly_while_waiting_for_a_partition(self):
        self.host.start("--pkey", "0x1234")
        self.assert_waits("partition 0x9234")
        self.assertEqual(self.host.daemon.end(), 0)
        self.assertIsNone(self.host.link(), "the interface is removed")

    def test_exits_cleanly_while_waiting_for_a_device(self):
        self.host.start("--device", "mlx5_7", "--wait", wait=False)
        self.assert_waits("mlx5_7")
        self.assertEqual(self.host.daemon.end(), 0)

    def test_log_lines_of_all_programs_have_one_format(self):
        self.host.start(address="10.44.0.1/24")
        other = subprocess.Popen([hosts.program("softib"), "subnet", "--subnet", "other"],
                                 env=self.subnet.environment, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.addCleanup(other.kill)
        self.assertIn("ready", other.stdout.readline())
        other.terminate()
        subnet = other.communicate(timeout=hosts.PATIENCE)[1]
        self.assertIn("ending", subnet)
        for line in (self.host.daemon.output() + subnet).splitlines():
            self.assertRegex(line, r"^[-\d]{10} [:\d]{8}\.\d{3} [a-z]+ [a-z]+: .+$")

    def assert_waits(self, *words):
        self.host.wait_for_log("wait", *words)


if __name__ == "__main__":
    hosts.main()
