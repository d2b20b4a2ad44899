#!/usr/bin/env python3
"""After an event of the subnet, traffic resumes within the bound stated in docs/states.md.

Traffic is a ping every 0.1 s from left to right. The outage is measured in lost pings.
"""

import json
import pathlib
import re
import signal
import unittest

import hosts
from hosts import program, wait_until

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/states.md"
RED = "0x8001"
SM = "softib-sm"


def stated_bounds():
    """Returns event -> seconds, from the table "Outage"."""
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## Outage\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([A-Za-z_ ,']+) \|.*\| (none|\d+ s) \|.*\|$", section, re.MULTILINE)
    return {event: 0 if bound == "none" else int(bound.split()[0]) for event, bound in rows}


class Events(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full")
        self.left.start("--pkey", RED, address="10.44.0.1/24")
        self.right.start("--pkey", RED, address="10.44.0.2/24")
        self.assert_connected()

    def start_pings(self, address="10.44.0.2"):
        """Starts pings from left."""
        output = self.subnet.folder / "ping.out"
        output.unlink(missing_ok=True)
        ping = hosts.Process(self.left.command(*hosts.Pings.COMMAND, address), output,
                             self.subnet.environment)
        self.addCleanup(ping.end)
        return hosts.Pings(ping)

    def lost_during(self, event):
        """Returns how many pings are lost while `event` happens on a working subnet."""
        pings = self.start_pings()
        pings.wait_for(4)
        event()
        pings.wait_for(10)
        return pings.end()

    def lost_after(self, event):
        """Returns how many pings are lost after `event` has ended an outage."""
        event()
        pings = self.start_pings()
        pings.wait_for(4)
        return pings.end()

    def assert_bound(self, event, lost):
        bound = stated_bounds()[event]
        self.assertLessEqual(lost * hosts.Pings.INTERVAL, bound, f"{event}: {lost} pings lost")

    def count_of_left(self, counter):
        return self.left.counters().get(counter, 0)

    def path_requests_of_left(self):
        return self.count_of_left("path_requests")

    # --- The rows of the table --------------------------------------------------------------------

    def test_port_down_and_up(self):
        for _ in range(2):
            self.softib_set("port", "right", "down")
            wait_until(lambda: not self.right.has_carrier(), "carrier is lost")
            lost = self.lost_after(lambda: self.softib_set("port", "right", "up"))
            self.assert_bound("port down, then up", lost)

    def test_port_goes_down_and_up_unseen(self):
        """A daemon that was stopped meanwhile gets both events at once. The SM has removed its
        memberships; nothing else tells it."""
        self.right.daemon.end()
        self.right.start("--pkey", RED, "--membership-check", "3600", address="10.44.0.2/24")
        self.right.daemon.popen.send_signal(signal.SIGSTOP)
        for state in ("down", "up"):
            self.softib_set("port", "right", state)
        self.right.daemon.popen.send_signal(signal.SIGCONT)
        self.right.wait_for_log("port down")
        wait_until(lambda: self.is_member("right", "ff12:401b:8001::ffff:ffff"), "right joins again")

    def is_member(self, host, mgid):
        groups = json.loads(self.subnet.run_softib("show", "--json").stdout)["groups"]
        return any(member["hca"] == host for group in groups if group["mgid"] == mgid
                   for member in group["members"])

    def test_peer_lid_changes(self):
        for lid in ("0x77", "0x99"):
            def change(lid=lid):
                self.softib_set("lid", "right", lid)
                self.right.wait_for_log(f"LID {lid}")
            self.assert_bound("another LID", self.lost_during(change))

    def test_own_lid_changes(self):
        """The LID of the sender changes."""
        lost = self.lost_during(lambda: self.softib_set("lid", "left", "0x77"))
        self.assert_bound("another LID", lost)

    def test_reports_of_a_port_leave_other_paths_alone(self):
        """Traps 65 and 64 report that a port goes out of service and into service."""
        third = self.subnet.host("third")
        third.start("--pkey", RED, address="10.44.0.3/24")
        pings = self.start_pings("10.44.0.3")
        pings.wait_for(4)
        requests = self.path_requests_of_left()
        for state in ("down", "up"):
            reports = self.count_of_left("path_reports")
            self.softib_set("port", "right", state)
            wait_until(lambda before=reports: self.count_of_left("path_reports") > before,
                       "the report arrives")
            pings.wait_for(4)
            self.assertEqual(self.path_requests_of_left(), requests)
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        self.assertEqual(self.path_requests_of_left(), requests + 1)
        self.assertEqual(pings.end(), 0)

    def test_sm_gone_and_back(self):
        def change():
            self.subnet.kill_subnet()
            self.subnet.start_subnet()
            self.right.wait_for_log("client reregister")
        self.assert_bound("subnet manager gone, and back", self.lost_during(change))

    def test_sm_is_not_reached(self):
        """Resolved paths work meanwhile; requests for others wait until the SM is back."""
        lost = self.lost_during(lambda: self.softib_set("port", SM, "down"))
        self.assert_bound("subnet manager unreachable", lost)
        self.softib_set("lid", "right", "0x77")
        pings = self.start_pings()
        before = self.path_requests_of_left()
        wait_until(lambda: self.path_requests_of_left() > before, "left requests the path")
        self.assertEqual(pings.replies(), [])
        self.softib_set("port", SM, "up")
        pings.wait_for(4)

    def test_sm_moves(self):
        for lid in ("0x55", "0x66"):
            def change(lid=lid):
                self.softib_set("lid", SM, lid)
                self.right.wait_for_log(f"SM LID {lid}")
            self.assert_bound("another subnet manager", self.lost_during(change))
        self.left.run(program("ibarp"), "flush")
        self.assert_connected()

    def test_sm_restart(self):
        def change():
            self.softib_set("sm", "restart")
            self.right.wait_for_log("client reregister")
        self.assert_bound("register again", self.lost_during(change))

    def test_pkey_moves(self):
        for index in ("5", "0", "1"):
            self.assert_bound("P_Key moves in the table", self.lost_during(
                lambda index=index: self.softib_set("pkey", RED, "right", index)))

    def test_partition_gone_and_back(self):
        self.softib_set("partition", RED, "right", "none")
        wait_until(lambda: not self.right.has_carrier(), "carrier is lost")
        lost = self.lost_after(lambda: self.softib_set("partition", RED, "right", "full"))
        self.assert_bound("partition removed, and added again", lost)

    def test_full_member_becomes_limited(self):
        """It still reaches full members, with another P_Key at the same index."""
        lost = self.lost_during(lambda: self.softib_set("partition", RED, "right", "limited"))
        self.assert_bound("membership changes", lost)

    def test_peer_is_killed_and_comes_back(self):
        self.right.kill()
        lost = self.lost_after(lambda: self.right.start("--pkey", RED))
        self.assert_bound("peer killed, and restarted", lost)

    def test_hca_fails_and_comes_back(self):
        index = self.right.link()["ifindex"]
        for _ in range(2):
            self.softib_set("hca", "right", "failed")
            wait_until(lambda: not self.right.has_carrier(), "carrier is lost")
            self.right.wait_for_log("waiting for", "to come back")
            lost = self.lost_after(lambda: self.softib_set("hca", "right", "present"))
            self.assert_bound("HCA fails, and comes back", lost)
        self.assertEqual(self.right.link()["ifindex"], index, "it is the same interface")
        self.assertIn("10.44.0.2", self.right.addresses())

    def test_own_hca_fails_and_comes_back(self):
        self.softib_set("hca", "left", "failed")
        wait_until(lambda: not self.left.has_carrier(), "carrier is lost")
        lost = self.lost_after(lambda: self.softib_set("hca", "left", "present"))
        self.assert_bound("HCA fails, and comes back", lost)

    def test_daemon_ends_while_its_hca_is_away(self):
        self.softib_set("hca", "right", "failed")
        self.right.wait_for_log("waiting for", "to come back")
        self.assertEqual(self.right.daemon.end(), 0)
        self.assertIsNone(self.right.link())

    def test_partition_goes_while_the_hca_is_away(self):
        """Without --pkey the interfaces follow the P_Key table, once the HCA is back."""
        red = "ib0.8001"
        self.right.daemon.end()
        self.right.start_all()
        wait_until(lambda: self.right.has_carrier(red), "the partition has an interface")
        self.softib_set("hca", "right", "failed")
        self.right.wait_for_log("waiting for", "to come back")
        self.assertIsNotNone(self.right.link(red), "the interface is kept")
        self.softib_set("partition", RED, "right", "none")
        self.softib_set("hca", "right", "present")
        wait_until(self.right.has_carrier, "the default partition is back")
        wait_until(lambda: self.right.link(red) is None, "the other interface is removed")

    def test_many_events_at_once(self):
        """No bound is stated for this: it only has to recover."""
        pings = self.start_pings()
        pings.wait_for(4)
        for _ in range(5):
            for host in ("left", "right"):
                self.softib_set("port", host, "down")
                self.softib_set("partition", RED, host, "none")
                self.softib_set("port", host, "up")
                self.softib_set("sm", "restart")
                self.softib_set("partition", RED, host, "full")
                self.softib_set("pkey", RED, host, "0")
                self.softib_set("pkey", RED, host, "9")
        self.assert_connected()
        pings.wait_for(11)
        for host in (self.left, self.right):
            self.assertTrue(host.daemon.is_running())


class Document(unittest.TestCase):
    def test_each_row_is_tested(self):
        with open(__file__, encoding="utf-8") as text:
            tested = set(re.findall(r'assert_bound\("([^"]+)"', text.read()))
        self.assertEqual(set(stated_bounds()), tested)


if __name__ == "__main__":
    hosts.main()
