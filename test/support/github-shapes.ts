/** Answers in the shape of GitHub's REST API (version 2022-11-28): its names, its nesting, and its unused fields. */
export type Json = Record<string, unknown>;

export const SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
/** It may clone a private repository: a credential, in the middle of an ordinary answer. */
export const CLONE_TOKEN = "ABTLWHOULUVAXGTRYU7OC2876QJ2O";

export function user(login: string): Json {
  const api = `https://api.github.com/users/${login}`;
  return {
    login,
    id: 583231,
    node_id: "MDQ6VXNlcjU4MzIzMQ==",
    avatar_url: "https://avatars.githubusercontent.com/u/583231?v=4",
    gravatar_id: "",
    url: api,
    html_url: `https://github.com/${login}`,
    followers_url: `${api}/followers`,
    following_url: `${api}/following{/other_user}`,
    gists_url: `${api}/gists{/gist_id}`,
    organizations_url: `${api}/orgs`,
    repos_url: `${api}/repos`,
    type: "User",
    user_view_type: "public",
    site_admin: false,
  };
}

export function repository(owner: string, name: string, more: Json = {}): Json {
  return {
    id: 1296269,
    node_id: "MDEwOlJlcG9zaXRvcnkxMjk2MjY5",
    name,
    full_name: `${owner}/${name}`,
    private: true,
    owner: user(owner),
    html_url: `https://github.com/${owner}/${name}`,
    description: "Weaves algebraic patterns",
    fork: false,
    url: `https://api.github.com/repos/${owner}/${name}`,
    created_at: "2011-01-26T19:01:12Z",
    updated_at: "2026-01-26T19:14:43Z",
    pushed_at: "2026-01-26T19:06:43Z",
    git_url: `git:github.com/${owner}/${name}.git`,
    ssh_url: `git@github.com:${owner}/${name}.git`,
    clone_url: `https://github.com/${owner}/${name}.git`,
    homepage: null,
    size: 108,
    stargazers_count: 80,
    watchers_count: 80,
    language: "TypeScript",
    has_issues: true,
    forks_count: 9,
    archived: false,
    disabled: false,
    open_issues_count: 3,
    license: {
      key: "mit",
      name: "MIT License",
      spdx_id: "MIT",
      url: "https://api.github.com/licenses/mit",
      node_id: "MDc6",
    },
    topics: ["octopus", "api"],
    visibility: "private",
    default_branch: "main",
    permissions: { admin: false, maintain: false, push: true, triage: true, pull: true },
    temp_clone_token: CLONE_TOKEN,
    subscribers_count: 42,
    network_count: 0,
    ...more,
  };
}

export function label(name: string): Json {
  return {
    id: 208045946,
    node_id: "MDU6TGFiZWwyMDgwNDU5NDY=",
    url: `https://api.github.com/x/labels/${name}`,
    name,
    description: null,
    color: "f29513",
    default: false,
  };
}

export function issue(number: number, more: Json = {}): Json {
  const api = "https://api.github.com/repos/ada/engine";
  return {
    url: `${api}/issues/${number}`,
    repository_url: api,
    labels_url: `${api}/issues/${number}/labels{/name}`,
    comments_url: `${api}/issues/${number}/comments`,
    events_url: `${api}/issues/${number}/events`,
    html_url: `https://github.com/ada/engine/issues/${number}`,
    id: 1000 + number,
    node_id: "MDU6SXNzdWUx",
    number,
    title: `Issue ${number}`,
    user: user("mallory"),
    labels: [label("bug")],
    state: "open",
    locked: false,
    assignee: user("ada"),
    assignees: [user("ada")],
    milestone: {
      id: 1002604,
      number: 1,
      state: "open",
      title: "v1.0",
      creator: user("ada"),
      open_issues: 4,
      closed_issues: 8,
    },
    comments: 2,
    created_at: "2026-04-22T13:33:48Z",
    updated_at: "2026-04-23T13:33:48Z",
    closed_at: null,
    author_association: "NONE",
    active_lock_reason: null,
    body: `The text of issue ${number}`,
    closed_by: null,
    reactions: { url: `${api}/issues/${number}/reactions`, total_count: 0, "+1": 0, "-1": 0 },
    timeline_url: `${api}/issues/${number}/timeline`,
    performed_via_github_app: null,
    state_reason: null,
    ...more,
  };
}

