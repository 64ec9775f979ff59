import { extname } from "node:path/posix";

/** Why a file is one that can be run, or nothing: `has the right to be run`. Contract: `bytes` is at least its beginning. */
export function whyCode(path: string, mode: number, bytes: Uint8Array): string | undefined {
  if (mode & 0o111) return "has the right to be run";
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (name === "vbaproject.bin") return "holds macros";
  if (ENDINGS.has(extname(name))) return "is code by its ending";
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 8)).toString("latin1");
  return MAGIC.find(([magic]) => start.startsWith(magic))?.[1];
}

const MAGIC: readonly (readonly [start: string, why: string])[] = [
  ["#!", "says what runs it in its first line"],
  ["\xef\xbb\xbf#!", "says what runs it in its first line"],
  ["\x7fELF", "is a program of Linux"],
  ["MZ", "is a program of Windows"],
  ["\xfe\xed\xfa\xce", "is a program of macOS"],
  ["\xfe\xed\xfa\xcf", "is a program of macOS"],
  ["\xce\xfa\xed\xfe", "is a program of macOS"],
  ["\xcf\xfa\xed\xfe", "is a program of macOS"],
  ["\xca\xfe\xba\xbe", "is a program of macOS or Java"],
  ["\0asm", "is a WebAssembly program"],
  ["dex\n", "is a program of Android"],
  ["\x1bLua", "is a Lua program"],
  ["!<arch>\n", "is a package or a library of programs"],
];

const ENDINGS: ReadonlySet<string> = new Set(
  (
    ".sh .bash .zsh .fish .ksh .csh .command .tool .py .pyw .pyc .pyz .rb .pl .pm .php .phar .lua .tcl .awk .js .mjs .cjs .jsx " +
    ".ts .mts .cts .tsx .ps1 .psm1 .psd1 .bat .cmd .com .exe .dll .scr .msi .vbs .vbe .jse .wsf .wsh .hta .lnk .reg .so .dylib " +
    ".node .wasm .jar .war .ear .class .dex .apk .applescript .scpt .scptd .desktop .appimage .deb .rpm .whl .egg .gem .crx .xpi"
  ).split(" "),
);
