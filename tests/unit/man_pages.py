#!/usr/bin/env python3
"""Compares manual pages with programs and headers.

Usage: man_pages.py program PAGE PROGRAM [SUBCOMMAND...]
           each option of --help, of the program and its subcommands, has an item in the page, and
           vice versa; a default in --help is in the item
       man_pages.py library PAGE HEADER
           each function of the header has its prototype in the page, and vice versa
       man_pages.py --self-test
"""
import re
import subprocess
import sys


def options_of(text):
    """Returns option -> default or None, from lines "  -x, --name ARG (=default)" of --help."""
    found = {}
    for line in text.splitlines():
        line = re.sub(r"^(\s+-\w) \[ (--[\w-]+) \]", r"\1, \2", line)  # the format of program_options
        match = re.match(r"\s{1,4}(-\w)?(?:, )?(--[\w-]+)?(?=\W|$)", line)
        names = [name for name in match.groups() if name] if match else []
        default = re.search(r"\(=([^)]+)\)", line)
        for name in names:
            found[name] = default[1] if default else None
    return found


def items_of(page):
    """Returns the items "Fl x" of an mdoc page and their text."""
    found, names = {}, []
    for line in page.splitlines():
        if line.startswith(".It "):
            names = re.findall(r"\bFl (-?[\w-]+)", line)
            names = ["-" + name for name in names]
            for name in names:
                found.setdefault(name, "")
        elif line.startswith((".El", ".Sh", ".Ss")):
            names = []
        for name in names:
            found[name] += line + "\n"
    return found


def compare_options(help_text, page):
    options, items = options_of(help_text), items_of(page)
    for name in sorted(set(options) - set(items)):
        yield f"{name} of --help has no item in the page"
    for name in sorted(set(items) - set(options)):
        yield f"{name} of the page is not in --help"
    for name in sorted(set(items) & set(options)):
        if options[name] and not re.search(rf"\b{re.escape(options[name])}\b", items[name]):
            yield f"{name}: its default, {options[name]}, is not in the page"


def compare_functions(header, page):
    declared = set(re.findall(r"^(?:\w+_API|static inline) [^;(]*?(\w+)\(", header, re.MULTILINE))
    names = set(re.findall(r"^\.Nm (\w+)", page, re.MULTILINE))
    prototypes = set(re.findall(r'^\.Fn (\w+) "', page, re.MULTILINE))
    for what, there in (("name", names), ("prototype", prototypes)):
        for name in sorted(declared - there):
            yield f"{name} has no {what} in the page"
        for name in sorted(there - declared):
            yield f"{name}, a {what} of the page, is not in the header"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def help_of(command):
    done = subprocess.run(command + ["--help"], capture_output=True, text=True, timeout=30)
    if done.returncode != 0 or not done.stdout:
        raise SystemExit(f"{command} --help: status {done.returncode}, {done.stderr}")
    return done.stdout


SELF_TEST = [
    ("  --one N (=7)   x\n", ".It Fl -one Ar n\nThe default is 7.\n.El\n", 0),
    ("  --one N (=7)   x\n", ".It Fl -one Ar n\nThe default is 77.\n.El\n", 1),
    ("  -o, --one   x\n", ".It Fl o , Fl -one\n.El\n", 0),
    ("  -o [ --one ] x\n", ".It Fl o , Fl -one\n.El\n", 0),
    ("  --one x\n  --two x\n", ".It Fl -one\n.El\n", 1),
    ("  --one x\n                 --two is said in passing\n", ".It Fl -one\n.El\n", 0),
    ("  --one x\n", ".It Fl -one\n.It Fl -two\n.El\n", 1),
    ("Options\n  - not one\n", ".It Cm one\n", 0),
]


def main():
    what = sys.argv[1]
    if what == "--self-test":
        found = [f"{text!r} {page!r}: found {list(compare_options(text, page))}"
                 for text, page, count in SELF_TEST
                 if len(list(compare_options(text, page))) != count]
    elif what == "program":
        page, program, *subcommands = sys.argv[2:]
        texts = [help_of([program])] + [help_of([program, each]) for each in subcommands]
        found = list(compare_options("\n".join(texts), read(page)))
    else:
        page, header = sys.argv[2:]
        found = list(compare_functions(read(header), read(page)))
    print("\n".join(found) if found else "no differences")
    sys.exit(1 if found else 0)


main()
