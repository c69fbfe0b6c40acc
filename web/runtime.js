// Runs compiled Programs on WebGPU: buffers by number, pipelines shared by their WGSL text, and a
// whole training step replayed in one call. Pipelines are made beside all other work: what is to run
// before they are there waits in order, and nothing blocks. It knows nothing of Python; see
// pyframe/backend/browser.py.
//
//   const rt = await createRuntime();                        // null: this browser has no WebGPU
//   const x = rt.alloc(16); rt.write(x, new Uint8Array(16));
//   const program = rt.load([wgsl], ["double"], Int32Array.of(0, 1, 1, 1, -1, 0, 1, 0), 1, 0);
//   rt.run(program, Int32Array.of(x), null);
//   const bytes = await rt.read(Int32Array.of(x), Int32Array.of(16));

const LIMITS = [
  "maxBindingsPerBindGroup", "maxBufferSize", "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ", "maxComputeWorkgroupsPerDimension",
];
const FEATURES = ["shader-f16", "subgroups", "timestamp-query"];
const BIND_GROUPS = 16; // kept for a step
const ONE_SUBMIT = 32; // dispatches that go to the device together; longer runs in 4 to 8 pieces
const QUERIES = 4096; // in one set: what WebGPU allows
const NOTHING = "@compute @workgroup_size(1) fn main() {}";
const STAGING = 4; // staging buffers kept for the next read
const IDLE = 256; // pipelines that are kept though no program uses them any more
const STEP_HEAD = 7; // kernel, grid x, y, z, params offset, params size, number of slots
const PAUSES = [0, 100, 1000]; // ms before each try to open a lost GPU again
const TOLD = 5000; // ms in which a browser says that a device is gone whose memory it gave up
const STOPPED = "the browser or the graphics driver stopped it, as happens where memory runs out or a " +
  "step takes too long"; // for people; what browsers say is for their makers
const LATE = "; too much waits for it to put another text in its place";
const MOST_WAITING = 4096; // commands that wait for pipelines, and
const MOST_BYTES = 64 << 20; // what they hold to be written; more blocks until the pipelines are there
const BINDING = /@binding\((\d+)\)\s*var<\s*(\w+)\s*(?:,\s*(\w+)\s*)?>/g;

const ANSWERS = 10_000; // ms in which a browser says whether it has an adapter; some drivers never let it

let asked = null; // the time of the first request for one that waits for its answer
let nextId = 1; // ids are never used twice, by no Runtime, so a stale one can't name a newer buffer

