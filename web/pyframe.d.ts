// Types of pyframe.js: <py-frame>, its events, and the engines behind it.

import type { Fit, Writing } from "./player.js";

export type { Fit, Writing };

export type Device = "cpu" | "gpu";

/** n samples, one after the other, and their shape [n, …]. */
export interface Batch {
  data: Float32Array;
  shape: number[];
}

/** What the visitor gives: JSON data of one of the inputs of `pyframe.web`. */
export interface InputSpec {
  kind: "pad" | "image" | "points" | "position" | "text" | "chat" | "numbers";
  /** Of one sample; [] of a text. */
  shape: number[];
  [field: string]: unknown;
}

/** How the answer is shown: JSON data of one of the outputs of `pyframe.web`. */
export interface OutputSpec {
  kind: "bars" | "plane" | "picture" | "values" | "text";
  [field: string]: unknown;
}

export interface ControlSpec {
  kind: "slider" | "choice" | "toggle" | "text";
  name: string;
  value: unknown;
  [field: string]: unknown;
}

/** What is known of a program that is open. */
export interface Spec {
  title: string;
  description: string;
  input: InputSpec | null;
  output: OutputSpec | null;
  controls: ControlSpec[];
  epochs: number;
  batch_size: number;
  /** Whether it can be trained here. */
  trains: boolean;
  trained: boolean;
  /** Whether a part of it stays as it was made. */
  frozen?: boolean;
  parameters: number;
  metrics: string[];
  device: { kind: Device; name: string; software: boolean; choices: Device[] };
  steps_per_epoch: number | null;
  /** Whether there are data that it does not learn from. */
  tests?: boolean;
  /** Of those, or else of what it learns from: samples for pads and images. */
  samples?: { data: Float32Array; label: number | null }[];
  /** The data's own points, (x, y, class) each. */
  points?: Float32Array;
  /** The program's text, where there is one. */
  source: string | null;
  engine: "python" | "program";
  /** What the program gives to the page's own scripts. */
  extra?: Record<string, unknown>;
}

export interface Progress {
  text: string;
  /** From 0 to 1; null where nobody knows. */
  fraction: number | null;
}

export interface Step {
  /** Of the steps since the last news. */
  loss: number;
  /** Of the epoch so far. */
  metrics: Record<string, number>;
  /** Since the network was new. */
  step: number;
  /** At which this training will end. */
  steps: number;
  epoch: number;
  epochs: number;
  /** Steps a second. */
  speed: number;
}

/** What Model.fit logs after an epoch. */
export interface Epoch {
  epoch: number;
  loss: number;
  accuracy?: number;
  val_loss?: number;
  val_accuracy?: number;
  lr?: number;
  [quantity: string]: number | undefined;
}

export interface Trained {
  loss?: number;
  accuracy?: number;
  val_loss?: number;
  val_accuracy?: number;
  steps: number;
  seconds: number;
  /** Whether it was paused before its end. */
  stopped: boolean;
  [quantity: string]: unknown;
}

export type Prediction =
  | (Batch & { value: unknown; kind?: InputSpec["kind"] })
  | { text: string | string[]; done: boolean }
  | { results: Record<string, Batch>; value: unknown };

export interface Failure {
  message: string;
  /** Python's, or "". */
  traceback: string;
  error?: unknown;
}

export interface TrainOptions {
  /** By default as many as the element or the program says, or as a pause left. */
  epochs?: number;
  /** In place of epochs. */
  steps?: number;
  /** Only the first samples of the data. */
  limit?: number;
  /** Of an exported program: the page's own samples and their targets, one after the other. Later calls go on with them. */
  x?: ArrayLike<number> | readonly unknown[] | Picture;
  /** Of classes whole numbers. */
  y?: ArrayLike<number> | readonly unknown[];
}

/** Pictures of the browser; a file is a Blob. One of another site needs CORS. */
export type Picture = ImageBitmapSource;


/** The inputs of a program by their names; with a shape where several dims may have any size. */
export type Inputs = Record<string, ArrayLike<number> | { data: ArrayLike<number>; shape: number[] }>;

