// What an exported language model writes: the tokens after a prompt, one by one. player.js loads it for programs that
// do; pyframe/text/page.py says what their programs are.

const MOST = 256; // tokens, unless more are asked for
const LOW = -1e30; // the logarithm of no probability
const isToken = (x) => Number.isInteger(x) && x >= 0;
const areTokens = (x) => Array.isArray(x) && x.every(isToken);
const RANGES = {
  maxNewTokens: [(x) => Number.isInteger(x) && x > 0, "a number of tokens, 1 or more"],
  doSample: [(x) => typeof x === "boolean", "true or false"],
  temperature: [(x) => x >= 0 && Number.isFinite(x), "0, which takes the likeliest token, or more"],
  topK: [isToken, "0, which is all tokens, or more"],
  topP: [(x) => x >= 0 && x <= 1, "from 0 to 1"],
  minP: [(x) => x >= 0 && x <= 1, "from 0 to 1"],
  repetitionPenalty: [(x) => x > 0 && Number.isFinite(x), "more than 0"],
  noRepeatNgramSize: [isToken, "a number of tokens, 0 or more"],
  badWordsIds: [(x) => Array.isArray(x) && x.every((w) => areTokens(w) && w.length), "lists of tokens"],
  suppressTokens: [areTokens, "a list of tokens"],
  beginSuppressTokens: [areTokens, "a list of tokens"],
  minNewTokens: [isToken, "a number of tokens, 0 or more"],
  minLength: [isToken, "a number of tokens, 0 or more"],
  seed: [(x) => typeof x === "bigint" || Number.isSafeInteger(x), "an integer"],
  stop: [(x) => [x].flat().every((s) => typeof s === "string" && s), "a text, or several"],
};

/** The texts of a player's program. */
export async function writerOf(player) {
  const { tokens } = player.document.plan.write;
  if (tokens === null) return new Writer(player, null);
  if (tokens === "bytes") return new Writer(player, new Bytes());
  if (Array.isArray(tokens)) return new Writer(player, new Characters(tokens));
  const read = async (name) => JSON.parse(new TextDecoder().decode(
    await player.files.read(name, player.document.files[name])));
  const [{ Tokenizer }, said, special] = await Promise.all([
    player.files.module("tokenizers.js"), read("tokenizer.json"), read("tokenizer_config.json")]);
  return new Writer(player, new Words(new Tokenizer(said, special)));
}

class Writer {
  #player;
  #plan;
  #tokenizer;
  #ids = []; // the tokens that the cache has
  #turn = 0; // of texts: each ends the one before

  constructor(player, tokenizer) {
    this.#player = player;
    this.#plan = player.document.plan.write;
    this.#tokenizer = tokenizer;
  }

