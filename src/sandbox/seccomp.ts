import { ALLOWED_CALLS, type CallNumbers, SYSTEM_CALLS, UNCOUNTED_CALLS } from "./system-calls.ts";

/** Which argument is the mode of a file, and where it counts only for a new one, which one says so. */
const MODES: Readonly<Record<string, { mode: number; flags?: number }>> = {
  chmod: { mode: 1 },
  fchmod: { mode: 1 },
  fchmodat: { mode: 2 },
  fchmodat2: { mode: 2 },
  creat: { mode: 1 },
  mknod: { mode: 1 },
  mknodat: { mode: 2 },
  open: { mode: 2, flags: 1 },
  openat: { mode: 3, flags: 2 },
};

const MACHINES: Readonly<Record<string, { column: 0 | 1; audit: number }>> = {
  x64: { column: 0, audit: 0xc000003e },
  arm64: { column: 1, audit: 0xc00000b7 },
};

export interface FilterOptions {
  /** False where no cgroup counts the memory that no limit of a process does: it is refused then. */
  isCounted?: boolean;
  /** False where code could take all inotify instances of a real user: they are refused then. */
  allowsInotify?: boolean;
  /** True where set-id programs may be made: in a system that is being built, from which they are taken again. */
  allowsSetId?: boolean;
}

/**
 * The filter that the kernel runs at every system call of a sandbox, as classic BPF; undefined for a machine that it is not known
 * for. It is an allowlist: a call that is in no table is answered with ENOSYS. It keeps what namespaces do not: AF_VSOCK ignores them, a
 * terminal takes typed input, and a new user namespace opens the parts of the kernel that were written for root.
 */
export function seccompFilter(architecture: string = process.arch, options: FilterOptions = {}): Buffer | undefined {
  const { isCounted = true, allowsInotify = true, allowsSetId = false } = options;
  const machine = MACHINES[architecture];
  if (!machine) return undefined;
  const numberOf = (name: string) => (SYSTEM_CALLS[name] ?? ALLOWED_CALLS[name])?.[machine.column] ?? -1;
  // Where set-id programs may be made, nothing looks at the modes of files.
  const judgedElsewhere = allowsSetId
    ? Object.fromEntries(Object.keys(MODES).map((name) => [name, SYSTEM_CALLS[name] ?? NONE]))
    : {};
  const program = [
    ...when(ARCHITECTURE, machine.audit, [], [answer(KILL)]),
    load(NUMBER),
    // The x32 calls: the same kernel under other numbers.
    ...(architecture === "x64" ? [jump(AT_LEAST, 0x4000_0000, 0, 1), answer(refuse(ENOSYS))] : []),
    ...call(numberOf("socket"), [
      // Its queues are in no table that the host reads, and a cgroup of version 1 does not count them. Programs fall back to TCP.
      ...[load(argument(2)), jump(EQUAL, IPPROTO_MPTCP, 0, 1), answer(refuse(EPROTONOSUPPORT))],
      ...allowed(FAMILIES, EAFNOSUPPORT),
    ]),
    ...call(numberOf("socketpair"), allowed([AF_UNIX], EAFNOSUPPORT)),
    // The size of a socket's buffer, which no limit of a process counts. The kernel too takes less than what is asked for, in silence.
    ...(isCounted ? [] : call(numberOf("setsockopt"), ignored(SOL_SOCKET, [SO_SNDBUF, SO_RCVBUF]))),
    ...(allowsInotify
      ? []
      : INOTIFY.filter((name) => numberOf(name) !== -1).flatMap((name) =>
          call(numberOf(name), [answer(refuse(EMFILE))]),
        )),
    ...call(numberOf("ioctl"), [load(argument(1)), ...denied([TIOCSTI, TIOCLINUX])]),
    ...call(numberOf("clone"), [
      load(argument(0)),
      jump(ANY_BIT, NEW_NAMESPACES, 0, 1),
      answer(refuse(EPERM)),
      answer(ALLOW),
    ]),
    ...Object.entries(allowsSetId ? {} : MODES).flatMap(([name, { mode, flags }]) =>
      numberOf(name) === -1 ? [] : call(numberOf(name), withoutSetId(mode, flags)),
    ),
    // The first process of a sandbox can be written to through /proc, and must not be made to outlive its host.
    ...call(numberOf("prctl"), [
      load(argument(0)),
      // Where the host counts what processes hold, none may hide from it.
      ...(isCounted ? [] : [jump(EQUAL, PR_SET_DUMPABLE, 0, 1), answer(IGNORE)]),
      ...denied([PR_SET_PDEATHSIG]),
    ]),
    // What they take is in memory, where a filter cannot look. Told that they do not exist, runtimes use `clone` and `openat`.
    ...call(numberOf("clone3"), [answer(refuse(ENOSYS))]),
    ...call(numberOf("openat2"), [answer(refuse(ENOSYS))]),
    ...Object.keys(SYSTEM_CALLS)
      .filter((name) => !JUDGED.has(name) && numberOf(name) !== -1)
      .flatMap((name) => call(numberOf(name), [answer(refuse(name.startsWith("io_uring") ? ENOSYS : EPERM))])),
    ...rangesOf(
      { ...ALLOWED_CALLS, ...(isCounted ? UNCOUNTED_CALLS : {}), ...judgedElsewhere },
      machine.column,
    ).flatMap(([first, last]) => [jump(AT_LEAST, first, 0, 2), jump(ABOVE, last, 1, 0), answer(ALLOW)]),
    // What is not known does not exist: programs fall back to what is older.
    answer(refuse(ENOSYS)),
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [index, { code, yes, no, value }] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(yes, index * 8 + 2);
    bytes.writeUInt8(no, index * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, index * 8 + 4);
  }
  return bytes;
}

