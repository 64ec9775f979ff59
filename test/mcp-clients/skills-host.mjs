// skillet as the client under test of the conformance suite, which starts `node skills-host.mjs START MODE URL`: it configures the suite's
// server as a source of skills, then runs the commands of a user. MODE: `list`, or `load` to also load the skill and read its file.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [start, mode, url] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), "skillet-host-"));
mkdirSync(join(home, ".skillet"));
mkdirSync(join(home, "project"));
const config = `[tools.mcp.suite]\nurl = ${JSON.stringify(url)}\nskills = true\n`;
writeFileSync(join(home, ".skillet/config.toml"), config, { mode: 0o600 });
const skillet = (...args) => {
  const env = { HOME: home, PATH: process.env.PATH };
  const { status, stdout, stderr } = spawnSync(process.execPath, [start, ...args], {
    ...{ cwd: join(home, "project"), env, encoding: "utf8", timeout: 25_000 },
  });
  process.stdout.write(`$ skillet ${args.join(" ")}\n${stdout}${stderr}`);
  return status === 0;
};
const LIST = [["list"], ["show", "pdf-processing"], ["explain", "fill in a PDF document"]];
const LOAD = [["list"], ["show", "pdf-processing", "--body"], ["show", "pdf-processing", "references/FORMS.md"]];
const areFine = (mode === "list" ? LIST : LOAD).map((args) => skillet(...args));
rmSync(home, { recursive: true, force: true });
process.exitCode = areFine.every(Boolean) ? 0 : 1;
