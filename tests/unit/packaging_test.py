#!/usr/bin/env python3
"""Compares what the packages say with what they contain: versions, and the symbols of libibarp."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def first(pattern, path):
    return re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)[1]


class Packaging(unittest.TestCase):
    def test_versions_agree(self):
        version = first(r"^project\(ipoibd VERSION ([0-9.]+)", "CMakeLists.txt")
        self.assertEqual(first(r"^ipoibd \(([0-9.]+)-[0-9]+\)", "debian/changelog"), version)
        self.assertEqual(first(r"^## ([0-9.]+)", "docs/changelog.md"), version)

    def test_symbols_file_is_complete(self):
        exported = re.findall(r"^ +(ibarp_\w+);",
                              (ROOT / "src/control/libibarp.map").read_text(encoding="utf-8"), re.MULTILINE)
        symbols = re.findall(r"^ (ibarp_\w+)@",
                             (ROOT / "debian/libibarp0.symbols").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(exported), 20)
        self.assertEqual(symbols, exported)


if __name__ == "__main__":
    unittest.main(verbosity=2)
