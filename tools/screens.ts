// Writes the terminal recordings of the README and the docs from the built program. `npm run screens` writes them, tests
// compare them.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { findClaudeCode, startClaudeCode } from "./screens/claude-code.ts";
import { PROJECT, putFolders, SCENES, type Scene } from "./screens/scenes.ts";
import { type Row, renderTerminal } from "./screens/svg.ts";
import { atTerminal, rowsOf } from "./screens/terminal.ts";

const root = join(import.meta.dirname, "..");

/** The replacements of text that differs between runs and machines. */
const STEADY: readonly [RegExp, string][] = [
  [/(?<!\d)\d+\.\d s\b/g, "0.2 s"],
  [/(Time {2,}).*/g, "$12026-11-16 09:41 UTC"],
  [/(System {2,}).*/g, "$1Linux 6.12.0 x86_64"],
  [/(Uptime {2,}).*/g, "$13 d 4 h"],
  [/(Processors {2,}).*/g, "$18"],
  [/(Load {2,}).*/g, "$10.49 0.55 0.57 (1, 5 and 15 minutes), 7 % of 8 processors"],
  [/(Memory {2,}).*/g, "$16.1 of 31.2 GiB used (20 %), 25.1 GiB available"],
  [/(Swap {2,}).*/g, "$1none"],
  [
    /(Disk {2,}).*\r\n(?:Disk.*\r\n)*\r\n(?:(?:! |Nothing ).*\r\n)+/g,
    "$124.4 of 252.0 GiB used (10 %), 227.6 GiB free, on /dev/sda1\r\n\r\nNothing needs attention.\r\n",
  ],
  [/\b[0-9a-f]{8}(?= {2}\S*just now)/g, "3b8d7cb6"],
  [/head sha256:[0-9a-f\s]{64,}/g, "head sha256:2527294051a3b952be88c93b719d45f6c1dbd27a7200ddd85ddbd76142cf3eef"],
];

/** Returns the recording of each scene, by its path: of those with Claude Code, or of the others. */
export async function screens({ usesClaudeCode = false } = {}): Promise<Record<string, string>> {
  const scenes = Object.entries(SCENES).filter(([, scene]) => (scene.usesClaudeCode ?? false) === usesClaudeCode);
  const pictures = scenes.map(async ([name, scene]) => [`docs/screens/${name}.svg`, await pictureOf(scene)] as const);
  return Object.fromEntries(await Promise.all(pictures));
}

async function pictureOf(scene: Scene): Promise<string> {
  const place = mkdtempSync(join(tmpdir(), "skillet-screens-"));
  chmodSync(place, 0o755); // Skill code does not run as root, and needs access to the workspace.
  const home = join(place, "you");
  let close: (() => void) | undefined;
  try {
    for (const [path, text] of Object.entries(scene.files ?? {})) {
      mkdirSync(dirname(join(home, path)), { recursive: true });
      writeFileSync(join(home, path), text);
    }
    mkdirSync(join(home, "bin"), { recursive: true });
    symlinkSync(join(root, "bin", "skillet.cjs"), join(home, "bin", "skillet"));
    putFolders(scene, home);
    const cwd = scene.cwd === PROJECT ? root : join(home, scene.cwd);
    const PATH = [join(home, "bin"), dirname(process.execPath), process.env["PATH"]].join(":");
    const client = scene.usesClaudeCode ? await startClaudeCode(home) : undefined;
    close = client?.close;
    const env = { PATH, HOME: home, TERM: "xterm", LANG: "C.UTF-8", OLLAMA_HOST: "127.0.0.1:1", ...client?.env };
    for (const line of scene.before ?? []) await atTerminal({ line, cwd, env });
    const rows: Row[] = [];
    for (const { line, typed = [] } of scene.shown) {
      const written = await atTerminal({ line, cwd, env, typed });
      rows.push(createPrompt(line));
      for (const pieces of rowsOf(steady(written.replaceAll(home, "/home/you")))) rows.push({ pieces });
      while (rows.at(-1)?.pieces.every(({ text }) => text.trim() === "")) rows.pop();
      if (line !== scene.shown.at(-1)?.line) rows.push({ pieces: [] });
    }
    return renderTerminal(rows, scene.title);
  } finally {
    close?.();
    rmSync(place, { recursive: true, force: true });
  }
}

function createPrompt(line: string): Row {
  const pieces: Row["pieces"] = [
    { text: "$ ", looks: ["green"] },
    { text: line, looks: ["bold"] },
  ];
  return { pieces, isTyped: true };
}

function steady(written: string): string {
  return STEADY.reduce((text, [what, instead]) => text.replace(what, instead), written);
}

if (import.meta.main) {
  const made = { ...(await screens()), ...(findClaudeCode() ? await screens({ usesClaudeCode: true }) : {}) };
  for (const [path, svg] of Object.entries(made)) writeFileSync(join(root, path), svg);
}
