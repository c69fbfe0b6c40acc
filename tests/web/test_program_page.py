"""`pyframe serve my_model.py`: the program in a page, beside its source, and what it may read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve
from pyframe.__main__ import main
from pyframe.web.source import PageProgram

from .conftest import Tab, running
from .test_serve import get

PROGRAM = '''"""Points to part."""

from pathlib import Path

import pyframe as pf
from helper import WIDTH
from pyframe import nn, optim
from pyframe.web import Demo, Plane, Points

FILE = Path(__file__).parent / "my data" / "points.csv"


def make_model():
    net = nn.Sequential(nn.Linear(2, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2))
    return pf.Model(net, nn.CrossEntropyLoss(), optim.Adam(net.parameters(), lr=0.01))


def load_data():
    rows = [list(map(float, line.split(","))) for line in FILE.read_text().split()]
    table = pf.tensor(rows)
    return table[:, :2], table[:, 2].long()


demo = Demo(make_model, Points(), Plane(size=8), data=load_data, epochs=2, title="Mine")
'''
PARAMETERS = 2 * 8 + 8 + 8 * 2 + 2


def write(folder: Path) -> Path:
    """A program with a module and data beside it, and files that are nobody's business."""
    texts = {
        "my_model.py": PROGRAM,
        "helper.py": "from below import deep\n\nWIDTH = deep.WIDTH\n",
        "below/__init__.py": "",
        "below/deep.py": "WIDTH = 8\n",
        "my data/points.csv": "".join(f"{x / 9},{1 - x / 9},{x % 2}\n" for x in range(10)),
        "my data/.hidden": "secret",
        "other.py": "secret",
        ".env": "secret",
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "my_model.py"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def own(path: Path) -> Iterator[serve.Server]:
    """The server of that program."""
    program = PageProgram(path, [str(path.parent / "my data")])
    with running(serve.Server("127.0.0.1", 0, program)) as server:
        yield server


@pytest.fixture(scope="module")
def program_tab(browser: Any, own: serve.Server, pyodide_files: None) -> Iterator[Tab]:
    tab = Tab(browser, own)
    open_program(tab)
    yield tab
    tab.close()


@pytest.fixture
def page(program_tab: Tab) -> Any:
    """The page, with the program as it is on disk."""
    program_tab.page.evaluate("() => document.querySelector('py-editor').revert()")
    return program_tab.page


def open_program(tab: Tab) -> Any:
    page = tab.open("")
    page.wait_for_function("() => document.querySelector('py-editor')?.text")
    page.evaluate("() => document.querySelector('py-frame').load().then(() => {})")
    return page


def parameters(page: Any) -> int:
    """How many the program has that runs now."""
    load = "() => document.querySelector('py-frame').load().then((spec) => spec.parameters)"
    count: int = page.evaluate(load)
    return count


def edit(page: Any, old: str, new: str) -> None:
    page.evaluate(
        "([before, after]) => { const editor = document.querySelector('py-editor');"
        "editor.text = editor.text.replace(before, after); }",
        [old, new],
    )


def source(page: Any) -> str:
    text: str = page.evaluate("() => document.querySelector('py-editor').text")
    return text


def note(page: Any) -> str:
    text: str = page.locator("py-editor .quiet").inner_text()
    return text


def test_the_program_runs_beside_its_source(page: Any) -> None:
    assert page.title() == "my_model.py"
    assert source(page) == PROGRAM
    assert parameters(page) == PARAMETERS, "its modules came too"
    done = page.evaluate("() => document.querySelector('py-frame').train({ epochs: 1 })")
    assert done["steps"] == 1, "its data came too"


def test_an_edit_runs_and_is_kept(page: Any, program_tab: Tab) -> None:
    edit(page, "nn.Linear(2, WIDTH)", "nn.Linear(2, WIDTH, bias=False)")
    assert note(page) == "edited, not run yet"
    page.locator("py-editor [aria-label='Source of my_model.py']").focus()
    page.keyboard.press("Control+Enter")
    assert parameters(page) == PARAMETERS - 8
    assert note(page) == "edited"
    page = open_program(program_tab)
    assert "bias=False" in source(page)
    assert parameters(page) == PARAMETERS - 8
    page.locator("py-editor [part=revert]").click()
    assert source(page) == PROGRAM
    assert parameters(page) == PARAMETERS
    assert note(page) == ""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("def load_data():", "def load_data(:", 18, "invalid syntax"),
        ("WIDTH), nn.Tanh()", "WIDHT), nn.Tanh()", 14, "name 'WIDHT' is not defined"),
    ],
)
def test_an_error_marks_its_line(
    page: Any, program_tab: Tab, old: str, new: str, line: int, message: str
) -> None:
    edit(page, old, new)
    page.locator("py-editor [part=run]").click()
    said = page.locator("py-editor [part=message]")
    said.wait_for()
    assert re.search(rf"[Ll]ine {line}: .*{message}", said.inner_text())
    if serve.editor_folder():
        marked = page.locator("py-editor .cm-lintRange-error").first
        assert new in marked.inner_text()
    page.locator("py-editor [part=revert]").click()
    assert parameters(page) == PARAMETERS
    said.wait_for(state="hidden")
    program_tab.errors.clear()


