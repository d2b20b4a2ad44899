#!/usr/bin/env python3
"""Metrics of a running daemon and subnet: served, scraped by Debian's Prometheus, and watched by the
alerts of contrib/prometheus."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import hosts
from hosts import program, wait_until

CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"
ALERTS = CONTRIB / "prometheus" / "alerts.yml"
DASHBOARD = CONTRIB / "grafana" / "ipoibd.json"
PARTITION = "ib0.8001"


class Metrics(hosts.Pair):
    """Left is in the default partition and in 0x8001."""

    def setUp(self):
        self.set_up("--partition", "1=full")

    def start_left(self):
        self.left.start("--pkey", "0xffff", "--pkey", "0x8001", address="10.44.0.1/24")
        self.left.configure(PARTITION, "10.44.1.1/24")

    def need(self, tool):
        if shutil.which(tool) is None:
            self.skipTest(f"{tool} is not installed")

    def serve(self, *command, options=()):
        """Starts a program that serves metrics; returns it and its URL."""
        log = self.subnet.folder / f"serve-{os.path.basename(command[-1])}.log"
        server = hosts.Process(self.left.command(*command, "metrics", "--serve", "0", *options), log,
                               self.subnet.environment)
        self.addCleanup(server.end, signal.SIGKILL)  # to stop takes the HTTP library two seconds
        wait_until(lambda: "serving http" in server.output() or not server.is_running(), "it serves")
        self.assertTrue(server.is_running(), server.output())
        return server, re.search(r"serving (\S+)", server.output())[1]

    def get(self, url):
        """Returns what left reads from a URL."""
        read = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=30).read().decode())"
        return self.left.run("python3", "-c", read).stdout

    def text(self):
        return self.left.run(program("ibarp"), "metrics").stdout

    def value(self, name, **labels):
        """Returns the value of a sample of left that has these labels; None if there is none."""
        for line in self.text().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name:
                found = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
                if labels.items() <= found.items():
                    return float(match[3])
        return None


class Text(Metrics):
    def test_follows_the_daemon(self):
        self.start_left()
        self.right.start(address="10.44.0.2/24")
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        self.assertEqual(self.value("ipoib_carrier", interface="ib0"), 1)
        self.assertEqual(self.value("ipoib_info", interface=PARTITION, pkey="0x8001"), 1)
        self.assertGreaterEqual(self.value("ipoib_resolution_seconds_count", interface="ib0"), 1)
        self.assertEqual(sum(self.value("ipoib_neighbours", interface="ib0", state=state) or 0
                             for state in ("reachable", "stale", "delay", "probing")), 1)
        self.assertGreater(self.value("ipoib_tx_bytes_total", interface="ib0"), 0)
        self.assertGreater(self.value("ipoib_sa_requests_total", port="1"), 0)
        self.softib_set("partition", "1", "left", "none")
        wait_until(lambda: self.value("ipoib_carrier", interface=PARTITION) == 0, "no carrier")
        self.assertEqual(self.value("ipoib_link_state", interface=PARTITION, state="no_pkey"), 1)
        self.assertEqual(self.value("ipoib_carrier", interface="ib0"), 1, "the other one is up")
        self.left.kill()
        wait_until(lambda: self.value("ipoib_up", interface="ib0") == 0, "the daemon is missed")

    def test_has_what_alerts_and_dashboard_use(self):
        self.start_left()
        text = self.text()
        used = set(re.findall(r"\bipoib_\w+", ALERTS.read_text(encoding="utf-8")))
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                used |= set(re.findall(r"\bipoib_\w+", target["expr"]))
        self.assertGreater(len(used), 10)
        samples = {line.split("{")[0].split(" ")[0] for line in text.splitlines()}
        self.assertEqual(used - samples, set())
        labels = re.findall(r'(\w+)=~?"([\w|]+)"', ALERTS.read_text(encoding="utf-8"))
        self.assertGreater(len(labels), 2)
        for label, values in labels:
            for value in values.split("|"):
                self.assertIn(f'{label}="{value}"', text)

    def test_promtool_accepts_it(self):
        self.need("promtool")
        self.start_left()
        for text in (self.text(), self.subnet.run_softib("metrics").stdout):
            self.assertGreater(len(text), 1000)
            done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, timeout=60,
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_shows_a_subnet(self):
        def value(name):
            found = re.search(rf"^{name} (\S+)$", self.subnet.run_softib("metrics").stdout, re.M)
            return found and float(found[1])

        self.start_left()
        subnet = 'subnet="default"'
        self.assertEqual(value(rf"softib_up{{{subnet}}}"), 1)
        self.assertEqual(value(rf'softib_port_state{{{subnet},hca="left",port="1",state="active"}}'), 1)
        self.assertGreater(value(rf'softib_port_sent_packets_total{{{subnet},hca="left",port="1"}}'), 0)
        self.assertGreater(value(rf"softib_sa_answered_total{{{subnet}}}"), 0)


class Server(Metrics):
    def test_serves_until_it_is_ended(self):
        """As a user without rights."""
        self.start_left()
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        if self.left.run(*user, program("ibarp"), "--version", check=False).returncode != 0:
            user = []  # in a user namespace there is no other user, or he may not run the program
        server, url = self.serve(*user, program("ibarp"))
        self.assertTrue(url.startswith("http://127.0.0.1:"), url)
        self.assertIn('ipoib_carrier{interface="ib0"} 1\n', self.get(url))
        self.left.kill()
        wait_until(lambda: 'ipoib_up{interface="ib0"} 0\n' in self.get(url), "the daemon is missed")
        port = url.split(":")[2].split("/")[0]
        again = self.left.run(*user, program("ibarp"), "metrics", "--serve", port, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("Address already in use", again.stderr)
        self.assertEqual(server.end(signal.SIGTERM), 0, server.output())

    def test_a_password_is_needed(self):
        self.need("curl")
        self.start_left()
        secret = self.subnet.folder / "password"
        options = ["metrics", "--serve", "0", "--password-file", str(secret)]
        for text, mode, word in (None, None, "No such file"), ("", 0o600, "no password"), ("one", 0o644, "others may read it"):
            if text is not None:
                secret.write_text(text, encoding="ascii")
                secret.chmod(mode)
            done = self.left.run(program("ibarp"), *options, check=False)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(word, done.stderr)
        secret.write_text("the secret\n", encoding="ascii")
        secret.chmod(0o600)
        _, url = self.serve(program("ibarp"), options=("--password-file", str(secret)))
        for user, password, status in (("prometheus", "the secret", 200), ("", "the secret", 200), ("prometheus", "", 401),
                                       ("prometheus", "the secre", 401), ("prometheus", "the secreT", 401), (None, None, 401)):
            given = [] if user is None else ["--user", f"{user}:{password}"]
            done = self.left.run("curl", "--silent", "--write-out", "\n%{http_code}", *given, url)
            self.assertEqual(done.stdout.splitlines()[-1], str(status), (user, password))
            self.assertEqual("ipoib_carrier" in done.stdout, status == 200)

    def test_serves_a_subnet(self):
        _, url = self.serve(program("softib"))
        self.assertRegex(self.get(url), r"(?m)^softib_up\{subnet=.*\} 1$")


class Prometheus(Metrics):
    """Debian's Prometheus, in left's network namespace."""

    def start_prometheus(self, url):
        target = url.removeprefix("http://").removesuffix("/metrics")
        config = self.subnet.folder / "prometheus.yml"
        config.write_text(f"""global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: [{ALERTS}]
