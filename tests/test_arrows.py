"""The rules of the house, read from the sources: who may import whom, how long things may be, what must not appear.

models -> nothing of ours         export -> models        services -> models, export.artifact
clients -> nothing of ours        pressroom -> all
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ("models", "export", "services", "pressroom_client", "pressroom", "recipes", "benchmarks", "examples")
FOLDERS = {
    "models": ROOT / "models",
    "export": ROOT / "export",
    "services": ROOT / "services",
    "pressroom_client": ROOT / "clients" / "python" / "pressroom_client",
    "pressroom": ROOT / "pressroom",
}
MAY_IMPORT = {
    "models": {"models"},
    "export": {"export", "models"},
    "services": {"services", "models", "export.artifact"},
    "pressroom_client": {"pressroom_client"},
    "pressroom": {"pressroom", "services", "models", "export", "pressroom_client"},
}
MOST_LINES, MOST_FUNCTION_LINES = 600, 80


def modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts]


SHIPPED = [path for folder in FOLDERS.values() for path in modules(folder)]
EVERYTHING = [*SHIPPED, *modules(ROOT / "tests"), *modules(ROOT / "recipes"), *modules(ROOT / "benchmarks")]
EVERYTHING += modules(ROOT / "examples")


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path) -> list[str]:
    """Dotted names a module imports, wherever the import stands; relative ones made absolute."""
    client = FOLDERS["pressroom_client"]
    home = client.parent if client in path.parents else ROOT  # the folder its own package is found in
    return list(imported_names(tree(path), path.relative_to(home).parts[:-1]))


def imported_names(module: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _named(node.func) in ("import_module", "__import__"):
            yield from _literal_argument(node)


def _named(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _literal_argument(call: ast.Call) -> Iterator[str]:
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value


def within(name: str, allowed: str) -> bool:
    return name == allowed or name.startswith(allowed + ".")


@pytest.mark.parametrize("package", FOLDERS)
def test_a_package_imports_only_what_the_arrows_allow(package: str) -> None:
    forbidden = [
        f"{short(path)} imports {name}"
        for path in modules(FOLDERS[package])
        for name in imports(path)
        if name.partition(".")[0] in OURS and not any(within(name, allowed) for allowed in MAY_IMPORT[package])
    ]
    assert forbidden == []


def test_the_arrow_check_sees_every_kind_of_import() -> None:
    """It would be worth nothing if it looked past one."""
    source = """
import a.b
from c import d
from . import e
from ..f import g
def late():
    import h
    import_module("i.j")
"""
    names = imported_names(ast.parse(source), ("services", "core"))
    assert sorted(names) == ["a.b", "c.d", "h", "i.j", "services.core.e", "services.f.g"]


def test_the_core_knows_no_family() -> None:
    families = {path.stem for path in (ROOT / "services").glob("*.py")} - {"__init__"}
    assert "forecast" in families
    known = [
        f"{short(path)} imports {name}"
        for path in modules(ROOT / "services" / "core")
        for name in imports(path)
        if any(within(name, f"services.{family}") for family in families)
    ]
    assert known == []


def loaded_after(statement: str, *suspects: str) -> list[str]:
    """Which of these modules are loaded in a new process after the statement."""
    script = f"""
import sys, warnings
warnings.simplefilter("ignore")
{statement}
print(*(name for name in {suspects!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_serving_an_onnx_forecaster_does_not_load_torch() -> None:
    assert loaded_after("import services.forecast, services.gateway", "torch", "onnx", "onnxscript", "pandas") == []


def test_the_forecasting_pipeline_is_numpy_only() -> None:
    statement = "import models.forecasting.pipeline, models.forecasting.series, models.errors"
    assert loaded_after(statement, "torch", "pandas", "bentoml", "pydantic") == []


def test_the_client_loads_neither_grpc_nor_pandas_until_they_are_asked_for() -> None:
    assert loaded_after("import pressroom_client", "grpc", "pandas", "torch", "bentoml", "services", "models") == []


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    assert loaded_after("import pressroom.cli", "torch", "onnxruntime", "bentoml", "pandas", "grpc") == []


@pytest.mark.parametrize("path", EVERYTHING, ids=short)
def test_files_and_functions_stay_within_the_house_limits(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MOST_FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SHIPPED, ids=short)
def test_every_shipped_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree(path))


@pytest.mark.parametrize("path", SHIPPED, ids=short)
def test_nothing_shipped_unpickles(path: Path) -> None:
    names = {name.partition(".")[0] for name in imports(path)}
    assert names.isdisjoint({"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"})
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        assert called != "torch.load" or given.get("weights_only") == "True"
        assert given.get("allow_pickle", "False") == "False"
        assert called not in ("eval", "exec", "compile")


@pytest.mark.parametrize("path", SHIPPED, ids=short)
def test_nothing_shipped_is_left_to_do(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)
    assert not re.search(r"\bbreakpoint\(\)|\bpdb\b", text)


def tracked_texts() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    kinds = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".html", ".proto", ".txt", ".sh", ""}
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.suffix in kinds and path.is_file() and ROOT / "data" not in path.parents]


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    """Words are put together here, so that this file does not find itself."""
    words = ["/" + "home/", "/" + "work/main", "/" + "root/", "/" + "Users/", ".." + "/shared", "C:" + "\\"]
    pattern = re.compile("|".join(re.escape(word) for word in words))
    found = []
    for path in tracked_texts():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{short(path)}:{number}: {match[0]}")
    assert found == []
