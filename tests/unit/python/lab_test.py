#!/usr/bin/env python3
"""Tests the lab file's parser and schema, and the plan of steps from one lab to another.

Usage: lab_test.py FOLDER [OPTION]... with the package softib_lab
"""

import dataclasses
import json
import os
import pathlib
import re
import socket
import sys
import tempfile
import threading
import unittest

try:
    import jsonschema  # noqa: F401
    import yaml
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, sys.argv.pop(1))
from softib_lab import effects, expectations, lab_file, plan, table, transfer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
SCHEMA = json.loads((ROOT / "docs/json/softib-lab.json").read_text(encoding="utf-8"))
FULL = """\
name: full
subnet:
  mtu: 4096
  sm: opensm
  partitions:
    storage: {pkey: 0x8001, mtu: 4096, rate: 40}
hosts:
  a:
    forward: true
    routes: [10.1.0.0/24 via 10.0.0.2]
    services: {web: sleep 100}
    interfaces:
      ib0: {addresses: [10.0.0.1/24, "fd00::1/64"], mtu: 1500}
      ib1: {partition: storage, membership: limited, ethernet: true, options: [--strict-arp, "no"]}
  2:
    interfaces: {ib0: {addresses: [10.0.0.2/24]}}
  c:
faults: [{at: 1.5, set: port a down}, {at: 2, set: sm restart}]
expect:
  - {from: all, reaches: all}
  - {from: a, tcp: "2", port: 80, within: 5}
  - {from: [a, c], does not reach: 10.0.0.9}
"""


def labs_of_the_manual():
    """Returns the texts of the lab files in softib(1)."""
    page = (ROOT / "man/softib.1").read_text(encoding="utf-8")
    section = re.search(r"(?ms)^\.Sh LAB FILES$.*?(?=^\.Sh )", page)[0]
    return re.findall(r"(?ms)^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", section)


def keys_of(schema):
    """Yields each key that a lab file may have, with the title of what has it."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for key, value in schema.get("properties", {}).items():
        yield schema["title"], key
        yield from keys_of(value)
    for inner in (schema.get("additionalProperties"), schema.get("items")):
        if isinstance(inner, dict):
            yield from keys_of(inner)


def used_keys(schema, value):
    """Yields those of keys_of() that are in a value."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for each in value:
            yield from used_keys(schema.get("items", {}), each)
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in schema.get("properties", {}):
            yield schema["title"], key
        yield from used_keys(schema.get("properties", {}).get(key) or schema.get("additionalProperties") or {}, inner)


def lab(text, name="lab.yaml"):
    return lab_file.parse(text, name)


def host(settings, more=""):
    """A lab with a host a that has one interface."""
    return lab(f"hosts:\n  a: {{interfaces: {{ib0: {{{settings}}}}}{more}}}\n")


def words(steps):
    return [str(step) for step in steps]


