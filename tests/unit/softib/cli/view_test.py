#!/usr/bin/env python3
"""Tests softib view: the server by HTTP, and the page in a browser.

Usage: view_test.py SOFTIB [TEST]...
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
import browser  # noqa: E402
from softib_subnet import PATIENCE, Subnet, equal, free_tcp_port, need, run_tests, skip, wait_for  # noqa: E402

SOFTIB = os.path.abspath(sys.argv[1])
TREE = ("--topology", "fat-tree:4,2")  # 4 leaf switches, 2 spines, 8 hosts


class View:
    """softib view, which serves a page."""

    def __init__(self, environment, *options):
        self.process = subprocess.Popen([SOFTIB, "view", *options], env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, stdin=subprocess.PIPE)

    def __enter__(self):
        line = self.process.stdout.readline()
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)\n", line)
        assert match, (line, self.process.poll() is not None and self.process.stderr.read())
        self.url, self.port, self.path = line.strip(), int(match[1]), match[2]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ask(self, path, method="GET", **headers):
        """Returns status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    def get(self, name):
        status, _, body = self.ask(self.path + name)
        equal(status, 200)
        return json.loads(body)


@contextlib.contextmanager
def shown(*options):
    with Subnet(SOFTIB, *options) as subnet, View(subnet.environment) as view:
        yield subnet, view


@contextlib.contextmanager
def page(view):
    if browser.program() is None:
        skip("chromium is not installed")
    with browser.Browser() as one:
        one.open(view.url)
        one.wait_for("document.querySelectorAll('#map .node').length > 0")
        yield one
        equal([each for each in one.console if "favicon" not in each], [])


# --- HTTP ------------------------------------------------------------------------------------------


def the_page_and_its_headers():
    with shown() as (_, view):
        status, headers, body = view.ask(view.path)
        equal(status, 200)
        assert b"<svg id=\"map\"" in body
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        equal(headers["x-content-type-options"], "nosniff")
        equal(headers["cache-control"], "no-store")
        equal(headers["connection"], "close")
        status, headers, body = view.ask(view.path, method="HEAD")
        equal((status, body), (200, b""))
        assert int(headers["content-length"]) > 1000
        # Everything that the page names is there, and nothing is of elsewhere.
        for name in re.findall(r'(?:src|href)="([^"#][^"]*)"', view.ask(view.path)[2].decode()):
            assert name.startswith("data:") or view.ask(view.path + name)[0] == 200, name


def other_hosts_and_paths_are_refused():
    with shown() as (_, view):
        equal(view.ask(view.path, Host="evil.example")[0], 403)
        equal(view.ask(view.path, Host=f"evil.example:{view.port}")[0], 403)
        equal(view.ask(view.path, Host=f"localhost:{view.port}")[0], 200)
        equal(view.ask("/")[0], 404)
        equal(view.ask("/subnet.json")[0], 404)
        equal(view.ask(view.path, method="POST")[0], 405)
        # Two headers, and none.
        for head in f"Host: 127.0.0.1:{view.port}\r\nHost: 127.0.0.1:{view.port}\r\n", "":
            with socket.create_connection(("127.0.0.1", view.port)) as connection:
                connection.sendall(f"GET {view.path} HTTP/1.1\r\n{head}\r\n".encode())
                answer = connection.recv(100)
                assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")) or not answer, answer


