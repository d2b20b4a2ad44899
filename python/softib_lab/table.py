"""Tables that fit a terminal, as src/table makes them for ibarp and softib."""

import textwrap

GAP = 2
INDENT = 4
LEAST_BROKEN = 20  # a column that is broken into lines of fewer characters is hard to read


def lines(headings, rows, width=None):
    """Returns the lines of a table, of at most `width` columns; None is no limit. If rows are longer,
    their last cells are broken at blanks; if that is not enough, each row becomes a block of lines.
    Only a cell without blanks can exceed the width."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    begin = sum(widths[:-1]) + GAP * len(widths[:-1])  # of the last column
    if not rows:
        width = None
    if width is not None and begin + widths[-1] > width:
        words = [word for row in [headings, *rows] for word in row[-1].split()]
        if begin + max(LEAST_BROKEN, *map(len, words)) > width:
            return [line for row in rows for line in _block(headings, row, width)]
    out = []
    for row in [headings, *rows]:
        start = "".join(cell.ljust(size + GAP) for cell, size in zip(row[:-1], widths))
        first, *more = _broken(row[-1], None if width is None else width - begin)
        out += [(start + first).rstrip(), *(" " * begin + line for line in more)]
    return out


def _broken(text, width):
    """The lines of a text; at least one."""
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _block(headings, row, width):
    out = [row[0]]
    line = ""
    for heading, cell in zip(headings[1:], row[1:]):
        field = f"{heading} {cell}"
        if line and INDENT + len(line) + GAP + len(field) <= width:
            line += " " * GAP + field
            continue
        if line:
            out.append(" " * INDENT + line)
        *full, line = _broken(field, width - INDENT) if len(field) > width - INDENT else [field]
        if full:
            out += [" " * INDENT + full[0], *(" " * 2 * INDENT + each for each in
                                              _broken(" ".join([*full[1:], line]), width - 2 * INDENT))]
            line = ""
    return [*out, " " * INDENT + line] if line else out
