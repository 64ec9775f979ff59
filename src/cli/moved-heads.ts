import { relative, sep } from "node:path";
import type { Discovered } from "../host/discover.ts";
import { SkillError } from "../shared/error.ts";

/** Asks git whether a commit that was checked out since changed the user's own skills, and keeps the trust in those that it did not. */
export async function keepUntouchedSkills({ trust: { own }, env }: Pick<Discovered, "trust" | "env">): Promise<void> {
  const moved = own.moved();
  if (moved.length === 0) return;
  const { openGit } = await import("../sandbox/git.ts");
  for (const one of moved) {
    try {
      const git = await openGit({ env, repository: one.repository, protocol: "file" });
      const path = relative(one.root, one.place).split(sep).join("/");
      const paths = path === "" ? [] : ["--", path];
      const { code } = await git.run(["diff-tree", "-r", "--quiet", "--no-renames", one.from, one.to, ...paths]);
      if (code === 0) own.keepHead(one);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error; // Without git nothing is known: the skill waits for trust.
    }
  }
}
