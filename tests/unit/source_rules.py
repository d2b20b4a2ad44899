#!/usr/bin/env python3
"""Checks the rules of the source tree: includes between folders, byte order, documents.

Each check yields lines "file:line: what is wrong".

Usage: source_rules.py [ROOT] | --self-test
"""
import fnmatch
import pathlib
import re
import sys
import tempfile

# --- Files ------------------------------------------------------------------------------------

CODE = {".hpp", ".h", ".cpp", ".c"}
TEXT = CODE | {".md", ".py", ".sh", ".txt", ".cmake", ".map", ".in", ".1", ".3", ".5", ".8"}


def files(root, folders, suffixes):
    """Yields (path relative to root, path) of the files below some folders."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes:
                yield path.relative_to(root).as_posix(), path


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


# --- Includes between folders -----------------------------------------------------------------


def layers(root):
    """Reads the table of docs/architecture.md: folder -> text of the column "may use"."""
    rows = {}
    for line in lines(root / "docs/architecture.md"):
        row = re.fullmatch(r"\| `([^`]*/)`[^|]* \|.*\| ([^|]*) \|", line)
        if row:
            folder = row[1].removeprefix("src/").rstrip("/")
            rows["base" if folder == "include/ipoib" else folder] = row[2].strip()
    return rows


def allowed(rows):
    """Returns folder -> all folders that it may include from, directly or not, and itself."""
    everything = set(rows)

    def closure(folder):
        words = rows[folder]
        if words == "-":
            return {folder}
        if words.startswith("all but "):
            without = tuple(words.removeprefix("all but ").split(", "))
            return {f for f in everything if not f.startswith(without)}
        if words.startswith("control's installed header"):
            out = {folder, "ibarp.h"}
            words = words.removeprefix("control's installed header").removeprefix(", ")
        else:
            out = {folder, "base"}
        for below in filter(None, words.split(", ")):
            out |= closure(below)
        # A program that is written for the C library does without the types of base.
        return out - {"base"} if "ibarp.h" in out else out

    return {folder: closure(folder) for folder in rows}


def folder_of(path, folders):
    """Returns the folder of the table that a source path or an include belongs to; None if none."""
    if path.startswith("ipoib/") or path.startswith("include/ipoib/"):
        return "base"
    path = path.removeprefix("src/")
    below = [f for f in folders if path.startswith(f + "/")]
    return max(below, key=len) if below else None


def check_includes(root):
    rows = layers(root)
    if len(rows) < 10:
        yield "docs/architecture.md:1: cannot read the table of layers"
        return
    may = allowed(rows)
    for name, path in files(root, ["include/ipoib", "src"], CODE):
        own = folder_of(name, rows)
        if own is None:
            yield f"{name}:1: its folder is not in the table of docs/architecture.md"
            continue
        for number, line in enumerate(lines(path), 1):
            include = re.match(r'#\s*include\s*["<]([^">]+)[">]', line)
            if not include:
                continue
            target = include[1]
            # <linux/...> are kernel headers.
            other = None if "<linux/" in line else folder_of(target, rows)
            if target == "ipoib/ibarp.h" and "ibarp.h" in may[own]:
                continue
            if other is not None and other not in may[own]:
                yield f"{name}:{number}: {own} may not include {target}"


# Headers and functions that only some folders may use: pattern, name, folders.
PRIVATE = [
    (r'#\s*include\s*<infiniband/', "verbs and MADs",
     {"verbs", "softib/hca", "softib/umad", "softib/verbs"}),
    (r"#\s*include\s*<netlink/", "netlink", {"linux", "ibarp"}),
    (r"#\s*include\s*<boost/asio", "an event loop",
     {"control", "daemon", "daemon/acm", "daemon/interfaces", "daemon/process", "lines", "linux", "softib/control",
      "softib/subnetd", "softib/cli"}),
    (r"#\s*include\s*<boost/json", "JSON",
     {"control", "ibarp", "softib/control", "softib/subnetd", "softib/cli"}),
    (r"#\s*include\s*<prometheus/", "the library for metrics", {"metrics"}),
    (r"(steady|system|high_resolution)_clock::now|\b(clock_gettime|monotonic_now)\b", "a clock",
     {"base", "control", "daemon", "daemon/acm", "daemon/interfaces", "daemon/process", "daemon/pump", "ibarp",
      "linux", "verbs", "softib/transport", "softib/endpoint", "softib/umad", "softib/ucma",
      "softib/verbs", "softib/subnetd", "softib/cli"}),
    (r"\bstd::(thread|jthread|mutex)\b", "threads",
     {"program", "control", "daemon", "daemon/options", "daemon/process", "daemon/pump", "linux", "verbs",
      "softib/transport", "softib/roce", "softib/endpoint", "softib/umad", "softib/ucma",
      "softib/verbs", "softib/view", "softib/subnetd"}),
]


def check_private(root):
    rows = layers(root)
    for name, path in files(root, ["include/ipoib", "src"], CODE):
        own = folder_of(name, rows)
        for number, line in enumerate(lines(path), 1):
            for pattern, what, who in PRIVATE:
                if re.search(pattern, line) and own not in who:
                    yield f"{name}:{number}: {own} may not use {what}"


# --- Byte order, unfinished work, exports of the C library ------------------------------------

BYTE_ORDER = (r"\b(hton[sl]|ntoh[sl]|htobe(16|32|64)|htole(16|32|64)|be(16|32|64)toh|"
              r"le(16|32|64)toh|bswap_(16|32|64)|__builtin_bswap(16|32|64))\b|"
              r"\bpacked\b|#\s*pragma\s+pack")


def without_comment(line):
    return line.split("//")[0]


def check_byte_order(root):
    for name, path in files(root, ["include", "src"], CODE):
        if name == "include/ipoib/bytes.hpp":
            continue
        for number, line in enumerate(lines(path), 1):
            if re.search(BYTE_ORDER, without_comment(line)):
                yield f"{name}:{number}: byte order conversions belong in include/ipoib/bytes.hpp"


# Other users write in a subnet's folder, so what is there is opened in one way.
BY_PATH = r"(?<!\w)::(open|openat|creat|fopen|connect|chmod|fchmodat|truncate|mkfifo|mkfifoat)\("
BY_PATH_IN = {
    "fabric/shared_file.cpp": "the way",
    "topology/net_loader.cpp": "a file that the user names, and no file of a subnet",
    "endpoint/capture_file.cpp": "descriptors of the process itself; files by base/output_file.cpp",
    "cli/capture_target.cpp": "a named pipe that the user names, and no file of a subnet",
    "ucma/ipoib_addresses.cpp": "a UDP socket",
    "cli/launch.cpp": "programs",
    "cli/roce_command.cpp": "/dev/null",
    "verbs/sysfs.cpp": "/sys",
}


def check_shared_folders(root):
    for name, path in files(root, ["src/softib"], CODE):
        if name.removeprefix("src/softib/") in BY_PATH_IN:
            continue
        for number, line in enumerate(lines(path), 1):
            if re.search(BY_PATH, without_comment(line)):
                yield f"{name}:{number}: files of a subnet are opened by src/softib/fabric/shared_file.hpp"


UNFINISHED = r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|not (yet )?impl" + r"emented"


def check_unfinished(root):
    folders = ["include", "src", "tests", "docs", "man", "completion", "scripts", "cmake"]
    for name, path in files(root, folders, TEXT):
        for number, line in enumerate(lines(path), 1):
            if re.search(UNFINISHED, line, re.IGNORECASE if "impl" in line.lower() else 0):
                yield f"{name}:{number}: unfinished"


def check_exports(root):
    """Checks that libibarp exports exactly what ibarp.h declares."""
    header = (root / "include/ipoib/ibarp.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^IBARP_API [^;(]*?(\w+)\(", header, re.MULTILINE))
    script = (root / "src/control/libibarp.map").read_text(encoding="utf-8")
    exported = set(re.findall(r"^\s+(ibarp_\w+);", script, re.MULTILINE))
    for name in sorted(declared ^ exported):
        where = "is not exported" if name in declared else "is not declared in ibarp.h"
        yield f"src/control/libibarp.map:1: {name} {where}"


def check_installed(root):
    """Checks that the installed headers, which are the *.h of include/, need no internal one."""
    for name, path in files(root, ["include"], {".h"}):
        for number, line in enumerate(lines(path), 1):
            if re.match(r'\s*#\s*include\s*(?:"|<ipoib/)', line):
                yield f"{name}:{number}: an installed header includes an internal one"


# --- Conformance tables: each row names existing tests, or gives a reason ---------------------


CONFORMANCE = "docs/rfc-conformance.md"


def tests_of(root):
    """Yields the names of tests as ctest lists them: label/Suite.Name."""
    for name, path in files(root, ["tests"], {".cpp", ".py"}):
        label = name.split("/")[1]
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".cpp":
            for suite, case in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.MULTILINE):
                yield f"{label}/{suite}.{case}"
            continue
        suite = None
        for kind, word in re.findall(r"^(class|    def) (\w+)", text, re.MULTILINE):
            if kind == "class":
                suite = word
            elif word.startswith("test_"):
                yield f"{label}/{suite}.{word}"


def check_conformance(root):
    known, rows = set(tests_of(root)), 0
    for number, line in enumerate(lines(root / CONFORMANCE), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("section", "---"):
            continue
        rows += 1
        named = re.findall(r"`((?:unit|sim|netns|interop|kernel_peer)/[^`]+)`", line)
        if len(cells) != 3 or not (named or cells[2].startswith(("does not apply: ", "not yet: "))):
            yield f"{CONFORMANCE}:{number}: names no test and gives no reason"
        for name in named:
            if name not in known:
                yield f"{CONFORMANCE}:{number}: there is no test {name}"
    if rows < 10:
        yield f"{CONFORMANCE}:1: cannot read the tables"


# --- Documents: the files, tests and fuzz targets that they name exist --------------------------


def readmes(root):
    """Yields the README.md files that are about a folder of src/."""
    yield from sorted((root / "src").rglob("README.md"))


def named_files(line, in_src):
    """Yields the files that a line names: all that have a path and, in a folder of src/, sources by name."""
    yield from re.findall(r"`((?:src|include|tests|docs|scripts|man|cmake|softib)/[\w./-]+)`", line)
    if in_src:
        yield from re.findall(r"`([\w./*-]+\.(?:hpp|cpp|h|map))`", line)


def check_documents(root):
    known = set(tests_of(root))
    targets = {path.name.removesuffix("_fuzz.cpp") for path in root.glob("tests/fuzz/*_fuzz.cpp")}
    of_src = list(readmes(root))
    for path in sorted([*root.glob("*.md"), *root.glob("docs/*.md"), *of_src]):
        folders = [root, root / "src"]
        if path in of_src:
            folders += [path.parent, path.parent.parent, root / "include/ipoib", root / "src/softib"]
            folders.append(root / "tests/unit" / path.parent.relative_to(root / "src"))
            folders.append(folders[-1].parent)
        for number, line in enumerate(lines(path), 1):
            where = f"{path.relative_to(root)}:{number}"
            for name in named_files(line, path in of_src):
                if not any((folder / name).exists() or any(folder.glob(name.rstrip("/"))) for folder in folders):
                    yield f"{where}: there is no {name}"
            for name in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
                if not (path.parent / name).exists():
                    yield f"{where}: the link leads nowhere: {name}"
            for name in re.findall(r"`((?:unit|sim|netns|interop|kernel_peer)/[\w/]+\.[\w*]+)`", line):
                if not fnmatch.filter(known, re.sub(r"/All/", "/", name)):
                    yield f"{where}: there is no test {name}"
            for names in re.findall(r"fuzz targets? ((?:`\w+`(?:, )?)+)", line):
                for name in re.findall(r"`(\w+)`", names):
                    if name not in targets:
                        yield f"{where}: there is no fuzz target {name}"


def check_readmes(root):
    """Checks that each folder of the table says what it is."""
    for folder in layers(root):
        if not (root / "src" / folder / "README.md").exists():
            yield f"src/{folder}/README.md:1: is missing"


def check_programs(root):
    """Compares the rows of docs/programs.md with the tests programs/*."""
    table, cmake = root / "docs/programs.md", root / "tests/interop/CMakeLists.txt"
    if not table.exists():
        return
    rows = re.findall(r"^\|.*\| `programs/(\w+)` \|$", table.read_text(encoding="utf-8"), re.MULTILINE)
    text = cmake.read_text(encoding="utf-8") if cmake.exists() else ""
    lists = re.findall(r"(?:set\(programs|APPEND programs) ([\w ]+)\)", text)
    lists += re.findall(r"foreach\(program ([\w ]+)\)\s+add_test\(NAME programs/", text)
    own = re.search(r"set\(own ([\w ]+)\)", text)
    tests = {word for words in lists for word in words.split()} - set(own[1].split() if own else ())
    tests = {name for name in tests if (root / f"tests/interop/{name}.py").exists()}
    for name in sorted(tests ^ set(rows)):
        where = "has no row" if name in tests else "is no test"
        yield f"docs/programs.md:1: programs/{name} {where}"


CHECKS = [check_includes, check_private, check_byte_order, check_shared_folders, check_unfinished,
          check_exports, check_installed, check_conformance, check_documents, check_readmes,
          check_programs]


# --- Self-test: each check finds a violation in a tree that has only that ---------------------

GOOD_ROWS = "| 1 | is required | does not apply: to no host |\n" * 10
VIOLATIONS = [
    (check_includes, "src/link/a.cpp", '#include "verbs/device.hpp"\n'),
    (check_includes, "src/sa/a.hpp", '#include "link/link.hpp"\n'),
    (check_includes, "src/softib/hca/a.cpp", '#include "softib/transport/wire.hpp"\n'),
    (check_includes, "src/link/cache/a.hpp", '#include "link/neighbour.hpp"\n'),
    (check_includes, "src/ibarp/a.cpp", '#include "ipoib/address.hpp"\n'),
    (check_includes, "include/ipoib/a.hpp", '#include "wire/arp.hpp"\n'),
    (check_includes, "src/ibarp/a.cpp", '#include "control/protocol.hpp"\n'),
    (check_includes, "src/daemon/a.cpp", '#include "table/table.hpp"\n'),
    (check_includes, "src/new/a.cpp", "\n"),
    (check_private, "src/link/a.cpp", "#include <infiniband/verbs.h>\n"),
    (check_private, "src/sa/a.cpp", "auto now = std::chrono::steady_clock::now();\n"),
    (check_byte_order, "src/link/a.cpp", "auto x = htons(1);\n"),
    (check_byte_order, "src/wire/a.hpp", "struct __attribute__((packed)) A {};\n"),
    (check_shared_folders, "src/softib/transport/a.cpp", "  if (::open(path, O_RDONLY) < 0) return;\n"),
    (check_shared_folders, "src/softib/cli/a.cpp", "  return ::connect(socket, address, size);\n"),
    (check_unfinished, "src/link/a.cpp", "// TO" "DO: later\n"),
    (check_unfinished, "man/a.8", "Not impl" "emented.\n"),
    (check_exports, "include/ipoib/ibarp.h", "IBARP_API int ibarp_new(void);\n"),
    (check_installed, "include/ipoib/a.h", '#include "ipoib/address.hpp"\n'),
    (check_installed, "include/infiniband/a.h", "# include <ipoib/time.hpp>\n"),
    (check_conformance, CONFORMANCE, GOOD_ROWS + "| 1 | is required | `unit/No.SuchTest` |\n"),
    (check_conformance, CONFORMANCE, GOOD_ROWS + "| 1 | is required | surely |\n"),
    (check_conformance, CONFORMANCE, GOOD_ROWS.splitlines()[0]),
    (check_documents, "README.md", "See `src/no/such.cpp`.\n"),
    (check_documents, "docs/a.md", "See `softib/no/such.cpp`.\n"),
    (check_documents, "docs/a.md", "By `unit/No.SuchTest`.\n"),
    (check_documents, "docs/a.md", "By `netns/NoSuchTest.*`.\n"),
    (check_documents, "docs/a.md", "By the fuzz targets `no_such_target`.\n"),
    (check_documents, "docs/a.md", "See [this](no-such.md#part).\n"),
    (check_documents, "src/link/README.md", "See `no_such.hpp`.\n"),
    (check_readmes, "src/link/a.cpp", "\n"),
    (check_programs, "docs/programs.md", "| x | y | z | `programs/no_such` |\n"),
]


def self_test(root):
    failed = 0
    for check, name, text in VIOLATIONS:
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            for needed in ["docs/architecture.md", "include/ipoib/ibarp.h",
                           "src/control/libibarp.map"]:
                (tree / needed).parent.mkdir(parents=True, exist_ok=True)
                (tree / needed).write_text((root / needed).read_text(encoding="utf-8"))
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
            found = [line for line in check(tree)
                     if line.startswith((name, "src/control/lib", "src/link/README"))]
            if not found:
                print(f"{check.__name__} does not find {name}: {text[:60]!r}")
                failed += 1
    return failed


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test(root) else 0)
    if len(sys.argv) > 1:
        root = pathlib.Path(sys.argv[1])
    found = [line for check in CHECKS for line in check(root)]
    print("\n".join(found) if found else "no violations")
    sys.exit(1 if found else 0)


main()