class Parser(unittest.TestCase):
    def test_every_key(self):
        found = lab(FULL)
        self.assertEqual((found.name, [each.name for each in found.hosts]), ("full", ["a", "2", "c"]))
        self.assertEqual(found.subnet, lab_file.Subnet(4096, "opensm", (
            lab_file.Partition("default", 0x7fff), lab_file.Partition("storage", 1, 4096, 40))))
        first = found.hosts[0]
        self.assertEqual(first.interfaces, (
            lab_file.Interface("ib0", addresses=("10.0.0.1/24", "fd00::1/64"), mtu=1500),
            lab_file.Interface("ib1", "storage", 1, "limited", ethernet=True, options=("--strict-arp", "no"))))
        self.assertEqual((first.forward, first.routes, first.services),
                         (True, ("10.1.0.0/24 via 10.0.0.2",), (("web", "sleep 100"),)))
        self.assertEqual([(each.line, each.kind, each.sources, each.targets) for each in found.expectations], [
            (20, "reaches", ("a", "2", "c"), ("a", "2")), (21, "tcp", ("a",), ("2",)),
            (22, "does not reach", ("a", "c"), ("10.0.0.9",))])
        self.assertEqual(found.faults, (lab_file.Fault(1.5, "port a down"), lab_file.Fault(2, "sm restart")))
        self.assertEqual((found.expectations[1].port, found.expectations[1].within), (80, 5))
        self.assertEqual(found.memberships(), {(0x7fff, "a"): "full", (0x7fff, "2"): "full", (0x7fff, "c"): "full",
                                               (1, "a"): "limited"})

    def test_the_same_address_in_two_partitions(self):
        found = lab("subnet: {partitions: {red: {pkey: 0x12}}}\nhosts:\n"
                    "  a: {interfaces: {ib0: {addresses: [10.0.0.1/24]}}}\n"
                    "  b: {interfaces: {ib0: {addresses: [10.0.0.1/16], partition: red}}}\n"
                    "expect: [{from: all, tcp: [10.0.0.1, b], bytes: 5}, {from: b, ping: 10.0.0.1, count: 9}]\n")
        self.assertEqual([host.name for host in found.hosts], ["a", "b"])
        self.assertEqual([(each.sources, each.targets, each.bytes, each.count) for each in found.expectations],
                         [(("a", "b"), ("10.0.0.1", "b"), 5, 3), (("b",), ("10.0.0.1",), 1 << 20, 9)])
        self.assertEqual(lab_file.host_of(found.hosts, "10.0.0.1").name, "a")
        self.assertIsNone(lab_file.host_of(found.hosts, "10.0.0.2"))

    def test_vlans(self):
        found = lab("subnet: {partitions: {red: {pkey: 0x12}}}\nhosts:\n"
                    "  a: {interfaces: {ib0: {ethernet: true, backup: b, vlans: {18: red}}}}\n")
        self.assertEqual(found.hosts[0].interfaces[0].vlans, ((18, "red", 0x12),))
        self.assertEqual(found.memberships(), {(pkey, hca): "full" for pkey in (0x7fff, 0x12) for hca in "ab"})

    def test_the_name_is_that_of_the_file_unless_given(self):
        self.assertEqual(lab("hosts: {a: }", "/x/two.hosts.yaml").name, "two.hosts")
        self.assertEqual(lab_file.parse(FULL, "x.yaml", "other").name, "other")

    # Text with a mark at the position of the error, and words of the message.
    WRONG = [
        ("^", "the file"),
        ("^[]", "expected a lab"),
        ("^name: x", "the key 'hosts' is missing"),
        ("hosts: ^{}", "hosts by name"),
        ("hosts: {a: ^!!bool x}", "'x' is no value of the type bool"),
        ("hosts: {a: ^!!timestamp x}", "'x' is no value of the type timestamp"),
        ("hosts:\n  a: ^\x01", "the character 0x1 is not allowed"),
        ("^hosts: " + 3000 * "[", "too many lists and mappings are within each other"),
        ("hosts: {a: {interfaces: ^\"\\e[31m\"}}", "found '\\x1b[31m'"),
        ("hosts:\n  a: {interfaces: {ib0: {^adresses: []}}}", "did you mean 'addresses'?"),
        ("hosts:\n  a:\n    ^interface: {}", "unknown key 'interface' of a host; did you mean 'interfaces'?"),
        ("hosts: {a: }\n^hosts: {b: }", "the key 'hosts' is there twice"),
        ("hosts: {a: }\nname: ^-x", "expected a name of 1 to 63"),
        ("hosts: {^a b: }", "expected a name of 1 to 63"),
        ("hosts: {a: {interfaces: {^this-is-too-long: }}}", "expected an interface name"),
        ("hosts: {a: {interfaces: {lo: ^{}}}}", "loopback"),
        ("hosts: {a: {forward: ^1}}", "expected true or false, found 1"),
        ("hosts: {a: {forward: ^{}}}", "found a mapping"),
        ("hosts: {a: {forward: ^[]}}", "found a list"),
        ("hosts: {a: {forward:^ }}", "found nothing"),
        ("hosts: {a: {forward: ^x}}", "'forward': expected true or false, found 'x'"),
        ("subnet: {mtu: ^1024}\nhosts: {a: }", "expected 2048 or 4096 (bytes), found 1024"),
        ("subnet: {sm: ^opensn}\nhosts: {a: }", "did you mean 'opensm'?"),
        ("subnet: {partitions: {x: ^{mtu: 2048}}}\nhosts: {a: }", "the key 'pkey' is missing"),
        ("subnet: {partitions: {x: {pkey: ^0x8000}}}\nhosts: {a: {interfaces: {ib0: {partition: x}}}}", "invalid"),
        ("subnet: {partitions: {x: {pkey: ^0xffff}}}\nhosts: {a: {interfaces: {ib0: {partition: x}}}}",
         "the partition 'default' has the P_Key 0x7fff, too"),
        ("subnet: {partitions: {x: ^{pkey: 1}}}\nhosts: {a: }", "no interface is in the partition 'x'"),
        ("subnet: {partitions: {x: {pkey: 1, mtu: ^4096}}}\nhosts: {a: {interfaces: {ib0: {partition: x}}}}",
         "exceeds that of the ports, 2048"),
        ("subnet: {partitions: {storage: {pkey: 1}}}\n"
         "hosts: {a: {interfaces: {ib0: {partition: storage}, ib1: {partition: ^storge}}}}",
         "did you mean 'storage'?"),
        ("subnet: {sm: opensm}\nhosts: {opensm: ^{}}", "the HCA of OpenSM"),
        ("hosts: {a: {interfaces: {ib0: , ib1: ^{}}}}", "one interface in a partition"),
        ("hosts: {a: {interfaces: {ib0: {addresses: [10.0.0.1/24, ^10.0.0.300/24]}}}}", "found '10.0.0.300/24'"),
        ("hosts: {a: {interfaces: {ib0: {addresses: [^10.0.0.1]}}}}", "with its prefix length"),
        ("hosts:\n  a: {interfaces: {ib0: {addresses: [10.0.0.1/24]}}}\n"
         "  b: {interfaces: {ib0: {addresses: [^10.0.0.1/24]}}}", "a has the address 10.0.0.1"),
        ("hosts: {a: {interfaces: {ib0: {mtu: ^67}}}}", "68 to 65520 bytes"),
        ("hosts: {a: {interfaces: {ib0: {options: [^--pkey=1]}}}}", "partition decides on that"),
        ("hosts: {left: }\nfaults: [{at: 1, set: ^port lefft down}]", "did you mean 'left'?"),
        ("hosts: {a: }\nfaults: [{at: 1, set: ^prot a down}]", "a change as softib set takes it"),
        ("hosts: {a: }\nfaults: [^{set: port a down}]", "the key 'at' is missing"),
        ("hosts: {a: }\nfaults: [{at: 1, set: ^partition 1}]", "needs an HCA"),
        ("hosts: {a: }\nexpect: [^{from: a}]", "one of ping, tcp, reaches"),
        ("hosts: {a: }\nexpect: [^{from: a, ping: 10.0.0.1, tcp: 10.0.0.1}]", "one of ping, tcp, reaches"),
        ("hosts: {a: }\nexpect: [^{from: a, ping: 10.0.0.1, port: 3}]", "a tcp, because it has a port"),
        ("hosts: {left: }\nexpect: [{from: ^lefft, ping: 10.0.0.1}]", "did you mean 'left'?"),
        ("hosts: {a: }\nexpect: [{from: a, ping: [10.0.0.1, ^b]}]", "there is no host 'b'"),
        ("hosts: {a: , b: }\nexpect: [{from: a, ping: ^b}]", "b has no address"),
        ("hosts: {a: }\nexpect: [{from: a, tcp: ^10.0.0.1}]", "no host has the address 10.0.0.1"),
        ("hosts: {a: {bridges: {br0: {ports: [^ib0]}}}}", "there is no interface 'ib0'"),
        ("hosts: {a: {interfaces: {ib0: }, bridges: {br0: {ports: [^ib0]}}}}", "only an Ethernet interface"),
        ("hosts: {a: {interfaces: {ib0: {ethernet: true, addresses: [10.0.0.1/24]}}, bridges: {br0: {ports: [^ib0]}}}}",
         "ib0 has addresses"),
        ("hosts: {a: {interfaces: {ib0: {ethernet: true}}, bridges: {x: {ports: [ib0]}, y: {ports: [^ib0]}}}}",
         "a port of x, too"),
        ("hosts: {a: {interfaces: {ib0: }, bridges: {ib0: ^{}}}}", "a has an interface 'ib0', too"),
        ("hosts: {left: {bridges: {br0: }}, b: {interfaces: {eth0: {bridge: ^lefft/br0}}}}", "did you mean 'left/br0'?"),
        ("hosts: {b: {interfaces: {eth0: {bridge: ^br0}}}}", "expected HOST/BRIDGE"),
        ("hosts: {a: {bridges: {br0: }, interfaces: {eth0: {bridge: ^a/br0}}}}", "that of another host"),
        ("hosts: {a: {bridges: {br0: }}, b: {interfaces: {eth0: {bridge: a/br0, backup: ^c}}}}",
         "'backup' is for interfaces without 'bridge'"),
        *((f"hosts: {{a: {{bridges: {{br0: }}}}, b: {{interfaces: {{eth0: {{bridge: a/br0, {key}: ^{value}}}}}}}}}",
           f"'{key}' is for interfaces without 'bridge'") for key, value in (
               ("partition", "red"), ("membership", "full"), ("ethernet", "true"), ("options", "[]"), ("vlans", "{}"))),
        ("hosts: {a: {bridges: {br0: }}, b: {interfaces: {eth0: {bridge: a/br0, mtu: ^1501}}}}",
         "exceeds that of the bridge, 1500"),
        ("hosts: {a: {bridges: {br0: }}, b: {interfaces: {eth0: {bridge: a/br0, mac: ^'01:00:00:00:00:00'}}}}",
         "a unicast Ethernet address"),
        ("hosts: {a: {interfaces: {ib0: {mac: ^'02:00:00:00:00:00'}}}}", "'mac' is for interfaces with 'bridge'"),
        ("hosts:\n  a: {interfaces: {ib0: {ethernet: true}}, bridges: {br0: {ports: [ib0], addresses: [10.0.0.1/24]}}}\n"
         "  b: {interfaces: {eth0: {bridge: a/br0, addresses: [10.0.0.2/24]}}}\n"
         "  c: {interfaces: {ib0: {addresses: [10.0.0.3/24, ^10.0.0.2/24]}}}", "has the address 10.0.0.2"),
        ("hosts: {a: {interfaces: {ib0: {backup: ^a}}}}", "the HCA of the primary port"),
        ("hosts: {a: {interfaces: {ib0: {backup: ^b}}}, b: }", "'b' is an HCA of b"),
        ("hosts: {a: {interfaces: {ib0: {options: [^--backup=x]}}}}", "backup decides on that"),
        ("hosts: {a: {interfaces: {ib0: {ethernet: true, vlans: {18: ^red}}}}}", "there is no partition 'red'"),
        ("hosts: {a: {interfaces: {ib0: {ethernet: true, vlans: {^4095: default}}}}}", "a VLAN, 1 to 4094"),
        ("hosts: {a: {interfaces: {ib0: {ethernet: true, vlans: {18: ^default}}}}}", "one interface in a partition"),
        ("subnet: {partitions: {x: {pkey: 1}}}\nhosts: {a: {interfaces: {ib0: {vlans: ^{18: x}}}}}", "set 'ethernet'"),
        ("hosts: {a: {interfaces: {ib0: {options: [^--vlan=18=1]}}}}", "vlans decides on that"),
        ("hosts: {a: {sysctls: {^kernel.panic: 1}}}", "a setting of the network"),
        ("hosts: {a: {sysctls: {net.ipv4.ip_forward: ^true}}}", "expected a number or a text, found true"),
        ("subnet: {sm host: ^a}\nhosts: {a: }", "set 'sm' to opensm"),
        ("subnet: {sm: opensm, sm host: ^lefft}\nhosts: {left: }", "did you mean 'left'?"),
        ("subnet: {sm: opensm, sm host: ^b}\nhosts: {a: {bridges: {br0: }}, b: {interfaces: {eth0: {bridge: a/br0}}}}",
         "it has no HCA"),
        ("hosts: {a: {bridges: {br0: }}, b: {interfaces: {eth0: {bridge: a/br0}}}}\n"
         "faults: [{at: 0, set: ^port b down}]", "there is no HCA 'b'"),
        ("hosts: {a: }\nexpect: [{from: a, runs: ^[]}]", "expected a command line"),
        ("hosts: {a: [}^", "no valid YAML"),
        ("hosts: {a: {bridges: {lo: ^{}}}}", "loopback"),
        ("hosts: {a: {bridges: {br0: {ports: [^ib0]}}, interfaces: {ib1: {ethernet: true}}}}", "did you mean 'ib1'?"),
        ("hosts: {a: , b: }\nexpect: [{from: [a, ^c], runs: x}]", "there is no host 'c'"),
        ("hosts: {a: }\nexpect: [{from: a, tcp: ^[10.0.0.1, 'fd00::1']}]", "no host has the address fd00::1"),
        ("hosts: {a: {interfaces: {ib0: {partition: ^x}, ib1: {partition: y}}}}", "(known: default)"),
        ("hosts: {a: ^&x {services: *x}}", "an alias contains itself"),
    ]

    def test_each_error_has_its_position(self):
        for marked, message in self.WRONG:
            before = marked[:marked.index("^")]
            line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            with self.assertRaises(lab_file.LabFileError, msg=marked) as caught:
                lab(marked.replace("^", "", 1))
            if "no valid YAML" not in message:
                self.assertIn((line, column), [(each.line, each.column) for each in caught.exception.problems],
                              (marked, str(caught.exception)))
            self.assertIn(message, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith("lab.yaml:"), caught.exception)

    def test_all_errors_are_reported(self):
        with self.assertRaises(lab_file.LabFileError) as caught:
            lab("subnet: {mtu: 1}\nhosts:\n  a: {forwarded: true}\n")
        self.assertEqual([each.line for each in caught.exception.problems], [1, 3])

    def test_examples(self):
        names = sorted(EXAMPLES.glob("*.yaml"))
        self.assertGreaterEqual(len(names), 10)
        for path in names:
            found = lab_file.parse_file(path)
            self.assertTrue(expectations.checks_of(found), path)
            head = re.match(r"(#.*\n)+", path.read_text(encoding="utf-8"))
            self.assertIn(f"#   softib lab exec examples/{path.name} ", head[0], "commands to try")

    def test_the_manual_has_an_example_of_each_key(self):
        keys, used = set(keys_of(SCHEMA)), set()
        self.assertIn(("a bridge", "ports"), keys)
        for text in labs_of_the_manual():
            self.assertTrue(expectations.checks_of(lab(text)))
            used |= set(used_keys(SCHEMA, yaml.safe_load(text)))
        self.assertEqual(keys - used, set())