/** What comes of a promise, or null if nothing has until `ms` later. */
function within(ms, promise) {
  let timer;
  const late = new Promise((done) => { timer = setTimeout(done, ms, null); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The best adapter; null where there is none, or the browser has not answered in time. */
async function adapterOf(powerPreference) {
  if (!navigator.gpu) return null;
  asked ??= performance.now();
  const left = Math.max(asked + ANSWERS - performance.now(), ANSWERS / 10); // who asks later waits no longer
  const found = navigator.gpu.requestAdapter({ powerPreference });
  const answered = () => { asked = null; };
  found.then(answered, answered);
  return within(left, found);
}

/** A Runtime on the best adapter, with the adapter's own limits; null without WebGPU. */
export async function createRuntime({ powerPreference = "high-performance" } = {}) {
  const adapter = await adapterOf(powerPreference);
  if (!adapter) return null;
  const requiredLimits = {};
  for (const name of LIMITS) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
  const device = await within(ANSWERS, adapter.requestDevice({ requiredLimits, requiredFeatures }));
  if (!device) return null;
  return new Runtime(device, describe(adapter), () => createRuntime({ powerPreference }));
}

function describe(adapter) {
  const { vendor = "", architecture = "", device = "", description = "" } = adapter.info ?? {};
  const text = `${vendor} ${architecture} ${device} ${description}`;
  const software = Boolean(adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter) ||
    /swiftshader|llvmpipe|lavapipe|basic render|softpipe/i.test(text);
  return { vendor, architecture, device, description, software };
}

class Runtime {
  #device;
  #buffers = new Map(); // id -> { buffer, offset, nbytes, parts, steps }: a buffer or a part of one
  #pipelines = new Map(); // WGSL -> a kernel: see #kernel
  #layouts = new Map(); // kinds of bindings -> { group, pipeline }, which kernels share
  #idle = new Set(); // the WGSL of those that no program uses, the oldest first
  #programs = new Map(); // id -> { kernels, ready, steps, users, pieces, ids, params, uploaded }
  #later = null; // { program, act, steps }: what waits for pipelines, in order; null: nothing does
  #held = 0; // bytes that it holds to be written
  #making = { done: 0, total: 0 }; // pipelines, since none was being made
  #readers = new Set(); // told when a kernel that they wait for is refused: see #told
  #begun = new Map(); // ticket -> promise of what such a reader asked for
  #staging = []; // mappable buffers that no read uses now
  #clock = null; // a query, the buffer that it is resolved to, and a kernel
  #checks = new Set(); // promises of compilations and buffers not yet known to be good
  #errors = []; // what the next read throws, the cause first
  #failed = new Map(); // GPUBuffers that there was no memory for -> the error that says so
  #first = nextId; // smaller ids are another Runtime's
  #again; // makes another Runtime
  #next = null; // promise of it
  #counts = { dispatches: 0, submits: 0, bind_groups: 0, reads: 0, params_uploads: 0, compiled: 0 };
  #bytes = 0;

  constructor(device, info, again) {
    this.#device = device;
    this.#again = again;
    this.next = null; // the Runtime in the place of this one, once it is there
    this.oncompile = null; // called with { done, total } as pipelines are made
    this.info = info;
    this.limits = Object.fromEntries(LIMITS.map((name) => [name, device.limits[name]]));
    this.features = [...device.features].sort(); // browsers give them in any order
    this.lost = null; // why the device is gone, once it is
    this.thrown = null; // what the last run threw
    device.lost.then(({ message, reason }) => {
      this.lost = reason === "destroyed" ? message || reason : STOPPED;
      this.#goOn(); // reads that wait tell it
    });
    device.addEventListener("uncapturederror", (event) => { // internal errors
      event.preventDefault?.();
      this.#errors.push(new Error(event.error.message));
    });
    device.pushErrorScope("validation"); // one scope is open from each read to the next
  }

  /** The Runtime in the place of one whose device was lost; null where the browser gives none. */
  reopen() {
    this.#next ??= this.#reopen().then((next) => {
      if (!next) this.#next = null; // the next call tries again
      else next.oncompile = this.oncompile;
      return this.next = next;
    });
    return this.#next;
  }

  async #reopen() {
    for (const pause of PAUSES) { // a browser may have to start its GPU process again
      if (pause) await new Promise((done) => setTimeout(done, pause));
      const next = await this.#again().catch(() => null);
      if (next) return next;
    }
    return null;
  }

  /** A new buffer of at least `nbytes` bytes: its number. */
  alloc(nbytes) {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    return this.#alloc(nbytes, usage);
  }

  /** A number for a part of a buffer, which can stand wherever a buffer's can. */
  slice(id, offset, nbytes) {
    const size = Math.ceil(nbytes / 4) * 4;
    const whole = this.#buffer(id, offset + size);
    const part = { ...whole, offset: whole.offset + offset, nbytes: size, steps: new Set() };
    this.#buffers.set(nextId, part);
    whole.parts.add(nextId);
    return nextId++;
  }

  /**
   * Destroys a buffer, with its parts, once the work already submitted is done, and the bind groups
   * with it. Of a part it destroys only the number.
   */
  free(id) {
    const record = this.#buffers.get(id);
    if (!record) return; // it went with the buffer that it was a part of
    this.#buffers.delete(id);
    if (!record.parts.delete(id)) {
      for (const part of record.parts) this.free(part);
      this.#bytes -= record.nbytes;
      this.#destroy(record.buffer);
      this.#failed.delete(record.buffer);
    }
    this.#unbind(id, record);
  }

  /** The numbers of the buffers that there was no memory for. They can only be freed. */
  failed() {
    const whole = ([id, { buffer, parts }]) => this.#failed.has(buffer) && !parts.has(id);
    return [...this.#buffers].filter(whole).map(([id]) => id);
  }

  /** Copies `data` (a typed array, a multiple of 4 bytes) to the start of a buffer. */
  write(id, data) {
    this.#use();
    const { buffer, offset } = this.#buffer(id, data.byteLength);
    this.#write(buffer, offset, data);
  }

  /** Copies the first `nbytes` bytes of buffer `source` to `target`, in order with the runs. */
  copy(target, source, nbytes) {
    this.#use();
    const size = Math.ceil(nbytes / 4) * 4;
    const [to, from] = [this.#buffer(target, size), this.#buffer(source, size)];
    if (this.#later) this.#wait(null, () => this.#copy(to, from, size));
    else this.#copy(to, from, size);
    this.#counts.submits++;
  }

  /** The first `sizes[i]` bytes of buffer `ids[i]`, one after the other, after all work so far. */
  read(ids, sizes) { return this.#told(this.#read(ids, sizes)); }

  async #read(ids, sizes) {
    this.#use();
    const parts = [];
    let total = 0;
    for (let i = 0; i < ids.length; i++) {
      const size = Math.ceil(sizes[i] / 4) * 4;
      const { buffer, offset } = size ? this.#buffer(ids[i], size) : {};
      parts.push({ buffer, offset, at: total, size, nbytes: sizes[i] });
      total += size;
    }
    const out = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
    const staging = this.#takeStaging(total);
    this.#counts.submits++;
    this.#counts.reads++;
    const begin = () => this.#beginRead(parts, staging);
    const { mapped, checks, scope } = this.#later ? await this.#turn(null, begin) : begin();
    const failure = await mapped;
    if (failure) {
      this.#errors.push(new Error(String(failure)));
      const wait = failure.name === "AbortError" ? TOLD : 100; // nothing but a loss aborts it
      const told = new Promise((done) => setTimeout(done, wait));
      await Promise.race([this.#device.lost, told]); // which may be known a little later
    }
    if (!this.lost) await checks;
    const invalid = await scope;
    if (invalid) this.#errors.push(new Error(invalid.message));
    const [first] = this.#errors; // the others follow from it
    this.#errors = [];
    if (first || this.lost) staging.destroy();
    this.#use();
    if (first) throw first;
    const bytes = new Uint8Array(staging.getMappedRange());
    let to = 0;
    for (const { at, nbytes } of parts) {
      out.set(bytes.subarray(at, at + nbytes), to);
      to += nbytes;
    }
    staging.unmap();
    if (this.#staging.push(staging) > STAGING) this.#staging.shift().destroy();
    return out;
  }

  /**
   * Makes the pipelines of texts that are expected, beside all other work; resolves when they are
   * there. What is wrong with a text is told when a program is made of it.
   */
  async compile(codes, labels) {
    if (this.lost) return;
    const kernels = this.#kernels(codes, labels).filter(Boolean);
    for (const { code, users } of kernels) if (!users) this.#idle.add(code);
    await Promise.all(kernels.map(({ made }) => made));
  }

  /** The texts that programs were made of so far and their labels, as `compile` takes them. */
  codes() {
    const loaded = [...this.#pipelines.values()].filter(({ loaded, error }) => loaded && !error);
    return { codes: loaded.map(({ code }) => code), labels: loaded.map(({ label }) => label) };
  }

  /**
   * A program made of kernels (WGSL texts with entry point `main`, and their names; an empty text
   * is a kernel that no step uses) and of steps: for each step [kernel, grid x, y, z, params offset
   * or -1, params size, n, slot 1 … slot n]. A step binds its slots to 0 … n-1 of group 0, and its
   * part of the params, a uniform, to n. Of a `replaceable` one a kernel that turns out to be refused
   * holds up what waits for it, until others were put in its place (`replace`), or none (`skip`).
   */
  load(codes, labels, steps, slots, paramBytes, replaceable = false) {
    const kernels = this.#kernels(codes, labels);
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const program = {
      kernels: [], replaceable, ready: false, steps: [], pieces: [],
      users: Array.from({ length: slots }, () => []), // the steps that use a slot
      ids: null, uploaded: null, // the buffers and params of the last run
      describe: { label: labels.join(", ") }, // what WebGPU's messages call it
      params: paramBytes ? this.#create(paramBytes, usage) : null,
    };
    for (let at = 0; at < steps.length;) {
      const [kernel, x, y, z, offset, size, n] = steps.subarray(at, at + STEP_HEAD);
      at += STEP_HEAD;
      const step = {
        program, at: kernel, kernel: kernels[kernel], x, y, z, offset, size, slots: steps.slice(at, at + n),
        groups: new Map(), group: null, // bind groups by what they bind; the one in use
      };
      for (const slot of new Set(step.slots)) program.users[slot].push(step);
      program.steps.push(step);
      at += n;
    }
    program.pieces = pieces(program.steps);
    this.#take(program, kernels.filter(Boolean));
    this.#programs.set(nextId, program);
    return nextId++;
  }

  /**
   * Puts other texts in the places of the kernels numbered `which` of a program, which are all those
   * of the refused text `code`, also for the runs that wait: with `grids`, x, y and z of each, and the
   * same bindings.
   */
  replace(id, code, which, codes, labels, grids) {
    const program = this.#programs.get(id);
    if (!program) return;
    const refused = program.kernels.filter((kernel) => kernel.code === code);
    for (const kernel of refused) if (--kernel.users === 0) this.#pipelines.delete(code);
    program.kernels = program.kernels.filter((kernel) => kernel.code !== code);
    const kernels = this.#kernels(codes, labels);
    this.#take(program, kernels);
    const waiting = (this.#later ?? []).filter((one) => one.program === program);
    for (const step of [program.steps, ...waiting.map(({ steps }) => steps)].flat()) {
      const i = which.indexOf(step.at);
      if (i < 0) continue;
      const [x, y, z] = grids.slice(3 * i, 3 * i + 3);
      Object.assign(step, { kernel: kernels[i], x, y, z });
    }
    program.ready = whole(program);
    this.#goOn();
  }

  /** Does without the runs that wait for a refused text: how many these are. */
  skip(code) {
    const lacks = ({ program }) => program?.replaceable &&
      program.kernels.some((kernel) => kernel.error && kernel.code === code);
    const runs = (this.#later ?? []).filter(lacks);
    for (const { program } of runs) program.replaceable = false;
    this.#goOn();
    return runs.length;
  }

  /** Waits again for what an error called "RefusedError" has interrupted. */
  again(ticket) {
    const begun = this.#begun.get(ticket);
    this.#begun.delete(ticket);
    return this.#told(begun);
  }

  /** Forgets a program, its bind groups and its params; of its pipelines the latest stay. */
  unload(id) {
    const program = this.#programs.get(id);
    if (!program) return;
    this.#programs.delete(id);
    for (const step of program.steps) for (const key of step.groups.keys()) this.#forget(step, key);
    if (program.params) this.#destroy(program.params);
    for (const kernel of program.kernels) {
      if (--kernel.users === 0) this.#idle.add(kernel.code);
    }
    for (const code of [...this.#idle].slice(0, Math.max(this.#idle.size - IDLE, 0))) {
      this.#idle.delete(code);
      this.#pipelines.delete(code);
    }
  }

  /**
   * Runs every step of a program with buffer `ids[slot]` for its slots. `params` may be null where
   * they are as before, and so may `grids`: x, y and z of each step, where they are others than at
   * first. Gives the number of bind groups that had to be made, and of submits.
   */
  run(id, ids, params, grids = null) {
    this.thrown = null;
    try {
      return this.#run(id, ids, params, grids);
    } catch (error) {
      this.thrown = error; // for Python: on its way through Pyodide an error is lost now and then
      throw error;
    }
  }

  #run(id, ids, params, grids) {
    const before = this.#counts.bind_groups;
    const program = this.#prepare(id, ids, params, grids);
    const { pieces, steps, describe } = program;
    if (this.#later) { // with the bind groups of now
      const kept = pieces.map((piece) => piece.map((step) => ({ ...step })));
      this.#wait(program, () => { if (whole(program)) this.#encode(kept, describe); }, kept.flat());
    } else {
      this.#encode(pieces, describe);
    }
    this.#counts.dispatches += steps.length;
    this.#counts.submits += pieces.length;
    return [this.#counts.bind_groups - before, pieces.length];
  }

  /** Runs a program once: the nanoseconds of each step; null where the device has no clock. */
  profile(...run) { return this.#told(this.#profile(...run)); }

  async #profile(id, ids, params, grids = null) {
    if (!this.features.includes("timestamp-query")) return null;
    const program = this.#prepare(id, ids, params, grids);
    const sets = [];
    for (let at = 0; at < program.steps.length; at += QUERIES / 2) {
      const steps = program.steps.slice(at, at + QUERIES / 2).map((step) => ({ ...step }));
      const count = 2 * steps.length;
      const querySet = this.#device.createQuerySet({ type: "timestamp", count });
      const times = this.#alloc(8 * count, GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC);
      sets.push({ steps, querySet, times, nbytes: 8 * count });
    }
    const act = () => { if (whole(program)) for (const set of sets) this.#time(set, program.describe); };
    if (this.#later) this.#wait(program, act, sets.flatMap(({ steps }) => steps));
    else act();
    const { steps } = program;
    this.#counts.dispatches += steps.length;
    this.#counts.submits += sets.length;
    try {
      const bytes = await this.#read(sets.map(({ times }) => times), sets.map(({ nbytes }) => nbytes));
      const ticks = new BigInt64Array(bytes.buffer);
      return steps.map((_, i) => Math.max(0, Number(ticks[2 * i + 1] - ticks[2 * i])));
    } finally {
      for (const { querySet, times } of sets) {
        querySet.destroy();
        this.free(times);
      }
    }
  }

  /** Notes the device's clock, in nanoseconds, in the first 8 bytes of a buffer, after all work so
   * far. For devices that have "timestamp-query". */
  mark(id) {
    this.#use();
    const { buffer, offset } = this.#buffer(id, 8);
    if (this.#later) this.#wait(null, () => this.#mark(buffer, offset));
    else this.#mark(buffer, offset);
    this.#counts.submits++;
  }

  /** What was done so far, and what is held. */
  stats() {
    return {
      ...this.#counts, pipelines: this.#pipelines.size, programs: this.#programs.size,
      buffers: this.#buffers.size, bytes: this.#bytes,
    };
  }

  /** Gives everything back to the browser. */
  destroy() {
    this.#device.destroy();
  }

  /** Throws if the device is gone. Without this it would take all work, and do nothing. */
  #use() {
    if (this.lost) throw named("DeviceLostError", `the GPU device was lost: ${this.lost}`);
  }

  #mark(buffer, offset) {
    this.#clock ??= {
      querySet: this.#device.createQuerySet({ type: "timestamp", count: 1 }),
      ticks: this.#create(8, GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC),
      pipeline: this.#device.createComputePipeline({
        layout: "auto", compute: { module: this.#device.createShaderModule({ code: NOTHING }) },
      }),
    };
    const { querySet, ticks, pipeline } = this.#clock;
    const encoder = this.#device.createCommandEncoder();
    const timestampWrites = { querySet, beginningOfPassWriteIndex: 0 };
    const pass = encoder.beginComputePass({ timestampWrites });
    pass.setPipeline(pipeline); // some drivers pass over what has no work
    pass.dispatchWorkgroups(1);
    pass.end();
    encoder.resolveQuerySet(querySet, 0, 1, ticks, 0);
    encoder.copyBufferToBuffer(ticks, 0, buffer, offset, 8);
    this.#device.queue.submit([encoder.finish()]);
  }

  #alloc(nbytes, usage) {
    this.#use();
    const size = Math.max(4, Math.ceil(nbytes / 4) * 4);
    if (size > this.limits.maxBufferSize) {
      throw new RangeError(`a buffer of ${size} bytes is over the device's ${this.limits.maxBufferSize}`);
    }
    const id = nextId++;
    const record = {
      buffer: this.#create(size, usage, (error) => {
        if (this.#buffers.has(id)) this.#failed.set(record.buffer, error);
        for (const each of [id, ...record.parts]) this.#unbind(each, this.#buffers.get(each));
      }),
      offset: 0, nbytes: size,
      parts: new Set(), // the numbers of the buffer's parts, which share this set
      steps: new Set(), // those with a bind group for it
    };
    this.#buffers.set(id, record);
    this.#bytes += size;
    return id;
  }

  /** A GPUBuffer. Whether there is memory for it is known later: the next read tells. */
  #create(size, usage, failed = () => {}) {
    this.#device.pushErrorScope("out-of-memory");
    const buffer = this.#device.createBuffer({ size, usage });
    const check = this.#device.popErrorScope().catch(() => null).then((error) => {
      this.#checks.delete(check);
      if (!error) return;
      const told = named("OutOfMemoryError", `no memory for a buffer of ${size} bytes`, size);
      this.#errors.unshift(told); // before what follows from it
      failed(told);
    });
    this.#checks.add(check);
    return buffer;
  }

  /** Drops the bind groups for a buffer. */
  #unbind(id, record) {
    for (const step of record?.steps ?? []) {
      step.program.ids = null; // it can't be run as it is
      for (const [key, { ids }] of step.groups) if (ids.includes(id)) this.#forget(step, key);
    }
  }

  #buffer(id, nbytes = 0) {
    const record = this.#buffers.get(id);
    if (!record && id < this.#first) throw named("DeviceLostError", `buffer ${id} was on a lost device`);
    if (!record) throw new Error(`buffer ${id} does not exist, or was freed`);
    const error = this.#failed.get(record.buffer);
    if (error) {
      this.#errors = this.#errors.filter((other) => other !== error); // told
      throw error;
    }
    if (nbytes > record.nbytes) {
      throw new RangeError(`buffer ${id} has ${record.nbytes} bytes, fewer than ${nbytes}`);
    }
    return record;
  }

  #submit(encoder) {
    this.#device.queue.submit([encoder.finish()]);
  }

  #write(buffer, offset, data) {
    if (this.#later) {
      const copy = data.slice(); // the caller may change its own
      this.#held += copy.byteLength;
      this.#wait(null, () => {
        this.#held -= copy.byteLength;
        this.#device.queue.writeBuffer(buffer, offset, copy);
      });
    } else {
      this.#device.queue.writeBuffer(buffer, offset, data);
    }
  }

  #copy(to, from, size) {
    const encoder = this.#device.createCommandEncoder();
    if (to.buffer === from.buffer) { // which WebGPU does not copy directly
      const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      const between = this.#create(size, usage);
      encoder.copyBufferToBuffer(from.buffer, from.offset, between, 0, size);
      encoder.copyBufferToBuffer(between, 0, to.buffer, to.offset, size);
      this.#submit(encoder);
      between.destroy();
    } else {
      encoder.copyBufferToBuffer(from.buffer, from.offset, to.buffer, to.offset, size);
      this.#submit(encoder);
    }
  }

  /** Destroys a buffer when the work so far is done. */
  #destroy(buffer) {
    if (this.#later) this.#wait(null, () => buffer.destroy());
    else buffer.destroy();
  }

  #encode(pieces, describe) {
    for (const steps of pieces) {
      const encoder = this.#device.createCommandEncoder(describe);
      const pass = encoder.beginComputePass();
      let current = null;
      for (const step of steps) {
        if (step.kernel !== current) {
          current = step.kernel;
          pass.setPipeline(current.pipeline);
        }
        pass.setBindGroup(0, step.group);
        pass.dispatchWorkgroups(step.x, step.y, step.z);
      }
      pass.end();
      this.#submit(encoder); // the device starts while the next piece is encoded
    }
  }

  /** Runs steps with the device's clock before and after each. */
  #time({ steps, querySet, times }, describe) {
    const encoder = this.#device.createCommandEncoder(describe);
    steps.forEach((step, i) => {
      const pass = encoder.beginComputePass({ timestampWrites: {
        querySet, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1,
      } });
      pass.setPipeline(step.kernel.pipeline);
      pass.setBindGroup(0, step.group);
      pass.dispatchWorkgroups(step.x, step.y, step.z);
      pass.end();
    });
    encoder.resolveQuerySet(querySet, 0, 2 * steps.length, this.#buffer(times).buffer, 0);
    this.#submit(encoder);
  }

  /** Starts to copy parts of buffers to where the host can read them. */
  #beginRead(parts, staging) {
    const encoder = this.#device.createCommandEncoder();
    for (const { buffer, offset, at, size } of parts) {
      if (size) encoder.copyBufferToBuffer(buffer, offset, staging, at, size);
    }
    this.#submit(encoder);
    const scope = this.#device.popErrorScope().catch(() => null); // refused by a lost device
    this.#device.pushErrorScope("validation");
    const mapped = staging.mapAsync(GPUMapMode.READ).catch((error) => error);
    this.#device.queue.submit([]); // Firefox resolves the map 100 ms later without a nudge
    return { mapped, scope, checks: Promise.all(this.#checks) };
  }

  // --- what waits for pipelines

  /** Lets `act`, which runs `steps`, wait behind what waits already, and for the pipelines of
   * `program`. */
  #wait(program, act, steps = []) {
    this.#later.push({ program, act, steps });
    if (this.#later.length <= MOST_WAITING && this.#held <= MOST_BYTES) return;
    for (const { program } of this.#later) { // the caller never lets go of the thread
      for (const kernel of program?.kernels ?? []) {
        if (kernel.error) this.#giveUp(program, kernel);
        else if (!kernel.pipeline) this.#force(kernel);
      }
    }
    this.#goOn();
  }

  /** Makes a kernel's pipeline at once: what runs with it is lost if it is refused. */
  #force(kernel) {
    kernel.pipeline = this.#device.createComputePipeline(kernel.descriptor);
    kernel.forced = true;
  }

  /** Does without the runs of a program that wait for a refused kernel, which the next read tells. */
  #giveUp(program, kernel) {
    if (!program.replaceable) return;
    program.replaceable = false;
    this.#errors.unshift(refused(kernel, LATE));
  }

  /**
   * What a promise gives, but where a kernel that it waits for is refused: then an error tells its
   * text and a ticket for `again`.
   */
  #told(promise) {
    const ticket = nextId++;
    return new Promise((resolve, reject) => {
      const tell = (kernel) => {
        this.#readers.delete(tell);
        this.#begun.set(ticket, promise);
        reject(Object.assign(refused(kernel), { ticket }));
      };
      const done = (settle) => (value) => {
        this.#readers.delete(tell);
        settle(value);
      };
      this.#readers.add(tell);
      promise.then(done(resolve), done(reject));
      this.#goOn();
    });
  }

  /** What `act` gives when its turn has come. */
  #turn(program, act) {
    return new Promise((resolve, reject) => {
      this.#wait(program, () => {
        try {
          resolve(act());
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  /** Does what waits, up to the first program whose pipelines are not there yet. */
  #goOn() {
    const waiting = this.#later ?? [];
    let done = 0;
    for (const { program, act } of waiting) {
      const there = ({ pipeline, error }) => (error ? !program.replaceable : pipeline);
      if (program && !this.lost && !program.kernels.every(there)) break;
      done += 1;
      try {
        act();
      } catch (error) {
        this.#errors.push(error);
      }
    }
    this.#later = done < waiting.length ? waiting.slice(done) : null;
    const { replaceable, kernels } = this.#later?.[0].program ?? {};
    const wrong = replaceable && kernels.find(({ error }) => error);
    if (wrong) for (const tell of this.#readers) tell(wrong);
  }

  /** Whether a program can run now. Throws what is wrong with its kernels. */
  #isReady(program) {
    const wrong = program.kernels.find(({ error }) => error);
    if (wrong && !program.replaceable) throw refused(wrong);
    return program.ready = whole(program);
  }

  #takeStaging(nbytes) {
    const at = this.#staging.findIndex((buffer) => buffer.size >= nbytes && buffer.size <= 4 * nbytes + 4096);
    if (at >= 0) return this.#staging.splice(at, 1)[0];
    const size = Math.max(256, 2 ** Math.ceil(Math.log2(nbytes || 1)));
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    return this.#create(Math.min(size, this.limits.maxBufferSize), usage);
  }

  /** Notes that a program uses kernels. */
  #take(program, kernels) {
    program.kernels.push(...kernels);
    for (const kernel of kernels) {
      kernel.users += 1;
      kernel.loaded = true;
      this.#idle.delete(kernel.code);
      if (!kernel.settled) this.#checks.add(kernel.made);
    }
  }

  /** The kernels of texts; the pipelines of new ones are all made at once. */
  #kernels(codes, labels) {
    const { total } = this.#making;
    const kernels = codes.map((code, i) => (code ? this.#kernel(code, labels[i]) : null));
    if (this.#making.total > total) this.#tell();
    return kernels;
  }

  #kernel(code, label) {
    const known = this.#pipelines.get(code);
    if (known) return known;
    this.#use();
    const device = this.#device;
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label, code });
    const layout = this.#layout(code);
    const compute = { module, entryPoint: "main" };
    const descriptor = { label, layout: layout.pipeline, compute };
    const kernel = {
      code, label, descriptor, layout: layout.group, pipeline: null, error: null,
      made: null, settled: false, // a promise that its pipeline is there, or its error
      forced: false, // whether it may run before it is known not to be refused
      loaded: false, users: 0, // whether a program was made of it, and how many there are
    };
    let broken = null;
    if (device.createComputePipelineAsync) {
      const take = (pipeline) => { kernel.pipeline = pipeline; };
      broken = device.createComputePipelineAsync(descriptor).then(take, (error) => error);
    } else {
      this.#force(kernel);
    }
    const invalid = device.popErrorScope().catch(() => null); // a lost device refuses to say
    kernel.made = this.#settle(kernel, invalid, broken);
    this.#pipelines.set(code, kernel);
    this.#counts.compiled += 1;
    this.#making.total += 1;
    return kernel;
  }

  /** What follows when a kernel's pipeline is there, or known to be wrong. */
  async #settle(kernel, ...problems) {
    const error = (await Promise.all(problems)).find(Boolean);
    if (error && !this.lost) {
      kernel.error = await explain(kernel, error).catch(() => error.message);
      const waiting = (this.#later ?? []).map(({ program }) => program).filter(Boolean);
      const programs = [...this.#programs.values(), ...waiting].filter((p) => p.kernels.includes(kernel));
      for (const program of programs) program.ready = false;
      const waits = programs.some(({ replaceable }) => replaceable);
      if (!kernel.loaded) this.#pipelines.delete(kernel.code); // told when it is loaded
      else if (kernel.forced || !waits || programs.some(({ replaceable }) => !replaceable)) {
        this.#errors.unshift(refused(kernel, kernel.forced && waits ? LATE : "")); // before what follows
      }
    }
    kernel.settled = true;
    kernel.descriptor = null;
    this.#checks.delete(kernel.made);
    this.#goOn();
    this.#making.done += 1;
    this.#tell();
  }

  /** Tells how many of the pipelines under way are there. */
  #tell() {
    const { done, total } = this.#making;
    queueMicrotask(() => this.oncompile?.({ done, total })); // which may throw
    if (done === total) this.#making = { done: 0, total: 0 };
  }

  /**
   * The layouts of the bindings that a text declares. They are not left to the pipeline, so that
   * bind groups can be made before it is there.
   */
  #layout(code) {
    const entries = Array.from(code.matchAll(BINDING), ([, binding, kind, access]) => {
      const storage = access === "read_write" ? "storage" : "read-only-storage";
      const type = kind === "uniform" ? "uniform" : storage;
      return { binding: Number(binding), visibility: GPUShaderStage.COMPUTE, buffer: { type } };
    });
    const key = entries.map(({ binding, buffer }) => `${binding} ${buffer.type}`).join();
    let layouts = this.#layouts.get(key);
    if (!layouts) {
      const group = this.#device.createBindGroupLayout({ entries });
      const pipeline = this.#device.createPipelineLayout({ bindGroupLayouts: [group] });
      this.#layouts.set(key, layouts = { group, pipeline });
    }
    return layouts;
  }

  /** A program with bind groups for these buffers: only those of steps with other ones change. */
  #prepare(id, ids, params, grids) {
    this.#use();
    const program = this.#programs.get(id);
    if (!program) throw new Error(`run: program ${id} is not loaded`);
    if (!program.ready && !this.#isReady(program)) this.#later ??= [];
    if (!same(ids, program.ids)) {
      const { steps, users, ids: last } = program;
      if (ids.length !== users.length) {
        throw new Error(`run: the program has ${users.length} slots, and ${ids.length} buffers were given`);
      }
      const stale = new Set(last ? [] : steps);
      last?.forEach((before, slot) => {
        if (ids[slot] !== before) for (const step of users[slot]) stale.add(step);
      });
      program.ids = null; // should this fail, all steps are looked up the next time
      for (const step of stale) step.group = this.#group(step, Array.from(step.slots, (slot) => ids[slot]));
      program.ids = ids.slice();
    }
    grids?.forEach((n, i) => { program.steps[Math.floor(i / 3)]["xyz"[i % 3]] = n; });
    if (program.params && params && !same(params, program.uploaded)) {
      this.#write(program.params, 0, params);
      program.uploaded = params.slice();
      this.#counts.params_uploads++;
    }
    return program;
  }

  /** The bind group of a step for these buffers. */
  #group(step, ids) {
    const { program, kernel, offset, size, groups } = step;
    const key = ids.join();
    const known = groups.get(key);
    if (known) {
      groups.delete(key); // and last again: the first one is the next to go
      groups.set(key, known);
      return known.group;
    }
    const records = ids.map((id) => this.#buffer(id));
    const entries = records.map(({ buffer, offset, nbytes }, binding) => (
      { binding, resource: { buffer, offset, size: nbytes } }));
    if (offset >= 0) {
      entries.push({ binding: ids.length, resource: { buffer: program.params, offset, size } });
    }
    const { label, layout } = kernel;
    const group = this.#device.createBindGroup({ label, layout, entries });
    this.#counts.bind_groups++;
    groups.set(key, { ids, group });
    for (const record of records) record.steps.add(step);
    if (groups.size > BIND_GROUPS) this.#forget(step, groups.keys().next().value);
    return group;
  }

  /** Drops a bind group of a step. */
  #forget(step, key) {
    const { groups } = step;
    const { ids } = groups.get(key);
    groups.delete(key);
    const kept = [...groups.values()];
    for (const id of ids) {
      if (!kept.some((other) => other.ids.includes(id))) this.#buffers.get(id)?.steps.delete(step);
    }
  }
}

