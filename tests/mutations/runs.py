"""Runs the tests of a build with faults: which of them reach a fault, and whether one of these fails with it."""
import collections
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

VARIABLE = "IPOIB_MUTATION"
PACKAGES = "python"  # the folder of the Python packages, in the sources and in a build
RUN = "IPOIB_MUTATION_RUN"  # names what a command has started
RUNS = itertools.count()
SKIPPED = 77
SIGNALS = "HUP,INT,QUIT"  # tests send them; nohup(1), or a shell that does not wait, has them ignored
MEMORY = 8 << 30  # bytes of address space, for a fault that makes a loop endless
FIRST_LIMIT = 60  # seconds for a GoogleTest case without a fault
SCRIPT_LIMIT = 15  # seconds for another test of programs without a fault; a slower one is not used
SHORT_LIMIT = 5  # seconds with a fault, and 10 times as long as without one; then the fault is caught
TIMES = 10
BUDGET = 20  # seconds of tests for a fault, the fastest first

Case = collections.namedtuple("Case", "name command environment folder seconds reached")
Outcome = collections.namedtuple("Outcome", "result output")


def end_processes(mark):
    """Ends the processes that have `mark` in their environment: what a command has started, also in
    sessions of its own, as daemons are. Each is held by a descriptor, since its id may be used anew."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            descriptor = os.pidfd_open(int(process.name))
        except OSError:  # it has ended
            continue
        try:
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except OSError:  # it has ended, or is another user's
            pass
        finally:
            os.close(descriptor)


def run_command(command, environment, folder=None, limit=FIRST_LIMIT):
    """Runs a command with a time limit; a process may compute no longer either. Ends what it has started, and removes
    its temporary files. The result is "passed", "skipped", "failed" or "timed out"."""
    limited = ["env", f"--default-signal={SIGNALS}", "prlimit", f"--as={MEMORY}", f"--cpu={int(limit) + 1}", "--core=0", *command]
    mark = f"{os.getpid()}.{next(RUNS)}"
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        os.chmod(temporary, 0o1777)  # as that of the system: tests have processes of other users
        with subprocess.Popen(limited, env={**environment, RUN: mark, "TMPDIR": temporary}, cwd=folder,
                              stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        timed_out = status is None or status == -signal.SIGXCPU
        if timed_out:
            end_processes(f"{RUN}={mark}")
        output.seek(0)
        text = output.read().decode(errors="replace")
    if timed_out:
        return Outcome("timed out", text)
    return Outcome({0: "passed", SKIPPED: "skipped"}.get(status, "failed"), text)


def is_googletest(command):
    """Whether the command runs a case of a GoogleTest program."""
    return any(word.startswith("--gtest_filter=") for word in command)


def is_of_packages(command):
    """Whether the command tests Python packages, whose folder is one of its arguments."""
    return any(word.endswith(f"/{PACKAGES}") for word in command)


def listed(folder):
    """Returns the unit and sim tests of a build folder that run its programs or Python packages, as ctest would run
    them."""
    shown = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1", "--label-regex", "^(unit|sim)$"],
                           check=True, capture_output=True, text=True).stdout
    cases = []
    for test in json.loads(shown)["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        command = test.get("command", [])
        programs = [word for word in command
                    if word.startswith((f"{folder}/bin/", f"{folder}/tests/")) and os.path.isfile(word)]
        if (programs or is_of_packages(command)) and not properties.get("DISABLED"):
            environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
            cases.append(Case(test["name"], command, environment, properties.get("WORKING_DIRECTORY"), 0, frozenset()))
    return cases


def record(case, size):
    """Runs a test without a fault. Returns its outcome, and the case with its seconds and the faults whose switches
    it reaches, of which the highest number is below `size`."""
    with tempfile.NamedTemporaryFile() as table:
        table.truncate(size)
        begin = time.monotonic()
        limit = FIRST_LIMIT if is_googletest(case.command) or is_of_packages(case.command) else SCRIPT_LIMIT
        environment = {**os.environ, **case.environment, VARIABLE: table.name}
        result, output = run_command(case.command, environment, case.folder, limit)
        seconds = time.monotonic() - begin
        reached = frozenset(number for number, byte in enumerate(table.read()) if byte)
    own = re.search(r"^\[       OK \] .* \((\d+) ms\)$", output, re.M)
    return result, case._replace(seconds=int(own[1]) / 1000 if own else seconds, reached=reached)


def grouped(cases):
    """Returns lists of cases that one process can run: of one GoogleTest program, as many as fit the budget. The fastest
    come first."""
    by_program, left = collections.defaultdict(list), BUDGET
    for case in sorted(cases, key=lambda each: each.seconds):
        left -= case.seconds
        if left < 0:
            break
        program = case.command[0] if is_googletest(case.command) else case.name
        by_program[program].append(case)
    return sorted(by_program.values(), key=lambda group: sum(each.seconds for each in group))


def filter_of(case):
    """Returns the name of a case as its program knows it."""
    return next(word.partition("=")[2] for word in case.command if word.startswith("--gtest_filter="))


def run_with(number, cases):
    """Runs these cases, which are of one program, with a fault; if they take too long, once more, since the machine may
    have been busy."""
    first = cases[0]
    command = first.command
    if is_googletest(command):
        command = [f"--gtest_filter={':'.join(map(filter_of, cases))}" if word.startswith("--gtest_filter=") else word
                   for word in command]
    environment = {**os.environ, **first.environment, VARIABLE: str(number), "GTEST_FAIL_FAST": "1"}
    limit = SHORT_LIMIT + TIMES * sum(each.seconds for each in cases)
    outcome = run_command(command, environment, first.folder, limit)
    return run_command(command, environment, first.folder, limit) if outcome.result == "timed out" else outcome


def catcher(number, cases):
    """Returns the name of a test that fails with the fault, or "". Where a process with several cases fails, the one
    that has failed, or the last that was begun if the process has ended, is run once more, alone: it may only be that a
    case disturbs another one. GoogleTest begins those that it skips after a failure, too."""
    for group in grouped(cases):
        while group:
            result, output = run_with(number, group)
            if result in ("passed", "skipped"):
                break
            found = re.findall(r"^\[  FAILED  \] ([^\s,]+)", output, re.M)[:1] or \
                re.findall(r"^\[ RUN      \] (.+)$", output, re.M)[-1:]
            last = next((each for each in group if is_googletest(each.command) and [filter_of(each)] == found), group[0])
            if len(group) > 1:
                result = run_with(number, [last]).result
            if result in ("failed", "timed out"):
                return f"{last.name}{' (time-out)' if result == 'timed out' else ''}"
            group = [each for each in group if each is not last]
    return ""
