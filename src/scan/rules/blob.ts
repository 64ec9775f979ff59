import type { Rule, Weighing } from "../rule.ts";

export const ENCODED_COMMAND: Rule & { weigh: Weighing } = {
  id: "encoded-command",
  weight: "high",
  weigh: "hhhhlh",
  title: "holds a command that is written in base64 or hex",
  why: "It is there to be decoded and run, and not to be read.",
  fix: "decode it, read it, and put it into the skill as it is",
};

const LONGEST = 4096;
const COMMAND =
  /\b(?:curl|wget)\s|\bbash\b|\/bin\/(?:ba)?sh|\bpowershell\b|\biwr\b|\biex\b|\bimport (?:os|socket|subprocess|urllib)|\bsubprocess\b|\bos\.system|\brm -rf\b|\beval\(|\bexec\(|\brequire\(['"]|\bfetch\(|\bnc -|\/dev\/tcp|ignore (?:all|previous)/i;

/** What a run of characters stands for, if that is a command. */
export function commandIn(run: string): string | undefined {
  const text = run.slice(0, LONGEST);
  for (const decode of [fromHex, fromBase64, fromReversed]) {
    const decoded = decode(text);
    if (decoded !== undefined && isReadable(decoded) && COMMAND.test(decoded)) return decoded;
  }
  return undefined;
}

function fromHex(text: string): string | undefined {
  return /^(?:[0-9a-fA-F]{2})+$/.test(text) ? Buffer.from(text, "hex").toString("latin1") : undefined;
}

function fromBase64(text: string): string {
  const decoded = Buffer.from(text.replace(/^[=/+]+/, ""), "base64").toString("latin1");
  return decoded.length > 3 && decoded[1] === "\0" && decoded[3] === "\0" ? decoded.replaceAll("\0", "") : decoded;
}

/** Turned around so that no decoder takes it as it is: the padding then stands first. */
function fromReversed(text: string): string | undefined {
  return /^={1,2}[A-Za-z0-9+/]/.test(text) ? fromBase64([...text].reverse().join("")) : undefined;
}

function isReadable(text: string): boolean {
  return text.length >= 12 && !/[^\t\n\r\x20-\x7e]/.test(text);
}
