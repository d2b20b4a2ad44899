#!/usr/bin/env python3
"""Tests the parts of scripts/soak: that the faults follow from the seed, and that whatever it looks for
is found, above all one wrong byte, a process that ends, and a leak.

Usage: parts_test.py
"""
import asyncio
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "soak"))
import actions  # noqa: E402
import checks  # noqa: E402
import faults  # noqa: E402
import payload  # noqa: E402
import peer  # noqa: E402

HOSTS = ("host1", "host2", "host3")


CABLES = ("leaf-1[3] spine-1[1]", "leaf-2[3] spine-1[2]")
SWITCHES = ("leaf-1", "leaf-2", "spine-1")


def rounds(seed, count=200, cables=CABLES, switches=SWITCHES):
    generator = faults.Generator(seed, HOSTS, cables, switches)
    return [generator.round() for _ in range(count)]


class Faults(unittest.TestCase):
    def test_follow_from_the_seed(self):
        self.assertEqual(rounds(7), rounds(7))
        self.assertNotEqual(rounds(7, 1), rounds(8, 1))
        self.assertEqual(rounds(7, 5), rounds(7, 9)[:5], "not from the number of rounds")

    def test_all_kinds_happen(self):
        happen = {fault.kind for chosen in rounds(1) for fault in chosen}
        self.assertEqual(happen, set(faults.KINDS))
        self.assertEqual(set(actions.BEGIN), set(faults.KINDS))
        self.assertEqual(set(actions.REPAIR),
                         {name for name, kind in faults.KINDS.items() if kind.lasts})
        with_one_switch = {fault.kind for chosen in rounds(1, cables=(), switches=()) for fault in chosen}
        self.assertEqual({kind for kind in happen if faults.KINDS[kind].where not in ("cable", "switch")},
                         with_one_switch)
        for method in (*actions.BEGIN.values(), *actions.REPAIR.values()):
            self.assertTrue(hasattr(actions.Setting, method), method)

    def test_each_is_repaired_before_the_round_ends(self):
        for chosen in rounds(2):
            away = set()
            for when, fault, is_repair in faults.actions(chosen):
                self.assertLessEqual(when, faults.ROUND_SECONDS)
                if is_repair:
                    away.remove(fault)
                elif faults.KINDS[fault.kind].lasts:
                    away.add(fault)
            self.assertEqual(away, set())
            self.assertGreaterEqual(len(chosen), faults.FEWEST)

    def test_none_needs_what_another_has_taken_away(self):
        for chosen in rounds(3):
            busy, subnet_is_away = {}, False
            for _, fault, is_repair in faults.actions(chosen):
                kind = faults.KINDS[fault.kind]
                if kind.asks:
                    self.assertFalse(subnet_is_away, chosen)
                if fault.target == "subnet":
                    subnet_is_away = not is_repair
                for part in kind.parts:
                    if is_repair:
                        self.assertIs(busy.pop((fault.target, part)), fault)
                    else:
                        self.assertNotIn((fault.target, part), busy, chosen)
                        if kind.lasts:
                            busy[fault.target, part] = fault

    def test_one_daemon_is_never_ended(self):
        for seed in range(20):
            generator = faults.Generator(seed, HOSTS)
            for chosen in (generator.round() for _ in range(20)):
                for fault in chosen:
                    if fault.kind in ("daemon killed", "daemon ended"):
                        self.assertNotEqual(fault.target, generator.steady)


class Payload(unittest.TestCase):
    def test_each_wrong_byte_is_found(self):
        data = payload.block(5, 0) + payload.block(5, 1)
        for at in (0, 1, payload.BLOCK - 1, payload.BLOCK, 2 * payload.BLOCK - 1):
            changed = bytearray(data)
            changed[at] ^= 1
            with self.assertRaisesRegex(payload.Wrong, f"byte {at} of"):
                payload.Sequence(5).compare(bytes(changed))

    def test_swapped_blocks_and_other_keys_are_found(self):
        first, second = payload.block(5, 0), payload.block(5, 1)
        for data in (second + first, payload.block(6, 0), first + first):
            with self.assertRaises(payload.Wrong):
                payload.Sequence(5).compare(data)

    def test_both_ends_have_the_same_checksum(self):
        sent, received = payload.Sequence(9), payload.Sequence(9)
        while sent.position < 300000:
            received.compare(sent.next(7777))
        self.assertEqual(sent.response(), received.response())
        received.compare(sent.next(1) + sent.next(1)[:0])
        shorter = payload.Sequence(9)
        self.assertNotEqual(shorter.response(), received.response())

    def test_each_wrong_byte_of_a_header_is_found(self):
        good = payload.header(0x1234, 99)
        self.assertEqual(payload.parse_header(good), (0x1234, 99))
        for at in range(len(good)):
            changed = bytearray(good)
            changed[at] ^= 0x80
            with self.assertRaises(payload.Wrong):
                payload.parse_header(bytes(changed))

    def test_each_wrong_byte_of_a_datagram_is_found(self):
        for number in (0, 1, 57, 100000):
            good = payload.beat(3, number, 1, 0, 2)
            self.assertLessEqual(len(good), payload.LONGEST_BEAT)
            self.assertEqual(payload.parse_beat(good), (3, number, 1, 0, 2))
            for at in (0, *range(payload.BEAT.size, len(good))):
                changed = bytearray(good)
                changed[at] ^= 1
                with self.assertRaises(payload.Wrong):
                    payload.parse_beat(bytes(changed))
            for wrong in (good[:-1], good + b"x", good[:5], b""):
                if wrong != good:
                    with self.assertRaises(payload.Wrong):
                        payload.parse_beat(wrong)


