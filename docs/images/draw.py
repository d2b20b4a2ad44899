#!/usr/bin/env python3
"""Draws the SVG images of the README and of docs/architecture.md, with Python's standard library only.

    packet-path.svg    packet flow: host, TUN, ipoibd, verbs, fabric
    source-layout.svg  the folders of src/, from the table of layers in docs/architecture.md
    demo.svg           a terminal with demo.txt: the commands of the README's lab, after "$ ", with their output

Usage: draw.py          writes the images
       draw.py --check  fails if an image in the tree differs from what would be written
"""
import html
import pathlib
import re
import sys

IMAGES = pathlib.Path(__file__).resolve().parent
TABLE = IMAGES.parent / "architecture.md"

# Every image paints its own background, so it is readable on light and on dark pages.
PAPER, INK, FADED, LINE = "#ffffff", "#1f2937", "#4b5563", "#94a3b8"
BLUE, GREEN, ORANGE, GREY = "#dbeafe", "#dcfce7", "#ffedd5", "#f1f5f9"
SANS, MONO = "Helvetica, Arial, sans-serif", "DejaVu Sans Mono, Menlo, Consolas, monospace"


class Svg:
    def __init__(self, width, height, title, paper=PAPER):
        self.head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                     f'width="{width}" height="{height}" role="img">\n'
                     f"<title>{html.escape(title)}</title>\n"
                     '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                     f'markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" '
                     f'fill="{FADED}"/></marker>\n')
        self.parts = []
        self.box(0.5, 0.5, width - 1, height - 1, paper)

    def box(self, x, y, width, height, fill, stroke=LINE):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
                          f'fill="{fill}" stroke="{stroke}"/>')

    def text(self, x, y, words, size=12, colour=INK, anchor="middle", bold=False, font=SANS):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" font-family="{font}" font-size="{size}" '
                          f'fill="{colour}" text-anchor="{anchor}" xml:space="preserve"{weight}>'
                          f"{html.escape(words)}</text>")

    def line(self, x1, y1, x2, y2, both=False):
        start = ' marker-start="url(#arrow)"' if both else ""
        middle = (y1 + y2) / 2
        self.parts.append(f'<path d="M{x1:g},{y1:g} C{x1:g},{middle:g} {x2:g},{middle:g} '
                          f'{x2:g},{y2:g}" fill="none" stroke="{FADED}"{start} '
                          'marker-end="url(#arrow)"/>')

    def across(self, x1, x2, y, label):
        self.parts.append(f'<path d="M{x1},{y} L{x2},{y}" stroke="{FADED}" '
                          'marker-start="url(#arrow)" marker-end="url(#arrow)"/>')
        for row, words in enumerate(label.split("\n")):
            self.text((x1 + x2) / 2, y + 16 + 13 * row, words, 11, FADED)

    def render(self):
        return self.head + "\n".join(self.parts) + "\n</svg>\n"


# --- Packet flow ------------------------------------------------------------------------------

# Title, folder, fill, what happens there; then what passes to the next stage.
STAGES = [
    ("host", "Linux", GREY, ["applications, sockets", "", "IP stack: routes,", "addresses, TCP, UDP"],
     "IP packets"),
    ("TUN  ib0", "src/linux/", BLUE, ["one read: a packet, or", "64 KiB of TCP or UDP", "",
                                      "netlink: routes and", "groups of the host"], "frames"),
    ("ipoibd", "src/daemon/, src/link/", BLUE,
     ["pump: one thread per interface", "next hop, neighbour, path", "encapsulation header",
      "segmentation, coalescing", "(src/offload/)"], "work\nrequests"),
    ("verbs", "src/verbs/", BLUE, ["one UD queue pair", "per interface", "",
                                   "libibverbs, libibumad"], "InfiniBand\npackets"),
    ("fabric", "hardware, or src/softib/", ORANGE,
     ["HCA, switch,", "subnet manager, SA", "", "softib: the same below", "the ABI, in user space"],
     None),
]
WIDTHS = [150, 160, 200, 150, 170]


def packet_path():
    gap, top, height = 78, 50, 150
    svg = Svg(40 + sum(WIDTHS) + gap * (len(STAGES) - 1), 330, "Packet flow")
    svg.text(20, 30, "Data path: both directions, no locks, one thread per interface", 13,
             anchor="start", bold=True)
    x, middles = 20, []
    for (title, folder, fill, lines, passed), width in zip(STAGES, WIDTHS):
        svg.box(x, top, width, height, fill)
        svg.text(x + width / 2, top + 22, title, 15, bold=True)
        svg.text(x + width / 2, top + 39, folder, 11, FADED, font=MONO)
        for row, words in enumerate(lines):
            svg.text(x + width / 2, top + 64 + 17 * row, words)
        if passed:
            svg.across(x + width + 6, x + width + gap - 6, top + 70, passed)
        middles.append(x + width / 2)
        x += width + gap
    left, right, low = middles[1] - WIDTHS[1] / 2, middles[3] + WIDTHS[3] / 2, top + height + 40
    svg.box(left, low, right - left, 72, GREEN)
    svg.text(middles[2], low + 22, "control thread: one per port (src/daemon/)", 13, bold=True)
    svg.text(middles[2], low + 42, "SA requests: broadcast group, paths, multicast groups (src/sa/)")
    svg.text(middles[2], low + 59, "host configuration (netlink), port events, control socket for ibarp")
    for middle, label in zip(middles[1:4], ["netlink", "messages", "MADs, events"]):
        svg.line(middle, top + height + 4, middle, low - 4, both=True)
        svg.text(middle + 10, top + height + 24, label, 11, FADED, anchor="start")
    return svg.render()