class Plan(unittest.TestCase):
    def test_a_new_lab(self):
        self.assertEqual(words(plan.plan(None, host("addresses: [10.0.0.1/24], mtu: 1500", ", services: {s: x}"))), [
            "start the subnet", "a: add", "a: add the HCA a", "a: start ipoibd for ib0", "a: give ib0 the address 10.0.0.1/24",
            "a: set ib0 up", "a: set the MTU of ib0 to 1500", "a: wait until ib0 is ready", "a: start the service s"])

    def test_the_same_lab(self):
        self.assertEqual(plan.plan(lab(FULL), lab(FULL)), [])

    def test_a_new_lab_under_opensm(self):
        steps = plan.plan(None, lab(FULL))
        self.assertEqual(words(steps)[:10], [
            "start the subnet", "a: add", "a: add the HCA a", "2: add", "2: add the HCA 2", "c: add", "c: add the HCA c",
            "change memberships of partitions", "start OpenSM", "a: start ipoibd for ib0"])
        self.assertEqual((steps[7].changes, steps[7].memberships), ((), steps[0].memberships))
        self.assertEqual(plan.hosts_of(steps), {"a", "2", "c"})

    def test_no_lab(self):
        self.assertEqual(plan.plan(None, None), [])
        self.assertEqual(words(plan.plan(host("", ", services: {s: x}"), None)), [
            "a: end the service s", "a: end ipoibd of ib0", "a: remove the HCA a", "a: remove", "end the subnet"])

    def test_only_what_differs_changes(self):
        old = host("addresses: [10.0.0.1/24]")
        for new, expected in (
                (host("addresses: [10.0.0.2/24]"),
                 ["a: take the address 10.0.0.1/24 from ib0", "a: give ib0 the address 10.0.0.2/24",
                  "a: wait until ib0 is ready"]),
                (host("addresses: [10.0.0.1/24], mtu: 1500"),
                 ["a: set the MTU of ib0 to 1500", "a: wait until ib0 is ready"]),
                (host("addresses: [10.0.0.1/24]", ", routes: [1.0.0.0/8 via 10.0.0.9]"),
                 ["a: add the route 1.0.0.0/8 via 10.0.0.9"]),
                (host("addresses: [10.0.0.1/24]", ", forward: true"), ["a: forward packets"]),
                (host("addresses: [10.0.0.1/24]", ", services: {s: x}"), ["a: start the service s"]),
                (host("addresses: [10.0.0.1/24], ethernet: true"),
                 ["a: end ipoibd of ib0", "a: start ipoibd for ib0", "a: give ib0 the address 10.0.0.1/24",
                  "a: set ib0 up", "a: wait until ib0 is ready"])):
            self.assertEqual(words(plan.plan(old, new)), expected)

    def test_what_a_host_loses_is_undone(self):
        given = host("addresses: [10.0.0.1/24], mtu: 1500", ", forward: true, routes: [1.0.0.0/8 via 10.0.0.9], "
                     "sysctls: {net.ipv4.conf.ib0.arp_ignore: 2}, services: {s: x, t: y}")
        taken = host("addresses: [10.0.0.1/24], mtu: 1600", ", services: {t: z}")
        self.assertEqual(words(plan.plan(given, taken)), [
            "a: end the service s", "a: end the service t", "a: do not forward packets",
            "a: set net.ipv4.conf.ib0.arp_ignore back", "a: set the MTU of ib0 to 1600",
            "a: delete the route 1.0.0.0/8 via 10.0.0.9", "a: wait until ib0 is ready", "a: start the service t"])

    def test_another_name_is_another_lab(self):
        old = lab("name: x\nhosts: {a: }")
        self.assertEqual(words(plan.plan(old, dataclasses.replace(old, name="y")))[:3], [
            "a: remove the HCA a", "a: remove", "end the subnet"])

    def test_without_an_mtu_the_daemon_starts_again(self):
        steps = words(plan.plan(host("mtu: 1500"), host("")))
        self.assertEqual(steps[:2], ["a: end ipoibd of ib0", "a: start ipoibd for ib0"])

    def test_hosts_come_and_go(self):
        old, new = lab("hosts: {a: , b: }"), lab("hosts: {b: , c: }")
        old = dataclasses.replace(old, name=new.name)
        self.assertEqual(words(plan.plan(old, new)), [
            "a: remove the HCA a", "a: remove", "c: add", "c: add the HCA c", "change memberships of partitions"])
        steps = plan.plan(old, new)
        self.assertEqual(dict(steps[-1].changes), {(0x7fff, "c"): "full"})
        self.assertEqual(steps[-1].hosts, ("c",))
        self.assertEqual(plan.hosts_of(steps[-1:]), {"c"})

    def test_a_membership_changes(self):
        text = "subnet: {partitions: {x: {pkey: 1}}}\nhosts:\n  a: {interfaces: {ib0: {partition: x%s}}}\n"
        steps = plan.plan(lab(text % ""), lab(text % ", membership: limited"))
        change = next(step for step in steps if isinstance(step, plan.SetMemberships))
        self.assertEqual(dict(change.changes), {(1, "a"): "limited"})
        self.assertEqual(words(steps)[0], "a: end ipoibd of ib0")

    def test_a_changed_subnet_is_a_new_lab(self):
        steps = words(plan.plan(lab("hosts: {a: }"), lab("subnet: {mtu: 4096}\nhosts: {a: }")))
        self.assertEqual(steps, ["a: remove the HCA a", "a: remove", "end the subnet", "start the subnet", "a: add",
                                 "a: add the HCA a"])

    def test_routes_return_when_their_address_has_gone(self):
        route = ", routes: [1.0.0.0/8 via 10.0.0.9]"
        steps = words(plan.plan(host("addresses: [10.0.0.1/24]", route), host("addresses: [10.0.0.2/24]", route)))
        self.assertIn("a: add the route 1.0.0.0/8 via 10.0.0.9", steps)


