import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import { tarOf } from "../support/archives.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { HAS_ORDINARY_USER, ORDINARY_USER } from "../support/ordinary-user.ts";
import { pythonIndex, type ServedPackage } from "../support/package-servers.ts";
import { makeRepository } from "../support/repositories.ts";
import { runSkilletProcess } from "../support/skillet-process.ts";

/** The part of the library's interface that the script below uses. */
const PYPDF: ServedPackage = {
  name: "pypdf",
  version: "5.1.0",
  files: {
    "pypdf/__init__.py": `import re
class PdfReader:
    def __init__(self, path):
        with open(path, "rb") as file: data = file.read()
        if not data.startswith(b"%PDF-"): raise ValueError("not a PDF")
        self.pages = re.findall(rb"/Type\\s*/Page\\b", data)
`,
  },
};

const COUNT_PAGES = `import sys
from pypdf import PdfReader
for path in sys.argv[1:]:
    print(path, len(PdfReader(path).pages), "pages")
`;

const PDF = `%PDF-1.4
1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj
2 0 obj << /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >> endobj
3 0 obj << /Type /Page /Parent 2 0 R >> endobj
4 0 obj << /Type /Page /Parent 2 0 R >> endobj
trailer << /Root 1 0 R >>
%%EOF
`;

const skill = (name: string, what: string) =>
  skillText(name, { description: `${what}. Use when the user asks for it.` });

/** One skill has an archive with code in it, which cannot be reviewed. */
function documentSkills() {
  const archive = gzipSync(tarOf([{ name: "button/index.js", data: "console.log(1)\n" }]));
  return makeRepository({
    "README.md": "# Skills\n",
    ".claude-plugin/marketplace.json": JSON.stringify({
      name: "document-skills",
      plugins: [
        { name: "all", source: "./", strict: false, skills: ["./skills/pdf", "./skills/docx", "./skills/web"] },
      ],
    }),
    "template/SKILL.md": skill("template-skill", "Replace this"),
    "skills/pdf/SKILL.md": skill("pdf", "Counts the pages of PDF files"),
    "skills/pdf/scripts/count_pages.py": COUNT_PAGES,
    "skills/docx/SKILL.md": skill("docx", "Writes Word files"),
    "skills/web/SKILL.md": skill("web", "Builds pages"),
    "skills/web/scripts/components.tar.gz": archive,
  });
}

/** A marketplace: plugins with agents, commands and skills. */
function marketplace() {
  const plugins = ["backend", "security", "cloud"];
  const files = plugins.flatMap((plugin) => [
    [`plugins/${plugin}/agents/${plugin}-architect.md`, skill(`${plugin}-architect`, "Is an agent")],
    [
      `plugins/${plugin}/commands/${plugin}-review.md`,
      "---\ndescription: Reviews it. Use when asked.\n---\n\nReview.\n",
    ],
    [`plugins/${plugin}/skills/${plugin}-patterns/SKILL.md`, skill(`${plugin}-patterns`, "Knows patterns")],
    [`plugins/${plugin}/skills/${plugin}-testing/SKILL.md`, skill(`${plugin}-testing`, "Tests it")],
  ]);
  return makeRepository({
    ".claude-plugin/marketplace.json": JSON.stringify({
      name: "agents",
      plugins: plugins.map((name) => ({ name, source: `./plugins/${name}` })),
    }),
    ".github/ISSUE_TEMPLATE/bug.md": "---\nname: Bug\nabout: Report it\n---\n\nText.\n",
    "docs/ARCHITECTURE.md": "# Architecture\n",
    ...Object.fromEntries(files),
  });
}

/** Sixty skills, each with a script. */
function scriptedSkills() {
  const files = Array.from({ length: 60 }, (_, index) => {
    const name = `task-${index + 1}`;
    return [
      [`skills/${name}/SKILL.md`, skill(name, `Does task ${index + 1}`)],
      [`skills/${name}/scripts/run.py`, `print("task ${index + 1}")\n`],
    ] as const;
  });
  return makeRepository(Object.fromEntries(files.flat()));
}