# --- The folders of src/ ----------------------------------------------------------------------


def table_of_layers():
    """Folder -> (title, the folders that it may use), from the rows of docs/architecture.md."""
    rows = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| `([^`]*/)`[^|]* \| ([^|]*) \| ([^|]*) \|", line)
        if row:
            folder = row[1].removeprefix("src/").rstrip("/")
            rows["base" if folder == "include/ipoib" else folder] = (
                re.split("[:;]", row[2])[0].replace("`", "").strip(), row[3].strip())
    names = set(rows)

    def used(name, words):
        if words == "-":
            return set()
        if words.startswith("all but "):
            without = tuple(words.removeprefix("all but ").split(", ")) + (name, "ibarp")
            return {other for other in names if not other.startswith(without)}
        return {re.sub("'s .*", "", word) for word in words.split(", ")} & names

    return {name: (title, used(name, words)) for name, (title, words) in rows.items()}


def below(layers, name):
    """All folders that a folder uses, directly or not."""
    found = set(layers[name][1])
    return found.union(*(below(layers, other) for other in found))


def wrap(words, width):
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) + 1 > width and lines[-1]:
            lines.append("")
        lines[-1] = (lines[-1] + " " + word).strip()
    return lines


def source_layout():
    layers = table_of_layers()
    level = {name: 0 for name in layers}
    for _ in layers:
        for name, (_, uses) in layers.items():
            level[name] = max([level[other] + 1 for other in uses], default=0)
    direct = {name: uses - set().union(*(below(layers, other) for other in uses), set())
              for name, (_, uses) in layers.items()}
    width, height, gap, step = 152, 62, 14, 96
    place, zones = {}, ([name for name in layers if not name.startswith("softib")],
                        [name for name in layers if name.startswith("softib")])
    top, left = max(level.values()), gap
    for zone in zones:  # the daemon's folders on the left, softib's on the right
        rows = [[name for name in zone if level[name] == at] for at in range(top + 1)]
        room = max(map(len, rows)) * (width + gap)
        for at, row in enumerate(rows):
            def middle_of_used(name, centre=left + room / 2):
                used = [place[other][0] for other in direct[name] & set(zone)]
                return sum(used) / len(used) if used else centre
            for number, name in enumerate(sorted(row, key=middle_of_used)):
                place[name] = (left + room * (number + 0.5) / len(row), 56 + step * (top - at))
        left += room + gap
    total = left
    svg = Svg(total, 56 + step * top + height + 20, "The folders of src/ and what they use")
    svg.text(20, 30, "Each folder of src/ is one library. An arrow points to what it uses; "
             "what those use in turn is not drawn.", 13, anchor="start", bold=True)
    for row, (fill, words) in enumerate([(BLUE, "ipoibd, ibarp"), (ORANGE, "softib")]):
        svg.box(20, 50 + 26 * row, 18, 18, fill)
        svg.text(46, 64 + 26 * row, words, anchor="start")
    for name, uses in direct.items():
        for other in sorted(uses):
            svg.line(place[name][0], place[name][1] + height, place[other][0], place[other][1] - 2)
    for name, (x, y) in place.items():
        fill = ORANGE if name.startswith("softib") else BLUE if level[name] else GREY
        svg.box(round(x - width / 2, 1), y, width, height, fill)
        svg.text(round(x, 1), y + 19, name + "/", 13, bold=True, font=MONO)
        for number, words in enumerate(wrap(layers[name][0], 26)[:2]):
            svg.text(round(x, 1), y + 36 + 14 * number, words, 11)
    return svg.render()


# --- The demo ---------------------------------------------------------------------------------


COLUMNS = 112


def terminal_lines():
    """The lines of demo.txt, cut to COLUMNS."""
    return [line if len(line) <= COLUMNS else line[:COLUMNS - 3] + "..."
            for line in (IMAGES / "demo.txt").read_text(encoding="utf-8").splitlines()]


def demo():
    lines = terminal_lines()
    step = 17
    svg = Svg(40 + COLUMNS * 8, 60 + step * len(lines), "A lab of two hosts", paper="#111827")
    for number, colour in enumerate(["#f87171", "#fbbf24", "#34d399"]):
        svg.parts.append(f'<circle cx="{22 + 18 * number}" cy="18" r="5" fill="{colour}"/>')
    for number, words in enumerate(lines):
        is_step = words.startswith("$")
        if words:
            svg.text(20, 50 + step * number, words, 13, "#86efac" if is_step else "#e5e7eb",
                     "start", is_step, MONO)
    return svg.render()


def main():
    drawings = {"packet-path": packet_path, "source-layout": source_layout, "demo": demo}
    stale = []
    for name, draw in drawings.items():
        path, text = IMAGES / f"{name}.svg", draw()
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        sys.exit(f"not up to date: {', '.join(stale)}; run docs/images/draw.py")


main()
