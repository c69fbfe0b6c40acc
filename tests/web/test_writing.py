"""Exported language models in Chromium with no Python: web/texts.js, and what the element shows."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from text.test_tokenizers import SPECIAL, TEXTS, byte_level

import pyframe as pf
from pyframe.text import CausalLM, Config, Tokenizer
from pyframe.web import Demo, Text, exporter

from .conftest import BLANK, Tab, files
from .test_export import STRICT, Site

BASE: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
NAMES = ("llama", "gpt2", "qwen2", "qwen2 int8", "qwen2 int4")
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
LETTERS = [chr(32 + i) for i in range(95)] + ["é", "😀"]
# what a page without WebGPU needs beside
POLICY = STRICT.replace("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'")
NEW = {"cpu": 24, "gpu": 6}  # a CPU plays the GPU
DISPATCHES = 2 * 12 + 6  # of two layers
PROMPT = [5, 80, 33, 2, 61, 17]
# it is read in one part, and the text goes on into the second span
LONG_PROMPT = [(7 * i * i) % 97 for i in range(250)]
HOW = {"do_sample": True, "temperature": 0.9, "top_k": 40, "top_p": 0.8, "min_p": 0.01,
       "repetition_penalty": 1.2, "seed": 2**33 + 5}  # fmt: skip
WARM = {"temperature": 1.5}  # of which no two texts are alike
SAMPLED = [HOW, {"do_sample": True, "temperature": 1.5, "seed": 7}, {"repetition_penalty": 1.3},
           {"do_sample": True, "top_k": 3, "seed": 1},
           {"no_repeat_ngram_size": 1, "suppress_tokens": [7, 255, 1000]},
           {"no_repeat_ngram_size": 2, "bad_words_ids": [[61, 17], [0]], "do_sample": True,
            "seed": 3, "top_k": 0, "begin_suppress_tokens": [*range(200)]}]  # fmt: skip
BEGIN = """async (url) => {
    Object.assign(self, await import(new URL("llama/player.js", url)));
    document.head.append(Object.assign(document.createElement("base"), { href: url }));
    self.heard = [];
    self.opened = async (name, device) => {
        if (self.at === `${name} ${device}`) return;
        self.engine?.close();
        self.at = `${name} ${device}`;
        self.engine = await open({ program: `${name}/`, device },
            (event, detail) => heard.push([event, detail]));
    };
    self.all = async (prompt, options) => {
        const found = [];
        for await (const piece of engine.generate(prompt, options)) found.push(piece);
        return found;
    };
}"""


def model(name: str) -> CausalLM:
    family = name.split()[0]
    vocabulary = {"llama": 97, "gpt2": 400, "qwen2": 256}[family]
    sizes = GPT2 if family == "gpt2" else BASE
    sizes |= {"max_position_embeddings": 320} if name == "llama" else {}
    config = Config.from_dict({**sizes, "model_type": family, "vocab_size": vocabulary})
    found = CausalLM(config).eval()
    pf.manual_seed(3)
    with pf.no_grad():
        for p in found.parameters():
            p.copy_(pf.randn(p.shape) * 0.3 + float(p.ndim == 1))
    if name == "qwen2 int4":
        config.generation = {"eos_token_id": [*range(0, 256, 9)], "min_new_tokens": 5, "top_k": 0,
                             "temperature": 0.0, "suppress_tokens": [30, 200]}  # fmt: skip
    if bits := name.removeprefix(family).strip():
        pf.quantize_(found, bits, group=32)
    return found


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    made = byte_level(pytest.importorskip("tokenizers"))
    return Tokenizer(made, SPECIAL, "{{ messages[0].content }}")


@pytest.fixture(scope="module")
def models() -> dict[str, CausalLM]:
    return {name: model(name) for name in NAMES}


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, models: dict[str, CausalLM], tokenizer: Tokenizer
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    kinds: dict[str, Any] = {"llama": LETTERS, "gpt2": tokenizer, "qwen2": bytes}
    for name, made in models.items():
        with pytest.MonkeyPatch.context() as patch:
            if name == "qwen2":
                patch.setattr(exporter, "FILE_BYTES", 40_000)
            done = pf.web.export(made, to=folder / name.replace(" ", "-"),
                                 tokenizer=kinds[name.split()[0]])  # fmt: skip
        assert done.left_out == []
        assert ("state-2.safetensors" in done.files) == (name == "qwen2")
    assert (folder / "gpt2" / "tokenizers.LICENSE").is_file()
    assert "\n@huggingface/tokenizers" in (folder / "gpt2" / "LICENSES.txt").read_text()
    assert not (folder / "llama" / "tokenizers.js").exists()
    for name, tokens in (("qwen2", bytes), ("gpt2", tokenizer)):
        demo = Demo(functools.partial(models.get, name), title="A page in one file")
        to = folder / f"{name}.html"
        done = pf.web.export(demo, to=to, single=True, tokenizer=tokens, length=40)
        assert list(done.files) == [to.name]
    (folder / "blank").mkdir()
    (folder / "blank" / "index.html").write_text(BLANK)
    with files(folder, lambda path: {"Content-Security-Policy": POLICY}) as url:
        yield Site(folder, url)


@pytest.fixture(scope="module")
def watched(browser: Any, site: Site) -> Iterator[Tab]:
    found = Tab(browser, site)
    found.open("blank/").evaluate(BEGIN, site.url)
    yield found
    found.close()


@pytest.fixture
def page(watched: Tab) -> Any:
    yield watched.page
    assert watched.errors == []


def written(made: CausalLM, prompt: list[int], new: int, **how: Any) -> list[int]:
    return made.generate([prompt], new, **how)[0].tolist()[len(prompt) :]


def in_page(**how: Any) -> dict[str, Any]:
    """Options as a page has them."""
    words = {name: name.split("_") for name in how}
    return {w[0] + "".join(x.title() for x in w[1:]): how[n] for n, w in words.items()}


# on a GPU the tests that follow go on with its kernels, as it takes long to make them
@pytest.mark.parametrize(
    ("name", "device"), [*((name, "cpu") for name in NAMES), ("qwen2 int8", "gpu")]
)
def test_tokens_are_those_of_generate(
    page: Any, models: dict[str, CausalLM], name: str, device: str
) -> None:
    page.evaluate("([name, device]) => opened(name, device)", [name.replace(" ", "-"), device])
    prompts = [PROMPT[:3], [*PROMPT, 9, 9, 4]]
    if (name, device) in (("llama", "cpu"), ("qwen2 int8", "gpu")):
        prompts[0] = LONG_PROMPT[: 250 if device == "cpu" else 100]  # these are two parts
    found = page.evaluate(
        """async ([prompts, maxNewTokens]) => {
            const found = [];
            for (const prompt of prompts) found.push(await all(prompt, { maxNewTokens }));
            return found;
        }""",
        [prompts, NEW[device]],
    )
    assert found == [written(models[name], p, NEW[device]) for p in prompts]


def test_a_token_is_one_number_and_no_pipeline(page: Any) -> None:
    page.evaluate("() => opened('qwen2-int8', 'gpu')")
    found = page.evaluate(
        """async (prompt) => {
            const { runtime } = engine.player;
            const { read, write } = runtime;
            const [bytes, given] = [[], []];
            runtime.read = (ids, sizes) => {
                bytes.push(sizes.reduce((a, b) => a + b));
                return read.call(runtime, ids, sizes);
            };
            runtime.write = (id, data) => {
                given.push(data.byteLength);
                return write.call(runtime, id, data);
            };
            const stats = [];
            for await (const token of engine.generate(prompt, { maxNewTokens: 6 })) {
                stats.push({ ...runtime.stats(), written: given.length });
            }
            return { stats, bytes };
        }""",
        PROMPT,
    )
    stats = found["stats"]
    later = [{k: b[k] - a[k] for k in b} for a, b in pairwise(stats[2:-1])]
    assert all(x["pipelines"] == x["written"] == 0 for x in later), later
    assert found["bytes"] == [8] * 6  # the token, and whether a check of values has failed
    assert {x["dispatches"] for x in later} == {DISPATCHES}


@pytest.mark.parametrize(("name", "device"), [("qwen2 int8", "gpu"), ("qwen2", "cpu")])
def test_what_is_drawn_is_what_generate_draws(
    page: Any, models: dict[str, CausalLM], name: str, device: str
) -> None:
    page.evaluate("([name, device]) => opened(name, device)", [name.replace(" ", "-"), device])
    ways = SAMPLED if device == "cpu" else SAMPLED[::5]
    found = page.evaluate(
        """async ([prompt, ways]) => {
            const found = [];
            for (const { seed, ...how } of ways) {
                found.push(await all(prompt, { ...how, seed: seed && BigInt(seed) }));
            }
            return found;
        }""",
        [PROMPT, [in_page(max_new_tokens=NEW[device], **how) for how in [*ways, WARM, WARM]]],
    )
    (*seeded, one, other) = found
    assert one != other
    assert seeded == [written(models[name], PROMPT, NEW[device], **how) for how in ways]


def test_a_text_comes_in_pieces_as_python_gives_them(
    page: Any, models: dict[str, CausalLM], tokenizer: Tokenizer
) -> None:
    page.evaluate("() => opened('gpt2', 'cpu')")
    texts = [text for text in TEXTS if text]
    found = page.evaluate(
        """async (texts) => {
            heard.length = 0;
            const found = [];
            for (const text of texts) found.push(await all(text, { maxNewTokens: 8 }));
            const written = await engine.predict(texts[0]);
            return { found, heard: heard.at(-1), written };
        }""",
        texts,
    )
    made = models["gpt2"]
    for text, pieces in zip(texts, found["found"], strict=True):
        tokens = made.stream(tokenizer.encode(text), 8)
        assert pieces == list(tokenizer.stream(tokens)), text
    assert found["heard"][1]["text"] == found["written"]
    assert found["written"].startswith(texts[0])


def test_bytes_and_characters_are_tokens(page: Any, models: dict[str, CausalLM]) -> None:
    page.evaluate("() => opened('qwen2', 'cpu')")
    pieces = page.evaluate("""() => all("aé", { maxNewTokens: 12 })""")
    new = written(models["qwen2"], list("aé".encode()), 12)
    assert "".join(pieces) == bytes(new).decode(errors="replace")
    page.evaluate("() => opened('llama', 'cpu')")
    found = page.evaluate("""() => all("aé b", { maxNewTokens: 12 })""")
    new = [LETTERS[t] for t in written(models["llama"], [LETTERS.index(c) for c in "aé b"], 12)]
    assert found == new
    text = "".join(new)
    for stop in (text[5:7], [text[8:11], text[3:6]]):
        given = page.evaluate("(stop) => all('aé b', { maxNewTokens: 12, stop })", stop)
        ends = [text.index(s) for s in ([stop] if isinstance(stop, str) else stop)]
        assert "".join(given) == text[: min(ends)]


def test_another_text_or_stop_ends_a_text(page: Any, models: dict[str, CausalLM]) -> None:
    page.evaluate("() => opened('llama', 'cpu')")
    found = page.evaluate(
        """async (prompt) => {
            const first = [];
            for await (const token of engine.generate(prompt)) {
                first.push(token);
                if (first.length === 3) engine.stop();
            }
            const left = [];
            for await (const token of engine.generate(prompt)) {
                left.push(token);
                if (left.length === 2) break;
            }
            const second = engine.generate(prompt)[Symbol.asyncIterator]();
            await second.next();
            const third = await all(prompt, { maxNewTokens: 20 });
            return [first, left, (await second.next()).done, third];
        }""",
        PROMPT,
    )
    new = written(models["llama"], PROMPT, 20)
    assert found == [new[:3], new[:2], True, new]


@pytest.mark.parametrize(
    ("prompt", "options", "said"),
    [
        ([], {}, "the prompt has no token"),
        ("", {}, "the prompt has no token"),
        ([97], {}, "tokens are integers from 0 to 96, got 97"),
        ([0.5], {}, "tokens are integers from 0 to 96, got 0.5"),
        ("a\x00", {}, r'this model knows no character "\u0000"'),
        ([1] * 320, {}, "320 tokens and 1 new ones are more than the 320 that this program was"),
        ([1] * 300, {"maxNewTokens": 21}, "300 tokens and 21 new ones are more than the 320"),
        ([1], {"maxNewTokens": 0}, "maxNewTokens is a number of tokens, 1 or more, got 0"),
        ([1], {"topp": 0.5}, "there is no option topp; there are maxNewTokens, doSample"),
        ([1], {"temperature": -1}, "temperature is 0, which takes the likeliest token, or more"),
        ([1], {"topK": 1.5}, "topK is 0, which is all tokens, or more, got 1.5"),
        ([1], {"topP": -1}, "topP is from 0 to 1, got -1"),
        ([1], {"badWordsIds": [1]}, "badWordsIds is lists of tokens, got 1"),
        ([1], {"badWordsIds": [[97]]}, "badWordsIds are tokens from 0 to 96, got 97"),
        ([1], {"suppressTokens": [*range(97)]}, "after 0 new tokens suppressTokens, badWordsIds"),
        ([1], {"minP": 2}, "minP is from 0 to 1, got 2"),
        ([1], {"repetitionPenalty": 0}, "repetitionPenalty is more than 0, got 0"),
        ([1], {"seed": 0.5}, "seed is an integer, got 0.5"),
        ([1], {"stop": [""]}, "stop is a text, or several, got "),
    ],
)
def test_what_is_refused(page: Any, prompt: Any, options: dict[str, Any], said: str) -> None:
    found = page.evaluate(
        """async ([prompt, options]) => {
            await opened("llama", "cpu");
            return all(prompt, options).then(() => null, (error) => error.message);
        }""",
        [prompt, options],
    )
    assert found.startswith(f"generate: {said}")


def test_the_element_writes(browser: Any, site: Site, models: dict[str, CausalLM]) -> None:
    tab = Tab(browser, site)
    page = tab.open("llama/")
    frame = page.locator("py-frame")
    frame.get_by_role("textbox").fill("aé b")
    ended = """(act) => new Promise((resolve) => {
        const frame = document.querySelector("py-frame");
        let pieces = 0;
        frame.addEventListener("prediction", ({ detail }) => {
            if (!pieces++ && act === "stop") frame.stop();
            if (detail.done) resolve([pieces, detail.text]);
        });
        frame.shadowRoot.querySelector("pf-text").shadowRoot.querySelector("button").click();
    })"""
    pieces, text = page.evaluate(ended, "whole")
    new = written(models["llama"], [65, 95, 0, 66], 256)
    assert text == "aé b" + "".join(LETTERS[t] for t in new)
    assert pieces == 257
    assert frame.get_by_role("button", name="Write").is_visible()
    pieces, text = page.evaluate(ended, "stop")
    assert pieces < 5
    assert text == "aé b" + "".join(LETTERS[t] for t in new[: pieces - 1])
    found = page.evaluate("""async () => {
        const found = [];
        const frame = document.querySelector("py-frame");
        for await (const piece of frame.generate("aé b", { maxNewTokens: 3 })) found.push(piece);
        for await (const token of frame.generate([65, 95, 0, 66])) {
            if (found.push(token) === 6) frame.stop();
        }
        return found;
    }""")
    assert found == [*(LETTERS[t] for t in new[:3]), *new[:3]]
    tab.close()


@pytest.mark.parametrize("name", ["qwen2", "gpt2"])
def test_a_page_in_one_file_writes(
    browser: Any, site: Site, models: dict[str, CausalLM], tokenizer: Tokenizer, name: str
) -> None:
    """It opens from the disk, with what makes tokens of texts in it."""
    tab = Tab(browser, Site(site.folder, (site.folder / f"{name}.html").as_uri()))
    page = tab.open("")
    prompt = "Hé, lower 😀"
    text = page.evaluate("(text) => document.querySelector('py-frame').predict(text)", prompt)
    tab.close()
    ids = list(prompt.encode()) if name == "qwen2" else tokenizer.encode(prompt)
    new = written(models[name], ids, 40 - len(ids))
    if name == "qwen2":
        assert text == prompt + bytes(new).decode(errors="replace")
    else:
        assert text == prompt + "".join(tokenizer.stream(new))


def test_exports_that_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = model("llama")
    with pytest.raises(ValueError, match=r"length is from 2 to the model's 320 tokens, got 321"):
        pf.web.export(made, to=tmp_path, length=321)
    with pytest.raises(TypeError, match=r"tokenizer= is a pf\.text\.Tokenizer, bytes, or a char"):
        pf.web.export(made, to=tmp_path, tokenizer=3)
    with pytest.raises(TypeError, match=r"tokenizer= and length= are for a pf\.text\.CausalLM"):
        pf.web.export(pf.nn.Linear(1, 1), pf.ones(1, 1), to=tmp_path, length=3)
    demo = Demo(lambda: made, Text("Once"), Text(), predict=lambda model, text: text)
    with pytest.warns(UserWarning, match="the demo's function predict= is left out"):
        done = pf.web.export(demo, to=tmp_path, length=20, element=False, cpu=False)
    assert json.loads((tmp_path / "program.json").read_text())["spec"]["input"] is not None
    assert "texts.js" in done.files


def test_the_files_are_a_tokenizer_s_folder(site: Site, tokenizer: Tokenizer) -> None:
    """Python reads what a page has, with the template of chats."""
    read = Tokenizer.from_pretrained(site.folder / "gpt2")
    assert (read.special, read.template) == (SPECIAL, tokenizer.template)
    assert [read.encode(t) for t in TEXTS] == [tokenizer.encode(t) for t in TEXTS]
