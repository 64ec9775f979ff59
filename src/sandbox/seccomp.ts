/** System calls as the kernel numbers them on each machine; -1 where it has none of the name. */
export const SYSTEM_CALLS: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
  socket: [41, 198],
  socketpair: [53, 199],
  ioctl: [16, 29],
  clone: [56, 220],
  clone3: [435, 435],
  prctl: [157, 167],
  // A set-id program that is left in the workspace acts for its owner on the host, whoever starts it.
  chmod: [90, -1],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  open: [2, -1],
  openat: [257, 56],
  openat2: [437, 437],
  creat: [85, -1],
  mknod: [133, -1],
  mknodat: [259, 33],
  // Other processes, other namespaces, other file systems
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  open_tree: [428, 428],
  move_mount: [429, 429],
  mount_setattr: [442, 442],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  // The kernel itself, and the parts of it with the longest record of holes
  bpf: [321, 280],
  keyctl: [250, 219],
  add_key: [248, 217],
  request_key: [249, 218],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  syslog: [103, 116],
  acct: [163, 89],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172, -1],
  ioperm: [173, -1],
  modify_ldt: [154, -1],
  uselib: [134, -1],
  lookup_dcookie: [212, 18],
  vhangup: [153, 58],
  nfsservctl: [180, 42],
  mbind: [237, 235],
  set_mempolicy: [238, 237],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
};

/** Memory that no limit of a process counts: refused where there is no cgroup to count it. */
const UNCOUNTED: Readonly<Record<string, readonly [x64: number, arm64: number]>> = {
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  shmget: [29, 194],
};

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
  /** True where set-id programs may be made: in a system that is being built, from which they are taken again. */
  allowsSetId?: boolean;
}

/**
 * The filter that the kernel runs at every system call of a sandbox, as classic BPF; undefined for a machine that it is not known
 * for. It keeps what namespaces do not: AF_VSOCK ignores them, a terminal takes typed input, and a new user namespace opens the
 * parts of the kernel that were written for root.
 */
export function seccompFilter(architecture: string = process.arch, options: FilterOptions = {}): Buffer | undefined {
  const { isCounted = true, allowsSetId = false } = options;
  const machine = MACHINES[architecture];
  if (!machine) return undefined;
  const numberOf = (name: string) => SYSTEM_CALLS[name]?.[machine.column] ?? -1;
  const program = [
    ...when(ARCHITECTURE, machine.audit, [], [answer(KILL)]),
    load(NUMBER),
    // The x32 calls: the same kernel under other numbers.
    ...(architecture === "x64" ? [jump(AT_LEAST, 0x4000_0000, 0, 1), answer(refuse(ENOSYS))] : []),
    ...call(numberOf("socket"), allowed(FAMILIES, EAFNOSUPPORT)),
    ...call(numberOf("socketpair"), allowed([AF_UNIX], EAFNOSUPPORT)),
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
    ...call(numberOf("prctl"), [load(argument(0)), ...denied([PR_SET_PDEATHSIG])]),
    // What they take is in memory, where a filter cannot look. Told that they do not exist, runtimes use `clone` and `openat`.
    ...call(numberOf("clone3"), [answer(refuse(ENOSYS))]),
    ...call(numberOf("openat2"), [answer(refuse(ENOSYS))]),
    ...Object.keys(SYSTEM_CALLS)
      .filter((name) => !JUDGED.has(name) && numberOf(name) !== -1)
      .flatMap((name) => call(numberOf(name), [answer(refuse(name.startsWith("io_uring") ? ENOSYS : EPERM))])),
    ...(isCounted ? [] : Object.values(UNCOUNTED)).flatMap((numbers) =>
      call(numbers[machine.column], [answer(refuse(ENOSYS))]),
    ),
    answer(ALLOW),
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
const ANY_BIT = 0x45;
const load = (offset: number): Instruction => ({ code: 0x20, yes: 0, no: 0, value: offset });
const jump = (code: number, value: number, yes: number, no: number): Instruction => ({ code, yes, no, value });
const answer = (value: number): Instruction => ({ code: 0x06, yes: 0, no: 0, value });

const ALLOW = 0x7fff_0000;
const KILL = 0x8000_0000;
const refuse = (errno: number) => 0x0005_0000 | errno;
const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

const AF_UNIX = 1;
/** Unix sockets, and the internet ones that reach no further than the sandbox's own loopback. */
const FAMILIES = [AF_UNIX, 2, 10];
const SET_ID = 0o6000;
/** O_CREAT, O_TMPFILE. */
const NEW_FILE = 0x0040_0040;
const PR_SET_PDEATHSIG = 1;
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

function denied(values: readonly number[]): Instruction[] {
  const tests = values.map((value, index) => jump(EQUAL, value, values.length - index, 0));
  return [...tests, answer(ALLOW), answer(refuse(EPERM))];
}
