#!/usr/bin/env python3
"""Puts faults into a copy of the sources, one at a time, and checks that the tests catch them.

A fault is one changed expression or statement: a wrong comparison, a dropped call, a missing reset.
All faults are compiled into one build, where the environment variable IPOIB_MUTATION selects one.
The faults are in the files AREA.txt of this folder:

    targets: unit_wire sim_link

    fault wire.mgid-scope in src/wire/mgid.cpp
        bytes[1] = {{flags | scope => flags}};
    caught by unit/Mgid.AlwaysHasTheFullMemberBit

`targets` are what to build for the area. The indented lines are lines of the source, or parts of
lines, that occur once in it; {{before => after}} marks what is changed. If `before` ends with a
semicolon it is a whole statement, else an expression; an empty `after` drops the statement. Names of
tests are those of ctest, with * for any text. A fault that no test can catch has, instead of
"caught by", the line "survives: REASON".

Usage: mutations.py check                   whether all faults fit the sources
       mutations.py run [AREA...]           builds, and prints which faults survive; exit status 1 if
                                            fewer than 95 % are caught or a survivor has no reason
       mutations.py find NAME... | --new    which unit and sim tests catch these faults, or those
                                            without "caught by"
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "completion", "contrib", "docs", "include", "man",
          "python", "scripts", "src", "systemd", "tests"]
VARIABLE = "IPOIB_MUTATION"
LIMIT = 60  # seconds for a test; one that takes longer has caught the fault
SHORT_LIMIT = 10  # seconds, and 20 times as long as the test takes without a fault
JOBS = 2 * os.cpu_count()  # a test that waits for what a fault prevents needs no processor
SLOWEST = 5  # tests to name at the end
MEMORY = 16 << 30  # bytes of address space, for a fault that makes a loop endless
SHARE = 0.95
RUN = "IPOIB_MUTATION_RUN"  # names what a command has started
RUNS = itertools.count()
SKIPPED = 77

Fault = collections.namedtuple("Fault", "name file code tests reason where")
Change = collections.namedtuple("Change", "begin end name after")


class ListError(Exception):
    """A list that cannot be read or does not fit the sources."""


def read_list(path):
    """Returns the targets and the faults of a list."""
    targets, faults, names = [], [], set()
    lines = path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        line, where = lines[at], f"{path.name}:{at + 1}"
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("targets:"):
            targets += line.split()[1:]
            continue
        head = re.fullmatch(r"fault (\S+) in (\S+)", line)
        if not head:
            raise ListError(f"{where}: expected 'fault NAME in FILE'")
        code = []
        while at < len(lines) and lines[at].startswith("    "):
            code.append(lines[at].strip())
            at += 1
        last = lines[at] if at < len(lines) else ""
        tests, reason = [], ""
        if last.startswith("caught by "):
            tests = last.split()[2:]
            at += 1
        elif last.startswith("survives: "):
            reason = last.removeprefix("survives: ")
            at += 1
        if head[1] in names:
            raise ListError(f"{where}: a second fault {head[1]}")
        if not head[1].startswith(path.stem + "."):
            raise ListError(f"{where}: the name begins with '{path.stem}.'")
        names.add(head[1])
        faults.append(Fault(head[1], head[2], code, tests, reason, where))
    return targets, faults


def areas():
    """Returns the names of all lists."""
    return sorted(path.stem for path in HERE.glob("*.txt"))


def read_areas(names):
    """Returns the targets and faults of these areas."""
    targets, faults = set(), []
    for name in names:
        path = HERE / f"{name}.txt"
        if not path.exists():
            raise ListError(f"no area {name}; there are {', '.join(areas())}")
        more, listed = read_list(path)
        targets.update(more)
        faults += listed
    return sorted(targets, key=lambda each: (each.startswith("sim"), each)), faults


def change_of(fault, source):
    """Returns the part of the source that the fault changes, and its replacement."""
    marked = "\n".join(fault.code)
    head = re.match(r"(?s)(.*?)\{\{(?!\{)(.*?) =>", marked)
    ends = [each.start() for each in re.finditer(r"(?=\}\})", marked)] if head else []
    end = next((each for each in ends if each >= head.end() and
                marked.count("{", head.end(), each) == marked.count("}", head.end(), each)), None)
    if end is None:
        raise ListError(f"{fault.where}: expected one {{{{before => after}}}}")
    before, original = head.groups()
    after, rest = marked[head.end():end], marked[end + 2:]
    # "( ? : )" takes the place of an expression. A part of one begins or ends with a binary operator.
    if not original.endswith(";") and (
            not after.strip() or original.count("{") != original.count("}")
            or re.match(r"\s*[-+*/%&|^<=>!]+\s", original)
            or re.search(r"\s[-+*/%&|^<=>!]+\s*$", original)):
        raise ListError(f"{fault.where}: expected a statement with its semicolon, or a whole "
                        "expression and another one")

    def pattern(text):
        return re.escape(text).replace("\\\n", r"[ \t]*\n[ \t]*")

    found = list(re.finditer(f"{pattern(before)}({pattern(original)}){pattern(rest)}", source))
    if len(found) != 1:
        raise ListError(f"{fault.where}: {fault.name} occurs {len(found)} times in {fault.file}")
    return Change(*found[0].span(1), fault.name, after.strip())


def id_of(name):
    """FNV-1a, like active.hpp."""
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:#x}ULL"


def render(source, changes, begin, end):
    """Returns source[begin:end] with the changes, each behind its switch. Changes may nest."""
    out, at = [], begin
    todo = sorted(changes, key=lambda each: (each.begin, -each.end))
    while todo:
        outer = todo[0]
        inner = [each for each in todo[1:] if each.begin < outer.end]
        todo = [each for each in todo[1:] if each.begin >= outer.end]
        for each in inner:
            if each.end > outer.end:
                raise ListError(f"{each.name} and {outer.name} overlap")
        out.append(source[at:outer.begin])
        original = render(source, inner, outer.begin, outer.end)
        active = f"::ipoib_mutation::active({id_of(outer.name)})"
        if source[outer.begin:outer.end].endswith(";"):
            out.append(f"{{ if ({active}) {{ {outer.after} }} else {{ {original} }} }}")
        else:
            out.append(f"({active} ? ({outer.after}) : ({original}))")
        at = outer.end
    return "".join(out) + source[at:end]


def mutated(root, faults):
    """Returns {file: text with its faults}."""
    by_file = collections.defaultdict(list)
    for fault in faults:
        by_file[fault.file].append(fault)
    out, errors = {}, []
    for file, here in by_file.items():
        path = root / file
        if not path.exists():
            errors.append(f"{here[0].where}: there is no {file}")
            continue
        source = path.read_text(encoding="utf-8")
        changes = []
        for fault in here:
            try:
                changes.append(change_of(fault, source))
            except ListError as error:
                errors.append(str(error))
        out[file] = render(source, changes, 0, len(source))
    if errors:
        raise ListError("\n".join(errors))
    return out


def test_cases(root):
    """Returns the names of the GoogleTest and unittest cases in the sources: Suite.Name."""
    cases = set()
    for path in (root / "tests").rglob("*_test.*"):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".cpp":
            cases.update(f"{suite}.{name}" for suite, name in
                         re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text, re.M))
        elif path.suffix == ".py":
            for part in re.split(r"^class ", text, flags=re.M)[1:]:
                suite = re.match(r"\w+", part)[0]
                cases.update(f"{suite}.{name}" for name in
                             re.findall(r"^    def (test_\w+)", part, re.M))
    return cases


def check_tests(root, faults):
    """Raises an error for tests that the sources do not have. The names of others than cases (without
    a dot) are only known to a build."""
    cases, errors = test_cases(root), []
    for fault in faults:
        for test in fault.tests:
            case = next((part for part in test.split("/") if "." in part), None)
            if case is not None and not fnmatch.filter(cases, case):
                errors.append(f"{fault.where}: {fault.name}: there is no test {test}")
    if errors:
        raise ListError("\n".join(errors))


def copy_sources(folder, changed):
    """Makes `folder` a copy of the sources with the changed files. Files that stay the same keep
    their time, so that only the others are built again."""
    wanted = {}
    for name in COPIED:
        path = ROOT / name
        files = [path] if path.is_file() else (each for each in path.rglob("*") if each.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                wanted[str(file.relative_to(ROOT))] = file
    for name, file in wanted.items():
        content = changed[name].encode() if name in changed else file.read_bytes()
        to = folder / name
        if to.exists() and to.read_bytes() == content:
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
        shutil.copymode(file, to)
    for path in list(folder.rglob("*")):
        if path.is_file() and str(path.relative_to(folder)) not in wanted:
            path.unlink()


def configure(source):
    """Configures a copy of the sources. Its build folder is the parent of the copy, so the preset is
    hidden elsewhere."""
    subprocess.run(["cmake", "--preset", "mutations", "-Wno-dev"], cwd=source, check=True,
                   env=os.environ | {"IPOIB_MUTATED_SOURCES": "1"}, stdout=subprocess.DEVNULL)


def build(folder, targets):
    """Builds the targets below `folder`. The sources have the faults of all areas, so that one build
    serves all, and names all faults that do not compile."""
    source = folder / "source"
    copy_sources(source, mutated(ROOT, read_areas(areas())[1]))
    configure(source)
    subprocess.run(["cmake", "--build", str(folder), "--parallel", str(os.cpu_count()),
                    "--target", *targets, "--", "-k", "0"], check=True)


class Tests:
    """The tests of a build folder, as ctest would run them."""

    def __init__(self, folder):
        shown = subprocess.run(["ctest", "--test-dir", str(folder), "--show-only=json-v1"],
                               check=True, capture_output=True, text=True).stdout
        self.by_name = {each["name"]: each for each in json.loads(shown)["tests"]}
        self.seconds = {}  # of the tests without a fault
        self.spent = collections.Counter()  # seconds of each test with all its faults

    def matching(self, patterns):
        """Returns the names of the tests that match a pattern."""
        return [name for name in self.by_name if any(fnmatch.fnmatchcase(name, pattern)
                                                     for pattern in patterns)]

    def run(self, name, fault=""):
        """Returns "passed", "skipped", "failed" or "timed out"."""
        begin = time.monotonic()
        result = self._run(name, fault)
        if result == "timed out":  # once more: the machine may have been busy
            result = self._run(name, fault)
        if fault:
            self.spent[name] += time.monotonic() - begin
        else:
            self.seconds[name] = time.monotonic() - begin
        return result

    def _run(self, name, fault):
        test = self.by_name[name]
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        environment = dict(os.environ)
        environment.update(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        environment[VARIABLE] = fault
        environment["GTEST_FAIL_FAST"] = "1"
        limit = min(LIMIT, SHORT_LIMIT + 20 * self.seconds.get(name, LIMIT))
        return run_command(test["command"], environment, properties.get("WORKING_DIRECTORY"),
                           limit=limit)

    def slowest(self):
        """Returns the tests that took most of the time: a line for each."""
        return [f"{seconds:8.0f} s  {name}" for name, seconds in self.spent.most_common(SLOWEST)]


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


def run_command(command, environment, folder=None, output=subprocess.DEVNULL, limit=None):
    """Runs a command with a time limit (LIMIT). Ends what it has started."""
    limited = ["prlimit", f"--as={MEMORY}", *command]
    mark = f"{os.getpid()}.{next(RUNS)}"
    environment = {**(environment or os.environ), RUN: mark}
    with subprocess.Popen(limited, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=output, stderr=subprocess.DEVNULL,
                          start_new_session=True) as process:
        try:
            status = process.wait(LIMIT if limit is None else limit)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if status is None:
        end_processes(f"{RUN}={mark}")
        return "timed out"
    return {0: "passed", SKIPPED: "skipped"}.get(status, "failed")


def check_baseline(tests, faults, pool):
    """Without a fault all named tests must pass. Returns those that cannot run here."""
    named = set()
    for fault in faults:
        for pattern in fault.tests:
            found = tests.matching([pattern])
            if not found:
                raise ListError(f"{fault.where}: no test {pattern}")
            named.update(found)
    results = dict(zip(sorted(named), pool.map(tests.run, sorted(named))))
    failed = [name for name, result in results.items() if result not in ("passed", "skipped")]
    if failed:
        raise ListError(f"without a fault, these tests fail: {' '.join(failed)}")
    return {name for name, result in results.items() if result == "skipped"}


def judge(tests, skipped, fault):
    """Returns the result of a fault: "caught", "survived" or "not run", and by what."""
    names = [name for name in tests.matching(fault.tests) if name not in skipped]
    for name in names:
        result = tests.run(name, fault.name)
        if result in ("failed", "timed out"):
            return "caught", f"{name}{' (time-out)' if result == 'timed out' else ''}"
    if fault.tests and not names:
        return "not run", "its tests cannot run here"
    return "survived", fault.reason or "no reason given"


def run(names, folder):
    """Runs the areas; returns the exit status."""
    targets, faults = read_areas(names or areas())
    build(folder, targets)
    tests = Tests(folder)
    counts = collections.defaultdict(collections.Counter)
    unexplained = 0
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        skipped = check_baseline(tests, faults, pool)
        for fault, (result, why) in zip(faults, pool.map(
                lambda each: judge(tests, skipped, each), faults)):
            counts[fault.name.split(".")[0]][result] += 1
            unexplained += result == "survived" and not fault.reason
            if result != "caught":
                print(f"{result}: {fault.name} ({fault.file}): {why}", flush=True)
    print("\ntests that took most of the time:", *tests.slowest(), sep="\n")
    return summarize(counts, unexplained, time.monotonic() - begin)


def summarize(counts, unexplained, seconds):
    """Prints a table of the areas; returns the exit status."""
    total = sum(counts.values(), collections.Counter())
    print(f"\n{'area':16}{'caught':>8}{'survived':>10}{'not run':>9}")
    for area, count in [*sorted(counts.items()), ("all", total)]:
        print(f"{area:16}{count['caught']:8}{count['survived']:10}{count['not run']:9}")
    judged = total["caught"] + total["survived"]
    share = total["caught"] / judged if judged else 0
    print(f"{share:.1%} of {judged} faults caught in {seconds:.0f} s; "
          f"{unexplained} survivors without a reason")
    return int(share < SHARE or unexplained != 0)


def failures(program, folder, fault=""):
    """Returns the tests of a GoogleTest program that fail, and the one that ends it."""
    report = folder / f"find-{fault}-{program.name}.log"
    with open(report, "wb") as output:
        result = run_command([str(program)], os.environ | {VARIABLE: fault}, output=output)
    text = report.read_text(encoding="utf-8", errors="replace")
    report.unlink()
    tests = re.findall(r"^\[  FAILED  \] (\S+\.[\w/]+)", text, re.M)
    if result != "passed" and not tests:
        tests = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)[-1:]
    label = program.name.split("_")[0]  # sim, unit or netns
    names = [re.sub(r"/\d+$", "/*", test) for test in tests]  # of all its parameters
    return [f"{label}/{name}" for name in dict.fromkeys(names)]


def find(names, folder):
    """Prints which tests of its area's unit and sim programs catch a fault: those of the first
    program that does."""
    _, faults = read_areas(areas())
    if names == ["--new"]:
        wanted = [each for each in faults if not each.tests and not each.reason]
    else:
        wanted = [each for each in faults if any(fnmatch.fnmatchcase(each.name, name)
                                                 for name in names)]
    used = sorted({each.name.split(".")[0] for each in wanted})
    programs = {area: [folder / "tests" / each for each in read_areas([area])[0]]
                for area in used}
    build(folder, read_areas(used)[0])

    def catchers(fault):
        for program in programs[fault.name.split(".")[0]]:
            found = [test for test in failures(program, folder, fault.name)
                     if test not in broken[program]]
            if found:
                return found
        return []

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        every = sorted({program for some in programs.values() for program in some})
        broken = dict(zip(every, pool.map(lambda each: failures(each, folder), every)))
        for fault, found in zip(wanted, pool.map(catchers, wanted)):
            print(f"{fault.name}: {' '.join(found[:6]) or 'SURVIVES'}"
                  f"{f' and {len(found) - 6} more' if len(found) > 6 else ''}", flush=True)
    return 0


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "run", "find"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "mutations")
    parser.add_argument("--new", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.command == "run":
            return run(arguments.names, arguments.folder)
        if arguments.command == "find":
            return find(["--new"] if arguments.new else arguments.names, arguments.folder)
        _, faults = read_areas(areas())
        mutated(ROOT, faults)
        needed = re.findall(r"^ *add_subdirectory\(([\w-]+)",
                            (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)
        if not set(needed) <= set(COPIED):
            raise ListError(f"the copy lacks {set(needed) - set(COPIED)}, which cmake needs")
        check_tests(ROOT, faults)
        missing = [each.name for each in faults if not each.tests and not each.reason]
        if missing:
            raise ListError(f"without 'caught by' or 'survives': {' '.join(missing)}")
        print(f"{len(faults)} faults fit the sources")
        return 0
    except ListError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
