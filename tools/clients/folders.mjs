import { mkdirSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { CLIENT_IDS, findReadingClients, getSkillClient, resolveUserFolder } from "../../src/skill/source/locations.ts";
import { capture, textsIn } from "./capture.mjs";
import { openHome, writeFile } from "./home.mjs";
import { runProgram } from "./process.mjs";

/** The folders of a project with canaries: the start folder of a client, one above it, and the root of the repository. */
const PROJECT = { start: "repo/packages/app", above: "repo/packages", root: "repo" };

/** Folders that are not in the table, with the clients that read them. */
const EXTRA = [
  { id: "gemini-extension", folder: ".gemini/extensions/extra/skills", readers: ["gemini"] },
  // Each client with plugins installs it with its own command.
  { id: "plugin", folder: "market/extra/skills", readers: ["claude", "codex", "copilot"] },
  { id: "category", folder: ".agents/skills/category", readers: ["codex", "opencode", "copilot"] },
  { id: "claude-category", folder: ".claude/skills/category", readers: ["opencode"] },
  { id: "below", folder: "repo/packages/app/below/.agents/skills", readers: [] },
  { id: "sibling", folder: "repo/packages/other/.claude/skills", readers: [] },
  { id: "skillet", folder: ".skillet/skills", readers: [] },
  { id: "agent", folder: ".agent/skills", readers: [] },
];

const EXTRA_FILES = {
  ".gemini/extensions/extra/gemini-extension.json": { name: "extra", version: "1.0.0" },
  "market/.claude-plugin/marketplace.json": {
    name: "local",
    owner: { name: "tests" },
    plugins: [{ name: "extra", source: "./extra", description: "For tests" }],
  },
  "market/extra/.claude-plugin/plugin.json": { name: "extra", version: "1.0.0", description: "For tests" },
};

/** Parts of the folder table that these runs cannot test, with the reasons. */
export const UNTRIED = {
  cursor: "Cursor is not a program of npm; its row is from its source",
  managed: "/etc/claude-code belongs to the machine's administrator, and a test does not write there",
  "folders below the current one": "Claude Code reads them when it opens a file there; the model here opens none",
  "skills.paths and skills.urls of OpenCode": "configuration, not folders that skillet writes to",
};

/**
 * Puts a skill with a unique word into every folder, and starts the client once in a package of a repository. Returns which of the words its
 * first request contains, and which the folder table expects.
 */
export async function measureFolders(client) {
  const home = openHome(`${client.name}-folders`);
  for (const path of Object.values(PROJECT)) mkdirSync(join(home.path, path), { recursive: true });
  mkdirSync(join(home.path, PROJECT.root, ".git"), { recursive: true });
  writeFile(join(home.path, PROJECT.root, ".git/HEAD"), "ref: refs/heads/main\n");
  for (const part of ["objects", "refs"]) mkdirSync(join(home.path, PROJECT.root, ".git", part));
  const canaries = allCanaries(home);
  for (const { id, folder } of canaries)
    writeFile(
      join(folder, id, "SKILL.md"),
      `---\nname: ${id}\ndescription: Canary ${word(id)} for tests.\n---\n\nNothing.\n`,
    );
  for (const [path, value] of Object.entries(EXTRA_FILES)) writeFile(join(home.path, path), JSON.stringify(value));
  for (const args of client.addPlugin?.(join(home.path, "market"), "extra@local") ?? []) {
    const { problem, printed } = await runProgram([...client.program(), ...args], { cwd: home.path, env: home.env });
    if (problem) throw new Error(`${client.name} ${args.join(" ")}: ${problem}: ${printed}`);
  }
  const at = { ...home, workspace: join(home.path, PROJECT.start) };
  const { first, problems } = await capture(client, at, "ok");
  const text = textsIn(first);
  const rows = canaries.map(({ id, folder, readers }) => ({
    id,
    folder: relative(home.path, folder),
    isRead: text.includes(`Canary ${word(id)}`),
    isExpected: readers.includes(client.name),
  }));
  if (problems.length === 0) rmSync(home.path, { recursive: true, force: true });
  return { rows, problems };
}

/** Returns the canary's word, which is not part of another one. */
const word = (id) => `zq${id.replaceAll("-", "")}qz`;

function allCanaries(home) {
  const place = { home: home.path, workspace: home.workspace, env: {} };
  const user = CLIENT_IDS.flatMap((owner) =>
    getSkillClient(owner).user.map((folder, index) => ({
      id: `canary-user-${owner}-${index}`,
      folder: resolveUserFolder(folder, place),
      // Only Cursor reads the further folder in its row.
      readers: index === 0 || owner !== "cursor" ? findReadingClients(owner, "user") : ["cursor"],
    })),
  );
  const project = CLIENT_IDS.flatMap((owner) =>
    getSkillClient(owner).project.flatMap((path, index) =>
      Object.entries(PROJECT).map(([level, base]) => ({
        id: `canary-${level}-${owner}-${index}`,
        folder: join(home.path, base, path),
        readers: findReadingClients(owner, "project").filter((id) => level === "start" || !READS_START_ONLY.has(id)),
      })),
    ),
  );
  const extra = EXTRA.map(({ id, folder, readers }) => ({
    id: `canary-extra-${id}`,
    folder: join(home.path, folder),
    readers,
  }));
  return [...user, ...project, ...extra];
}

/** Clients that read a project's folders only in their start folder. */
const READS_START_ONLY = new Set(["gemini"]);