/** A user with a PDF and nothing else; each typed command is counted. */
async function newcomer() {
  const root = temporaryFolder();
  const home = join(root, "home");
  const papers = join(home, "papers");
  mkdirSync(papers, { recursive: true });
  writeFileSync(join(papers, "form.pdf"), PDF);
  const index = await pythonIndex(PYPDF);
  onTestFinished(() => index.close());
  const repositories = { documents: documentSkills(), agents: marketplace(), tasks: scriptedSkills() };
  const owned = [root, ...Object.values(repositories).map(({ folder }) => folder)];
  for (const path of owned) chmodSync(path, 0o755);
  if (process.getuid?.() === 0) execFileSync("chown", ["-R", `${ORDINARY_USER}:${ORDINARY_USER}`, ...owned]);
  const typed: string[] = [];
  const env = { HOME: home, PIP_INDEX_URL: index.url };
  const type = async (line: string) => {
    typed.push(line);
    const args = line.split(" ").slice(1);
    const { code, stdout, stderr } = await runSkilletProcess(args, { cwd: papers, env, isOrdinary: true });
    return { code, stdout, stderr, text: stdout + stderr };
  };
  return { home, papers, index, typed, type, ...repositories };
}

describe.runIf(HAS_ORDINARY_USER)("skills of public repositories, for a new user", () => {
  it("[S-45, T-14] a script of an added skill reads a PDF in the sandbox after fewer than ten commands", async () => {
    const { type, typed, documents, agents, tasks, papers, home, index } = await newcomer();

    const listed = await type(`skillet add ${documents.url} --list`);
    expect(listed.text).toMatch(/^✓ pdf /m);
    expect(listed.text).toMatch(/^✗ web +refused: .*components\.tar\.gz/m);
    expect(listed.text).toMatch(/^3 skills$/m);

    const added = await type(`skillet add ${documents.url} pdf --yes`);
    expect(added).toMatchObject({ code: 0 });
    expect(added.text).toContain("added: pdf");
    expect(added.text).toContain("skillet show pdf"); // The next step is named.

    const others = await type(`skillet add ${agents.url} --all --yes`);
    expect(others).toMatchObject({ code: 0 });
    const many = await type(`skillet add ${tasks.url} --all --yes`);
    expect(many).toMatchObject({ code: 0 });
    const installed = readdirSync(join(home, ".skillet/installed")).filter((name) => name !== "skills.lock");
    expect(installed.filter((name) => /-(?:patterns|testing)$/.test(name))).toHaveLength(6);
    expect(installed.filter((name) => name.startsWith("task-"))).toHaveLength(60);
    expect(installed).toHaveLength(67); // No agent, command, template or issue template.

    const failed = await type("skillet script pdf count_pages.py form.pdf");
    expect(failed.code).toBe(1);
    const [, command = ""] = /(skillet config set skills\.pdf\.python \S+)/.exec(failed.text) ?? [];
    expect(command).toBe("skillet config set skills.pdf.python pypdf");

    expect(await type(command)).toMatchObject({ code: 0 });
    const counted = await type("skillet script pdf count_pages.py form.pdf");
    expect(counted).toMatchObject({ code: 0, stdout: "form.pdf 2 pages\n" });
    expect(counted.stderr).toContain("strong isolation by bubblewrap, reads ~/papers");
    expect(typed.length).toBeLessThan(10);

    // Offline afterwards, by an absolute path too; the PDF and the skill are unchanged.
    const asked = index.asked.length;
    const again = await type(`skillet script pdf count_pages.py ${join(papers, "form.pdf")}`);
    expect(again.stdout).toBe("/workspace/form.pdf 2 pages\n");
    expect(index.asked.length).toBe(asked);
    expect(readFileSync(join(papers, "form.pdf"), "utf8")).toBe(PDF);
    expect(await type("skillet verify")).toMatchObject({ code: 0 });
    expect(existsSync(join(home, ".skillet/installed/web"))).toBe(false);
  }, 600_000);
});
