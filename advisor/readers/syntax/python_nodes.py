"""What a node of a Python program's syntax tree is: a name, a text of pieces, a dictionary."""

import ast
from collections.abc import Callable

MAX_LINKS = 40


def dotted_name(node: ast.expr) -> str:
    """A dotted name as text."""
    parts: list[str] = []
    for _ in range(MAX_LINKS):  # `f()()()...` is nested as deep as it is long
        if isinstance(node, ast.Attribute) and len(parts) < 10:
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            break
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def is_dictionary(node: ast.expr) -> bool:
    """`{...}` and `dict(...)`."""
    return isinstance(node, ast.Dict) or (
        isinstance(node, ast.Call) and dotted_name(node.func) == "dict"
    )


def is_text(node: ast.AST) -> bool:
    """A string, an f-string, or a sum or `%` in which one of them stands."""
    waiting = [node]
    while waiting:
        match waiting.pop():
            case ast.JoinedStr() | ast.Constant(value=str()):
                return True
            case ast.BinOp(left=left, op=ast.Mod()):
                waiting.append(left)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                waiting += [right, left]
    return False


def summands(node: ast.expr) -> list[ast.expr]:
    """What stands in `a + b + c`, left to right; long sums are nested deeply, so no recursion."""
    found: list[ast.expr] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
            waiting += [current.right, current.left]
        else:
            found.append(current)
    return found


def is_list_sum(node: ast.AST) -> bool:
    """A list, or a sum in which one stands: `[server] + COMMON + (SPEC if spec else [])`."""
    return isinstance(node, ast.List) or (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and any(isinstance(part, ast.List | ast.Tuple) for part in summands(node))
    )


def parts_of_sum(node: ast.expr) -> set[int]:
    """Ids of the sums and lists that are only a part of this sum."""
    found: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current is not node:
            found.add(id(current))
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add):
            waiting += [current.left, current.right]
        elif isinstance(current, ast.IfExp):
            waiting += [current.body, current.orelse]
    return found


def path_parts(node: ast.expr) -> list[ast.expr]:
    """What `root / "bin" / name` and `os.path.join` put together; else empty."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and len(parts) < MAX_LINKS:
        parts.append(node.right)
        node = node.left
    if parts:
        return [node, *reversed(parts)]
    joins = isinstance(node, ast.Call) and dotted_name(node.func).endswith("path.join")
    return list(node.args) if joins and isinstance(node, ast.Call) else []


def first_name(node: ast.AST) -> ast.Name | None:
    """The name that this text continues with options: `cmd + " --port 1"`."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = summands(node)
    constants = (str(part.value)[:1_000] for part in parts[1:] if isinstance(part, ast.Constant))
    first = parts[0] if any(" -" in text for text in constants) else None
    return first if isinstance(first, ast.Name) else None


def pieces(node: ast.AST) -> set[int]:
    """Ids of the nodes that are a part of this text: no commands of their own."""
    found: set[int] = set()
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        if current is not node:
            found.add(id(current))
        if isinstance(current, ast.BinOp) and isinstance(current.op, ast.Add | ast.Mod):
            waiting += [current.left, current.right]
        elif isinstance(current, ast.JoinedStr):
            waiting += [part for part in current.values if isinstance(part, ast.Constant)]
            waiting += [
                part.format_spec
                for part in current.values
                if isinstance(part, ast.FormattedValue) and part.format_spec is not None
            ]
        elif isinstance(current, ast.Tuple) and current is not node:
            waiting += [item for item in current.elts if is_text(item)]
    return found


_BY_SHELL = ("system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell")
# a shell's where they are given shell=True
_BY_CHOICE = ("Popen", "run", "call", "check_call", "check_output")


def shell_list(node: ast.AST, followed: Callable[[ast.expr], ast.expr]) -> ast.expr | None:
    """The list in `Popen(" ".join(cmd), shell=True)`; None for any other node."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = dotted_name(node.func).rpartition(".")[2]
    chosen = any(
        one.arg == "shell" and isinstance(one.value, ast.Constant) and one.value.value
        for one in node.keywords
    )
    if not (name in _BY_SHELL or (name in _BY_CHOICE and chosen)):
        return None
    match followed(node.args[0]):
        case ast.Call(ast.Attribute(ast.Constant(value=str(blank)), "join"), [listed, *_]):
            return None if blank.strip() else listed
    return None
