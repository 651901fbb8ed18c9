"""What the source of a test says before it runs: where it checks something, which names are classes."""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PLAIN = (list, dict, set, str, bytes, tuple, int, float)
_PLAIN_NAMES = frozenset(name for kind in _PLAIN for name in dir(kind))
_ASK_KIND = ("isinstance", "issubclass", "raises", "assertRaises", "assertIsInstance")
_MISCHIEF = ("__main__", "antigravity", "idlelib", "lib2to3", "test", "this", "turtledemo")


class Counted(ast.NodeTransformer):
    """Counts every check that held: a test that checked nothing has shown nothing."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        self.generic_visit(node)
        return [node, _held(node)]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        node.body.append(_held(node))
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        return [node, _held(node)] if _refuses(node) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if not _called_name(node).startswith("assert"):
            return node
        counted = ast.Call(ast.Name("__checked__", ast.Load()), [node], [])
        return ast.fix_missing_locations(ast.copy_location(counted, node))


def checks(node: ast.AST) -> bool:
    """Whether ``Counted`` counts anything in it."""
    return any(
        isinstance(each, ast.Assert | ast.ExceptHandler)
        or (isinstance(each, ast.If) and _refuses(each))
        or (isinstance(each, ast.Call) and _called_name(each).startswith("assert"))
        for each in ast.walk(node)
    )


def _held(place: ast.AST) -> ast.stmt:
    held = ast.Expr(ast.Call(ast.Name("__held__", ast.Load()), [], []))
    return ast.fix_missing_locations(ast.copy_location(held, place))


def _refuses(node: ast.If) -> bool:
    """``if ...: raise`` and ``if ...: self.fail()`` are assertions in other words."""
    return any(
        isinstance(each, ast.Raise)
        or (
            isinstance(each, ast.Expr)
            and isinstance(each.value, ast.Call)
            and _called_name(each.value) == "fail"
        )
        for each in node.body
    )


def _called_name(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def methods(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Methods of the source's classes as ``Class.method``."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{method.name}", method


def bound(tree: ast.Module) -> set[str]:
    """Names that the tests give a value themselves: parameters, targets of loops in brackets, and what is
    stored before anything reads it."""
    found = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    uses: dict[str, tuple[int, int, bool]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension):
            found.update(each.id for each in ast.walk(node.target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            found.add(node.name)
        elif isinstance(node, ast.Name):
            use = (node.lineno, node.col_offset, isinstance(node.ctx, ast.Store))
            uses[node.id] = min(use, uses.get(node.id, use))
    return found | {name for name, (*_, stored) in uses.items() if stored}


def derived_errors(tree: ast.Module) -> Iterator[str]:
    """Names of errors that classes of the tests are derived from: these can be had here, other classes of
    the solution's cannot."""
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            if isinstance(base, ast.Name) and base.id.endswith(("Error", "Exception", "Warning")):
                yield base.id


def libraries(tree: ast.Module, names: list[str]) -> Iterator[str]:
    """Names that can only be modules of the standard library: nothing else is done with them than to read
    what these modules have. The tests use the real ones, whatever the solution calls by these names."""
    bases = {
        id(node.value): node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    for name in names:
        if name not in sys.stdlib_module_names or name in _MISCHIEF:
            continue
        used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
        module = imported(name)
        if module is not None and used and all(hasattr(module, bases.get(id(each), "\0")) for each in used):
            yield name


def imported(name: str) -> object | None:
    """A module of the standard library; ``None`` for everything else."""
    top = name.partition(".")[0]
    if top not in sys.stdlib_module_names or top in _MISCHIEF:
        return None
    try:
        return __import__(name, fromlist=["_"])
    except Exception:  # noqa: BLE001 - modules of other systems are in the list too
        return None


def classes(trees: Sequence[ast.Module], names: Iterable[str], entry_point: str) -> tuple[str, ...]:
    """Names that tests treat as classes: they read attributes of what these make, store in it, catch them,
    ask for instances of them, or reckon with what they make. A function is called for its value only."""
    found = []
    for name in names:
        if name.lstrip("_")[:1].isupper():
            aliases = {name, "candidate"} if name == entry_point else {name}
            if any(_as_class(tree, aliases) for tree in trees):
                found.append(name)
    return tuple(found)


def _as_class(tree: ast.Module, aliases: set[str]) -> bool:
    made = {ast.unparse(target) for node in ast.walk(tree) for target in _targets(node, aliases)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in _PLAIN_NAMES:
            value = node.value
            if _makes(value, aliases) or _named(value, aliases) or ast.unparse(value) in made:
                return True
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if ast.unparse(node.value) in made:
                return True
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            if _mentions(node.type, aliases):
                return True
        elif _asks_kind(node, aliases) or _compares_made(node, aliases):
            return True
    return False


def _asks_kind(node: ast.AST, aliases: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    asked = _called_name(node)
    if asked == "repr":
        return any(_makes(each, aliases) for each in node.args)
    return asked in _ASK_KIND and any(_mentions(each, aliases) for each in node.args)


def _compares_made(node: ast.AST, aliases: set[str]) -> bool:
    """Such as ``V(1) * 3 == V(3)``: both sides are made, and one of them is worked out of what was made."""
    if not isinstance(node, ast.Compare):
        return False
    parts = [list(ast.walk(side)) for side in (node.left, *node.comparators)]
    worked = any(
        isinstance(each, ast.BinOp) and (_makes(each.left, aliases) or _makes(each.right, aliases))
        for side in parts
        for each in side
    )
    return worked and sum(any(_makes(each, aliases) for each in side) for side in parts) > 1


def _targets(node: ast.AST, aliases: set[str]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign) and _makes(node.value, aliases):
        yield from node.targets
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        if _makes(node.value, aliases):
            yield node.target
    elif isinstance(node, ast.withitem) and node.optional_vars and _makes(node.context_expr, aliases):
        yield node.optional_vars


def _makes(node: ast.AST, aliases: set[str]) -> bool:
    return isinstance(node, ast.Call) and _named(node.func, aliases)


def _named(node: ast.AST, aliases: set[str]) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "solution":
        return node.attr in aliases
    return isinstance(node, ast.Name) and node.id in aliases


def _mentions(node: ast.AST, aliases: set[str]) -> bool:
    return any(_named(each, aliases) for each in (node, *getattr(node, "elts", ())))
