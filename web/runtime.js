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
const VARIANTS = 16; // sets of buffers for which a program keeps its bind groups
const STAGING = 4; // staging buffers kept for the next read
const STEP_HEAD = 7; // kernel, grid x, y, z, params offset, params size, number of slots

/** A Runtime on the best adapter, with the adapter's own limits; null without WebGPU. */
export async function createRuntime({ powerPreference = "high-performance" } = {}) {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference });
  if (!adapter) return null;
  const requiredLimits = {};
  for (const name of LIMITS) requiredLimits[name] = adapter.limits[name];
  const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
  const device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
  return new Runtime(device, describe(adapter));
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
  #buffers = new Map(); // id -> { buffer, nbytes, variants }
  #pipelines = new Map(); // WGSL -> { pipeline, layout, label, error }
  #programs = new Map(); // id -> { kernels, steps, slots, params, uploaded, variants }
  #staging = []; // mappable buffers that no read uses now
  #checks = new Set(); // promises of compilations not yet known to be good
  #errors = []; // what the next read throws, the cause first
  #nextId = 1; // ids are never used twice, so a stale one can't name a newer buffer
  #counts = { dispatches: 0, submits: 0, bind_groups: 0, reads: 0, params_uploads: 0 };
  #bytes = 0;

  constructor(device, info) {
    this.#device = device;
    this.info = info;
    this.limits = Object.fromEntries(LIMITS.map((name) => [name, device.limits[name]]));
    this.features = [...device.features];
    this.lost = null; // why the device is gone, once it is
    device.lost.then(({ message, reason }) => { this.lost = message || reason; });
    device.addEventListener("uncapturederror", (event) => { // out of memory, internal errors
      event.preventDefault?.();
      this.#errors.push(event.error.message);
    });
    device.pushErrorScope("validation"); // one scope is open from each read to the next
  }

  /** A new buffer of at least `nbytes` bytes: its number. */
  alloc(nbytes) {
    const size = Math.max(4, Math.ceil(nbytes / 4) * 4);
    if (size > this.limits.maxBufferSize) {
      throw new RangeError(`a buffer of ${size} bytes is over the device's ${this.limits.maxBufferSize}`);
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const id = this.#nextId++;
    this.#buffers.set(id, {
      buffer: this.#device.createBuffer({ size, usage }), nbytes: size, variants: new Set(),
    });
    this.#bytes += size;
    return id;
  }

  /** Destroys a buffer once the work already submitted is done, and the bind groups with it. */
  free(id) {
    const record = this.#buffer(id);
    for (const variant of record.variants) this.#forget(variant);
    this.#buffers.delete(id);
    this.#bytes -= record.nbytes;
    record.buffer.destroy();
  }

  /** Copies `data` (a typed array, a multiple of 4 bytes) to the start of a buffer. */
  write(id, data) {
    this.#device.queue.writeBuffer(this.#buffer(id).buffer, 0, data);
  }

  /** The first `sizes[i]` bytes of buffer `ids[i]`, one after the other, after all work so far. */
  async read(ids, sizes) {
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
      if (size) encoder.copyBufferToBuffer(this.#buffer(ids[i]).buffer, 0, staging, offsets[i], size);
    }
    this.#device.queue.submit([encoder.finish()]);
    this.#counts.submits++;
    this.#counts.reads++;
    const scope = this.#device.popErrorScope();
    this.#device.pushErrorScope("validation");
    try {
      const mapped = staging.mapAsync(GPUMapMode.READ);
      this.#device.queue.submit([]); // Firefox resolves the map 100 ms later without a nudge
      await mapped;
    } catch (error) {
      this.#errors.push(this.lost ? `the GPU device was lost: ${this.lost}` : String(error));
    }
    await Promise.all(this.#checks);
    const invalid = await scope;
    if (invalid) this.#errors.push(invalid.message);
    if (this.#errors.length) {
      const [first] = this.#errors; // the others follow from it
      this.#errors = [];
      staging.destroy();
      throw new Error(first);
    }
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
    const list = [];
    for (let at = 0; at < steps.length;) {
      const [kernel, x, y, z, offset, size, n] = steps.subarray(at, at + STEP_HEAD);
      at += STEP_HEAD;
      list.push({ kernel: kernels[kernel], x, y, z, offset, size, slots: steps.slice(at, at + n) });
      at += n;
    }
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const id = this.#nextId++;
    this.#programs.set(id, {
      kernels: kernels.filter(Boolean), steps: list, slots, variants: [], uploaded: null,
      describe: { label: labels.join(", ") }, // what WebGPU's messages call it
      params: paramBytes ? this.#device.createBuffer({ size: paramBytes, usage }) : null,
    });
    return id;
  }

  /**
   * Runs every step of a program with buffer `ids[slot]` for its slots, in one submit. `params` may
   * be null where they are as before. Gives the number of bind groups that had to be made.
   */
  run(id, ids, params) {
    const program = this.#programs.get(id);
    if (!program) throw new Error(`run: program ${id} is not loaded`);
    for (const kernel of program.kernels) if (kernel.error) throw new Error(kernel.error);
    const before = this.#counts.bind_groups;
    const { groups } = this.#variant(program, ids);
    if (program.params && params && !same(params, program.uploaded)) {
      this.#device.queue.writeBuffer(program.params, 0, params);
      program.uploaded = params.slice();
      this.#counts.params_uploads++;
    }
    const encoder = this.#device.createCommandEncoder(program.describe);
    const pass = encoder.beginComputePass();
    const { steps } = program;
    let current = null;
    for (let i = 0; i < steps.length; i++) {
      const step = steps[i];
      if (step.kernel !== current) {
        current = step.kernel;
        pass.setPipeline(current.pipeline);
      }
      pass.setBindGroup(0, groups[i]);
      pass.dispatchWorkgroups(step.x, step.y, step.z);
    }
    pass.end();
    this.#device.queue.submit([encoder.finish()]);
    this.#counts.dispatches += steps.length;
    this.#counts.submits++;
    return this.#counts.bind_groups - before;
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

  #buffer(id) {
    const record = this.#buffers.get(id);
    if (!record) throw new Error(`buffer ${id} does not exist, or was freed`);
    return record;
  }

  #takeStaging(nbytes) {
    const at = this.#staging.findIndex((buffer) => buffer.size >= nbytes && buffer.size <= 4 * nbytes + 4096);
    if (at >= 0) return this.#staging.splice(at, 1)[0];
    const size = Math.max(256, 2 ** Math.ceil(Math.log2(nbytes || 1)));
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    return this.#device.createBuffer({ size: Math.min(size, this.limits.maxBufferSize), usage });
  }

  #pipeline(code, label) {
    const known = this.#pipelines.get(code);
    if (known) return known;
    this.#device.pushErrorScope("validation");
    const module = this.#device.createShaderModule({ label, code });
    const compute = { module, entryPoint: "main" };
    const pipeline = this.#device.createComputePipeline({ label, layout: "auto", compute });
    const kernel = { pipeline, layout: pipeline.getBindGroupLayout(0), label, error: null };
    const check = this.#device.popErrorScope().then(async (error) => {
      if (error) {
        kernel.error = await explain(module, label, code, error);
        this.#errors.unshift(kernel.error); // before what follows from it
      }
      this.#checks.delete(check);
    });
    this.#checks.add(check);
    this.#pipelines.set(code, kernel);
    return kernel;
  }

  /** The bind groups of `program` for these buffers: the ones made before, when it has them. */
  #variant(program, ids) {
    const { variants } = program;
    for (let i = variants.length - 1; i >= 0; i--) {
      const variant = variants[i];
      if (!same(ids, variant.ids)) continue;
      if (i < variants.length - 1) variants.push(...variants.splice(i, 1));
      return variant;
    }
    if (ids.length !== program.slots) {
      throw new Error(`run: the program has ${program.slots} slots, and ${ids.length} buffers were given`);
    }
    const records = Array.from(ids, (id) => this.#buffer(id));
    const groups = program.steps.map(({ kernel, offset, size, slots }) => {
      const entries = Array.from(slots, (slot, binding) => (
        { binding, resource: { buffer: records[slot].buffer } }));
      if (offset >= 0) {
        entries.push({ binding: slots.length, resource: { buffer: program.params, offset, size } });
      }
      return this.#device.createBindGroup({ label: kernel.label, layout: kernel.layout, entries });
    });
    this.#counts.bind_groups += groups.length;
    const variant = { program, ids: ids.slice(), groups, records };
    for (const record of records) record.variants.add(variant);
    variants.push(variant);
    if (variants.length > VARIANTS) this.#forget(variants[0]);
    return variant;
  }

  #forget(variant) {
    variant.program.variants = variant.program.variants.filter((other) => other !== variant);
    for (const record of variant.records) record.variants.delete(variant);
  }
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
