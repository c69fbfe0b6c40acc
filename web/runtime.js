// Runs compiled Programs on WebGPU: buffers by number, pipelines shared by their WGSL text, and a
// whole training step replayed in one call. It knows nothing of Python; see pyframe/backend/browser.py.
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
const STAGING = 4; // staging buffers kept for the next read
const IDLE = 256; // pipelines that are kept though no program uses them any more
const STEP_HEAD = 7; // kernel, grid x, y, z, params offset, params size, number of slots
const PAUSES = [0, 100, 1000]; // ms before each try to open a lost GPU again

let nextId = 1; // ids are never used twice, by no Runtime, so a stale one can't name a newer buffer

/** A Runtime on the best adapter, with the adapter's own limits; null without WebGPU. */
export async function createRuntime({ powerPreference = "high-performance" } = {}) {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference });
  if (!adapter) return null;
  const requiredLimits = {};
  for (const name of LIMITS) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
  const device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
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
  #pipelines = new Map(); // WGSL -> { pipeline, layout, label, error, code, users }
  #idle = new Set(); // the WGSL of those that no program uses, the oldest first
  #programs = new Map(); // id -> { kernels, steps, users, pieces, ids, params, uploaded }
  #staging = []; // mappable buffers that no read uses now
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
    this.info = info;
    this.limits = Object.fromEntries(LIMITS.map((name) => [name, device.limits[name]]));
    this.features = [...device.features];
    this.lost = null; // why the device is gone, once it is
    device.lost.then(({ message, reason }) => { this.lost = message || reason; });
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
      record.buffer.destroy();
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
    this.#device.queue.writeBuffer(buffer, offset, data);
  }

  /** Copies the first `nbytes` bytes of buffer `source` to `target`, in order with the runs. */
  copy(target, source, nbytes) {
    this.#use();
    const size = Math.ceil(nbytes / 4) * 4;
    const [to, from] = [this.#buffer(target, size), this.#buffer(source, size)];
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

  /** The first `sizes[i]` bytes of buffer `ids[i]`, one after the other, after all work so far. */
  async read(ids, sizes) {
    this.#use();
    const offsets = [];
    let total = 0;
    for (const size of sizes) {
      offsets.push(total);
      total += Math.ceil(size / 4) * 4;
    }
    const out = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
    const staging = this.#takeStaging(total);
    const encoder = this.#device.createCommandEncoder();
    for (let i = 0; i < ids.length; i++) {
      const size = Math.ceil(sizes[i] / 4) * 4;
      if (!size) continue;
      const { buffer, offset } = this.#buffer(ids[i], size);
      encoder.copyBufferToBuffer(buffer, offset, staging, offsets[i], size);
    }
    this.#submit(encoder);
    this.#counts.reads++;
    const scope = this.#device.popErrorScope().catch(() => null); // refused by a lost device
    this.#device.pushErrorScope("validation");
    try {
      const mapped = staging.mapAsync(GPUMapMode.READ);
      this.#device.queue.submit([]); // Firefox resolves the map 100 ms later without a nudge
      await mapped;
    } catch (error) {
      this.#errors.push(new Error(String(error)));
      const told = new Promise((done) => setTimeout(done, 100));
      await Promise.race([this.#device.lost, told]); // which may be known a little later
    }
    await Promise.all(this.#checks);
    const invalid = await scope;
    if (invalid) this.#errors.push(new Error(invalid.message));
    const [first] = this.#errors; // the others follow from it
    this.#errors = [];
    if (first || this.lost) staging.destroy();
    this.#use();
    if (first) throw first;
    const bytes = new Uint8Array(staging.getMappedRange());
    let at = 0;
    for (let i = 0; i < ids.length; i++) {
      out.set(bytes.subarray(offsets[i], offsets[i] + sizes[i]), at);
      at += sizes[i];
    }
    staging.unmap();
    if (this.#staging.push(staging) > STAGING) this.#staging.shift().destroy();
    return out;
  }

  /**
   * A program made of kernels (WGSL texts with entry point `main`, and their names; an empty text
   * is a kernel that no step uses) and of steps: for each step [kernel, grid x, y, z, params offset
   * or -1, params size, n, slot 1 … slot n]. A step binds its slots to 0 … n-1 of group 0, and its
   * part of the params, a uniform, to n.
   */
  load(codes, labels, steps, slots, paramBytes) {
    const kernels = codes.map((code, i) => (code ? this.#pipeline(code, labels[i]) : null));
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const program = {
      kernels: kernels.filter(Boolean), steps: [], pieces: [],
      users: Array.from({ length: slots }, () => []), // the steps that use a slot
      ids: null, uploaded: null, // the buffers and params of the last run
      describe: { label: labels.join(", ") }, // what WebGPU's messages call it
      params: paramBytes ? this.#create(paramBytes, usage) : null,
    };
    for (let at = 0; at < steps.length;) {
      const [kernel, x, y, z, offset, size, n] = steps.subarray(at, at + STEP_HEAD);
      at += STEP_HEAD;
      const step = {
        program, kernel: kernels[kernel], x, y, z, offset, size, slots: steps.slice(at, at + n),
        groups: new Map(), group: null, // bind groups by what they bind; the one in use
      };
      for (const slot of new Set(step.slots)) program.users[slot].push(step);
      program.steps.push(step);
      at += n;
    }
    program.pieces = pieces(program.steps);
    for (const kernel of program.kernels) {
      kernel.users += 1;
      this.#idle.delete(kernel.code);
    }
    this.#programs.set(nextId, program);
    return nextId++;
  }

  /** Forgets a program, its bind groups and its params; of its pipelines the latest stay. */
  unload(id) {
    const program = this.#programs.get(id);
    if (!program) return;
    this.#programs.delete(id);
    for (const step of program.steps) for (const key of step.groups.keys()) this.#forget(step, key);
    program.params?.destroy();
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
   * they are as before. Gives the number of bind groups that had to be made, and of submits.
   */
  run(id, ids, params) {
    const before = this.#counts.bind_groups;
    const program = this.#prepare(id, ids, params);
    for (const steps of program.pieces) {
      const encoder = this.#device.createCommandEncoder(program.describe);
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
    this.#counts.dispatches += program.steps.length;
    return [this.#counts.bind_groups - before, program.pieces.length];
  }

  /** Runs a program once: the nanoseconds of each step; null where the device has no clock. */
  async profile(id, ids, params) {
    if (!this.features.includes("timestamp-query")) return null;
    const { steps, describe } = this.#prepare(id, ids, params);
    const sets = [];
    for (let at = 0; at < steps.length; at += QUERIES / 2) {
      const part = steps.slice(at, at + QUERIES / 2);
      const count = 2 * part.length;
      const querySet = this.#device.createQuerySet({ type: "timestamp", count });
      const times = this.#alloc(8 * count, GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC);
      const encoder = this.#device.createCommandEncoder(describe);
      part.forEach((step, i) => {
        const pass = encoder.beginComputePass({ timestampWrites: {
          querySet, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1,
        } });
        pass.setPipeline(step.kernel.pipeline);
        pass.setBindGroup(0, step.group);
        pass.dispatchWorkgroups(step.x, step.y, step.z);
        pass.end();
      });
      encoder.resolveQuerySet(querySet, 0, count, this.#buffer(times).buffer, 0);
      this.#submit(encoder);
      sets.push({ querySet, times, nbytes: 8 * count });
    }
    this.#counts.dispatches += steps.length;
    try {
      const bytes = await this.read(sets.map(({ times }) => times), sets.map(({ nbytes }) => nbytes));
      const ticks = new BigInt64Array(bytes.buffer);
      return steps.map((_, i) => Math.max(0, Number(ticks[2 * i + 1] - ticks[2 * i])));
    } finally {
      for (const { querySet, times } of sets) {
        querySet.destroy();
        this.free(times);
      }
    }
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
    this.#counts.submits++;
  }

  #takeStaging(nbytes) {
    const at = this.#staging.findIndex((buffer) => buffer.size >= nbytes && buffer.size <= 4 * nbytes + 4096);
    if (at >= 0) return this.#staging.splice(at, 1)[0];
    const size = Math.max(256, 2 ** Math.ceil(Math.log2(nbytes || 1)));
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    return this.#create(Math.min(size, this.limits.maxBufferSize), usage);
  }

  #pipeline(code, label) {
    const known = this.#pipelines.get(code);
    if (known) return known;
    this.#use();
    this.#device.pushErrorScope("validation");
    const module = this.#device.createShaderModule({ label, code });
    const compute = { module, entryPoint: "main" };
    const pipeline = this.#device.createComputePipeline({ label, layout: "auto", compute });
    const layout = pipeline.getBindGroupLayout(0);
    const kernel = { pipeline, layout, label, error: null, code, users: 0 };
    const check = this.#device.popErrorScope().then(async (error) => {
      if (error) {
        kernel.error = await explain(module, label, code, error);
        this.#errors.unshift(new Error(kernel.error)); // before what follows from it
      }
    }).catch(() => null).then(() => this.#checks.delete(check)); // a lost device refuses to say
    this.#checks.add(check);
    this.#pipelines.set(code, kernel);
    this.#counts.compiled += 1;
    return kernel;
  }

  /** A program with bind groups for these buffers: only those of steps with other ones change. */
  #prepare(id, ids, params) {
    this.#use();
    const program = this.#programs.get(id);
    if (!program) throw new Error(`run: program ${id} is not loaded`);
    for (const kernel of program.kernels) if (kernel.error) throw new Error(kernel.error);
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
    if (program.params && params && !same(params, program.uploaded)) {
      this.#device.queue.writeBuffer(program.params, 0, params);
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
function named(name, message, bytes = 0) {
  return Object.assign(new Error(message), { name, bytes });
}

function same(a, b) {
  if (!b || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** What is wrong with a shader: its name, and each message with the line of WGSL it is about. */
async function explain(module, label, code, error) {
  const lines = code.split("\n");
  const { messages } = await module.getCompilationInfo();
  const found = messages.filter(({ type }) => type === "error").map(({ lineNum, linePos, message }) =>
    `${lineNum}:${linePos} ${message}\n    ${(lines[lineNum - 1] ?? "").trim()}`);
  return `WGSL kernel '${label}': ${found.join("\n  ") || error.message}`;
}