BRIDGED = """\
hosts:
  a:
    interfaces: {ib0: {ethernet: true}}
    bridges: {br0: {ports: [ib0], addresses: [10.0.0.1/24], mtu: 2044}}
    sysctls: {net.ipv4.conf.all.arp_ignore: 1, net.ipv4.conf.br0.arp_ignore: 2}
  vm:
    interfaces: {eth0: {bridge: a/br0, addresses: [10.0.0.2/24], mac: "02:00:00:00:00:1A"}}
  c: {interfaces: {ib0: {backup: c2}}}
"""


class Bridges(unittest.TestCase):
    def test_values(self):
        a, vm, c = lab(BRIDGED).hosts
        self.assertEqual(a.bridges, (lab_file.Bridge("br0", ("ib0",), ("10.0.0.1/24",), 2044),))
        self.assertEqual(vm.station_interfaces, (
            lab_file.StationInterface("eth0", ("a", "br0"), ("10.0.0.2/24",), 2044, "02:00:00:00:00:1a"),))
        self.assertEqual([each.hcas for each in (a, vm, c)], [("a",), (), ("c", "c2")])
        self.assertEqual(lab_file.address_of(vm), "10.0.0.2")
        self.assertEqual(set(lab(BRIDGED).memberships()), {(0x7fff, hca) for hca in ("a", "c", "c2")})

    def test_a_new_lab(self):
        self.assertEqual(words(plan.plan(None, lab(BRIDGED))), [
            "start the subnet", "a: add", "a: add the HCA a", "vm: add", "c: add", "c: add the HCA c",
            "c: add the HCA c2", "a: set net.ipv4.conf.all.arp_ignore to 1", "a: start ipoibd for ib0",
            "c: start ipoibd for ib0", "a: add the bridge br0", "vm: connect eth0 to a/br0", "a: set ib0 up",
            "a: set net.ipv4.conf.br0.arp_ignore to 2", "a: give br0 the address 10.0.0.1/24", "a: set br0 up",
            "vm: give eth0 the address 10.0.0.2/24", "vm: set eth0 up", "c: set ib0 up", "a: add ib0 to br0",
            "a: wait until ib0 is ready", "c: wait until ib0 is ready"])

    def test_only_what_differs_changes(self):
        old = lab(BRIDGED)
        self.assertEqual(plan.plan(old, old), [])
        for word, other, expected in (
                ("10.0.0.2/24", "10.0.0.3/24", ["vm: take the address 10.0.0.2/24 from eth0",
                                                "vm: give eth0 the address 10.0.0.3/24"]),
                (":1A", ":1B", ["vm: remove eth0", "vm: connect eth0 to a/br0", "vm: give eth0 the address 10.0.0.2/24",
                                "vm: set eth0 up"]),
                (", net.ipv4.conf.br0.arp_ignore: 2", "", ["a: set net.ipv4.conf.br0.arp_ignore back"]),
                ("all.arp_ignore: 1", "all.arp_ignore: 3", ["a: set net.ipv4.conf.all.arp_ignore to 3"]),
                ("[ib0]", "[]", ["a: take ib0 from br0"]),
                ("ethernet: true", "ethernet: true, options: [-v]",
                 ["a: end ipoibd of ib0", "a: start ipoibd for ib0", "a: set ib0 up", "a: add ib0 to br0",
                  "a: wait until ib0 is ready"]),
                ("br0", "br1", ["a: remove br0", "vm: remove eth0", "a: add the bridge br1", "vm: connect eth0 to a/br1",
                                "a: set net.ipv4.conf.br1.arp_ignore to 2", "a: give br1 the address 10.0.0.1/24",
                                "a: set br1 up", "vm: give eth0 the address 10.0.0.2/24", "vm: set eth0 up",
                                "a: add ib0 to br1"]),
                ("c2", "c3", ["c: end ipoibd of ib0", "c: remove the HCA c2", "c: add the HCA c3",
                              "change memberships of partitions", "c: start ipoibd for ib0", "c: set ib0 up",
                              "c: wait until ib0 is ready"])):
            self.assertEqual(words(plan.plan(old, lab(BRIDGED.replace(word, other)))), expected, other)

    def test_a_station_of_a_host_that_was_removed(self):
        """As after a failed change of the host."""
        old = plan.without_hosts(lab(BRIDGED), ["a"])
        steps = words(plan.plan(old, lab(BRIDGED)))
        self.assertIn("vm: remove eth0", steps)
        self.assertIn("vm: connect eth0 to a/br0", steps)

    def test_names_of_ports(self):
        self.assertEqual(effects.port_name("vm", "eth0"), "vm-eth0")
        names = {effects.port_name(f"a-long-name-{number}", "eth0") for number in range(100)}
        self.assertEqual((len(names), max(map(len, names))), (100, 15))