/** A pull request as the issues list has it. */
export function pullAsIssue(number: number): Json {
  const url = `https://api.github.com/repos/ada/engine/pulls/${number}`;
  return issue(number, {
    draft: false,
    pull_request: { url, html_url: url, diff_url: url, patch_url: url, merged_at: null },
  });
}

export function comment(id: number, more: Json = {}): Json {
  return {
    url: `https://api.github.com/repos/ada/engine/issues/comments/${id}`,
    html_url: `https://github.com/ada/engine/issues/1#issuecomment-${id}`,
    issue_url: "https://api.github.com/repos/ada/engine/issues/1",
    id,
    node_id: "MDEyOklzc3VlQ29tbWVudDE=",
    user: user("grace"),
    created_at: "2026-04-14T16:00:49Z",
    updated_at: "2026-04-14T16:00:49Z",
    author_association: "COLLABORATOR",
    body: "Me too",
    reactions: { total_count: 0 },
    performed_via_github_app: null,
    ...more,
  };
}

function branch(ref: string): Json {
  return { label: `ada:${ref}`, ref, sha: SHA, user: user("ada"), repo: repository("ada", "engine") };
}

/** As a list has it. */
export function pull(number: number, more: Json = {}): Json {
  const api = "https://api.github.com/repos/ada/engine";
  return {
    url: `${api}/pulls/${number}`,
    id: number,
    node_id: "MDExOlB1bGxSZXF1ZXN0MQ==",
    html_url: `https://github.com/ada/engine/pull/${number}`,
    diff_url: `https://github.com/ada/engine/pull/${number}.diff`,
    issue_url: `${api}/issues/${number}`,
    number,
    state: "open",
    locked: false,
    title: `Pull ${number}`,
    user: user("mallory"),
    body: "Please pull these changes in",
    labels: [label("bug")],
    milestone: null,
    created_at: "2026-01-26T19:01:12Z",
    updated_at: "2026-01-26T19:01:12Z",
    closed_at: null,
    merged_at: null,
    merge_commit_sha: "e5bd3914e2e596debea16f433f57875b5b90bcd6",
    assignee: null,
    assignees: [],
    requested_reviewers: [user("grace")],
    requested_teams: [],
    head: branch("new-topic"),
    base: branch("main"),
    _links: { self: { href: `${api}/pulls/${number}` } },
    author_association: "CONTRIBUTOR",
    auto_merge: null,
    draft: false,
    ...more,
  };
}

/** As it is alone. */
export function wholePull(number: number, more: Json = {}): Json {
  return pull(number, {
    merged: false,
    mergeable: true,
    rebaseable: true,
    mergeable_state: "clean",
    merged_by: null,
    comments: 10,
    review_comments: 1,
    maintainer_can_modify: true,
    commits: 3,
    additions: 100,
    deletions: 3,
    changed_files: 5,
    ...more,
  });
}

export function changedFile(filename: string, more: Json = {}): Json {
  return {
    sha: "bbcd538c8e72b8c175046e27cc8f907076331401",
    filename,
    status: "modified",
    additions: 103,
    deletions: 21,
    changes: 124,
    blob_url: `https://github.com/ada/engine/blob/${SHA}/${filename}`,
    raw_url: `https://github.com/ada/engine/raw/${SHA}/${filename}`,
    contents_url: `https://api.github.com/repos/ada/engine/contents/${filename}?ref=${SHA}`,
    patch: "@@ -132,7 +132,7 @@ module Test @@ -1000,7 +1000,7 @@ module Test",
    ...more,
  };
}

