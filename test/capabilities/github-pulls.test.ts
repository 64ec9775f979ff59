import { describe, expect, it } from "vitest";
import { ask, paged, startGithubServer } from "../support/github-server.ts";
import {
  changedFile,
  checkRun,
  comment,
  commit,
  content,
  entry,
  pull,
  repository,
  review,
  reviewComment,
  SHA,
  wholePull,
} from "../support/github-shapes.ts";

const engine = { owner: "ada", repo: "engine" };
const at = "/repos/ada/engine";
const one = { ...engine, number: 12 };

describe("pull requests", () => {
  it("are listed, and read with their branches and size", async () => {
    const server = await startGithubServer({
      [`GET ${at}/pulls`]: (got) =>
        paged([pull(12), pull(11, { merged_at: "2026-02-01T00:00:00Z", state: "closed" })], got),
      [`GET ${at}/pulls/12`]: { body: wholePull(12) },
    });
    const listed = await ask(server, "github.pulls list", { ...engine, state: "all", base: "main" });
    expect(listed["items"]).toMatchObject([
      { number: 12, is_merged: false, reviewers: ["grace"] },
      { is_merged: true },
    ]);
    expect(server.requests[0]?.query).toMatchObject({ state: "all", base: "main", per_page: "30" });
    expect(await ask(server, "github.pulls get", one)).toMatchObject({
      head: { ref: "new-topic", sha: SHA, repository: "ada/engine" },
      is_mergeable: true,
      mergeable_state: "clean",
      changed_files: 5,
    });
  });

  it("are read with their files, and with patches up to a limit", async () => {
    const patch = "+".repeat(12_000);
    const files = Array.from({ length: 25 }, (_, index) => changedFile(`src/${index}.ts`, { patch }));
    const renamed = changedFile("b.png", { previous_filename: "a.png", status: "renamed", patch: undefined });
    const server = await startGithubServer({ [`GET ${at}/pulls/12/files`]: (got) => paged([renamed, ...files], got) });
    const { items } = (await ask(server, "github.pulls files", one)) as { items: Record<string, unknown>[] };
    expect(items[0]).toEqual({
      path: "b.png",
      previous_path: "a.png",
      status: "renamed",
      additions: 103,
      deletions: 21,
    });
    const lengths = items.slice(1).map(({ patch }) => String(patch).length);
    expect(lengths.slice(0, 20)).toEqual(Array(20).fill(10_000));
    expect(lengths.slice(20)).toEqual(Array(5).fill(0));
    expect(items.slice(1).every(({ is_cut }) => is_cut === true)).toBe(true);
  });

  it("are read with commits, reviews, line comments, and the checks of their last commit", async () => {
    const runs = [checkRun("test", "success"), checkRun("lint", null)];
    const server = await startGithubServer({
      [`GET ${at}/pulls/12`]: { body: wholePull(12) },
      [`GET ${at}/pulls/12/commits`]: { body: [commit("Fix all the bugs")] },
      [`GET ${at}/pulls/12/reviews`]: { body: [review(80)] },
      [`GET ${at}/pulls/12/comments`]: { body: [reviewComment(10)] },
      [`GET ${at}/commits/${SHA}/check-runs`]: { body: { total_count: 2, check_runs: runs } },
    });
    const [commits, reviews, remarks, checks] = await Promise.all(
      ["commits", "reviews", "review_comments", "checks"].map((name) => ask(server, `github.pulls ${name}`, one)),
    );
    expect(commits).toMatchObject({
      items: [{ sha: SHA, message: "Fix all the bugs", author: "ada", author_name: "Ada Lovelace" }],
    });
    expect(reviews).toMatchObject({ items: [{ id: 80, state: "APPROVED", author: "grace", commit: SHA }] });
    expect(remarks).toMatchObject({ items: [{ path: "src/main.ts", line: 2, reply_to: 8 }] });
    expect(checks).toMatchObject({
      sha: SHA,
      count: 2,
      items: [{ name: "test", conclusion: "success" }, { status: "in_progress" }],
    });
  });

  it("[Q-21] are opened, reviewed, commented on and merged with exactly the given input", async () => {
    const server = await startGithubServer({
      [`POST ${at}/pulls`]: { status: 201, body: wholePull(13) },
      [`POST ${at}/pulls/12/reviews`]: { body: review(81, { state: "CHANGES_REQUESTED" }) },
      [`POST ${at}/issues/12/comments`]: { status: 201, body: comment(7) },
      [`PUT ${at}/pulls/12/merge`]: { body: { sha: SHA, merged: true, message: "Pull Request successfully merged" } },
    });
    await ask(server, "github.pulls create", { ...engine, title: "Topic", head: "eve:topic", base: "main" });
    await ask(server, "github.pulls review", { ...one, event: "REQUEST_CHANGES", body: "No tests", sha: SHA });
    await ask(server, "github.pulls comment", { ...one, body: "Nice" });
    const merged = await ask(server, "github.pulls merge", { ...one, sha: SHA, merge_method: "squash" });
    expect(merged).toEqual({ is_merged: true, sha: SHA, message: "Pull Request successfully merged" });
    expect(server.requests.map(({ body }) => body)).toEqual([
      { title: "Topic", head: "eve:topic", base: "main", draft: false },
      { event: "REQUEST_CHANGES", body: "No tests", commit_id: SHA },
      { body: "Nice" },
      { sha: SHA, merge_method: "squash" },
    ]);
    const silent = ask(server, "github.pulls review", { ...one, event: "COMMENT" });
    await expect(silent).rejects.toMatchObject({ code: "input-invalid", message: expect.stringContaining('"body"') });
    await expect(ask(server, "github.pulls merge", one)).rejects.toMatchObject({ code: "input-invalid" });
    expect(server.requests).toHaveLength(4);
  });
});

