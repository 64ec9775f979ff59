import type { FileRule, ScannedFile } from "../rule.ts";

const MAGIC: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ["a Linux program", /^\x7fELF/],
  ["a Windows program", /^MZ[\s\S]/],
  ["a macOS program", /^(?:\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe)/],
  ["a WebAssembly module", /^\0asm/],
  ["a zip", /^PK\x03\x04/],
  ["a gzip", /^\x1f\x8b/],
  ["a 7z archive", /^7z\xbc\xaf\x27\x1c/],
  ["a rar archive", /^Rar!\x1a\x07/],
  ["an xz archive", /^\xfd7zXZ/],
  ["a script", /^#!|^\s{0,20}<\?php|^\s{0,20}<script\b/i],
];
const PROGRAMS = /program$/;
const ARCHIVES = /^a (?:zip|7z archive|rar archive|gzip)$|^an xz/;

/** Extensions of media files, which are viewed and never run. */
const MEDIA_ENDINGS = /\.(?:png|jpe?g|gif|webp|bmp|ico|tiff?|mp[34]|wav|ogg|webm|mov|pdf|woff2?|ttf|otf|eot)$/i;
const TEXT_ENDINGS = /\.(?:md|txt|json|csv|ya?ml|toml|html?|css|rst|svg|xml)$/i;
/** Formats that are zip archives. */
const ZIP_FORMAT_ENDINGS =
  /\.(?:docx|xlsx|pptx|dotx|xltx|potx|odt|ods|odp|epub|sketch|fig|key|pages|numbers|mscz|kra|3mf|skill|whl|nupkg|vsix|usdz|drawio)$/i;
const CODE_NAME =
  /\.(?:sh|bash|zsh|py|pyc|js|mjs|cjs|ts|rb|pl|ps1|psm1|bat|cmd|exe|dll|so|dylib|jar|class|vbs|app|scr|lua|php)$/i;

export const DISGUISED_FILE_RULES: readonly FileRule[] = [
  {
    id: "false-ending",
    weight: "high",
    title: "has a file whose content does not match its name",
    why: "A misleading name hides the file from reviewers.",
    fix: "do not use it; inspect the file with a tool that shows its bytes",
    find({ path, kind }) {
      if (kind === undefined) return undefined;
      const isRunnable = PROGRAMS.test(kind) || kind === "a script";
      if (MEDIA_ENDINGS.test(path) && (isRunnable || kind === "a zip"))
        return { weight: isRunnable ? "high" : "medium", seen: kind };
      return TEXT_ENDINGS.test(path) && PROGRAMS.test(kind) ? { seen: kind } : undefined;
    },
  },
  {
    id: "double-ending",
    weight: "medium",
    title: "has a program that is named like a document",
    why: "Many systems hide the last extension.",
    fix: "do not open it",
    find({ path }) {
      const match =
        /\.(?:pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|txt|csv|mp[34]|html?)\.(?:exe|scr|bat|cmd|com|sh|ps1|vbs|js|jar|app|py|lnk|command)$/i.exec(
          path,
        );
      return match ? { seen: match[0] } : undefined;
    },
  },
  {
    id: "compiled",
    weight: "medium",
    title: "contains a compiled program",
    why: "Its behavior is not visible in readable files.",
    fix: "build it from its source, or remove it",
    find({ path, kind }) {
      if (kind !== undefined && (PROGRAMS.test(kind) || kind === "a WebAssembly module"))
        return { weight: PROGRAMS.test(kind) ? "medium" : "low", seen: kind };
      if (/\.(?:pyc|pyo|class|jar)$/i.test(path))
        return { weight: /__pycache__\//.test(path) ? "low" : "medium", seen: "compiled code" };
      return undefined;
    },
  },
  {
    id: "archive",
    weight: "medium",
    title: "contains an archive",
    why: "The scan does not look into archives.",
    fix: "put its files into the skill directly",
    find({ path, bytes, kind }) {
      if (kind === undefined || !ARCHIVES.test(kind) || MEDIA_ENDINGS.test(path)) return undefined;
      if (kind !== "a zip") {
        if (kind === "a gzip" && !/\.(?:tgz|tar\.gz)$/i.test(path)) return undefined;
        return { seen: kind };
      }
      const { names, isLocked } = listZipNames(bytes);
      const code = names.find((name) => CODE_NAME.test(name));
      const isMacro = names.some((name) => name.endsWith("vbaProject.bin"));
      if (isMacro) return { seen: "a document with macros" };
      if (ZIP_FORMAT_ENDINGS.test(path)) return undefined;
      if (isLocked) return { seen: "a zip with a password" };
      return code === undefined ? { weight: "low", seen: "a zip" } : { seen: `a zip with code in it, ${code}` };
    },
  },
];

/** Returns the type that a file's first bytes indicate, or undefined for plain text and pictures. */
export function detectMagic(bytes: Uint8Array): string | undefined {
  if (!FIRST_BYTES.has(bytes[0] ?? 0)) return undefined;
  const start = String.fromCharCode(...bytes.subarray(0, 32));
  return MAGIC.find(([, pattern]) => pattern.test(start))?.[0];
}

const FIRST_BYTES = new Set([...Buffer.from("\x7fM\xfe\xce\xcf\xca\0P\x1f7R\xfd#< \t\n\r", "latin1")]);

const MAX_ZIP_NAMES = 2000;

/** Returns the file names in a zip archive, from its local file headers. */
function listZipNames(bytes: Uint8Array): { names: string[]; isLocked: boolean } {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const names: string[] = [];
  let isLocked = false;
  for (
    let at = buffer.indexOf(ZIP_FILE_HEADER);
    at !== -1 && at + 30 <= buffer.length && names.length < MAX_ZIP_NAMES;
  ) {
    isLocked ||= (buffer.readUInt16LE(at + 6) & 1) === 1;
    names.push(buffer.toString("utf8", at + 30, at + 30 + Math.min(512, buffer.readUInt16LE(at + 26))));
    at = buffer.indexOf(ZIP_FILE_HEADER, at + 30);
  }
  return { names, isLocked };
}

const ZIP_FILE_HEADER = "PK\x03\x04";

/** Returns true if the bytes are not readable text. */
export function isBinaryFile({ bytes }: Pick<ScannedFile, "bytes">): boolean {
  return bytes.subarray(0, 8192).includes(0);
}
