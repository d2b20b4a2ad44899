#!/usr/bin/env python3
"""Compares manual pages with programs and headers.

Usage: man_pages.py program PAGE PROGRAM [SUBCOMMAND...]
           each option of --help, of the program and its subcommands, has an item in the page, and
           vice versa; a default in --help is in the item
       man_pages.py parser PROGRAM [SUBCOMMAND...]
           the program and each subcommand accept the options of their --help and no others, and
           exit with 2 for an unknown one
       man_pages.py library PAGE HEADER
           each function of the header has its prototype in the page, and vice versa
       man_pages.py --self-test
"""
import re
import string
import struct
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


# --- What a parser accepts --------------------------------------------------------------------

NO_SUCH_OPTION = "no-such-option"


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=30)


def says_unknown(stderr, option):
    """Whether a program says that the option is unknown, in the words of program_options, of ibarp, or
    of softib without a subcommand."""
    return bool(re.search(rf"(unrecognised|unknown) option '{option}(=1)?'|"
                          rf"the option {option}(=1)? is unknown", stderr))


def accepts_name(command, name):
    """Whether --name is an option. The value is for options that take one; others complain about it,
    but not that they are unknown. With --help nothing else is done."""
    return not says_unknown(run(command + [f"--{name}=1", "--help"]).stderr, f"--{name}")


def accepts_letter(command, letter):
    """Whether -letter is an option. program_options does not take --help as its value; ibarp does, and
    fails."""
    return not says_unknown(run(command + [f"-{letter}", "--help"]).stderr, f"-{letter}")


def constants_of(program):
    """Returns the bytes of the read-only data of an ELF file (64 bits, little-endian)."""
    with open(program, "rb") as file:
        data = file.read()
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3a)
    sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    found = b""
    for name, _, _, _, begin, length in sections:
        if data[sections[names][4] + name:].startswith(b".rodata"):
            found += b"\0" + data[begin:begin + length]
    return found


def possible_names(constants):
    """Returns the strings that may be the name of a long option: "name" or "name,n"."""
    found = re.findall(rb"(?<=\0)([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?=(?:,\w)?\0)", constants)
    return {name.decode() for name in found}


def compare_parser(command, names, letters):
    """Compares the options of --help with what the parser accepts: these names and letters."""
    documented = set(options_of(help_of(command)))
    words = {option[2:] for option in documented if option.startswith("--")}
    for word in sorted(words | names):
        accepted = accepts_name(command, word)
        if word in words and not accepted:  # a parser that compares whole words
            accepted = not says_unknown(run(command + [f"--{word}", "--help"]).stderr, f"--{word}")
        if word in words and not accepted:
            yield f"--{word} of --help is not accepted"
        # Both parsers accept unambiguous abbreviations.
        if accepted and not any(each.startswith(word) for each in words):
            yield f"--{word} is accepted, but not in --help"
    for letter in letters:
        accepted = accepts_letter(command, letter)
        if accepted != (f"-{letter}" in documented) and not (
                accepted and any(each.startswith(letter) for each in words)):
            yield f"-{letter} is in only one of --help and the parser"
    done = run(command + ["--" + NO_SUCH_OPTION])
    if done.returncode != 2 or not done.stderr or done.stdout:
        yield f"--{NO_SUCH_OPTION}: status {done.returncode}, {done.stderr!r}, {done.stdout!r}"


def compare_parsers(program, subcommands):
    """The program is tried with all letters and all its strings that may be names, a subcommand with the options of
    all."""
    constants = constants_of(program)
    commands = [[program]] + [[program, each] for each in subcommands]
    options = {each for command in commands for each in options_of(help_of(command))}
    documented = {each[2:] for each in options if each.startswith("--")}
    documented_letters = {each[1:] for each in options if not each.startswith("--")}
    for command in commands:
        names, letters = documented, documented_letters
        if len(command) == 1:
            names, letters = documented | possible_names(constants), string.ascii_letters + string.digits
        for line in compare_parser(command, names, letters):
            yield " ".join(command[1:] + [line])
    # A linker may store a name as the end of another string.
    missing = sorted(name for name in documented
                     if not re.search(name.encode() + rb"(?:,\w)?\0", constants))
    if missing:
        yield f"the names of options are not found in the program: {missing}"


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
        names = possible_names(b"\0one\0two-three,t\0Not\0not this\0-x\0four\0")
        if names != {"one", "two-three", "four"}:
            found.append(f"possible names: {names}")
    elif what == "parser":
        found = list(compare_parsers(sys.argv[2], sys.argv[3:]))
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
