"""Formats results as Markdown tables."""
import statistics


def number(value):
    """Formats with four digits, without an exponent for common values."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def table(heading, rows):
    """Returns a table with aligned columns, the first left-aligned."""
    rows = [[str(word) for word in row] for row in (heading, *rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heading))]
    lines = ["| " + " | ".join([row[0].ljust(widths[0]),
                                *(word.rjust(width) for word, width in zip(row[1:], widths[1:]))])
             + " |" for row in rows]
    rule = "|---|" + "---:|" * (len(heading) - 1)
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def ratios(measured):
    """Returns a table of medians, each with its ratio to that of the path `bound`."""
    bound = measured["paths"][measured["bound"]]
    names = list(dict.fromkeys(name for path in measured["paths"].values() for name in path))
    rows = []
    for path, figures in measured["paths"].items():
        row = [path]
        for name in names:
            median = statistics.median(figures[name]) if name in figures else None
            row.append("-" if median is None else number(median))
            comparable = median is not None and name in bound
            row.append(f"{median / statistics.median(bound[name]):.2f}" if comparable else "-")
        rows.append(row)
    return table(["path", *(word for name in names for word in (name, "ratio"))], rows)


def medians(measured):
    """Returns the sentence that says what the numbers of ratios() are."""
    return (f"Medians of {measured['rounds']} rounds of {measured['seconds']} s in one run; ratios "
            f"to {measured['bound']}.\n")