class Tables(unittest.TestCase):
    HEADINGS = ("HOST", "STATE", "ADDRESSES")
    ROWS = [("router", "up", "10.44.0.1/24 fd44::1/64 10.45.0.1/24"), ("b", "runs", "-")]

    def lines(self, width):
        return table.lines(self.HEADINGS, self.ROWS, width)

    def test_a_line_for_each_row(self):
        whole = ["HOST    STATE  ADDRESSES", "router  up     10.44.0.1/24 fd44::1/64 10.45.0.1/24", "b       runs   -"]
        self.assertEqual(self.lines(None), whole)
        self.assertEqual(self.lines(len(whole[1])), whole)

    def test_the_last_column_is_broken(self):
        self.assertEqual(self.lines(40), ["HOST    STATE  ADDRESSES", "router  up     10.44.0.1/24 fd44::1/64",
                                          "               10.45.0.1/24", "b       runs   -"])

    def test_blocks(self):
        self.assertEqual(self.lines(30), ["router", "    STATE up", "    ADDRESSES 10.44.0.1/24",
                                          "        fd44::1/64", "        10.45.0.1/24", "b",
                                          "    STATE runs  ADDRESSES -"])

    def test_no_line_is_too_long_and_nothing_is_missing(self):
        for width in range(22, 60):
            shown = self.lines(width)
            self.assertLessEqual(max(map(len, shown)), width, shown)
            for row in self.ROWS:
                for word in " ".join(row).split():
                    self.assertIn(word, " ".join(shown).split(), width)

    def test_without_rows(self):
        self.assertEqual(table.lines(self.HEADINGS, [], 10), ["HOST  STATE  ADDRESSES"])


