import type { Attempt } from "./attempts.ts";

/** Attempts to hide a sensitive path from the comparison, or to change what a sensitive path leads to. */
export const HIDING_ATTEMPTS: readonly Attempt[] = [
  {
    title: "in a folder of a name that repositories have, once the folder above looks like one",
    files: { "config/a": "a", "src/hooks/a.ts": "a", "w/modules/a": "a" },
    script: `for d in . src w; do mkdir $d/objects $d/refs; echo ref: refs/heads/main > $d/HEAD; done
      echo evil > config/CLAUDE.md; mkdir src/hooks/x; echo evil > src/hooks/x/.envrc; mkdir w/modules/.git; echo evil > w/modules/.git/config`,
    held: ["HEAD", "config/CLAUDE.md", "src/hooks/x/.envrc", "w/modules/.git"],
  },
  {
    title: "in a folder of instructions that gets the parts of a repository",
    files: { ".clinerules/a.md": "good", ".roo/a.md": "good" },
    script:
      "for d in .clinerules .roo; do touch $d/HEAD; mkdir $d/objects $d/refs; echo evil > $d/refs/evil.md; echo evil > $d/x.lock; done",
    held: [".clinerules/HEAD", ".clinerules/refs/evil.md", ".roo/x.lock"],
  },
  {
    title: "by a folder that is a file now, two folders above a sensitive file",
    files: { "p/q/CLAUDE.md": "good" },
    script: "rm -r p; echo x > p; echo evil > AGENTS.md",
    held: ["AGENTS.md", "p/q/CLAUDE.md"],
  },
  {
    title: "below folders without any permission",
    script:
      "mkdir -p a/b/c; echo evil > a/b/c/CLAUDE.md; echo evil > AGENTS.md; chmod 000 a/b/c; chmod 000 a/b; chmod 000 a",
    ordinary: ["a"],
    held: ["a/b/c/CLAUDE.md", "AGENTS.md"],
  },
  {
    title: "in an existing folder that can no longer be listed",
    files: { ".github/workflows/ci.yml": "good" },
    script: `echo evil > .github/copilot-instructions.md; chmod 300 .github
      echo evil > .github/workflows/ci.yml; echo evil > .github/workflows/b.yml; chmod 000 .github/workflows`,
    held: [".github/copilot-instructions.md", ".github/workflows/ci.yml", ".github/workflows/b.yml"],
  },
  {
    title: "in an existing folder that can no longer be entered",
    files: { "p/CLAUDE.md": "good", "docs/rules.txt": "good" },
    prepare: "ln -s docs/rules.txt AGENTS.md",
    script: "echo evil > p/CLAUDE.md; echo evil > docs/rules.txt; chmod 400 p docs",
    held: ["p/CLAUDE.md", "docs/rules.txt"],
  },
  {
    title: "in a workspace without any permission",
    script: "echo evil > CLAUDE.md; chmod 000 .",
    held: ["CLAUDE.md"],
  },
  {
    title: "in node_modules, with a link that leads there",
    files: { "docs/a": "a" },
    script: "mkdir node_modules; mv docs node_modules; ln -s node_modules/docs docs; echo evil > docs/CLAUDE.md",
    ordinary: ["docs", "node_modules"],
    held: ["node_modules/docs/CLAUDE.md"],
  },
  {
    title: "a link with the name of a folder that counts with its content",
    files: { "x/releases/yarn.cjs": "evil", "y/config.fish": "evil" },
    script: "ln -s x .yarn; ln -s y fish",
    held: [".yarn", "fish"],
  },
  {
    title: "the targets of links in sensitive folders",
    files: { "tools/hook.sh": "good", "rules/a.md": "good", "more/a.md": "good" },
    prepare: `git init -q .; ln -s ../../tools/hook.sh .git/hooks/pre-commit
      mkdir .claude .kiro; ln -s ../rules .claude/commands; ln -s ../more .kiro/steering`,
    script: "echo evil > tools/hook.sh; echo evil > rules/a.md; echo evil > more/a.md; echo evil > more/b.md",
    held: ["more/a.md", "more/b.md"],
  },
  {
    title: "paths in the configuration of a repository",
    files: { "tools/hooks/pre-commit": "good", "team.conf": "[user]\n" },
    prepare: "git init -q .; git config core.hooksPath tools/hooks; git config include.path ../team.conf",
    script:
      "echo evil > tools/hooks/pre-commit; echo evil > tools/hooks/post-checkout; printf '[core]\\n\\tfsmonitor = touch PWNED; false\\n' > team.conf; true",
  },
  {
    title: "the folder named by a file that .git links to",
    files: { "s/link": "gitdir: real\n", "s/real/config": "[core]\n" },
    prepare: "ln -s link s/.git",
    script: "echo evil > s/real/config; true",
  },
  {
    title: "scripts of a package beyond the read limit",
    files: { "p/package.json": "{}" },
    script: `for f in package.json p/package.json; do (head -c 5000000 /dev/zero | tr '\\0' ' '; printf '{"scripts":{"postinstall":"evil"}}') > $f; done`,
    held: ["package.json", "p/package.json"],
  },
];
