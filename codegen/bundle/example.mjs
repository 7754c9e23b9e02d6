// Runs @NAME@ on the inputs of @NAME@.example.bin, and compares with its results.
import { readFile } from "node:fs/promises";
import { about, load } from "./@NAME@.mjs";

const stored = await readFile(new URL("./@NAME@.example.bin", import.meta.url));
const call = await load();
const given = Object.fromEntries(about.sizes.map((size) => [size.name, size.example]));
const { inputs, outputs } = call.arrays(given);
let at = stored.byteOffset;
const take = (name, bytes) => {
  const kind = globalThis[name];
  const array = new kind(stored.buffer, at, bytes / kind.BYTES_PER_ELEMENT);
  at += Math.ceil(Math.max(bytes, 1) / 64) * 64;
  return array;
};
inputs.forEach((bytes, n) => (given[about.inputs[n].name] = take(about.inputs[n].array, bytes)));
const results = call(given);
let wrong = 0;
about.outputs.forEach(({ name, array, tolerance: [absolute, relative] }, n) => {
  const expected = take(array, outputs[n].bytes);
  let [largest, apart] = [0, 0];
  expected.forEach((value, n) => {
    const [a, b] = [Number(results[name][n]), Number(value)];
    if (Number.isFinite(b)) largest = Math.max(largest, Math.abs(b));
    if (a !== b && !(Number.isNaN(a) && Number.isNaN(b))) apart = Math.max(apart, Math.abs(a - b));
    if (Number.isNaN(a) !== Number.isNaN(b)) apart = Infinity;
  });
  console.log(`${name}: ${expected.length} numbers, at most ${apart} from those stored`);
  wrong += !(apart <= absolute + relative * largest);
});
if (process.argv.includes("--time")) {
  const times = [];
  for (let n = 0; n < 50; n++) {
    const begin = performance.now();
    call(given);
    times.push(performance.now() - begin);
  }
  console.log(`${times.sort((a, b) => a - b)[25].toFixed(3)} ms`);
}
process.exitCode = Number(wrong > 0);
