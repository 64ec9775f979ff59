import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  ALLOWED_CALLS,
  createSeccompFilter,
  INSPECTED_CALLS,
  SYSTEM_CALLS,
  UNCOUNTED_CALLS,
} from "../../src/sandbox/seccomp.ts";

const ALLOWED = "allowed";
const KILLED = "killed";
/** The caller gets success. */
const DONE = "errno 0";
const EPERM = "errno 1";
const ENOSYS = "errno 38";
const EAFNOSUPPORT = "errno 97";

interface Call {
  machine: number;
  number: number;
  args?: readonly bigint[];
}

/** Runs a filter as the kernel does: classic BPF over `struct seccomp_data`. Any other instruction is an error. */
function judge(filter: Buffer, { machine, number, args = [] }: Call): string {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(machine >>> 0, 4);
  for (const [index, value] of args.entries()) data.writeBigUInt64LE(BigInt.asUintN(64, value), 16 + 8 * index);
  let accumulator = 0;
  for (let at = 0; at < filter.length / 8; at++) {
    const code = filter.readUInt16LE(at * 8);
    const [yes, no, value] = [filter[at * 8 + 2] ?? 0, filter[at * 8 + 3] ?? 0, filter.readUInt32LE(at * 8 + 4)];
    if (code === 0x06) return answer(value);
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x15) at += accumulator === value ? yes : no;
    else if (code === 0x25) at += accumulator > value ? yes : no;
    else if (code === 0x35) at += accumulator >= value ? yes : no;
    else if (code === 0x45) at += (accumulator & value) !== 0 ? yes : no;
    else if (code === 0x54) accumulator = (accumulator & value) >>> 0;
    else throw new Error(`instruction ${at} is ${code}`);
  }
  throw new Error("it runs past its end");
}

function answer(value: number): string {
  const action = (value & 0xffff0000) >>> 0;
  if (action === 0x7fff0000) return ALLOWED;
  if (action === 0x80000000) return KILLED;
  if (action === 0x00050000) return `errno ${value & 0xffff}`;
  throw new Error(`it answers ${value.toString(16)}`);
}

const MACHINES = [
  { name: "x64", column: 0, machine: 0xc000003e, others: [0x40000003, 0xc00000b7, 0x40000028, 0] },
  { name: "arm64", column: 1, machine: 0xc00000b7, others: [0x40000028, 0xc000003e, 0] },
] as const;

/** Calls that ordinary programs need, and that are not in the table. */
const ORDINARY = {
  read: [0, 63],
  write: [1, 64],
  mmap: [9, 222],
  openat: [257, 56],
  execve: [59, 221],
  exit_group: [231, 94],
  futex: [202, 98],
  connect: [42, 203],
  bind: [49, 200],
  pipe2: [293, 59],
  wait4: [61, 260],
  kill: [62, 129],
  prctl: [157, 167],
  getrandom: [318, 278],
  epoll_pwait: [281, 22],
  statx: [332, 291],
  rseq: [334, 293],
} as const;

