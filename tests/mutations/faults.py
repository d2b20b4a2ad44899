"""Derives faults from C++ sources: small changes to expressions and statements, as clang's syntax tree
has them. Needs the Python package of libclang (python3-clang-16)."""
import bisect
import errno
import re

from clang import cindex
from clang.cindex import CursorKind as Kind
from clang.cindex import TypeKind

import sources
from sources import Fault

SWAPPED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
           "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "+=": ("-=",), "-=": ("+=",)}
NUMBER = re.compile(r"(0[xX])?([0-9a-fA-F']+?)([uUlLzZ]*|_?[a-z]+)")
NAME = re.compile(r"[A-Za-z_]\w*")
CHANGEABLE = re.compile(r"\b(?!k[A-Z])[A-Za-z_]\w*\b(?!\s*\()")  # names, except those of constants and functions
INTEGERS = {TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.ULONGLONG,
            TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.LONGLONG}
ERRORS = [name for _, name in sorted(errno.errorcode.items())]
FUNCTIONS = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR, Kind.FUNCTION_TEMPLATE,
             Kind.CONVERSION_FUNCTION}
CLASSES = {Kind.CLASS_DECL, Kind.STRUCT_DECL, Kind.UNION_DECL, Kind.CLASS_TEMPLATE,
           Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION}
GROUPS = {Kind.NAMESPACE, Kind.UNEXPOSED_DECL, Kind.LINKAGE_SPEC, Kind.FRIEND_DECL} | CLASSES
LOOPS = {Kind.FOR_STMT, Kind.WHILE_STMT, Kind.CXX_FOR_RANGE_STMT, Kind.DO_STMT}
LABELS = {Kind.CASE_STMT, Kind.DEFAULT_STMT}
CONTROL = LOOPS | {Kind.IF_STMT, Kind.SWITCH_STMT}
CONDITIONAL = {Kind.IF_STMT, Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.CONDITIONAL_OPERATOR}
JUMPS = {Kind.RETURN_STMT, Kind.BREAK_STMT, Kind.CONTINUE_STMT}
LOCKS = re.compile(r"\b(lock_guard|unique_lock|scoped_lock|shared_lock)<")
# What stays as it is: assertions, what only the compiler sees, what only saves time, and the lines of the log.
LEFT_OUT = re.compile(r"(assert|static_assert)\s*\(|\(void\)\s*\w+;|.*[.>]reserve\(", re.S)
LOGGER = "logger"
NOTHING = {"0", "false", "nullptr", "{}", '""'}  # what a value is if there is none


def kind_of(cursor):
    """Returns the kind of a cursor; the Python package does not know those of concepts."""
    try:
        return cursor.kind
    except ValueError:
        return Kind.INVALID_CODE


class Node:
    """A cursor with its place in the file."""

    __slots__ = ("cursor", "kind", "begin", "end", "children", "parent")

    def __init__(self, cursor, parent=None):
        self.cursor, self.parent, self.kind = cursor, parent, kind_of(cursor)
        extent = cursor.extent
        self.begin, self.end = extent.start.offset, extent.end.offset
        self.children = [Node(each, self) for each in cursor.get_children()]


def closing(source, begin):
    """Returns where the bracket that opens at `begin` is closed."""
    depth = 0
    for token in sources.TOKEN.finditer(source, begin):
        depth += (token[0] in ("(", "[", "{")) - (token[0] in (")", "]", "}"))
        if depth == 0:
            return token.start()
    return len(source)


def type_name(cursor):
    """Returns the name of the type without references and const, or "" if a template decides on it."""
    of = cursor.type.get_canonical()
    of = of.get_pointee() if of.kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE) else of
    name = of.spelling.removeprefix("const ")
    return "" if of.kind in (TypeKind.DEPENDENT, TypeKind.UNEXPOSED, TypeKind.INVALID) or "type-parameter" in name \
        else name