  /** Ends the text that is written. */
  stop() { this.#turn++; }

  /** Forgets what the cache has: other weights made it, or it is gone. */
  forget() { this.#ids = []; }

  /** What comes after a prompt: of a text pieces of text, of tokens tokens. */
  async * generate(prompt, options = {}) {
    const text = typeof prompt === "string";
    if (text && !this.#tokenizer) {
      throw new Error("generate: this program was exported without a tokenizer; give it tokens, an array of numbers.");
    }
    const ids = text ? this.#tokenizer.encode(prompt) : Array.from(prompt ?? []);
    const how = this.#how(ids, options);
    if (text) yield* new Pieces(this.#tokenizer, [how.stop ?? []].flat()).of(this.#tokens(ids, how));
    else yield* this.#tokens(ids, how);
  }

  /** The options of a text, each in its range. */
  #how(ids, options) {
    for (const name of Object.keys(options)) {
      if (!Object.hasOwn(RANGES, name)) {
        throw new Error(`generate: there is no option ${name}; there are ${Object.keys(RANGES).join(", ")}.`);
      }
      const [fits, expected] = RANGES[name];
      if (options[name] != null && !fits(options[name])) {
        throw new Error(`generate: ${name} is ${expected}, got ${String(options[name])}.`);
      }
    }
    const { length, vocabulary, how } = this.#plan;
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value != null));
    const count = ids.length;
    const usual = how.maxNewTokens || Math.max(how.maxLength - count, 0) || MOST;
    const most = given.maxNewTokens ?? Math.max(1, Math.min(usual, length - count));
    if (!count) throw new Error("generate: the prompt has no token; write something, or give the token that begins texts.");
    const odd = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabulary);
    if (odd !== undefined) throw new Error(`generate: tokens are integers from 0 to ${vocabulary - 1}, got ${odd}.`);
    if (count + most > length) {
      throw new Error(`generate: ${count} tokens and ${most} new ones are more than the ${length} that this program was ` +
        "exported for; shorten the prompt.");
    }
    const draws = ["temperature", "topK", "topP", "minP", "seed"].some((name) => name in given);
    const all = { temperature: 1, repetitionPenalty: 1, doSample: draws || Boolean(how.doSample), ...how, ...given };
    if (draws && given.doSample === undefined) all.doSample = true;
    if (all.temperature === 0) Object.assign(all, { doSample: false, temperature: 1 });
    if (given.minLength != null && given.minNewTokens == null) delete all.minNewTokens; // the file's
    return { ...all, most };
  }

  /** Tells the device how tokens are chosen; the name of the program that does. */
  #choose(ids, { doSample, temperature, topK, topP, minP, repetitionPenalty, seed }, bans) {
    const [player, { vocabulary }] = [this.#player, this.#plan];
    const penalizes = repetitionPenalty !== 1;
    if (doSample) {
      const words = seed === undefined ? crypto.getRandomValues(new Uint32Array(2))
        : [0n, 32n].map((by) => Number((BigInt.asUintN(64, BigInt(seed)) >> by) & 0xffffffffn));
      player.write("random:", [...words, 0]); // as pf.Generator begins
    } else if (!penalizes && !bans) {
      return "choose.likeliest";
    }
    const log = minP ? Math.log(Math.max(minP, 1e-30)) : LOW;
    const most = Math.min(doSample ? topK || vocabulary : 1, vocabulary);
    player.write("writer.how", [temperature, most, topP == null || topP === 1 ? 2 : topP, log, repetitionPenalty]);
    if (most === vocabulary && !penalizes && !bans && !minP && (topP ?? 1) === 1) return "choose.drawn";
    const seen = new Uint8Array(vocabulary);
    if (penalizes) for (const id of ids) seen[id] = 1;
    player.write("writer.seen", seen);
    player.write("writer.banned", bans ? bans.next(0) : new Uint8Array(vocabulary));
    return "choose.filtered";
  }

  async * #tokens(ids, how) {
    const player = this.#player;
    const { spans, ends, vocabulary } = this.#plan;
    const turn = ++this.#turn;
    const bans = Bans.of(ids, how, ends, vocabulary);
    const choose = this.#choose(ids, how, bans);
    this.#read(ids);
    player.run(choose);
    const read = () => {
      const found = player.tensors(["writer.token"]);
      found.catch(() => {}); // it is awaited, or nobody asks for it any more
      return found;
    };
    const asked = [read()];
    for (let k = 0; k < how.most; k++) {
      const more = () => {
        if (k + 1 === how.most) return;
        const at = ids.length + k;
        player.run(`write.${spans.find((n) => n > at)}`);
        const found = bans?.next(k + 1);
        if (found) player.write("writer.banned", found);
        player.run(choose);
        asked.push(read());
      };
      if (!bans?.waits) more(); // while a token is on its way, the next one is made
      const [[token]] = await asked.shift();
      if (turn !== this.#turn) return;
      if (k + 1 < how.most) this.#ids.push(token);
      yield token;
      if (turn !== this.#turn || ends.includes(token)) return;
      if (bans?.waits) {
        bans.add(token);
        more();
      }
    }
  }

  /** Has the device read what it doesn't know of a prompt. */
  #read(ids) {
    const { parts, spans, length } = this.#plan;
    let at = 0;
    while (at < ids.length - 1 && ids[at] === this.#ids[at]) at++;
    this.#ids = [...ids];
    while (at < ids.length) {
      const left = ids.length - at;
      const up = parts.find((n) => n >= left && n <= 2 * left);
      const size = up ?? parts.findLast((n) => n <= left) ?? parts[0];
      const begin = Math.min(at, length - size);
      const part = ids.slice(begin, begin + size);
      const count = part.length;
      while (part.length < size) part.push(0);
      this.#player.run(`read.${size}.${spans.find((n) => n >= begin + size)}`, part, [begin], [count]);
      at = begin + count;
    }
  }
}

/** Tokens that may not come next, as `Bans` of pyframe/text/generate.py has them. */
class Bans {
  #ids;
  #always;
  #first;
  #least; // new tokens before an end
  #ends;
  #words;
  #size;
  #followed = new Map(); // of the tokens before, what came after them
  #last; // what was told

  /** Null where there are none. */
  static of(ids, how, ends, vocabulary) {
    const { noRepeatNgramSize, badWordsIds, suppressTokens, beginSuppressTokens, minNewTokens, minLength } = how;
    const some = noRepeatNgramSize || minNewTokens || minLength
      || [badWordsIds, suppressTokens, beginSuppressTokens].some((x) => x?.length);
    return some ? new Bans(ids, how, ends, vocabulary) : null;
  }