describe("repositories", () => {
  it("[Q-21] are read without the credentials in GitHub's answer", async () => {
    const server = await startGithubServer({
      [`GET ${at}`]: { body: repository("ada", "engine") },
      "GET /user/repos": (got) => paged([repository("ada", "engine"), repository("ada", "notes")], got),
    });
    expect(await ask(server, "github.repos get", engine)).toMatchObject({
      name: "ada/engine",
      license: "MIT",
      may_push: true,
    });
    const listed = await ask(server, "github.repos list", { limit: 1 });
    expect(listed).toMatchObject({ count: 1, has_more: true, next_page: "2", items: [{ name: "ada/engine" }] });
  });

  it("return their text files, and the content of a folder", async () => {
    const large = Buffer.from(`${"x".repeat(256 * 1024 - 1)}é and more`);
    const server = await startGithubServer({
      [`GET ${at}/contents/docs/a%20b%23.md`]: { body: content("docs/a b#.md", Buffer.from("# Größe\n")) },
      [`GET ${at}/contents/large.txt`]: { body: content("large.txt", large) },
      [`GET ${at}/contents`]: { body: [entry("docs", "dir"), entry("large.txt", "file")] },
    });
    const file = await ask(server, "github.repos read_file", { ...engine, path: "/docs/a b#.md", ref: "v1.0" });
    expect(file).toMatchObject({ type: "file", path: "docs/a b#.md", text: "# Größe\n", size: 10 });
    expect(server.requests[0]?.query).toEqual({ ref: "v1.0" });
    const cut = await ask(server, "github.repos read_file", { ...engine, path: "large.txt" });
    expect([cut["text"], cut["is_cut"], cut["size"]]).toEqual(["x".repeat(256 * 1024 - 1), true, large.length]);
    const folder = await ask(server, "github.repos read_file", engine);
    expect(folder).toMatchObject({ type: "folder", entries: [{ name: "docs", type: "dir" }, { path: "large.txt" }] });
  });

  it.each([
    ["not a text file", content("a.bin", Buffer.from([0x89, 0x50, 0x00, 0xff]))],
    ["too large", content("a.bin", Buffer.alloc(0), { encoding: "none", size: 2_000_000 })],
    ["a submodule", { type: "submodule", name: "a.bin", path: "a.bin", submodule_git_url: "git://x", size: 0 }],
  ])("do not return %s", async (said, body) => {
    const server = await startGithubServer({ [`GET ${at}/contents/a.bin`]: { body } });
    const read = ask(server, "github.repos read_file", { ...engine, path: "a.bin" });
    await expect(read).rejects.toMatchObject({ code: "input-invalid", message: expect.stringContaining(said) });
  });
});