class Deriver:
    """Finds the faults of one file."""

    def __init__(self, file, source):
        self.file, self.source = file, source
        self.starts = [0] + [each.end() for each in re.finditer("\n", source)]
        self.found = {}
        self.function, self.lines, self.result = "", (0, 0), ""
        self.scope = []  # names and types of the variables that can be used here

    def text(self, node):
        """Returns the source of a node."""
        return self.source[node.begin:node.end]

    def line_of(self, offset):
        """Returns the number of the line."""
        return bisect.bisect_right(self.starts, offset)

    # --- Where a switch can be ------------------------------------------------------------------

    def add(self, kind, node, at, to, new):
        """Adds the fault with `new` in place of source[at:to], which is at this node: the switch is put
        around the innermost expression or statement that has all of it."""
        while node is not None:
            if self.is_statement(node):
                self.put(kind, (node.begin, self.end_of(node)), (at, to), new, True)
                return
            if node.begin <= at and to <= node.end and self.is_expression(node):
                self.put(kind, (node.begin, node.end), (at, to), new, False)
                return
            if node.kind in FUNCTIONS or node.kind in CLASSES or node.kind == Kind.LAMBDA_EXPR:
                return
            node = node.parent

    def put(self, kind, whole, part, new, is_statement):
        """Adds a fault."""
        text = self.source[whole[0]:whole[1]]
        if re.search(r"^\s*#", text, re.M):
            return
        new = sources.one_line(new)
        fault = Fault(self.file, self.line_of(part[0]), self.function, self.lines, kind, *whole, *part, new,
                      is_statement)
        self.found.setdefault((part, new), fault)

    def end_of(self, node):
        """Returns where a statement ends, with its semicolon."""
        rest = re.compile(r"\s*;").match(self.source, node.end)
        return rest.end() if rest else node.end

    def is_statement(self, node):
        """Whether the node is a statement of its own that can be left out."""
        up = node.parent
        if up is None or node.kind in LABELS or node.kind in (Kind.DECL_STMT, Kind.COMPOUND_STMT, Kind.NULL_STMT):
            return False
        if up.kind == Kind.COMPOUND_STMT or up.kind in LABELS and node is up.children[-1]:
            return self.is_consistent(node)
        return node in self.bodies(up) and self.is_consistent(node)

    def is_consistent(self, node):
        """Whether a statement is the text that it seems to be: it is not if it comes from a macro."""
        end = self.end_of(node)
        return node.begin < end and self.source[end - 1] in ";}" and (
            node.kind not in CONTROL | JUMPS or NAME.match(self.source, node.begin) is not None)

    def is_expression(self, node):
        """Whether `( ? : )` can take the place of the node."""
        kind, text = node.kind, self.text(node)
        if not kind.is_expression() or kind in (Kind.INIT_LIST_EXPR, Kind.LAMBDA_EXPR) or not text or text[0] in "{.;":
            return False
        of = node.cursor.type
        if of.kind == TypeKind.FUNCTIONPROTO or of.get_pointee().kind == TypeKind.FUNCTIONPROTO or \
                of.spelling.startswith(("<bound", "<overloaded")):
            return False
        if node.children and (node.begin > node.children[0].begin or node.end < node.children[-1].end):
            return False  # of a comparison that the compiler has rewritten
        up = node.parent
        while up is not None and up.kind.is_expression():
            up = up.parent
        if up is not None and up.kind == Kind.VAR_DECL and node.begin == up.cursor.location.offset:
            return False  # the variable and its initialiser
        return True

    def header(self, node):
        """Returns where the parenthesis after `if`, `for`, `while` or `switch` opens and closes."""
        begin = self.source.find("(", node.begin)
        if node.kind == Kind.DO_STMT:
            begin = self.source.find("(", node.children[0].end)
        return begin, closing(self.source, begin)

    def bodies(self, node):
        """Returns the statements that an if statement or a loop controls."""
        if node.kind not in CONTROL:
            return []
        if node.kind == Kind.DO_STMT:
            return node.children[:1]
        end = self.header(node)[1]
        return [each for each in node.children if each.begin > end]

    def condition(self, node):
        """Returns the condition of an if statement, a loop or `?:`."""
        if node.kind == Kind.CONDITIONAL_OPERATOR:
            return node.children[0]
        begin, end = self.header(node)
        inside = [each for each in node.children
                  if begin < each.begin and each.end <= end and each.kind.is_expression()]
        stop = r"\s*;" if node.kind == Kind.FOR_STMT else r"\s*\)"
        return next((each for each in reversed(inside) if re.compile(stop).match(self.source, each.end)), None)

    # --- The tree -------------------------------------------------------------------------------

    def declaration(self, cursor):
        """Finds the faults in a namespace, a class or a function."""
        kind = kind_of(cursor)
        if kind in FUNCTIONS:
            if cursor.is_definition() and not cursor.is_default_method():
                self.definition(cursor)
        elif kind == Kind.FIELD_DECL:
            owner = cursor.semantic_parent
            self.enter(owner.spelling, owner, "")
            self.initialiser(Node(cursor), is_member=True)
        elif kind in GROUPS:
            for each in cursor.get_children():
                self.declaration(each)

    def enter(self, name, cursor, result):
        """Begins a function, or the members of a class."""
        extent = cursor.extent
        self.function, self.result, self.scope = name, result, []
        self.lines = extent.start.line, extent.end.line

    def definition(self, cursor):
        """Finds the faults in a function."""
        owner = cursor.semantic_parent
        name = re.sub(r"<.*", "", cursor.spelling) if "operator" not in cursor.spelling else cursor.spelling
        name = f"{owner.spelling}::{name}" if owner is not None and owner.kind in CLASSES else name
        self.enter(name, cursor, cursor.result_type.spelling)
        node = Node(cursor)
        for child in node.children:
            if child.kind == Kind.PARM_DECL:
                self.declare(child)
            elif child.kind.is_statement() or child.kind.is_expression():
                self.visit(child)

    def declare(self, node):
        """A variable can be used from here on."""
        if node.cursor.spelling:
            self.scope.append((node.cursor.spelling, type_name(node.cursor)))

    def initialiser(self, node, is_member=False):
        """The children of a variable are parts of its type, too: only the last can be its value. That a member is 0
        at first only means that it has no value yet."""
        if not node.children:
            return
        value = node.children[-1]
        if value.kind.is_expression() and value.end == node.end and value.begin >= node.cursor.location.offset:
            if not is_member or self.text(value) not in NOTHING:
                self.visit(value)

    def visit(self, node):
        """Finds the faults of a statement or an expression and of what is in it."""
        kind = node.kind
        if self.is_left_out(node):
            return
        if kind == Kind.VAR_DECL:
            if LOCKS.search(node.cursor.type.get_canonical().spelling):
                self.lock(node)
            self.initialiser(node)
            self.declare(node)
            return
        if self.is_statement(node):
            self.statement(node)
        if kind == Kind.COMPOUND_STMT:
            self.neighbours(node)
        elif kind in CONDITIONAL:
            self.control(node)
        elif kind == Kind.INIT_LIST_EXPR:
            self.list(node)
        elif kind in (Kind.INTEGER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR):
            self.constant(node)
        elif kind == Kind.DECL_REF_EXPR:
            self.reference(node)
            return
        elif kind == Kind.MEMBER_REF_EXPR:
            self.member(node)
        self.operator(node)
        outer = len(self.scope)
        for child in self.parts(node):
            self.visit(child)
        if kind == Kind.COMPOUND_STMT or kind == Kind.LAMBDA_EXPR or kind in CONTROL:
            del self.scope[outer:]

    def parts(self, node):
        """Returns the children without names of types and arguments of templates."""
        kind, children = node.kind, node.children
        if kind == Kind.MEMBER_REF_EXPR:
            return [each for each in children if each.end <= node.cursor.location.offset]
        if kind in (Kind.CXX_FUNCTIONAL_CAST_EXPR, Kind.CXX_STATIC_CAST_EXPR, Kind.CXX_REINTERPRET_CAST_EXPR,
                    Kind.CSTYLE_CAST_EXPR, Kind.CXX_CONST_CAST_EXPR):
            return children[-1:]
        if kind == Kind.LAMBDA_EXPR:
            for each in children:
                if each.kind == Kind.PARM_DECL:
                    self.declare(each)
            return [each for each in children if each.kind == Kind.COMPOUND_STMT]
        if kind == Kind.CALL_EXPR and '""' in node.cursor.spelling:
            self.constant(node)
            return []
        return children

    def is_left_out(self, node):
        """Whether nothing is to be changed here."""
        if node.kind.is_statement() or node.kind.is_expression():
            if LEFT_OUT.match(self.source, node.begin, node.end + 1) and node.kind != Kind.COMPOUND_STMT:
                return True
        while node.kind == Kind.UNEXPOSED_EXPR and len(node.children) == 1:  # with temporaries, as texts are
            node = node.children[0]
        if node.kind == Kind.CALL_EXPR:
            called = node.cursor.referenced
            owner = called.semantic_parent if called is not None else None
            return owner is not None and owner.spelling == LOGGER
        return False

    # --- The faults -----------------------------------------------------------------------------

    def statement(self, node):
        """A statement is left out, or one branch of it."""
        if self.is_left_out(node) or node.kind == Kind.SWITCH_STMT:
            return
        end = self.end_of(node)
        bodies = self.bodies(node)
        if node.kind == Kind.IF_STMT and len(bodies) == 2:
            begin = self.end_of(bodies[0])
            self.add("branch", node, begin, end, "")
        is_last = node.parent.kind == Kind.COMPOUND_STMT and node.parent.children[-1] is node and \
            node.parent.parent.kind in FUNCTIONS | {Kind.LAMBDA_EXPR}
        if node.kind == Kind.RETURN_STMT and is_last and (self.result != "void" or not node.children):
            return
        if node.kind == Kind.BREAK_STMT and self.ends_switch(node):
            return
        only = bodies[0] if len(bodies) == 1 else None
        if only is not None and (only.kind != Kind.COMPOUND_STMT or len(only.children) == 1):
            return  # the same as to leave out what it controls
        self.add("statement", node, node.begin, end, "" if node.parent.kind == Kind.COMPOUND_STMT else ";")

    @staticmethod
    def ends_switch(node):
        """Whether a statement is the last one of a switch statement."""
        while node.parent.kind in LABELS:
            node = node.parent
        block = node.parent
        return block.kind == Kind.COMPOUND_STMT and block.children[-1] is node and \
            block.parent.kind == Kind.SWITCH_STMT

    def neighbours(self, block):
        """Two statements are exchanged that have something to do with each other."""
        for one, other in zip(block.children, block.children[1:]):
            if not all(self.is_statement(each) and each.kind.is_expression() and not self.is_left_out(each)
                       for each in (one, other)):
                continue
            texts = self.text(one), self.text(other)
            targets = [re.match(r"([\w.>:\[\]*-]+?)\s*[-+|&^]?=[^=]", text) for text in texts]
            if all(targets):
                related = any(re.search(rf"(?<![\w.]){re.escape(target[1])}\b", text)
                              for target, text in zip(targets, reversed(texts)))
            else:
                related = set(CHANGEABLE.findall(texts[0])) & set(CHANGEABLE.findall(texts[1])) - {"std"}
            if related:
                end = self.end_of(other)
                first, second = (self.source[each.begin:self.end_of(each)] for each in (one, other))
                self.put("exchange", (one.begin, end), (one.begin, end), f"{second} {first}", True)

    def control(self, node):
        """A condition is negated."""
        condition = self.condition(node)
        if condition is not None and self.text(condition) not in ("true", "false") and \
                not self.operands(condition, "<", "<=", ">", ">=", "==", "!="):
            text = self.text(condition)
            self.add("condition", condition, condition.begin, condition.end,
                     text[1:] if re.fullmatch(r"!\w+", text) else f"!({text})")

    def operands(self, node, *operators):
        """Returns the operands of a binary operator, if it is one of these."""
        children = node.children
        while node.kind in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR) and len(children) == 1:
            node = children[0]
            children = node.children
        if node.kind == Kind.CALL_EXPR and node.cursor.spelling.startswith("operator") and len(children) == 3:
            children = children[::2]
        if len(children) != 2 or children[0].end >= children[1].begin:
            return None
        between = sources.one_line(self.source[children[0].end:children[1].begin]).strip()
        return (*children, between) if between in operators else None

    def operator(self, node):
        """A comparison is shifted or negated, && becomes ||, or one side of it is left out."""
        if node.kind not in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.CALL_EXPR):
            return
        found = self.operands(node, *SWAPPED)
        if not found:
            return
        left, right, name = found
        at = self.source.index(name, left.end)
        for other in SWAPPED[name]:
            self.add("operator", node, at, at + len(name), other)
        if name in ("&&", "||"):
            self.add("operand", node, left.end, right.end, "")
            self.add("operand", node, left.begin, right.begin, "")

    def constant(self, node):
        """A number is changed by one, an error becomes its neighbour, true becomes false."""
        text = self.text(node)
        if text in ("true", "false"):
            self.add("constant", node, node.begin, node.end, "false" if text == "true" else "true")
        elif hasattr(errno, text):
            self.add("enumerator", node, node.begin, node.end, neighbour(ERRORS, errno.errorcode[getattr(errno, text)]))
        elif number := NUMBER.fullmatch(text):
            value = int(number[2].replace("'", ""), 16 if number[1] else 10)
            for other in {value + 1, max(value - 1, 0)} - {value}:
                digits = f"{other:#x}" if number[1] else str(other)
                self.add("constant", node, node.begin, node.end, digits + number[3])

    def reference(self, node):
        """A variable is replaced by another one of its type, an enumerator by its neighbour; a named constant is
        changed by one."""
        cursor = node.cursor
        to, name = cursor.referenced, cursor.spelling
        if to is None or not self.text(node).endswith(name) or not name:
            return
        if to.kind == Kind.ENUM_CONSTANT_DECL:
            values = {each.spelling: each.enum_value for each in to.semantic_parent.get_children()
                      if kind_of(each) == Kind.ENUM_CONSTANT_DECL}
            names = [each for each, value in values.items() if each == name or value != values[name]]
            if len(names) > 1:
                self.add("enumerator", node, node.end - len(name), node.end, neighbour(names, name))
        elif to.kind == Kind.VAR_DECL and to.type.is_const_qualified() and \
                to.type.get_canonical().kind in INTEGERS and to.semantic_parent.kind not in FUNCTIONS:
            self.add("constant", node, node.begin, node.end, f"({self.text(node)} + 1)")
        elif to.kind in (Kind.VAR_DECL, Kind.PARM_DECL) and self.text(node) == name:
            of = type_name(to)
            names = list(dict.fromkeys(other for other, its_type in self.scope if its_type == of))
            if of and len(names) > 1 and name in names:
                self.add("variable", node, node.begin, node.end, neighbour(names, name))

    def member(self, node):
        """A member is replaced by another one of its type."""
        to, name, at = node.cursor.referenced, node.cursor.spelling, node.cursor.location.offset
        if to is None or to.kind != Kind.FIELD_DECL or not name or not self.source.startswith(name, at):
            return
        of = type_name(to)
        names = [each.spelling for each in to.semantic_parent.get_children()
                 if kind_of(each) == Kind.FIELD_DECL and each.spelling and type_name(each) == of]
        if of and len(names) > 1:
            self.add("member", node, at, at + len(name), neighbour(names, name))

    def list(self, node):
        """An element of a list is left out."""
        items = node.children
        if len(items) < 2 or not self.text(node).startswith("{"):
            return
        for index, item in enumerate(items):
            if self.text(item) in NOTHING:
                continue
            if index + 1 < len(items):
                self.add("element", node, item.begin, items[index + 1].begin, "")
            else:
                self.add("element", node, items[index - 1].end, item.end, "")

    def lock(self, node):
        """Another mutex is locked, which nobody else uses."""
        call = node.children[-1]
        if call.kind == Kind.CALL_EXPR and call.children:
            mutex = call.children[0]
            self.add("lock", mutex, mutex.begin, mutex.end, f"::ipoib_mutation::unused({self.text(mutex)})")


