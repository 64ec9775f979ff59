import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FOLDERS = [
  ".skillet/skills",
  ".skillet/installed",
  ".agent/skills",
  ".agents/skills",
  ".claude/skills",
  "skills",
];

/**
 * Binds the configured values to their skills, as `skillet config set` does if there is one copy. `places` are folders, in addition to the
 * home, that have folders of skills.
 */
export function grantValuesIn(home: string, ...places: readonly string[]): void {
  const [config, grants] = [join(home, ".skillet/config.toml"), join(home, ".skillet/grants.json")];
  if (!existsSync(config) || existsSync(grants)) return;
  const names = readFileSync(config, "utf8").matchAll(/^\[skills\.([\w-]+)[\].]/gm);
  const skills = Object.fromEntries(
    [...names].flatMap(([, name = ""]) => {
      const folders = [home, ...places].flatMap((root) => FOLDERS.map((folder) => join(root, folder, name)));
      const [place, ...others] = folders.filter((folder) => existsSync(join(folder, "SKILL.md")));
      if (place === undefined || others.length > 0) return [];
      return [[name, { source: "test", place: realpathSync(place), at: new Date().toISOString() }]];
    }),
  );
  if (Object.keys(skills).length > 0) writeFileSync(grants, JSON.stringify({ version: 1, skills }), { mode: 0o600 });
}