class Transfers(unittest.IsolatedAsyncioTestCase):
    """A transfer over loopback, through a relay that may change it."""

    SIZE = 300000

    async def transfer(self, change):
        """Returns what the receiver and the sender have found wrong. `change(data, position)` is what
        the relay passes on."""
        loop = asyncio.get_running_loop()
        receiver, sender = (peer.Peer(host, 2, 1, []) for host in (1, 2))
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for server in servers:
            server.setblocking(False)
        tasks = [loop.create_task(receiver.serve(servers[0])),
                 loop.create_task(self.relay(servers[1], servers[0].getsockname(), change))]
        connection = socket.socket()
        peer.prepare(connection)
        await loop.sock_connect(connection, servers[1].getsockname())
        sent = peer.send(connection, 77, self.SIZE, random.Random(1))
        is_completed = await sender.one(sent, connection)
        while not is_completed and not receiver.wrong and not sender.wrong:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in servers:
            server.close()
        return is_completed, receiver.wrong, sender.wrong

    @staticmethod
    async def relay(server, to, change):
        loop = asyncio.get_running_loop()
        here, _ = await loop.sock_accept(server)
        there = socket.socket()
        with here, there:
            here.setblocking(False)
            there.setblocking(False)
            await loop.sock_connect(there, to)
            position = 0
            while data := await loop.sock_recv(here, 1 << 16):
                await loop.sock_sendall(there, change(data, position))
                position += len(data)
            there.shutdown(socket.SHUT_WR)
            while data := await loop.sock_recv(there, 1 << 16):
                await loop.sock_sendall(here, data)
            here.shutdown(socket.SHUT_WR)

    @staticmethod
    def one_byte_changed(data, position, at=200000):
        if position <= at < position + len(data):
            data = bytearray(data)
            data[at - position] ^= 4
        return bytes(data)

    async def test_nothing_is_wrong(self):
        self.assertEqual(await self.transfer(lambda data, position: data), (True, [], []))

    async def test_one_changed_byte_is_found(self):
        is_completed, received, _ = await self.transfer(self.one_byte_changed)
        self.assertFalse(is_completed)
        self.assertIn(f"byte {200000 - payload.HEADER.size} of a transfer", received[0])

    async def test_a_missing_end_is_found(self):
        is_completed, received, _ = await self.transfer(
            lambda data, position: data[:max(0, 250000 - position)])
        self.assertFalse(is_completed)
        self.assertIn("ends after", received[0])