def neighbour(names, name):
    """Returns the name after this one, or the first after the last."""
    return names[(names.index(name) + 1) % len(names)]


def strict(arguments):
    """Returns arguments with which a fault that makes no sense does not compile."""
    return [*(word for word in arguments if not re.fullmatch("-W[a-z-]+", word)), "-Werror=return-type",
            "-Wno-c++11-narrowing", "-Wno-invalid-constexpr", "-ferror-limit=0", "-DIPOIB_MUTATION_CHECK"]


def parse(arguments, path, changed=()):
    """Returns the syntax tree of a translation unit, some of whose files are changed: pairs of path and text."""
    return cindex.Index.create().parse(path, arguments, unsaved_files=list(changed))


def errors(unit, root):
    """Returns the errors: for each the places, pairs of file and line, of itself and of what led to it."""
    return [{(each.location.file.name.removeprefix(f"{root}/"), each.location.line)
             for each in (error, *error.children) if each.location.file is not None}
            for error in unit.diagnostics if error.severity >= cindex.Diagnostic.Error]


def derive(unit, root):
    """Returns the faults in the files below src/ and include/ of `root` that a translation unit consists of."""
    found = {}
    for cursor in unit.cursor.get_children():
        file = cursor.location.file
        if file is None or not file.name.startswith((f"{root}/src/", f"{root}/include/")):
            continue
        name = file.name.removeprefix(f"{root}/")
        if name not in found:
            with open(file.name, encoding="latin-1") as source:  # an offset is a number of bytes
                found[name] = Deriver(name, source.read())
        found[name].declaration(cursor)
    return [fault for each in found.values() for fault in each.found.values()]
