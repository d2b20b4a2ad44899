"""ibarp monitor on a host."""

import json

import hosts
from hosts import wait_until


class Monitor:
    """ibarp monitor --json on a host, from when it has subscribed."""

    def __init__(self, host, *arguments):
        before = host.counters()["control_subscriptions"]
        self.process = hosts.Process(
            host.command(hosts.program("ibarp"), "--json", "monitor", *arguments),
            host.subnet.folder / f"{host.name}-monitor.log", host.subnet.environment)
        wait_until(lambda: host.counters()["control_subscriptions"] > before, "it has subscribed")

    def events(self):
        """Returns the events so far; the last line may be incomplete."""
        lines = self.process.output().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def wait_for(self, what, condition):
        return wait_until(lambda: next((event for event in self.events() if condition(event)), None),
                          what)

    def neighbour(self, address, change, state=None):
        return self.wait_for(
            f"{address} {change} {state}",
            lambda event: event["event"] == "neighbour" and event["change"] == change
            and event["entry"]["address"] == address
            and (state is None or event["entry"]["state"] == state))
