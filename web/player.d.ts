// Types of player.js: exported programs in a page, with no Python.

/** Numbers: of float16 and bfloat16 as float32, of int64 in 32 bits, of bool 0 and 1 in bytes. */
export type Values =
  | Float32Array | Int32Array | Uint32Array | Int16Array | Uint16Array | Int8Array | Uint8Array;

/** Numbers with their shape. */
export interface Batch {
  data: Values;
  shape: number[];
}

/** A number; or what is calculated of sizes that may be any, as "#0" or ["//", "#0", 2]. */
export type Size = number | string | [string, ...Size[]];

/** What an input or output of a program is, or a tensor that stays between runs. */
export interface TensorInfo {
  name: string;
  shape: Size[];
  dtype: string;
}

/** program.json, as far as a page asks for it. */
export interface ProgramDocument {
  format: "pyframe-program";
  version: number;
  needs: { features: string[]; limits: Record<string, number> };
  options: Record<string, number>;
  tensors: (TensorInfo & {
    role: "parameter" | "buffer" | "moment" | "step" | "random" | "guard" | "metric" | "constant";
  })[];
  programs: Record<string, { inputs: TensorInfo[]; outputs: TensorInfo[] }>;
  spec: Record<string, unknown>;
}

/** How a file of weights must fit; by default as the program says, else to the letter. */
export interface Fit {
  /** False: what fits by its name is taken, and the rest left. */
  strict?: boolean;
  /** The model's names for the file's; an old one that ends in a dot stands for all that begin so. */
  rename?: Record<string, string>;
}

/** What runtime.js makes; players of a page share one where none is given. */
export interface Runtime {
  readonly limits: Record<string, number>;
  readonly features: string[];
  readonly lost: string | null;
}

/** Programs on a device, and the state that they share. */
export class Player {
  /**
   * Opens a folder that pf.web.export wrote (its URL), or a page's element that holds one ("#id").
   * Rejects where a file is missing or changed, or where the device lacks what the program needs.
   */
  static open(program: string | URL, options?: {
    runtime?: Runtime | null;
    /** "auto" is the GPU; where none fits, or a CPU plays it, WebAssembly, if it was exported too. */
    device?: "auto" | "gpu" | "cpu";
    signal?: AbortSignal | null;
    progress?: (detail: { text: string; fraction: number | null }) => void;
  }): Promise<Player>;

  readonly document: ProgramDocument;
  readonly runtime: Runtime;
  /** Where it runs, and where it could. */
  readonly device: "cpu" | "gpu";
  readonly devices: ("cpu" | "gpu")[];
  /** The optimizer's options that programs ask for: "0.lr" is the learning rate of the first group. */
  readonly options: Record<string, number>;
  /** The names of the programs: "train", "predict.1", or those given to pf.web.export. */
  readonly programs: string[];

  /** Makes kernels before they are needed, beside other work; `progress` gets the share done. */
  compile(names?: string[], progress?: (share: number) => void): Promise<void>;
  /**
   * Runs a program on its inputs, in the order of `document.programs[name].inputs`; reads nothing. Where several dims
   * of an input may have any size it is given with its shape.
   */
  run(name: string, ...inputs: (ArrayLike<number> | { data: ArrayLike<number>; shape: number[] })[]): void;
  /** The outputs of a program's last run, by their names. */
  results(name: string): Promise<Record<string, Batch>>;
  /** The values of tensors by their names in `document.tensors`. */
  tensors(names: string[]): Promise<Values[]>;
  /** Writes a tensor. */
  write(name: string, values: ArrayLike<number>): void;
  /** Gives the tensors whose names begin so the values that they were exported with. */
  restore(prefix: string): void;
  /** Changes an option, 0 or more, from the next run on: "lr" in all groups, "0.lr" in the first. */
  set(name: string, value: number): void;
  /** The weights as a safetensors file, which Model.load reads; `all`: with the optimizer's state. */
  save(options?: { all?: boolean }): Promise<Uint8Array>;
  /** Takes over weights of `save`, or of Model.save. `name`: what an error calls them. */
  load(bytes: Uint8Array, name?: string, options?: Fit): void;
  /** All as it was exported. */
  reset(): void;
  /** Keeps a copy of the state on the host, for `reopen`. */
  keep(): Promise<void>;
  /** Opens a lost device anew with the last copy; false where that is the exported state. */
  reopen(): Promise<boolean>;
  /** Goes on with another device, with all that training has changed. */
  move(device: "cpu" | "gpu"): Promise<void>;
  /** Gives back what it holds of the device. From then on all methods, and what they have promised, fail with an AbortError. */
  close(): void;
}