/**
 * The steps of each submit. The first of several is half as long, so that the device starts early.
 */
function pieces(steps) {
  const n = steps.length;
  if (n <= ONE_SUBMIT) return [steps];
  const k = Math.min(Math.max(4, Math.floor(n / ONE_SUBMIT)), 8);
  const cut = (i) => Math.floor((2 * i - 1) * n / (2 * k - 1));
  return Array.from({ length: k }, (_, i) => steps.slice(i ? cut(i) : 0, cut(i + 1)));
}

/** An error whose name tells callers what it is, and how many bytes it is about. */
export function named(name, message, bytes = 0) {
  return Object.assign(new Error(message), { name, bytes });
}

/** The error of a kernel that the browser or its driver does not take. */
function refused({ label, code, error }, more = "") {
  const told = named("RefusedError", `WGSL kernel '${label}': ${error}${more}`);
  return Object.assign(told, { label, code, why: error });
}

function same(a, b) {
  if (!b || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Whether a program has all of its pipelines. */
function whole({ kernels }) {
  return kernels.every(({ pipeline, error }) => pipeline && !error);
}

/** What is wrong with a shader: each message with the line of WGSL it is about. */
async function explain({ descriptor, code }, error) {
  const lines = code.split("\n");
  const { messages } = await descriptor.compute.module.getCompilationInfo();
  const found = messages.filter(({ type }) => type === "error").map(({ lineNum, linePos, message }) =>
    `${lineNum}:${linePos} ${message}\n    ${(lines[lineNum - 1] ?? "").trim()}`);
  return found.join("\n  ") || error.message;
}
