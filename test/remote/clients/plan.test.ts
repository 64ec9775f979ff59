import { describe, expect, it } from "vitest";
import {
  type CopyStatus,
  planCopies,
  planCopyRemoval,
  type WantedCopy,
} from "../../../src/remote/clients/skill-copies.ts";

const CONTENT = { digest: "sha256:new", files: ["SKILL.md", "scripts/go.sh"] };

const options = (force = false) => ({ formatPath: (name: string) => `~/x/${name}`, client: "Claude Code", force });

function judged(there: CopyStatus, { force = false, ...more }: Partial<WantedCopy> & { force?: boolean } = {}) {
  const wanted = {
    name: "a",
    source: "bundled",
    content: CONTENT,
    notes: ["a note"],
    lost: [],
    isInTarget: false,
    ...more,
  };
  const [step] = planCopies([wanted], () => there, options(force));
  return step;
}

describe("the plan to write a copy", () => {
  it.each<[string, CopyStatus, string]>([
    ["nothing", { is: "nothing" }, "install"],
    ["skillet's identical copy", { is: "ours", digest: "sha256:new", isEdited: false }, "unchanged"],
    ["skillet's older copy", { is: "ours", digest: "sha256:old", isEdited: false }, "update"],
    ["skillet's edited copy", { is: "ours", digest: "sha256:mine", isEdited: true }, "refuse"],
    ["a foreign folder", { is: "foreign", what: "folder", digest: "sha256:mine" }, "refuse"],
    ["a foreign link", { is: "foreign", what: "link" }, "refuse"],
    ["a foreign file", { is: "foreign", what: "file" }, "refuse"],
  ])("[Q-12] depends on the target: %s", (_, there, action) => {
    expect(judged(there)).toMatchObject({
      name: "a",
      source: "bundled",
      action,
      files: CONTENT.files,
      notes: ["a note"],
    });
  });

  it("replaces an edited copy only on request, and explains how", () => {
    const there: CopyStatus = { is: "ours", digest: "sha256:mine", isEdited: true };
    expect(judged(there)?.reason).toEqual({
      code: "edited",
      message: "~/x/a was edited by hand since skillet created it",
      fix: "save your changes in another place, then --force replaces it",
    });
    expect(judged(there, { force: true })).toMatchObject({
      action: "update",
      reason: { code: "edited", fix: expect.stringContaining("save your changes in another place first") },
    });
    expect(judged({ ...there, isEdited: false }, { force: true })).not.toHaveProperty("reason");
  });

  it.each(["folder", "link", "file"] as const)("[Q-12] never replaces a foreign %s", (what) => {
    expect(judged({ is: "foreign", what }, { force: true })).toMatchObject({
      action: "refuse",
      reason: { code: "unmanaged-path", message: `~/x/a is a ${what} that skillet did not create; it is not replaced` },
    });
  });

  it("recognizes a folder with the same content as its own without a record", () => {
    const foreign: CopyStatus = { is: "foreign", what: "folder", digest: "sha256:new" };
    const edited: CopyStatus = { is: "ours", digest: "sha256:new", isEdited: true };
    for (const there of [foreign, edited]) expect(judged(there)).toMatchObject({ action: "unchanged", adopts: true });
    expect(judged({ is: "ours", digest: "sha256:new", isEdited: false })).not.toHaveProperty("adopts");
  });

  it("refuses what the client may not get, whatever exists", () => {
    const refusal = { code: "untrusted", message: "not trusted", fix: "", commands: ["skillet trust x"] } as const;
    for (const there of [{ is: "nothing" }, { is: "ours", digest: "sha256:new", isEdited: false }] as const)
      expect(judged(there, { refusal, force: true })).toMatchObject({ action: "refuse", reason: refusal });
  });

  it("leaves the client's own folder unchanged, trusted or not", () => {
    const refusal = { code: "untrusted", message: "not trusted", fix: "", commands: ["skillet trust x"] } as const;
    const there: CopyStatus = { is: "foreign", what: "folder", digest: "sha256:mine" };
    expect(judged(there, { isInTarget: true, refusal, force: true })).toMatchObject({
      action: "unchanged",
      reason: { code: "already-present" },
    });
  });
});

describe("the plan to remove a copy", () => {
  const removal = (there: CopyStatus, force = false) => planCopyRemoval(["a"], () => there, options(force))[0];

  it.each<[string, CopyStatus, boolean, string]>([
    ["skillet's copy", { is: "ours", digest: "x", isEdited: false }, false, "remove"],
    ["an edited one", { is: "ours", digest: "x", isEdited: true }, false, "refuse"],
    ["an edited one, with --force", { is: "ours", digest: "x", isEdited: true }, true, "remove"],
    ["the last one", { is: "ours", digest: "x", isEdited: false, isLast: true }, false, "refuse"],
    ["the last one, with --force", { is: "ours", digest: "x", isEdited: false, isLast: true }, true, "remove"],
    ["a missing one", { is: "nothing" }, false, "forget"],
    ["a foreign folder", { is: "foreign", what: "folder" }, false, "refuse"],
    ["a foreign folder, with --force", { is: "foreign", what: "folder" }, true, "refuse"],
    ["a link in its place, with --force", { is: "foreign", what: "link" }, true, "refuse"],
  ])("[Q-12] depends on the target: %s", (_, there, force, action) => {
    expect(removal(there, force)).toMatchObject({ name: "a", action });
  });

  it("reports what --force overwrites", () => {
    const there = { is: "ours", digest: "x" } as const;
    expect(removal({ ...there, isEdited: true }, true)).toMatchObject({ reason: { code: "edited" } });
    expect(removal({ ...there, isEdited: false }, true)).toEqual({ name: "a", action: "remove" });
  });
});