scrape_configs:
- {{job_name: ipoib, static_configs: [{{targets: ["{target}"]}}]}}
""", encoding="utf-8")
        prometheus = hosts.Process(
            self.left.command("prometheus", f"--config.file={config}", "--log.level=warn",
                              f"--storage.tsdb.path={self.subnet.folder}/tsdb",
                              "--web.listen-address=127.0.0.1:9090"),
            self.subnet.folder / "prometheus.log", self.subnet.environment)
        self.addCleanup(prometheus.end, signal.SIGKILL)

    def query(self, expression):
        """Returns the labels of the series that match, with the value as "value"."""
        script = ("import sys, urllib.parse, urllib.request\n"
                  "url = 'http://127.0.0.1:9090/api/v1/query?' + "
                  "urllib.parse.urlencode({'query': sys.argv[1]})\n"
                  "print(urllib.request.urlopen(url, timeout=30).read().decode())")
        done = self.left.run("python3", "-c", script, expression, check=False)
        if done.returncode != 0:
            return []
        return [{**each["metric"], "value": each["value"][1]}
                for each in json.loads(done.stdout)["data"]["result"]]

    def test_shows_a_partition_without_carrier(self):
        self.need("prometheus")
        self.start_left()
        _, url = self.serve(program("ibarp"))
        self.start_prometheus(url)
        wait_until(lambda: len(self.query("ipoib_carrier == 1")) == 2, "both have been seen up")
        self.softib_set("partition", "1", "left", "none")
        wait_until(lambda: self.query("ipoib_carrier == 0"), "one has no carrier")
        self.assertEqual([each["interface"] for each in self.query("ipoib_carrier == 0")], [PARTITION])
        alert = 'ALERTS{alertname="IpoibNoCarrier"}'
        wait_until(lambda: self.query(alert), "the alert is pending")
        found = self.query(alert)
        self.assertEqual([(each["interface"], each["pkey"]) for each in found], [(PARTITION, "0x8001")])
        self.softib_set("partition", "1", "left", "full")
        wait_until(lambda: not self.query(alert), "the alert has gone")


class Rules(hosts.unittest.TestCase):
    def promtool(self, *arguments):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed")
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_alerts_are_valid_and_fire(self):
        self.assertRegex(self.promtool("check", "rules", str(ALERTS)), r"SUCCESS: \d+ rules found")
        self.promtool("test", "rules", str(ALERTS.parent / "alerts_test.yml"))

    def test_each_alert_is_tested(self):
        alerts = re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))
        tests = (ALERTS.parent / "alerts_test.yml").read_text(encoding="utf-8")
        self.assertGreater(len(alerts), 5)
        for alert in alerts:
            self.assertRegex(tests, rf"alertname: {alert}\n        exp_alerts:", alert)

    def test_expressions_of_the_dashboard_are_valid(self):
        rules = []
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$__rate_interval", "5m")
                rules.append({"record": f"panel:{len(rules)}", "expr": expression})
        self.assertGreater(len(rules), 10)
        path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"dashboard-{os.getpid()}.yml"
        self.addCleanup(path.unlink)
        path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
        self.promtool("check", "rules", str(path))


if __name__ == "__main__":
    hosts.main()
