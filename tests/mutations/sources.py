"""The copy of the sources that has the faults of a sample, each behind a switch, and how it is compiled."""
import collections
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "completion", "contrib", "docs", "examples", "include",
          "man", "python", "scripts", "src", "systemd", "tests"]
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|(?<![0-9a-fA-F])'(?:\\[^']+|\\'|[^'\\])'|.""", re.S)
ERROR = re.compile(r"^(?:In file included from )?\S*?/source/((?:src|include)/\S+?):(\d+)", re.M)


class Fault(typing.NamedTuple):
    """One change. In C++, a switch takes the place of source[begin:end], an expression or a statement with its
    semicolon, and chooses between it and the same text with `new` in place of source[at:to]."""

    file: str
    line: int
    function: str
    lines: tuple  # of the function, the first and the last
    kind: str
    begin: int
    end: int
    at: int
    to: int
    new: str
    is_statement: bool


class SourceError(Exception):
    """Sources that cannot be compiled, or a file that does not fit them."""


@functools.cache
def read(file):
    """Returns the source below ROOT. An offset into it is a number of bytes, as clang counts."""
    return (ROOT / file).read_text(encoding="latin-1")


def one_line(text):
    """Returns the text in one line, without comments."""
    kept = (" " if token[:2] in ("//", "/*") or token == "\n" else token for token in TOKEN.findall(text))
    return re.sub(r"\s+", " ", "".join(kept)).strip()


def before_and_after(fault):
    """Returns the lines that the fault changes, and what they become, each as one line."""
    source = read(fault.file)
    begin = source.rfind("\n", 0, fault.at) + 1
    end = source.find("\n", max(fault.to - 1, fault.at))
    return one_line(source[begin:end]), one_line(source[begin:fault.at] + fault.new + source[fault.to:end])


def is_python(fault):
    """Whether the fault is in Python, which needs neither a switch nor a compiler."""
    return fault.file.endswith(".py")


def overlaps(one, other):
    """Whether the places of two faults overlap, and none is in the other."""
    first, second = sorted((one, other), key=lambda each: (each.begin, -each.end))
    return one.file == other.file and first.end > second.begin and second.end > first.end


def render(source, numbered, begin=0, end=None):
    """Returns source[begin:end] with the faults, pairs of number and fault, each behind its switch. The lines keep
    their numbers."""
    end = len(source) if end is None else end
    out, at = [], begin
    todo = sorted(numbered, key=lambda each: (each[1].begin, -each[1].end))
    while todo:
        number, fault = todo[0]
        inner = [each for each in todo[1:] if each[1].begin < fault.end]
        todo = [each for each in todo[1:] if each[1].begin >= fault.end]
        after = one_line(source[fault.begin:fault.at] + fault.new + source[fault.to:fault.end])
        before = render(source, inner, fault.begin, fault.end)
        active = f"::ipoib_mutation::active({number})"
        form = "({0} ? ({1}) : ({2}))"
        if fault.is_statement:
            form = "{{ if ({0}) {{ {1} }} else {{ {2} }} }}"
        elif fault.kind in ("condition", "operand"):  # else a bool would become an optional number
            form = "({0} ? static_cast<bool>({1}) : static_cast<bool>({2}))"
        out += [source[at:fault.begin], form.format(active, after, before)]
        at = fault.end
    return "".join(out) + source[at:end]


def mutated(numbered):
    """Returns {file: its text with these faults}, which are pairs of number and fault."""
    by_file = collections.defaultdict(list)
    for each in numbered:
        by_file[each[1].file].append(each)
    return {file: render(read(file), here) for file, here in by_file.items()}


def at_fault(errors, faults):
    """Returns the faults that have caused errors, each a set of places (file and line) that it names: those whose lines
    are among them; or if none is, since a function lacks a return statement, those in the same function."""
    by_file = collections.defaultdict(list)
    for fault in faults:
        by_file[fault.file].append(fault)

    def those(places, lines_of):
        return {fault for file, line in places for fault in by_file[file]
                if lines_of(fault)[0] <= line <= lines_of(fault)[1]}

    return set().union(*(those(places, switched_lines) or those(places, lambda fault: fault.lines) for places in errors))


@functools.cache
def switched_lines(fault):
    """Returns the first and last line of what the switch of a fault chooses."""
    source = read(fault.file)
    return source.count("\n", 0, fault.begin) + 1, source.count("\n", 0, fault.end) + 1


def copy(folder, changed):
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
        content = changed[name].encode("latin-1") if name in changed else file.read_bytes()
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


def units(folder):
    """Returns the translation units of src/ in a build folder: {path: arguments of the compiler}. As they are merged,
    there are few."""
    found = {}
    for each in json.loads((folder / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(each["command"])
        first = next(index for index, word in enumerate(words) if "clang" in word) + 1
        arguments = [word for word in words[first:words.index("-o")] if word != "-w"]
        if f"{folder}/src/" in each["file"] or f"{folder}/source/src/" in each["file"]:
            found[each["file"]] = arguments
    return found


def concerned(folder, faults):
    """Returns the targets of tests that are made of a library in which a fault is. What another target has left is
    removed, so that it is not run."""
    def ask(*words):
        return subprocess.run(["ninja", "-C", folder, "-t", *words], check=True, capture_output=True, text=True).stdout

    parts = [pathlib.Path(fault.file).parts for fault in faults]
    folders = {"/".join(each[:3 if each[1] == "softib" else 2]) for each in parts}
    is_anywhere = any(each.startswith(("include/", "python/")) for each in folders)
    found = []
    for target in re.findall(r"^((?:unit|sim)_\w+|programs): phony$", ask("targets", "all"), re.M):
        inputs = ask("inputs", target)
        if is_anywhere or any(f"{each}/" in inputs for each in folders):
            found.append(target)
        else:
            (folder / "tests" / target).unlink(missing_ok=True)
    return found


def build(folder, faults):
    """Builds the tests with the faults, which are numbered from 1; leaves out those that do not compile after all.
    Returns the others, by number."""
    source = folder / "source"
    kept = dict(enumerate(faults, 1))
    targets = concerned(folder, faults)
    while True:
        copy(source, mutated((number, fault) for number, fault in kept.items() if not is_python(fault)))
        if not targets:
            return kept
        done = subprocess.run(["cmake", "--build", folder, "--parallel", str(os.cpu_count()), "--target", *targets,
                               "--", "-k", "0"], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            return kept
        wrong = at_fault([{(file, int(line))} for file, line in set(ERROR.findall(done.stdout))], kept.values())
        if not wrong:
            raise SourceError(f"{done.stdout[-4000:]}\nthe copy with faults does not compile")
        kept = {number: fault for number, fault in kept.items() if fault not in wrong}