def it_listens_on_the_loopback_address_only():
    with shown() as (_, view):
        inodes = set()
        for fd in pathlib.Path(f"/proc/{view.process.pid}/fd").iterdir():
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(fd))
            if match:
                inodes.add(match[1])
        rows = [row.split() for table in ("tcp", "tcp6")
                for row in pathlib.Path(f"/proc/{view.process.pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]]
        ours = [row[1] for row in rows if row[9] in inodes and row[3] == "0A"]
        equal(ours, [f"0100007F:{view.port:04X}"])


def connections_are_bounded():
    with shown() as (_, view):
        many = [socket.create_connection(("127.0.0.1", view.port)) for _ in range(32)]
        wait_for("one too many is closed", lambda: is_closed(view.port))
        for each in many:
            each.close()
        wait_for("there is room again", lambda: not is_closed(view.port))
        equal(view.ask(view.path)[0], 200)
        with socket.create_connection(("127.0.0.1", view.port)) as connection:
            connection.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4000)
                while connection.recv(1000):
                    pass
        equal(view.ask(view.path)[0], 200)


def is_closed(port):
    """Whether the server closes a new connection at once."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(0.3)
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


def data_are_those_of_show():
    with shown(*TREE) as (subnet, view):
        there = json.loads(subnet.softib("show", "--json"))
        given = view.get("subnet.json")
        for each in ("subnet", "folder", "switches", "groups", "partitions"):
            equal(given[each], there[each])
        layout = view.get("layout.json")
        equal(set(layout["switches"]), {each["name"] for each in there["switches"]})
        equal(set(layout["hcas"]), {each["name"] for each in there["nodes"]})
        for each in (*layout["switches"].values(), *layout["hcas"].values()):
            assert 0 <= each[0] <= layout["width"] and 0 <= each[1] <= layout["height"], each
        # The tables lead from switch to switch to each host.
        lids = {each["lid"]: each["name"] for each in there["nodes"] if each["name"].startswith("host")}
        tables = {each["name"]: dict(view.get(f"switch.json?name={each['name']}")["lft"]) for each in there["switches"]}
        peers = {(each["name"], port["port"]): port.get("to") or port["hca"]
                 for each in there["switches"] for port in each["ports"]}
        equal(len(lids), 8)
        for lid, name in lids.items():
            for at in tables:
                hops = 0
                while at != name and hops < 5:
                    at, hops = peers[at, tables[at][lid]], hops + 1
                equal(at, name)
        equal(view.ask(view.path + "switch.json?name=nobody")[0], 404)
        equal(view.ask(view.path + "group.json?mlid=1")[0], 404)


def trees_of_groups():
    need("ibv_ud_pingpong")
    with shown(*TREE) as (subnet, view):
        mlid = view.get("subnet.json")["groups"][0]["mlid"]
        equal(view.get(f"group.json?mlid={mlid}"), {"mlid": mlid, "exits": []})


def it_goes_on_without_the_subnet_process():
    with shown(*TREE) as (subnet, view):
        view.get("layout.json")
        program = subnet.start("host-1", "sleep", "60")
        subnet.kill_subnet()
        wait_for("it says so", lambda: view.get("subnet.json")["running"] is False)
        view.get("layout.json")
        equal(len(view.get("switch.json?name=leaf-1")["lft"]) > 0, True)
        with View(subnet.environment) as late:
            status, _, body = late.ask(late.path + "layout.json")
            assert b"the subnet process does not run, and did not when this page began: start it (softib subnet)" in body, status
        program.kill()


def it_says_why_there_is_no_page():
    nowhere = dict(os.environ, SOFTIB_DIR="/proc/nowhere")
    done = subprocess.run([SOFTIB, "view"], env=nowhere, capture_output=True, text=True, check=False, timeout=PATIENCE)
    equal((done.returncode, done.stdout), (1, ""))
    assert "no subnet 'default' is running" in done.stderr, done
    with shown() as (subnet, view):
        done = subprocess.run([SOFTIB, "view", "--port", str(view.port)], env=subnet.environment, capture_output=True,
                              text=True, check=False, timeout=PATIENCE)
        equal(done.returncode, 1)
        assert f"cannot listen on 127.0.0.1:{view.port}" in done.stderr, done
    for words in ["--port", "70000"], ["--perfquery", "x"], ["argument"], \
            ["--ibnetdiscover", "-", "--perfquery", "-"]:
        done = subprocess.run([SOFTIB, "view", *words], env=nowhere, capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout), (2, ""))


def it_ends_by_a_signal():
    with Subnet(SOFTIB) as subnet:
        port = free_tcp_port()
        with View(subnet.environment, "--port", str(port)) as view:
            equal(view.port, port)
            view.process.send_signal(signal.SIGINT)
            equal(view.process.wait(PATIENCE), 0)


def a_real_subnet():
    """By the output of ibnetdiscover of an emulated one, and counters that change."""
    with Subnet(SOFTIB, *TREE) as subnet:
        net, counters = subnet.folder / "net", subnet.folder / "counters"
        net.write_text(subnet.softib("show", "--topology", "ibnetdiscover"), encoding="utf-8")
        lids = {each["name"]: each["lid"] for each in json.loads(subnet.softib("show", "--json"))["nodes"]}
        counters.write_text(f"# Port extended counters: Lid {lids['host-3']} port 1\nPortXmitData:....25\n",
                            encoding="utf-8")
        with View(subnet.environment, "--ibnetdiscover", str(net), "--perfquery", str(counters)) as view:
            def host():
                return next(each for each in view.get("subnet.json")["nodes"] if each["description"] == "host-3")
            equal((host()["lid"], host()["counters"]["sent_bytes"]), (lids["host-3"], 100))
            equal(len(view.get("layout.json")["switches"]), 6)
            status, _, body = view.ask(view.path + "switch.json?name=leaf-1")
            equal(status, 404)
            assert b"the output of ibnetdiscover has no forwarding tables: see those of a switch with ibroute" in body, body
            counters.write_text(f"# Port extended counters: Lid {lids['host-3']} port 1\nPortXmitData:....50\n",
                                encoding="utf-8")
            os.utime(counters, (time.time() + 5, time.time() + 5))
            equal(host()["counters"]["sent_bytes"], 200)
        piped = View(subnet.environment, "--ibnetdiscover", "-")
        piped.process.stdin.write(net.read_text(encoding="utf-8"))
        piped.process.stdin.close()
        piped.process.stdin = None
        with piped as view:
            equal(len(view.get("subnet.json")["switches"]), 6)
            equal(len(view.get("subnet.json")["nodes"]), 9)


# --- The page ----------------------------------------------------------------------------------------


def the_page_shows_the_nodes():
    with shown(*TREE) as (subnet, view), page(view) as one:
        names = one.value("[...document.querySelectorAll('#map .node')].map(e => e.dataset.name)")
        equal(set(names), {f"leaf-{i}" for i in range(1, 5)} | {"spine-1", "spine-2", "softib-sm"} |
              {f"host-{i}" for i in range(1, 9)})
        equal(one.value("document.querySelectorAll('#map .cable').length"), 8 + 8 + 1)
        equal(one.value("document.querySelector('#title').textContent"), "Subnet default")
        one.wait_for("document.querySelectorAll('#nodes tbody tr').length === 15")
        assert "6 switches, 9 hosts" in one.value("document.querySelector('#status').textContent")
        # It follows what changes.
        subnet.softib("set", "cable", "leaf-1", "spine-1", "down")
        one.wait_for("document.querySelectorAll('#map .cable.down').length === 1")
        subnet.softib("set", "switch", "spine-2", "absent")
        one.wait_for("document.querySelectorAll('#map .node.down').length === 1")
        subnet.softib("set", "hca", "host-8", "absent")
        one.wait_for("document.querySelector('#map .node[data-name=host-8]') === null")


def a_click_shows_tables():
    with shown(*TREE) as (subnet, view), page(view) as one:
        one.click("#map .node[data-name='leaf-1']")
        one.wait_for("document.querySelectorAll('#tables table').length === 4")
        equal(one.value("document.querySelector('#chosen').textContent"), "Switch leaf-1")
        titles = one.value("[...document.querySelectorAll('#tables caption')].map(e => e.textContent)")
        equal(titles, ["Attributes", "Ports", "Linear forwarding table (LFT)", "Multicast forwarding table (MFT)"])
        lft = one.value("[...document.querySelectorAll('#tables table')[2].querySelectorAll('tbody tr')]"
                        ".map(r => [...r.cells].map(c => c.textContent))")
        lid = subnet.nodes()["host-8"]["lid"]
        row = next(each for each in lft if each[0] == str(lid))
        equal(row[1], "host-8")
        assert row[3].startswith("spine-"), row
        one.click("#map .node[data-name='host-8'] circle")
        one.wait_for("document.querySelector('#chosen').textContent === 'Host host-8'")
        text = one.value("document.querySelector('#tables').textContent")
        assert f"LID{lid}" in text and "sent_packets" in text and "0xffff" in text, text


def rates_and_drops():
    need("ibping")
    with shown(*TREE) as (subnet, view), page(view) as one:
        lid = subnet.nodes()["host-8"]["lid"]
        subnet.start("host-8", "ibping", "-S")
        subnet.start("host-1", "ibping", "-f", str(lid), stdout=subprocess.DEVNULL)
        one.wait_for("document.querySelectorAll('#map .cable.busy').length >= 4")
        one.wait_for(r"/[1-9].* [kM]?bit\/s/.test(document.querySelector('#rates').textContent)")
        # Packets to a LID that nobody has are dropped.
        subnet.start("host-2", "ibping", "-f", "999", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        one.wait_for("document.querySelector('#map .node.bad') !== null")
        one.click("#pause")
        one.wait_for("document.querySelector('#status').textContent.includes('paused')")


def keyboard_and_screen_reader():
    with shown(*TREE) as (_, view), page(view) as one:
        # One tab stop in the picture.
        equal(one.value("document.querySelectorAll('#map [tabindex=\"0\"]').length"), 1)
        one.value("document.querySelector('#fit').focus()")
        one.press("Tab", 9)
        first = one.wait_for("document.activeElement.dataset.name")
        one.press("End", 35)
        one.press("Home", 36)
        equal(one.value("document.activeElement.dataset.name"), first)
        one.press("ArrowDown", 40)
        second = one.value("document.activeElement.dataset.name")
        assert second != first, (first, second)
        equal(one.value("document.querySelectorAll('#map [tabindex=\"0\"]').length"), 1)
        one.press("Enter", 13, "\r")
        one.wait_for(f"document.querySelector('#chosen').textContent.endsWith(' {second}')")
        equal(one.value("document.activeElement.id"), "details")
        one.press("Escape", 27)
        equal(one.value("document.activeElement.dataset.name"), second)
        # Focus stays where it is when the page looks again.
        one.wait_for("new Promise(done => setTimeout(() => done(true), 2500))")
        equal(one.value("document.activeElement.dataset.name"), second)
        found = one.accessible()
        assert any(role == "button" and name.startswith("Switch leaf-1, LID ") for role, name in found), found
        assert any(role == "button" and name.startswith("Host host-8, LID ") for role, name in found)
        for role in "heading", "table", "complementary", "status":
            assert any(each == role for each, _ in found), role
        unnamed = [role for role, name in found if role in ("button", "combobox", "searchbox", "link") and not name]
        equal(unnamed, [])


def partitions_groups_and_search():
    with shown(*TREE, "--partition", "0x12=full:host-1,host-2", "--partition", "0x7fff=full") as (_, view), page(view) as one:
        one.value("(() => { const s = document.querySelector('#partition'); s.value = [...s.options]"
                  ".find(o => o.textContent.includes('0012') || o.textContent.includes('8012')).value;"
                  " s.dispatchEvent(new Event('change')); })()")
        one.wait_for("document.querySelector('#map .node[data-name=host-3]').classList.contains('faint')")
        equal(one.value("document.querySelector('#map .node[data-name=host-1]').classList.contains('faint')"), False)
        one.value("(() => { const f = document.querySelector('#find'); f.value = 'spine';"
                  " f.dispatchEvent(new Event('input')); })()")
        one.wait_for("document.querySelectorAll('#nodes tbody tr').length === 2")


def dark_and_light():
    with shown() as (_, view), page(view) as one:
        colours = []
        for scheme in "light", "dark":
            one.prefer(scheme)
            colours.append(one.value("getComputedStyle(document.body).backgroundColor"))
        equal(colours, ["rgb(255, 255, 255)", "rgb(15, 23, 42)"])


def hundreds_of_nodes():
    with shown("--topology", "fat-tree:12") as (_, view), page(view) as one:  # 180 switches, 432 hosts
        equal(one.value("document.querySelectorAll('#map .node').length"), 180 + 432 + 1)
        # Painting it takes less than the time between two looks.
        begun = one.value("(() => { const t = performance.now(); repaint(); return performance.now() - t; })()")
        assert begun < 2000, begun


run_tests([the_page_and_its_headers, other_hosts_and_paths_are_refused, it_listens_on_the_loopback_address_only,
           connections_are_bounded, data_are_those_of_show, trees_of_groups, it_goes_on_without_the_subnet_process,
           it_says_why_there_is_no_page, it_ends_by_a_signal, a_real_subnet, the_page_shows_the_nodes,
           a_click_shows_tables, rates_and_drops, keyboard_and_screen_reader, partitions_groups_and_search,
           dark_and_light, hundreds_of_nodes], sys.argv[2:])
