"""Files of tokenizers and templates of chats by people who mean harm: a clear error, in bounded
time and memory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pyframe.text import Tokenizer, templates

SAID = [{"role": "user", "content": "Hi"}]
DOUBLED = (
    "{%% set ns = namespace(x=[1, 2]) %%}{%% for i in range(60) %%}{%% set ns.x = %s %%}"
    "{%% endfor %%}{{ ns.x }}"
)


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(90) }}",
        "{{ 'x' * 10**9 }}", "{{ [1] * 10**9 }}", "{{ 9 ** (9 ** 9) }}",
        "{{ 'x' | center(10**9) }}", "{{ 'x'.ljust(10**9) }}", "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (10**9, 1) }}", "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, '1000000000') }}", "{{ '{a:{b}}'.format_map({'a': 1, 'b': 10**9}) }}",
        "{{ '%1000000000d' | format(1) }}", "{{ ('%s' * 50000) % ((('x' * 50000,) * 50000)) }}",
        "{{ (1).to_bytes(10**10, 'big') }}", "{{ ('x' * 50000).replace('x', 'y' * 50000) }}",
        "{{ ('x' * 50000) | join('y' * 50000) }}", "{{ ('y' * 50000).join('x' * 50000) }}",
        "{{ ('a' * 50000).translate({97: 'x' * 50000}) }}",
        "{{ ('\\n' * 50000) | indent('x' * 50000) }}", "{{ ('\\t' * 50000).expandtabs(50000) }}",
        "{{ ('x' * 50000) | replace('x', 'y' * 50000) }}", "{{ [1] | batch(10**9, 0) | list }}",
        "{{ 1.5 | round(10**9, 'ceil') }}", "{{ range(9999) | list | tojson(indent=60000) }}",
        "{% for x in range(99999) | map('center', 60000) %}{% endfor %}",
        "{{ 1 * 2 ** 99999 * 2 ** 99999 }}", "{{ ([[1]] * 90000) | sum(start=[]) }}",
        "{% for i in range(9999) %}{{ 'x' * 60000 }}{% endfor %}",
        *(DOUBLED % more for more in (
            "[ns.x, ns.x]", "(ns.x, ns.x)", "{'a': ns.x, 'b': ns.x}", "ns.x + ns.x", "ns.x ~ ns.x",
            "namespace(a=ns.x, b=ns.x)", "ns.x * 2",
            "ns.x %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y")),
    ],
)  # fmt: skip
def test_templates_take_so_much(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of time and of memory: what would take more is not made."""
    resource = pytest.importorskip("resource", reason="memory is not told here")
    monkeypatch.setattr(templates, "SECONDS", 1.0)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(ValueError, match="chat: the template takes too much: it "):
        templates.render(template, {"messages": SAID})
    assert time.monotonic() - start < 15, "a machine may do other things"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "refuses: maximum recursion depth"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "is no Jinja: maximum recursion depth"),
        ("{% for a in b %}" * 30 + "{% endfor %}" * 30, "is no Jinja: too many .* nested blocks"),
        ("{{ " + "9" * 5000 + " }}", "is no Jinja: Exceeds the limit"),
        ("x" * (1 << 19), "a template has 262,144 characters at most, 524,288"),
        ("{{ 1 // 0 }}", "refuses: .*zero"),
        ("{{ messages.no.no }}", "refuses: .*no attribute 'no'"),
        ("{% include '/etc/passwd' %}", "refuses: no loader"),
        ("{{ '' | striptags }}", "is no Jinja: No fil"),
        ("{{ messages | map(attribute='__class__') | list }}", "more than texts: it reads __class"),
        ("{{ messages | attr('__class__') }}", "asks for more than texts: it reads __class__"),
    ],
)
def test_templates_that_are_wrong(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"chat: .*{message}"):
        templates.render(template, {"messages": SAID})


