"""docs/start/python-api.md, made of the docstrings of the Python package.

The sources are parsed, nothing is imported. The test of this name holds the page to it.
"""

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator

import tree

PAGE = tree.ROOT / "docs/start/python-api.md"
_PACKAGE = tree.ROOT / "client/python/src/dslide"
_WIDTH = 116
_INTRODUCTION = """\
# Python: classes and functions

Made from docstrings by `tools/lint/python_api_page.py`; do not edit it by hand. What one does
with them: [the Python client](client-python.md). `dslide.aio` has the methods of `Client` and
`Model` as coroutines.
"""
# Module, and the names of it that the page has; none: its __all__.
_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dslide", ()),
    ("dslide.torch", ()),
    ("dslide.serving", ()),
    ("dslide.aio", ("connect",)),
)
# Methods are made of operations by these, which give them what comes first.
_MAKERS = {"_blocking": 1, "_bound": 2, "_awaited": 1}
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def module(name: str) -> ast.Module:
    path = _PACKAGE.parent / name.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(name: str) -> dict[str, tuple[str, str]]:
    """{name: (module, its name there)} of what a module imports from the package."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(module(name))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dslide")
        for alias in node.names
    }


def definition(name: str, wanted: str) -> tuple[str, ast.stmt] | None:
    """The module and statement that define a name of a module; None for what is no class or
    function of the package."""
    for node in module(name).body:
        if isinstance(node, (*_Function, ast.ClassDef)) and node.name == wanted:
            return name, node
    origin = imported(name).get(wanted)
    if origin is None or ".v1" in origin[0]:
        return None
    there = _PACKAGE.parent / f"{origin[0]}.{origin[1]}".replace(".", "/")
    if there.is_dir() or there.with_suffix(".py").exists():
        return None
    return definition(*origin)


def all_of(name: str) -> list[str]:
    for node in module(name).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(word) for word in ast.literal_eval(node.value)]
    raise AssertionError(f"{name} has no __all__")


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, skipped: int) -> str:
    """As one calls it; `skipped`: arguments in front that the caller does not give."""
    arguments = ast.unparse(node.args)
    parts = ast.parse(f"def f({arguments}): pass").body[0]
    assert isinstance(parts, ast.FunctionDef)
    parts.args.args = parts.args.args[skipped:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    line = f"{name}({ast.unparse(parts.args)}){returns}"
    return textwrap.fill(line, _WIDTH, subsequent_indent="    ", break_long_words=False)


def docstring(node: ast.AST) -> str:
    assert isinstance(node, (*_Function, ast.ClassDef))
    return inspect.cleandoc(ast.get_docstring(node) or "")


def indented(text: str) -> str:
    return textwrap.indent(text, "    ") if text else ""


def methods(name: str, node: ast.ClassDef) -> Iterator[str]:
    """Of a class and of those of the package that it is made of, as one calls them."""
    for base in node.bases:
        found = definition(name, ast.unparse(base))
        if found is not None and isinstance(found[1], ast.ClassDef):
            yield from methods(found[0], found[1])
    for part in node.body:
        if isinstance(part, _Function) and not part.name.startswith("_"):
            static = any(ast.unparse(one) == "staticmethod" for one in part.decorator_list)
            text = docstring(part)
            if text:
                yield f"{signature(part, part.name, int(not static))}\n{indented(text)}"
        elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
            maker = ast.unparse(part.value.func)
            if maker not in _MAKERS:
                continue
            made = operation(name, part.value.args[0])
            shown = signature(made, ast.unparse(part.targets[0]), _MAKERS[maker])
            yield f"{shown}\n{indented(docstring(made))}".rstrip()


def operation(name: str, expression: ast.expr) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """What `_rows.gather` or `Connection.close` names in a module."""
    owner, _, wanted = ast.unparse(expression).rpartition(".")
    origin = imported(name)[owner]
    if origin[0] == "dslide" or (_PACKAGE / f"{origin[1]}.py").exists():
        found = definition(f"{origin[0]}.{origin[1]}", wanted)
        assert found is not None
        body: list[ast.stmt] = [found[1]]
    else:
        kind = definition(*origin)
        assert kind is not None and isinstance(kind[1], ast.ClassDef)
        body = kind[1].body
    for node in body:
        if isinstance(node, _Function) and node.name == wanted:
            return node
    raise AssertionError(f"{name}: {ast.unparse(expression)} is not found")


def section(name: str, wanted: str) -> Iterator[str]:
    found = definition(name, wanted)
    if found is None:
        return
    where, node = found
    if isinstance(node, _Function):
        text = f"{signature(node, wanted, 0)}\n{indented(docstring(node))}"
    else:
        assert isinstance(node, ast.ClassDef)
        made = [part for part in node.body if isinstance(part, _Function)]
        first = next((part for part in made if part.name == "__init__"), None)
        head = f"class {wanted}" if first is None else signature(first, wanted, 1)
        head = re.sub(r" -> None$", "", head)
        text = "\n\n".join([f"{head}\n{indented(docstring(node))}", *methods(where, node)])
    yield f"### {name}.{wanted}\n\n```text\n{text.rstrip()}\n```\n"


def page() -> str:
    parts = [_INTRODUCTION]
    for name, names in _PARTS:
        parts.append(f"## {name}\n")
        for wanted in names or sorted(all_of(name), key=str.lower):
            parts += section(name, wanted)
    return re.sub(r"[ ]+\n", "\n", "\n".join(parts))
