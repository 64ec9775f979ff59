import { describe, expect, it } from "vitest";
import { FINDING_CODES } from "../../src/errors/finding-codes.ts";
import { parseMarkdownDocument } from "../../src/skill/document.ts";
import { MANIFEST_FIELDS, readManifest } from "../../src/skill/manifest.ts";

function manifestOf(frontmatter: string) {
  const problems: string[] = [];
  const { data } = parseMarkdownDocument(`---\n${frontmatter}\n---\nbody\n`);
  const manifest = readManifest(data, (code, key) => problems.push(`${code} ${key}`));
  return {
    manifest,
    problems: problems.filter((problem) => !/^key-(?:extension|client|other-client|top-level)/.test(problem)),
  };
}

describe("readManifest", () => {
  it("[W-05] reads the fields of an orchestrating skill, with preferred_model as a spelling of model", () => {
    const { manifest, problems } = manifestOf(
      "name: summarize\ndescription: Summarize text\npreferred_model: fast\nrequired_tools:\n  - bash\nmax_iterations: 3\n" +
        "input_schema:\n  type: object\n  properties:\n    content: { type: string }\n  required: [content]",
    );
    expect(problems).toEqual([]);
    expect(manifest).toMatchObject({
      description: "Summarize text",
      model: "fast",
      tools: { required: ["bash"] },
      maxIterations: 3,
      inputSchema: { type: "object", required: ["content"] },
    });
  });

  it("[W-05] prefers model to preferred_model, and reports that", () => {
    const { manifest, problems } = manifestOf("description: d\npreferred_model: slow\nmodel: fast");
    expect(manifest.model).toBe("fast");
    expect(problems).toEqual(["duplicate-field preferred_model"]);
  });

  it("[S-20] reports a capability without a namespace, which cannot be granted", async () => {
    expect(manifestOf("description: d\ncapabilities: [gog.email, acme.mail.read]").problems).toEqual([]);
    for (const id of ["email", "gog.", ".email", "gog.*", "Gog.Email", "gog email", "gog/email"]) {
      const { problems } = manifestOf(`description: d\ncapabilities: ["${id}"]`);
      expect(problems, id).toContain("capability-format capabilities");
    }
    const { checkText } = await import("../../src/skill/source/check-skills.ts");
    const text = "---\nname: x\ndescription: Does x. Use when asked to.\ncapabilities: [email]\n---\n\nDo it.\n";
    const { diagnostics } = checkText(text, { profile: "shipped" });
    expect(diagnostics).toContainEqual(expect.objectContaining({ code: "capability-format", severity: "error" }));
  });

  it("[S-15] reads every field of an isolated sub-agent", () => {
    const { manifest, problems } = manifestOf(
      "description: Research topics\nauthors:\n  - alice\n  - bob\nrationale: Less context\nsensitive: true\naccess:\n  chat_types:\n    - private\n" +
        "env:\n  - PERPLEXITY_API_KEY\npackages:\n  - jq\n  - curl\ncapabilities: [gog.email]\nallowed_tools:\n  - bash\n  - web_search\nmodel: haiku\nmax_iterations: 10",
    );
    expect(problems).toEqual([]);
    expect(manifest).toMatchObject({
      authors: ["alice", "bob"],
      rationale: "Less context",
      sensitive: true,
      access: { chatTypes: ["private"] },
      env: ["PERPLEXITY_API_KEY"],
      packages: ["jq", "curl"],
      capabilities: ["gog.email"],
      tools: { allowed: ["bash", "web_search"], preapproved: [] },
      model: "haiku",
      maxIterations: 10,
    });
  });

  it("[S-35] never reads provider wiring, and names its place", () => {
    const { manifest, problems } = manifestOf("description: d\ncapability_provider:\n  command: [evil]");
    expect(problems).toEqual(["provider-wiring capability_provider"]);
    expect(JSON.stringify({ ...manifest, data: undefined })).not.toContain("evil");
  });

  it("[T-01] reads triggers, toolsets, scripts and default_enabled, and creates a brief description", () => {
    const { manifest, problems } = manifestOf(
      'name: hello\ndescription: Extended greetings. Says more than hello.\nversion: 1.0.0\ntoolsets:\n  - "toolsets/index:HelloToolset"\n' +
        'scripts:\n  - run.sh\n  - { path: b.py, name: b, description: Does b }\ntriggers:\n  keywords: ["hello", "greet"]\n  verbs: ["say"]\n  patterns: ["greet\\\\s+\\\\w+"]\ndefault_enabled: false',
    );
    expect(problems).toEqual([]);
    expect(manifest).toMatchObject({
      version: "1.0.0",
      briefDescription: "Extended greetings.",
      toolsets: ["toolsets/index:HelloToolset"],
      scripts: [{ path: "run.sh" }, { path: "b.py", name: "b", description: "Does b" }],
      triggers: { keywords: ["hello", "greet"], verbs: ["say"], patterns: ["greet\\s+\\w+"] },
      defaultEnabled: false,
    });
    expect(manifestOf("description: d\nbrief_description: short").manifest.briefDescription).toBe("short");
    expect(manifestOf("description: d").manifest.defaultEnabled).toBe(true);
  });

  it.each([
    "triggers: [deploy, pull request, 404]",
    "metadata:\n  triggers:\n    - deploy\n    - pull request\n    - 404",
  ])("[T-01] reads a plain list of triggers as keywords: %j", (frontmatter) => {
    const { manifest, problems } = manifestOf(`description: d\n${frontmatter}`);
    expect(problems).toEqual([]);
    const keywords = ["deploy", "pull request", "404"];
    expect(manifest.triggers).toEqual({ keywords, verbs: [], patterns: [], examples: [], negative: [] });
  });

  it("[T-01] ignores entries that are not text in a list of triggers, and reports it once", () => {
    const { manifest, problems } = manifestOf("description: d\ntriggers: [deploy, { keyword: ship }, [a], null]");
    expect([...new Set(problems)]).toEqual(["field-type triggers"]);
    expect(manifest.triggers.keywords).toEqual(["deploy"]);
    expect(manifestOf("description: d\ntriggers: deploy").problems).toEqual(["field-type triggers"]);
    expect(manifestOf("description: d\ntriggers: []").problems).toEqual([]);
  });

  it("[T-01] warns of a description above 500 characters, and reports one above 1024 as an error of the standard", () => {
    expect(manifestOf(`description: ${"a".repeat(500)}`).problems).toEqual([]);
    expect(manifestOf(`description: ${"a".repeat(501)}`).problems).toEqual(["description-long description"]);
    expect(manifestOf(`description: ${"a".repeat(1025)}`).problems).toEqual(["description-too-long description"]);
    expect(manifestOf("description: d\nversion: v2").problems).toEqual(["version-format version"]);
  });

  it.each(["version: 2.1.0\ntags: [a, b]\nauthor: ann", "metadata:\n  version: 2.1.0\n  tags: [a, b]\n  author: ann"])(
    "[P-23] reads version, tags and author from the top or from metadata: %j",
    (frontmatter) => {
      const { manifest } = manifestOf(`description: d\n${frontmatter}`);
      expect(manifest).toMatchObject({ version: "2.1.0", tags: ["a", "b"], authors: ["ann"] });
    },
  );

  it("reads the three notations of tools, with the text in parentheses", () => {
    for (const written of ["Bash(git diff:*) Read", "Bash(git diff:*), Read", '["Bash(git diff:*)", Read]']) {
      expect(manifestOf(`description: d\nallowed-tools: ${written}`).manifest.tools.preapproved).toEqual([
        "Bash(git diff:*)",
        "Read",
      ]);
    }
  });

  it("keeps unknown keys verbatim, and suggests a known one", () => {
    const { manifest, problems } = manifestOf(
      "description: d\nalowed_tools: [bash]\nx-my-thing:\n  deep: [1, true, null]",
    );
    expect(problems).toEqual(["key-misspelled alowed_tools", "key-unknown x-my-thing"]);
    expect(manifest.data["x-my-thing"]).toEqual({ deep: [1, true, null] });
    expect(manifest.tools.allowed).toEqual([]);
  });

  it("reads the fields of other clients' skills", () => {
    const { manifest, problems } = manifestOf(
      "description: d\nwhen_to_use: often\npaths: src/**/*.ts, *.md\nargument-hint: [file]\narguments: [file, mode]\ndisable-model-invocation: true\n" +
        "user-invokable: false\ncontext: fork\nagent: Explore\neffort: high\ndisallowed-tools: Write\nhooks:\n  a: b\nhomepage: x\nmetadata:\n  openclaw: { requires: { bins: [jq] } }",
    );
    expect(problems).toEqual([]);
    expect(manifest).toMatchObject({
      whenToUse: "often",
      paths: ["src/**/*.ts", "*.md"],
      argumentHint: "[file]",
      arguments: ["file", "mode"],
      invocation: { byModel: false, byUser: false },
      context: "fork",
      agent: "Explore",
      effort: "high",
      tools: { disallowed: ["Write"] },
      metadata: { openclaw: { requires: { bins: ["jq"] } } },
    });
  });

  it.each([
    ["max_iterations: 1e9", "field-value max_iterations", undefined],
    ["max_iterations: -1", "field-value max_iterations", undefined],
    ["max_iterations: .inf", "field-value max_iterations", undefined],
    ['max_iterations: "10"', "field-type max_iterations", 10],
  ])("reports %s as an invalid value", (line, problem, value) => {
    const { manifest, problems } = manifestOf(`description: d\n${line}`);
    expect(problems).toEqual([problem]);
    expect(manifest.maxIterations).toBe(value);
  });

  it("omits a schema that refers to another address, and keeps one that refers to itself", () => {
    const remote = manifestOf('description: d\ninput_schema:\n  $ref: "https://example.com/x.json"');
    expect(remote.problems).toEqual(["schema-reference input_schema"]);
    expect(remote.manifest.inputSchema).toBeUndefined();
    expect(manifestOf('description: d\ninput_schema:\n  items: { $ref: "#" }').manifest.inputSchema).toEqual({
      items: { $ref: "#" },
    });
  });
});

