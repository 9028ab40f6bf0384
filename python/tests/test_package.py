# SPDX-License-Identifier: Apache-2.0
"""What the package is beside its calls: its import, its program, what it refuses."""

import ast
import errno
import os
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest
import warren
from warren import _program

PACKAGE = Path(warren.__file__).parent
IMPORT_SECONDS_MAX = 0.06 if "LD_PRELOAD" not in os.environ else 0.6  # 10 under a sanitizer


def run(*words: str | Path, path: Path = PACKAGE.parent) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(path), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120
    )


def test_import_is_fast() -> None:
    # Programs beside this one lengthen the time on the clock, but hardly the processor time. On an
    # idle machine both are the same, because the import waits for nothing: it gives up its core
    # only to read files that are not in memory yet.
    code = """
        import resource, time
        def used():
            usage = resource.getrusage(resource.RUSAGE_SELF)
            return time.process_time(), usage.ru_nvcsw
        before = used()
        import warren
        print(*(now - then for now, then in zip(used(), before)))
    """
    runs = [run("-c", textwrap.dedent(code)).stdout.split() for _ in range(7)]
    assert min(float(seconds) for seconds, _ in runs) < IMPORT_SECONDS_MAX, runs
    assert min(int(waits) for _, waits in runs) == 0, runs


def test_import_needs_no_other_package() -> None:
    code = "import sys, warren; print(*{name.split('.')[0] for name in sys.modules})"
    found = run("-S", "-c", code)
    assert found.returncode == 0, found.stderr
    others = set(found.stdout.split()) - sys.stdlib_module_names - {"__main__", "warren"}
    assert not {name for name in others if not name.startswith("_sysconfigdata")}


def test_program_has_the_same_version() -> None:
    found = run("-m", "warren", "--version")
    assert (found.returncode, found.stdout) == (0, f"warren {warren.__version__}\n")
    assert run("-m", "warren", "no-such-command").returncode == 2


def test_program_ends_at_a_closed_pipe() -> None:
    shell = f"set -o pipefail; '{sys.executable}' -m warren find /usr/bin | true"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    found = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True)
    assert found.returncode in (0, 141) and found.stderr == b""  # 141: SIGPIPE


def test_doctor(tmp_path: Path) -> None:
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as volume:
        findings = volume.doctor()
        program = next(found for found in findings if found.subject == "program")
        assert warren.__version__ in program.detail
        assert findings[0] == ("ok", "volume", f"{tmp_path}/v.img, engine cpu")
        if "engine cuda" not in program.detail:
            notes = [found for found in findings if found.subject == "gpu"]
            assert [note.state for note in notes] == ["note"]
            assert notes[0].detail.startswith("no CUDA engine: this program was built without it")
    with warren.Volume(tmp_path / "v.img", read_only=True) as volume:
        assert volume.doctor()[0].detail.endswith("engine cpu, read-only")


def test_doctor_without_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, code in (("/none", errno.ENOENT), ("/usr/bin/env", errno.EIO)):  # no `doctor`
        monkeypatch.setattr(_program, "PROGRAM", program)
        with pytest.raises(OSError) as caught:
            _program.examine("/")
        assert caught.value.errno == code and caught.value.filename == program


def test_two_distributions_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "warren"
    folder.mkdir()
    for entry in PACKAGE.iterdir():
        if entry.name != "_distributions":
            (folder / entry.name).symlink_to(entry)
    (folder / "_distributions").mkdir()
    for name in ("warren", "warren-cu13"):
        found = run("-c", "import warren", path=tmp_path)
        assert found.returncode == 0, found.stderr
        (folder / "_distributions" / name).touch()
    found = run("-c", "import warren", path=tmp_path)
    assert found.returncode == 1
    assert "warren and warren-cu13 are both installed" in found.stderr
    assert "pip uninstall warren warren-cu13" in found.stderr


def test_stub_is_that_of_the_extension() -> None:
    """It has the names of the extension, and the documentation of the classes that users see."""

    def text(found: str | None) -> str:
        return " ".join((found or "").split())

    def public(names: Iterable[str]) -> set[str]:
        return {name for name in names if not name.startswith("_")}

    stub = ast.parse((PACKAGE / "_native.pyi").read_text())
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    del classes["HasDLPack"]  # a protocol
    native = import_module("warren._native")
    assert public(vars(native)) == functions | set(classes)
    for name, node in classes.items():
        kind = getattr(native, name)
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        own = {method.name for method in methods} - {"__buffer__"}  # it is a slot
        assert public(own) == public(vars(kind)) - set(dir(kind.__base__)), name
        assert own <= set(vars(kind)), name
        for each in (node, *methods):
            if wanted := text(ast.get_docstring(each)):
                shown = kind if each is node else getattr(kind, each.name)
                assert text(shown.__doc__).endswith(wanted), (name, each.name)


def test_what_objects_look_like(tmp_path: Path) -> None:
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as volume:
        assert repr(volume) == f"<warren.Volume '{tmp_path}/v.img'>"
        found = volume.write_many(["f", "gé"], [bytes(24), b""], strict=True)
        with volume.open("gé") as file:
            assert repr(file) == "<warren.File 'gé'>"
        assert repr(file) == "<warren.File 'gé', closed>"
        assert repr(found.handles) == "<warren.Array int64[2, 2]>"
        assert repr(volume.map("f", "bfloat16", (3, -1))) == "<warren.Map of 'f', bfloat16[3, 4]>"
        assert repr(volume.read_many(["f", "gé"])) == "<warren.Contents of 2 files>"
        table = volume.find(types="f", columns=["size", "name"])
        assert repr(table) == "<warren.Table, 2 rows of size, name>"
        assert repr(table["name"]) == "<warren.Strings, 2 rows>"
    assert repr(volume) == f"<warren.Volume '{tmp_path}/v.img', closed>"


def test_free_threaded_python_is_refused() -> None:
    native = Path(__file__).parent.parent / "src" / "native.cpp"
    nanobind = import_module("nanobind")
    include = (native.parents[2], native.parents[2] / "src", native.parents[2] / "include",
               nanobind.include_dir(), sysconfig.get_paths()["include"])
    command = ["c++", "-std=c++20", "-E", "-o", os.devnull, str(native)]
    command += [f"-I{folder}" for folder in include]
    found = subprocess.run(
        [*command, "-DPy_GIL_DISABLED=1"], capture_output=True, text=True, timeout=120
    )
    assert found.returncode != 0
    assert "free-threaded Python" in found.stderr
