"""Derives faults from Python sources, as the syntax tree of the standard library has them, and runs the tests of a
package with one of them."""
import ast
import pathlib
import re
import shutil
import tempfile

import runs
import sources
from sources import Fault

# The modules that need no privileges, each with its test, which has the folder of the packages as an argument.
TESTS = {"python/ibarp/__init__.py": "unit/python_package",
         "python/softib_lab/expectations.py": "unit/lab",
         "python/softib_lab/lab_file.py": "unit/lab",
         "python/softib_lab/plan.py": "unit/lab",
         "python/softib_lab/table.py": "unit/lab"}
COMPARISONS = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
               ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
               ast.NotIn: ("not in", "in")}
OPERATORS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.BitAnd: ("&", "|"),
             ast.BitOr: ("|", "&")}
SIMPLE = (ast.Assign, ast.AugAssign, ast.Raise, ast.Delete)
DUNDER = re.compile(r"__\w+__")


def names_in(node, stored=False):
    """Returns the names of variables and members in a node; with `stored`, only those that it sets."""
    return {each.id if isinstance(each, ast.Name) else each.attr for each in ast.walk(node)
            if isinstance(each, (ast.Name, ast.Attribute)) and (not stored or isinstance(each.ctx, ast.Store))}


def are_related(one, other):
    """Whether two neighbouring statements have something to do with each other: of two assignments, one uses what the
    other sets."""
    if isinstance(one, ast.Assign) and isinstance(other, ast.Assign):
        return bool(names_in(one, True) & names_in(other) or names_in(other, True) & names_in(one))
    return bool(names_in(one) & names_in(other))