/** A top-level value for each field of the table. */
const SAMPLES: Record<string, string> = {
  version: "1.2.3",
  triggers: "{ keywords: [invoice] }",
  maxIterations: "3",
  inputSchema: "{ type: object }",
  scripts: "[scripts/a.sh]",
  env: "[API_KEY]",
  packages: "[jq]",
  capabilities: "[mail.messages]",
  toolsets: '["toolsets/index:Tools"]',
  sensitive: "true",
  modelInvocationDisabled: "true",
  userInvocable: "false",
  defaultEnabled: "false",
  access: "{ chat_types: [private] }",
  metadata: "{ a: b }",
};

describe("the advice on keys", () => {
  const keys = MANIFEST_FIELDS.flatMap(({ name, keys }) =>
    keys.map((key) => ({ key, value: SAMPLES[name] ?? "text" })),
  );
  it.each(keys)("on $key never moves it to a place without effect", ({ key, value }) => {
    const advice: string[] = [];
    const read = (frontmatter: string) => {
      const { data } = parseMarkdownDocument(`---\n${frontmatter}\n---\nbody\n`);
      const { data: _, metadata: __, ...manifest } = readManifest(data, (code) => advice.push(FINDING_CODES[code].fix));
      return manifest;
    };
    const base = key === "description" ? "" : "description: d\n";
    const written = read(`${base}${key}: ${value}`);
    if (!advice.some((fix) => fix.includes("metadata"))) return;
    expect(read(`${base}metadata:\n  ${key}: ${value}`)).toEqual(written);
    expect(written).not.toEqual(read(base.trim()));
  });

  it("on keys of other clients leaves them where those clients read them", () => {
    for (const key of ["hooks", "shell", "handoffs", "background", "platforms"]) {
      const { data } = parseMarkdownDocument(`---\ndescription: d\n${key}: x\n---\nbody\n`);
      const codes: string[] = [];
      readManifest(data, (code) => codes.push(code));
      expect(codes, key).toEqual(["key-other-client"]);
    }
  });
});