/** What an engine tells while it loads and trains, by the event's name. */
export interface EngineEvents {
  progress: { text: string; fraction: number | null };
  /** `loss` is of the steps since the last news, a Model's metrics are of the epoch so far. */
  step: {
    loss: number; step: number; steps: number; epoch: number; epochs: number; speed: number;
    metrics: Record<string, number>;
  };
  epoch: { epoch: number; step: number; loss: number; lr?: number; [metric: string]: number | undefined };
  samples: { predictions: number[][] };
  notice: { text: string };
  devicelost: { text: string };
}

/** How training went: the last means, and how far it came. */
export interface Trained {
  loss?: number;
  steps: number;
  seconds: number;
  stopped: boolean;
  [metric: string]: number | boolean | undefined;
}

/** How a language model writes; unless given as its `generation_config.json` says. */
export interface Writing {
  /** 256, or as many as there is room for. */
  maxNewTokens?: number;
  /** Whether tokens are drawn; true where one of the next options is given, but for a temperature of 0. */
  doSample?: boolean;
  temperature?: number;
  /** 0 is all. */
  topK?: number;
  topP?: number;
  minP?: number;
  seed?: number | bigint;
  repetitionPenalty?: number;
  /** No so many tokens in a row are there twice. */
  noRepeatNgramSize?: number;
  /** Tokens that don't come one after the other. */
  badWordsIds?: number[][];
  suppressTokens?: number[];
  /** Tokens that don't come first. */
  beginSuppressTokens?: number[];
  /** So many tokens come before one that ends the text; or so many with the prompt's. */
  minNewTokens?: number;
  minLength?: number;
  /** Texts that end it, and are not part of it. */
  stop?: string | string[];
}

/** An exported program with its data, as `<py-frame program="…">` drives it. */
export interface Engine {
  readonly spec: Record<string, unknown>;
  /** The Player beneath. */
  readonly player: Player;
  /**
   * Trains on the data that were exported (their first `limit`), on (x, y, class) triples, or on the page's own samples `x`
   * and targets `y`, one after the other, which later calls go on with.
   */
  train(options?: {
    epochs?: number | null; steps?: number | null; limit?: number | null;
    points?: Float32Array | null; x?: ArrayLike<number> | null; y?: ArrayLike<number> | null;
  }): Promise<Trained>;
  /** Ends training after the step under way, and a text after its token; or only what is named. */
  stop(what?: "training" | "writing"): void;
  /** What an exported language model writes after a text, in pieces; leaving the loop or another text ends it. */
  generate(prompt: string, options?: Writing): AsyncGenerator<string, void>;
  /** The same in tokens. */
  generate(prompt: ArrayLike<number>, options?: Writing): AsyncGenerator<number, void>;
  /** What the network gives for n samples, one after the other. */
  predict(value: ArrayLike<number>): Promise<{ data: Float32Array; shape: number[] }>;
  /** A text, and what an exported language model writes after it. */
  predict(text: string): Promise<string>;
  /** What a program "predict" gives for inputs by their names: its only output, or all by their names. */
  predict(inputs: Record<string, ArrayLike<number> | { data: ArrayLike<number>; shape: number[] }>):
    Promise<Batch | Record<string, Batch>>;
  /** Loss and metrics on the test data; null where none were exported. */
  evaluate(): Promise<Record<string, number> | null>;
  /** The network as it was exported. */
  reset(): Promise<Record<string, unknown>>;
  /** Changes an option of the optimizer, from the next step on. */
  set(name: string, value: number): Promise<Record<string, unknown>>;
  move(device: "gpu" | "cpu"): Promise<Record<string, unknown>>;
  save(): Promise<Uint8Array>;
  /** Takes over weights: the bytes of a file, or its URL. */
  load(weights: string | Uint8Array | ArrayBuffer, name?: string, options?: Fit): Promise<Record<string, unknown>>;
  /** Stops, and gives back what it holds; then all fails with an AbortError, as does a training that it ended. */
  close(): Promise<void>;
}

/** Opens an exported program to train and to predict with. */
export function open(
  options: {
    program: string | URL;
    weights?: string | URL | null;
    strict?: boolean;
    rename?: Record<string, string>;
    device?: "auto" | "gpu" | "cpu";
    signal?: AbortSignal | null;
    runtime?: Runtime | null;
  },
  hear?: <Name extends keyof EngineEvents>(event: Name, detail: EngineEvents[Name]) => void,
): Promise<Engine>;