describe.each(MACHINES)("the seccomp filter on $name", ({ name, column, machine, others }) => {
  const filter = createSeccompFilter(name) ?? Buffer.alloc(0);
  const numberOf = (call: string) => SYSTEM_CALLS[call]?.[column] ?? -1;
  const judged = (call: string, ...args: (number | bigint)[]) =>
    judge(filter, { machine, number: numberOf(call), args: args.map(BigInt) });

  it("is a valid program for the kernel: whole instructions, at most 4,096 of them, with jumps inside it", () => {
    expect(filter.length % 8).toBe(0);
    const count = filter.length / 8;
    expect(count).toBeGreaterThan(50);
    expect(count).toBeLessThanOrEqual(4096);
    for (let at = 0; at < count; at++) {
      const isJump = (filter.readUInt16LE(at * 8) & 0x07) === 0x05;
      const furthest = Math.max(filter[at * 8 + 2] ?? 0, filter[at * 8 + 3] ?? 0);
      if (isJump) expect(at + 1 + furthest).toBeLessThan(count);
      else expect(furthest).toBe(0);
    }
    expect(filter.readUInt16LE((count - 1) * 8)).toBe(0x06);
  });

  it("[Q-13] ends a process that calls with another architecture", () => {
    for (const other of others) {
      for (const number of [0, 1, 11, 102, 120, 359]) expect(judge(filter, { machine: other, number })).toBe(KILLED);
    }
  });

  // Only this machine has such numbers.
  if (name === "x64") {
    it("[Q-13] refuses the x32 numbers of every call", () => {
      for (const number of [0, 41, 56, 101, 165, 272, 512, 547]) {
        expect(judge(filter, { machine, number: 0x40000000 + number })).toBe(ENOSYS);
      }
      expect(judge(filter, { machine, number: -1 })).toBe(ENOSYS);
    });
  }

  it("allows ordinary calls", () => {
    for (const [call, numbers] of Object.entries(ORDINARY)) {
      expect([call, judge(filter, { machine, number: numbers[column] })]).toEqual([call, ALLOWED]);
    }
  });

  it("[Q-13] is an allowlist: exactly the calls of its tables are allowed, and all others do not exist", () => {
    const tables = { ...SYSTEM_CALLS, ...ALLOWED_CALLS, ...UNCOUNTED_CALLS };
    const known = new Set(Object.values(tables).map((numbers) => numbers[column]));
    const allowed = new Set(Object.values({ ...ALLOWED_CALLS, ...UNCOUNTED_CALLS }).map((numbers) => numbers[column]));
    allowed.delete(-1);
    for (let number = 0; number < 1024; number++) {
      const says = judge(filter, { machine, number });
      if (allowed.has(number)) expect([number, says]).toEqual([number, ALLOWED]);
      else if (!known.has(number)) expect([number, says]).toEqual([number, ENOSYS]);
    }
    for (const number of [0x3fff_ffff, 0x7fff_ffff, 2 ** 31, 2 ** 32 - 1])
      expect([number, judge(filter, { machine, number })]).toEqual([number, ENOSYS]);
    expect(Object.keys(ALLOWED_CALLS).filter((name) => name in SYSTEM_CALLS || name in UNCOUNTED_CALLS)).toEqual([]);
  });

  it("[Q-17] refuses unaccounted memory without a cgroup", () => {
    const uncounted = createSeccompFilter(name, { isCounted: false }) ?? Buffer.alloc(0);
    for (const numbers of Object.values(UNCOUNTED_CALLS)) {
      expect(judge(filter, { machine, number: numbers[column] })).toBe(ALLOWED);
      expect(judge(uncounted, { machine, number: numbers[column] })).toBe(ENOSYS);
    }
  });

  it("[Q-17] keeps socket buffers unchanged when no cgroup counts them", () => {
    const uncounted = createSeccompFilter(name, { isCounted: false }) ?? Buffer.alloc(0);
    const number = ALLOWED_CALLS["setsockopt"]?.[column] ?? -1;
    const set = (by: Buffer, level: number, option: number) =>
      judge(by, { machine, number, args: [3n, BigInt(level), BigInt(option)] });
    for (const option of [7, 8]) expect([set(uncounted, 1, option), set(filter, 1, option)]).toEqual([DONE, ALLOWED]);
    for (const option of [2, 9, 20, 32]) expect(set(uncounted, 1, option)).toBe(ALLOWED);
    for (const level of [0, 6, 17]) expect(set(uncounted, level, 7)).toBe(ALLOWED);
    const args = [3n, 0xffff_ffff_0000_0001n, 0xffff_ffff_0000_0007n];
    expect(judge(uncounted, { machine, number, args })).toBe(DONE);
  });

  it("[Q-17] lets no process hide from the accounting of its memory", () => {
    const uncounted = createSeccompFilter(name, { isCounted: false }) ?? Buffer.alloc(0);
    const prctl = (option: bigint) => judge(uncounted, { machine, number: numberOf("prctl"), args: [option, 0n] });
    expect([1n, 4n, 2n, 15n, 38n].map(prctl)).toEqual([EPERM, DONE, ALLOWED, ALLOWED, ALLOWED]);
  });

  it("[Q-17] refuses inotify on request, and nothing else", () => {
    const without = createSeccompFilter(name, { allowsInotify: false }) ?? Buffer.alloc(0);
    const all = { ...ALLOWED_CALLS, ...UNCOUNTED_CALLS };
    const changed = Object.entries(all)
      .filter(([, numbers]) => numbers[column] !== -1)
      .filter(([, numbers]) => judge(without, { machine, number: numbers[column] }) !== ALLOWED)
      .map(([call]) => call);
    expect(changed).toEqual(column === 0 ? ["inotify_init", "inotify_init1"] : ["inotify_init1"]);
  });

  it("[Q-14] allows only unix and internet sockets", () => {
    const open = [1, 2, 10];
    for (let family = 0; family < 64; family++) {
      expect([family, judged("socket", family, 1, 0)]).toEqual([
        family,
        open.includes(family) ? ALLOWED : EAFNOSUPPORT,
      ]);
      expect([family, judged("socketpair", family, 1, 0)]).toEqual([family, family === 1 ? ALLOWED : EAFNOSUPPORT]);
    }
    expect(judged("socket", -1)).toBe(EAFNOSUPPORT);
  });

  it("[Q-14] reads the same half of a family as the kernel: the lower one, whatever is in the upper one", () => {
    expect(judged("socket", 0xdead_beef_0000_0028n)).toBe(EAFNOSUPPORT);
    expect(judged("socket", 0xdead_beef_0000_0002n)).toBe(ALLOWED);
  });

  it("[Q-13] prevents code from typing into a terminal, and allows all other uses of one", () => {
    for (const request of [0x5412, 0x541c]) {
      expect(judged("ioctl", 0, request)).toBe(EPERM);
      expect(judged("ioctl", 0, 0xffff_ffff_0000_0000n | BigInt(request))).toBe(EPERM);
    }
    for (const request of [0x5401, 0x5413, 0x5421, 0x541b]) expect(judged("ioctl", 0, request)).toBe(ALLOWED);
  });

  it("[Q-13] lets code create threads and processes, but no namespace", () => {
    const threads = 0x3d0f00;
    expect(judged("clone", threads)).toBe(ALLOWED);
    expect(judged("clone", 17)).toBe(ALLOWED);
    expect(judged("clone", 0x4111)).toBe(ALLOWED);
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(judged("clone", flag | 17)).toBe(EPERM);
      expect(judged("clone", flag | threads)).toBe(EPERM);
    }
    expect(judged("clone3")).toBe(ENOSYS);
  });

  it("[Q-15] protects the tie to the host's end, and allows the rest of prctl", () => {
    const number = column === 0 ? 157 : 167;
    expect(judge(filter, { machine, number, args: [1n, 0n] })).toBe(EPERM);
    for (const option of [2n, 4n, 15n, 38n]) expect(judge(filter, { machine, number, args: [option] })).toBe(ALLOWED);
  });

  it("[Q-13] lets code change modes, but create no set-id program", () => {
    const calls = [
      { numbers: [90, -1], mode: 1 },
      { numbers: [91, 52], mode: 1 },
      { numbers: [268, 53], mode: 2 },
      { numbers: [452, 452], mode: 2 },
      { numbers: [85, -1], mode: 1 },
      { numbers: [133, -1], mode: 1 },
      { numbers: [259, 33], mode: 2 },
    ];
    for (const { numbers, mode } of calls) {
      const number = numbers[column] ?? -1;
      const withMode = (bits: number) =>
        judge(filter, { machine, number, args: [0n, 0n, 0n].with(mode, BigInt(bits)) });
      if (number === -1) continue;
      for (const bits of [0, 0o644, 0o755, 0o1777]) expect([number, withMode(bits)]).toEqual([number, ALLOWED]);
      for (const bits of [0o4755, 0o2755, 0o6777, 0o4000]) expect([number, withMode(bits)]).toEqual([number, EPERM]);
    }
  });

  it("lets a build create set-id programs that are removed again", () => {
    const building = createSeccompFilter(name, { allowsSetId: true }) ?? Buffer.alloc(0);
    const args = [0n, 0o4755n, 0n];
    expect(judge(building, { machine, number: numberOf("fchmod"), args })).toBe(ALLOWED);
    expect(judge(filter, { machine, number: numberOf("fchmod"), args })).toBe(EPERM);
  });

  it("[Q-13] lets code open and create files, but none with a set-id bit", () => {
    const calls = [
      { numbers: [2, -1], flags: 1 },
      { numbers: [257, 56], flags: 2 },
    ];
    for (const { numbers, flags } of calls) {
      const number = numbers[column] ?? -1;
      const opened = (how: number, mode: number) =>
        judge(filter, {
          machine,
          number,
          args: [0n, 0n, 0n, 0n].with(flags, BigInt(how)).with(flags + 1, BigInt(mode)),
        });
      if (number === -1) continue;
      // If no file is created the mode is any value of the register.
      for (const [how, mode] of [
        [0, 0o6777],
        [0x42, 0o644],
        [0x80000, 0o4000],
      ] as const)
        expect(opened(how, mode)).toBe(ALLOWED);
      for (const how of [0x40, 0x42, 0x410000]) expect(opened(how, 0o4755)).toBe(EPERM);
    }
    expect(judged("openat2")).toBe(ENOSYS);
  });

  it("[Q-13] refuses every other call that it names", () => {
    for (const call of Object.keys(SYSTEM_CALLS)) {
      if (INSPECTED_CALLS.has(call) || numberOf(call) === -1) continue;
      expect([call, judged(call)]).toEqual([call, call.startsWith("io_uring") ? ENOSYS : EPERM]);
    }
  });

  it("has the kernel's own number of every call", ({ skip }) => {
    const known = headerNumbers(name);
    if (!known) return skip("the headers of the kernel are not installed");
    for (const [call, numbers] of Object.entries({ ...SYSTEM_CALLS, ...ALLOWED_CALLS, ...UNCOUNTED_CALLS })) {
      const [number, ours] = [known.get(call), numbers[column]];
      // A call may be newer than the headers, or have no number on this machine.
      if (number === undefined) expect([call, ours === -1 || ours >= 424]).toEqual([call, true]);
      else expect([call, ours]).toEqual([call, number]);
    }
  });
});