/** Detail of each event; all bubble, out of shadow trees too. */
export interface PyFrameEvents {
  progress: Progress;
  ready: Spec;
  step: Step;
  epoch: Epoch;
  trained: Trained;
  prediction: Prediction;
  error: Failure;
  notice: { text: string };
  devicelost: { text: string };
}

/**
 * `<py-frame src="model.py">`, or `<py-frame program="model/">` for an exported program.
 *
 * Slots: poster, before (and what has no slot), controls, status, chart, input, output. An element in
 * the slots input and output stands in for the widget: it has `value` and the event "input", or `show`.
 * CSS parts: head, title, description, before, poster, play, loading, loading-text, loading-progress,
 * error, error-message, traceback, traceback-text, retry, notices, notice, body, training, controls,
 * train, step-button, reset, save, devices, speed, settings, status, progress, numbers, device-name,
 * speed-now, chart, epochs-details, epochs, model, input, output, unseen, samples.
 */
export class PyFrame extends HTMLElement {
  /** What all elements take in place of config.json; null: they read it. */
  static config: Config | null;
  src: string;
  program: string;
  /** Names of files of the page, which are put beside the program. */
  files: string;
  /** Names of data sets that lie beside pyframe.js. */
  data: string;
  /** URL of a safetensors file. */
  weights: string;
  /** JSON: the model's names for those of the file of weights. The attribute `strict="false"` takes what fits. */
  rename: string;
  /** Packages of Pyodide. */
  packages: string;
  /** URL of the folder of another Pyodide. */
  pyodide: string;
  /** URL of the folder of the files for Python, such as a copy of what `pyframe export --python` writes. */
  base: string;
  device: "auto" | Device;
  loading: "lazy" | "eager" | "click";
  /** Pixels or a length of CSS that is reserved from the start, as by `--pf-height`. */
  height: string;
  epochs: number | null;
  autotrain: boolean;

  /** Resolves once the program is there; rejected with what is wrong, such as weights that are missing or do not
   *  fit, or when the element is removed before. A new one after a change of `src`. */
  readonly ready: Promise<Spec>;
  readonly spec: Spec | null;
  readonly history: Epoch[];
  readonly engine: Engine | null;
  readonly training: boolean;
  /** The program's text; what is set here runs in place of `src`. */
  source: string | null;

  /** Loads the program that the attributes name, if it is not there yet; after a failure once more. */
  load(): Promise<Spec>;
  /** Takes over weights: the bytes of a safetensors file, or its URL. */
  load(weights: string | Uint8Array | ArrayBuffer, options?: Fit): Promise<Spec>;
  /** Rejects with an AbortError where the element is removed meanwhile, or gets another program: the network goes, too. */
  train(options?: TrainOptions): Promise<Trained>;
  step(): Promise<Trained>;
  pause(): Promise<void>;
  /** `pause`, and the end of a text that is written. */
  stop(): Promise<void>;
  /** What an exported language model writes after a text, in pieces; leaving the loop, stop() or another text ends it. */
  generate(prompt: string, options?: Writing): AsyncGenerator<string, void>;
  /** The same in tokens. */
  generate(prompt: ArrayLike<number>, options?: Writing): AsyncGenerator<number, void>;
  /**
   * What the network makes of samples, one after the other in any nesting; the input shows a single one. With Bars or a
   * Plane these are probabilities; where `spec.output.scores` is true, as of a model that was exported alone, scores.
   */
  predict(value: ArrayLike<number> | readonly unknown[]): Promise<Batch>;
  /**
   * The same of one or several pictures, where the input is a Pad or an Image: their middles, in the network's pixels, from
   * 0 (black) to 1. What is transparent is white, on a Pad black: its paper is 0.
   */
  predict(picture: Picture | readonly Picture[]): Promise<Batch>;
  /** What is written of a text; in a chat the answer to it. */
  predict(text: string): Promise<string | string[]>;
  /** What an exported program with several inputs or outputs gives: its only output, or all by their names. */
  predict(inputs: Inputs): Promise<Batch | Record<string, Batch>>;
  /** Begins another conversation. */
  clear(): Promise<void>;
  /** Loss and metrics on the test data; null where there is none. */
  evaluate(): Promise<Record<string, number> | null>;
  reset(): Promise<void>;
  /** The weights as the bytes of a safetensors file. */
  save(): Promise<Uint8Array>;
  /** `save`; the browser keeps the file too, as `name` (.safetensors, if it says nothing else), unless `download` is false. */
  exportWeights(options?: { name?: string; download?: boolean }): Promise<Uint8Array>;
  /** Changes a control of the program. */
  set(name: string, value: unknown): Promise<void>;
  move(device: "auto" | Device): Promise<void>;

