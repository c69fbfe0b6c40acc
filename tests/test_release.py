"""A release as a dry run: what scripts/release makes, installed where there is nothing."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import pyframe as pf

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.xdist_group("release")
TRAIN = """
import pyframe as pf
from pyframe import serve
assert pf.__version__ == %r, pf.__version__
print(sorted(serve.datasets()), pf.ones(2, 3).sum().item())
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("hatchling", "cyclonedx"):
        pytest.importorskip(name)
    out = tmp_path_factory.mktemp("release") / "out"
    command = [sys.executable, ROOT / "scripts" / "release", "--no-site", "--out", out]
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_the_files_are_named_and_summed(release: Path) -> None:
    stem = f"pyframe_webgpu-{pf.__version__}"
    extras = {stem.replace("webgpu", f"webgpu_{name}") for name in ("examples", "onnx", "text")}
    names = {f"{stem}.tar.gz", "sbom.cdx.json"}
    names |= {f"{name}-py3-none-any.whl" for name in (stem, *extras)}
    sums = dict(line.split()[::-1] for line in (release / "SHA256SUMS").read_text().splitlines())
    assert names == sums.keys()
    for name, digest in sums.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest
    with tarfile.open(release / f"{stem}.tar.gz") as tar:
        kept = {name.partition("/")[2] for name in tar.getnames()}
    assert {"LICENSE", "scripts/test", "tests/conftest.py", "examples/data/names.txt"} <= kept
    assert (release / f"{stem}-py3-none-any.whl").stat().st_size < 1.75e6


def test_every_part_has_its_licence(release: Path) -> None:
    bom = json.loads((release / "sbom.cdx.json").read_text())
    parts = {part["name"]: part["licenses"] for part in bom["components"]}
    names = "numpy wgpu tqdm llvmlite tokenizers gguf onnx".split()
    names += [f"pyframe-webgpu-{extra}" for extra in ("examples", "onnx", "text")]
    assert set(names) <= parts.keys()
    assert all(parts.values())
    assert len(bom["dependencies"][-1]) > 0


def test_a_version_that_differs_is_named(tmp_path: Path) -> None:
    """In a copy whose changelog is behind."""
    pytest.importorskip("cyclonedx")
    for name in ("pyframe", "scripts", "shaders", "web", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("pyframe_webgpu-0.0.2-py3-none-any.whl")
    project = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(project.replace("examples==", "examples==9."))
    (tmp_path / "CHANGELOG.md").write_text("## [0.0.1]\n")
    script = (ROOT / "scripts" / "release").read_text()
    script = script.replace("Path(__file__).resolve().parent.parent", f"Path({str(tmp_path)!r})")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"extra `examples` is 9.{pf.__version__}; pyframe/__init__.py says" in done.stderr
    assert (
        f"the wheel that docs/page.md names is 0.0.2; pyframe/__init__.py says {pf.__version__}"
        in (done.stderr)
    )
    assert "release: the newest entry of CHANGELOG.md is 0.0.1; pyframe" in done.stderr


def older(wheel: Path, folder: Path) -> Path:
    """The same wheel, as version 0.0.1."""
    old = folder / wheel.name.replace(pf.__version__, "0.0.1")
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            if not name.endswith("RECORD"):
                data = source.read(name)
                if name.endswith(("METADATA", "pyframe/__init__.py")):
                    data = data.replace(pf.__version__.encode(), b"0.0.1", 1)
                target.writestr(name.replace(pf.__version__, "0.0.1"), data)
        target.writestr("pyframe_webgpu-0.0.1.dist-info/RECORD", "")
    return old


def test_pip_installs_and_upgrades(release: Path, tmp_path: Path) -> None:
    """Into an environment that has nothing; then from the source distribution."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"

    def pip(*what: str | Path) -> None:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, *what], capture_output=True, text=True)
        if "No matching distribution found for numpy" in done.stderr:
            pytest.skip("PyPI can't be had here")
        assert done.returncode == 0, done.stderr

    def prints(version: str) -> str:
        done = subprocess.run(
            [python, "-c", TRAIN % version], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (wheel,) = release.glob("pyframe_webgpu-*.whl")
    pip(older(wheel, tmp_path))
    assert prints("0.0.1") == "[] 6.0"
    pip(f"{wheel}[examples]", f"--find-links={release}")
    assert prints(pf.__version__) == "['digits', 'names', 'tinyshakespeare'] 6.0"
    pip("--force-reinstall", "--no-deps", *release.glob("*.tar.gz"))
    assert prints(pf.__version__) == "['digits', 'names', 'tinyshakespeare'] 6.0"