/** Their arguments are looked at. */
export const JUDGED: ReadonlySet<string> = new Set([
  ...["socket", "socketpair", "ioctl", "clone", "clone3", "openat2", "prctl"],
  ...Object.keys(MODES),
]);

const NONE: CallNumbers = [-1, -1];

/** The numbers of these calls as ranges, so that the program stays short. */
function rangesOf(calls: Readonly<Record<string, CallNumbers>>, column: 0 | 1): [first: number, last: number][] {
  const ranges: [number, number][] = [];
  const numbers = Object.values(calls).map((numbers) => numbers[column]);
  for (const number of numbers.filter((one) => one !== -1).sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && number <= last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges;
}

interface Instruction {
  code: number;
  /** How many instructions to skip. */
  yes: number;
  no: number;
  value: number;
}

// struct seccomp_data: number, architecture, address, then the arguments of eight bytes each, the low half first.
const NUMBER = 0;
const ARCHITECTURE = 4;
const argument = (index: number) => 16 + 8 * index;

const EQUAL = 0x15;
const AT_LEAST = 0x35;
const ABOVE = 0x25;
const ANY_BIT = 0x45;
const load = (offset: number): Instruction => ({ code: 0x20, yes: 0, no: 0, value: offset });
const jump = (code: number, value: number, yes: number, no: number): Instruction => ({ code, yes, no, value });
const answer = (value: number): Instruction => ({ code: 0x06, yes: 0, no: 0, value });

const ALLOW = 0x7fff_0000;
const KILL = 0x8000_0000;
const refuse = (errno: number) => 0x0005_0000 | errno;
/** The call is not made, and its caller told that it was. */
const IGNORE = refuse(0);
const EPERM = 1;
const EMFILE = 24;
const ENOSYS = 38;
const EPROTONOSUPPORT = 93;
const EAFNOSUPPORT = 97;

const AF_UNIX = 1;
const IPPROTO_MPTCP = 262;
/** Unix sockets, and the internet ones that reach no further than the sandbox's own loopback. */
const FAMILIES = [AF_UNIX, 2, 10];
const SET_ID = 0o6000;
/** O_CREAT, O_TMPFILE. */
const NEW_FILE = 0x0040_0040;
const PR_SET_PDEATHSIG = 1;
const PR_SET_DUMPABLE = 4;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SO_RCVBUF = 8;
const INOTIFY = ["inotify_init", "inotify_init1"];
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACES = 0x7e02_0000;

function when(field: number, value: number, yes: Instruction[], no: Instruction[]): Instruction[] {
  return [load(field), jump(EQUAL, value, no.length, 0), ...no, ...yes];
}

/** Contract: every way through `body` answers. */
function call(number: number, body: Instruction[]): Instruction[] {
  return [jump(EQUAL, number, 0, body.length), ...body];
}

function allowed(values: readonly number[], errno: number): Instruction[] {
  const tests = values.map((value, index) => jump(EQUAL, value, values.length - index, 0));
  return [load(argument(0)), ...tests, answer(refuse(errno)), answer(ALLOW)];
}

function withoutSetId(mode: number, flags: number | undefined): Instruction[] {
  const judged = [load(argument(mode)), jump(ANY_BIT, SET_ID, 0, 1), answer(refuse(EPERM)), answer(ALLOW)];
  return flags === undefined
    ? judged
    : [load(argument(flags)), jump(ANY_BIT, NEW_FILE, 1, 0), answer(ALLOW), ...judged];
}

/** Contract: the call's first argument is a descriptor, its second a level, its third an option. */
function ignored(level: number, options: readonly number[]): Instruction[] {
  const tests = options.map((value, index) => jump(EQUAL, value, options.length - index, 0));
  return [
    ...[load(argument(1)), jump(EQUAL, level, 1, 0), answer(ALLOW)],
    ...[load(argument(2)), ...tests, answer(ALLOW), answer(IGNORE)],
  ];
}

function denied(values: readonly number[]): Instruction[] {
  const tests = values.map((value, index) => jump(EQUAL, value, values.length - index, 0));
  return [...tests, answer(ALLOW), answer(refuse(EPERM))];
}