class Processes(unittest.TestCase):
    """`Watch` on processes that end or grow when they are told to."""

    PROGRAM = """
import sys
kept = []
for line in sys.stdin:
    what, count = line.split()
    for _ in range(int(count)):
        kept.append(open('/dev/null') if what == 'open' else bytearray(1024))
    print('done', flush=True)
"""

    def setUp(self):
        self.watch = checks.Watch()
        self.process = subprocess.Popen([sys.executable, "-c", self.PROGRAM], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end)
        self.tell("open", 0)  # it has started
        self.watch.add("daemon", self.process)

    def end(self):
        self.process.kill()
        self.process.communicate()

    def tell(self, what, count):
        self.process.stdin.write(f"{what} {count}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def test_a_killed_process_is_found(self):
        self.assertEqual(self.watch.ended(), [])
        self.process.send_signal(signal.SIGSEGV)
        self.process.wait()
        self.assertIn("daemon ", self.watch.ended()[0])
        self.assertIn("signal 11", self.watch.ended()[0])
        self.assertEqual(len(self.watch.forget("daemon")), 1, "also when it is to be ended")
        self.assertEqual(self.watch.ended(), [])

    def test_a_process_that_ends_meanwhile_is_measured_without_memory(self):
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self.assertIsNone(checks.measure(self.process.pid)[1])

    def test_an_exit_with_success_is_found(self):
        self.process.stdin.close()
        self.process.stdin = None
        self.process.wait()
        self.assertIn("exited with 0", self.watch.ended()[0])

    def test_an_expected_end_is_no_failure(self):
        self.assertEqual(self.watch.forget("daemon"), [])
        self.process.kill()
        self.process.wait()
        self.assertEqual(self.watch.ended(), [])

    def test_leaked_descriptors_are_found(self):
        self.assertEqual(self.watch.grown(), [])
        self.tell("open", checks.MORE_DESCRIPTORS)
        self.assertEqual(self.watch.grown(), [], "the bound is allowed")
        self.tell("open", 1)
        self.assertIn("descriptors", self.watch.grown()[0])

    def test_leaked_memory_is_found(self):
        self.assertEqual(self.watch.grown(), [])
        self.tell("allocate", checks.MORE_MEMORY_KIB * 5 // 4)
        self.assertIn("KiB of memory", self.watch.grown()[0])

    def test_a_slow_leak_is_found(self):
        """Compared with the first moment, not with the one before."""
        found = []
        for _ in range(2 * checks.MORE_DESCRIPTORS):
            found += self.watch.grown()
            self.tell("open", 1)
        self.assertNotEqual(found, [])

    def test_what_is_allowed_is_added_to_the_bound(self):
        self.watch.grown()
        self.watch.allow("daemon", (2, 0))
        self.watch.allow("another", (9, 0))
        self.tell("open", checks.MORE_DESCRIPTORS + 2)
        self.assertEqual(self.watch.grown(), [])
        self.tell("open", 1)
        self.assertIn("descriptors", self.watch.grown()[0])
        self.watch.forget("daemon")
        self.watch.add("daemon", self.process)
        self.watch.grown()
        self.tell("open", checks.MORE_DESCRIPTORS + 1)
        self.assertEqual(len(self.watch.grown()), 1, "it was for the process before")

    def test_a_new_process_is_compared_with_itself(self):
        self.watch.grown()
        self.watch.forget("daemon")
        self.tell("open", 100)
        self.watch.add("daemon", self.process)
        self.assertEqual(self.watch.grown(), [])


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name) / "host1.log"
        self.logs = checks.Logs(pathlib.Path(folder.name))

    def write(self, text):
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(text)

    def test_messages_of_sanitizers_are_found_once(self):
        self.write("info: link up\nwarning: 3 errors\n")
        self.assertEqual(self.logs.faults(), [])
        for line in ("==7==ERROR: AddressSanitizer: heap-use-after-free", "WARNING: ThreadSanitizer: x",
                     "a.cpp:7:3: runtime error: signed integer overflow",
                     "terminate called after throwing an instance of 'int'",
                     "ipoibd: a.cpp:7: void f(): Assertion `false' failed."):
            self.write(line + "\n")
            self.assertEqual(self.logs.faults(), [f"host1.log: {line}"])
            self.assertEqual(self.logs.faults(), [])

    def test_a_line_is_read_when_it_is_complete(self):
        self.write("ERROR: Addr")
        self.assertEqual(self.logs.faults(), [])
        self.write("essSanitizer: x\n")
        self.assertEqual(len(self.logs.faults()), 1)


class Reach(unittest.TestCase):
    def setUp(self):
        self.wanted = checks.paths(2, 1, 2)
        self.statuses = {host: {"beats": 20, "completed": {str(3 - host): 1},
                                "heard": [[3 - host, 0, 0, 4], [3 - host, 0, 1, 0]]} for host in (1, 2)}

    def test_all_pairs_in_both_directions(self):
        self.assertEqual(self.wanted, [(1, 2, 0, 0), (1, 2, 0, 1), (2, 1, 0, 0), (2, 1, 0, 1)])
        self.assertEqual(checks.outages(self.statuses, self.wanted),
                         {(1, 2, 0, 0): 4, (1, 2, 0, 1): 0, (2, 1, 0, 0): 4, (2, 1, 0, 1): 0})

    def test_a_path_that_works_too_late_is_found(self):
        self.assertEqual(checks.unreached(self.statuses, self.wanted, 4), [])
        self.assertEqual(checks.unreached(self.statuses, self.wanted, 3), [(1, 2, 0, 0), (2, 1, 0, 0)])

    def test_a_path_that_does_not_work_is_found(self):
        self.statuses[1]["heard"].pop()
        self.assertIsNone(checks.outages(self.statuses, self.wanted)[1, 2, 0, 1])
        self.assertEqual(checks.unreached(self.statuses, self.wanted, 19), [(1, 2, 0, 1)])
        self.assertEqual(checks.unreached(self.statuses, self.wanted, 20), [], "it still has time")

    def test_a_pair_without_transfer_is_found(self):
        self.assertEqual(checks.without_transfer(self.statuses), [])
        self.statuses[2]["completed"]["1"] = 0
        self.assertEqual(checks.without_transfer(self.statuses), [(2, 1)])

    def test_the_bound_is_the_documented_one(self):
        self.assertIn(f"at most {checks.stated_bound()} s after the end of the last one",
                      checks.DOCUMENT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