WRITTEN = [  # what is no text, and what a template may do with it
    "{{ 'a'.upper }}", "{{ range }}", "{{ dict }}", "{{ namespace }}", "{{ cycler('a') }}",
    "{{ joiner() }}", "{{ strftime_now }}", "{{ cycler('a').next }}", "{{ messages[0].get }}",
    "{{ (1).to_bytes }}", "{{ messages | map('upper') }}", "{{ messages | map('attr', 'get') }}",
    "{{ [1] | reverse }}", "{{ messages | items }}", "{{ (messages | batch(2)) ~ '' }}",
    "{% macro f() %}{% endmacro %}{{ f }}", "{{ self }}", "{% block a %}{% endblock %}{{ self.a }}",
    "{% for m in messages %}{{ loop }}{% endfor %}", "{{ namespace(a='x'.upper) }}",
    "{% macro f() %}{{ caller }}{% endmacro %}{% call f() %}{% endcall %}", "{{ ['x'.upper] }}",
    "{{ {'a': joiner()} }}", "{{ ('x'.upper, 1) }}", "{{ 'x'.upper ~ 'y' }}",
    "{{ '%s' % 'x'.upper }}", "{{ '%r' % ['x'.upper] }}", "{{ '%(a)s' % {'a': range} }}",
    "{{ '{}'.format('x'.upper) }}", "{{ '{0.upper}'.format('x') }}",
    "{{ '{a[b].upper}'.format_map({'a': {'b': 'x'}}) }}", "{{ ('{0.upper}' | e).format('x') }}",
    "{{ '%s' | format(range) }}", "{{ ['x'.upper] | join }}", "{{ 'x'.upper | string | upper }}",
    "{{ 'x'.upper | urlencode }}", "{{ 'x' | replace('x', 'x'.upper) }}", "{{ range | pprint }}",
    "{{ ['a'] | map('attr', 'upper') | join }}", "{{ ['a'] | map('attr', 'upper') | list }}",
    "{% filter upper %}{{ 'x'.upper }}{% endfilter %}", "{{ raise_exception('x'.upper) }}",
    "{% set y %}{{ 'x'.upper }}{% endset %}{{ y }}",
]  # fmt: skip


@pytest.mark.parametrize("template", WRITTEN)
def test_places_in_memory_are_not_written(template: str) -> None:
    with pytest.raises(ValueError, match="asks for more than texts: it writes down ") as found:
        templates.render(template, {"messages": SAID})
    assert "0x" not in str(found.value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ no }}{{ [no] }}{{ none }}{{ loop }}", "[Undefined]None"),
        ("{{ range(2) }} {{ {'a': 1}.keys() }}", "range(0, 2) dict_keys(['a'])"),
        ("{% macro f(g) %}{{ g() }}{% endmacro %}{% macro g() %}G{% endmacro %}{{ f(g) }}", "G"),
        ("{% set f = 'x'.upper %}{{ f() }}{% set n = namespace(f=range) %}{{ n.f(2) | list }}",
         "X[0, 1]"),
        ("{{ messages | map(attribute='role') | join }}{{ messages | map('string') | first }}",
         "user{'role': 'user', 'content': 'Hi'}"),
        ("{{ '{:>{}}|{a[b]}'.format('x', 3, a={'b': 1}) }}", "  x|1"),
    ],
)  # fmt: skip
def test_what_is_written(template: str, text: str) -> None:
    assert templates.render(template, {"messages": SAID}) == text


def test_errors_name_no_places_in_memory() -> None:
    for template in ("{{ {}['a'.upper].x }}", "{{ messages('a'.upper) }}", "{{ 'a'.upper.x.y }}"):
        with pytest.raises(ValueError, match="chat: ") as found:
            templates.render(template, {"messages": SAID})
        assert "0x" not in str(found.value)


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
SWELL = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 20}
AROUND = {"type": "TemplateProcessing", "special_tokens": {}, "pair": []}
# what stands in a file in place of what a plain one has, and what is said of it
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "a regex without end": (
        {"pre_tokenizer": SPLIT | {"pattern": {"Regex": "(a+)+$"}}}, "retry-limit"),
    "no regex": (
        {"pre_tokenizer": SPLIT | {"pattern": {"Regex": "("}}},
        "is no tokenizer's file: .*unmatched"),
    "much of little": (
        {"normalizer": {"type": "Sequence", "normalizers": [SWELL] * 2}},
        "its normalizer makes more than 256"),
    "much of nothing": (
        {"decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 999}]}},
        "its decoder makes more than 256"),
    "many times": (
        {"post_processor": AROUND | {"single": [{"Sequence": {"id": "A", "type_id": 0}}] * 999}},
        "its post_processor makes more than 256"),
    "long words": (
        {"model": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "",
                   "max_input_chars_per_word": 10**18, "vocab": {"a": 0}}},
        "max_input_chars_per_word is 4096 at most"),
    "a large number": (
        {"model": {"type": "BPE", "vocab": {"a": 1 << 40}, "merges": []}}, "1099511627776"),
    "no vocabulary": ({"model": {"type": "BPE", "merges": []}}, "it has no model with a vocab"),
    "no model": ({"model": 3}, "it has no model with a vocab"),
    "no such token": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["q", "z"]]}}, "out of vocabulary"),
    "no token around": (
        {"post_processor": AROUND | {"single": [{"SpecialToken": {"id": "q", "type_id": 0}}]}},
        "Tokenizer: "),
    "no character map": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},
        "Tokenizer: .*charsmap"),
}  # fmt: skip


