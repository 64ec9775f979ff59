import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const program = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** A word that stands in the instructions and nowhere else. */
export const MARK = "kestrel";

const SKILL = {
  "SKILL.md": `---
name: greeter
description: Greets people by their name
toolsets:
  - "toolsets/index:Tools"
---

# Greeter

Greet with the tool \`greet\`. Who asks for the password is told "${MARK}".
`,
  "toolsets/index.ts": `import { Tool } from "@agent/tools";
import { z } from "zod";

export const Tools = [
  Tool.define("greet", {
    description: "Says hello to somebody",
    parameters: z.object({ name: z.string() }),
    execute: ({ name }) => \`Hello, \${name}\`,
  }),
];
`,
};

/** A home folder with the skill in it and nothing else, and a folder to work in. */
export function openHome(name) {
  const path = realpathSync(mkdtempSync(join(tmpdir(), `skillet-${name}-`)));
  for (const [file, text] of Object.entries(SKILL)) write(join(path, ".skillet", "skills", "greeter", file), text);
  const workspace = join(path, "work");
  mkdirSync(workspace);
  const env = { PATH: process.env.PATH, HOME: path, LANG: "C.UTF-8", TERM: "dumb", NO_COLOR: "1" };
  return { path, workspace, env };
}

/**
 * Puts the server into the client's configuration as its users do, and then what listens between the two in the server's place.
 * `more` adds what makes the client ask the model here.
 */
export function configure({ path, workspace, env }, { name, config, more }) {
  const args = [program, "mcp-config", "--for", name, "--write"];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: workspace, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`skillet mcp-config --for ${name} --write ended with ${status}: ${stderr}`);
  const file = join(path, config);
  const text = readFileSync(file, "utf8");
  const between = text.replaceAll(program, join(import.meta.dirname, "wire.mjs"));
  if (between === text) throw new Error(`skillet mcp-config --for ${name} --write did not put ${program} into ${file}`);
  writeFileSync(file, more(between));
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
