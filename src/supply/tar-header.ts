import { utf8 } from "./entry-name.ts";
import { refusedArchive } from "./refusal.ts";

export const BLOCK = 512;

/** The block before each entry of a tar. */
export interface TarHeader {
  name: string;
  target: string;
  mode: number;
  size: number;
  type: string;
}

/** Contract: one block. */
export function tarHeader(block: Buffer): TarHeader {
  if (!hasChecksum(block)) throw refusedArchive("archive-broken", "has a header whose sum is not right");
  return {
    name: nameIn(block),
    target: utf8(textIn(block, 157, 100)),
    mode: numberIn(block, 100, 8) & 0o7777,
    size: numberIn(block, 124, 12),
    type: String.fromCharCode(block[156] ?? 0),
  };
}

/** Whether these bytes begin as a tar does: the sum of a header is no accident. */
export function isTar(bytes: Buffer): boolean {
  return bytes.length >= BLOCK && hasChecksum(bytes.subarray(0, BLOCK));
}

const CHECKSUM = 148;
const CHECKSUM_LENGTH = 8;
const SPACE = 0x20;

function hasChecksum(block: Buffer): boolean {
  const [, octal] = /^ *([0-7]{1,7})[\0 ]/.exec(block.toString("latin1", CHECKSUM, CHECKSUM + CHECKSUM_LENGTH)) ?? [];
  if (octal === undefined) return false;
  let sum = CHECKSUM_LENGTH * SPACE;
  for (let at = 0; at < BLOCK; at++) sum += block[at] ?? 0;
  for (let at = CHECKSUM; at < CHECKSUM + CHECKSUM_LENGTH; at++) sum -= block[at] ?? 0;
  return sum === Number.parseInt(octal, 8);
}

// Only the standard's own headers have a first part of the name; in GNU's, times stand there.
function nameIn(block: Buffer): string {
  const name = utf8(textIn(block, 0, 100));
  const prefix = block.toString("latin1", 257, 263) === "ustar\0" ? utf8(textIn(block, 345, 155)) : "";
  return prefix === "" ? name : `${prefix}/${name}`;
}

function textIn(block: Buffer, at: number, length: number): Buffer {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return end === -1 ? field : field.subarray(0, end);
}

/** Octal digits, or a large number as it is, marked by the first bit. */
function numberIn(block: Buffer, at: number, length: number): number {
  const field = block.subarray(at, at + length);
  if (field[0] === 0x80) return field.subarray(1).reduce((number, byte) => number * 256 + byte, 0);
  const [, octal] = /^ *([0-7]*)(?:[\0 ]|$)/.exec(field.toString("latin1")) ?? [];
  if (octal === undefined) throw refusedArchive("archive-broken", "has a header with a number that is none");
  return octal === "" ? 0 : Number.parseInt(octal, 8);
}
