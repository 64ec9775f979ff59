/**
 * The position of the argument with a file's mode and, if the mode counts only for a new file, of the flags that create
 * one.
 */
const MODE_ARGUMENTS: Readonly<Record<string, { mode: number; flags?: number }>> = {
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

const SECCOMP_ARCHITECTURES: Readonly<Record<string, { column: 0 | 1; audit: number }>> = {
  x64: { column: 0, audit: 0xc000003e },
  arm64: { column: 1, audit: 0xc00000b7 },
};

export interface SeccompOptions {
  /** False if no cgroup counts memory outside the process limits: calls that allocate it are then refused. */
  isCounted?: boolean;
  /** False if code could take all inotify instances of an account: they are then refused. */
  allowsInotify?: boolean;
  /**
   * True if setuid and setgid programs may be created: in a system that is being built, from which they are removed
   * again.
   */
  allowsSetId?: boolean;
}

/**
 * Creates the filter that the kernel runs at every system call of a sandbox, as classic BPF. Returns undefined for an
 * unknown architecture. It is an allowlist: a call that is in no table returns ENOSYS. It covers gaps of namespaces:
 * AF_VSOCK ignores them, a terminal accepts injected input, and a new user namespace opens parts of the kernel that
 * were written for root.
 */
export function createSeccompFilter(
  architecture: string = process.arch,
  options: SeccompOptions = {},
): Buffer | undefined {
  const { isCounted = true, allowsInotify = true, allowsSetId = false } = options;
  const machine = SECCOMP_ARCHITECTURES[architecture];
  if (!machine) return undefined;
  const numberOf = (name: string) => (SYSTEM_CALLS[name] ?? ALLOWED_CALLS[name])?.[machine.column] ?? -1;
  // If setuid and setgid programs may be created, the modes of files are not checked.
  const uncheckedCalls = allowsSetId
    ? Object.fromEntries(Object.keys(MODE_ARGUMENTS).map((name) => [name, SYSTEM_CALLS[name] ?? NO_NUMBERS]))
    : {};
  const program = [
    ...branchOnValue(ARCHITECTURE_OFFSET, machine.audit, [], [returnValue(KILL)]),
    loadWord(NUMBER_OFFSET),
    // The x32 calls: the same kernel under other numbers.
    ...(architecture === "x64" ? [jumpIf(AT_LEAST, 0x4000_0000, 0, 1), returnValue(encodeErrno(ENOSYS))] : []),
    ...matchCall(numberOf("socket"), [
      // MPTCP queues are in no table that the host reads, and cgroup v1 does not count them. Programs fall back to TCP.
      ...[
        loadWord(getArgumentOffset(2)),
        jumpIf(EQUAL, IPPROTO_MPTCP, 0, 1),
        returnValue(encodeErrno(EPROTONOSUPPORT)),
      ],
      ...allowValues(FAMILIES, EAFNOSUPPORT),
    ]),
    ...matchCall(numberOf("socketpair"), allowValues([AF_UNIX], EAFNOSUPPORT)),
    // The size of a socket's buffer, which no process limit counts. The kernel too silently uses less than requested.
    ...(isCounted ? [] : matchCall(numberOf("setsockopt"), ignoreOptions(SOL_SOCKET, [SO_SNDBUF, SO_RCVBUF]))),
    ...(allowsInotify
      ? []
      : INOTIFY.filter((name) => numberOf(name) !== -1).flatMap((name) =>
          matchCall(numberOf(name), [returnValue(encodeErrno(EMFILE))]),
        )),
    ...matchCall(numberOf("ioctl"), [loadWord(getArgumentOffset(1)), ...denyValues([TIOCSTI, TIOCLINUX])]),
    ...matchCall(numberOf("clone"), [
      loadWord(getArgumentOffset(0)),
      jumpIf(ANY_BIT, NEW_NAMESPACES, 0, 1),
      returnValue(encodeErrno(EPERM)),
      returnValue(ALLOW),
    ]),
    ...Object.entries(allowsSetId ? {} : MODE_ARGUMENTS).flatMap(([name, { mode, flags }]) =>
      numberOf(name) === -1 ? [] : matchCall(numberOf(name), refuseSetId(mode, flags)),
    ),
    // The first process of a sandbox can be written to through /proc, and must not be made to outlive its host.
    ...matchCall(numberOf("prctl"), [
      loadWord(getArgumentOffset(0)),
      // If the host counts the resources of processes, none may hide from it.
      ...(isCounted ? [] : [jumpIf(EQUAL, PR_SET_DUMPABLE, 0, 1), returnValue(IGNORE)]),
      ...denyValues([PR_SET_PDEATHSIG]),
    ]),
    // Their arguments are in memory, where a filter cannot look. If these calls do not exist, runtimes use `clone` and
    // `openat`.
    ...matchCall(numberOf("clone3"), [returnValue(encodeErrno(ENOSYS))]),
    ...matchCall(numberOf("openat2"), [returnValue(encodeErrno(ENOSYS))]),
    ...Object.keys(SYSTEM_CALLS)
      .filter((name) => !INSPECTED_CALLS.has(name) && numberOf(name) !== -1)
      .flatMap((name) =>
        matchCall(numberOf(name), [returnValue(encodeErrno(name.startsWith("io_uring") ? ENOSYS : EPERM))]),
      ),
    ...createCallRanges(
      { ...ALLOWED_CALLS, ...(isCounted ? UNCOUNTED_CALLS : {}), ...uncheckedCalls },
      machine.column,
    ).flatMap(([first, last]) => [jumpIf(AT_LEAST, first, 0, 2), jumpIf(ABOVE, last, 1, 0), returnValue(ALLOW)]),
    // Unknown calls do not exist: programs fall back to older ones.
    returnValue(encodeErrno(ENOSYS)),
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

/** Calls whose arguments are checked. */
export const INSPECTED_CALLS: ReadonlySet<string> = new Set([
  ...["socket", "socketpair", "ioctl", "clone", "clone3", "openat2", "prctl"],
  ...Object.keys(MODE_ARGUMENTS),
]);

const NO_NUMBERS: SystemCallNumbers = [-1, -1];

/** Returns the numbers of these calls as ranges, which keeps the program short. */
function createCallRanges(
  calls: Readonly<Record<string, SystemCallNumbers>>,
  column: 0 | 1,
): [first: number, last: number][] {
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
  /** The number of instructions to skip. */
  yes: number;
  no: number;
  value: number;
}

// struct seccomp_data: number, architecture, address, then the arguments of eight bytes each, the low half first.
const NUMBER_OFFSET = 0;
const ARCHITECTURE_OFFSET = 4;
const getArgumentOffset = (index: number) => 16 + 8 * index;

const EQUAL = 0x15;
const AT_LEAST = 0x35;
const ABOVE = 0x25;
const ANY_BIT = 0x45;
const loadWord = (offset: number): Instruction => ({ code: 0x20, yes: 0, no: 0, value: offset });
const jumpIf = (code: number, value: number, yes: number, no: number): Instruction => ({ code, yes, no, value });
const returnValue = (value: number): Instruction => ({ code: 0x06, yes: 0, no: 0, value });

const ALLOW = 0x7fff_0000;
const KILL = 0x8000_0000;
const encodeErrno = (errno: number) => 0x0005_0000 | errno;
/** Skips the call and reports success to its caller. */
const IGNORE = encodeErrno(0);
const EPERM = 1;
const EMFILE = 24;
const ENOSYS = 38;
const EPROTONOSUPPORT = 93;
const EAFNOSUPPORT = 97;

const AF_UNIX = 1;
const IPPROTO_MPTCP = 262;
/** Unix sockets, and internet sockets, which reach only the sandbox's own loopback. */
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

function branchOnValue(field: number, value: number, yes: Instruction[], no: Instruction[]): Instruction[] {
  return [loadWord(field), jumpIf(EQUAL, value, no.length, 0), ...no, ...yes];
}

/** Contract: every path through `body` returns. */
function matchCall(number: number, body: Instruction[]): Instruction[] {
  return [jumpIf(EQUAL, number, 0, body.length), ...body];
}

function allowValues(values: readonly number[], errno: number): Instruction[] {
  const tests = values.map((value, index) => jumpIf(EQUAL, value, values.length - index, 0));
  return [loadWord(getArgumentOffset(0)), ...tests, returnValue(encodeErrno(errno)), returnValue(ALLOW)];
}

function refuseSetId(mode: number, flags: number | undefined): Instruction[] {
  const modeCheck = [
    loadWord(getArgumentOffset(mode)),
    jumpIf(ANY_BIT, SET_ID, 0, 1),
    returnValue(encodeErrno(EPERM)),
    returnValue(ALLOW),
  ];
  return flags === undefined
    ? modeCheck
    : [loadWord(getArgumentOffset(flags)), jumpIf(ANY_BIT, NEW_FILE, 1, 0), returnValue(ALLOW), ...modeCheck];
}

/** Contract: the call's first argument is a descriptor, its second a level, its third an option. */
function ignoreOptions(level: number, options: readonly number[]): Instruction[] {
  const tests = options.map((value, index) => jumpIf(EQUAL, value, options.length - index, 0));
  return [
    ...[loadWord(getArgumentOffset(1)), jumpIf(EQUAL, level, 1, 0), returnValue(ALLOW)],
    ...[loadWord(getArgumentOffset(2)), ...tests, returnValue(ALLOW), returnValue(IGNORE)],
  ];
}

function denyValues(values: readonly number[]): Instruction[] {
  const tests = values.map((value, index) => jumpIf(EQUAL, value, values.length - index, 0));
  return [...tests, returnValue(ALLOW), returnValue(encodeErrno(EPERM))];
}

/** The number of a system call on each architecture; -1 if the kernel has no call of that name. */
type SystemCallNumbers = readonly [x64: number, arm64: number];

/** Calls whose arguments are checked, or that have their own error. Any call that is in no table returns ENOSYS. */
export const SYSTEM_CALLS: Readonly<Record<string, SystemCallNumbers>> = {
  socket: [41, 198],
  socketpair: [53, 199],
  ioctl: [16, 29],
  clone: [56, 220],
  clone3: [435, 435],
  prctl: [157, 167],
  // A setuid program in the workspace acts for its owner on the host, whichever user starts it.
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
  // The kernel itself, and its parts with the longest record of vulnerabilities
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

/**
 * Calls that allocate memory which no process limit counts, in user space or in the kernel: refused if no cgroup counts
 * it.
 */
export const UNCOUNTED_CALLS: Readonly<Record<string, SystemCallNumbers>> = {
  memfd_create: [319, 279],
  memfd_secret: [447, 447],
  shmget: [29, 194],
  semget: [64, 190],
  msgget: [68, 186],
};

/**
 * Calls that programs may make with any argument: those that Node, Python, git, apt's tools and shells need. As `name
 * x64 arm64`, in the order of the x64 numbers. Not `io_setup` and the like: the whole machine shares one count of them,
 * which one program can use up.
 */
export const ALLOWED_CALLS: Readonly<Record<string, SystemCallNumbers>> = parseCallTable(`
  read 0 63, write 1 64, close 3 57, stat 4 -1, fstat 5 80, lstat 6 -1, poll 7 -1, lseek 8 62, mmap 9 222, mprotect 10 226,
  munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, pread64 17 67, pwrite64 18 68,
  readv 19 65, writev 20 66, access 21 -1, pipe 22 -1, select 23 -1, sched_yield 24 124, mremap 25 216, msync 26 227, mincore 27 232,
  madvise 28 233, shmat 30 196, shmctl 31 195, dup 32 23, dup2 33 -1, pause 34 -1, nanosleep 35 101, getitimer 36 102, alarm 37 -1,
  setitimer 38 103, getpid 39 172, sendfile 40 71, connect 42 203, accept 43 202, sendto 44 206, recvfrom 45 207, sendmsg 46 211,
  recvmsg 47 212, shutdown 48 210, bind 49 200, listen 50 201, getsockname 51 204, getpeername 52 205, setsockopt 54 208,
  getsockopt 55 209, fork 57 -1, vfork 58 -1, execve 59 221, exit 60 93, wait4 61 260, kill 62 129, uname 63 160, semop 65 193, semctl 66 191, shmdt 67 197, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, fcntl 72 25, flock 73 32,
  fsync 74 82, fdatasync 75 83, truncate 76 45, ftruncate 77 46, getdents 78 -1, getcwd 79 17, chdir 80 49, fchdir 81 50,
  rename 82 -1, mkdir 83 -1, rmdir 84 -1, link 86 -1, unlink 87 -1, symlink 88 -1, readlink 89 -1, chown 92 -1, fchown 93 55,
  lchown 94 -1, umask 95 166, gettimeofday 96 169, getrlimit 97 163, getrusage 98 165, sysinfo 99 179, times 100 153, getuid 102 174,
  getgid 104 176, setuid 105 146, setgid 106 144, geteuid 107 175, getegid 108 177, setpgid 109 154, getppid 110 173, getpgrp 111 -1,
  setsid 112 157, setreuid 113 145, setregid 114 143, getgroups 115 158, setgroups 116 159, setresuid 117 147, getresuid 118 148,
  setresgid 119 149, getresgid 120 150, getpgid 121 155, setfsuid 122 151, setfsgid 123 152, getsid 124 156, capget 125 90,
  capset 126 91, rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigqueueinfo 129 138, rt_sigsuspend 130 133, sigaltstack 131 132,
  utime 132 -1, personality 135 92, statfs 137 43, fstatfs 138 44, getpriority 140 141, setpriority 141 140, sched_setparam 142 118,
  sched_getparam 143 121, sched_setscheduler 144 119, sched_getscheduler 145 120, sched_get_priority_max 146 125,
  sched_get_priority_min 147 126, sched_rr_get_interval 148 127, mlock 149 228, munlock 150 229, mlockall 151 230,
  munlockall 152 231, arch_prctl 158 -1, setrlimit 160 164, sync 162 81, gettid 186 178, readahead 187 213, setxattr 188 5,
  lsetxattr 189 6, fsetxattr 190 7, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12,
  flistxattr 196 13, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, tkill 200 130, time 201 -1, futex 202 98,
  sched_setaffinity 203 122, sched_getaffinity 204 123, set_thread_area 205 -1, get_thread_area 211 -1, epoll_create 213 -1, remap_file_pages 216 234, getdents64 217 61,
  set_tid_address 218 96, restart_syscall 219 128, semtimedop 220 192, fadvise64 221 223, timer_create 222 107,
  timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109, timer_delete 226 111, clock_gettime 228 113,
  clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94, epoll_wait 232 -1, epoll_ctl 233 21, tgkill 234 131,
  utimes 235 -1, get_mempolicy 239 236, mq_open 240 180, mq_unlink 241 181, mq_timedsend 242 182, mq_timedreceive 243 183,
  mq_notify 244 184, mq_getsetattr 245 185, waitid 247 95, ioprio_set 251 30, ioprio_get 252 31, inotify_init 253 -1,
  inotify_add_watch 254 27, inotify_rm_watch 255 28, mkdirat 258 34, fchownat 260 54, futimesat 261 -1, newfstatat 262 79,
  unlinkat 263 35, renameat 264 38, linkat 265 37, symlinkat 266 36, readlinkat 267 78, faccessat 269 48, pselect6 270 72,
  ppoll 271 73, set_robust_list 273 99, get_robust_list 274 100, splice 275 76, tee 276 77, sync_file_range 277 84, vmsplice 278 75,
  utimensat 280 88, epoll_pwait 281 22, signalfd 282 -1, timerfd_create 283 85, eventfd 284 -1, fallocate 285 47,
  timerfd_settime 286 86, timerfd_gettime 287 87, accept4 288 242, signalfd4 289 74, eventfd2 290 19, epoll_create1 291 20,
  dup3 292 24, pipe2 293 59, inotify_init1 294 26, preadv 295 69, pwritev 296 70, rt_tgsigqueueinfo 297 240, recvmmsg 299 243,
  prlimit64 302 261, syncfs 306 267, sendmmsg 307 269, getcpu 309 168, sched_setattr 314 274, sched_getattr 315 275,
  renameat2 316 276, seccomp 317 277, getrandom 318 278, execveat 322 281, membarrier 324 283, mlock2 325 284,
  copy_file_range 326 285, preadv2 327 286, pwritev2 328 287, pkey_mprotect 329 288, pkey_alloc 330 289, pkey_free 331 290,
  statx 332 291, rseq 334 293, pidfd_send_signal 424 424, pidfd_open 434 434, close_range 436 436,
  faccessat2 439 439, epoll_pwait2 441 441, landlock_create_ruleset 444 444, landlock_add_rule 445 445,
  landlock_restrict_self 446 446, futex_waitv 449 449
`);

function parseCallTable(table: string): Record<string, SystemCallNumbers> {
  const rows = table.split(",").map((row) => row.trim().split(" "));
  return Object.fromEntries(rows.map(([name = "", x64, arm64]) => [name, [Number(x64), Number(arm64)]]));
}
