#!/usr/bin/env python3
"""Writes the declarations of ibarp.h for cffi, which knows no preprocessor.

Usage: declarations.py HEADER OUTPUT
"""
import re
import sys


def declarations(header):
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    constants = re.findall(r"^#define (IBARP_\w+) (0x[0-9a-f]+|\d+)u?\s*$", text, re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = text.replace("IBARP_API ", "").replace('extern "C" {', "")
    text = text[:text.rindex("}")]  # of extern "C"
    for name, value in constants:
        text = re.sub(rf"\[{name}\]", f"[{int(value, 0)}]", text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    defines = [f"#define {name} {int(value, 0)}" for name, value in constants]
    return "\n".join(defines + lines)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = declarations(file.read())
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(f'"""The declarations of ipoib/ibarp.h."""\n\nDECLARATIONS = """\n{text}\n"""\n')


if __name__ == "__main__":
    main()