it("[Q-13] does not exist for an unknown machine", () => {
  for (const name of ["ia32", "arm", "riscv64", "ppc64", ""]) expect(createSeccompFilter(name)).toBeUndefined();
});

it("[Q-13] exists for this machine, if it is one of the two", () => {
  expect(createSeccompFilter() !== undefined).toBe(["x64", "arm64"].includes(process.arch));
});

/** The numbers in the kernel's headers: those of this machine, and of arm64 (`linux-libc-dev-arm64-cross`). */
function headerNumbers(name: "x64" | "arm64"): Map<string, number> | undefined {
  const places = {
    x64: ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"],
    arm64: ["/usr/aarch64-linux-gnu/include/asm-generic/unistd.h", "/usr/include/asm-generic/unistd.h"],
  };
  const file = places[name].find(existsSync);
  if (file === undefined) return undefined;
  const defined = readFileSync(file, "utf8").matchAll(/^#define __NR(?:3264)?_(\w+)\s+(\d+)$/gm);
  const numbers = new Map([...defined].map(([, call = "", number]) => [call, Number(number)]));
  // The generic name of what every 64-bit machine calls `newfstatat`.
  const generic = numbers.get("fstatat");
  if (generic !== undefined) numbers.set("newfstatat", generic);
  return numbers;
}