def test_a_change_on_disk_is_offered(page: Any, path: Path) -> None:
    edit(page, "Points to part", "Mine")
    path.write_text(PROGRAM.replace("WIDTH), nn.Tanh()", "WIDTH, bias=False), nn.Tanh()"))
    try:
        page.evaluate("() => self.dispatchEvent(new Event('focus'))")
        news = page.locator("py-editor [part=news]")
        news.get_by_role("button", name="Reload").wait_for()
        assert "my_model.py is another file on the server now; your edits would go." in (
            news.inner_text()
        )
        news.get_by_role("button", name="Reload").click()
        assert "bias=False" in source(page)
        assert note(page) == ""
        assert parameters(page) == PARAMETERS - 8
    finally:
        path.write_text(PROGRAM)


def test_without_codemirror(page: Any, program_tab: Tab, path: Path) -> None:
    """In a page that comes anew, after edits that were reverted."""
    config = {**serve.config(PageProgram(path, [str(path.parent / "my data")])), "editor": None}
    program_tab.page.route("**/config.json", lambda route: route.fulfill(json=config))
    page = open_program(program_tab)
    area = page.locator("py-editor textarea")
    assert area.input_value() == PROGRAM
    area.fill(PROGRAM.replace("nn.Linear(2, WIDTH)", "nn.Linear(2, WIDTH, bias=False)"))
    area.press("Control+Enter")
    assert parameters(page) == PARAMETERS - 8


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("my_model.py", 200),
        ("helper.py", 200),
        ("below/deep.py", 200),
        ("my%20data/points.csv", 200),
        ("my%20data/.hidden", 404),
        ("my%20data", 404),
        ("other.py", 404),
        (".env", 404),
        ("../my_model.py", 404),
        ("below/../.env", 404),
        ("", 404),
    ],
)
def test_only_what_the_program_reads_is_served(
    own: serve.Server, name: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert get(own, f"/program/{name}").status == status


def test_links_that_lead_outside(tmp_path: Path) -> None:
    path = write(tmp_path / "folder")
    (tmp_path / "secret.py").write_text("secret")
    try:
        (path.parent / "my data" / "key").symlink_to(tmp_path / "secret.py")
        (path.parent / "helper.py").unlink()
        (path.parent / "helper.py").symlink_to(tmp_path / "secret.py")
    except OSError as error:
        pytest.skip(f"this user can make no links: {error}")
    assert list(PageProgram(path, [str(path.parent / "my data")]).files()) == ["my data/points.csv"]


def test_data_from_elsewhere_lies_beside_the_program(tmp_path: Path) -> None:
    path = write(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.csv").write_text("1")
    program = PageProgram(path, [str(tmp_path / "b"), "digits"], datasets=serve.DATASETS)
    assert list(program.files())[-1] == "b/c.csv"
    assert program.datasets == ["digits"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.py"], "there is no file no.py"),
        (["."], ". is no Python file; expected a program such as my_model.py"),
        (["text.txt"], "text.txt is no Python file; expected a program"),
        (["syntax.py"], "syntax.py, line 2: invalid syntax: x = = 1"),
        (["nothing.py"], "nothing.py defines no model: expected `demo = pyframe.web.Demo"),
        (["good.py", "--data", "nowhere"], "--data nowhere: expected a file or folder that exists"),
        (["good.py", "--weights", "no.safetensors"], "there are no weights in no.safetensors"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "export --python --to site"])
def test_what_is_no_program_is_told(
    command: str, arguments: list[str], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    texts = {
        "text.txt": "",
        "syntax.py": "y = 1\nx = = 1\n",
        "nothing.py": "x = 1\n",
        "good.py": "if True:\n    from other import make_model\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    assert main([*command.split(), *arguments]) == 1
    assert said in capsys.readouterr().err


def test_data_without_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data", "digits"]) == 1
    said = capsys.readouterr().err
    assert "--data is for a program, as in pyframe serve my_model.py --data" in said
