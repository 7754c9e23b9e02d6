// Calls @NAME@, a function that Loopwright has compiled to WebAssembly with SIMD.
//
//     import { load } from "./@NAME@.mjs";
//     const @NAME@ = await load();
//     const { @RESULT@ } = @NAME@({ @GIVEN@ });
//
// Arrays are typed arrays in C order, sizes are numbers. Results are arrays of their own.

export const about = @ABOUT@;

const LINE = 64; // bytes: what working memory and results begin at multiples of
const PAGE = 65536;
const MATHS = { fmod: (x, y) => x % y, fmodf: (x, y) => x % y }; // the instruction that is missing

async function read(ending) {
  const url = new URL(`./${about.name}.${ending}`, import.meta.url);
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer.arrayBuffer();
}

// Bytes of working memory and inputs, bytes and shapes of outputs; sizes are numbers by name.
function layout(exports, given, room) {
  if (about.sizes.length === 0)
    return { arena: about.arena, inputs: about.inputs.map((i) => i.bytes), outputs: about.outputs };
  const count = 2 + about.inputs.length + about.outputs.reduce((n, o) => n + 1 + o.shape.length, 0);
  const begin = reserve(exports.memory, room, 8 * count);
  check(exports[`${about.name}_sizes`](...numbers(given), begin));
  const answers = Array.from(new BigInt64Array(exports.memory.buffer, begin, count), Number);
  const take = (n) => answers.splice(0, n);
  const [arena] = take(2);
  const inputs = take(about.inputs.length);
  return { arena, inputs, outputs: about.outputs.map((o) => ({ bytes: take(1)[0], shape: take(o.shape.length) })) };
}

const numbers = (given) => about.sizes.map((size) => BigInt(given[size.name]));

function check(status) {
  if (status) throw new Error(`${about.name}: ${about.statuses[status]}`);
}

// Makes sure that memory has these bytes, and returns where they begin.
function reserve(memory, begin, bytes) {
  const missing = begin + bytes - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
  return begin;
}

// Returns the function. `code` is the module's bytes, `weights` those of the weights.
export async function load(code = read("wasm"), weights = read("weights.bin")) {
  const { instance } = await WebAssembly.instantiate(await code, { env: MATHS });
  const { exports } = instance;
  const { memory, __heap_base } = exports;
  const constants = new Uint8Array(await weights);
  const room = Math.ceil((__heap_base.value + constants.length) / LINE) * LINE;
  reserve(memory, __heap_base.value, constants.length);
  new Uint8Array(memory.buffer).set(constants, __heap_base.value);

  const arrays = (given) => layout(exports, given, room);
  return Object.assign(call, { arrays });

  function call(given) {
    for (const { name } of about.inputs.concat(about.sizes))
      if (given[name] === undefined) throw new TypeError(`${about.name}: ${name} is missing`);
    const { arena, inputs, outputs } = arrays(given);
    const bytes = [...inputs, ...outputs.map((o) => o.bytes)];
    let end = room;
    const places = [...bytes, arena].map((size) => {
      const begin = end;
      end += Math.ceil(Math.max(size, 1) / LINE) * LINE;
      return begin;
    });
    reserve(memory, room, end - room);
    about.inputs.forEach(({ name, array }, n) => {
      const kind = globalThis[array];
      const value = given[name];
      if (!(value instanceof kind) || value.byteLength !== bytes[n]) {
        const count = bytes[n] / kind.BYTES_PER_ELEMENT;
        throw new TypeError(`${about.name}: ${name} is not a ${array} of ${count}`);
      }
      new kind(memory.buffer, places[n], value.length).set(value);
    });
    const last = about.staticMemory ? [] : places.slice(-1);
    const run = exports[about.name];
    check(run(...places.slice(0, -1), ...numbers(given), __heap_base.value, ...last));
    const results = about.outputs.map(({ name, array }, n) => {
      const kind = globalThis[array];
      const count = outputs[n].bytes / kind.BYTES_PER_ELEMENT;
      const result = new kind(memory.buffer, places[inputs.length + n], count).slice();
      return [name, Object.assign(result, { shape: outputs[n].shape })];
    });
    return Object.fromEntries(results);
  }
}