class Partitions(unittest.TestCase):
    def test_options_of_softib(self):
        found = lab(FULL)
        self.assertEqual(effects.partition_options(found.subnet, found.memberships()),
                         ["0x7fff=full", "0x1=limited:a,mtu=4096,rate=40"])

    def test_file_of_opensm(self):
        found = lab(FULL)
        self.assertEqual(effects.opensm_partitions(found.subnet, found.memberships(), {"a": ["0xa", "0xb"], "2": ["0x2"]}),
                         "Default=0x7fff,ipoib:ALL=full;\n"
                         "storage=0x1,ipoib,mtu=5,rate=7:0xa=limited,0xb=limited;\n")


class Expectations(unittest.TestCase):
    def test_each_pair_is_checked(self):
        found = [(str(each), each.address, each.server) for each in expectations.checks_of(lab(FULL))]
        self.assertEqual(found, [
            ("a reaches 2 (10.0.0.2)", "10.0.0.2", "2"), ("2 reaches a (10.0.0.1)", "10.0.0.1", "a"),
            ("c reaches a (10.0.0.1)", "10.0.0.1", "a"), ("c reaches 2 (10.0.0.2)", "10.0.0.2", "2"),
            ("a connects to 2 (10.0.0.2) port 80", "10.0.0.2", "2"),
            ("a does not reach 10.0.0.9", "10.0.0.9", ""), ("c does not reach 10.0.0.9", "10.0.0.9", "")])

    def failure_of(self, kind, target="", ping="", **settings):
        """Checks one expectation on this host, with a script in place of ping(8). Returns why it fails."""
        expectation = lab_file.Expectation(7, kind, ("a",), (target,), **settings)
        check = expectations.Check(7, kind, "a", target, "127.0.0.1", "b", expectation)
        results = []

        def command(name, *arguments, folder="/"):
            self.assertEqual(name, "b" if "serve" in arguments else "a")
            return ["env", "-C", folder, *arguments]

        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "ping"
            script.write_text(f"#!/bin/sh\ncd {folder}\n{ping}\n", encoding="utf-8")
            script.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            checker = expectations.Checker(command, environment, folder)
            checker.run([check, check], lambda *result: results.append(result))
        self.assertEqual(results, [(check, results[0][1])] * 2)
        return results[0][1]

    def test_all_pings_are_answered(self):
        count = 'while [ "$1" != -c ]; do shift; done; [ "$2" = 4 ] || exit 9; '
        for output, failure in (("echo 4 packets transmitted, 4 received", None),
                                ("echo 4 packets transmitted, 3 received", "3 of 4 pings were answered"),
                                ("echo 3 packets transmitted, 3 received", "3 of 3 pings were answered"),
                                ("echo first; echo no such address >&2; exit 2", "no such address"),
                                ("echo first; echo last; exit 2", "last"), ("exit 2", "exit status 2")):
            self.assertEqual(self.failure_of("ping", ping=count + output, count=4), failure, output)

    def test_a_host_is_reached_before_the_time_is_over(self):
        once = '[ "$5" = 0.2 ] && [ "$8" = 127.0.0.1 ] || exit 2; '
        later = once + "echo x >>tries; [ $(wc -l <tries) -ge 4 ]"
        self.assertIsNone(self.failure_of("reaches", ping=later, within=60))
        self.assertEqual(self.failure_of("reaches", ping=once + "echo none; exit 1", within=0),
                         "no reply within 0 s: none")

    def test_a_host_is_not_reached(self):
        self.assertIsNone(self.failure_of("does not reach", ping='[ "$3" = 3 ] && exit 1'))
        self.assertEqual(self.failure_of("does not reach", ping="exit 0"), "it was answered")

    def test_a_command_succeeds_before_the_time_is_over(self):
        later = "test -x ping && echo x >>tries && [ $(wc -l <tries) -ge 4 ]"
        self.assertIsNone(self.failure_of("runs", later, within=60))
        for line, failure in (("echo first; echo last >&2; exit 3", "exit status 3: last"), ("exit 4", "exit status 4"),
                              ("echo begun; exec sleep 1000", "not finished after 0 s: begun")):
            self.assertEqual(self.failure_of("runs", line, within=0), failure)

    def test_what_is_sent_over_tcp_is_received(self):
        self.assertIsNone(self.failure_of("tcp", bytes=100_000, within=60))
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            port = server.getsockname()[1]
            self.assertIn("refused", self.failure_of("tcp", port=port, within=0))
            server.listen()
            self.assertIsNone(self.failure_of("tcp", port=port, within=60))

    def test_an_error_ends_the_checks(self):
        def fail(*_):
            raise KeyboardInterrupt
        checker = expectations.Checker(lambda _, *arguments: ["true"], os.environ, "/")
        check = expectations.Check(1, "does not reach", "a", "b", "", "", None)
        self.assertRaises(KeyboardInterrupt, checker.run, [check], fail)

    def test_a_transfer_waits_for_its_server(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))  # refuses connections until it listens
            later = threading.Timer(0.3, server.listen)
            later.start()
            transfer.connected(*server.getsockname(), 60).close()
            later.join()


if __name__ == "__main__":
    unittest.main(verbosity=1)
