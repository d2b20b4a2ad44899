#!/bin/sh
# Fails if clang-format would change a C or C++ source, and prints where.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
if ! command -v clang-format-16 >/dev/null; then
  echo "skipped: clang-format-16 is not installed"
  exit 77
fi
find include src tests -name '*.[hc]' -o -name '*.[hc]pp' | xargs -P 2 -n 50 clang-format-16 --dry-run -Werror
