"""softib lab, which executes this folder: labs of hosts on an emulated subnet, from a file. See
softib(1)."""

import json
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

try:
    import jsonschema  # noqa: F401
    import yaml
except ImportError as missing:
    sys.exit(f"softib lab: Python has no module '{missing.name}': install python3-{missing.name}")

from softib_lab import client, expectations, keeper, lab_file, table  # noqa: E402

TOOLS = {"ip": "iproute2", "ping": "iputils-ping", "nsenter": "util-linux", "unshare": "util-linux",
         "sysctl": "procps", "ipoibd": "ipoibd", "ibarp": "ipoibd"}


class Progress:
    """A line on a terminal that says what is being done."""

    def __init__(self):
        self.is_shown = sys.stderr.isatty()

    def show(self, number, count, text):
        if self.is_shown:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{f'[{number}/{count}] {text}'[:width]}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def name_of(file):
    """Returns the name of a lab also of a file that is no valid lab, so that it can be taken down."""
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            value = yaml.safe_load(text)
        name = value.get("name") if isinstance(value, dict) else None
    except (yaml.YAMLError, ValueError):
        name = None
    return str(name or pathlib.Path(file).stem)


def up(options):
    lab = lab_file.parse_file(options.file, options.name)
    for tool, package in {**TOOLS, **({"opensm": "opensm"} if lab.subnet.sm == "opensm" else {})}.items():
        if shutil.which(tool) is None:
            raise client.LabError(f"{tool} is not installed: install the package {package}")
    if not os.access("/dev/net/tun", os.W_OK):
        raise client.LabError("/dev/net/tun is missing or not writable: modprobe tun, or ask for it in the container")
    the_keeper = client.Keeper(lab.name, options.bin)
    with the_keeper.connection() as connection:
        is_running = connection is not None
    if not is_running:
        the_keeper.start()
    progress = Progress()
    try:
        count = the_keeper.request(
            lambda step: progress.show(step["step"], step["of"], step["text"]), do="up",
            text=pathlib.Path(options.file).read_text(encoding="utf-8", errors="replace"),
            file=os.path.abspath(options.file))
    except BaseException:
        progress.clear()
        if not is_running:
            the_keeper.await_end()
        raise
    progress.clear()
    if options.json:
        print(json.dumps({"lab": lab.name, "hosts": len(lab.hosts), "steps": count}))
    elif count:
        print(f"{lab.name} is up: {_count(len(lab.hosts), 'host')}, {_count(count, 'step')}")
    else:
        print(f"{lab.name} is up: nothing differs")


def down(options):
    name = options.name or name_of(options.file)
    if not client.Keeper(name, options.bin).down():
        raise client.LabError(f"the lab '{name}' is not up")
    print(json.dumps({"lab": name}) if options.json else f"{name} is down")


def execute(options):
    name = options.name or name_of(options.file)
    the_keeper = client.Keeper(name, options.bin)
    host, *command = options.rest
    state = the_keeper.request(do="show")
    hosts = [each["name"] for each in state["hosts"]]
    if host not in hosts:
        raise client.LabError(f"{name} has no host '{host}'{lab_file.did_you_mean(host, hosts)}")
    words = the_keeper.command(state["pid"], host, *(command or [os.environ.get("SHELL", "/bin/sh")]))
    os.execvpe(words[0], words, the_keeper.environment)


def show(options):
    state = client.Keeper(options.name or name_of(options.file), options.bin).request(do="show")
    if options.json:
        print(json.dumps(state))
        return
    rows = []
    for host in state["hosts"]:
        for each in host["interfaces"]:
            rows.append((host["name"], each["name"], each["partition"], each["state"], str(each["mtu"] or "-"),
                         " ".join(each["addresses"]) or "-"))
        for each in host["ethernet"]:
            rows.append((host["name"], each["name"], each["bridge"] or "-", each["state"], str(each["mtu"] or "-"),
                         " ".join(each["addresses"]) or "-"))
        for each in host["services"]:
            status = each["exit_status"]
            first, *more = each["command"].strip().splitlines()
            rows.append((host["name"], each["name"], "-", "runs" if status is None else f"exit {status}", "-",
                         f"{first} ..." if more else first))
        if not any(host[key] for key in ("interfaces", "ethernet", "services")):
            rows.append((host["name"], *["-"] * 5))
    for each in state["faults"]:
        rows.append(("-", f"at {each['at']:g} s", "-", each["state"], "-", each["set"]))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None
    for line in table.lines(("HOST", "INTERFACE", "PARTITION", "STATE", "MTU", "ADDRESSES"), rows, width):
        print(line)


def check(options):
    lab = lab_file.parse_file(options.file, options.name)
    the_keeper = client.Keeper(lab.name, options.bin)
    pid = the_keeper.pid()
    checks = expectations.checks_of(lab)
    progress = Progress()
    failures, results = 0, []

    def on_result(each, failure):
        nonlocal failures
        failures += failure is not None
        results.append({"line": each.line, "expectation": str(each), "ok": failure is None, "reason": failure})
        if failure is not None and not options.json:
            progress.clear()
            print(f"{options.file}:{each.line}: {each}: {failure}")
        progress.show(len(results), len(checks), str(each))
    try:
        expectations.Checker(lambda host, *words, folder=None: the_keeper.command(pid, host, *words, folder=folder),
                             the_keeper.environment, os.path.dirname(os.path.abspath(options.file))).run(
                                 checks, on_result)
    finally:
        progress.clear()
    if options.json:
        print(json.dumps(results))
    else:
        print(f"{lab.name}: {len(checks) - failures} of {_count(len(checks), 'expectation')} "
              f"{'holds' if len(checks) == 1 else 'hold'}")
    return 1 if failures else 0


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Options:
    """The command line that softib has checked: SUBCOMMAND BIN NAME JSON FILE [HOST [COMMAND...]]; NAME
    and JSON may be empty."""

    def __init__(self, words):
        self.subcommand, self.bin, self.name, self.json, self.file, *self.rest = words


def main():
    if sys.argv[1] == "keep":
        return keeper.Keeper(*sys.argv[2:5]).serve()
    options = Options(sys.argv[1:])
    # ipoibd is for administrators, as ip is: their folders may be missing from an ordinary user's PATH.
    os.environ["PATH"] = ":".join([options.bin, f"{options.bin}/../sbin", os.environ.get("PATH", "/usr/bin:/bin"),
                                   "/usr/local/sbin", "/usr/sbin", "/sbin"])
    subcommands = {"up": up, "down": down, "exec": execute, "show": show, "check": check}
    try:
        return subcommands[options.subcommand](options)
    except lab_file.LabFileError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error
        print(f"softib lab {options.subcommand}: {what}", file=sys.stderr)
    except client.LabError as error:
        print(f"softib lab {options.subcommand}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"softib lab {options.subcommand}: interrupted", file=sys.stderr)
        return 130
    return 1


sys.exit(main())
