"""The site of the documentation; scripts/build_docs makes it."""

from __future__ import annotations

import builtins
import html
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import reference  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx import addnodes  # noqa: E402
from sphinx.util.docutils import SphinxDirective  # noqa: E402

import pyframe  # noqa: E402

if importlib.util.find_spec("torch"):
    import torch  # noqa: F401  (the reference then says how arguments differ from PyTorch's)

project = "pyframe"
author = "the pyframe developers"
release = pyframe.__version__
extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"
python_display_short_literal_types = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
html_theme = "pydata_sphinx_theme"
html_title = "pyframe"
html_favicon = "../web/icon.svg"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_sidebars = {"**": ["pages.html"]}
templates_path = ["_templates"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark as the reader's system, without a complaint
html_static_path = ["_static"]
html_css_files = ["site.css"]
suppress_warnings = ["myst.xref_missing"]  # files beside docs/; a test follows such links


class Demo(SphinxDirective):
    """A program of a page: it is shown, and the reader runs and changes it."""

    has_content = True
    required_arguments = 1  # its name

    def run(self) -> list[nodes.Node]:
        """The element, and its source beside it."""
        name, text = self.arguments[0], "\n".join(self.content) + "\n"
        path = Path(self.env.app.outdir) / "_static" / "programs" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if self.env.app.builder.format != "html":
            return [nodes.literal_block(text, text, language="python")]
        base = "../" * self.env.docname.count("/") + "_static"
        frame = (
            f'<py-frame id="{name}" src="{base}/programs/{name}.py" loading="click"></py-frame>'
            f'<py-editor for="{name}"></py-editor>'
            f"<noscript><pre>{html.escape(text)}</pre></noscript>"
            f'<script type="module" src="{base}/pyframe/pyframe.js"></script>'
            f'<script type="module" src="{base}/pyframe/editor.js"></script>'
        )
        return [nodes.raw("", frame, format="html")]


def unlinked(app: Any, document: Any) -> None:
    """Python's own types in signatures are no links: pyframe has an `int` and a `float`, too."""
    for link in list(document.findall(addnodes.pending_xref)):
        if link.get("reftype") == "class" and hasattr(builtins, link["reftarget"]):
            link.replace_self(link.children)


def plain(app: Any, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Arguments of a signature are lines: as the `<dl>` of Sphinx, which has no term, they are a
    list that screen readers can't tell."""
    lines = r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>"
    to = '<div class="arguments">\n{}</div>'
    context["body"] = re.sub(
        lines,
        lambda m: to.format(re.sub("(</?)dd>", r"\1div>", m[1])),
        context.get("body", ""),
    )


def setup(app: Any) -> None:
    """Write the reference before pages are read."""
    app.connect("config-inited", lambda *_: reference.write(HERE / "reference"))
    app.connect("doctree-read", unlinked)
    app.connect("html-page-context", plain)
    app.add_directive("demo", Demo)
