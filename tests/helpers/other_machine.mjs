// Runs a WebAssembly program whose main reads the standard input and writes the standard output.
import fs from "node:fs";
import v8 from "node:v8";

v8.setFlagsFromString("--experimental-wasm-relaxed-simd"); // Node 20 needs it

const module = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
let memory;
const bytes = (at, count) => new Uint8Array(memory.buffer, at, Number(count));
const env = {
  read: (file, at, count) => {
    bytes(at, count).set(fs.readFileSync(file));
    return count;
  },
  write: (file, at, count) => {
    fs.writeSync(file, bytes(at, count));
    return count;
  },
  fmod: (x, y) => x % y,
  fmodf: (x, y) => x % y,
};
const instance = new WebAssembly.Instance(module, { env });
memory = instance.exports.memory;
instance.exports.main(0, 0);
