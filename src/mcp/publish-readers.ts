/**
 * Whether readers of YAML 1.1 and 1.2 may make different values of this frontmatter: `no` is a text to one and false to the
 * other, 2026-01-02 a date. Contract: true more often than it must be, where text only looks like such a value.
 */
export function differsByReader(source: string): boolean {
  // Some readers refuse a tab between a key and its value or after it, and a key that does not end soon.
  if (source.includes("\t")) return true;
  return source.split("\n").some((line) => endOfKey(line) > LONGEST_KEY || partsOf(line).some(isDoubtful));
}

function partsOf(line: string): string[] {
  const text = line.replace(/^[ \t]*(?:-[ \t]+)*/, "");
  if (/[[{]/.test(text)) return text.split(/[,[\]{}]|:(?:[ \t]|$)|[ \t]#/);
  const colon = endOfKey(text);
  return [text.slice(0, Math.max(0, colon)), text.slice(colon + 1)].map((part) => part.replace(/[ \t]#.*$/, ""));
}

function endOfKey(line: string): number {
  return line.search(/:(?:[ \t]|$)/);
}

const LONGEST_KEY = 1000;
const LONGEST = 40;

function isDoubtful(part: string): boolean {
  const value = part.trim();
  return value.length <= LONGEST && DOUBTFUL.some((pattern) => pattern.test(value));
}

const DOUBTFUL: readonly RegExp[] = [
  /^(?:y|n|yes|no|on|off|=|<<)$/i,
  /^\d{4}-\d\d?-\d\d?(?:[Tt \t].*)?$/,
  // Octal or not, and who takes 0b and 0o.
  /^[-+]?0(?:[\d_]+|o[0-7]+|b[01_]+)$/,
  /^[-+]?(?:[\d.]*|0x[\da-f]*)_[\da-f_.]*$/i,
  /^[-+]?\d+(?::[0-5]?\d)+(?:\.\d*)?$/,
  /^[-+]?[\d.]+e[-+]?\d+$/i,
  // What JSON has not: more digits than a double holds, and zero with a sign.
  /^[-+]?\d{16,}$/,
  /^-[0.]+$/,
];
