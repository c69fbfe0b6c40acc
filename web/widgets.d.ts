// Types of widgets.js: custom elements that stand alone in a plain page.

/** What an engine's `predict` gives: n samples and their shape [n, …]. */
export interface Batch {
  data: Float32Array;
  shape: number[];
}

/** JSON data that says what a widget is, by the names of its attributes; unknown entries are left alone. */
export type Spec<Fields> = Partial<Fields> & { kind?: string; shape?: number[]; label?: string };

/** What all widgets have. "error" has `detail.message`, and does not bubble. */
declare class Widget<Fields> extends HTMLElement {
  get spec(): Fields & { label: string };
  set spec(spec: Spec<Fields>);
}

/** An input: "input" whenever the value has changed. */
interface Input<Value> {
  /** One sample, laid out as the network takes it; null (a text: "") when there is none. */
  value: Value;
  clear(): void;
}

interface SizeFields {
  height: number;
  width: number;
}

/** `<pf-pad>`: a drawing pad; (1, height, width), ink 1 and paper 0. */
export class Pad extends Widget<SizeFields & { centered: boolean }> implements Input<Float32Array | null> {
  get value(): Float32Array | null;
  /** Puts a picture on the pad, which it gives back as it is until something is drawn. */
  set value(value: ArrayLike<number> | null);
  undo(): void;
  clear(): void;
}

/** `<pf-image>`: a photo; (channels, height, width) from 0 to 1. `most`: megabytes of a file. */
export class Image extends Widget<SizeFields & { channels: 1 | 3; most: number }>
  implements Input<Float32Array | null> {
  get value(): Float32Array | null;
  set value(value: ArrayLike<number> | null);
  /** Takes a picture's file; whether there is a picture in it. */
  open(file: Blob): Promise<boolean>;
  clear(): void;
}

interface PlaneFields {
  low: number;
  high: number;
}

/** `<pf-points>`: points of a plane, each of a class; "points" whenever the visitor has changed them. */
export class Points extends Widget<PlaneFields & { classes: number; names: string[] }>
  implements Input<Float32Array> {
  /** The place of the cursor, (2,). */
  get value(): Float32Array;
  set value(value: ArrayLike<number>);
  /** The visitor's points, (x, y, class) each; setting them dispatches nothing. */
  get points(): Float32Array;
  set points(points: ArrayLike<number> | null);
  /** Points that are only shown, in the same form, such as those of a data set. */
  get data(): Float32Array;
  set data(points: ArrayLike<number> | null);
  /** size * size places (x, y) to predict, the upper row first. */
  grid(size: number): Float32Array;
  /** Shows probabilities of the classes at those places; null shows none. */
  surface(probabilities: Batch | null, size?: number): void;
  undo(): void;
  clear(): void;
}

/** `<pf-position>`: a place in a plane, (2,), that one moves over. */
export class Position extends Widget<PlaneFields> implements Input<Float32Array> {
  get value(): Float32Array;
  set value(value: ArrayLike<number>);
  /** size * size places (x, y), the upper row first: the middles of the cells. */
  grid(size: number): Float32Array;
  /** Lays the pictures of those places, (size * size, channels, height, width), beneath; null none. */
  surface(pictures: Batch | null, size?: number): void;
  clear(): void;
}

interface TextFields {
  placeholder: string;
  most: number;
  button: string;
}

/**
 * `<pf-text>`: what a visitor writes (mode "input") or what the program writes (mode "output"); "submit" with { value },
 * "stop" while `busy`. With a `name` it is a control; an output with `names` has several texts.
 */
export class Text
  extends Widget<TextFields & { mode: "input" | "output"; names: string[]; name: string; value: string }>
  implements Input<string | string[]> {
  readonly name: string;
  busy: boolean;
  get value(): string | string[];
  set value(value: string | string[] | null);
  /** Shows all that is written so far; `given` is its start that the visitor wrote. */
  show(text: string | string[], done?: boolean, given?: string): void;
  clear(): void;
}

export interface Message {
  role: "user" | "assistant";
  content: string;
}

/** `<pf-chat>`: a conversation; "submit" with { value }, "stop" while `busy`, "clear" once it is cleared. */
export class Chat extends Widget<TextFields> implements Input<string> {
  busy: boolean;
  /** What the visitor writes now. */
  get value(): string;
  set value(value: string | null);
  /** All that was said, the oldest first. */
  get messages(): Message[];
  set messages(messages: Iterable<Message> | null);
  /** Puts what the visitor says into the conversation, with an answer that is still empty. */
  begin(text: string): void;
  /** Shows all of the answer that is written so far. */
  show(text: string, done?: boolean): void;
  /** Takes what was said last and its answer out again. */
  withdraw(): void;
  clear(): void;
}

