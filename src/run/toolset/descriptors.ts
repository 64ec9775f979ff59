import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

type Call = (...args: unknown[]) => unknown;

/**
 * Keeps the descriptors 0, 1 and 2, which a thread shares with its host, out of the hands of a toolset: on them the host may speak a
 * protocol, and loggers write to 1 by its number. It holds for what happens by accident: this code is trusted, and has other ways.
 * `print` takes what is written.
 */
export function keepDescriptors(print: (chunk: Uint8Array) => void): void {
  const write = (data: unknown, ...rest: unknown[]): number => {
    const bytes = bytesOf(data, rest);
    print(bytes);
    return bytes.length;
  };
  const writeAll = (parts: unknown): number => (parts as Uint8Array[]).reduce((sum, part) => sum + write(part), 0);
  const nothing = () => undefined;
  const calls: Record<string, Call> = {
    write,
    writev: writeAll,
    writeFile: (data) => void write(data),
    appendFile: (data) => void write(data),
    read: () => 0,
    readv: () => 0,
    readFile: (options) => (encodingIn([options]) ? "" : Buffer.alloc(0)),
    close: nothing,
    fsync: nothing,
    fdatasync: nothing,
  };
  for (const [name, own] of Object.entries(calls)) {
    replace(`${name}Sync`, own);
    replace(name, (...args) => {
      const done = args.findLast((given) => typeof given === "function") as Call | undefined;
      const value = own(...args.filter((given) => given !== done));
      setImmediate(() => done?.(null, value, args[0]));
    });
  }
  syncBuiltinESMExports();
}

function replace(name: string, own: Call): void {
  const all = fs as unknown as Record<string, Call>;
  const theirs = all[name] as Call;
  const either: Call = (fd, ...args) => (fd === 0 || fd === 1 || fd === 2 ? own(...args) : theirs(fd, ...args));
  all[name] = Object.defineProperties(either, Object.getOwnPropertyDescriptors(theirs));
}

/** `rest`: offset and length, or position and encoding of a text, as Node has them. */
function bytesOf(data: unknown, rest: unknown[]): Buffer {
  if (!ArrayBuffer.isView(data)) return Buffer.from(String(data), encodingIn(rest));
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const [first, second] = rest;
  const { offset, length } =
    Object(first) === first ? (first as { offset?: unknown; length?: unknown }) : { offset: first, length: second };
  const start = typeof offset === "number" ? offset : 0;
  return bytes.subarray(start, typeof length === "number" ? start + length : undefined);
}

function encodingIn(given: unknown[]): BufferEncoding | undefined {
  const all = given.map((one) => (Object(one) === one ? (one as { encoding?: unknown }).encoding : one));
  return all.find((one): one is BufferEncoding => typeof one === "string" && Buffer.isEncoding(one));
}