class Deriver(ast.NodeVisitor):
    """Finds the faults of one file. Offsets count bytes."""

    def __init__(self, file, source):
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found = []
        self.function, self.lines, self.names = "", (0, 0), []

    def begin(self, node):
        """Returns the offset at which a node begins."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node):
        """Returns the offset behind a node."""
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node):
        """Returns the source of a node."""
        return self.source.encode()[self.begin(node):self.end(node)].decode()

    def add(self, kind, at, to, new):
        """Adds the fault with `new` in place of the bytes from `at` to `to`."""
        line = self.source.encode().count(b"\n", 0, at) + 1
        self.found.append(Fault(self.file, line, self.function, self.lines, kind, at, to, at, to, new, False))

    def change(self, kind, node, new):
        """Adds the fault with `new` in place of a node."""
        self.add(kind, self.begin(node), self.end(node), new)

    def between(self, kind, left, right, old, new):
        """Adds the fault with another operator between two nodes."""
        gap = self.source.encode()[self.end(left):self.begin(right)].decode()
        place = re.search(rf"(?<!\w){re.escape(old)}(?!\w)", gap)
        if place:
            at = self.end(left) + place.start()
            self.add(kind, at, at + len(old), new)

    # --- What faults a node has -----------------------------------------------------------------

    def visit_FunctionDef(self, node):  # pylint: disable=invalid-name # ast names these methods
        """Visits a function; its parameters and variables can take each other's place."""
        outer = self.function, self.lines, self.names
        self.function = f"{self.function}.{node.name}" if self.function else node.name
        self.lines = node.lineno, node.end_lineno
        stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        self.names = sorted({each.arg for each in node.args.args if each.arg != "self"} | stored)
        for default in node.args.defaults:
            self.visit(default)
        self.visit_body(node.body)
        self.function, self.lines, self.names = outer

    def visit_ClassDef(self, node):  # pylint: disable=invalid-name
        """Visits a class."""
        outer, self.function = self.function, node.name
        self.visit_body(node.body)
        self.function = outer

    def visit_body(self, body):
        """Visits statements; each can be missing, and two related neighbours exchanged."""
        body = [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
        for statement in body:
            if isinstance(statement, SIMPLE) or isinstance(statement, ast.Expr):
                self.change("statement left out", statement, "pass")
            self.visit(statement)
        for one, next_one in zip(body, body[1:]):
            if all(isinstance(each, (*SIMPLE, ast.Expr)) for each in (one, next_one)) and are_related(one, next_one):
                gap = self.source.encode()[self.end(one):self.begin(next_one)].decode()
                self.add("exchanged", self.begin(one), self.end(next_one), self.text(next_one) + gap + self.text(one))

    def generic_visit(self, node):
        """Visits the children of a node, lists of statements as such."""
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self.visit_body(value)
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, ast.AST):
                        self.visit(each)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def visit_Module(self, node):  # pylint: disable=invalid-name
        """Visits what is not done once, when the module is loaded."""
        for each in node.body:
            if isinstance(each, (ast.FunctionDef, ast.ClassDef)):
                self.visit(each)

    def visit_JoinedStr(self, node):  # pylint: disable=invalid-name
        """Leaves texts as they are."""

    def visit_If(self, node):  # pylint: disable=invalid-name
        """Negates a condition, and leaves the branch out."""
        self.negate(node.test)
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If

    def negate(self, test):
        """Negates a condition."""
        self.change("negated", test, f"(not ({self.text(test)}))")

    def visit_comprehension(self, node):
        """Negates the conditions of a comprehension."""
        for each in node.ifs:
            self.negate(each)
        self.generic_visit(node)

    def visit_Return(self, node):  # pylint: disable=invalid-name
        """Returns nothing, or leaves an early return out."""
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.change("returns nothing", node.value, "None")
        else:
            self.change("statement left out", node, "pass")
        self.generic_visit(node)

    def visit_Compare(self, node):  # pylint: disable=invalid-name
        """Shifts or negates comparisons."""
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            self.between("comparison", left, right, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node):  # pylint: disable=invalid-name
        """Exchanges `and` and `or`."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            self.between("operator", left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node):  # pylint: disable=invalid-name
        """Exchanges an operator for its neighbour."""
        if type(node.op) in OPERATORS:
            self.between("operator", node.left, node.right, *OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node):  # pylint: disable=invalid-name
        """Leaves a `not` or a sign out."""
        if isinstance(node.op, (ast.Not, ast.USub)):
            self.change("operator", node, self.text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node):  # pylint: disable=invalid-name
        """Changes a number by one, and a truth value."""
        if isinstance(node.value, bool):
            self.change("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self.change("constant", node, str(node.value + 1))
            self.change("constant", node, str(node.value - 1))

    def visit_Name(self, node):  # pylint: disable=invalid-name
        """Takes another variable of the function."""
        if isinstance(node.ctx, ast.Load) and node.id in self.names:
            for other in self.names:
                if other != node.id:
                    self.change("name", node, other)

    def visit_Call(self, node):  # pylint: disable=invalid-name
        """Exchanges neighbouring arguments, and leaves named ones out."""
        for one, other in zip(node.args, node.args[1:]):
            self.add("arguments", self.begin(one), self.end(other), f"{self.text(other)}, {self.text(one)}")
        self.generic_visit(node)

    def visit_Tuple(self, node):  # pylint: disable=invalid-name
        """Leaves elements of a list out, where no variable takes them."""
        if isinstance(node.ctx, ast.Load):
            for each, other in zip(node.elts, node.elts[1:]):
                self.add("element left out", self.begin(each), self.begin(other), "")
        self.generic_visit(node)

    visit_List = visit_Tuple

    def visit_Dict(self, node):  # pylint: disable=invalid-name
        """Leaves members of a dictionary out."""
        for key, other in zip(node.keys, node.keys[1:]):
            if key is not None and other is not None:
                self.add("element left out", self.begin(key), self.begin(other), "")
        self.generic_visit(node)


def source_of(fault):
    """Returns the source that a fault is in."""
    return (sources.ROOT / fault.file).read_text(encoding="utf-8")


def compiles(fault):
    """Whether the source is valid with the fault."""
    try:
        ast.parse(changed(source_of(fault), fault))
        return True
    except SyntaxError:
        return False


def changed(source, fault):
    """Returns the source, as text, with the fault."""
    octets = source.encode()
    return (octets[:fault.at] + fault.new.encode() + octets[fault.to:]).decode()


def derive():
    """Returns the faults of all modules."""
    found = set()
    for file in TESTS:
        source = (sources.ROOT / file).read_text(encoding="utf-8")
        deriver = Deriver(file, source)
        deriver.visit(ast.parse(source))
        found |= set(deriver.found)
    return found


def catcher(folder, fault, case):
    """Returns the name of the test if it fails with the fault, or "". `folder` is the build folder."""
    original = str(pathlib.Path(folder) / runs.PACKAGES)
    with tempfile.TemporaryDirectory(prefix="ipoibd-mutation-") as temporary:
        copy = f"{temporary}/{runs.PACKAGES}"
        shutil.copytree(original, copy, ignore=shutil.ignore_patterns("CMakeFiles", "__pycache__"))
        (pathlib.Path(temporary) / fault.file).write_text(changed(source_of(fault), fault), encoding="utf-8")
        return runs.catcher(0, [case._replace(command=[copy if word == original else word for word in case.command])])