/** `<pf-numbers>`: several sliders, whose values are the sample, (sliders,). */
export class Numbers extends Widget<{ sliders: Spec<SliderFields>[] }> implements Input<Float32Array> {
  get value(): Float32Array;
  set value(value: ArrayLike<number>);
  clear(): void;
}

/**
 * `<pf-bars>`: probabilities of classes; with `top` only the highest, in their order. With `scores` what is
 * shown are a network's scores, which it makes probabilities of.
 */
export class Bars extends Widget<{ names: string[]; top: number; scores: boolean }> {
  show(probabilities: Batch): void;
  clear(): void;
}

/**
 * `<pf-picture>`: a picture that the network gives, (channels, height, width) from 0 to 1. Its text alternative is its
 * label and the words that it is shown with.
 */
export class Picture extends Widget<SizeFields & { channels: 1 | 3 }> {
  show(pictures: Batch, words?: string): void;
  clear(): void;
}

/** `<pf-values>`: numbers that the network gives. */
export class Values extends Widget<{ names: string[]; unit: string }> {
  show(numbers: Batch): void;
  clear(): void;
}

export interface Logs {
  loss?: number | null;
  accuracy?: number | null;
  val_loss?: number | null;
  val_accuracy?: number | null;
}

/** `<pf-chart>`: loss and accuracy by step. */
export class Chart extends Widget<{ log: boolean; metrics: string[] }> {
  /** The step at which training will end. */
  planned: number;
  add(step: number, values: Logs): void;
  /** Marks the end of an epoch, with what is known then; the loss of its steps is left out. */
  epoch(step: number, values?: Logs): void;
  clear(): void;
}

export interface Sample {
  data: ArrayLike<number>;
  label?: number | null;
}

/** `<pf-samples>`: samples and what the network says; "choose" with { index, data, label }. */
export class Samples extends Widget<SizeFields & { kind: string; channels: 1 | 3; names: string[] }> {
  get samples(): Sample[];
  set samples(samples: Iterable<Sample> | null);
  /** Rows of probabilities, one for each sample. */
  show(predictions: ArrayLike<number>[] | Batch): void;
  /** Forgets what the network said. */
  clear(): void;
}

interface SliderFields {
  name: string;
  low: number;
  high: number;
  value: number;
  step: number;
  log: boolean;
}

/** A control: "change" with { name, value } when the visitor has changed it, "input" while he does. */
interface Control<Value> {
  readonly name: string;
  value: Value;
}

/** `<pf-slider>`: a number that one slides to. */
export class Slider extends Widget<SliderFields> implements Control<number> {
  readonly name: string;
  value: number;
  /** Back to the value at first. */
  reset(): void;
}

/** `<pf-choice>`: one of several words or numbers. */
export class Choice extends Widget<{ name: string; options: unknown[]; value: unknown }>
  implements Control<unknown> {
  readonly name: string;
  value: unknown;
}

/** `<pf-toggle>`: yes or no. */
export class Toggle extends Widget<{ name: string; value: boolean }> implements Control<boolean> {
  readonly name: string;
  value: boolean;
}

interface Widgets {
  "pf-bars": Bars;
  "pf-chart": Chart;
  "pf-chat": Chat;
  "pf-choice": Choice;
  "pf-image": Image;
  "pf-numbers": Numbers;
  "pf-pad": Pad;
  "pf-picture": Picture;
  "pf-points": Points;
  "pf-position": Position;
  "pf-samples": Samples;
  "pf-slider": Slider;
  "pf-text": Text;
  "pf-toggle": Toggle;
  "pf-values": Values;
}

declare global {
  interface HTMLElementTagNameMap extends Widgets {}
}

// @ts-ignore Without React's types there is nothing to add to.
declare module "react" {
  namespace JSX {
    // @ts-ignore
    interface IntrinsicElements extends WidgetElements {}
  }
  // @ts-ignore
  type WidgetElements = { [Name in keyof Widgets]: DetailedHTMLProps<HTMLAttributes<Widgets[Name]>, Widgets[Name]> &
    Record<string, unknown> };
}