export function commit(message: string): Json {
  const by = { name: "Ada Lovelace", email: "ada@example.com", date: "2026-04-14T16:00:49Z" };
  return {
    url: `https://api.github.com/repos/ada/engine/commits/${SHA}`,
    sha: SHA,
    node_id: "MDY6Q29tbWl0",
    html_url: `https://github.com/ada/engine/commit/${SHA}`,
    comments_url: `https://api.github.com/repos/ada/engine/commits/${SHA}/comments`,
    commit: {
      url: "https://api.github.com/",
      author: by,
      committer: by,
      message,
      tree: { sha: SHA },
      comment_count: 0,
      verification: { verified: false, reason: "unsigned", signature: null, payload: null },
    },
    author: user("ada"),
    committer: user("ada"),
    parents: [{ url: "https://api.github.com/", sha: SHA }],
  };
}

export function review(id: number, more: Json = {}): Json {
  return {
    id,
    node_id: "MDE3OlB1bGxSZXF1ZXN0UmV2aWV3ODA=",
    user: user("grace"),
    body: "Here is the body for the review.",
    state: "APPROVED",
    html_url: `https://github.com/ada/engine/pull/12#pullrequestreview-${id}`,
    pull_request_url: "https://api.github.com/repos/ada/engine/pulls/12",
    _links: { html: { href: "x" }, pull_request: { href: "x" } },
    submitted_at: "2026-11-17T17:43:43Z",
    commit_id: SHA,
    author_association: "COLLABORATOR",
    ...more,
  };
}

export function reviewComment(id: number): Json {
  return {
    url: `https://api.github.com/repos/ada/engine/pulls/comments/${id}`,
    pull_request_review_id: 42,
    id,
    node_id: "MDI0OlB1bGxSZXF1ZXN0UmV2aWV3Q29tbWVudDEw",
    diff_hunk: "@@ -16,33 +16,40 @@ public class Connection : IConnection...",
    path: "src/main.ts",
    position: 1,
    original_position: 4,
    commit_id: SHA,
    original_commit_id: SHA,
    in_reply_to_id: 8,
    user: user("grace"),
    body: "Great stuff!",
    created_at: "2026-04-14T16:00:49Z",
    updated_at: "2026-04-14T16:00:49Z",
    html_url: `https://github.com/ada/engine/pull/12#discussion_r${id}`,
    author_association: "NONE",
    start_line: null,
    line: 2,
    side: "RIGHT",
    subject_type: "line",
  };
}

export function checkRun(name: string, conclusion: string | null): Json {
  return {
    id: 4,
    head_sha: SHA,
    node_id: "MDg6Q2hlY2tSdW40",
    external_id: "",
    url: "https://api.github.com/repos/ada/engine/check-runs/4",
    html_url: "https://github.com/ada/engine/runs/4",
    details_url: "https://example.com",
    status: conclusion === null ? "in_progress" : "completed",
    conclusion,
    started_at: "2026-05-04T01:14:52Z",
    completed_at: conclusion === null ? null : "2026-05-04T01:15:52Z",
    output: { title: null, summary: null, text: null, annotations_count: 0, annotations_url: "x" },
    name,
    check_suite: { id: 5 },
    app: { id: 1, slug: "github-actions", node_id: "x", owner: user("github"), name: "GitHub Actions" },
    pull_requests: [],
  };
}

/** A file as the contents API has it: the address to download it by holds a credential. */
export function content(path: string, bytes: Uint8Array, more: Json = {}): Json {
  const base64 = Buffer.from(bytes).toString("base64");
  return {
    type: "file",
    encoding: "base64",
    size: bytes.length,
    name: path.split("/").at(-1),
    path,
    content: base64.replace(/.{1,60}/g, "$&\n"),
    sha: "3d21ec53a331a6f037a91c368710b99387d012c1",
    url: `https://api.github.com/repos/ada/engine/contents/${path}?ref=main`,
    git_url: "https://api.github.com/repos/ada/engine/git/blobs/3d21ec53a331a6f037a91c368710b99387d012c1",
    html_url: `https://github.com/ada/engine/blob/main/${path}`,
    download_url: `https://raw.githubusercontent.com/ada/engine/main/${path}?token=${CLONE_TOKEN}`,
    _links: { git: "x", self: "x", html: "x" },
    ...more,
  };
}

/** An entry of a folder. */
export function entry(path: string, type: string): Json {
  const { content: _, encoding: __, ...rest } = content(path, Buffer.alloc(12), { type });
  return rest;
}