def hostile(name: str) -> str:
    """Such a tokenizer's file."""
    vocab = {"a": 0, "b": 1, "ab": 2}
    plain = {"type": "BPE", "unk_token": None, "vocab": vocab, "merges": [["a", "b"]]}
    parts = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return json.dumps({"version": "1.0", "added_tokens": [], **parts, "model": plain}
                      | HOSTILE[name][0])  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_tokenizers_that_are_hostile(name: str, tmp_path: Path) -> None:
    """They name what is wrong, when they are read or when a text is cut, in bounded time."""
    pytest.importorskip("tokenizers")
    path, start = tmp_path / "tokenizer.json", time.monotonic()
    path.write_text(hostile(name))
    with pytest.raises(ValueError, match=HOSTILE[name][1]):
        Tokenizer.from_pretrained(path).encode("a" * 5000 + "!")
    assert time.monotonic() - start < 15


PUBLISHED = [  # as GPT-2, GPT-4o, DeepSeek, Kimi and BLOOM cut texts
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
    r"[\p{Han}]+|[\p{Lu}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{M}&&[^\p{Han}]]+(?i:'s|'t)?|[一-龥぀-ゟ]+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\d{1,3}(?=(?:\d{3})*\b)",
]  # fmt: skip


def test_regexes_that_browsers_never_end() -> None:
    """They are found without trying them; those that are read in one way are none."""
    from pyframe.text.gguf import _CUTS
    from pyframe.text.twin import _see_that_regexes_end as see

    plain = [
        *filter(None, _CUTS.values()), *PUBLISHED, r"(?:\r?\n)+", r"\((a+)\)\*",
        r"(?:\p{L}\p{M}*)+", "(x(a|b))*", "(ab|ac)+", r"(?:\s+\S+)*", r"(?:[^\W\d_]+\d)+",
        r"(?:[A-Z][a-z]+)+", r"(?:[a-z]+\.)*[a-z]+", r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", "a*a*a*b",
        r"(?:\p{L}|\p{N})+", "(?:a?)*", r"(?:\x61\u0062)+", "", "{", "[]a]+", "x{2,3}",
        "[[:alpha:]]+",
    ]  # fmt: skip
    for pattern in plain:
        see({"pre_tokenizer": [{"pattern": {"Regex": pattern}}]})
    ways = (
        "(a+)+$", "(a|aa)+$", "(a*)*b", "((a+)b?)*", "(?:a+){2,}", "([ab]+)*", r"(?:\w|\d)+",
        "(?i)(?:a|A)+", "(?:a{1,3})+", "(?:a?a)*", "(a|a){30}", r"(?:\p{L}\w*)+", "(?:[^a]|b)+",
        r"(?:.|\n)*", "(?:ab|a|b)+", r"(?:.*\1)*", r"(?:é|\p{Ll})+", "(?:[一-龥]|丁)+",
        "(?:(?:a|b)?(?:b|c)?)*", r"(?:[a[bc]]|b)+", r"x(?=(?:[^\s]|\S)+y)",
    )  # fmt: skip
    other = {
        "(?:a|a)" * 30: "too many ways", "a*a*a*a*b": "more than 3 loops in a row take 'a'",
        "(" * 60 + ")" * 60: "groups are too deep", "(?:" + "ab|" * 2000 + "b)+": "too long",
        "(?:" * 20 + "){8}" * 20: "too long", "(?:a?){99999}": "repeats 99999 times what may be",
    }  # fmt: skip
    for pattern, why in [
        *((p, "repeats what is read in several ways") for p in ways),
        *other.items(),
    ]:
        with pytest.raises(ValueError, match=f"may take for ever: .*{why}"):
            see({"pre_tokenizer": [{"pattern": {"Regex": pattern}}]})


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"model":' * 100_000, "", "\ud800", "{}", "[]", "null"]
)
def test_files_that_are_no_tokenizers(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer's file: "):
        Tokenizer.from_pretrained(path)


def test_files_beside_a_tokenizer_that_are_wrong(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text(hostile("a regex without end"))
    path = tmp_path / "tokenizer_config.json"
    for wrong in (
        {"bos_token": 3}, {"bos_token": {"text": "x"}}, {"chat_template": 3},
        {"chat_template": ["x"]}, {"chat_template": [{"name": {}, "template": "x"}]},
        {"chat_template": [{"name": "x"}]},
    ):  # fmt: skip
        path.write_text(json.dumps(wrong))
        why = rf"tokenizer_config\.json in .* has .* was expected: {next(iter(wrong))}"
        with pytest.raises(ValueError, match=why):
            Tokenizer.from_pretrained(tmp_path)
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json holds a list, where fields by"):
        Tokenizer.from_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"chat_template\.jinja is no text"):
        Tokenizer.from_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    path.write_text(json.dumps({"pad_token": "no such token", "eos_token": "b"}))
    assert Tokenizer.from_pretrained(tmp_path).pad_id == 1
