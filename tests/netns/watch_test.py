#!/usr/bin/env python3
"""Events of running daemons: ibarp monitor, wait and top."""

import signal

import hosts
from hosts import wait_until
from monitor import Monitor


class Watching(hosts.Pair):
    def setUp(self):
        self.set_up()

    def watch(self, *arguments):
        monitor = Monitor(self.left, *arguments)
        self.addCleanup(lambda: monitor.process.end(signal.SIGKILL))
        return monitor

    def ibarp(self, *arguments, status=0):
        done = self.left.run(hosts.program("ibarp"), *arguments, check=False)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def test_each_change_is_an_event(self):
        self.start()
        monitor = self.watch()
        self.assertTrue(self.left.reaches("10.44.0.2"))
        monitor.neighbour("10.44.0.2", "new", "incomplete")
        reachable = monitor.neighbour("10.44.0.2", "changed", "reachable")
        self.assertEqual(reachable["entry"]["lladdr"], self.right.ibarp("info")["lladdr"])
        self.assertEqual(reachable["interface"], "ib0")
        self.ibarp("del", "10.44.0.2")
        deleted = monitor.neighbour("10.44.0.2", "deleted")
        self.assertEqual(deleted["why"], "deleted by the operator")
        self.ibarp("add", "10.44.0.77", "gid", "fe80::77")
        pinned = monitor.neighbour("10.44.0.77", "new", "pinned")
        self.assertEqual(pinned["entry"]["pinned_gid"], "fe80::77")

        self.softib_set("port", "left", "down")
        down = monitor.wait_for("the link is down", lambda event: event["event"] == "link"
                                and event["info"]["state"] == "port_down")
        self.assertIn("state", down["changed"])
        self.assertNotIn("groups", down["info"])
        monitor.wait_for("a group is left",
                         lambda event: event["event"] == "group" and event["change"] == "left")
        self.softib_set("port", "left", "up")
        monitor.wait_for("the link is up", lambda event: event["event"] == "link"
                         and event["info"]["state"] == "up")
        monitor.wait_for("a group is joined", lambda event: event["event"] == "group"
                         and event["change"] == "joined" and event["group"]["membership"] == "full")
        self.assertFalse([event for event in monitor.events() if event["event"] == "lost"])

        self.left.run("ip", "link", "set", "ib0", "down")
        monitor.wait_for("administratively down", lambda event: event["event"] == "link"
                         and "admin_up" in event["changed"] and not event["info"]["admin_up"])

    def test_counters_are_events(self):
        self.start()
        monitor = self.watch("stats", "--interval", "0.1")
        sent = self.left.counters()["tx_packets"]
        self.assertTrue(self.left.reaches("10.44.0.2"))

        def deltas():
            return [counter["delta"] for event in monitor.events()
                    for counter in event["counters"] if counter["name"] == "tx_packets"]
        # The first event may contain packets of before.
        wait_until(lambda: sum(deltas()) >= self.left.counters()["tx_packets"] - sent > 0,
                   "the packets are counted")
        self.assertEqual({event["event"] for event in monitor.events()}, {"stats"})

    def test_the_monitor_outlives_the_daemon(self):
        self.start()
        monitor = self.watch("link")
        self.left.kill()
        monitor.wait_for("the end", lambda event: event["event"] == "end")
        self.left.start()
        monitor.wait_for("the start", lambda event: event["event"] == "start")
        self.softib_set("port", "left", "down")
        monitor.wait_for("a change", lambda event: event["event"] == "link"
                         and event["info"]["state"] == "port_down")

    def test_a_monitor_that_does_not_read_delays_nothing(self):
        self.start()
        self.assert_connected()
        monitor = self.watch("neighbours")
        monitor.process.popen.send_signal(signal.SIGSTOP)
        batch = self.subnet.folder / "batch"
        lines = [f"{verb} 10.44.1.{i}{to}" for i in range(1, 251)
                 for verb, to in (("add", " lladdr 0x401@fe80::77"), ("del", ""))]
        batch.write_text("\n".join(lines * 8), encoding="utf-8")
        self.ibarp("--batch", str(batch))
        self.assertGreater(self.left.counters()["control_events_lost"], 0)
        self.assertTrue(self.left.reaches("10.44.0.2"))
        monitor.process.popen.send_signal(signal.SIGCONT)
        lost = monitor.wait_for("it is told", lambda event: event["event"] == "lost")
        self.assertGreater(lost["events"], 0)

    def test_wait_waits_for_daemon_and_link(self):
        self.assertIn("no ipoibd", self.ibarp("wait", "up", "--timeout", "0", status=1))
        self.ibarp("wait", "down", "--timeout", "0")
        waiting = hosts.Process(
            self.left.command(hosts.program("ibarp"), "wait", "up", "dev", "ib0"),
            self.subnet.folder / "wait.log", self.subnet.environment)
        self.left.start(address="10.44.0.1/24")
        self.assertEqual(waiting.popen.wait(hosts.PATIENCE), 0, waiting.output())
        self.ibarp("wait", "up", "--timeout", "0")
        self.assertIn("ib0: up", self.ibarp("wait", "down", "--timeout", "0", status=1))
        self.softib_set("port", "left", "down")
        self.ibarp("wait", "down", "--timeout", str(hosts.PATIENCE))
        self.assertIn("port_down", self.ibarp("wait", "up", "--timeout", "0", status=1))

    def test_top_shows_rates(self):
        self.start()
        ping = hosts.Process(self.left.command("ping", "-n", "-i", "0.01", "10.44.0.2"),
                             self.subnet.folder / "ping.log", self.subnet.environment)
        self.addCleanup(lambda: ping.end(signal.SIGINT))
        wait_until(lambda: hosts.replies(ping.output()), "pings are answered")

        def rows():
            lines = self.ibarp("top", "--count", "1", "--interval", "0.5").splitlines()
            return {line.split()[0]: line.split() for line in lines if line}

        def is_busy():
            shown = rows()
            return "10.44.0.2" in shown and shown["10.44.0.2"][3] != "0" and shown["ib0"]
        interface = wait_until(is_busy, "the neighbour has a rate")
        self.assertEqual(interface[1], "up")
        for column in (2, 3, 4, 5):
            self.assertNotIn(interface[column], ("0", "-"), interface)


if __name__ == "__main__":
    hosts.main()