  constructor(ids, how, ends, vocabulary) {
    const words = how.badWordsIds ?? [];
    const odd = words.flat().find((id) => id >= vocabulary);
    if (odd !== undefined) throw new Error(`generate: badWordsIds are tokens from 0 to ${vocabulary - 1}, got ${odd}.`);
    const alone = words.filter((word) => word.length === 1 && !ends.includes(word[0])).flat();
    this.vocabulary = vocabulary;
    this.#always = [...how.suppressTokens ?? [], ...alone];
    this.#first = how.beginSuppressTokens ?? [];
    this.#ends = ends;
    this.#least = how.minNewTokens ?? (how.minLength ?? 0) - ids.length;
    this.#words = words.filter((word) => word.length > 1);
    this.#size = how.noRepeatNgramSize ?? 0;
    this.#ids = [];
    for (const id of ids) this.add(id);
  }

  /** Whether they depend on the token before. */
  get waits() { return this.#size > 0 || this.#words.length > 0; }

  add(token) {
    this.#ids.push(token);
    const [size, end] = [this.#size, this.#ids.length];
    if (!size || end < size) return;
    const key = this.#ids.slice(end - size, end - 1).join();
    this.#followed.set(key, [...this.#followed.get(key) ?? [], token]);
  }

  /** One for each token, after `count` new ones; null if they are what was told last. */
  next(count) {
    const found = new Uint8Array(this.vocabulary);
    const [ids, size] = [this.#ids, this.#size];
    const some = [...this.#always, ...count === 0 ? this.#first : [], ...count < this.#least ? this.#ends : []];
    for (const word of this.#words) {
      const [before, last] = [word.slice(0, -1), word.at(-1)];
      if (before.length <= ids.length && before.every((id, i) => id === ids[ids.length - before.length + i])) some.push(last);
    }
    if (size && ids.length + 1 >= size) some.push(...this.#followed.get(ids.slice(ids.length + 1 - size).join()) ?? []);
    for (const id of some) if (id < found.length) found[id] = 1;
    if (found.every((x) => x)) {
      throw new Error(`generate: after ${count} new tokens suppressTokens, badWordsIds and noRepeatNgramSize leave none to come next.`);
    }
    if (this.#last?.every((x, i) => x === found[i])) return null;
    return this.#last = found;
  }
}

/** Tokens as pieces of text, none of which ends within a character; the text ends before a stop. */
class Pieces {
  #tokenizer;
  #stops;
  #ids = [];
  #begin = 0; // ids from here on are decoded,
  #told = 0; // those up to here known
  #held = ""; // what may be the beginning of a stop

  constructor(tokenizer, stops) {
    [this.#tokenizer, this.#stops] = [tokenizer, stops];
  }

  async * of(tokens) {
    for await (const token of tokens) {
      this.#ids.push(token);
      const [piece, ended] = this.#more(false);
      if (piece) yield piece;
      if (ended) return;
    }
    const [piece] = this.#more(true);
    if (piece) yield piece;
  }

  /** What a token lets be told, and whether that is all. */
  #more(last) {
    const text = this.#held + this.#decoded(last);
    const found = this.#stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
    if (found.length) return [text.slice(0, Math.min(...found)), true];
    let held = 0;
    for (const stop of last ? [] : this.#stops) {
      for (let n = 1; n < stop.length; n++) if (text.endsWith(stop.slice(0, n))) held = Math.max(held, n);
    }
    this.#held = text.slice(text.length - held);
    return [text.slice(0, text.length - held), false];
  }

  /** What the last token adds: nothing while a character is not whole. */
  #decoded(last) {
    const known = this.#tokenizer.decode(this.#ids.slice(this.#begin, this.#told));
    const now = this.#tokenizer.decode(this.#ids.slice(this.#begin));
    if (now.length <= known.length || (now.endsWith("\ufffd") && !last)) return "";
    [this.#begin, this.#told] = [this.#told, this.#ids.length];
    return now.slice(known.length);
  }
}

/** Tokens of `tokenizer.json`. */
class Words {
  #tokenizer;

  constructor(tokenizer) { this.#tokenizer = tokenizer; }

  encode(text) { return this.#tokenizer.encode(text).ids; }

  decode(ids) {
    return ids.length ? this.#tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false }) : "";
  }
}

/** Tokens that are the bytes of UTF-8. */
class Bytes {
  encode(text) { return Array.from(new TextEncoder().encode(text)); }

  decode(ids) { return new TextDecoder().decode(Uint8Array.from(ids)); }
}

/** Tokens that are characters. */
class Characters {
  #characters;
  #numbers;

  constructor(characters) {
    this.#characters = characters;
    this.#numbers = new Map(characters.map((c, i) => [c, i]));
  }

  encode(text) {
    return Array.from(text, (c) => {
      if (!this.#numbers.has(c)) throw new Error(`generate: this model knows no character ${JSON.stringify(c)}.`);
      return this.#numbers.get(c);
    });
  }

  decode(ids) { return ids.map((id) => this.#characters[id] ?? "").join(""); }
}
