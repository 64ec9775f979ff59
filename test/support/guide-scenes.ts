import { chmodSync, cpSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { writeFiles } from "./folder.ts";
import { startGithub } from "./git-host.ts";
import { createGuideScene, type GuideScene, listNeeds } from "./guide.ts";
import { ROOT } from "./markdown-code.ts";
import { API_KEY, MODEL, type ModelRequest, type Reply, startModelServer } from "./model-server.ts";
import { makeRepository } from "./repositories.ts";

/** What a guide can need in addition to skillet. Each prepares the home or the folder that the guide starts with. */
const NEEDS: Record<string, (scene: GuideScene) => void | Promise<void>> = {
  /** A language model: the default model of the configuration, on this machine. */
  async model({ home }) {
    const { url } = await startModelServer("openai", replyAsModel);
    const text = `[models.default]\nprovider = "openai-compatible"\nmodel = "${MODEL}"\nbase_url = "${url}"\napi_key = "${API_KEY}"\n`;
    writeFiles(home, { ".skillet/config.toml": text });
    chmodSync(join(home, ".skillet/config.toml"), 0o600);
  },
  /** The folder examples/notes: a provider and its skill. */
  notes({ cwd }) {
    cpSync(join(ROOT, "examples/notes"), cwd, { recursive: true });
    mkdirSync(join(cwd, "node_modules"));
    symlinkSync(ROOT, join(cwd, "node_modules/skillet"));
    symlinkSync(join(ROOT, "node_modules/zod"), join(cwd, "node_modules/zod"));
  },
  /** github.com with one public repository: a proxy leads to a server of this machine, whose certificate git accepts. */
  async github({ home, env }) {
    const skill =
      "---\nname: pdf\ndescription: Reads and fills in PDF files. Use when the user has a PDF.\n---\n\nDo it.\n";
    const { folder } = makeRepository({ "skills/pdf/SKILL.md": skill }, join(home, "github/anthropics/skills"));
    const { proxy, certificate } = await startGithub(join(folder, "../.."));
    const trusted = join(home, "github.pem");
    cpSync(certificate, trusted);
    Object.assign(env, { HTTPS_PROXY: proxy, GIT_SSL_CAINFO: trusted });
  },
  /** A git repository of a team, next to the project. */
  repository({ home }) {
    const skill = (name: string, description: string) =>
      `---\nname: ${name}\ndescription: ${description}\n---\n\nDo it.\n`;
    makeRepository(
      {
        "skills/review/SKILL.md": skill("review", "Reviews a change. Use when asked to look at a diff."),
        "skills/deploy/SKILL.md": skill("deploy", "Deploys the shop. Use when a version is to go live."),
      },
      join(home, "team-skills"),
    );
  },
};

/** Returns the machine of a page, with all that it needs. */
export async function createSceneFor(page: string): Promise<GuideScene> {
  const scene = createGuideScene();
  for (const need of listNeeds(page)) {
    const prepare = NEEDS[need];
    if (prepare === undefined) throw new Error(`${page} needs "${need}", which is not in NEEDS`);
    await prepare(scene);
  }
  return scene;
}

/** A model that does what the guides show: it uses the tool that the task names, then answers. */
function replyAsModel({ prompt, results }: ModelRequest): Reply {
  if (/changelog/i.test(prompt) && results.length === 0)
    return [{ tool: "write_file", input: { path: "CHANGELOG.md", content: "## 2.1\n\n- Search is faster.\n" } }];
  if (/changelog/i.test(prompt))
    return results[0]?.isError ? "The change was denied." : "CHANGELOG.md has the notes of 2.1.";
  return "Search is faster, and exports no longer fail.";
}