  addEventListener<Name extends keyof PyFrameEvents>(
    type: Name, listener: (this: PyFrame, event: CustomEvent<PyFrameEvents[Name]>) => unknown,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string, listener: EventListenerOrEventListenerObject, options?: boolean | AddEventListenerOptions,
  ): void;
}

/** Where the files for Python are. */
export interface Config {
  /** That the files of an element's `base` must have. */
  version?: string;
  pyodide?: string;
  /** The archives of pyframe's package. */
  early: string;
  late: string;
  /** By the name of a data set: URLs, or by their names beside the program. */
  datasets?: Record<string, string[] | Record<string, string>>;
}

/** What runs a program: python.js, or player.js for an exported one. Both export `open`. */
export interface Engine {
  readonly spec: Spec;
  train(options?: Omit<TrainOptions, "x" | "y"> & {
    points?: Float32Array; x?: ArrayLike<number>; y?: ArrayLike<number>;
  }): Promise<Trained>;
  /** Of an exported language model. */
  generate?(prompt: string | ArrayLike<number>, options?: Writing): AsyncGenerator<string | number, void>;
  /** After the step under way; `train` then resolves with `stopped`. Python's engine stops writing, too, or
   *  only what is named. */
  stop(what?: "training" | "writing"): Promise<void> | void;
  predict(value: ArrayLike<number> | string | Inputs): Promise<Batch | string | string[] | Record<string, Batch>>;
  /** Begins another conversation, where there are any. */
  clear?(): Promise<void>;
  evaluate(): Promise<Record<string, number> | null>;
  reset(): Promise<void>;
  set(name: string, value: unknown): Promise<void>;
  move(device: "auto" | Device): Promise<void>;
  save(): Promise<Uint8Array>;
  load(weights: string | Uint8Array | ArrayBuffer, name?: string, options?: Fit): Promise<void>;
  close(): Promise<void> | void;
}

export interface EngineOptions extends Fit {
  src?: string | null;
  program?: string | null;
  /** The program's text, in place of what lies at `src`. */
  text?: string | null;
  files?: string | string[];
  data?: string | string[];
  weights?: string | null;
  packages?: string | string[];
  pyodide?: string | null;
  device?: "auto" | Device;
  /** The folder of pyframe.js. */
  base: string;
  /** In place of `base`/config.json. */
  config?: Config | null;
  /** That the files of `base` must have; "": any, but `base` must be there. */
  version?: string;
  signal?: AbortSignal;
}

export type Hear = (
  event: "progress" | "step" | "epoch" | "prediction" | "samples" | "notice" | "devicelost" | "error" | "again",
  detail: Record<string, unknown>,
) => void;

export type Open = (options: EngineOptions, hear: Hear) => Promise<Engine>;

declare global {
  interface HTMLElementTagNameMap {
    "py-frame": PyFrame;
  }
}

/** What TSX takes of `<py-frame>`: its attributes, and of the event "trained" `ontrained`. */
export type PyFrameAttributes = {
  [Name in "src" | "program" | "files" | "data" | "weights" | "rename" | "packages" | "pyodide" | "base" | "device" | "loading"]?:
    PyFrame[Name];
} & { [Name in keyof PyFrameEvents as `on${Name}`]?: (event: CustomEvent<PyFrameEvents[Name]>) => void } & {
  height?: string | number;
  epochs?: number | string | null;
  autotrain?: boolean;
  strict?: "true" | "false" | "";
};

// Without React's types, which alone know what else an element takes, there is nothing to add to.
// @ts-ignore
declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      // @ts-ignore
      "py-frame": DetailedHTMLProps<HTMLAttributes<PyFrame>, PyFrame> & PyFrameAttributes;
    }
  }
}
